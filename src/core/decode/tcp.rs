//! TCP: turns segments into two streams of bytes in order, with gaps where bytes are missing.
//!
//! ```text
//!              ┌ table ──────────────┐    ┌ connection ─────────────────────────────────┐
//!  Segment ───►│ 4-tuple ► connection│───►│ First  ─►[assembler]─┐                      │
//!              │ longest idle leaves │    │              ▲ ACKs  ├─► order ─► Delivery  │──► Sink
//!              └─────────────────────┘    │ Second ─►[assembler]─┘                      │
//!  time ──────► deadlines ───────────────►│ analysis ─► SegmentFact                     │
//!                                         │ recent_bytes ─► Anomaly                     │
//!                                         └─────────────────────────────────────────────┘
//! ```
//!
//! **A segment in order** costs one lookup in the table and is delivered as it is: no copy, no
//! allocation. Only bytes that arrive ahead of a hole are buffered (`assembler.rs`). Only then does
//! the connection have a deadline.
//!
//! **Order.** The streams do not depend on the order of packets in the capture. A piece is
//! delivered after everything before it in its own stream, and after the bytes of the other stream
//! that it acknowledges (`connection/order.rs`).
//!
//! **Time** is capture time, and the clock is the latest time so far. It never goes back. Where one
//! packet claims to be years ahead, the clock expires everything that was waiting, once, and does
//! no more harm. A deadline takes effect as of its own moment, so it does not matter whether a
//! packet or a tick reveals it. The times of packets go back where two taps have different clocks,
//! or where packets changed places. Then every deadline is later by the same amount.
//!
//! **Memory** is bounded by `Limits`: the number of connections, and the bytes ahead of holes in
//! one direction and in total. A pool of fixed size holds the bytes delivered last
//! (`recent_bytes.rs`), to recognise retransmissions with other content.

mod analysis;
mod assembler;
mod clocks;
mod connection;
mod connection_facts;
mod difference;
mod fuzz;
mod recent_bytes;
mod segment;
mod sequence;
mod table;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use self::assembler::Captured;
use self::connection::{Connection, Context};
use self::recent_bytes::RecentBytes;
use self::table::{ConnectionTable, FlowKey, Slot};
use super::{Anomaly, ConnectionId, Ending, Endpoints, Piece, Side};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};

pub use self::analysis::Analysis;
pub use self::clocks::ClockDifference;
pub use self::connection_facts::{End, Facts, HandshakePacket};
pub use self::fuzz::fuzz_tcp;
pub use self::segment::{Flags, Segment, SynOptions};

/// The facts about one segment, emitted whether or not the segment brought new bytes.
#[derive(Clone, Copy, Debug)]
pub struct SegmentFact<'a> {
    /// The connection of the segment.
    pub connection: ConnectionId,
    /// The side that sent it.
    pub side: Side,
    /// The packet that completed the segment.
    pub packet: PacketNumber,
    /// Capture time of that packet.
    pub time: Time,
    /// Whether the beginning of the sender's stream is still unknown, since no SYN was captured.
    pub is_open: bool,
    /// Nanoseconds by which packets may be captured after later ones, as far as the
    /// capture has shown.
    pub late: i64,
    /// Whether the two directions were captured with different clocks, as far as is known. Times
    /// from one to the other are wrong then.
    pub clocks: ClockDifference,
    /// Offset of its first payload byte in the sender's stream (relative sequence number minus
    /// one). For a keep-alive this lies before the bytes already received.
    pub offset: u64,
    /// Offset in the peer's stream up to which the segment acknowledges; `None` without ACK.
    pub acknowledged: Option<u64>,
    /// Window in bytes, scaled where the scale was captured.
    pub window: u32,
    /// The flag bits.
    pub flags: Flags,
    /// Wireshark's names for the segment.
    pub analysis: Analysis,
    /// Number of payload bytes on the wire.
    pub length: u32,
    /// The ranges of packets with the captured payload bytes.
    pub origin: &'a [PacketRange],
}

