//! Progress reports of a running replay, and the way to stop it.

use crossbeam_channel::{Receiver, never};

use super::outcome::StepResult;
use super::plan::StepIndex;

/// One event of a running replay.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// The handshake is complete, with this revision. It happens again if the server
    /// loses the session.
    Opened(&'a str),
    /// The message of this step is being sent.
    Sent(StepIndex),
    /// The step is finished: answered, skipped or timed out.
    Done(StepIndex, &'a StepResult),
}

/// Receives progress reports on the thread of the replay, and can stop it.
pub struct Follower<'a> {
    on_progress: Box<dyn FnMut(Progress<'_>) + 'a>,
    pub(super) stop: Receiver<()>,
}

impl<'a> Follower<'a> {
    /// Calls `on_progress` for each event. A message on `stop`, or its disconnection, stops the
    /// replay. Steps that were not sent then have that as their reason.
    pub fn new(on_progress: impl FnMut(Progress<'_>) + 'a, stop: Receiver<()>) -> Follower<'a> {
        Follower { on_progress: Box::new(on_progress), stop }
    }

    /// A follower that ignores all progress and never stops the replay.
    pub fn nobody() -> Follower<'a> {
        Follower::new(|_| {}, never())
    }

    pub(super) fn report(&mut self, progress: Progress<'_>) {
        (self.on_progress)(progress);
    }
}
