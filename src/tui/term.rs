//! The terminal: taken on entry, given back on every way out: return, panic, signal, sleep.

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

/// Whether the terminal is taken: giving it back twice would undo what was set before us.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while it is ours.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes it.
    ///
    /// # Errors
    /// There is no terminal, or it cannot be set.
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

    /// Gives it back, stops this process until it is continued, and takes it again.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub fn sleep(&mut self) -> Result<()> {
        give_back();
        // Stopped here; `fg` goes on behind this line. SIGSTOP cannot be caught: the handlers for the other signals stay.
        #[cfg(unix)]
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)
            .context("cannot suspend")?;
        take().context("cannot use the terminal again")?;
        self.clear()
    }

    /// Forgets what is on it: the next frame is drawn whole.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn clear(&mut self) -> Result<()> {
        // ratatui's own clear() asks the terminal where its cursor is, and the thread that reads keys would get the answer.
        execute!(stdout(), Clear(ClearType::All)).context("cannot clear the terminal")?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout())).context("cannot use the terminal")?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> std::io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, EnableMouseCapture)
}

/// As it was before. Errors have nobody to hear them: the terminal may be what is gone.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}

/// A panic's message would be drawn over by the screen and vanish with it: the terminal is given back first.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}
