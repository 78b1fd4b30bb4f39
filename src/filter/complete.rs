//! Completion for the filter line of the terminal UI.

use super::fields::{FIELDS, Field, HEADER, SHORTHANDS};
use super::lex::{Operator, Token, is_word_character, token};
use super::path::ROOTS;
use super::print::quote;
use super::{lex, parse};

/// One text that can be inserted at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The byte of the filter where the word at the cursor begins. `text` replaces it from there
    /// to the cursor.
    pub start: usize,
    /// The whole word.
    pub text: String,
    /// An explanation in one line.
    pub help: &'static str,
}

/// The part of a filter that the cursor is in.
enum CursorContext {
    /// The beginning of a term.
    TermStart,
    /// Behind a field: an operator may follow.
    AfterField(Field),
    /// Behind an operator: a value follows. The flag is set inside the braces of `in`.
    Value(Field, bool),
    /// Behind a whole term.
    AfterTerm,
}

/// The completions at byte `cursor` of a filter, best first. There are none inside quotes and none
/// behind a syntax error.
pub fn complete(filter: &str, cursor: usize) -> Vec<Completion> {
    let Some(before) = filter.get(..cursor) else {
        return Vec::new();
    };
    // The word that touches the cursor is still being written.
    let start =
        before.char_indices().rev().take_while(|(_, c)| is_word_character(*c)).last().map_or(cursor, |(at, _)| at);
    let Some(context) = context(&before[..start]) else {
        return Vec::new();
    };
    let written = &before[start..];
    let offered: Vec<(String, &'static str)> = match context {
        CursorContext::TermStart => FIELDS
            .iter()
            .map(|definition| (definition.name.to_owned(), definition.help))
            .chain(SHORTHANDS.iter().map(|shorthand| (shorthand.name.to_owned(), shorthand.help)))
            .chain(ROOTS.iter().map(|root| (format!("{root}."), "a value inside the message's JSON")))
            .chain([
                (HEADER.to_owned(), "a header field of the HTTP exchange"),
                ("not".to_owned(), "the opposite of what follows"),
            ])
            .collect(),
        CursorContext::AfterField(field) => {
            let operators = field.kind().operators().iter().map(|&sign| (sign.to_owned(), operator_help(sign)));
            operators.chain(conjunctions()).collect()
        }
        CursorContext::Value(field, _) => {
            // A value with characters of the language's own needs quotes.
            let plain = |text: &str| text.chars().all(is_word_character);
            let value = |&text: &&'static str| if plain(text) { text.to_owned() } else { quote(text) };
            field.values().iter().map(|text| (value(text), field.help())).collect()
        }
        CursorContext::AfterTerm => conjunctions().collect(),
    };
    let begins = |text: &str| text.len() > written.len() && text.starts_with(written);
    offered.into_iter().filter(|(text, _)| begins(text)).map(|(text, help)| Completion { start, text, help }).collect()
}

fn conjunctions() -> impl Iterator<Item = (String, &'static str)> {
    [("and".to_owned(), "both are true"), ("or".to_owned(), "at least one is true")].into_iter()
}

fn operator_help(sign: &str) -> &'static str {
    match sign {
        "=" => "equals",
        "!=" => "has a value, and it differs",
        "<" => "less than",
        "<=" => "at most",
        ">" => "more than",
        ">=" => "at least",
        "in" => "one of, as in {a, b}",
        "contains" => "contains this text; case matters",
        "matches" => "matches this regular expression; case does not matter",
        _ => "",
    }
}

/// The context behind this part of a filter, or `None` behind a syntax error.
fn context(before: &str) -> Option<CursorContext> {
    use CursorContext::{AfterField, AfterTerm, TermStart, Value};
    let mut context = TermStart;
    let mut rest = before;
    while let Some((after, token)) = token(rest) {
        rest = after;
        context = match (context, token) {
            (TermStart, Token::Not | Token::Sign('(')) => TermStart,
            (TermStart | AfterTerm, Token::Word(word)) => field(word).map_or(AfterTerm, AfterField),
            (TermStart | AfterTerm, Token::Quoted) => AfterTerm,
            (AfterField(field), Token::Operator(operator)) => Value(field, operator == Operator::In),
            (AfterField(_) | AfterTerm, Token::And | Token::Or) => TermStart,
            (AfterField(_) | AfterTerm, Token::Sign(')')) => AfterTerm,
            (Value(field, true), Token::Sign('{' | ',') | Token::Word(_) | Token::Quoted) => Value(field, true),
            (Value(_, true), Token::Sign('}')) => AfterTerm,
            (Value(_, false), Token::Word(_) | Token::Quoted) => AfterTerm,
            _ => return None,
        };
    }
    Some(context)
}

fn field(word: &str) -> Option<Field> {
    let (_, (written, steps)) = lex::name(word).ok()?;
    parse::resolve(written, steps)
}
