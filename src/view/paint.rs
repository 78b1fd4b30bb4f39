//! Colours with a meaning: direction, outcome, and dim for details. Without colour the text stays
//! as it is.

use anstyle::{AnsiColor, Style};

use crate::findings::Severity;

/// The meaning of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// The client sent it.
    Client,
    /// The server sent it.
    Server,
    /// An error: a failure, a loss, or a violation of a MUST.
    Error,
    /// A warning, or an outcome that needs attention.
    Warning,
    /// A success, such as a test that passed.
    Good,
    /// The most important text of a line.
    Strong,
    /// A detail that few readers need.
    Dim,
    /// Any other text.
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

/// Colours text, or leaves it as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// Whether text is coloured.
    pub on: bool,
}

impl Paint {
    /// The text in a tone.
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
