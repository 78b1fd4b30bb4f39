//! The process of a wrapped server.

use std::collections::VecDeque;

use crate::capture::Time;
use crate::capture::pipe::{Exit, Pipe, PipeEvent};

/// The end of a process as its pipes show it.
#[derive(Debug, Default)]
pub struct Process {
    /// When the client closed stdin of the server.
    pub stdin_closed: Option<Time>,
    /// The exit status or signal.
    pub exit: Option<Exit>,
    pub exited: Option<Time>,
    /// The last bytes that it wrote to stderr.
    stderr: VecDeque<u8>,
}

/// A change of a process that rules look at.
#[derive(Debug)]
pub enum ProcessChange {
    /// The client closed stdin.
    StdinClosed,
    /// The last bytes that the process wrote to stderr.
    Stderr(Vec<u8>),
    /// The process ended.
    Exited(Exit),
}

impl ProcessChange {
    /// The change that a packet of its pipes shows, if any.
    pub fn of(content: &PipeEvent<'_>) -> Option<ProcessChange> {
        match content {
            PipeEvent::EndOfFile(Pipe::Stdin) => Some(ProcessChange::StdinClosed),
            PipeEvent::Data(Pipe::Stderr, bytes) => {
                Some(ProcessChange::Stderr(bytes[bytes.len().saturating_sub(STDERR)..].to_vec()))
            }
            PipeEvent::Exit(exit) => Some(ProcessChange::Exited(*exit)),
            _ => None,
        }
    }
}

/// Bytes of stderr that are remembered: its last lines.
const STDERR: usize = 1_024;

impl Process {
    /// The last line on stderr that is not blank.
    pub fn last_line(&self) -> Option<String> {
        let bytes: Vec<u8> = self.stderr.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
        Some(line.chars().take(300).collect())
    }

    pub(in crate::findings) fn observe(&mut self, change: &ProcessChange, time: Time) {
        match change {
            ProcessChange::StdinClosed => _ = self.stdin_closed.get_or_insert(time),
            ProcessChange::Stderr(bytes) => {
                self.stderr.extend(bytes);
                let surplus = self.stderr.len().saturating_sub(STDERR);
                self.stderr.drain(..surplus);
            }
            ProcessChange::Exited(exit) => (self.exit, self.exited) = (Some(*exit), Some(time)),
        }
    }
}
