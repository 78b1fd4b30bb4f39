//! Paths to values in a message, as in JSONPath (RFC 9535): `$.params.arguments.user`, `$..email`,
//! `$.result.content[*].text`, `$.params["a b"][0]`.

use std::fmt;

/// The most steps of a path.
const STEPS: usize = 64;

/// A path from the root of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    /// Whether it applies at any depth (`..`).
    descends: bool,
    selector: Selector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    Name(String),
    Index(usize),
    Wildcard,
}

/// A part of a value: a member, or an element of an array.
#[derive(Clone, Copy, Debug)]
pub(super) enum Child<'a> {
    Member(&'a str),
    Element(usize),
}

/// The reason why a text is no path, and the column at which, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The column, in characters from 1.
    pub column: usize,
    /// What is wrong with the text there.
    pub reason: &'static str,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// The text is not a path of this language.
    pub fn parse(text: &str) -> Result<JsonPath, PathError> {
        let mut reader = PathReader { rest: text, column: 1 };
        if !reader.take("$") {
            return Err(reader.error("a path begins with $, which is the message"));
        }
        let mut steps = Vec::new();
        while !reader.rest.is_empty() {
            if steps.len() == STEPS {
                return Err(reader.error("the path has too many steps"));
            }
            let descends = reader.take("..");
            let selector = if reader.take("[") {
                reader.bracket()?
            } else if descends || reader.take(".") {
                if reader.take("*") { Selector::Wildcard } else { Selector::Name(reader.name()?) }
            } else {
                return Err(reader.error("expected . or [ here"));
            };
            steps.push(Step { descends, selector });
        }
        if steps.is_empty() {
            return Err(reader.error("$ alone is the whole message: name a part of it"));
        }
        Ok(JsonPath(steps))
    }

    /// The positions in the path after a child was entered, given one position before. Adds them to
    /// `next`. Returns whether the child is a value that the path names.
    pub(super) fn enter(&self, position: usize, child: Child<'_>, next: &mut Vec<usize>) -> bool {
        let Some(Step { descends, selector }) = self.0.get(position) else { return false };
        if *descends && !next.contains(&position) {
            next.push(position);
        }
        let fits = match (selector, child) {
            (Selector::Wildcard, _) => true,
            (Selector::Name(name), Child::Member(member)) => name == member,
            (Selector::Index(index), Child::Element(element)) => *index == element,
            _ => false,
        };
        if fits && position + 1 < self.0.len() && !next.contains(&(position + 1)) {
            next.push(position + 1);
        }
        fits && position + 1 == self.0.len()
    }
}

struct PathReader<'a> {
    rest: &'a str,
    column: usize,
}

impl<'a> PathReader<'a> {
    fn error(&self, reason: &'static str) -> PathError {
        PathError { column: self.column, reason }
    }

    fn skip(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.column += taken.chars().count();
        self.rest = rest;
        taken
    }

    fn take(&mut self, text: &str) -> bool {
        let is_next = self.rest.starts_with(text);
        if is_next {
            self.skip(text.len());
        }
        is_next
    }

    fn name(&mut self) -> Result<String, PathError> {
        let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
        let end = self.rest.find(|c| !is_of_name(c)).unwrap_or(self.rest.len());
        match end {
            0 => Err(self.error("expected a name here; other characters need [\"…\"]")),
            end => Ok(self.skip(end).to_owned()),
        }
    }

    /// Reads what follows `[`, up to `]`.
    fn bracket(&mut self) -> Result<Selector, PathError> {
        let selector = match self.rest.chars().next() {
            Some('*') => {
                self.skip(1);
                Selector::Wildcard
            }
            Some(quote @ ('"' | '\'')) => {
                self.skip(1);
                let Some(end) = self.rest.find(quote) else { return Err(self.error("the name has no closing quote")) };
                let name = self.skip(end).to_owned();
                self.skip(1);
                Selector::Name(name)
            }
            _ => {
                let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
                match self.rest[..end].parse() {
                    Ok(index) => {
                        self.skip(end);
                        Selector::Index(index)
                    }
                    Err(_) => return Err(self.error("expected *, a number or a name in quotes here")),
                }
            }
        };
        if self.take("]") { Ok(selector) } else { Err(self.error("expected ] here")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_has_its_column() {
        for (path, column) in [
            ("params.x", 1),
            ("$", 2),
            ("$params", 2),
            ("$.params.", 10),
            ("$.é b", 4),
            ("$.a[b]", 5),
            ("$.a[0", 6),
            ("$.a['b]", 6),
            ("$..", 4),
            ("$.a[99999999999999999999999]", 5),
        ] {
            assert_eq!(JsonPath::parse(path).map_err(|error| error.column), Err(column), "{path}");
        }
        for path in ["$.a", "$..a[*]", "$['a b'][0].*", "$[\"x.y\"]..[*]", "$.io-x.é"] {
            assert!(JsonPath::parse(path).is_ok(), "{path}");
        }
    }
}
