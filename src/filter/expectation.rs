//! Expectations: what a recording has to satisfy, as `mcptap check --expect` takes it. They select
//! messages with filters.
//!
//! ```text
//! expectation = "some" filter                       at least one message passes
//!             | "no" filter                         no message passes
//!             | "every" filter "has" filter         no message passes only the first
//!             | quantity comparison value [ "where" filter ]
//! quantity    = "count" | statistic measure | "tools.count" | "tools.bytes" | "tools.tokens"
//! statistic   = "min" | "mean" | "p50" | "p90" | "p95" | "p99" | "max" | "sum"
//! measure     = "latency" | "size" | "elapsed"
//! ```
//!
//! `docs/ci.md` is the manual.

use std::fmt;

use nom::Parser;
use nom::sequence::preceded;

use super::Filter;
use super::ast::{Comparison, Expr, Value};
use super::error::{FilterError, nearest};
use super::eval::holds;
use super::fields::Field;
use super::lex::{Operator, SyntaxError, Token, blank, literal, operator, token, word};
use super::literal::{self, Mismatch};
use super::parse::{LENGTH, TERMS, first, located, terms};

/// The words that begin an expectation.
const FORMS: [&str; 3] = ["some", "no", "every"];

/// An expectation: its text and the requirement that it states.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    text: String,
    /// The requirement on the recording.
    pub requirement: Requirement,
}

/// The requirement of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub enum Requirement {
    /// At least one message passes.
    Some(Filter),
    /// No message passes.
    No(Filter),
    /// Each selected message passes another filter.
    Every {
        /// The selected messages.
        selected: Filter,
        /// The selected messages that do not pass the other filter.
        broken: Filter,
    },
    /// A quantity of the selected messages is within a bound.
    Quantity {
        /// The number that is compared.
        quantity: Quantity,
        /// The comparison with the bound.
        comparison: Comparison,
        /// The bound: a count, bytes, tokens or nanoseconds.
        bound: i64,
        /// The messages that count. For a statistic only those that have the measure.
        selected: Filter,
    },
}

/// A number that an expectation compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The number of messages.
    Count,
    /// A statistic of a measure.
    Statistic(Statistic, MessageMeasure),
    /// A number about the latest list of tools of a session.
    Tools(ToolsMeasure),
}

/// A statistic of several values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The percentile by the nearest-rank method. 0 is the smallest value, 100 the largest.
    Percentile(u8),
    /// The arithmetic mean.
    Mean,
    /// The total of all values.
    Sum,
}

mcptap_core::words! {
    /// A number that each message may have, with the field of the filter language that has it.
    pub enum MessageMeasure {
        /// Nanoseconds from the request to the response, on responses.
        Latency = "latency",
        /// Bytes of the text.
        Size = "size",
        /// Nanoseconds since the first message of the session.
        Elapsed = "elapsed",
    }
}

mcptap_core::words! {
    /// A number about a list of tools.
    pub enum ToolsMeasure {
        /// The number of tools.
        Count = "tools.count",
        /// Bytes of their definitions, as sent.
        Bytes = "tools.bytes",
        /// Tokens of their definitions in a model's context, estimated from the bytes.
        Tokens = "tools.tokens",
    }
}

const STATISTICS: [(&str, Statistic); 8] = [
    ("p50", Statistic::Percentile(50)),
    ("p90", Statistic::Percentile(90)),
    ("p95", Statistic::Percentile(95)),
    ("p99", Statistic::Percentile(99)),
    ("min", Statistic::Percentile(0)),
    ("max", Statistic::Percentile(100)),
    ("mean", Statistic::Mean),
    ("sum", Statistic::Sum),
];

impl Statistic {
    /// The word of the language.
    pub fn name(self) -> &'static str {
        STATISTICS.iter().find(|(_, statistic)| *statistic == self).map_or("", |(name, _)| name)
    }
}

impl MessageMeasure {
    /// Whether it is a number of nanoseconds. Otherwise it is a number of bytes.
    pub fn is_duration(self) -> bool {
        self != MessageMeasure::Size
    }
}

