//! Paths into a message's JSON: `params.arguments.city`, `result.content[0].text`,
//! `result.tools[*].name`, `params._meta["io.modelcontextprotocol/clientInfo"].name`.

use std::fmt;
use std::ops::ControlFlow;

use super::print::quote;
use crate::decode::json::{self, elements, member, members};

/// The first name of every path: a member of messages, or `json` for the message itself.
pub const ROOTS: [&str; 4] = ["params", "result", "error", "json"];

/// Maximum number of selectors in one path. Each of them costs at most one pass over the text.
pub const MAX_SELECTORS: usize = 32;

/// One part of a path. The names are those of JSONPath (RFC 9535 section 2.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// A member of an object. A name that is a number selects an element of an array too.
    Name(String),
    /// An element of an array, counted from 0.
    Index(u32),
    /// Every element of an array, or every member of an object.
    Wildcard,
}

/// A path from the root of a message to values inside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Selector>);

impl Path {
    /// Makes a path of selectors as written. The first has to be one of [`ROOTS`], and there may be
    /// at most [`MAX_SELECTORS`].
    pub fn new(mut selectors: Vec<Selector>) -> Option<Path> {
        match selectors.first()? {
            Selector::Name(root) if !ROOTS.contains(&root.as_str()) || selectors.len() > MAX_SELECTORS => return None,
            Selector::Name(root) if root == "json" => drop(selectors.remove(0)),
            Selector::Name(_) => {}
            Selector::Index(_) | Selector::Wildcard => return None,
        }
        Some(Path(selectors))
    }

    /// Whether any value at this path passes the test, which receives it as JSON text. A text that
    /// is not JSON has no values.
    pub fn any(&self, text: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        json::is_json(text) && walk(text.trim_matches(json::BLANK), &self.0, test)
    }
}

/// Follows the selectors from a value. The recursion is as deep as the path is long,
/// for every text.
fn walk(value: &str, selectors: &[Selector], test: &mut dyn FnMut(&str) -> bool) -> bool {
    let Some((selector, rest)) = selectors.split_first() else {
        return test(value);
    };
    match (selector, value.as_bytes().first()) {
        (Selector::Name(name), Some(b'{')) => member(value, name).is_some_and(|value| walk(value, rest, test)),
        (Selector::Name(name), Some(b'[')) => {
            name.parse().is_ok_and(|index| element(value, index).is_some_and(|value| walk(value, rest, test)))
        }
        (Selector::Index(index), Some(b'[')) => element(value, *index).is_some_and(|value| walk(value, rest, test)),
        (Selector::Wildcard, Some(b'[')) => {
            let mut passed = false;
            elements(value, &mut |value| {
                passed = passed || walk(value, rest, test);
                ControlFlow::Continue(())
            }) && passed
        }
        (Selector::Wildcard, Some(b'{')) => {
            let mut passed = false;
            members(value, &mut |_, value| {
                passed = passed || walk(value, rest, test);
                ControlFlow::Continue(())
            }) && passed
        }
        _ => false,
    }
}

fn element(array: &str, index: u32) -> Option<&str> {
    let (mut found, mut position) = (None, 0);
    let whole = elements(array, &mut |value| {
        if position == index {
            found = Some(value);
        }
        position = position.saturating_add(1);
        ControlFlow::Continue(())
    });
    found.filter(|_| whole)
}

/// Whether a character of a member's name can follow a dot without brackets and quotes.
pub(super) fn is_member_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@')
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut selectors = self.0.iter();
        match self.0.first() {
            Some(Selector::Name(root)) if ROOTS[..3].contains(&root.as_str()) => {
                f.write_str(root)?;
                selectors.next();
            }
            _ => f.write_str("json")?,
        }
        for selector in selectors {
            match selector {
                Selector::Name(name) if !name.is_empty() && name.chars().all(is_member_character) => {
                    write!(f, ".{name}")?
                }
                Selector::Name(name) => write!(f, "[{}]", quote(name))?,
                Selector::Index(index) => write!(f, "[{index}]")?,
                Selector::Wildcard => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}
