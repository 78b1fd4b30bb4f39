//! The terminal: set up at the start, and restored on every way out: return,
//! panic, signal, suspension.

use std::io::{Stdout, Write, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// Whether the terminal is set up. Restoring it twice would undo settings made by others.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the program draws on it.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Sets up the terminal.
    ///
    /// # Errors
    ///
    /// There is no terminal, or it cannot be configured.
    pub fn take() -> Result<Screen> {
        restore_on_panic();
        take().context("cannot use the terminal: is standard output one?")?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).context("cannot use the terminal")?;
        Ok(Screen { terminal })
    }

    /// The terminal to draw on.
    pub fn terminal(&mut self) -> &mut Terminal<CrosstermBackend<Stdout>> {
        &mut self.terminal
    }

    /// Restores the terminal, stops this process until it is continued, and sets the
    /// terminal up again.
    pub fn suspend(&mut self) -> Result<()> {
        restore();
        // The process stops here; `fg` continues it on the next line. SIGSTOP cannot be caught, so
        // the handlers of other signals stay.
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
            .context("cannot suspend")?;
        take().context("cannot use the terminal again")?;
        self.clear()
    }

    /// Discards the drawn screen: the next frame is drawn completely.
    pub fn clear(&mut self) -> Result<()> {
        // ratatui's own clear() queries the terminal for the cursor position. The thread that reads
        // keys would receive the reply.
        execute!(stdout(), Clear(ClearType::All)).context("cannot clear the terminal")?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout())).context("cannot use the terminal")?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> std::io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, EnableMouseCapture)
}

/// Restores the terminal. Errors are ignored, because the terminal itself may be gone.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}

/// Restores the terminal before a panic's message is printed. The screen would hide
/// the message otherwise.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}
