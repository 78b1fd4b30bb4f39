//! JSON values that are spread over several lines of a pipe.

use crate::decode::json::scan::Nesting;
use crate::decode::{Direction, Kind};
use crate::mcp::{Message, MessageNumber};

/// Limit of the bytes of one value. Messages that are printed with indentation are short. For
/// longer ones the findings about their first lines are enough.
const BYTES: usize = 1 << 20;

/// Limit of remembered message numbers.
const LINES: usize = 64;

/// The nesting after a text that continues from `nesting`.
fn nesting_after(mut nesting: Nesting, text: &[u8]) -> Nesting {
    text.iter().for_each(|byte| nesting.step(*byte));
    nesting
}

/// The lines of an incomplete JSON value in one direction.
#[derive(Debug, Default)]
pub struct MultilineValue {
    text: Vec<u8>,
    /// The invalid messages as which these lines were shown: the first 64.
    pub lines: Vec<MessageNumber>,
    position: Nesting,
}

impl MultilineValue {
    /// The whole value, if this line completes it. A line end inside a string becomes `\n`,
    /// as JSON requires.
    pub fn completed_by(&self, line: &[u8]) -> Option<Vec<u8>> {
        let is_over = !self.text.is_empty() && nesting_after(self.position, line).depth == 0;
        is_over.then(|| [self.text.as_slice(), self.separator(), line].concat())
    }

    /// Whether a value was begun and is incomplete.
    pub fn is_open(&self) -> bool {
        !self.text.is_empty()
    }

    fn separator(&self) -> &'static [u8] {
        if self.position.in_string { b"\\n" } else { b"\n" }
    }

    fn push(&mut self, message: &Message) {
        let line = &*message.raw;
        let is_begin = line.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['));
        let position = nesting_after(self.position, line);
        let is_too_much = self.text.len().saturating_add(line.len()) > BYTES;
        if message.kind != Kind::Invalid || self.text.is_empty() && !is_begin || position.depth == 0 || is_too_much {
            *self = MultilineValue::default();
            return;
        }
        if !self.text.is_empty() {
            self.text.extend_from_slice(self.separator());
        }
        self.text.extend_from_slice(line);
        self.position = position;
        if self.lines.len() < LINES {
            self.lines.push(message.number);
        }
    }
}

/// The incomplete values by direction.
#[derive(Debug, Default)]
pub struct MultilineValues([MultilineValue; 2]);

impl MultilineValues {
    /// The incomplete value in this direction. It is empty if there is none.
    pub fn get(&self, direction: Direction) -> &MultilineValue {
        &self.0[direction as usize]
    }

    pub(super) fn observe(&mut self, message: &Message) {
        let fragment = &mut self.0[message.direction as usize];
        if message.kind == Kind::Invalid || !fragment.text.is_empty() {
            fragment.push(message);
        }
    }
}
