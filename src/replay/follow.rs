//! Who watches a replay while it runs, and may end it.

use std::fmt;

use crossbeam_channel::{Receiver, never};

use super::outcome::StepResult;
use super::plan::StepIndex;

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The conversation is open, and this revision is spoken. It happens again where the server forgot the session.
    Opened(&'a str),
    /// The message of this step is on its way.
    Sent(StepIndex),
    /// Nothing more happens to this step: it was answered, left out, or given up.
    Done(StepIndex, &'a StepResult),
}

/// Who is told what happens, on the thread that replays, and whose word ends it.
pub struct Follower<'a> {
    on_progress: Box<dyn FnMut(Progress<'_>) + 'a>,
    pub(super) stop: Receiver<()>,
}

impl<'a> Follower<'a> {
    /// Calls `on_progress` for all that happens. A word on `stop`, or its end, ends the replay: what was not sent then says so.
    pub fn new(on_progress: impl FnMut(Progress<'_>) + 'a, stop: Receiver<()>) -> Follower<'a> {
        Follower { on_progress: Box::new(on_progress), stop }
    }

    /// Nobody watches.
    pub fn nobody() -> Follower<'a> {
        Follower::new(|_| {}, never())
    }

    pub(super) fn report(&mut self, progress: Progress<'_>) {
        (self.on_progress)(progress);
    }
}

impl fmt::Debug for Follower<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}
