//! The tree of a filter, and how it is printed: `parse(print(expression))` gives the same tree.

use std::fmt;

use super::fields::{Field, Type};
use super::print::{print_duration, print_time, quote};
use crate::capture::Time;

/// A filter expression. The parser bounds its depth, so that it is safe to walk it by recursion.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// All of these terms. An empty list is true.
    All(Vec<Expr>),
    /// At least one of these terms.
    Any(Vec<Expr>),
    /// The opposite of this term.
    Not(Box<Expr>),
    /// The field has a value.
    Has(Field),
    /// A value of the field passes the test.
    Test(Field, Test),
    /// The text of the message, as transmitted, contains this word in upper or lower case.
    Text(Search),
}

/// A condition on the value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// A comparison with a value.
    Compare(Comparison, Value),
    /// The field's value is in this list.
    In(Vec<Value>),
    /// The field's value contains this text; upper and lower case differ.
    Contains(String),
    /// A part of the field's value matches this regular expression.
    Matches(Pattern),
}

mcptap_core::words! {
    /// The six comparisons, with the operators of filters. SQL writes them in the same way.
    #[allow(missing_docs, reason = "the operators say what each is")]
    pub enum Comparison {
        Equal = "=",
        /// The field has a value, and none of its values equals this one.
        NotEqual = "!=",
        Less = "<",
        LessOrEqual = "<=",
        Greater = ">",
        GreaterOrEqual = ">=",
    }
}

/// A value to compare with. It has the type of the field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text, or one of the field's words.
    Text(String),
    /// A number, bytes of a size, nanoseconds of a duration, or nanoseconds since 1970 of a time.
    Integer(i64),
    /// `true` or `false`.
    Flag(bool),
    /// A JSON value.
    Json(Scalar),
}

/// A JSON value that is neither an object nor an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// The content of a string, without quotes and escapes.
    Text(String),
}

/// Bytes of memory for one compiled expression. No expression that a person writes comes near.
const COMPILED: usize = 4 << 20;

/// A regular expression. As in Wireshark, case does not matter unless the expression has `(?-i)`.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    regex: regex::Regex,
}

impl Pattern {
    /// Compiles the expression. The error is the reason in a few words.
    pub fn new(source: &str) -> Result<Pattern, String> {
        let regex = regex::RegexBuilder::new(source)
            .case_insensitive(true)
            .size_limit(COMPILED)
            .dfa_size_limit(COMPILED)
            .nest_limit(64)
            .build()
            .map_err(|error| why(&error))?;
        Ok(Pattern { source: source.to_owned(), regex })
    }

    /// Whether a part of the text matches. The time is linear in the text for every expression.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

/// The last line of an error of the regex crate. The lines before it draw the expression, as
/// [`FilterError::render`](super::FilterError::render) does.
fn why(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "too large once compiled".to_owned(),
        error => {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.source == other.source
    }
}

/// A search for a word in bytes. Case does not matter (Unicode simple case folding).
#[derive(Clone, Debug)]
pub struct Search {
    word: String,
    regex: regex::bytes::Regex,
}

impl Search {
    /// Compiles the search. The error is the reason in a few words.
    pub fn new(word: &str) -> Result<Search, String> {
        let regex = regex::bytes::RegexBuilder::new(&regex::escape(word))
            .case_insensitive(true)
            .size_limit(COMPILED)
            .dfa_size_limit(COMPILED)
            .build()
            .map_err(|error| why(&error))?;
        Ok(Search { word: word.to_owned(), regex })
    }

    /// The word that is searched.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// Whether the bytes contain the word. They need not be UTF-8.
    pub fn is_match(&self, bytes: &[u8]) -> bool {
        self.regex.is_match(bytes)
    }
}

impl PartialEq for Search {
    fn eq(&self, other: &Search) -> bool {
        self.word == other.word
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::All(terms) => joined(f, terms, " and "),
            Expr::Any(terms) => joined(f, terms, " or "),
            Expr::Not(term) => {
                f.write_str("not ")?;
                operand(f, term)
            }
            Expr::Has(field) => field.fmt(f),
            Expr::Test(field, test) => match test {
                Test::Compare(comparison, value) => {
                    write!(f, "{field} {} ", comparison.name())?;
                    value.print(field.kind(), f)
                }
                Test::In(values) => {
                    write!(f, "{field} in {{")?;
                    for (position, value) in values.iter().enumerate() {
                        f.write_str(if position == 0 { "" } else { ", " })?;
                        value.print(field.kind(), f)?;
                    }
                    f.write_str("}")
                }
                Test::Contains(text) => write!(f, "{field} contains {}", quote(text)),
                Test::Matches(pattern) => write!(f, "{field} matches {}", quote(&pattern.source)),
            },
            Expr::Text(search) => f.write_str(&quote(&search.word)),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, terms: &[Expr], word: &str) -> fmt::Result {
    for (position, term) in terms.iter().enumerate() {
        if position > 0 {
            f.write_str(word)?;
        }
        operand(f, term)?;
    }
    Ok(())
}

/// Prints a term inside another one. `and` and `or` get parentheses, so that a reader need not know
/// which binds tighter.
fn operand(f: &mut fmt::Formatter<'_>, term: &Expr) -> fmt::Result {
    match term {
        Expr::All(_) | Expr::Any(_) => write!(f, "({term})"),
        _ => write!(f, "{term}"),
    }
}

impl Value {
    fn print(&self, kind: Type, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(word) if kind == Type::Word => f.write_str(word),
            Value::Text(text) | Value::Json(Scalar::Text(text)) => f.write_str(&quote(text)),
            Value::Integer(nanoseconds) if kind == Type::Duration => f.write_str(&print_duration(*nanoseconds)),
            Value::Integer(nanoseconds) if kind == Type::Time => f.write_str(&print_time(Time(*nanoseconds))),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Flag(flag) | Value::Json(Scalar::Bool(flag)) => write!(f, "{flag}"),
            Value::Json(Scalar::Null) => f.write_str("null"),
            Value::Json(Scalar::Number(number)) => f.write_str(number),
        }
    }
}
