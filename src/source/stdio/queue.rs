//! What waits between the lanes and the recorder, in order and bounded in memory.
//!
//! ```text
//!  open ─► near ─────────────────────────► recorder    while it keeps up, and for a burst
//!    └───► fresh ─► relief ─► disk ───────┘            while it is behind
//! ```
//!
//! Near batches are the oldest, then come those on the disk, the fresh, and the one that is being
//! filled. So a flood passes through few fresh batches, which are still in the processor's cache
//! when they are written, and their memory is used again at once: the kernel clears no page for it.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::capture::pipe::Exit;
use crate::source::batch::Batch;
use crate::source::overflow::{Overflow, SpilledBatch};

/// Bytes of memory that wait to be recorded at most; with it the whole program stays below 64 MB.
pub const QUEUE_LIMIT: usize = 16 << 20;

/// Bytes read at once, about.
pub(super) const BUFFER: usize = 128 << 10;

/// Bytes of one batch: a full read of a large pipe, and small enough for a processor's cache.
pub(super) const BATCH: usize = BUFFER + (4 << 10);

/// Near batches: half of what memory may hold.
const NEAR: usize = QUEUE_LIMIT / 2 / BATCH;

/// Fresh batches at which they begin to be moved to the disk: whoever moves them is not
/// woken for each.
const MOVED: usize = 4;

/// Empty batches kept for use where there is no traffic.
const SPARE_AT_REST: usize = 1;

/// Queued bytes at which the recorder is woken early.
const EAGER: usize = QUEUE_LIMIT / 8;

/// How long a lane waits for room while the disk takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long chunks gather before the recorder takes them all: below what a person notices, and long
/// enough that waking the recorder costs nothing.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// How long a recorder that is far behind leaves the processors to its peers at most.
const STAND_BACK: Duration = Duration::from_millis(250);

/// How long an idle recorder sleeps at most before it is asked again.
const IDLE: Duration = Duration::from_secs(1);

/// What waits.
#[derive(Debug, Default)]
pub(super) struct QueuedBatches {
    near: VecDeque<Batch>,
    disk: VecDeque<SpilledBatch>,
    /// One is on its way from the fresh ones to the disk.
    is_spilling: bool,
    recent: VecDeque<Batch>,
    /// Being filled. Whoever does that has taken it out.
    open: Batch,
    spare: Vec<Batch>,
    /// Batches that were filled since the recorder took its last one.
    batches_since_taken: usize,
    /// Memory in use by all batches that the recorder has not done with.
    size: usize,
    /// The recorder sleeps until there is something.
    recorder_asleep: bool,
    /// The queue has passed [`EAGER`] and the recorder was told.
    woken_early: bool,
    /// Whoever relieves the queue sleeps until it is to.
    spiller_asleep: bool,
    /// A lane waits for room.
    lane_waits: bool,
    /// There was no room on the disk, until the recorder takes something.
    disk_full: bool,
    /// One of the two sides is gone: what is queued is all there will be.
    ended: bool,
    /// What passed in all, once the server has ended.
    totals: Option<PassedTotals>,
    /// What waited was discarded.
    discarded: bool,
}

/// What passed through the pipes of a server in all, and how it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassedTotals {
    pub chunks: u64,
    /// By pipe.
    pub bytes: [u64; 3],
    pub exit: Exit,
}

