//! Faults that `mcptap mock --fault` injects: the requests, and what happens to their responses.
//!
//! ```text
//! fault  = filter ":" action
//! action = "delay" duration | "error" code [ quoted ] | "drop" | "cut" bytes
//! ```
//!
//! The filter tests the client's request. `docs/cli.md` is the manual.

use nom::Parser;
use nom::combinator::opt;
use nom::sequence::preceded;

use super::Filter;
use super::error::{FilterError, nearest};
use super::expectation::{at_end, filter};
use super::fields::{Field, FieldId};
use super::lex::{SyntaxError, Token, blank, quoted, token, word};
use super::literal::{duration, size};
use super::parse::located;

/// A fault: the requests that it is about, and what happens to their responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Selects the client's requests.
    pub filter: Filter,
    /// What happens to the response.
    pub action: FaultAction,
}

/// What happens to the response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAction {
    /// It is sent so many nanoseconds later.
    Delay(u64),
    /// An error with this code and message is sent instead.
    Error(i64, Option<String>),
    /// It is never sent.
    Drop,
    /// Only its first bytes are sent. Then the connection or the pipe is closed.
    Cut(usize),
}

/// The words of the actions.
const ACTIONS: [&str; 4] = ["delay", "error", "drop", "cut"];

impl Fault {
    /// Parses a fault.
    ///
    /// # Errors
    /// The text is not a fault. The error has the column in the whole text.
    pub fn parse(text: &str) -> Result<Fault, FilterError> {
        let Some((selected, rest)) = split(text) else {
            filter(text, text)?;
            return Err(at_end(text, text, ": and an action, as in tool = add: delay 2s"));
        };
        let filter = filter(text, selected)?;
        let unknown = |field: &&Field| match field {
            Field::Known(field) => !KNOWN.contains(&field.key),
            Field::Header(_) => true,
            Field::Path(_) => false,
        };
        if let Some(field) = filter.fields().into_iter().find(unknown) {
            let error = SyntaxError::new(selected, format!("{field} cannot select the requests of a fault"));
            return Err(located(text, error.expected(&["method, tool, kind, id, size, params or json"])));
        }
        let action = action(text, rest)?;
        Ok(Fault { filter, action })
    }
}

/// The fields that a request has by itself.
const KNOWN: [FieldId; 5] = [FieldId::Method, FieldId::Tool, FieldId::Kind, FieldId::Id, FieldId::Size];

/// Splits a fault at the first colon that ends a word outside parentheses. The parts are before and
/// after it. Colons are characters of words: `tool = add: drop` has the word `add:`.
fn split(text: &str) -> Option<(&str, &str)> {
    let (mut rest, mut depth) = (text, 0_i32);
    while let Some((after, found)) = token(rest) {
        match found {
            Token::Sign('(' | '{') => depth += 1,
            Token::Sign(')' | '}') => depth -= 1,
            Token::Word(word) if depth == 0 && word.ends_with(':') => {
                let colon = text.len() - after.len() - 1;
                return Some((&text[..colon], after));
            }
            _ => {}
        }
        rest = after;
    }
    None
}

fn action(text: &str, rest: &str) -> Result<FaultAction, FilterError> {
    let Ok((rest, name)) = preceded(blank, word).parse(rest) else {
        return Err(at_end(text, &rest[..0], "delay 2s, error -32603, drop or cut 10"));
    };
    if !ACTIONS.contains(&name) {
        let mut error = SyntaxError::new(name, format!("there is no action {name}"));
        error.expected = nearest(name, ACTIONS.into_iter());
        if error.expected.is_empty() {
            error.expected = ACTIONS.map(str::to_owned).to_vec();
        }
        return Err(located(text, error));
    }
    let (rest, value) = match opt(preceded(blank, word)).parse(rest) {
        Ok((rest, value)) => (rest, value.unwrap_or_default()),
        Err(_) => (rest, ""),
    };
    let wrong = |expected: &str| {
        let error = SyntaxError::new(value, format!("{name} needs a value")).expected(&[expected]);
        if value.is_empty() { at_end(text, &rest[..0], expected) } else { located(text, error) }
    };
    let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
    let mut rest = rest;
    let action = match name {
        "delay" => positive(duration(value)).map(FaultAction::Delay).ok_or_else(|| wrong("a duration such as 2s"))?,
        "cut" => {
            let bytes = positive(size(value)).and_then(|bytes| usize::try_from(bytes).ok());
            bytes.map(FaultAction::Cut).ok_or_else(|| wrong("a number of bytes such as 10"))?
        }
        "error" => {
            let code = value.parse().map_err(|_| wrong("a code such as -32603"))?;
            let message = match opt(preceded(blank, quoted)).parse(rest) {
                Ok((after, message)) => {
                    rest = after;
                    message
                }
                Err(nom::Err::Failure(error)) => return Err(located(text, error)),
                Err(_) => None,
            };
            FaultAction::Error(code, message)
        }
        _ if value.is_empty() => FaultAction::Drop,
        _ => return Err(located(text, SyntaxError::new(value, "drop takes no value"))),
    };
    if !rest.trim().is_empty() {
        return Err(at_end(text, &rest[..0], "the end"));
    }
    Ok(action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_read() {
        let action = |text| Fault::parse(text).unwrap_or_else(|error| panic!("{}", error.render(90))).action;
        assert_eq!(action("tool = x: delay 2s"), FaultAction::Delay(2_000_000_000));
        assert_eq!(action("tool = x : error -32603"), FaultAction::Error(-32603, None));
        assert_eq!(action("tool = x: error 7 \"not now\""), FaultAction::Error(7, Some("not now".into())));
        assert_eq!(action("method = ping or (params.a = b:): drop"), FaultAction::Drop);
        assert_eq!(action("params.url = \"http://x: y\": cut 10"), FaultAction::Cut(10));
    }

    #[test]
    fn errors_name_their_place() {
        for (text, column, length) in [
            ("", 1, 0),
            ("tool = x", 9, 0),
            ("tool = x:", 10, 0),
            ("tol = x: drop", 1, 3),
            ("latency > 1s: drop", 1, 12),
            ("tool = x: dely 2s", 11, 4),
            ("tool = x: delay", 16, 0),
            ("tool = x: delay 2", 17, 1),
            ("tool = x: error none", 17, 4),
            ("tool = x: cut -1", 15, 2),
            ("tool = x: drop 1", 16, 1),
            ("tool = x: cut 1 now", 17, 1),
        ] {
            let error = Fault::parse(text).expect_err(text);
            assert_eq!((error.column, error.length), (column, length), "{text}\n{}", error.render(90));
        }
    }
}
