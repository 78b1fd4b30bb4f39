//! The recorder's end of the queue: its packets in order, and the pauses between them.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Queue;
use crate::capture::Packet;
use crate::source::batch::Batch;
use crate::source::load::Load;

/// The longest stretch of traffic without a pause before the recorder writes its records. A view
/// that follows a recording looks every 30 ms, and should show a message within 100 ms.
const PAUSE: Duration = Duration::from_millis(40);

/// Reads the packets of a queue. While the recorder is behind, it pauses for peers that want all
/// processors of the machine.
#[derive(Debug)]
pub(in crate::source) struct QueueReader {
    pub(in crate::source) queue: Arc<Queue>,
    /// The batch that is being delivered.
    pub(in crate::source) batch: Batch,
    /// Packets of the batch that were delivered.
    delivered: usize,
    /// Whether every pause in the traffic is reported. Else only those are that last a second.
    reports_pauses: bool,
    /// The last result was [`Advance::Idle`], because the queue was empty.
    is_idle: bool,
    /// The start of the present stretch of traffic without a pause. A stretch longer than [`PAUSE`]
    /// is interrupted by one [`Advance::Idle`].
    busy: Option<Instant>,
    /// `None` if no processor can be spared.
    load: Option<Load>,
}

/// The result of [`QueueReader::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::source) enum Advance {
    /// [`QueueReader::packet`] returns the next packet.
    Packet,
    /// The moment to write records.
    Idle,
    End,
}

impl QueueReader {
    /// A reader of a queue. With `reports_pauses` a recorder writes so often that views can follow
    /// its recording closely.
    pub(in crate::source) fn new(queue: Arc<Queue>, reports_pauses: bool) -> QueueReader {
        QueueReader {
            queue,
            batch: Batch::default(),
            delivered: 0,
            reports_pauses,
            is_idle: false,
            busy: None,
            load: Load::new(),
        }
    }

    /// Reports every pause from now on.
    pub(in crate::source) fn report_pauses(&mut self) {
        self.reports_pauses = true;
    }

    /// Sleeps if the queue was empty the last time.
    pub(in crate::source) fn rest_if_idle(&mut self) {
        if mem::take(&mut self.is_idle) {
            self.queue.rest();
        }
    }

    /// Whether all packets of the batch were delivered.
    pub(in crate::source) fn is_between_batches(&self) -> bool {
        self.delivered == self.batch.len()
    }

    /// Removes the packets of the batch, so that others can be appended to it.
    pub(in crate::source) fn clear_batch(&mut self) {
        self.batch.clear();
        self.delivered = 0;
    }

    /// Moves on to the next packet. If pauses are reported, one is when the queue is empty.
    pub(in crate::source) fn advance(&mut self) -> anyhow::Result<Advance> {
        if self.is_between_batches() {
            if self.reports_pauses && self.busy.get_or_insert_with(Instant::now).elapsed() > PAUSE {
                self.busy = None;
                return Ok(Advance::Idle);
            }
            if self.queue.is_falling_behind() && !self.has_idle_processor() {
                self.queue.yield_processors();
            }
            let mut has_rested = false;
            loop {
                let (batch, is_last) = self.queue.next_batch(mem::take(&mut self.batch))?;
                (self.batch, self.delivered) = (batch, 0);
                if !self.batch.is_empty() {
                    break;
                }
                self.busy = None;
                if is_last {
                    return Ok(Advance::End);
                }
                if self.reports_pauses || has_rested {
                    self.is_idle = self.reports_pauses;
                    return Ok(Advance::Idle);
                }
                self.queue.rest();
                has_rested = true;
            }
        }
        self.delivered += 1;
        Ok(Advance::Packet)
    }

    /// The packet to which [`QueueReader::advance`] moved.
    pub(in crate::source) fn packet(&self) -> Option<Packet<'_>> {
        self.batch.get(self.delivered.checked_sub(1)?)
    }

    /// Whether the peers have all the processors that they want beside this thread.
    fn has_idle_processor(&mut self) -> bool {
        self.load.as_mut().is_some_and(|load| load.has_idle_processor(Instant::now()))
    }
}

impl Drop for QueueReader {
    fn drop(&mut self) {
        self.queue.discard_all();
    }
}
