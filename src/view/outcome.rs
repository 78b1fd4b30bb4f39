//! The outcome of a call, in the same words and colours everywhere.
//!
//! There are four outcomes: a protocol error, a failed tool, a negative result, and success.
//! A negative result is one whose data reports a "no" (`"found": false`), although the tool
//! did its work.

use super::paint::Tone;
use super::units::count;
use crate::mcp::Outcomes;
use crate::mcp::content::Status;

/// The appearance of an outcome in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// A word for the outcome; empty where the message is no response.
    pub word: &'static str,
    /// A symbol at the end of the line.
    pub mark: &'static str,
    /// The tone of the method. Only a protocol error has one: its whole line is red.
    pub method: Option<Tone>,
    /// The tone of the summary of the response.
    pub about: Option<Tone>,
}

/// The appearance of a response's outcome. `None` is for messages that are no response.
pub fn look(status: Option<Status>) -> Look {
    match status {
        Some(Status::Error) => Look { word: "error", mark: "✗", method: Some(Tone::Error), about: Some(Tone::Error) },
        Some(Status::ToolError) => Look { word: "tool error", mark: "⊘", method: None, about: Some(Tone::Error) },
        Some(Status::Negative) => Look { word: "negative", mark: "∅", method: None, about: Some(Tone::Warning) },
        Some(Status::Ok) => Look { word: "ok", mark: "", method: None, about: None },
        None => Look { word: "", mark: "", method: None, about: None },
    }
}

/// Whether the call failed. A negative result is not a failure: the tool did its work.
pub fn is_failure(status: Option<Status>) -> bool {
    matches!(status, Some(Status::Error | Status::ToolError))
}

/// The requests of a client by their outcome: `43 calls (38 ok, 5 errors, 0 unanswered)`. Of those
/// that are ok, `negatives` have negative data. While the session lives, requests without a
/// response are open.
pub fn calls(outcomes: &Outcomes, negatives: u64, live: bool) -> String {
    let some = |number: u64, words: String| if number == 0 { String::new() } else { format!(", {words}") };
    let negative = if negatives == 0 { String::new() } else { format!(" of them {negatives} negative,") };
    format!(
        "{} ({} ok,{negative} {}{}{}, {} {})",
        count(outcomes.requests(), "call"),
        outcomes.ok,
        count(outcomes.errors, "error"),
        some(outcomes.tool_errors, count(outcomes.tool_errors, "tool error")),
        some(outcomes.cancelled, format!("{} cancelled", outcomes.cancelled)),
        outcomes.unanswered,
        if live { "open" } else { "unanswered" },
    )
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
