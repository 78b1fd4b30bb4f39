//! The parser of the shape tables. `2024-11-05.shapes` begins with the manual of the language.
//!
//! The tables are part of the program, so a mistake in one is a bug of this project. An error names
//! the line, and a test parses all tables.

use std::collections::BTreeMap;

/// A type as written in a table.
#[derive(Clone, Debug)]
pub enum Type<'t> {
    /// A definition, by name.
    Name(&'t str),
    /// A keyword of the language and, for numbers, its bounds.
    Word(&'t str, Bounds),
    /// Exactly this string.
    Text(&'t str),
    /// Exactly this integer.
    Code(i64),
    /// An array with the type of its elements and its maximum length.
    List(Box<Type<'t>>, Option<usize>),
    Object(Vec<ObjectClause<'t>>),
    /// One of several types.
    Union(Vec<Type<'t>>),
}

/// Lower and upper bound of a number, both inclusive.
pub type Bounds = (Option<i64>, Option<i64>);

/// One clause between the braces of an object.
#[derive(Clone, Debug)]
pub enum ObjectClause<'t> {
    /// `name: T`, or `name?: T` if it is optional.
    Member { name: &'t str, required: bool, value: Type<'t> },
    /// `*: T`
    Others(Type<'t>),
    /// `...Name`
    Spread(&'t str),
}

/// `request METHOD (Params) -> Result | Result` or `notification METHOD (Params)`.
#[derive(Clone, Debug)]
pub struct Method<'t> {
    /// The definition of its params.
    pub params: &'t str,
    /// Whether params may be absent.
    pub optional: bool,
    /// The definitions of its results. Empty for a notification.
    pub results: Vec<&'t str>,
}

/// The definitions of all tables read so far.
#[derive(Clone, Debug, Default)]
pub struct ShapeTable<'t> {
    /// Types by name.
    pub definitions: BTreeMap<&'t str, Type<'t>>,
    /// Requests and notifications by method.
    pub methods: BTreeMap<&'t str, Method<'t>>,
}

impl<'t> ShapeTable<'t> {
    /// Reads one more table. Its definitions replace earlier ones with the same name.
    pub fn apply(&mut self, text: &'t str) -> Result<(), String> {
        let mut reader = TableParser { text, at: 0 };
        while let Some(first) = reader.next_token() {
            match first {
                "gone" => self.withdraw(reader.rest_of_line()),
                "request" | "notification" => {
                    let (name, method) = reader.method(first == "request")?;
                    self.methods.insert(name, method);
                }
                name => {
                    reader.expect("=")?;
                    let value = reader.union()?;
                    self.definitions.insert(name, value);
                }
            }
        }
        Ok(())
    }

    fn withdraw(&mut self, names: &str) {
        for name in names.split_whitespace() {
            self.definitions.remove(name);
            self.methods.remove(name);
        }
    }
}

struct TableParser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> TableParser<'t> {
    /// Returns the next token: a word, a string with its quotes, `...`, `->`, `..`, or one sign.
    /// Comments run from `#` to the end of the line.
    fn next_token(&mut self) -> Option<&'t str> {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            if !self.text[self.at..].starts_with('#') {
                break;
            }
            self.rest_of_line();
        }
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '-');
        let length = if let Some(sign) = ["...", "..", "->"].iter().find(|sign| rest.starts_with(**sign)) {
            sign.len()
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        self.at += length;
        Some(&rest[..length])
    }

    fn token(&mut self) -> Result<&'t str, String> {
        self.next_token().ok_or_else(|| self.wrong("more", "the end"))
    }

    fn rest_of_line(&mut self) -> &'t str {
        let rest = &self.text[self.at..];
        let length = rest.find('\n').unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// Consumes the next token if it is this one.
    fn accept(&mut self, wanted: &str) -> bool {
        let before = self.at;
        let taken = self.next_token() == Some(wanted);
        if !taken {
            self.at = before;
        }
        taken
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        if self.accept(wanted) {
            return Ok(());
        }
        let found = self.token()?;
        Err(self.wrong(wanted, found))
    }

    fn wrong(&self, wanted: &str, found: &str) -> String {
        let line = self.text[..self.at].lines().count();
        format!("line {line}: {wanted} expected, found {found}")
    }

    fn method(&mut self, answered: bool) -> Result<(&'t str, Method<'t>), String> {
        let name = self.token()?;
        self.expect("(")?;
        let params = self.token()?;
        let optional = self.accept("?");
        self.expect(")")?;
        let mut results = Vec::new();
        if answered {
            self.expect("->")?;
            results.push(self.token()?);
            while self.accept("|") {
                results.push(self.token()?);
            }
        }
        Ok((name, Method { params, optional, results }))
    }

    fn union(&mut self) -> Result<Type<'t>, String> {
        let first = self.single()?;
        if !self.accept("|") {
            return Ok(first);
        }
        let mut branches = vec![first, self.single()?];
        while self.accept("|") {
            branches.push(self.single()?);
        }
        Ok(Type::Union(branches))
    }

    fn single(&mut self) -> Result<Type<'t>, String> {
        let token = self.token()?;
        Ok(match token {
            "[" => {
                let element = self.union()?;
                let most = if self.accept("..") { Some(self.number()?) } else { None };
                self.expect("]")?;
                Type::List(Box::new(element), most)
            }
            "{" => Type::Object(self.entries()?),
            _ if token.starts_with('"') => Type::Text(token.trim_matches('"')),
            _ if token.starts_with('-') => Type::Code(self.parsed(token)?),
            _ if token.starts_with(|c: char| c.is_ascii_uppercase()) => Type::Name(token),
            "integer" | "number" => Type::Word(token, self.bounds()?),
            _ if token.starts_with(|c: char| c.is_ascii_lowercase()) => Type::Word(token, (None, None)),
            _ => return Err(self.wrong("a type", token)),
        })
    }

    /// Parses `0..1`, `0..`, or nothing.
    fn bounds(&mut self) -> Result<Bounds, String> {
        let before = self.at;
        let Some(low) = self.next_token().and_then(|token| token.parse().ok()) else {
            self.at = before;
            return Ok((None, None));
        };
        self.expect("..")?;
        let before = self.at;
        let high = self.next_token().and_then(|token| token.parse().ok());
        if high.is_none() {
            self.at = before;
        }
        Ok((Some(low), high))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Result<T, String> {
        let token = self.token()?;
        self.parsed(token)
    }

    fn parsed<T: std::str::FromStr>(&self, token: &str) -> Result<T, String> {
        token.parse().map_err(|_| self.wrong("a number", token))
    }

    fn entries(&mut self) -> Result<Vec<ObjectClause<'t>>, String> {
        let mut entries = Vec::new();
        loop {
            entries.push(match self.token()? {
                "..." => ObjectClause::Spread(self.token()?),
                "*" => {
                    self.expect(":")?;
                    ObjectClause::Others(self.union()?)
                }
                name => {
                    let required = !self.accept("?");
                    self.expect(":")?;
                    ObjectClause::Member { name: name.trim_matches('"'), required, value: self.union()? }
                }
            });
            if !self.accept(",") {
                self.expect("}")?;
                return Ok(entries);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_table_replaces_and_withdraws() {
        let mut table = ShapeTable::default();
        let base =
            "# base\nA = { a: [string ..3], b?: number 0..1, *: B }\nB = \"x\" | -5\nrequest x/y (A?) -> B | A\n";
        table.apply(base).expect("a table");
        assert_eq!(table.methods["x/y"].results, ["B", "A"]);
        assert!(table.methods["x/y"].optional);
        table.apply("B = integer 0..\ngone x/y A").expect("a table");
        assert!(table.methods.is_empty());
        assert!(matches!(table.definitions["B"], Type::Word("integer", (Some(0), None))));
        assert_eq!(table.definitions.len(), 1);
    }

    #[test]
    fn an_error_names_its_line() {
        for (text, expected) in [
            ("A = {\n a string }", "line 2: : expected, found string"),
            ("A =", "line 1: more expected, found the end"),
            ("A = ]", "line 1: a type expected, found ]"),
            ("request x A", "line 1: ( expected, found A"),
        ] {
            assert_eq!(ShapeTable::default().apply(text), Err(expected.to_owned()));
        }
    }
}
