//! The words of the language.

use nom::branch::alt;
use nom::bytes::complete::{tag, tag_no_case, take_while, take_while1};
use nom::character::complete::{char, digit1, one_of, satisfy};
use nom::combinator::{consumed, map_opt, map_res, not, peek, recognize, value};
use nom::error::ParseError;
use nom::multi::{fold_many0, many0};
use nom::sequence::{delimited, preceded, terminated};
use nom::{IResult, Parser};

use super::ast::Comparison;
use super::literal::Literal;
use super::path::{Selector, is_member_character};

/// Why a parser stopped: at which piece of the filter, what is wrong, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError<'a> {
    pub at: &'a str,
    pub message: String,
    pub expected: Vec<String>,
}

impl<'a> SyntaxError<'a> {
    pub fn new(at: &'a str, message: impl Into<String>) -> SyntaxError<'a> {
        SyntaxError { at, message: message.into(), expected: Vec::new() }
    }

    pub fn expected(mut self, words: &[&str]) -> SyntaxError<'a> {
        self.expected = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// No other reading of the text is to be tried.
    pub fn fatal<T>(self) -> Parsed<'a, T> {
        Err(nom::Err::Failure(self))
    }
}

impl<'a> ParseError<&'a str> for SyntaxError<'a> {
    fn from_error_kind(at: &'a str, _: nom::error::ErrorKind) -> SyntaxError<'a> {
        SyntaxError::new(at, "")
    }

    fn append(_: &'a str, _: nom::error::ErrorKind, fault: SyntaxError<'a>) -> SyntaxError<'a> {
        fault
    }
}

impl<'a, E> nom::error::FromExternalError<&'a str, E> for SyntaxError<'a> {
    fn from_external_error(at: &'a str, kind: nom::error::ErrorKind, _: E) -> SyntaxError<'a> {
        SyntaxError::from_error_kind(at, kind)
    }
}

pub(super) type Parsed<'a, T> = IResult<&'a str, T, SyntaxError<'a>>;

/// A character of a bare word: all but blanks and those that the language itself uses.
pub(super) fn is_word_character(c: char) -> bool {
    !c.is_whitespace() && !"()\"'{}=!<>~,&|".contains(c)
}

fn word_ends(input: &str) -> Parsed<'_, ()> {
    not(satisfy(is_word_character)).parse(input)
}

pub(super) fn blank(input: &str) -> Parsed<'_, &str> {
    take_while(char::is_whitespace)(input)
}

/// `and`, `or`, `not`, in any case, or the sign that means the same.
pub(super) fn keyword<'a>(
    word: &'static str,
    sign: &'static str,
) -> impl Parser<&'a str, Output = (), Error = SyntaxError<'a>> {
    // The `!` of `!=` is no `not`.
    let sign = terminated(tag(sign), not(char('=')));
    delimited(blank, alt((terminated(tag_no_case(word), word_ends), sign)), blank).map(|_| ())
}

pub(super) fn is_keyword(word: &str) -> bool {
    ["and", "or", "not"].iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// A run of word characters.
pub(super) fn word(input: &str) -> Parsed<'_, &str> {
    take_while1(is_word_character)(input)
}

/// A text in double or single quotes.
///
/// `\n`, `\r`, `\t`, `\u{202e}`, `\\` and a quote behind a backslash mean what they mean elsewhere; before anything
/// else a backslash stays, so that `"\d+\.json"` need not be written with eight of them.
pub(super) fn quoted(input: &str) -> Parsed<'_, String> {
    let (rest, quote) = one_of("\"'")(input)?;
    let code = map_opt(
        map_res(delimited(tag("u{"), take_while1(|c: char| c.is_ascii_hexdigit()), char('}')), |digits| {
            u32::from_str_radix(digits, 16)
        }),
        char::from_u32,
    );
    let escape = alt((value('\n', char('n')), value('\r', char('r')), value('\t', char('t')), one_of("\\\"'"), code));
    let fragment = alt((
        take_while1(|c| c != quote && c != '\\').map(str::to_owned),
        preceded(char('\\'), escape).map(String::from),
        tag("\\").map(str::to_owned),
    ));
    let (rest, text) = fold_many0(fragment, String::new, |text, fragment: String| text + &fragment).parse(rest)?;
    match rest.strip_prefix(quote) {
        Some(rest) => Ok((rest, text)),
        None => SyntaxError::new(&input[..quote.len_utf8()], format!("this {quote} is not closed")).fatal(),
    }
}

