//! The life of a wrapped server.

use crate::capture::Time;
use crate::capture::pipe::{Content, Exit, Pipe};

/// A process as its pipes show it.
#[derive(Debug, Default)]
pub struct Process {
    /// When the client closed its stdin.
    pub stdin_closed: Option<Time>,
    /// How it ended.
    pub exit: Option<Exit>,
    pub exited: Option<Time>,
}

impl Process {
    pub(in crate::findings) fn observe(&mut self, content: &Content<'_>, time: Time) {
        match content {
            Content::EndOfFile(Pipe::Stdin) => _ = self.stdin_closed.get_or_insert(time),
            Content::Exit(exit) => (self.exit, self.exited) = (Some(*exit), Some(time)),
            _ => {}
        }
    }
}
