//! TCP: segments to two streams of bytes in order, with gaps where bytes are missing.
//!
//! ```text
//!              ┌ table ──────────────┐    ┌ connection ──────────────────────────────────────────┐
//!  Segment ───►│ 4-tuple ► connection│───►│ First  ──►[assembler]──┐                             │
//!              │ longest idle goes   │    │               ▲ ACKs   ├─► causal order ─► Delivery  │──► Sink
//!              └─────────────────────┘    │ Second ──►[assembler]──┘                             │
//!  time ──────► deadlines ───────────────►│ analysis ─► SegmentFact          recent ─► Anomaly   │
//!                                         └──────────────────────────────────────────────────────┘
//! ```
//!
//! **In order** a segment costs one look into the table and is handed on as it is: no copy, no allocation. Only what
//! arrives ahead of something missing is kept (`assembler.rs`), and only then does the connection have a deadline.
//!
//! **Order.** The streams do not depend on the order of the capture: a piece is delivered when everything before it
//! was, in its own stream and, up to its acknowledgment number, in the other (`connection/order.rs`).
//!
//! **Time** is capture time, and the clock is the latest time seen: it neither goes back nor, where one packet claims to be
//! years ahead, does more than expire once what was waiting. A deadline acts as of its own moment, so it does not matter
//! whether a packet or a tick makes it noticed. Where the times of packets go back, by what the clock of another tap says or because packets changed places,
//! every term is as much longer.
//!
//! **Memory** is bounded by `Limits`: the connections, the bytes ahead of holes of one direction and of all, and a fixed
//! pool of bytes delivered last (`recent.rs`) to recognise retransmissions that say something else.

mod analysis;
mod assembler;
mod connection;
mod facts;
mod fuzz;
mod recent;
mod segment;
mod sequence;
mod table;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use self::assembler::Captured;
use self::connection::{Connection, Context};
use self::recent::Recent;
use self::table::{FlowKey, Slot, Table};
use super::{Anomaly, ConnectionId, Ending, Endpoints, Piece, Side};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};

pub use self::analysis::Analysis;
pub use self::facts::{End, Facts, Step};
pub use self::fuzz::fuzz_tcp;
pub use self::segment::{Flags, Options, Segment};

/// What the reassembler says of each segment, whether or not it brought anything new.
#[derive(Clone, Copy, Debug)]
pub struct SegmentFact<'a> {
    /// The connection it belongs to.
    pub connection: ConnectionId,
    /// Who sent it.
    pub side: Side,
    /// The packet that completed it.
    pub packet: PacketNumber,
    /// When that was captured.
    pub time: Time,
    /// Whether it is still looked for where the sender's stream begins, since no SYN was captured.
    pub is_open: bool,
    /// Nanoseconds by which packets may stand behind what was captured after them, as far as the capture has shown so far.
    pub late: i64,
    /// Offset in the sender's stream of its first payload byte (relative sequence number minus one); for a
    /// keep-alive this lies before the bytes already seen.
    pub offset: u64,
    /// Offset in the peer's stream up to which it acknowledges; `None` without ACK.
    pub acknowledged: Option<u64>,
    /// Window in bytes, scaled where the scale is known.
    pub window: u32,
    /// Flag bits.
    pub flags: Flags,
    /// Wireshark's names for it.
    pub analysis: Analysis,
    /// Payload bytes on the wire.
    pub length: u32,
    /// Where the captured payload bytes stand in packets.
    pub origin: &'a [PacketRange],
}

/// Bytes in stream order, as soon as they are known to be next.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The connection.
    pub connection: ConnectionId,
    /// Who sent them.
    pub side: Side,
    /// Offset of the piece in the sender's stream.
    pub offset: u64,
    /// The bytes, the gap or the end.
    pub piece: Piece<'a>,
    /// Where the bytes stand in packets, in order; empty for a gap or end.
    pub origin: &'a [PacketRange],
    /// When the packet that brought them was captured (for a gap or end: when it was declared).
    pub time: Time,
    /// Offset in the other side's stream up to which the sender had acknowledged when it sent them: what it had
    /// seen of the other side. The other side's bytes below it were delivered (or declared a gap) before.
    pub acknowledged: u64,
}

