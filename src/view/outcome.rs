//! How a call came out, as it looks everywhere: a protocol error, a tool that failed, an answer that says no, and an answer are four
//! different things.

use super::paint::Tone;
use crate::mcp::content::Status;

/// How an outcome looks in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// In a word; empty where nothing was answered.
    pub word: &'static str,
    /// The mark at the line's end.
    pub mark: &'static str,
    /// The tone of the method, and of the mark: an error of the protocol has reddened the whole line.
    pub method: Option<Tone>,
    /// The tone of what the answer says.
    pub about: Option<Tone>,
}

/// How the outcome of an answer looks; `None`: it answers nothing.
pub fn look(status: Option<Status>) -> Look {
    match status {
        Some(Status::Error) => Look { word: "error", mark: "✗", method: Some(Tone::Error), about: Some(Tone::Error) },
        Some(Status::ToolError) => Look { word: "tool error", mark: "⊘", method: None, about: Some(Tone::Error) },
        Some(Status::Negative) => Look { word: "says no", mark: "∅", method: None, about: Some(Tone::Warning) },
        Some(Status::Ok) => Look { word: "ok", mark: "", method: None, about: None },
        None => Look { word: "", mark: "", method: None, about: None },
    }
}

/// Whether it says that something failed. An answer that says no is none of these: the tool did its work.
pub fn is_failure(status: Option<Status>) -> bool {
    matches!(status, Some(Status::Error | Status::ToolError))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_outcomes_look_alike() {
        let all =
            [None, Some(Status::Ok), Some(Status::Negative), Some(Status::ToolError), Some(Status::Error)].map(look);
        for (position, one) in all.iter().enumerate() {
            for other in &all[position + 1..] {
                assert_ne!(one.word, other.word);
                assert!(one.mark != other.mark || one.mark.is_empty());
            }
        }
    }
}
