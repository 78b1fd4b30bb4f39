//! The parser and its grammar.
//!
//! ```text
//! filter   = [ any ]                              an empty filter selects every message
//! any      = all { ( "or" | "||" ) all }
//! all      = operand { [ "and" | "&&" ] operand } "and" is optional between searched words
//! operand  = ( "not" | "!" ) operand | "(" any ")" | term
//! term     = field operator value
//!          | field "in" "{" value { [ "," ] value } "}"
//!          | field                                the field has a value
//!          | word | quoted                        text to search for
//! ```

use nom::character::complete::char;
use nom::combinator::{cut, opt};
use nom::multi::{many0, many1};
use nom::sequence::{delimited, preceded};
use nom::{Offset, Parser};

use super::ast::{Comparison, Expr, Pattern, Search, Test, Value};
use super::error::{FilterError, nearest};
use super::fields::{FIELDS, Field, HEADER, SHORTHANDS, Type};
use super::lex::{
    Operator, Parsed, SyntaxError, blank, is_keyword, is_word_character, keyword, literal as value, name, operator,
    quoted, word,
};
use super::literal::{self, Literal, Mismatch};
use super::path::{Path, ROOTS, Selector};
use super::print::quote;

/// Maximum length of a filter in characters. The longest ones that people write have a few hundred.
pub const LENGTH: usize = 8_192;
/// Maximum nesting of parentheses and `not`s. The parser and the evaluators recurse as deep.
pub const DEPTH: usize = 64;
/// Maximum number of terms and listed values. SQLite refuses expressions deeper than 1,000, and a
/// chain of `and` is as deep as it is long.
pub const TERMS: usize = 512;

/// The words for the beginning of a term in error messages.
const TERM: &[&str] = &["a field", "a word to search for", "not", "("];

/// Parses a whole filter.
pub(super) fn filter(text: &str) -> Result<Expr, FilterError> {
    if text.chars().count() > LENGTH {
        return Err(located(text, SyntaxError::new(text, format!("a filter has at most {LENGTH} characters"))));
    }
    let start = text.trim_start();
    if start.is_empty() {
        return Ok(Expr::All(Vec::new()));
    }
    let (rest, expression) = any(start, 0).map_err(|error| match error {
        nom::Err::Error(error) | nom::Err::Failure(error) => located(text, error),
        // Parsers of complete input never ask for more.
        nom::Err::Incomplete(_) => located(text, SyntaxError::new("", "the filter ends too early")),
    })?;
    let rest = rest.trim_start();
    if !rest.is_empty() {
        return Err(located(text, trailing(text, rest)));
    }
    if terms(&expression) > TERMS {
        return Err(located(text, SyntaxError::new(text, format!("a filter has at most {TERMS} terms"))));
    }
    Ok(expression)
}

fn any(input: &str, depth: usize) -> Parsed<'_, Expr> {
    let operand = |input| all(input, depth);
    let (rest, (first, others)) = (operand, many0(preceded(keyword("or", "||"), cut(operand)))).parse(input)?;
    Ok((rest, joined(first, others, Expr::Any)))
}

fn all(input: &str, depth: usize) -> Parsed<'_, Expr> {
    let (mut rest, first) = operand(input, depth)?;
    let mut others = Vec::new();
    loop {
        let before = others.last().unwrap_or(&first);
        let (after, next) = match opt(keyword("and", "&&")).parse(rest)? {
            (after, Some(())) => operand(after, depth)?,
            (after, None) if matches!(before, Expr::Text(_)) => match preceded(blank, term).parse(after) {
                Ok((after, word @ Expr::Text(_))) => (after, word),
                Err(error @ nom::Err::Failure(_)) => return Err(error),
                _ => break,
            },
            _ => break,
        };
        rest = after;
        others.push(next);
    }
    Ok((rest, joined(first, others, Expr::All)))
}

fn joined(first: Expr, mut others: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    if others.is_empty() {
        return first;
    }
    others.insert(0, first);
    join(others)
}

fn operand(input: &str, depth: usize) -> Parsed<'_, Expr> {
    let (inside, negated) = opt(keyword("not", "!")).parse(input)?;
    let group = input.strip_prefix('(');
    if depth >= DEPTH && (negated.is_some() || group.is_some()) {
        return SyntaxError::new(first(input), format!("nested deeper than {DEPTH}")).fatal();
    }
    if negated.is_some() {
        let (rest, term) = operand(inside, depth + 1)?;
        return Ok((rest, Expr::Not(Box::new(term))));
    }
    if let Some(inside) = group {
        let (rest, expression) = any(inside.trim_start(), depth + 1)?;
        let rest = rest.trim_start();
        return match rest.strip_prefix(')') {
            Some(rest) => Ok((rest, expression)),
            None if rest.is_empty() => SyntaxError::new(first(input), "this ( is not closed").fatal(),
            None => unexpected(rest, &["and", "or", ")"]).fatal(),
        };
    }
    match term(input) {
        Err(nom::Err::Error(_)) => unexpected(input, TERM).fatal(),
        parsed => parsed,
    }
}

