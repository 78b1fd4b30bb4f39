//! Text above TLS as packets: what a process gave to `SSL_write` and got from `SSL_read`.
//!
//! It is recorded only for connections of which no secret passed: their handshakes were over before
//! mcptap attached. Of the others, the packets are decrypted. A secret passes inside a call with the
//! same `SSL`, so the kernel's part reports which connection it belongs to.
//!
//! ```text
//!   (process, SSL) ─► two Channels: order, gaps ─► made-up TCP segments without a handshake
//! ```
//!
//! The addresses say that the layers below the text are made up (`above_tls.rs`).

use std::collections::{HashMap, HashSet};

use super::channel::{Channel, ChannelRun};
use super::event::{self, Event, Kind};
use super::probe::Probe;
use super::recording::{Counts, clock_offset, wall};
use crate::capture::{Packet, PacketNumber, Time, above_tls};
use crate::source::batch::Batch;
use crate::source::now;
use crate::source::tape::{ACK, FIN, Flow, PSH};

/// Looks at the ring between two looks at what was lost: one second.
const LOSS_CHECK: u32 = 50;

/// A connection of a process: its id, and the address of its `SSL`.
type Key = (u32, u64);

/// The connections whose text is recorded.
#[derive(Default)]
pub(super) struct Texts {
    open: HashMap<Key, OpenText>,
    /// Connections that were opened so far.
    opened: u32,
    /// Connections whose secrets passed. Their packets are decrypted.
    with_secrets: HashSet<Key>,
    /// Connections of processes that ended, with the time.
    ended: Vec<(Key, u64)>,
    made: MadeSegments,
    /// Nanoseconds from the clock of the events to that of the system.
    clock: i64,
    looks: u32,
}

/// A connection whose text is recorded.
struct OpenText {
    flow: Flow,
    /// What the process read, and what it wrote.
    channels: [Channel; 2],
}

/// Segments that were made and not delivered.
#[derive(Default)]
struct MadeSegments {
    batch: Batch,
    delivered: usize,
    counts: Counts,
}

/// The two directions, by index of [`OpenText::channels`].
const READ: usize = 0;
const WRITTEN: usize = 1;

impl Texts {
    pub(super) fn new() -> Texts {
        Texts { clock: clock_offset(), ..Texts::default() }
    }

    /// Bytes of text recorded and lost so far.
    pub(super) fn counts(&self) -> Counts {
        self.made.counts
    }

    /// A secret passed inside a call with this `SSL`.
    pub(super) fn secret_passed(&mut self, event: &Event<'_>) {
        if event.subject != 0 {
            self.with_secrets.insert((event.process, event.subject));
            // The `SSL` is used again, for another connection or with a new handshake.
            self.close((event.process, event.subject), event.time, [0; 2]);
        }
    }

    /// Takes an event about text, or about the end of a connection or a process.
    pub(super) fn event(&mut self, event: &Event<'_>) {
        let key = (event.process, event.subject);
        match event.kind {
            Kind::TextRead => self.text(key, READ, event),
            Kind::TextWritten => self.text(key, WRITTEN, event),
            Kind::Freed => {
                self.with_secrets.remove(&key);
                self.close(key, event.time, event::passed(event.bytes).unwrap_or_default());
            }
            Kind::Exit => {
                self.with_secrets.retain(|(process, _)| *process != event.process);
                let ended = self.open.keys().filter(|(process, _)| *process == event.process);
                self.ended.extend(ended.map(|key| (*key, event.time)));
            }
            Kind::Data | Kind::EndOfFile | Kind::Derived | Kind::Logged => {}
        }
    }

    fn text(&mut self, key: Key, direction: usize, event: &Event<'_>) {
        if self.with_secrets.contains(&key) {
            return;
        }
        let Texts { open, opened, made, clock, .. } = self;
        let OpenText { flow, channels } = open.entry(key).or_insert_with(|| {
            *opened = opened.wrapping_add(1);
            OpenText { flow: Flow::new(above_tls::ends(key.0, *opened)), channels: Default::default() }
        });
        let time = wall(*clock, event.time);
        channels[direction].push(event.time, event.offset, event.bytes, &mut |run| {
            made.run(flow, direction, time, *clock, run);
        });
    }

    /// The ring is empty: ends the connections of processes that ended, and notes what is missing.
    pub(super) fn settle(&mut self, probe: &mut Probe) {
        for (key, time) in std::mem::take(&mut self.ended) {
            let passed = probe.text_passed(key.0, key.1).unwrap_or_default();
            self.close(key, time, passed);
            probe.forget_text(key.0, key.1);
        }
        self.looks += 1;
        if !self.looks.is_multiple_of(LOSS_CHECK) {
            return;
        }
        self.clock = clock_offset();
        let Texts { open, made, clock, .. } = self;
        let time = now();
        for (key, OpenText { flow, channels }) in open {
            let passed = probe.text_passed(key.0, key.1).unwrap_or_default();
            for (direction, (channel, total)) in channels.iter_mut().zip(passed).enumerate() {
                channel.settle(total, &mut |run| made.run(flow, direction, time, *clock, run));
            }
        }
    }

    /// Ends a connection through which so many bytes passed.
    fn close(&mut self, key: Key, time: u64, passed: [u64; 2]) {
        let Some(OpenText { mut flow, mut channels }) = self.open.remove(&key) else { return };
        let time = wall(self.clock, time);
        for (direction, (channel, total)) in channels.iter_mut().zip(passed).enumerate() {
            channel.finish(total, &mut |run| self.made.run(&mut flow, direction, time, self.clock, run));
        }
        for (sender, flags) in [(0, FIN | ACK), (1, FIN | ACK), (0, ACK)] {
            self.made.segment(&mut flow, sender, flags, time, b"");
        }
    }

    /// The next segment that was made. Its number is that of the capture to come.
    pub(super) fn next(&mut self, number: PacketNumber) -> Option<Packet<'_>> {
        let MadeSegments { batch, delivered, .. } = &mut self.made;
        if *delivered == batch.len() {
            if *delivered > 0 {
                batch.clear();
                *delivered = 0;
            }
            return None;
        }
        *delivered += 1;
        batch.get(*delivered - 1).map(|packet| Packet { number, ..packet })
    }
}

impl MadeSegments {
    /// Makes a segment of a run of text, or leaves a gap.
    fn run(&mut self, flow: &mut Flow, direction: usize, time: Time, clock: i64, run: ChannelRun<'_>) {
        // The process is the first of the two ends.
        let sender = if direction == WRITTEN { 0 } else { 1 };
        match run {
            ChannelRun::Bytes(passed, bytes) => {
                self.counts.seen += bytes.len() as u64;
                self.segment(flow, sender, PSH | ACK, wall(clock, passed), bytes);
            }
            ChannelRun::Lost(bytes) => {
                self.counts.lost += bytes;
                flow.skip(sender, bytes);
                self.segment(flow, 1 - sender, ACK, time, b"");
            }
        }
    }

    fn segment(&mut self, flow: &mut Flow, sender: usize, flags: u8, time: Time, bytes: &[u8]) {
        let (link, packet) = flow.segment(sender, flags, bytes);
        self.batch.write(PacketNumber(0), time, link, |out| out.extend_from_slice(&packet));
    }
}
