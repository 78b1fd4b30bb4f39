//! What can follow: for the filter line of the terminal UI.

use super::fields::{FIELDS, Field, HEADER};
use super::lex::{Operator, Token, is_word_character, token};
use super::path::ROOTS;
use super::print::quote;
use super::{lex, parse};

/// One way to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The byte of the filter from which on, up to the cursor, `text` takes its place.
    pub start: usize,
    /// The word in full.
    pub text: String,
    /// What it is, in one line.
    pub help: &'static str,
}

/// What stands at the cursor.
enum Place {
    /// A term begins.
    Term,
    /// A field was named: an operator may follow.
    Operator(Field),
    /// A value follows; in braces where the flag is set.
    Value(Field, bool),
    /// A term is whole.
    Next,
}

/// Ways to go on from byte `cursor` of a filter, best first; none inside quotes or where the filter makes no sense.
pub fn complete(filter: &str, cursor: usize) -> Vec<Completion> {
    let Some(before) = filter.get(..cursor) else {
        return Vec::new();
    };
    // The word that the cursor touches is still being written.
    let start =
        before.char_indices().rev().take_while(|(_, c)| is_word_character(*c)).last().map_or(cursor, |(at, _)| at);
    let Some(place) = place(&before[..start]) else {
        return Vec::new();
    };
    let written = &before[start..];
    let offered: Vec<(String, &'static str)> = match place {
        Place::Term => FIELDS
            .iter()
            .map(|entry| (entry.name.to_owned(), entry.help))
            .chain(ROOTS.iter().map(|root| (format!("{root}."), "a path into the message's JSON")))
            .chain([
                (HEADER.to_owned(), "a header field of the HTTP exchange"),
                ("not".to_owned(), "the opposite of what follows"),
            ])
            .collect(),
        Place::Operator(field) => {
            let operators = field.kind().operators().iter().map(|&sign| (sign.to_owned(), operator_help(sign)));
            operators.chain(conjunctions()).collect()
        }
        Place::Value(field, _) => {
            // A bare word that the language would read as something else needs its quotes.
            let plain = |text: &str| text.chars().all(is_word_character);
            let value = |&text: &&'static str| if plain(text) { text.to_owned() } else { quote(text) };
            field.values().iter().map(|text| (value(text), field.help())).collect()
        }
        Place::Next => conjunctions().collect(),
    };
    let begins = |text: &str| text.len() > written.len() && text.starts_with(written);
    offered.into_iter().filter(|(text, _)| begins(text)).map(|(text, help)| Completion { start, text, help }).collect()
}

fn conjunctions() -> impl Iterator<Item = (String, &'static str)> {
    [("and".to_owned(), "both"), ("or".to_owned(), "either")].into_iter()
}

fn operator_help(sign: &str) -> &'static str {
    match sign {
        "=" => "equals",
        "!=" => "has a value that differs",
        "<" => "less than",
        "<=" => "at most",
        ">" => "more than",
        ">=" => "at least",
        "in" => "one of, as in {a, b}",
        "contains" => "contains this text, letter for letter",
        "matches" => "matches this regular expression, in any case",
        _ => "",
    }
}

/// Where a filter stands behind these tokens.
fn place(before: &str) -> Option<Place> {
    let mut place = Place::Term;
    let mut rest = before;
    while let Some((after, token)) = token(rest) {
        rest = after;
        place = match (place, token) {
            (Place::Term, Token::Not | Token::Sign('(')) => Place::Term,
            (Place::Term, Token::Word(word)) => field(word).map_or(Place::Next, Place::Operator),
            (Place::Term | Place::Next, Token::Quoted) => Place::Next,
            (Place::Next, Token::Word(word)) => field(word).map_or(Place::Next, Place::Operator),
            (Place::Operator(field), Token::Operator(operator)) => Place::Value(field, operator == Operator::In),
            (Place::Operator(_) | Place::Next, Token::And | Token::Or) => Place::Term,
            (Place::Operator(_) | Place::Next, Token::Sign(')')) => Place::Next,
            (Place::Value(field, true), Token::Sign('{' | ',') | Token::Word(_) | Token::Quoted) => {
                Place::Value(field, true)
            }
            (Place::Value(_, true), Token::Sign('}')) => Place::Next,
            (Place::Value(_, false), Token::Word(_) | Token::Quoted) => Place::Next,
            _ => return None,
        };
    }
    Some(place)
}

fn field(word: &str) -> Option<Field> {
    let (_, (written, steps)) = lex::name(word).ok()?;
    parse::resolve(written, steps)
}