fn term(input: &str) -> Parsed<'_, Expr> {
    if let (rest, Some(text)) = opt(quoted).parse(input)? {
        let written = &input[..input.len() - rest.len()];
        return match preceded(blank, operator).parse(rest) {
            Ok(_) => SyntaxError::new(written, "a text in quotes is a search: it cannot be compared").fatal(),
            Err(_) => search(rest, written, &text),
        };
    }
    let (rest, written, field) = match name(input) {
        Ok((rest, (written, selectors))) => (rest, written, resolve(written, selectors)),
        Err(error @ nom::Err::Failure(_)) => return Err(error),
        Err(_) => word(input).map(|(rest, written)| (rest, written, None))?,
    };
    if is_keyword(written) {
        return Err(nom::Err::Error(unexpected(input, TERM)));
    }
    match (preceded(blank, operator).parse(rest), field) {
        (Ok((rest, (sign, operator))), Some(field)) => test(rest, field, sign, operator),
        (Ok(_), None) => unknown(written).fatal(),
        // A yes-or-no field alone means "is true". Whether it has a value is not a useful question.
        (Err(_), Some(field)) if field.kind() == Type::Flag => {
            Ok((rest, Expr::Test(field, Test::Compare(Comparison::Equal, Value::Flag(true)))))
        }
        (Err(_), Some(field)) => Ok((rest, Expr::Has(field))),
        (Err(_), None) if is_broken_path(written) => SyntaxError::new(written, format!("{written} is not a path"))
            .expected(&["a path such as params.arguments.city, result.content[0].text or params[\"two words\"]"])
            .fatal(),
        (Err(_), None) => match SHORTHANDS.iter().find(|shorthand| shorthand.name == written) {
            Some(shorthand) => match filter(shorthand.filter) {
                Ok(expression) => Ok((rest, expression)),
                Err(error) => SyntaxError::new(written, error.message).fatal(),
            },
            None => search(rest, written, written),
        },
    }
}

fn search<'a>(rest: &'a str, written: &'a str, text: &str) -> Parsed<'a, Expr> {
    match Search::new(text) {
        Ok(search) => Ok((rest, Expr::Text(search))),
        Err(why) => SyntaxError::new(written, why).fatal(),
    }
}

/// Whether a word begins like a path. Such a word is an error, not a text to search for.
fn is_broken_path(word: &str) -> bool {
    ROOTS.iter().any(|root| word.strip_prefix(root).is_some_and(|rest| rest.starts_with(['.', '['])))
}

/// The field with this name, which is given as written and as selectors.
pub(super) fn resolve(written: &str, selectors: Vec<Selector>) -> Option<Field> {
    if let Some(field) = Field::known(written) {
        return Some(field);
    }
    match written.strip_prefix(HEADER) {
        Some(header) if !header.contains(['[', '*']) => Some(Field::Header(header.to_ascii_lowercase())),
        _ => Path::new(selectors).map(Field::Path),
    }
}

/// Parses the value of a test. `input` follows the operator, and `sign` is the operator as written.
fn test<'a>(input: &'a str, field: Field, sign: &'a str, operator: Operator) -> Parsed<'a, Expr> {
    let kind = field.kind();
    if !kind.operators().contains(&operator.name()) {
        let message = format!("{field} is of type {}, which does not support {}", kind.name(), operator.name());
        return SyntaxError::new(sign, message).expected(kind.operators()).fatal();
    }
    let wanted = wanted(&field);
    let read = |(at, literal): (&'a str, Literal)| {
        literal::read(&field, &literal)
            .map_err(|Mismatch { message, expected }| nom::Err::Failure(SyntaxError { at, message, expected }))
    };
    let input = input.trim_start();
    if operator == Operator::In {
        let Some(inside) = input.strip_prefix('{') else {
            return unexpected(input, &["values in braces, as in {1, 2}"]).fatal();
        };
        let listed = delimited(blank, value, (blank, opt(char(','))));
        let (rest, values) = many1(listed).parse(inside).map_err(|error| expecting(error, inside, &[&wanted]))?;
        let rest = rest.trim_start();
        let Some(after) = rest.strip_prefix('}') else {
            return unexpected(rest, &["another value", "}"]).fatal();
        };
        let values = values.into_iter().map(read).collect::<Result<_, _>>()?;
        return Ok((after, Expr::Test(field, Test::In(values))));
    }
    let (rest, (at, literal)) = value(input).map_err(|error| expecting(error, input, &[&wanted]))?;
    let test = match operator {
        Operator::Compare(comparison) => Test::Compare(comparison, read((at, literal))?),
        Operator::Contains | Operator::In => Test::Contains(literal.text),
        Operator::Matches => match Pattern::new(&literal.text) {
            Ok(pattern) => Test::Matches(pattern),
            Err(why) => return SyntaxError::new(at, format!("not a regular expression: {why}")).fatal(),
        },
    };
    Ok((rest, Expr::Test(field, test)))
}

