//! Paths into a message's JSON: `params.arguments.city`, `result.content[0].text`, `result.tools[*].name`,
//! `params._meta["io.modelcontextprotocol/clientInfo"].name`.

use std::fmt;
use std::ops::ControlFlow;

use super::print::quote;
use crate::decode::json::{self, elements, member, members};

/// Where every path begins: a member that messages have, or `json` for the message itself.
pub const ROOTS: [&str; 4] = ["params", "result", "error", "json"];

/// Steps of one path: evaluating it costs at most one pass over the text for each.
pub const STEPS: usize = 32;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member of an object; where its name is a number, an element of an array too.
    Member(String),
    /// An element of an array, from 0.
    Index(u32),
    /// Every element of an array, every member of an object.
    Each,
}

/// A path, from the root of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path(Vec<Step>);

impl Path {
    /// The path of these steps as written: the first is one of [`ROOTS`], at most [`STEPS`] in all.
    pub fn new(mut steps: Vec<Step>) -> Option<Path> {
        match steps.first()? {
            Step::Member(root) if !ROOTS.contains(&root.as_str()) || steps.len() > STEPS => return None,
            Step::Member(root) if root == "json" => drop(steps.remove(0)),
            Step::Member(_) => {}
            Step::Index(_) | Step::Each => return None,
        }
        Some(Path(steps))
    }

    /// Whether any value at this path, given as JSON text, passes. A text that is no JSON has no values.
    pub fn any(&self, text: &str, test: &mut dyn FnMut(&str) -> bool) -> bool {
        json::is_json(text) && walk(text.trim_matches(json::BLANK), &self.0, test)
    }
}

/// The depth of the recursion is the number of steps, whatever the text.
fn walk(value: &str, steps: &[Step], test: &mut dyn FnMut(&str) -> bool) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return test(value);
    };
    match (step, value.as_bytes().first()) {
        (Step::Member(name), Some(b'{')) => member(value, name).is_some_and(|value| walk(value, rest, test)),
        (Step::Member(name), Some(b'[')) => {
            name.parse().is_ok_and(|index| element(value, index).is_some_and(|value| walk(value, rest, test)))
        }
        (Step::Index(index), Some(b'[')) => element(value, *index).is_some_and(|value| walk(value, rest, test)),
        (Step::Each, Some(b'[')) => {
            let mut passed = false;
            elements(value, &mut |value| {
                passed = passed || walk(value, rest, test);
                ControlFlow::Continue(())
            }) && passed
        }
        (Step::Each, Some(b'{')) => {
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

/// Whether a member's name can stand behind a dot as it is.
pub(super) fn is_member_character(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@')
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = self.0.iter();
        match self.0.first() {
            Some(Step::Member(root)) if ROOTS[..3].contains(&root.as_str()) => {
                f.write_str(root)?;
                steps.next();
            }
            _ => f.write_str("json")?,
        }
        for step in steps {
            match step {
                Step::Member(name) if !name.is_empty() && name.chars().all(is_member_character) => {
                    write!(f, ".{name}")?
                }
                Step::Member(name) => write!(f, "[{}]", quote(name))?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Each => f.write_str("[*]")?,
            }
        }
        Ok(())
    }
}
