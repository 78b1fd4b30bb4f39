//! The batches of the queue in the order of their age, and the state of the threads that wait.

use std::collections::VecDeque;

use super::{BATCH, MAX_NEAR, NEAR_AT_START, QUEUE_LIMIT};
use crate::capture::pipe::Exit;
use crate::source::batch::Batch;
use crate::source::overflow::SpilledBatch;

/// The state of the queue, under its lock.
#[derive(Debug, Default)]
pub(super) struct QueuedBatches {
    /// The oldest batches, which stay in memory.
    pub(super) near: VecDeque<Batch>,
    /// Batches on disk, which follow the near ones.
    pub(super) disk: VecDeque<SpilledBatch>,
    /// A recent batch is being written to disk.
    pub(super) is_spilling: bool,
    /// Batches that follow those on disk.
    pub(super) recent: VecDeque<Batch>,
    /// The batch that is being filled. A writer takes it out while it writes to it.
    pub(super) open: Batch,
    /// Empty batches whose memory will be used again.
    pub(super) spare: Vec<Batch>,
    /// Batches completed since the recorder took its last one.
    pub(super) batches_since_taken: usize,
    /// Bytes of memory of all batches, including the one that the recorder is working on.
    pub(super) size: usize,
    /// The recorder is ready for batches.
    pub(super) has_begun: bool,
    /// The recorder sleeps until a batch arrives.
    pub(super) recorder_asleep: bool,
    /// The spiller sleeps until it has to move batches to disk.
    pub(super) spiller_asleep: bool,
    /// A writer waits for room.
    pub(super) writer_waits: bool,
    /// The last write to disk failed. The next attempt is made after the recorder has
    /// taken a batch.
    pub(super) disk_full: bool,
    /// The writers or the recorder have ended: no more batches will be added.
    pub(super) ended: bool,
    /// The totals, once the server has ended.
    pub(super) totals: Option<PassedTotals>,
}

/// The numbers of chunks and bytes that passed through a server's pipes, and the server's exit.
#[derive(Clone, Copy, Debug)]
pub(in crate::source) struct PassedTotals {
    pub chunks: u64,
    /// Indexed by [`Pipe`](crate::capture::pipe::Pipe).
    pub bytes: [u64; 3],
    pub exit: Exit,
}

impl QueuedBatches {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.recent.is_empty() && !self.uses_disk() && self.near.is_empty()
    }

    /// Whether the recorder has to sleep. Notes the result each time: the batch for which it was
    /// woken may have been taken out again by a writer.
    pub(super) fn is_idle(&mut self) -> bool {
        self.recorder_asleep = self.is_empty() && !self.ended;
        self.recorder_asleep
    }

    /// Whether any batch is on disk or on its way there.
    pub(super) fn uses_disk(&self) -> bool {
        self.is_spilling || !self.disk.is_empty()
    }

    /// Appends a batch that is complete.
    pub(super) fn close_batch(&mut self, batch: Batch) {
        if batch.is_empty() {
            return self.release(batch);
        }
        self.batches_since_taken += 1;
        let most_near = if self.has_begun { MAX_NEAR } else { NEAR_AT_START };
        if self.near.len() < most_near && self.recent.is_empty() && !self.uses_disk() {
            self.near.push_back(batch);
        } else {
            self.recent.push_back(batch);
        }
    }

    /// Frees a used batch. Its memory is retained for another batch unless it is too small, too
    /// large, or too much in all.
    pub(super) fn release(&mut self, mut batch: Batch) {
        self.size -= batch.size();
        batch.clear();
        if (BATCH..2 * BATCH).contains(&batch.room()) && self.size + self.spare.len() * BATCH < QUEUE_LIMIT {
            self.spare.push(batch);
        }
    }
}
