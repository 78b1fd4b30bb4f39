//! The lexer: words, quoted texts, names, operators and tokens.

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

/// A parser's error: the wrong piece of the filter, the message, and the words that
/// would be correct.
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

    /// The same error with the words that would be correct.
    pub fn expected(mut self, words: &[&str]) -> SyntaxError<'a> {
        self.expected = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// The error as a final one: the parser tries no alternative.
    pub fn fatal<T>(self) -> Parsed<'a, T> {
        Err(nom::Err::Failure(self))
    }
}

impl<'a> ParseError<&'a str> for SyntaxError<'a> {
    fn from_error_kind(at: &'a str, _: nom::error::ErrorKind) -> SyntaxError<'a> {
        SyntaxError::new(at, "")
    }

    fn append(_: &'a str, _: nom::error::ErrorKind, error: SyntaxError<'a>) -> SyntaxError<'a> {
        error
    }
}

impl<'a, E> nom::error::FromExternalError<&'a str, E> for SyntaxError<'a> {
    fn from_external_error(at: &'a str, kind: nom::error::ErrorKind, _: E) -> SyntaxError<'a> {
        SyntaxError::from_error_kind(at, kind)
    }
}

/// The result of a parser: the rest of the input and a value, or an error.
pub(super) type Parsed<'a, T> = IResult<&'a str, T, SyntaxError<'a>>;

/// Whether a character can be in a bare word: every one except blanks and the characters
/// of the language.
pub(super) fn is_word_character(c: char) -> bool {
    !c.is_whitespace() && !"()\"'{}=!<>~,&|".contains(c)
}

fn word_ends(input: &str) -> Parsed<'_, ()> {
    not(satisfy(is_word_character)).parse(input)
}

/// Parses blanks, if there are any.
pub(super) fn blank(input: &str) -> Parsed<'_, &str> {
    take_while(char::is_whitespace)(input)
}

/// Parses `and`, `or` or `not` in upper or lower case, or the sign with the same meaning.
pub(super) fn keyword<'a>(
    word: &'static str,
    sign: &'static str,
) -> impl Parser<&'a str, Output = (), Error = SyntaxError<'a>> {
    // The `!` of `!=` is not a `not`.
    let sign = terminated(tag(sign), not(char('=')));
    delimited(blank, alt((terminated(tag_no_case(word), word_ends), sign)), blank).map(|_| ())
}

/// Whether a word is `and`, `or` or `not`, in upper or lower case.
pub(super) fn is_keyword(word: &str) -> bool {
    ["and", "or", "not"].iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

/// Parses a run of word characters.
pub(super) fn word(input: &str) -> Parsed<'_, &str> {
    take_while1(is_word_character)(input)
}

/// Parses a text in double or single quotes.
///
/// The escapes are `\n`, `\r`, `\t`, `\u{202e}`, `\\` and a backslash before a quote. Before any
/// other character a backslash is an ordinary character, so that a regular expression such as
/// `"\d+\.json"` needs no doubled backslashes.
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

/// Parses a value: a quoted text or a bare word. Returns it as written, and its content.
pub(super) fn literal(input: &str) -> Parsed<'_, (&str, Literal)> {
    let bare = word.map(|word: &str| Literal { text: word.to_owned(), quoted: false });
    let quoted = quoted.map(|text| Literal { text, quoted: true });
    consumed(alt((quoted, bare))).parse(input)
}

/// Parses a name that may be a field's. Returns it as written, and as selectors of a path.
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

/// An operator between a field and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operator {
    Compare(Comparison),
    In,
    Contains,
    Matches,
}

impl Operator {
    /// The operator's name in [`Type::operators`](super::fields::Type::operators).
    pub fn name(self) -> &'static str {
        match self {
            Operator::Compare(comparison) => comparison.name(),
            Operator::In => "in",
            Operator::Contains => "contains",
            Operator::Matches => "matches",
        }
    }
}

/// Parses an operator. Returns it as written, and its meaning. Wireshark's words for comparisons
/// are accepted too.
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

/// A token of a filter, as precisely as completion needs it. See [`token`].
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// The name of a field or a bare word. Its position decides which of them it is.
    Word(&'a str),
    Quoted,
    Operator(Operator),
    /// `(`, `)`, `{`, `}` or `,`.
    Sign(char),
    And,
    Or,
    Not,
    /// A quote that is not closed, or a character without a meaning.
    Broken,
}

/// The next token of an unfinished filter, after blanks; `None` at the end.
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