/// A piece of a stream, delivered as soon as it is certain to be next.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// The connection of the stream.
    pub connection: ConnectionId,
    /// The sender of the stream.
    pub side: Side,
    /// Offset of the piece in the sender's stream.
    pub offset: u64,
    /// The bytes, the gap or the end.
    pub piece: Piece<'a>,
    /// The ranges of packets with the bytes, in order; empty for a gap or end.
    pub origin: &'a [PacketRange],
    /// Capture time of the packet with the bytes or the FIN. For a gap, or an end without a FIN:
    /// the time at which it was declared.
    pub time: Time,
    /// Offset in the other side's stream up to which the sender had acknowledged when it sent the
    /// piece. The other side's bytes below it were delivered, or declared a gap, before this piece.
    pub acknowledged: u64,
}

/// Receives what the reassembler emits. `opened` is a connection's first call, `closed` its last.
pub trait Sink {
    /// A new connection was found.
    fn opened(&mut self, connection: ConnectionId, facts: &Facts);
    /// A segment arrived. The call precedes the deliveries that the segment causes.
    fn segment(&mut self, fact: &SegmentFact<'_>);
    /// A piece of a stream. `Piece::End` is delivered exactly once for each side, as
    /// its last piece.
    fn delivered(&mut self, delivery: Delivery<'_>);
    /// An anomaly in one side's stream.
    fn anomaly(&mut self, connection: ConnectionId, side: Side, packet: PacketNumber, anomaly: Anomaly);
    /// The connection is over and its state discarded.
    fn closed(&mut self, connection: ConnectionId, facts: &Facts);
}

/// The reassembler of all TCP connections of a capture.
#[derive(Debug)]
pub struct Tcp {
    limits: Limits,
    looks_like_client: fn(&[u8]) -> bool,
    table: ConnectionTable,
    recent: RecentBytes,
    /// Number of segments so far.
    segments: u64,
    /// The latest time of a packet.
    latest: Time,
    /// The latest time of packets and ticks. Deadlines up to then have passed.
    clock: Time,
    /// Nanoseconds by which the times of packets went back so far. A missing packet may be late
    /// by as much.
    disorder: i64,
    deadlines: BinaryHeap<Reverse<(Time, ConnectionId, Slot)>>,
    /// Connections that buffer bytes. The one that has buffered for longest is first.
    holders: BTreeSet<(u64, Slot)>,
    holds: u64,
    held: usize,
    /// Connections that are over and only retained for late segments, in order of their ends.
    /// Entries of connections that were closed since are stale.
    lingering: VecDeque<(ConnectionId, Slot)>,
}

impl Tcp {
    /// A reassembler without connections. `opens` returns whether bytes look like the first ones
    /// that a client sends. It is called where no SYN was captured.
    pub fn new(limits: Limits, looks_like_client: fn(&[u8]) -> bool) -> Tcp {
        Tcp {
            looks_like_client,
            table: ConnectionTable::new(limits.connections),
            recent: RecentBytes::new(&limits),
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

    /// Takes one segment. Segments may arrive in any order.
    pub fn push(&mut self, segment: &Segment<'_>, sink: &mut impl Sink) {
        self.advance(segment.time, sink);
        self.segments += 1;
        self.latest = self.latest.max(segment.time);
        // A live clock that is set back by an hour does not mean that packets are an hour late.
        self.disorder = self.disorder.max(self.latest.since(segment.time).min(self.limits.unseen_time));
        let key = FlowKey::of(segment);
        let (slot, side, reused) = self.connection_of(key, segment, sink);
        if segment.length() > 0 {
            self.table.note_payload(slot);
        }
        self.update_connection(slot, self.latest, sink, |connection, context| {
            connection.push(side, segment, reused, context)
        });
        if let Some(entry) = self.table.entry(slot)
            && !entry.lingering
            && entry.connection.is_over()
        {
            entry.lingering = true;
            self.lingering.push_back((entry.connection.id, slot));
            if self.lingering.len() > self.limits.lingering {
                self.discard_first_lingering(sink);
            }
        }
        // The connection that has buffered for longest is the least likely to receive the missing
        // bytes.
        while self.held > self.limits.reassembly_total {
            let Some(&(_, slot)) = self.holders.first() else { break };
            self.update_connection(slot, self.latest, sink, |connection, context| {
                if !connection.stop_awaiting_unseen_side() {
                    connection.report_limit("reassembly_total", context);
                }
                connection.release_until(None, context);
            });
        }
    }

    /// Moves the capture clock forward to `now`. Declares losses and closes connections that are
    /// due. Called before each packet and on a live tick.
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
            let over = self.update_connection(slot, due, sink, |connection, context| connection.expire(context));
            if over == Some(true) {
                self.close(slot, due, sink);
            }
        }
    }

    /// Ends the capture: delivers everything that is buffered and closes every connection.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.release_all(sink);
        for slot in self.table.in_order_of_appearance() {
            self.close(slot, self.latest, sink);
        }
    }

    /// Finds or opens the connection of a segment. Returns also the segment's sender, and whether
    /// an earlier connection used the same ports.
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
            self.update_connection(slot, self.latest, sink, |connection, context| {
                connection.report_limit("connections", context);
            });
            self.close(slot, self.latest, sink);
        }
        // The receiver of a SYN+ACK opened the connection.
        let answers = segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        let side = if answers { Side::Second } else { Side::First };
        let slot = self.table.insert(key, |id| Connection::new(id, side, segment, self.latest));
        if let Some(entry) = self.table.entry(slot) {
            sink.opened(entry.connection.id, &entry.connection.facts);
        }
        (slot, side, known.is_some())
    }

    /// Works on a connection, then updates the totals and deadlines that depend on it.
    fn update_connection<S: Sink, T>(
        &mut self,
        slot: Slot,
        now: Time,
        sink: &mut S,
        work: impl FnOnce(&mut Connection, &mut Context<'_, S>) -> T,
    ) -> Option<T> {
        let entry = self.table.entry(slot)?;
        let before = entry.connection.cost();
        let (limits, looks_like_client, segments, disorder) =
            (&self.limits, self.looks_like_client, self.segments, self.disorder);
        let mut context =
            Context { limits, recent: &mut self.recent, sink, looks_like_client, now, segments, disorder };
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
            // Connections may come and go without the clock moving, so stale deadlines pile up.
            if self.deadlines.len() > 2 * self.table.len() + 64 {
                self.deadlines = self.table.deadlines().map(Reverse).collect();
            }
        }
        Some(result)
    }

    /// Delivers what all connections buffer, in order of capture.
    fn release_all(&mut self, sink: &mut impl Sink) {
        let slots = self.table.in_order_of_appearance();
        let held = |slot: Slot| Some(Reverse((self.table.entry(slot)?.connection.first_buffered_time()?, slot)));
        let mut holders: BinaryHeap<Reverse<(Captured, Slot)>> = slots.into_iter().filter_map(held).collect();
        while let Some(Reverse((_, slot))) = holders.pop() {
            let until = holders.peek().map(|Reverse((next, _))| *next);
            let next = self.update_connection(slot, self.latest, sink, |connection, context| {
                connection.release_until(until, context)
            });
            holders.extend(next.flatten().map(|next| Reverse((next, slot))));
        }
    }

    /// Closes the connection that ended first of those that linger.
    fn discard_first_lingering(&mut self, sink: &mut impl Sink) {
        if let Some((id, slot)) = self.lingering.pop_front()
            && self.table.entry(slot).is_some_and(|entry| entry.connection.id == id)
        {
            self.close(slot, self.latest, sink);
        }
    }

    fn close(&mut self, slot: Slot, now: Time, sink: &mut impl Sink) {
        self.update_connection(slot, now, sink, |connection, context| connection.close(context));
        self.table.remove(slot);
    }
}
