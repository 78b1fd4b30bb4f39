//! What waits between the lanes and the recorder, in order and bounded in memory.
//!
//! ```text
//!  open ─► near ─────────────────────────► recorder    while it keeps up, and for a burst
//!    └───► fresh ─► relief ─► disk ───────┘            while it is behind
//! ```
//!
//! Near batches are the oldest, then come those on the disk, the fresh, and the one that is being filled. So a flood passes through few fresh batches, which are
//! still in the processor's cache when they are written, and their memory is used again at once: the kernel clears no page for it.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::capture::pipe::Exit;
use crate::source::batch::Batch;
use crate::source::overflow::{Block, Overflow};

/// Bytes of memory that wait to be recorded at most; with it the whole program stays below 64 MB.
pub const QUEUE_LIMIT: usize = 16 << 20;

/// Bytes read at once, about.
pub(super) const BUFFER: usize = 128 << 10;

/// Bytes of one batch: a full read of a large pipe, and small enough for a processor's cache.
pub(super) const BATCH: usize = BUFFER + (4 << 10);

/// Near batches: half of what memory may hold.
const NEAR: usize = QUEUE_LIMIT / 2 / BATCH;

/// Fresh batches at which they begin to be moved to the disk: whoever moves them is not woken for each.
const MOVED: usize = 4;

/// Empty batches kept for use where there is no traffic.
const SPARE_AT_REST: usize = 1;

/// Queued bytes at which the recorder is woken early.
const EAGER: usize = QUEUE_LIMIT / 8;

/// How long a lane waits for room while the disk takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long chunks gather before the recorder takes them all: below what a person notices, and long enough that
/// waking the recorder costs nothing.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// How long a recorder that is far behind leaves the processors to its peers at most.
const STAND_BACK: Duration = Duration::from_millis(250);

/// How long an idle recorder sleeps at most before it is asked again.
const IDLE: Duration = Duration::from_secs(1);

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    near: VecDeque<Batch>,
    disk: VecDeque<Block>,
    /// One is on its way from the fresh ones to the disk.
    moving: bool,
    fresh: VecDeque<Batch>,
    /// Being filled. Whoever does that has taken it out.
    open: Batch,
    spare: Vec<Batch>,
    /// Batches that were filled since the recorder took its last one.
    filled: usize,
    /// Memory in use by all batches that the recorder has not done with.
    size: usize,
    /// The recorder sleeps until there is something.
    asleep: bool,
    /// The queue has passed [`EAGER`] and the recorder was told.
    pressed: bool,
    /// Whoever relieves the queue sleeps until it is to.
    relief: bool,
    /// A lane waits for room.
    blocked: bool,
    /// There was no room on the disk, until the recorder takes something.
    stuck: bool,
    /// One of the two sides is gone: what is queued is all there will be.
    over: bool,
    /// What passed in all, once the server has ended.
    passed: Option<Passed>,
    /// What waited was discarded.
    cut: bool,
}

/// What passed through the pipes of a server in all, and how it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub chunks: u64,
    /// By pipe.
    pub bytes: [u64; 3],
    pub exit: Exit,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.fresh.is_empty() && !self.moves() && self.near.is_empty()
    }

    /// Whether the recorder is to sleep, which is noted each time: the batch that it was woken for may be out again, to be filled further.
    fn has_nothing(&mut self) -> bool {
        self.asleep = self.is_empty() && !self.over;
        self.asleep
    }

    /// Whether anything waits on the disk, or is on its way there.
    fn moves(&self) -> bool {
        self.moving || !self.disk.is_empty()
    }

    /// Nothing more is written into this one.
    fn seal(&mut self, batch: Batch) {
        if batch.is_empty() {
            return self.release(batch);
        }
        self.filled += 1;
        if self.near.len() < NEAR && self.fresh.is_empty() && !self.moves() {
            self.near.push_back(batch);
        } else {
            self.fresh.push_back(batch);
        }
    }

    /// A batch's memory is free again: for the next, unless that is too much or too little.
    fn release(&mut self, mut batch: Batch) {
        self.size -= batch.size();
        batch.clear();
        if (BATCH..2 * BATCH).contains(&batch.room()) && self.size + self.spare.len() * BATCH < QUEUE_LIMIT {
            self.spare.push(batch);
        }
    }
}

