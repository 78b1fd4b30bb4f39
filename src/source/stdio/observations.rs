//! The observations of a wrapped server: the recorder's end of the queue.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Visible;
use super::lane::write_at_once;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{Dropped, LinkType, Packet, PacketNumber, Time};
use crate::source::queue::{Advance, PassedTotals, Queue, QueueReader};
use crate::source::{Item, Source, now};

/// Everything observed of a wrapped server, in order: a [`Source`] of packets of
/// link type [`LinkType::PIPE`].
///
/// Begins with [`PipeEvent::Start`] and ends with [`PipeEvent::Exit`]. Bytes that were
/// [discarded](Tap::discard_rest) are reported just before the exit. `next` returns [`Item::Idle`]
/// at once when the queue is empty, which is the moment to write records, and then waits.
#[derive(Debug)]
pub struct Observations {
    process: u32,
    reader: QueueReader,
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
            reader: QueueReader::new(queue, true),
            packets: 0,
            last: Time::default(),
            chunks: 0,
            reported_bytes: [0; 3],
            concluded: false,
            ended: false,
            stderr: None,
            visible: |line| line.into(),
        }
    }

    /// Where to report what is stored.
    pub fn receipts(&self) -> Receipts {
        let stderr = self.stderr.as_ref().and_then(|stderr| stderr.try_clone().ok());
        Receipts { queue: Arc::clone(&self.reader.queue), stderr, visible: self.visible }
    }

    /// Sleeps for this time, or until the server ends.
    pub(super) fn sleep_until_over(&self, time: Duration) {
        self.reader.queue.sleep_until_over(time);
    }

    /// The end of a record whose rest was [discarded](Tap::discard_rest): the missing bytes of each
    /// pipe, and the server's exit.
    fn conclude(&mut self, passed: &PassedTotals) -> Item<'_> {
        self.reader.clear_batch();
        self.concluded = true;
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
        self.reader.batch.write(PacketNumber(0), time, LinkType::PIPE, |out| pipe::encode(process, content, out));
    }
}

impl Source for Observations {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if self.ended {
            return Ok(None);
        }
        self.reader.rest_if_idle();
        // The batch with the start of the server is delivered in any case.
        if self.reader.is_between_batches()
            && self.packets > 0
            && !self.concluded
            && self.reader.queue.is_discarded()
            && let Some(passed) = self.reader.queue.totals()
        {
            return Ok(Some(self.conclude(&passed)));
        }
        match self.reader.advance()? {
            Advance::Packet => {}
            Advance::Idle => return Ok(Some(Item::Idle)),
            Advance::End => return Ok(None),
        }
        self.packets += 1;
        let Some(packet) = self.reader.packet() else { return Ok(Some(Item::Idle)) };
        self.last = packet.time;
        match pipe::decode(packet.data) {
            Some((_, PipeEvent::Data(pipe, bytes))) => {
                self.chunks += 1;
                self.reported_bytes[pipe as usize] += bytes.len() as u64;
                self.reader.queue.taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            Some((_, PipeEvent::Lost(pipe, bytes))) => self.reported_bytes[pipe as usize] += bytes,
            Some((_, PipeEvent::Exit(_))) => self.ended = true,
            _ => {}
        }
        Ok(Some(Item::Packet(Packet { number: PacketNumber(self.packets), ..packet })))
    }
}
