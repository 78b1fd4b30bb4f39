//! The queue between what passes through mcptap and the recorder: in order, bounded in memory.
//!
//! The lanes of a wrapped server write to it ([`stdio`](super::stdio)), and so do the connections
//! of a proxy and of a replay ([`tape`](super::tape)). They are called writers here. One writes at
//! a time.
//!
//! ```text
//!  open ─► near ───────────────────────────► recorder    while it keeps up, and for a burst
//!    └───► recent ─► spiller ─► disk ───────┘            while it is behind
//! ```
//!
//! The order of age is: near batches, batches on disk, recent batches, the open batch. A flood
//! passes through few recent batches, which are still in the processor's cache when they are
//! written to disk. Their memory is used again at once, so the kernel need not clear new pages.

mod queued_batches;
mod reader;

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(super) use self::queued_batches::PassedTotals;
use self::queued_batches::QueuedBatches;
pub(super) use self::reader::{Advance, QueueReader};
use super::batch::Batch;
use super::overflow::Overflow;

/// The largest number of bytes in memory that wait to be recorded. It keeps the whole program
/// below 64 MB.
pub const QUEUE_LIMIT: usize = 16 << 20;

/// Bytes of one read, approximately.
pub(super) const BUFFER: usize = 128 << 10;

/// Bytes of one batch: a full read of a large pipe, and small enough for a processor's cache.
pub(super) const BATCH: usize = BUFFER + (4 << 10);

/// The largest number of near batches, 1 MiB. A stream of 50 MB a second fits in them while the
/// recorder lets chunks gather ([`GATHER`]). More of them would slow the writers: the kernel takes
/// eight times as long to supply a page as a copy into memory that was used before.
pub(super) const MAX_NEAR: usize = (1 << 20) / BATCH;

/// The largest number of near batches until the recorder begins, 8 MiB. The recorder prepares its
/// database first. A flood that went to the disk meanwhile could fill it before.
const NEAR_AT_START: usize = QUEUE_LIMIT / 2 / BATCH;

/// The number of recent batches at which they are moved to disk. The spiller is not woken for
/// each of them.
const SPILL_AT: usize = 4;

/// Empty batches retained while there is no traffic.
const SPARE_AT_REST: usize = 1;

/// The time for which a writer waits for room while the disk takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// The time for which chunks gather before the recorder takes them. A person does not notice it,
/// and it makes the cost of waking the recorder negligible.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// The longest time for which a recorder that is far behind yields the processors to its peers.
const LONGEST_YIELD: Duration = Duration::from_millis(250);

/// The longest sleep of an idle recorder before it is called again.
const IDLE: Duration = Duration::from_secs(1);

/// The threads to be woken when the calling thread has time for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PendingWakeups {
    recorder: bool,
    spiller: bool,
}

/// The queue, shared by the writers, the recorder and the spiller.
#[derive(Debug, Default)]
pub(super) struct Queue {
    queued: Mutex<QueuedBatches>,
    wake_recorder: Condvar,
    wake_spiller: Condvar,
    /// Wakes a writer that waits for room.
    room_made: Condvar,
    /// Wakes a recorder that waits for a batch on its way to disk.
    batch_spilled: Condvar,
    /// Bytes of data that the recorder has taken.
    pub(super) taken: AtomicU64,
    /// Those of them that the recorder has stored, see [`Receipts`](super::stdio::Receipts).
    pub(super) stored: AtomicU64,
    /// The waiting batches were discarded.
    discarded: AtomicBool,
}

impl Queue {
    /// Ignores poisoning, because no code under the lock can panic.
    fn lock(&self) -> MutexGuard<'_, QueuedBatches> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the batch that is being filled, with room for at least `room` bytes. The caller
    /// puts it back.
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

    /// Whether the queue is at most half full.
    pub(super) fn has_much_room(&self) -> bool {
        self.lock().size <= QUEUE_LIMIT / 2
    }

    /// Puts back the batch that is being filled, `added` bytes larger, even if the
    /// limit is exceeded.
    pub(super) fn put(&self, batch: Batch, added: usize, wakeups: &mut PendingWakeups) {
        self.take_back(&mut self.lock(), batch, added, wakeups);
    }

    /// Puts back the batch that is being filled if there is room for `added` bytes. Waits for room
    /// as long as the queue shrinks.
    ///
    /// # Errors
    /// Returns the batch if there is no room.
    pub(super) fn put_when_room(&self, batch: Batch, added: usize, wakeups: &mut PendingWakeups) -> Result<(), Batch> {
        let mut queued = self.lock();
        let mut before = usize::MAX;
        while queued.size + added > QUEUE_LIMIT && queued.size < before && !queued.disk_full && !queued.ended {
            before = queued.size;
            queued.writer_waits = true;
            self.wake_spiller.notify_one();
            queued = wait_while(&self.room_made, queued, PATIENCE, |queued| queued.writer_waits && !queued.ended);
        }
        queued.writer_waits = false;
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
        wakeups.recorder |= mem::take(&mut queued.recorder_asleep);
        wakeups.spiller |= queued.recent.len() >= SPILL_AT && mem::take(&mut queued.spiller_asleep);
    }

    /// Wakes the threads noted in `wakeups`.
    pub(super) fn wake_sleepers(&self, wakeups: &mut PendingWakeups) {
        let PendingWakeups { recorder, spiller } = mem::take(wakeups);
        if recorder {
            self.wake_recorder.notify_one();
        }
        if spiller {
            self.wake_spiller.notify_one();
        }
    }

