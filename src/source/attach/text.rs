//! Text above TLS as packets: what a process gave to `SSL_write` and got from `SSL_read`.
//!
//! It is recorded only for connections of which no secret passed: their handshakes were over before
//! mcptap attached. Of the others, the packets are decrypted. A secret passes inside a call with
//! the same `SSL`, so the kernel's part reports which connection it belongs to.
//!
//! ```text
//!   (process, SSL), read or written ─► made-up TCP segments without a handshake
//! ```
//!
//! A thread at a time uses an `SSL`, so its events are in order. What is missing between two of
//! them is lost. The addresses say that the layers below the text are made up (`above_tls.rs`).

use std::collections::{HashMap, HashSet};

use super::event::{self, Event, Kind};
use super::probe::Probe;
use super::recording::{Counts, clock_offset, wall};
use crate::capture::{Packet, PacketNumber, Time, above_tls};
use crate::source::batch::Batch;
use crate::source::now;
use crate::source::tape::{ACK, CLOSING, Flow, PSH};

/// Looks at the ring between two looks at what was lost: one second.
const LOSS_CHECK: u32 = 50;

/// A connection of a process: its id, and the address of its `SSL`.
type SslConnection = (u32, u64);

/// The connections whose text is recorded.
#[derive(Default)]
pub(super) struct TextTap {
    open: HashMap<SslConnection, OpenText>,
    /// Connections that were opened so far.
    opened: u32,
    /// Connections whose secrets passed. Their packets are decrypted.
    with_secrets: HashSet<SslConnection>,
    /// Connections of processes that ended, with the time.
    ended: Vec<(SslConnection, u64)>,
    pub(super) made: MadeSegments,
    /// Nanoseconds from the clock of the events to that of the system.
    clock: i64,
    looks: u32,
}

/// A connection whose text is recorded.
struct OpenText {
    flow: Flow,
    /// The offset of the next byte that the process reads, and that it writes.
    next: [u64; 2],
    /// The bytes that had passed at the last look for losses; `None` if it was freed by then.
    passed_before: Option<[u64; 2]>,
}

/// Segments that were made and not delivered.
#[derive(Default)]
pub(super) struct MadeSegments {
    batch: Batch,
    /// The segment made last. Its memory is used again.
    packet: Vec<u8>,
    delivered: usize,
    /// Bytes recorded and lost so far.
    pub(super) counts: Counts,
}

/// The two directions, by index of [`OpenText::next`].
const READ: usize = 0;
const WRITTEN: usize = 1;

impl TextTap {
    pub(super) fn new() -> TextTap {
        TextTap { clock: clock_offset(), ..TextTap::default() }
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
            Kind::Data | Kind::EndOfFile | Kind::Derived | Kind::Logged | Kind::KeyLine => {}
            Kind::Started | Kind::Connected => {}
        }
    }

    fn text(&mut self, key: SslConnection, direction: usize, event: &Event<'_>) {
        if self.with_secrets.contains(&key) {
            return;
        }
        let TextTap { open, opened, made, clock, .. } = self;
        let text = open.entry(key).or_insert_with(|| {
            *opened = opened.wrapping_add(1);
            let [process, peer] = above_tls::ends(key.0, *opened);
            let flow = Flow::new(process, peer);
            OpenText { flow, next: [0; 2], passed_before: Some([0; 2]) }
        });
        let time = wall(*clock, event.time);
        made.lost(text, direction, event.offset, time);
        // Bytes that were declared lost before do not count twice.
        let known = usize::try_from(text.next[direction] - event.offset).unwrap_or(usize::MAX);
        let bytes = event.bytes.get(known..).unwrap_or_default();
        text.next[direction] += bytes.len() as u64;
        made.counts.seen += bytes.len() as u64;
        if !bytes.is_empty() {
            made.segment(&mut text.flow, sender(direction), PSH | ACK, time, bytes);
        }
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
        let time = now();
        self.open.retain(|key, text| {
            let passed = probe.text_passed(key.0, key.1);
            let before = std::mem::replace(&mut text.passed_before, passed);
            match (passed, before) {
                // A call that goes on now may be counted already and not be copied.
                (Some(passed), Some(before)) => {
                    let total = [passed[READ].min(before[READ]), passed[WRITTEN].min(before[WRITTEN])];
                    self.made.all_lost(text, total, time);
                }
                // The ring had no room for the event of its end.
                (None, None) => self.made.end(text, time),
                _ => {}
            }
            passed.is_some() || before.is_some()
        });
    }

    /// Nothing more will come: what passed and was not taken is lost.
    pub(super) fn finish(&mut self, probe: &Probe) {
        let time = now();
        for (key, text) in &mut self.open {
            let passed = probe.text_passed(key.0, key.1).or(text.passed_before).unwrap_or_default();
            self.made.all_lost(text, passed, time);
        }
    }

    /// Ends a connection through which so many bytes passed.
    fn close(&mut self, key: SslConnection, time: u64, passed: [u64; 2]) {
        let Some(mut text) = self.open.remove(&key) else { return };
        let time = wall(self.clock, time);
        self.made.all_lost(&mut text, passed, time);
        self.made.end(&mut text, time);
    }

    /// Whether all segments that were made were delivered.
    pub(super) fn is_empty(&self) -> bool {
        self.made.delivered == self.made.batch.len()
    }

    /// The next segment that was made. Its number is that of the capture to come.
    pub(super) fn next(&mut self, number: PacketNumber) -> Option<Packet<'_>> {
        let is_empty = self.is_empty();
        let MadeSegments { batch, delivered, .. } = &mut self.made;
        if is_empty {
            batch.clear();
            *delivered = 0;
            return None;
        }
        *delivered += 1;
        batch.get(*delivered - 1).map(|packet| Packet { number, ..packet })
    }
}

impl MadeSegments {
    /// Leaves a gap up to this offset, if it is beyond the next byte.
    fn lost(&mut self, text: &mut OpenText, direction: usize, offset: u64, time: Time) {
        let OpenText { flow, next, .. } = text;
        if offset > next[direction] {
            let lost = offset - std::mem::replace(&mut next[direction], offset);
            self.counts.lost += lost;
            let mut skipped = [0; 2];
            skipped[sender(direction)] = lost;
            flow.skip(skipped);
            self.segment(flow, 1 - sender(direction), ACK, time, b"");
        }
    }

    /// Leaves a gap in each direction, up to the bytes that passed through the connection.
    fn all_lost(&mut self, text: &mut OpenText, passed: [u64; 2], time: Time) {
        for direction in [READ, WRITTEN] {
            self.lost(text, direction, passed[direction], time);
        }
    }

    /// Ends a connection.
    fn end(&mut self, text: &mut OpenText, time: Time) {
        for (sender, flags) in CLOSING {
            self.segment(&mut text.flow, sender, flags, time, b"");
        }
    }

    fn segment(&mut self, flow: &mut Flow, sender: usize, flags: u8, time: Time, bytes: &[u8]) {
        let link = flow.segment(sender, flags, bytes, &mut self.packet);
        let MadeSegments { batch, packet, .. } = self;
        batch.write(PacketNumber(0), time, link, |out| out.extend_from_slice(packet));
    }
}

/// The side that sends in a direction. The process is the first of the two ends.
fn sender(direction: usize) -> usize {
    1 - direction
}
