//! Colour with a meaning: direction, outcome, and dim for plumbing. Off, it changes nothing.

use anstyle::{AnsiColor, Style};

use crate::findings::Severity;

/// What a piece of text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// From the client.
    Client,
    /// From the server.
    Server,
    /// Failed, lost, against a MUST.
    Error,
    /// Doubtful.
    Warning,
    /// Done.
    Good,
    /// What the eye looks for first.
    Strong,
    /// Plumbing.
    Dim,
    /// The rest.
    Plain,
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Tone {
        match severity {
            Severity::Error => Tone::Error,
            Severity::Warning => Tone::Warning,
            Severity::Info => Tone::Dim,
        }
    }
}

/// Whether and how text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// Off: text stays as it is.
    pub on: bool,
}

impl Paint {
    /// `text` in a tone.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        if !self.on || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        let style = match tone {
            Tone::Client => Style::new().fg_color(Some(AnsiColor::Cyan.into())),
            Tone::Server => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Tone::Error => Style::new().fg_color(Some(AnsiColor::Red.into())).bold(),
            Tone::Warning => Style::new().fg_color(Some(AnsiColor::Yellow.into())),
            Tone::Good => Style::new().fg_color(Some(AnsiColor::Green.into())),
            Tone::Strong => Style::new().bold(),
            Tone::Dim => Style::new().dimmed(),
            Tone::Plain => Style::new(),
        };
        format!("{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_means_unchanged() {
        assert_eq!(Paint { on: false }.paint(Tone::Error, "x"), "x");
        assert_eq!(Paint { on: true }.paint(Tone::Plain, "x"), "x");
        assert!(Paint { on: true }.paint(Tone::Dim, "x").contains('\u{1b}'));
    }
}