    /// No more batches will be added. A server that has ended has totals.
    pub(super) fn end(&self, totals: Option<PassedTotals>) {
        let mut queued = self.lock();
        queued.totals = totals.or(queued.totals);
        queued.ended = true;
        drop(queued);
        self.notify();
    }

    /// Whether no more batches will be added.
    pub(super) fn is_ended(&self) -> bool {
        self.lock().ended
    }

    /// The totals, once the server has ended.
    pub(super) fn totals(&self) -> Option<PassedTotals> {
        self.lock().totals
    }

    /// Discards all waiting batches except the oldest, so that the recorder ends soon. The oldest
    /// may be the first of all, which holds the start of the server.
    pub(super) fn discard_rest(&self) {
        let mut queued = self.lock();
        if queued.near.is_empty() && !queued.uses_disk() {
            let oldest = queued.recent.pop_front().unwrap_or_else(|| mem::take(&mut queued.open));
            queued.near.push_back(oldest);
        }
        queued.ended = true;
        self.discarded.store(true, Ordering::Relaxed);
        queued.near.truncate(1);
        queued.disk.clear();
        queued.recent.clear();
        queued.open = Batch::default();
        drop(queued);
        self.notify();
    }

    /// Whether the waiting batches were discarded.
    pub(super) fn is_discarded(&self) -> bool {
        self.discarded.load(Ordering::Relaxed)
    }

    /// Discards all waiting batches, because the recorder has ended.
    pub(super) fn discard_all(&self) {
        self.discard_rest();
        self.lock().near.clear();
    }

    fn notify(&self) {
        self.wake_recorder.notify_one();
        self.wake_spiller.notify_one();
        self.room_made.notify_one();
    }

    /// Wakes a waiting writer after memory was released, as soon as it would not have to wait again
    /// at once; also if no memory will be released.
    fn signal_room(&self, queued: &mut QueuedBatches) {
        if queued.writer_waits && (queued.recent.is_empty() || queued.size <= QUEUE_LIMIT / 2 || queued.disk_full) {
            queued.writer_waits = false;
            self.room_made.notify_one();
        }
    }

    /// Sleeps for this time, or until the queue ends.
    pub(super) fn sleep_until_over(&self, time: Duration) {
        drop(wait_while(&self.wake_recorder, self.lock(), time, |queued| !queued.ended));
    }

    /// Sleeps until there is a batch, then lets more of them gather.
    pub(super) fn rest(&self) {
        let mut queued = wait_while(&self.wake_recorder, self.lock(), IDLE, QueuedBatches::is_idle);
        queued.recorder_asleep = false;
        if queued.is_empty() {
            queued.spare.truncate(SPARE_AT_REST);
        } else {
            drop(wait_while(&self.wake_recorder, queued, GATHER, |queued| !queued.ended));
        }
    }

    /// Whether batches wait on disk, and more batches came during the recorder's last one
    /// than it took.
    pub(super) fn is_falling_behind(&self) -> bool {
        let queued = self.lock();
        queued.uses_disk() && queued.batches_since_taken > 1 && !queued.disk_full
    }

    /// Sleeps while more and more batches come for which there is room.
    /// Limited to [`LONGEST_YIELD`].
    pub(super) fn yield_processors(&self) {
        let begun = Instant::now();
        let mut queued = self.lock();
        while mem::take(&mut queued.batches_since_taken) > 0 && !queued.disk_full && begun.elapsed() < LONGEST_YIELD {
            queued = wait_while(&self.wake_recorder, queued, GATHER, |queued| !queued.ended);
        }
    }

    /// Exchanges a used batch for the oldest one, or for an empty one if none waits. Also returns
    /// whether it is the last.
    pub(super) fn next_batch(&self, used: Batch) -> anyhow::Result<(Batch, bool)> {
        let mut queued = self.lock();
        queued.has_begun = true;
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
            // No batch is on disk, so the recent batches are now the near ones.
            let QueuedBatches { near, recent, .. } = &mut *queued;
            mem::swap(near, recent);
            queued.near.pop_front().unwrap_or_else(|| mem::take(&mut queued.open))
        };
        self.signal_room(&mut queued);
        Ok((batch, queued.ended && queued.is_empty()))
    }

    /// Moves recent batches to disk while there are many, until the queue ends.
    pub(super) fn spill(&self, mut overflow: Overflow) {
        let mut queued = self.lock();
        loop {
            while (queued.recent.len() < SPILL_AT || queued.disk_full) && !queued.ended {
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
                    // The batches before this one have been discarded.
                    _ if self.is_discarded() => return self.batch_spilled.notify_one(),
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

    /// Bytes of memory in use, and whether any batch is on disk.
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
    use std::thread;

    use super::*;
    use crate::capture::{LinkType, PacketNumber, Time};
    use crate::support::waits::{until, within};

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

    /// Fills this many batches.
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
                fill(&queue, 2 * MAX_NEAR);
                assert!(!queue.is_falling_behind(), "memory holds what comes before the recorder begins");
                while queue.next_batch(Batch::default()).unwrap().0.size() > 0 {}
                fill(&queue, MAX_NEAR / 2);
                assert!(!queue.is_falling_behind(), "memory holds it");
                fill(&queue, 2 * MAX_NEAR);
                until("batches to go to disk", || queue.is_falling_behind());
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
                // The recorder resumed although the flood went on. Now the flood ends.
                passing.store(false, Ordering::Relaxed);
                flood.join().unwrap();
                queue.yield_processors();
                queue.end(None);
            });
        });
    }
}
