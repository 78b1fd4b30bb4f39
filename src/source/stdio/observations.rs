//! The observations of a wrapped server: the recorder's end of the queue.

use std::mem;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::Visible;
use super::lane::write_at_once;
use super::queue::Queue;
use super::queued_batches::PassedTotals;
use super::wait::Load;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{Dropped, LinkType, Packet, PacketNumber, Time};
use crate::source::batch::Batch;
use crate::source::{Item, Source, now};

/// The longest stretch of traffic without a pause before the recorder writes its records. A view
/// that follows a recording looks every 30 ms, and should show a message within 100 ms.
const PAUSE: Duration = Duration::from_millis(40);

/// Everything observed of a wrapped server, in order: a [`Source`] of packets of
/// link type [`LinkType::PIPE`].
///
/// Begins with [`PipeEvent::Start`] and ends with [`PipeEvent::Exit`]. Bytes that were
/// [discarded](Tap::discard_rest) are reported just before the exit. `next` returns [`Item::Idle`]
/// at once when the queue is empty, which is the moment to write records, and then waits.
#[derive(Debug)]
pub struct Observations {
    process: u32,
    queue: Arc<Queue>,
    /// The batch that is being delivered.
    batch: Batch,
    /// Packets of the batch that were delivered.
    delivered: usize,
    packets: u64,
    /// Time of the last packet.
    last: Time,
    /// Chunks of data delivered.
    chunks: u64,
    reported_bytes: [u64; 3],
    /// What waited was discarded, and the batch ends with the server's exit.
    concluded: bool,
    /// The server's exit was delivered.
    ended: bool,
    /// The last result was [`Item::Idle`], because the queue was empty.
    idle: bool,
    /// The start of the present stretch of traffic without a pause. A stretch longer than [`PAUSE`]
    /// is interrupted by one [`Item::Idle`].
    busy: Option<Instant>,
    /// `None` if no processor can be spared.
    load: Option<Load>,
    /// The host's stderr.
    pub(super) stderr: Option<OwnedFd>,
    /// Escapes what is printed there.
    pub(super) visible: Visible,
}

/// Where a recorder reports what it has stored, and what the host should know at once.
#[derive(Debug)]
pub struct Receipts {
    queue: Arc<Queue>,
    stderr: Option<OwnedFd>,
    visible: Visible,
}

impl Receipts {
    /// Everything that was taken from the [`Observations`] is stored. Call it on their thread.
    pub fn confirm(&self) {
        self.queue.stored.store(self.queue.taken.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Writes a line on the host's stderr, beside the server's, if it takes the line without
    /// blocking; returns whether it was written.
    pub fn say(&self, line: &str) -> bool {
        self.stderr
            .as_ref()
            .is_some_and(|stderr| write_at_once(stderr, format!("mcptap: {}\n", (self.visible)(line)).as_bytes()))
    }

    /// Whether anything is stored.
    pub(super) fn any(&self) -> bool {
        self.queue.stored.load(Ordering::Relaxed) > 0
    }

    /// Whether the server has ended and all its output was delivered.
    pub(super) fn server_has_ended(&self) -> bool {
        self.queue.totals().is_some()
    }
}

impl Observations {
    pub(super) fn new(process: u32, queue: Arc<Queue>) -> Observations {
        Observations {
            process,
            queue,
            batch: Batch::default(),
            delivered: 0,
            packets: 0,
            last: Time::default(),
            chunks: 0,
            reported_bytes: [0; 3],
            concluded: false,
            ended: false,
            idle: false,
            busy: None,
            load: Load::new(),
            stderr: None,
            visible: |line| line.into(),
        }
    }

    /// Where to report what is stored.
    pub fn receipts(&self) -> Receipts {
        let stderr = self.stderr.as_ref().and_then(|stderr| stderr.try_clone().ok());
        Receipts { queue: Arc::clone(&self.queue), stderr, visible: self.visible }
    }

    /// Sleeps for this time, or until the server ends.
    pub(super) fn sleep_until_over(&self, time: Duration) {
        self.queue.sleep_until_over(time);
    }

    /// The end of a record whose rest was [discarded](Tap::discard_rest): the missing bytes of each
    /// pipe, and the server's exit.
    fn conclude(&mut self, passed: &PassedTotals) -> Item<'_> {
        self.batch.clear();
        (self.delivered, self.concluded) = (0, true);
        let time = now();
        for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
            match passed.bytes[pipe as usize] - self.reported_bytes[pipe as usize] {
                0 => {}
                lost => self.append(time, &PipeEvent::Lost(pipe, lost)),
            }
        }
        self.append(time, &PipeEvent::Exit(passed.exit));
        match passed.chunks - self.chunks {
            0 => Item::Idle,
            packets => Item::Dropped(Dropped { packets, times: (self.last, time) }),
        }
    }

    fn append(&mut self, time: Time, content: &PipeEvent<'_>) {
        let process = self.process;
        self.batch.write(PacketNumber(0), time, LinkType::PIPE, |out| pipe::encode(process, content, out));
    }

    /// Whether the peers have all the processors that they want beside this thread.
    fn has_idle_processor(&mut self) -> bool {
        self.load.as_mut().is_some_and(|load| load.has_idle_processor(Instant::now()))
    }
}

impl Source for Observations {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if self.ended {
            return Ok(None);
        }
        if mem::take(&mut self.idle) {
            self.queue.rest();
        }
        if self.delivered == self.batch.len() {
            // The batch with the start of the server is delivered in any case.
            if self.packets > 0
                && !self.concluded
                && self.queue.is_discarded()
                && let Some(passed) = self.queue.totals()
            {
                return Ok(Some(self.conclude(&passed)));
            }
            if self.busy.get_or_insert_with(Instant::now).elapsed() > PAUSE {
                self.busy = None;
                return Ok(Some(Item::Idle));
            }
            if self.queue.is_falling_behind() && !self.has_idle_processor() {
                self.queue.yield_processors();
            }
            let (batch, last) = self.queue.next_batch(mem::take(&mut self.batch))?;
            (self.batch, self.delivered) = (batch, 0);
            if self.batch.is_empty() {
                self.idle = !last;
                self.busy = None;
                return Ok(self.idle.then_some(Item::Idle));
            }
        }
        self.delivered += 1;
        self.packets += 1;
        let Some(packet) = self.batch.get(self.delivered - 1) else { return Ok(Some(Item::Idle)) };
        self.last = packet.time;
        match pipe::decode(packet.data) {
            Some((_, PipeEvent::Data(pipe, bytes))) => {
                self.chunks += 1;
                self.reported_bytes[pipe as usize] += bytes.len() as u64;
                self.queue.taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            Some((_, PipeEvent::Lost(pipe, bytes))) => self.reported_bytes[pipe as usize] += bytes,
            Some((_, PipeEvent::Exit(_))) => self.ended = true,
            _ => {}
        }
        Ok(Some(Item::Packet(Packet { number: PacketNumber(self.packets), ..packet })))
    }
}

impl Drop for Observations {
    fn drop(&mut self) {
        self.queue.discard_all();
    }
}