impl Comparison {
    /// Whether a number compares with a bound in this way.
    pub fn holds(self, number: i64, bound: i64) -> bool {
        holds(self, Some(number.cmp(&bound)))
    }

    /// Whether a larger number cannot make the comparison true again.
    pub fn is_upper(self) -> bool {
        matches!(self, Comparison::Less | Comparison::LessOrEqual | Comparison::Equal)
    }
}

impl Expectation {
    /// Parses an expectation.
    ///
    /// # Errors
    /// The text is not an expectation. The error has the column in the whole text.
    pub fn parse(text: &str) -> Result<Expectation, FilterError> {
        if text.chars().count() > LENGTH {
            let error = SyntaxError::new(text, format!("an expectation has at most {LENGTH} characters"));
            return Err(located(text, error));
        }
        let start = text.trim_start();
        let requirement = match word(start) {
            Ok((rest, "some")) => Requirement::Some(filter(text, rest)?),
            Ok((rest, "no")) => Requirement::No(filter(text, rest)?),
            Ok((rest, "every")) => every(text, rest)?,
            _ => quantity(text, start)?,
        };
        let requirement = match &requirement {
            Requirement::Every { broken: filter, .. } | Requirement::Quantity { selected: filter, .. }
                if terms(&filter.expression) > TERMS =>
            {
                let error = SyntaxError::new(text, format!("an expectation has at most {TERMS} terms"));
                return Err(located(text, error));
            }
            _ => requirement,
        };
        Ok(Expectation { text: text.trim().to_owned(), requirement })
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses the filter in `part`, a piece of `text`. It has to select something.
pub(super) fn filter(text: &str, part: &str) -> Result<Filter, FilterError> {
    if part.trim().is_empty() {
        return Err(at_end(text, part.trim_end(), "a filter such as tool = add"));
    }
    Filter::parse(part).map_err(|error| {
        let before = part.as_ptr() as usize - text.as_ptr() as usize;
        let column = text[..before].chars().count() + error.column;
        FilterError { filter: text.to_owned(), column, ..error }
    })
}

/// The error that something is missing behind `before`, a piece of `text`.
pub(super) fn at_end(text: &str, before: &str, expected: &str) -> FilterError {
    let end = before.as_ptr() as usize - text.as_ptr() as usize + before.len();
    let rest = text[end..].trim_start();
    match first(rest) {
        "" => located(text, SyntaxError::new("", "the text ends too early").expected(&[expected])),
        found => located(text, SyntaxError::new(found, format!("unexpected {found}")).expected(&[expected])),
    }
}

/// Splits a text at a keyword that is no value and is outside parentheses. The parts are
/// before and after it.
fn split<'a>(text: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (mut rest, mut depth, mut is_value) = (text, 0_i32, false);
    while let Some((after, found)) = token(rest) {
        match found {
            Token::Word(found) if !is_value && depth == 0 && found == keyword => {
                let start = text.len() - after.len() - keyword.len();
                return Some((&text[..start], after));
            }
            Token::Sign('(' | '{') => depth += 1,
            Token::Sign(')' | '}') => depth -= 1,
            _ => {}
        }
        is_value = matches!(found, Token::Operator(_));
        rest = after;
    }
    None
}

/// Parses the rest of `every FILTER has FILTER`.
fn every(text: &str, rest: &str) -> Result<Requirement, FilterError> {
    let Some((selected, wanted)) = split(rest, "has") else {
        filter(text, rest)?;
        return Err(at_end(text, rest, "has, and the filter that every such message has to pass"));
    };
    let (selected, wanted) = (filter(text, selected)?, filter(text, wanted)?);
    let broken = Expr::All(vec![selected.expression.clone(), Expr::Not(Box::new(wanted.expression))]);
    Ok(Requirement::Every { selected, broken: Filter { expression: broken } })
}

/// Parses a comparison of a quantity.
fn quantity(text: &str, start: &str) -> Result<Requirement, FilterError> {
    let Ok((mut rest, name)) = word(start) else {
        return Err(at_end(text, &start[..0], "some, no, every, count, or a statistic such as p95 latency"));
    };
    let quantity = if name == "count" {
        Quantity::Count
    } else if let Some(measure) = ToolsMeasure::named(name) {
        Quantity::Tools(measure)
    } else if let Some((_, statistic)) = STATISTICS.iter().find(|(known, _)| *known == name) {
        let Ok((after, measure)) = preceded(blank, word).parse(rest) else {
            return Err(at_end(text, &rest[..0], "latency, size or elapsed"));
        };
        let Some(measure) = MessageMeasure::named(measure) else {
            let error = SyntaxError::new(measure, format!("{name} cannot be taken of {measure}"));
            return Err(located(text, error.expected(&MessageMeasure::ALL.map(MessageMeasure::name))));
        };
        rest = after;
        Quantity::Statistic(*statistic, measure)
    } else {
        return Err(unknown(text, name));
    };
    let (rest, comparison) = match preceded(blank, operator).parse(rest) {
        Ok((rest, (_, Operator::Compare(comparison)))) => (rest, comparison),
        Ok((_, (sign, _))) => {
            let error = SyntaxError::new(sign, "a number is compared with =, !=, <, <=, > or >=");
            return Err(located(text, error));
        }
        Err(_) => return Err(at_end(text, &rest[..0], "a comparison such as <")),
    };
    let (rest, written, bound) = match preceded(blank, literal).parse(rest) {
        Ok((rest, (written, value))) => (rest, written, value),
        Err(nom::Err::Failure(error)) => return Err(located(text, error)),
        Err(_) => return Err(at_end(text, &rest[..0], "a number")),
    };
    let bound = read_bound(quantity, &bound)
        .map_err(|Mismatch { message, expected }| located(text, SyntaxError { at: written, message, expected }))?;
    let selected = match word(rest.trim_start()) {
        Err(_) if rest.trim().is_empty() => Filter { expression: Expr::All(Vec::new()) },
        Ok((after, "where")) if !matches!(quantity, Quantity::Tools(_)) => filter(text, after)?,
        Ok((_, found @ "where")) => {
            let error = SyntaxError::new(found, format!("{name} is about whole sessions and takes no filter"));
            return Err(located(text, error));
        }
        _ => return Err(at_end(text, &rest[..0], "where, or the end")),
    };
    Ok(Requirement::Quantity { quantity, comparison, bound, selected: with_measure(selected, quantity) })
}

/// Adds to a filter that a message has the measure.
fn with_measure(selected: Filter, quantity: Quantity) -> Filter {
    let Quantity::Statistic(_, measure) = quantity else { return selected };
    let Some(field) = Field::known(measure.name()) else { return selected };
    Filter { expression: Expr::All(vec![selected.expression, Expr::Has(field)]) }
}

/// Reads the number that a quantity is compared with.
fn read_bound(quantity: Quantity, value: &literal::Literal) -> Result<i64, Mismatch> {
    let field = match quantity {
        Quantity::Statistic(_, measure) => measure.name(),
        Quantity::Tools(ToolsMeasure::Bytes) => "size",
        Quantity::Count | Quantity::Tools(_) => "number",
    };
    // The names stand in the table of fields, which a test of this module holds.
    let Some(field) = Field::known(field) else { return Ok(0) };
    match literal::read(&field, value)? {
        Value::Integer(bound) => Ok(bound),
        _ => Ok(0),
    }
}

/// The error for a word that begins no expectation.
fn unknown(text: &str, written: &str) -> FilterError {
    let names = || FORMS.into_iter().chain(["count"]).chain(ToolsMeasure::ALL.map(ToolsMeasure::name));
    let near = nearest(written, names().chain(STATISTICS.map(|(name, _)| name)));
    let mut error = SyntaxError::new(written, format!("{written} begins no expectation"));
    error.expected = match near.is_empty() {
        true => names().map(str::to_owned).chain(["a statistic such as p95 latency".to_owned()]).collect(),
        false => near,
    };
    located(text, error)
}
