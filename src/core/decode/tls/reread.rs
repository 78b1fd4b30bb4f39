//! Records that wait for the secrets of their session.

use super::ReceivedRecord;
use super::interpreter::Interpreter;
use super::unnamed::Attempts;
use crate::capture::Time;
use crate::decode::{Direction, Ending};

/// Records that are read again when their secrets arrive.
#[derive(Debug)]
pub struct RereadBuffer {
    /// The interpreter's state before the first of them.
    pub before: Box<Interpreter>,
    pub inputs: Vec<(Direction, BufferedInput)>,
    /// Memory that they take, in bytes.
    pub bytes: usize,
    /// Attempts with secrets that name no session.
    pub attempts: Attempts,
}

/// An input of the interpreter that is buffered.
#[derive(Debug)]
pub enum BufferedInput {
    Record(Box<ReceivedRecord>),
    Lost,
    End(Ending, Time),
}

/// Memory that a buffered record takes in addition to its bytes: the struct and its packet list.
const BUFFERED_RECORD_COST: usize = 256;

impl RereadBuffer {
    pub fn new(before: &Interpreter) -> RereadBuffer {
        RereadBuffer {
            before: Box::new(before.clone()),
            inputs: Vec::new(),
            bytes: size_of::<Interpreter>(),
            attempts: Attempts::default(),
        }
    }

    pub fn push(&mut self, direction: Direction, input: BufferedInput) {
        self.bytes += BUFFERED_RECORD_COST;
        if let BufferedInput::Record(received) = &input {
            self.bytes += received.body.len();
        }
        self.inputs.push((direction, input));
    }
}
