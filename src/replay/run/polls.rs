//! Polls tasks that take longer than they did in the recording, as a client would.

use std::mem;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PendingRequest, Runner};
use crate::compare::Answer;

/// The poll interval, if the server does not give one.
const INTERVAL: Duration = Duration::from_millis(200);

/// The shortest poll interval. A server may ask for no pause at all.
const LEAST: Duration = Duration::from_millis(10);

/// A request to be repeated.
pub(super) struct Poll {
    pub(super) at: Instant,
    pending: PendingRequest,
}

impl Runner<'_, '_> {
    /// Schedules another poll if a task is still working, but was not at this point of the
    /// recording (2025-11-25 basic/utilities/tasks "Getting Tasks"; ext-tasks). The poll
    /// uses the server's interval and stops at the deadline of the request. Returns whether
    /// a poll is scheduled.
    pub(super) fn schedule_poll(&mut self, pending: &PendingRequest, answer: &Answer) -> bool {
        let (Some(step), Answer::Result(task)) = (pending.step.filter(|_| pending.method == "tasks/get"), answer)
        else {
            return false;
        };
        let is_at_work = |task: &Value| task.get("status").and_then(Value::as_str) == Some("working");
        if !is_at_work(task) {
            return false;
        }
        let was_at_work = match self.recording.answer(self.texts, step) {
            Answer::Result(task) => is_at_work(&task),
            _ => true,
        };
        let interval = ["pollInterval", "pollIntervalMs"].iter().find_map(|name| task.get(name)?.as_u64());
        let interval = interval.map_or(INTERVAL, Duration::from_millis).max(LEAST);
        let at = Instant::now() + interval.min(self.settings.timeout);
        let again = !was_at_work && at < pending.deadline;
        if again {
            self.polls.push(Poll { at, pending: pending.clone() });
        }
        again
    }

    /// Sends the polls that are due.
    pub(super) fn poll(&mut self) {
        let now = Instant::now();
        let (due, later) = mem::take(&mut self.polls).into_iter().partition(|poll| poll.at <= now);
        self.polls = later;
        for Poll { pending, .. } in due {
            let step = pending.step;
            let id = self.send_request(PendingRequest { sent: now, ..pending });
            step.into_iter().for_each(|step| self.ids[step] = id);
        }
    }
}