/// The values that a field can be compared with, in words for an error message.
fn wanted(field: &Field) -> String {
    match field.kind() {
        Type::Word | Type::Flag => field.values().join(", "),
        Type::Size => "a size such as 4KB".to_owned(),
        Type::Duration => "a duration such as 200ms".to_owned(),
        Type::Time => "a time such as 2025-11-25T14:03:20Z".to_owned(),
        Type::Number => "a number".to_owned(),
        Type::Text | Type::Id | Type::Json => "a value, in quotes if it has blanks".to_owned(),
    }
}

/// The first character, or nothing.
pub(super) fn first(input: &str) -> &str {
    &input[..input.chars().next().map_or(0, char::len_utf8)]
}

/// The error for something else at `input`, or for the end of the filter.
fn unexpected<'a>(input: &'a str, expected: &[&str]) -> SyntaxError<'a> {
    let input = input.trim_start();
    let at = match word(input) {
        Ok((_, word)) => word,
        Err(_) => first(input),
    };
    let message = if at.is_empty() { "the filter ends too early".to_owned() } else { format!("unexpected {at}") };
    SyntaxError::new(at, message).expected(expected)
}

/// Adds the expected words to an error that alternatives could have avoided. A final error keeps
/// its own words.
fn expecting<'a>(error: nom::Err<SyntaxError<'a>>, input: &'a str, expected: &[&str]) -> nom::Err<SyntaxError<'a>> {
    match error {
        nom::Err::Error(_) => nom::Err::Failure(unexpected(input, expected)),
        error => error,
    }
}

fn unknown(written: &str) -> SyntaxError<'_> {
    let mut error = SyntaxError::new(written, format!("there is no field {written}"));
    error.expected = nearest(written, FIELDS.iter().map(|definition| definition.name).chain(ROOTS));
    if error.expected.is_empty() {
        error.expected = vec!["a field, or a path that begins with params, result, error or json".to_owned()];
    }
    error
}

/// What can follow a complete filter.
const AFTER_A_FILTER: [&str; 3] = ["\"and\"", "\"or\"", "the end"];

/// The error for text behind a complete filter.
fn trailing<'a>(text: &str, rest: &'a str) -> SyntaxError<'a> {
    let touches = text[..text.offset(rest)].chars().next_back().is_some_and(is_word_character);
    match rest.chars().next() {
        Some(')') => SyntaxError::new(first(rest), "this ) has no matching (").expected(&AFTER_A_FILTER),
        Some('"' | '\'' | '=' | '!' | '<' | '>' | '~' | '{' | '}' | ',' | '&' | '|') if touches => {
            SyntaxError::new(first(rest), "a value without quotes cannot contain this character")
                .expected(&["quotes around the value"])
        }
        _ if text.split_whitespace().all(is_searched) => {
            let quoted = format!("{} to search for this text", quote(text.trim()));
            let is_field = text.split_whitespace().next().is_some_and(|word| Field::known(word).is_some());
            match is_field {
                true => unexpected(rest, &["an operator such as =", &quoted]),
                false => unexpected(rest, &["\"and\"", "\"or\"", &quoted]),
            }
        }
        _ => unexpected(rest, &AFTER_A_FILTER),
    }
}

/// Whether a word can be part of a text that somebody searches for without quotes.
fn is_searched(word: &str) -> bool {
    word.chars().all(is_word_character) && !is_keyword(word)
}

/// The number of terms and listed values of an expression.
pub(super) fn terms(expression: &Expr) -> usize {
    match expression {
        Expr::All(terms_of) | Expr::Any(terms_of) => terms_of.iter().map(terms).sum(),
        Expr::Not(term) => terms(term),
        Expr::Test(_, Test::In(values)) => values.len(),
        Expr::Has(_) | Expr::Test(..) | Expr::Text(_) => 1,
    }
}

/// Converts an error's piece of text to a column and a length in characters.
pub(super) fn located(text: &str, error: SyntaxError<'_>) -> FilterError {
    let inside = !error.at.is_empty();
    let start = if inside { text.offset(error.at) } else { text.len() };
    FilterError {
        filter: text.to_owned(),
        column: text[..start].chars().count() + 1,
        length: error.at.chars().count(),
        message: error.message,
        expected: error.expected,
    }
}
