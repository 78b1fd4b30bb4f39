//! JSON that is spread over several lines of a pipe.

use crate::decode::Direction;
use crate::decode::json::scan::Nesting;
use crate::decode::jsonrpc::Kind;
use crate::mcp::{Message, MessageNumber};

/// Bytes collected of one value: messages that people print in this way are short, and longer ones are told by their first lines.
const BYTES: usize = 1 << 20;

/// Lines whose numbers are remembered.
const LINES: usize = 64;

/// Where in JSON a text stops that goes on from `nesting`.
fn behind(mut nesting: Nesting, text: &[u8]) -> Nesting {
    text.iter().for_each(|byte| nesting.step(*byte));
    nesting
}

/// The lines of one direction since a value was begun.
#[derive(Debug, Default)]
pub struct MultilineValue {
    text: Vec<u8>,
    /// The messages, no messages by themselves, that these lines were shown as: the first 64.
    pub lines: Vec<MessageNumber>,
    position: Nesting,
}

impl MultilineValue {
    /// The whole value, where this line ends it. A line end inside a string is put as JSON wants it.
    pub fn joined(&self, line: &[u8]) -> Option<Vec<u8>> {
        let is_over = !self.text.is_empty() && behind(self.position, line).depth == 0;
        is_over.then(|| [self.text.as_slice(), self.separator(), line].concat())
    }

    /// Whether a value was begun and is not over.
    pub fn is_open(&self) -> bool {
        !self.text.is_empty()
    }

    fn separator(&self) -> &'static [u8] {
        if self.position.in_string { b"\\n" } else { b"\n" }
    }

    fn push(&mut self, message: &Message) {
        let line = &*message.raw;
        let is_begin = line.trim_ascii_start().first().is_some_and(|byte| matches!(byte, b'{' | b'['));
        let position = behind(self.position, line);
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

/// They, by direction.
#[derive(Debug, Default)]
pub struct MultilineValues([MultilineValue; 2]);

impl MultilineValues {
    /// What was begun in this direction.
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
