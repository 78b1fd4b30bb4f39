//! Filters: the language in which people say which messages they want to see.
//!
//! ```text
//! tool = get_weather and latency > 200ms
//! kind = error or status = tool-error
//! params.arguments.email matches "@example\.(com|org)$"
//! quito                                                    a word in the message's text
//! ```
//!
//! `docs/filter.md` is the manual. One table ([`fields`]) says which fields there are; [`parse`](Filter::parse) makes a
//! tree of a text, which is evaluated on a message with what is known around it ([`Row`]). [`Stream`] is for messages that
//! pass by once: it holds them until the records that a filter asks for are there. The store makes its own condition of the tree
//! (`store/filter/`), which lets the same messages through.

mod ast;
mod complete;
mod error;
mod eval;
pub mod fields;
mod lex;
mod literal;
mod parse;
mod path;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::str::FromStr;

pub use ast::{Comparison, Expr, Pattern, Scalar, Search, Test, Value};
pub use complete::{Completion, complete};
pub use error::FilterError;
pub use fields::{FIELDS, Field, Settled};
pub use path::{Path, Step};
pub use stream::Stream;

use crate::decode::exchange::Exchange;
use crate::findings::Severity;
use crate::mcp::{Message, Session};

/// A message and what is known around it.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// The message.
    pub message: &'a Message,
    /// The tool that is called: [`content::tool`](crate::mcp::content::tool) of the request, for the request and for its answer.
    pub tool: Option<&'a str>,
    /// Whether an answer to it is known.
    pub answered: bool,
    /// The rules that it breaks, as far as is known.
    pub findings: &'a [&'static str],
    /// How bad what breaks them is, as far as is known.
    pub severities: &'a [Severity],
    /// The message's session.
    pub session: Option<&'a Session>,
    /// The message's HTTP exchange.
    pub exchange: Option<&'a Exchange>,
}

/// A filter, ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    expression: Expr,
}

impl Filter {
    /// Reads a filter. One of nothing but blanks lets every message through.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        parse::filter(text).map(|expression| Filter { expression })
    }

    /// The filter as a tree.
    pub fn expression(&self) -> &Expr {
        &self.expression
    }

    /// Whether the filter lets this message through.
    pub fn matches(&self, row: &Row<'_>) -> bool {
        self.expression.matches(row)
    }

    /// Judges a filter of one term by its subject alone: for a path or a search the text of the message, else a value of the field as
    /// stored. The store asks for what it cannot compare itself, so that both ways to run a filter share the code that decides.
    pub fn matches_subject(&self, subject: &[u8]) -> bool {
        self.expression.matches_subject(subject)
    }

    /// When the last fact that the filter rests on is known; before that its answer may still change.
    pub fn settled(&self) -> Settled {
        self.fields().iter().map(|field| field.settled()).max().unwrap_or_default()
    }

    /// The fields that the filter asks for.
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

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Filter, FilterError> {
        Filter::parse(text)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

/// The body of the fuzz target: no text makes the parser, the printer, the renderer or the completion fail; an error
/// points into the text; what was read prints as a text that reads the same.
pub fn fuzz_filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let characters = text.chars().count();
    match Filter::parse(&text) {
        Ok(filter) => {
            let printed = filter.to_string();
            // Printing adds parentheses, quotes and escapes; what then is too long is refused, never misread.
            match Filter::parse(&printed) {
                Ok(again) => assert_eq!(again, filter, "{printed}"),
                Err(error) => assert!(printed.len() > parse::LENGTH, "{printed}: {error}"),
            }
        }
        Err(error) => {
            assert!((1..=characters + 1).contains(&error.column), "{error}");
            assert!(error.column - 1 + error.length <= characters, "{error}");
            assert!(!error.message.is_empty());
            error.render(characters % 100);
        }
    }
    for (cursor, _) in text.char_indices().step_by(characters / 8 + 1).chain([(text.len(), ' ')]) {
        for completion in complete(&text, cursor) {
            assert!(completion.start <= cursor && text.is_char_boundary(completion.start));
        }
    }
}
