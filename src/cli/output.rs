//! Standard output and standard error, which may be a terminal or a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::args::Colour;
use crate::view::paint::Paint;
use crate::view::secrets;
use crate::view::transcript::LineFormatter;

/// Buffered standard output. It is flushed when no input is waiting.
pub type Output = BufWriter<Printed>;

/// Standard output, or the memory of a caller that checks what a command prints.
#[derive(Debug)]
pub enum Printed {
    /// The standard output of this process.
    Stdout(Stdout),
    /// The memory of the caller of [`collect`].
    Memory(Arc<Mutex<Collected>>),
}

/// What a command printed.
#[derive(Debug, Default)]
pub struct Collected {
    /// On standard output.
    pub out: Vec<u8>,
    /// On standard error.
    pub notes: Vec<u8>,
}

thread_local! {
    static COLLECTED: RefCell<Option<Arc<Mutex<Collected>>>> = const { RefCell::new(None) };
}

/// Runs a command on this thread, and returns what it prints instead of printing it.
pub fn collect<T>(run: impl FnOnce() -> T) -> (T, Collected) {
    let memory = Arc::default();
    COLLECTED.set(Some(Arc::clone(&memory)));
    let result = run();
    COLLECTED.set(None);
    let collected = std::mem::take(&mut *memory.lock().unwrap_or_else(PoisonError::into_inner));
    (result, collected)
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Printed::Stdout(stdout) => stdout.write(bytes),
            Printed::Memory(memory) => memory.lock().unwrap_or_else(PoisonError::into_inner).out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Printed::Stdout(stdout) => stdout.flush(),
            Printed::Memory(_) => Ok(()),
        }
    }
}

/// Size of the buffer in bytes: small enough to stay in the processor's second-level cache.
const BUFFER: usize = 16 << 10;

/// Prints a note or an error on standard error, as [`say`] does. It takes what `format!` takes.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::cli::output::say(&format!("mcptap: {}", format_args!($($text)*)))
    };
}
pub(super) use note;

/// Prints lines on standard error. They may repeat text of a file, a server, a configuration or the
/// command line. Secrets are masked, and nothing of it acts on the terminal.
pub fn say(text: &str) {
    let lines: Vec<_> = text.lines().map(secrets::shown).collect();
    let lines = lines.join("\n");
    if let Some(memory) = COLLECTED.with_borrow(Clone::clone) {
        return memory.lock().unwrap_or_else(PoisonError::into_inner).notes.extend([lines.as_bytes(), b"\n"].concat());
    }
    // Nobody can be told that standard error is closed.
    let _ = writeln!(io::stderr(), "{lines}");
}

/// Whether somebody at a terminal can answer a question.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question that is answered with yes or no.
pub fn ask(question: &str) -> io::Result<bool> {
    let _ = write!(io::stderr(), "mcptap: {} [y/N] ", secrets::shown(question));
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

/// Standard output with its buffer.
pub fn stdout() -> Output {
    let printed = COLLECTED.with_borrow(Clone::clone).map_or_else(|| Printed::Stdout(io::stdout()), Printed::Memory);
    BufWriter::with_capacity(BUFFER, printed)
}

/// Empties a file, or makes one that only its owner can read, because captured data is private.
/// A file that is there keeps its rights.
pub fn create_private(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Writes one JSON line, made in `buffer` so that many lines need no memory of their own.
pub fn json_line(out: &mut dyn Write, buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    buffer.clear();
    write(buffer);
    out.write_all(buffer)
}

/// Whether standard output is coloured (<https://no-color.org>).
pub fn paint(colour: Colour) -> Paint {
    let on = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    Paint { on }
}

/// Columns of the terminal on standard output. `None` where it is not a terminal.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Columns to fill: those of the terminal, or a default.
pub fn width() -> usize {
    terminal_width().unwrap_or(LineFormatter::WIDTH)
}

/// The format of lines about sessions.
pub fn format(colour: Colour) -> LineFormatter {
    LineFormatter { paint: paint(colour), width: width(), start: None, sessions: false }
}

/// A line of progress on standard error, if that is a terminal.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    on: bool,
    tenths: u64,
}

impl Progress {
    /// Makes a progress line. It is shown only if standard error is a terminal and standard output
    /// is not, so that lines do not mix.
    pub fn new() -> Progress {
        Progress { shown: false, on: io::stderr().is_terminal() && !io::stdout().is_terminal(), tenths: u64::MAX }
    }

    /// Shows the progress so far.
    pub fn set(&mut self, read: u64, total: Option<u64>) {
        let Some(total) = total.filter(|total| self.on && *total > 0) else { return };
        let tenths = read.saturating_mul(1_000) / total;
        if tenths != self.tenths {
            self.tenths = tenths;
            self.shown = true;
            let _ = write!(io::stderr(), "\r{:>3}.{} % read", tenths / 10, tenths % 10);
        }
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r                \r");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_private_and_an_old_one_keeps_its_rights() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw.pcapng");
        let mode = |file: File| file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(create_private(&path).unwrap()), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::fs::write(&path, "old").unwrap();
        let again = create_private(&path).unwrap();
        assert_eq!((again.metadata().unwrap().len(), mode(again)), (0, 0o640));
    }
}
