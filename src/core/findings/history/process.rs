//! The process of a wrapped server.

use crate::capture::Time;
use crate::capture::pipe::{Content, Exit, Pipe};

/// The end of a process as its pipes show it.
#[derive(Debug, Default)]
pub struct Process {
    /// When the client closed stdin of the server.
    pub stdin_closed: Option<Time>,
    /// The exit status or signal.
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
