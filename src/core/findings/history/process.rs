//! The process of a wrapped server.

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
}

impl Process {
    pub(in crate::findings) fn observe(&mut self, content: &PipeEvent<'_>, time: Time) {
        match content {
            PipeEvent::EndOfFile(Pipe::Stdin) => _ = self.stdin_closed.get_or_insert(time),
            PipeEvent::Exit(exit) => (self.exit, self.exited) = (Some(*exit), Some(time)),
            _ => {}
        }
    }
}
