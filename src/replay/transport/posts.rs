//! Messages on their way to a server, each with a worker of its own: one that waited behind a call that is never answered would not be sent.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use super::Outgoing;
use super::http::{lock, spawn};

/// Messages that are under way at once. No recording of a single client comes near it.
const WORKERS: usize = 256;

/// What carries one message to the server, and waits for what comes back.
type Carry = dyn Fn(&Outgoing) + Send + Sync;

/// The messages, and who carries them.
pub(super) struct Posts {
    queue: Mutex<Queue>,
    carry: Box<Carry>,
}

#[derive(Debug)]
struct Queue {
    jobs: Sender<Outgoing>,
    waiting: Receiver<Outgoing>,
    workers: usize,
    /// Workers without a message, less the messages that wait for a worker.
    free: isize,
    /// A message that others may rely on is under way, and these wait for its being taken. HTTP keeps no order between two requests.
    ordered: bool,
    held: VecDeque<Outgoing>,
}

impl Posts {
    pub(super) fn new(carry: impl Fn(&Outgoing) + Send + Sync + 'static) -> Arc<Posts> {
        let (jobs, waiting) = unbounded();
        let queue = Queue { jobs, waiting, workers: 0, free: 0, ordered: false, held: VecDeque::new() };
        Arc::new(Posts { queue: Mutex::new(queue), carry: Box::new(carry) })
    }

    /// Takes a message. It is carried at once, or once that was taken which it may rely on.
    pub(super) fn send(self: &Arc<Posts>, message: Outgoing) {
        let mut queue = lock(&self.queue);
        if queue.ordered {
            queue.held.push_back(message);
        } else {
            self.dispatch(&mut queue, message);
        }
    }

    /// Nothing more is sent: workers end with what they have.
    pub(super) fn end(&self) {
        lock(&self.queue).jobs = bounded(0).0;
    }

    /// Gives a message to a worker.
    fn dispatch(self: &Arc<Posts>, queue: &mut Queue, message: Outgoing) {
        queue.free -= 1;
        if queue.free < 0 && queue.workers < WORKERS {
            let (posts, waiting) = (Arc::clone(self), queue.waiting.clone());
            // Without a new one the message waits for a worker that is there.
            if spawn("post", move || posts.work(&waiting)).is_ok() {
                queue.workers += 1;
                queue.free += 1;
            }
        }
        queue.ordered |= message.in_order;
        // The receiving end is ours, too: it cannot be gone.
        let _ = queue.jobs.send(message);
    }

    fn work(self: &Arc<Posts>, waiting: &Receiver<Outgoing>) {
        while let Ok(message) = waiting.recv() {
            (self.carry)(&message);
            let mut queue = lock(&self.queue);
            queue.free += 1;
            if message.in_order {
                queue.ordered = false;
                while !queue.ordered
                    && let Some(next) = queue.held.pop_front()
                {
                    self.dispatch(&mut queue, next);
                }
            }
        }
    }
}

impl fmt::Debug for Posts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Posts").field("queue", &self.queue).finish_non_exhaustive()
    }
}