impl QueuedBatches {
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.recent.is_empty() && !self.uses_disk() && self.near.is_empty()
    }

    /// Whether the recorder is to sleep, which is noted each time: the batch that it was woken for
    /// may be out again, to be filled further.
    fn is_idle(&mut self) -> bool {
        self.recorder_asleep = self.is_empty() && !self.ended;
        self.recorder_asleep
    }

    /// Whether anything waits on the disk, or is on its way there.
    fn uses_disk(&self) -> bool {
        self.is_spilling || !self.disk.is_empty()
    }

    /// Nothing more is written into this one.
    fn close_batch(&mut self, batch: Batch) {
        if batch.is_empty() {
            return self.release(batch);
        }
        self.batches_since_taken += 1;
        if self.near.len() < NEAR && self.recent.is_empty() && !self.uses_disk() {
            self.near.push_back(batch);
        } else {
            self.recent.push_back(batch);
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
pub(super) struct PendingWakeups {
    recorder: bool,
    spiller: bool,
}

/// The queue, as both sides see it.
#[derive(Debug, Default)]
pub(super) struct Queue {
    queued: Mutex<QueuedBatches>,
    /// Wakes the recorder.
    wake_recorder: Condvar,
    /// Wakes whoever relieves the queue.
    wake_spiller: Condvar,
    /// Wakes a lane that waits for room.
    room_made: Condvar,
    /// Wakes the recorder where it waits for what is on its way to the disk.
    batch_spilled: Condvar,
    /// Data bytes that the recorder has taken.
    pub(super) taken: AtomicU64,
}

impl Queue {
    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, QueuedBatches> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The batch that is being filled, to be put back, with room for so many bytes more.
    pub(super) fn open(&self, room: usize) -> Batch {
        let mut queued = self.lock();
        let open = mem::take(&mut queued.open);
        if open.room() >= room {
            return open;
        }
        queued.close_batch(open);
        let spare = if room <= BATCH { queued.spare.pop() } else { None };
        spare.unwrap_or_else(|| Batch::with_capacity(room.max(BATCH)))
    }

    /// Whether a good deal more has room.
    pub(super) fn has_much_room(&self) -> bool {
        self.lock().size <= QUEUE_LIMIT / 2
    }

    /// Puts back the batch that is being filled, `added` bytes larger, whether there is room for
    /// them or not.
    pub(super) fn put(&self, batch: Batch, added: usize, wakeups: &mut PendingWakeups) {
        self.take_back(&mut self.lock(), batch, added, wakeups);
    }

    /// The same where there is room for them. Waits for it as long as the queue moves; without it
    /// the batch is returned.
    pub(super) fn put_when_room(&self, batch: Batch, added: usize, wakeups: &mut PendingWakeups) -> Result<(), Batch> {
        let mut queued = self.lock();
        let mut before = usize::MAX;
        while queued.size + added > QUEUE_LIMIT && queued.size < before && !queued.disk_full && !queued.ended {
            before = queued.size;
            queued.lane_waits = true;
            self.wake_spiller.notify_one();
            queued = wait_while(&self.room_made, queued, PATIENCE, |queued| queued.lane_waits && !queued.ended);
        }
        queued.lane_waits = false;
        if queued.size + added > QUEUE_LIMIT || queued.ended {
            return Err(batch);
        }
        self.take_back(&mut queued, batch, added, wakeups);
        Ok(())
    }

    fn take_back(&self, queued: &mut QueuedBatches, batch: Batch, added: usize, wakeups: &mut PendingWakeups) {
        if queued.ended {
            return;
        }
        queued.size += added;
        queued.open = batch;
        let woken_early = queued.size > EAGER;
        wakeups.recorder |= mem::take(&mut queued.recorder_asleep) || (woken_early && !queued.woken_early);
        queued.woken_early = woken_early;
        wakeups.spiller |= queued.recent.len() >= MOVED && mem::take(&mut queued.spiller_asleep);
    }

    /// Wakes who is wanted.
    pub(super) fn wake_sleepers(&self, wakeups: &mut PendingWakeups) {
        let PendingWakeups { recorder, spiller } = mem::take(wakeups);
        if recorder {
            self.wake_recorder.notify_one();
        }
        if spiller {
            self.wake_spiller.notify_one();
        }
    }

    /// Nothing more comes.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.notify();
    }

    /// The server has ended: nothing more comes, and this is all that came.
    pub(super) fn end_with(&self, totals: PassedTotals) {
        self.lock().totals = Some(totals);
        self.end();
    }

    /// What passed in all, once the server has ended.
    pub(super) fn totals(&self) -> Option<PassedTotals> {
        self.lock().totals
    }

    /// Discards all that waits but the oldest batch, so that the recorder comes to its end soon.
    /// The first batch of all says which server it was.
    pub(super) fn discard_rest(&self) {
        let mut queued = self.lock();
        if queued.near.is_empty() && !queued.uses_disk() {
            let oldest = queued.recent.pop_front().unwrap_or_else(|| mem::take(&mut queued.open));
            queued.near.push_back(oldest);
        }
        (queued.ended, queued.discarded) = (true, true);
        queued.near.truncate(1);
        queued.disk.clear();
        queued.recent.clear();
        queued.open = Batch::default();
        drop(queued);
        self.notify();
    }

    /// Nobody will take what waits.
    pub(super) fn discard_all(&self) {
        self.discard_rest();
        self.lock().near.clear();
    }

    fn notify(&self) {
        self.wake_recorder.notify_one();
        self.wake_spiller.notify_one();
        self.room_made.notify_one();
    }

    /// Memory was released, or will not be: tells a lane that waits, once it would not
    /// wait again soon.
    fn signal_room(&self, queued: &mut QueuedBatches) {
        if queued.lane_waits && (queued.recent.is_empty() || queued.size <= QUEUE_LIMIT / 2 || queued.disk_full) {
            queued.lane_waits = false;
            self.room_made.notify_one();
        }
    }

    /// Sleeps so long, unless everything is over sooner.
    pub(super) fn sleep_until_over(&self, time: Duration) {
        drop(wait_while(&self.wake_recorder, self.lock(), time, |queued| !queued.ended));
    }

    /// Sleeps until there is something, then lets more of it gather.
    pub(super) fn rest(&self) {
        let mut queued = wait_while(&self.wake_recorder, self.lock(), IDLE, QueuedBatches::is_idle);
        queued.recorder_asleep = false;
        if queued.is_empty() {
            queued.spare.truncate(SPARE_AT_REST);
        } else {
            let calm = |queued: &mut QueuedBatches| queued.size < EAGER && !queued.ended;
            drop(wait_while(&self.wake_recorder, queued, GATHER, calm));
        }
    }

    /// Whether memory did not hold all that waits, and more came while the recorder was at its last
    /// batch than it took.
    pub(super) fn is_falling_behind(&self) -> bool {
        let queued = self.lock();
        queued.uses_disk() && queued.batches_since_taken > 1 && !queued.disk_full
    }

    /// Sleeps while more and more comes for which there is room, within bounds.
    pub(super) fn yield_processors(&self) {
        let begun = Instant::now();
        let mut queued = self.lock();
        while mem::take(&mut queued.batches_since_taken) > 0 && !queued.disk_full && begun.elapsed() < STAND_BACK {
            queued = wait_while(&self.wake_recorder, queued, GATHER, |queued| !queued.ended);
        }
    }

    /// The oldest batch in place of one that is used up, an empty one where none waits; and whether
    /// nothing can follow it.
    ///
    /// # Errors
    /// It waited on the disk and cannot be read back.
    pub(super) fn next_batch(&self, used: Batch) -> anyhow::Result<(Batch, bool)> {
        let mut queued = self.lock();
        queued.batches_since_taken = 0;
        if mem::take(&mut queued.disk_full) {
            self.wake_spiller.notify_one();
        }
        let on_its_way =
            |queued: &mut QueuedBatches| queued.near.is_empty() && queued.disk.is_empty() && queued.is_spilling;
        queued = self.batch_spilled.wait_while(queued, on_its_way).unwrap_or_else(PoisonError::into_inner);
        let batch = if let Some(batch) = queued.near.pop_front() {
            queued.release(used);
            batch
        } else if let Some(block) = queued.disk.pop_front() {
            queued.size -= used.size();
            if queued.disk.is_empty() {
                // Its file can be closed.
                self.wake_spiller.notify_one();
            }
            drop(queued);
            let batch = block.read(used)?;
            queued = self.lock();
            queued.size += batch.size();
            batch
        } else {
            queued.release(used);
            // What is fresh has become near.
            let QueuedBatches { near, recent, .. } = &mut *queued;
            mem::swap(near, recent);
            queued.near.pop_front().unwrap_or_else(|| mem::take(&mut queued.open))
        };
        self.signal_room(&mut queued);
        Ok((batch, queued.ended && queued.is_empty()))
    }

    /// Moves fresh batches to the disk while there are many, until nothing more comes.
    pub(super) fn spill(&self, mut overflow: Overflow) {
        let mut queued = self.lock();
        loop {
            while (queued.recent.len() < MOVED || queued.disk_full) && !queued.ended {
                if queued.disk.is_empty() {
                    overflow.rest();
                }
                queued.spiller_asleep = true;
                queued = self.wake_spiller.wait(queued).unwrap_or_else(PoisonError::into_inner);
            }
            queued.spiller_asleep = false;
            if queued.ended {
                return;
            }
            while let Some(batch) = queued.recent.pop_front() {
                queued.is_spilling = true;
                drop(queued);
                let block = overflow.write(&batch);
                queued = self.lock();
                queued.is_spilling = false;
                match block {
                    // What stood before it is gone.
                    _ if queued.discarded => return self.batch_spilled.notify_one(),
                    Ok(block) => {
                        queued.disk.push_back(block);
                        queued.release(batch);
                    }
                    Err(_) => {
                        queued.recent.push_front(batch);
                        queued.disk_full = true;
                    }
                }
                self.batch_spilled.notify_one();
                self.signal_room(&mut queued);
                if queued.disk_full || queued.ended {
                    break;
                }
            }
        }
    }

    /// Memory in use, and whether anything waits on the disk.
    #[cfg(test)]
    pub(super) fn state(&self) -> (usize, bool) {
        let queued = self.lock();
        (queued.size, queued.uses_disk())
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}

fn wait_while<'a>(
    wake: &Condvar,
    queued: MutexGuard<'a, QueuedBatches>,
    most: Duration,
    condition: impl FnMut(&mut QueuedBatches) -> bool,
) -> MutexGuard<'a, QueuedBatches> {
    wake.wait_timeout_while(queued, most, condition).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;
    use crate::capture::{LinkType, PacketNumber, Time};
    use crate::support::waits::within;

    fn put_a_byte(queue: &Queue, mut batch: Batch) -> PendingWakeups {
        let (before, mut wakeups) = (batch.size(), PendingWakeups::default());
        batch.write(PacketNumber(0), Time(0), LinkType::PIPE, |out| out.push(b'x'));
        let added = batch.size() - before;
        queue.put(batch, added, &mut wakeups);
        wakeups
    }

    #[test]
    fn a_recorder_that_is_woken_while_the_batch_is_out_again_is_woken_when_it_is_back() {
        let queue = Queue::default();
        assert!(queue.lock().is_idle());
        assert!(put_a_byte(&queue, queue.open(1)).recorder, "it sleeps");
        let batch = queue.open(1);
        assert!(queue.lock().is_idle(), "it was woken, and finds nothing");
        assert!(put_a_byte(&queue, batch).recorder, "it sleeps again");
        assert!(!queue.lock().is_idle());
        assert!(!put_a_byte(&queue, queue.open(1)).recorder, "it is awake");
    }

    /// Fills so many batches.
    fn fill(queue: &Queue, batches: usize) {
        for _ in 0..batches {
            let mut batch = queue.open(BATCH);
            let before = batch.size();
            batch.write(PacketNumber(0), Time(0), LinkType::PIPE, |out| out.resize(BATCH, b'x'));
            let added = batch.size() - before;
            let mut wakeups = PendingWakeups::default();
            let _ = queue.put_when_room(batch, added, &mut wakeups);
            queue.wake_sleepers(&mut wakeups);
        }
    }

    #[test]
    fn a_recorder_that_is_far_behind_stands_back_while_more_comes() {
        within("a flood to be let go by", || {
            let folder = tempfile::tempdir().unwrap();
            let (queue, passing) = (Queue::default(), AtomicBool::new(true));
            thread::scope(|scope| {
                scope.spawn(|| queue.spill(Overflow::new(folder.path(), false)));
                fill(&queue, NEAR / 2);
                assert!(!queue.is_falling_behind(), "memory holds it");
                fill(&queue, 2 * NEAR);
                assert!(queue.is_falling_behind());
                queue.next_batch(Batch::default()).unwrap();
                assert!(!queue.is_falling_behind(), "nothing came meanwhile");
                let flood = scope.spawn(|| {
                    while passing.load(Ordering::Relaxed) {
                        fill(&queue, 1);
                    }
                });
                while !queue.is_falling_behind() {
                    thread::yield_now();
                }
                queue.yield_processors();
                // It came to an end although the flood had none. Now the flood has.
                passing.store(false, Ordering::Relaxed);
                flood.join().unwrap();
                queue.yield_processors();
                queue.end();
            });
        });
    }
}