/// A value, as written and what it is: a quoted text or a bare word.
pub(super) fn literal(input: &str) -> Parsed<'_, (&str, Literal)> {
    let bare = word.map(|word: &str| Literal { text: word.to_owned(), quoted: false });
    let quoted = quoted.map(|text| Literal { text, quoted: true });
    consumed(alt((quoted, bare))).parse(input)
}

/// A name that may be a field's: as written, and its selectors.
pub(super) fn name(input: &str) -> Parsed<'_, (&str, Vec<Selector>)> {
    let member = || take_while1(is_member_character).map(|name: &str| Selector::Name(name.to_owned()));
    let each = || value(Selector::Wildcard, char('*'));
    let index = map_res(digit1, str::parse).map(Selector::Index);
    let step = alt((
        preceded(char('.'), alt((each(), member()))),
        delimited(char('['), alt((each(), index, quoted.map(Selector::Name))), char(']')),
    ));
    let first = preceded(peek(satisfy(|c| c.is_ascii_alphabetic() || c == '_')), member());
    let path = (first, many0(step)).map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    });
    terminated(consumed(path), word_ends).parse(input)
}

/// What stands between a field and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Compare(Comparison),
    In,
    Contains,
    Matches,
}

impl Operator {
    /// As the table of types spells it.
    pub fn name(self) -> &'static str {
        match self {
            Operator::Compare(comparison) => comparison.symbol(),
            Operator::In => "in",
            Operator::Contains => "contains",
            Operator::Matches => "matches",
        }
    }
}

/// An operator, as written and what it is. Wireshark's words for the comparisons are understood too.
pub(super) fn operator(input: &str) -> Parsed<'_, (&str, Operator)> {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let sign = |sign, comparison| value(Operator::Compare(comparison), tag(sign));
    let spelt = |word, operator| value(operator, terminated(tag_no_case(word), word_ends));
    consumed(alt((
        alt((
            sign("==", Equal),
            sign("=", Equal),
            sign("!=", NotEqual),
            sign("<=", LessOrEqual),
            sign("<", Less),
            sign(">=", GreaterOrEqual),
            sign(">", Greater),
            value(Operator::Matches, tag("~")),
        )),
        alt((
            spelt("contains", Operator::Contains),
            spelt("matches", Operator::Matches),
            spelt("in", Operator::In),
            spelt("eq", Operator::Compare(Equal)),
            spelt("ne", Operator::Compare(NotEqual)),
            spelt("lt", Operator::Compare(Less)),
            spelt("le", Operator::Compare(LessOrEqual)),
            spelt("gt", Operator::Compare(Greater)),
            spelt("ge", Operator::Compare(GreaterOrEqual)),
        )),
    )))
    .parse(input)
}

/// What a term begins with, as far as completion has to know: see [`token`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A field's name or a bare word; whether it is a name or a value its place decides.
    Word(&'a str),
    Quoted,
    Operator(Operator),
    /// `(`, `)`, `{`, `}`, `,`
    Sign(char),
    And,
    Or,
    Not,
    /// A quote that is not closed, or a character with no meaning.
    Broken,
}

/// The next token of a filter that need not be whole, blanks before it skipped; `None` at the end.
pub(super) fn token(input: &str) -> Option<(&str, Token<'_>)> {
    let input = input.trim_start();
    let first = input.chars().next()?;
    let whole_name = recognize(name).map(Token::Word);
    let mut token = alt((
        value(Token::And, alt((terminated(tag_no_case("and"), word_ends), tag("&&")))),
        value(Token::Or, alt((terminated(tag_no_case("or"), word_ends), tag("||")))),
        value(Token::Not, terminated(tag_no_case("not"), word_ends)),
        operator.map(|(_, operator)| Token::Operator(operator)),
        value(Token::Not, char('!')),
        one_of("(){},").map(Token::Sign),
        value(Token::Quoted, quoted),
        whole_name,
        word.map(Token::Word),
    ));
    let result: Parsed<'_, Token<'_>> = token.parse(input);
    match result {
        Ok(found) => Some(found),
        Err(_) => Some((&input[first.len_utf8()..], Token::Broken)),
    }
}
