//! Display filters: a language that selects messages.
//!
//! ```text
//! tool = get_weather and latency > 200ms
//! kind = error or status = tool-error
//! params.arguments.email matches "@example\.(com|org)$"
//! quito                                                    a word in the message's text
//! ```
//!
//! `docs/filter.md` is the manual. The table [`fields`] defines the fields. [`Filter::parse`] makes
//! a tree of a text. The tree is evaluated on a message together with its context ([`Row`]).
//!
//! [`Expectation`] states what a whole recording has to satisfy, with filters that select messages.
//!
//! [`Fault`] is what `mcptap mock` does to the responses to some requests.
//!
//! [`EventFilter`] is for events as they arrive: it holds messages until the facts that a filter
//! needs are available. The store translates the tree into a condition of SQL (`store/filter/`),
//! which selects the same messages.

mod ast;
mod complete;
mod error;
mod eval;
mod event_filter;
mod expectation;
mod fault;
pub mod fields;
mod lex;
mod literal;
mod parse;
mod path;
mod print;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

pub use ast::{Comparison, Expr, Pattern, Scalar, Search, Test, Value};
pub use complete::{Completion, complete};
pub use error::FilterError;
pub(crate) use error::nearest;
pub use event_filter::EventFilter;
pub use expectation::{Expectation, MessageMeasure, Quantity, Requirement, Statistic, ToolsMeasure};
pub use fault::{Fault, FaultAction};
pub use fields::{FIELDS, Field, Settled};
pub use literal::{duration, size};
pub use path::{Path, Selector};

use crate::decode::exchange::Exchange;
use crate::findings::Severity;
use crate::mcp::{Message, Session};

/// A message together with the facts about it that a filter can test.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The message that is tested.
    pub message: &'a Message,
    /// Whether a response to it was captured so far.
    pub answered: bool,
    /// The ids of the rules that it breaks, as far as findings have been emitted.
    pub findings: &'a [&'static str],
    /// The severities of these findings.
    pub severities: &'a [Severity],
    /// The record of its session.
    pub session: Option<&'a Session>,
    /// The record of its HTTP exchange.
    pub exchange: Option<&'a Exchange>,
}

/// A parsed filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    expression: Expr,
}

impl Filter {
    /// Parses a filter. A filter of blanks only selects every message.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        parse::filter(text).map(|expression| Filter { expression })
    }

    /// The tree of the filter.
    pub fn expression(&self) -> &Expr {
        &self.expression
    }

    /// Whether the message passes.
    pub fn matches(&self, row: &Row<'_>) -> bool {
        self.expression.matches(row)
    }

    /// Evaluates a filter of one term on one value. For a path or a search the subject is the text
    /// of the message, else a value of the field as stored.
    ///
    /// The store calls this for everything that SQLite cannot compare. So both ways to run a filter
    /// share the code that decides.
    pub fn matches_subject(&self, subject: &[u8]) -> bool {
        self.expression.matches_subject(subject)
    }

    /// The moment from which on the filter's result for a message is final.
    pub fn settled(&self) -> Settled {
        self.fields().iter().map(|field| field.settled()).max().unwrap_or_default()
    }

    /// The fields that the filter tests.
    fn fields(&self) -> Vec<&Field> {
        fn collect<'a>(expression: &'a Expr, fields: &mut Vec<&'a Field>) {
            match expression {
                Expr::All(terms) | Expr::Any(terms) => terms.iter().for_each(|term| collect(term, fields)),
                Expr::Not(term) => collect(term, fields),
                Expr::Has(field) | Expr::Test(field, _) => fields.push(field),
                Expr::Text(_) => {}
            }
        }
        let mut fields = Vec::new();
        collect(&self.expression, &mut fields);
        fields
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

/// The body of the fuzz target.
///
/// No text may make the parser, the printer, the renderer or the completion panic. The position of
/// an error has to be inside the text. A parsed filter, printed, has to parse as the same tree.
pub fn fuzz_filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let characters = text.chars().count();
    match Filter::parse(&text) {
        Ok(filter) => {
            let printed = filter.to_string();
            // Printing adds parentheses, quotes and escapes. A text that gets too long by them
            // may be refused.
            match Filter::parse(&printed) {
                Ok(again) => assert_eq!(again, filter, "{printed}"),
                Err(error) => assert!(printed.len() > parse::LENGTH, "{printed}: {error}"),
            }
        }
        Err(error) => assert_inside(&error, characters),
    }
    for expectation in [Expectation::parse(&text), Expectation::parse(&format!("every {text}"))] {
        match expectation {
            Ok(expectation) => assert_eq!(Expectation::parse(&expectation.to_string()).as_ref(), Ok(&expectation)),
            Err(error) => assert_inside(&error, error.filter.chars().count()),
        }
    }
    for fault in [text.to_string(), format!("{text}: cut 1"), format!("tool: {text}")] {
        if let Err(error) = Fault::parse(&fault) {
            assert_inside(&error, fault.chars().count());
        }
    }
    for (cursor, _) in text.char_indices().step_by(characters / 8 + 1).chain([(text.len(), ' ')]) {
        for completion in complete(&text, cursor) {
            assert!(completion.start <= cursor && text.is_char_boundary(completion.start));
        }
    }
}

/// Checks that the place of an error is inside its text.
fn assert_inside(error: &FilterError, characters: usize) {
    assert!((1..=characters + 1).contains(&error.column), "{error}");
    assert!(error.column - 1 + error.length <= characters, "{error}");
    assert!(!error.message.is_empty());
    error.render(characters % 100);
}