/// Who should be woken once there is time for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    recorder: bool,
    relief: bool,
}

/// The queue, as both sides see it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Wakes the recorder.
    wake: Condvar,
    /// Wakes whoever relieves the queue.
    full: Condvar,
    /// Wakes a lane that waits for room.
    room: Condvar,
    /// Wakes the recorder where it waits for what is on its way to the disk.
    landed: Condvar,
    /// Data bytes that the recorder has taken.
    pub(super) taken: AtomicU64,
}

impl Queue {
    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batch that is being filled, to be put back, with room for so many bytes more.
    pub(super) fn open(&self, room: usize) -> Batch {
        let mut waiting = self.lock();
        let open = mem::take(&mut waiting.open);
        if open.room() >= room {
            return open;
        }
        waiting.seal(open);
        let spare = if room <= BATCH { waiting.spare.pop() } else { None };
        spare.unwrap_or_else(|| Batch::with_capacity(room.max(BATCH)))
    }

    /// Whether a good deal more has room.
    pub(super) fn is_calm(&self) -> bool {
        self.lock().size <= QUEUE_LIMIT / 2
    }

    /// Puts back the batch that is being filled, `added` bytes larger, whether there is room for them or not.
    pub(super) fn put(&self, batch: Batch, added: usize, wanted: &mut Wanted) {
        self.take_back(&mut self.lock(), batch, added, wanted);
    }

    /// The same where there is room for them. Waits for it as long as the queue moves; without it the batch is returned.
    pub(super) fn put_with_patience(&self, batch: Batch, added: usize, wanted: &mut Wanted) -> Result<(), Batch> {
        let mut waiting = self.lock();
        let mut before = usize::MAX;
        while waiting.size + added > QUEUE_LIMIT && waiting.size < before && !waiting.stuck && !waiting.over {
            before = waiting.size;
            waiting.blocked = true;
            self.full.notify_one();
            waiting = wait_while(&self.room, waiting, PATIENCE, |waiting| waiting.blocked && !waiting.over);
        }
        waiting.blocked = false;
        if waiting.size + added > QUEUE_LIMIT || waiting.over {
            return Err(batch);
        }
        self.take_back(&mut waiting, batch, added, wanted);
        Ok(())
    }

    fn take_back(&self, waiting: &mut Waiting, batch: Batch, added: usize, wanted: &mut Wanted) {
        if waiting.over {
            return;
        }
        waiting.size += added;
        waiting.open = batch;
        let pressed = waiting.size > EAGER;
        wanted.recorder |= mem::take(&mut waiting.asleep) || (pressed && !waiting.pressed);
        waiting.pressed = pressed;
        wanted.relief |= waiting.fresh.len() >= MOVED && mem::take(&mut waiting.relief);
    }

