//! What happened around the messages, as rows between them.

use std::io;

use super::Html;
use super::escaped::Escaped;
use crate::mcp::Note;
use crate::view::paint::Tone;
use crate::view::stderr_fold::Folded;
use crate::view::{notes, secrets, transcript, units};

impl Html<'_> {
    /// Writes a note, or the number of lines of stderr that are left out.
    ///
    /// # Errors
    /// The output fails.
    pub fn note(&mut self, part: &Folded) -> io::Result<()> {
        match part {
            Folded::Line(note) => self.note_row(note),
            Folded::Omitted(lines) => {
                let lines = units::count(*lines, "more line");
                self.row("dim", ["", "┊", "stderr", &format!("… {lines}")], "")
            }
        }
    }

    fn note_row(&mut self, note: &Note) -> io::Result<()> {
        let words = notes::words(&note.kind);
        let class = match words.tone {
            Tone::Error => "error",
            Tone::Warning => "warning",
            _ => "dim",
        };
        let at = units::relative(note.time, self.start);
        let messages = [words.messages, transcript::packets(&note.packets)].join(" ");
        let about = secrets::shown(&words.about);
        self.row(class, [&at, words.sign, &words.what, &about], messages.trim())
    }

    fn row(&mut self, class: &str, [at, sign, what, about]: [&str; 4], messages: &str) -> io::Result<()> {
        writeln!(self.out, "<div class=\"note {class}\"><span class=\"at\">{at}</span><span>{sign}</span>")?;
        writeln!(
            self.out,
            "<span>{}</span><span class=\"about\">{}</span><span class=\"dim\">{}</span></div>",
            Escaped(what),
            Escaped(about),
            Escaped(messages)
        )
    }
}
