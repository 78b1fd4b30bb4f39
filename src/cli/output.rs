//! Standard output and error, as a terminal or as a file.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

use super::args::Colour;
use crate::view::paint::Paint;
use crate::view::transcript::LineFormatter;

/// Standard output, buffered; flushed when nothing comes for the moment.
pub type Output = BufWriter<Stdout>;

/// Bytes collected before a write: few enough to be in the processor's second-level cache still when they are written over.
const BUFFER: usize = 16 << 10;

/// Standard output.
pub fn stdout() -> Output {
    BufWriter::with_capacity(BUFFER, io::stdout())
}

/// Writes one JSON line, made in `buffer` so that many lines need no memory of their own.
pub fn json_line(out: &mut dyn Write, buffer: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    buffer.clear();
    write(buffer);
    out.write_all(buffer)
}

/// Whether to colour what goes to standard output (<https://no-color.org>).
pub fn paint(colour: Colour) -> Paint {
    let on = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    Paint { on }
}

/// Columns of the terminal on standard output, where it is one.
pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Columns to fill.
pub fn width() -> usize {
    terminal_width().unwrap_or(LineFormatter::WIDTH)
}

/// A line of progress on standard error, where that is a terminal.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    on: bool,
    tenths: u64,
}

impl Progress {
    /// Shows nothing unless standard error is a terminal and standard output is not (lines would run into each other).
    pub fn new() -> Progress {
        Progress { shown: false, on: io::stderr().is_terminal() && !io::stdout().is_terminal(), tenths: u64::MAX }
    }

    /// So far.
    pub fn set(&mut self, read: u64, total: Option<u64>) {
        let Some(total) = total.filter(|total| self.on && *total > 0) else { return };
        let tenths = read.saturating_mul(1_000) / total;
        if tenths != self.tenths {
            self.tenths = tenths;
            self.shown = true;
            let _ = write!(io::stderr(), "\r{:>3}.{} % read", tenths / 10, tenths % 10);
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r                \r");
        }
    }
}