    /// Wakes who is wanted.
    pub(super) fn nudge(&self, wanted: &mut Wanted) {
        let Wanted { recorder, relief } = mem::take(wanted);
        if recorder {
            self.wake.notify_one();
        }
        if relief {
            self.full.notify_one();
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.lock().over = true;
        self.notify();
    }

    /// The server has ended: nothing more comes, and this is all that came.
    pub(super) fn end_with(&self, passed: Passed) {
        self.lock().passed = Some(passed);
        self.end();
    }

    /// What passed in all, once the server has ended.
    pub(super) fn passed(&self) -> Option<Passed> {
        self.lock().passed
    }

    /// Discards all that waits but the oldest batch, so that the recorder comes to its end soon. The first batch of all says which server it was.
    pub(super) fn cut(&self) {
        let mut waiting = self.lock();
        if waiting.near.is_empty() && !waiting.moves() {
            let oldest = waiting.fresh.pop_front().unwrap_or_else(|| mem::take(&mut waiting.open));
            waiting.near.push_back(oldest);
        }
        (waiting.over, waiting.cut) = (true, true);
        waiting.near.truncate(1);
        waiting.disk.clear();
        waiting.fresh.clear();
        waiting.open = Batch::default();
        drop(waiting);
        self.notify();
    }

    /// Nobody will take what waits.
    pub(super) fn forget(&self) {
        self.cut();
        self.lock().near.clear();
    }

    fn notify(&self) {
        self.wake.notify_one();
        self.full.notify_one();
        self.room.notify_one();
    }

    /// Memory was released, or will not be: tells a lane that waits, once it would not wait again soon.
    fn tell_of_room(&self, waiting: &mut Waiting) {
        if waiting.blocked && (waiting.fresh.is_empty() || waiting.size <= QUEUE_LIMIT / 2 || waiting.stuck) {
            waiting.blocked = false;
            self.room.notify_one();
        }
    }

    /// Sleeps so long, unless everything is over sooner.
    pub(super) fn hold_off(&self, time: Duration) {
        drop(wait_while(&self.wake, self.lock(), time, |waiting| !waiting.over));
    }

    /// Sleeps until there is something, then lets more of it gather.
    pub(super) fn rest(&self) {
        let mut waiting = wait_while(&self.wake, self.lock(), IDLE, Waiting::has_nothing);
        waiting.asleep = false;
        if waiting.is_empty() {
            waiting.spare.truncate(SPARE_AT_REST);
        } else {
            let calm = |waiting: &mut Waiting| waiting.size < EAGER && !waiting.over;
            drop(wait_while(&self.wake, waiting, GATHER, calm));
        }
    }

    /// Whether memory did not hold all that waits, and more came while the recorder was at its last batch than it took.
    pub(super) fn is_outrun(&self) -> bool {
        let waiting = self.lock();
        waiting.moves() && waiting.filled > 1 && !waiting.stuck
    }

    /// Sleeps while more and more comes for which there is room, within bounds.
    pub(super) fn stand_back(&self) {
        let begun = Instant::now();
        let mut waiting = self.lock();
        while mem::take(&mut waiting.filled) > 0 && !waiting.stuck && begun.elapsed() < STAND_BACK {
            waiting = wait_while(&self.wake, waiting, GATHER, |waiting| !waiting.over);
        }
    }

    /// The oldest batch in place of one that is used up, an empty one where none waits; and whether nothing can follow it.
    ///
    /// # Errors
    /// It waited on the disk and cannot be read back.
    pub(super) fn turn(&self, used: Batch) -> anyhow::Result<(Batch, bool)> {
        let mut waiting = self.lock();
        waiting.filled = 0;
        if mem::take(&mut waiting.stuck) {
            self.full.notify_one();
        }
        let on_its_way = |waiting: &mut Waiting| waiting.near.is_empty() && waiting.disk.is_empty() && waiting.moving;
        waiting = self.landed.wait_while(waiting, on_its_way).unwrap_or_else(PoisonError::into_inner);
        let batch = if let Some(batch) = waiting.near.pop_front() {
            waiting.release(used);
            batch
        } else if let Some(block) = waiting.disk.pop_front() {
            waiting.size -= used.size();
            if waiting.disk.is_empty() {
                // Its file can be closed.
                self.full.notify_one();
            }
            drop(waiting);
            let batch = block.read(used)?;
            waiting = self.lock();
            waiting.size += batch.size();
            batch
        } else {
            waiting.release(used);
            // What is fresh has become near.
            let Waiting { near, fresh, .. } = &mut *waiting;
            mem::swap(near, fresh);
            waiting.near.pop_front().unwrap_or_else(|| mem::take(&mut waiting.open))
        };
        self.tell_of_room(&mut waiting);
        Ok((batch, waiting.over && waiting.is_empty()))
    }

    /// Moves fresh batches to the disk while there are many, until nothing more comes.
    pub(super) fn relieve(&self, mut overflow: Overflow) {
        let mut waiting = self.lock();
        loop {
            while (waiting.fresh.len() < MOVED || waiting.stuck) && !waiting.over {
                if waiting.disk.is_empty() {
                    overflow.rest();
                }
                waiting.relief = true;
                waiting = self.full.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            waiting.relief = false;
            if waiting.over {
                return;
            }
            while let Some(batch) = waiting.fresh.pop_front() {
                waiting.moving = true;
                drop(waiting);
                let block = overflow.write(&batch);
                waiting = self.lock();
                waiting.moving = false;
                match block {
                    // What stood before it is gone.
                    _ if waiting.cut => return self.landed.notify_one(),
                    Ok(block) => {
                        waiting.disk.push_back(block);
                        waiting.release(batch);
                    }
                    Err(_) => {
                        waiting.fresh.push_front(batch);
                        waiting.stuck = true;
                    }
                }
                self.landed.notify_one();
                self.tell_of_room(&mut waiting);
                if waiting.stuck || waiting.over {
                    break;
                }
            }
        }
    }

    /// Memory in use, and whether anything waits on the disk.
    #[cfg(test)]
    pub(super) fn state(&self) -> (usize, bool) {
        let waiting = self.lock();
        (waiting.size, waiting.moves())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

fn wait_while<'a>(
    wake: &Condvar,
    waiting: MutexGuard<'a, Waiting>,
    most: Duration,
    condition: impl FnMut(&mut Waiting) -> bool,
) -> MutexGuard<'a, Waiting> {
    wake.wait_timeout_while(waiting, most, condition).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::capture::{LinkType, PacketNumber, Time};
    use crate::support::waits::within;

    fn put_a_byte(queue: &Queue, mut batch: Batch) -> Wanted {
        let (before, mut wanted) = (batch.size(), Wanted::default());
        batch.write(PacketNumber(0), Time(0), LinkType::PIPE, |out| out.push(b'x'));
        let added = batch.size() - before;
        queue.put(batch, added, &mut wanted);
        wanted
    }

    #[test]
    fn a_recorder_that_is_woken_while_the_batch_is_out_again_is_woken_when_it_is_back() {
        let queue = Queue::default();
        assert!(queue.lock().has_nothing());
        assert!(put_a_byte(&queue, queue.open(1)).recorder, "it sleeps");
        let batch = queue.open(1);
        assert!(queue.lock().has_nothing(), "it was woken, and finds nothing");
        assert!(put_a_byte(&queue, batch).recorder, "it sleeps again");
        assert!(!queue.lock().has_nothing());
        assert!(!put_a_byte(&queue, queue.open(1)).recorder, "it is awake");
    }

    /// Fills so many batches.
    fn fill(queue: &Queue, batches: usize) {
        for _ in 0..batches {
            let mut batch = queue.open(BATCH);
            let before = batch.size();
            batch.write(PacketNumber(0), Time(0), LinkType::PIPE, |out| out.resize(BATCH, b'x'));
            let added = batch.size() - before;
            let mut wanted = Wanted::default();
            let _ = queue.put_with_patience(batch, added, &mut wanted);
            queue.nudge(&mut wanted);
        }
    }

    #[test]
    fn a_recorder_that_is_far_behind_stands_back_while_more_comes() {
        within("a flood to be let go by", || {
            let folder = tempfile::tempdir().unwrap();
            let (queue, passing) = (Queue::default(), AtomicBool::new(true));
            thread::scope(|scope| {
                scope.spawn(|| queue.relieve(Overflow::new(folder.path(), false)));
                fill(&queue, NEAR / 2);
                assert!(!queue.is_outrun(), "memory holds it");
                fill(&queue, 2 * NEAR);
                assert!(queue.is_outrun());
                queue.turn(Batch::default()).unwrap();
                assert!(!queue.is_outrun(), "nothing came meanwhile");
                let flood = scope.spawn(|| {
                    while passing.load(Ordering::Relaxed) {
                        fill(&queue, 1);
                    }
                });
                while !queue.is_outrun() {
                    thread::yield_now();
                }
                queue.stand_back();
                // It came to an end although the flood had none. Now the flood has.
                passing.store(false, Ordering::Relaxed);
                flood.join().unwrap();
                queue.stand_back();
                queue.end();
            });
        });
    }
}