/// What the reassembler tells. Connections are opened before anything else is said of them and closed last.
pub trait Sink {
    /// A connection was seen for the first time.
    fn opened(&mut self, connection: ConnectionId, facts: &Facts);
    /// A segment arrived; said before what it delivers.
    fn segment(&mut self, fact: &SegmentFact<'_>);
    /// A piece of a stream. `Piece::End` comes exactly once for each side, last.
    fn delivered(&mut self, delivery: Delivery<'_>);
    /// Something odd in one side's stream.
    fn anomaly(&mut self, connection: ConnectionId, side: Side, packet: PacketNumber, anomaly: Anomaly);
    /// The connection is over and forgotten.
    fn closed(&mut self, connection: ConnectionId, facts: &Facts);
}

/// The reassembler: every TCP connection of a capture.
#[derive(Debug)]
pub struct Tcp {
    limits: Limits,
    opens: fn(&[u8]) -> bool,
    table: Table,
    recent: Recent,
    /// Segments so far.
    segments: u64,
    /// The latest time of a packet; what is noted is noted as of then.
    latest: Time,
    /// The latest time of all, ticks included; deadlines up to then have passed.
    clock: Time,
    /// Nanoseconds by which the times of packets went back so far: as long as that, what is missing may stand further on.
    disorder: i64,
    deadlines: BinaryHeap<Reverse<(Time, ConnectionId, Slot)>>,
    /// Connections that hold bytes, the one that has held some for longest first.
    holders: BTreeSet<(u64, Slot)>,
    holds: u64,
    held: usize,
    /// Connections that are over and only remembered, in order of their ends; those that were closed since are stale.
    lingering: VecDeque<(ConnectionId, Slot)>,
}

impl Tcp {
    /// An empty one. `opens` says whether bytes are what a client begins a connection with: it matters where no SYN was captured.
    pub fn new(limits: Limits, opens: fn(&[u8]) -> bool) -> Tcp {
        Tcp {
            opens,
            table: Table::new(limits.connections),
            recent: Recent::new(&limits),
            segments: 0,
            latest: Time(i64::MIN),
            clock: Time(i64::MIN),
            disorder: 0,
            deadlines: BinaryHeap::new(),
            holders: BTreeSet::new(),
            holds: 0,
            held: 0,
            lingering: VecDeque::new(),
            limits,
        }
    }

    /// One segment. Segments may come in any order.
    pub fn push(&mut self, segment: &Segment<'_>, sink: &mut impl Sink) {
        self.advance(segment.time, sink);
        self.segments += 1;
        self.latest = self.latest.max(segment.time);
        // A live clock that is set back by an hour is no hour of packets in disorder.
        self.disorder = self.disorder.max(self.latest.since(segment.time).min(self.limits.unseen_time));
        let key = FlowKey::of(segment);
        let (slot, side, reused) = self.connection_of(key, segment, sink);
        self.with(slot, self.latest, sink, |connection, context| connection.push(side, segment, reused, context));
        if let Some(entry) = self.table.entry(slot)
            && !entry.lingering
            && entry.connection.is_over()
        {
            entry.lingering = true;
            self.lingering.push_back((entry.connection.id, slot));
            if self.lingering.len() > self.limits.lingering {
                self.forget_first_over(sink);
            }
        }
        // The connection that has held bytes for longest is the least likely to get what it waits for.
        while self.held > self.limits.reassembly_total {
            let Some(&(_, slot)) = self.holders.first() else { break };
            self.with(slot, self.latest, sink, |connection, context| {
                if !connection.stop_awaiting() {
                    connection.report_limit("reassembly_total", context);
                }
                connection.release_until(None, context);
            });
        }
    }

    /// The capture clock moved to `now` (it never goes back inside): declares losses and forgets connections that are due.
    /// Called before each packet and on a live tick.
    pub fn advance(&mut self, now: Time, sink: &mut impl Sink) {
        self.clock = self.clock.max(now);
        while let Some(&Reverse((due, id, slot))) = self.deadlines.peek() {
            if due > self.clock {
                break;
            }
            self.deadlines.pop();
            let Some(entry) = self.table.entry(slot).filter(|entry| entry.connection.id == id) else { continue };
            if entry.deadline != Some(due) {
                continue;
            }
            entry.deadline = None;
            let over = self.with(slot, due, sink, |connection, context| connection.expire(context));
            if over == Some(true) {
                self.close(slot, due, sink);
            }
        }
    }

    /// The capture is over: everything held is delivered, every connection closed.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.release_all(sink);
        for slot in self.table.in_order_of_appearance() {
            self.close(slot, self.latest, sink);
        }
    }

    /// The connection a segment belongs to, opened if need be; who sent the segment; whether the ports were in use.
    fn connection_of(&mut self, key: FlowKey, segment: &Segment<'_>, sink: &mut impl Sink) -> (Slot, Side, bool) {
        let known = self.table.slot_of(key);
        if let Some(slot) = known
            && let Some(entry) = self.table.entry(slot)
        {
            let side = entry.connection.side_of(segment);
            if !entry.connection.is_reopened_by(side, segment, &self.limits) {
                return (slot, side, false);
            }
            self.close(slot, self.latest, sink);
        }
        if self.table.is_full()
            && let Some(slot) = self.table.longest_idle()
        {
            self.with(slot, self.latest, sink, |connection, context| {
                connection.report_limit("connections", context);
            });
            self.close(slot, self.latest, sink);
        }
        // The receiver of a SYN+ACK is the one that opened the connection.
        let answers = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        let side = if answers { Side::Second } else { Side::First };
        let slot = self.table.insert(key, |id| Connection::new(id, side, segment, self.latest));
        if let Some(entry) = self.table.entry(slot) {
            sink.opened(entry.connection.id, &entry.connection.facts);
        }
        (slot, side, known.is_some())
    }

    /// Works on a connection, then brings what is kept about it up to date: bytes held, deadline.
    fn with<S: Sink, T>(
        &mut self,
        slot: Slot,
        now: Time,
        sink: &mut S,
        work: impl FnOnce(&mut Connection, &mut Context<'_, S>) -> T,
    ) -> Option<T> {
        let entry = self.table.entry(slot)?;
        let before = entry.connection.cost();
        let (limits, opens, segments, disorder) = (&self.limits, self.opens, self.segments, self.disorder);
        let mut context = Context { limits, recent: &mut self.recent, sink, opens, now, segments, disorder };
        let result = work(&mut entry.connection, &mut context);
        let after = entry.connection.cost();
        self.held = self.held - before + after;
        match entry.holding {
            None if after > 0 => {
                self.holds += 1;
                entry.holding = Some(self.holds);
                self.holders.insert((self.holds, slot));
            }
            Some(since) if after == 0 => {
                entry.holding = None;
                self.holders.remove(&(since, slot));
            }
            _ => {}
        }
        if let Some(due) = entry.connection.deadline(now, disorder, &self.limits)
            && entry.deadline.is_none_or(|noted| due < noted)
        {
            entry.deadline = Some(due);
            self.deadlines.push(Reverse((due, entry.connection.id, slot)));
            // Connections come and go faster than a clock that stands still takes their deadlines out.
            if self.deadlines.len() > 2 * self.table.len() + 64 {
                self.deadlines = self.table.deadlines().map(Reverse).collect();
            }
        }
        Some(result)
    }

    /// Delivers what all connections hold, in the order in which it was captured.
    fn release_all(&mut self, sink: &mut impl Sink) {
        let slots = self.table.in_order_of_appearance();
        let held = |slot: Slot| Some(Reverse((self.table.entry(slot)?.connection.holds_from()?, slot)));
        let mut holders: BinaryHeap<Reverse<(Captured, Slot)>> = slots.into_iter().filter_map(held).collect();
        while let Some(Reverse((_, slot))) = holders.pop() {
            let until = holders.peek().map(|Reverse((next, _))| *next);
            let next =
                self.with(slot, self.latest, sink, |connection, context| connection.release_until(until, context));
            holders.extend(next.flatten().map(|next| Reverse((next, slot))));
        }
    }

    /// Closes the connection that has been over for longest.
    fn forget_first_over(&mut self, sink: &mut impl Sink) {
        if let Some((id, slot)) = self.lingering.pop_front()
            && self.table.entry(slot).is_some_and(|entry| entry.connection.id == id)
        {
            self.close(slot, self.latest, sink);
        }
    }

    fn close(&mut self, slot: Slot, now: Time, sink: &mut impl Sink) {
        self.with(slot, now, sink, |connection, context| connection.close(context));
        self.table.remove(slot);
    }
}
