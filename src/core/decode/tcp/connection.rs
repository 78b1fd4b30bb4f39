//! One connection: the meaning of each segment for its two directions, from handshake to close.
//!
//! A segment is first emitted with Wireshark's names for it. Then its acknowledgment number is
//! noted in the other direction. Its payload is delivered at once if it is next, or goes to the
//! assembler if bytes are missing before it. `order.rs` delivers the buffered pieces.

mod order;

use self::order::Run;
use super::analysis::{Analysis, Analyst};
use super::assembler::{Assembler, Sighting};
use super::clocks::Clocks;
use super::connection_facts::Facts;
use super::difference::Difference;
use super::recent_bytes::{Hint, RecentBytes};
use super::segment::{Flags, Segment};
use super::sequence::{MAXIMUM_WINDOW, Stamp, after};
use super::{Anomaly, ConnectionId, Ending, SegmentFact, Side, Sink};
use crate::capture::{Limits, PacketNumber, Ranges, Time};

const SIDES: [Side; 2] = [Side::First, Side::Second];

/// The parts of the reassembler that a connection works with.
pub(super) struct Context<'a, S> {
    pub limits: &'a Limits,
    pub recent: &'a mut RecentBytes,
    pub sink: &'a mut S,
    pub looks_like_client: fn(&[u8]) -> bool,
    /// The capture clock.
    pub now: Time,
    /// Number of segments of all connections so far.
    pub segments: u64,
    /// Nanoseconds by which the times of packets went back so far.
    pub disorder: i64,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub id: ConnectionId,
    pub facts: Facts,
    sides: [Assembler; 2],
    hints: [Hint; 2],
    analyst: Analyst,
    clocks: Box<Clocks>,
    packets: u64,
    last_packet: PacketNumber,
    /// The capture clock at its last packet.
    last_time: Time,
    /// The window that each side announced last; the largest possible one until it is captured.
    windows: [u64; 2],
    /// For each side, its segment furthest along the stream: the position after it, and the
    /// position that it acknowledged.
    furthest: [(u64, u64); 2],
    reset: bool,
    /// The capture clock at its first packet.
    opened: Time,
    /// Whether the connection waits for a side of which nothing was captured.
    may_await_side: bool,
    /// Nanoseconds by which one side's packets may be captured after the other side's ACKs of them.
    late: i64,
    /// The position where one side seems to begin after a handshake that was not captured; 0 if
    /// there is none. It is valid as long as nothing was captured of the other side.
    unseen_handshake_end: u64,
}

impl Connection {
    /// A connection that `segment` opens, sent by `side`, at the time `now` of the capture clock.
    pub fn new(id: ConnectionId, side: Side, segment: &Segment<'_>, now: Time) -> Connection {
        Connection {
            id,
            facts: Facts::new(segment, side),
            sides: Default::default(),
            hints: [0; 2],
            analyst: Analyst::default(),
            clocks: Box::default(),
            packets: 0,
            last_packet: segment.packet,
            last_time: segment.time,
            windows: [MAXIMUM_WINDOW; 2],
            furthest: [(0, 0); 2],
            reset: false,
            opened: now,
            may_await_side: true,
            late: 0,
            unseen_handshake_end: 0,
        }
    }

    /// The sender of a segment.
    pub fn side_of(&self, segment: &Segment<'_>) -> Side {
        let first = self.facts.endpoints[0];
        let is_first = segment.source.ip() == first.ip() && segment.source.port() == first.port();
        if is_first { Side::First } else { Side::Second }
    }

    /// Memory of the bytes ahead of holes.
    pub fn cost(&self) -> usize {
        self.sides[0].cost() + self.sides[1].cost()
    }

    /// Whether `segment` opens another connection between the same ports: a SYN with another
    /// initial sequence number (RFC 9293 section 3.6.1, RFC 6191). A SYN that was captured
    /// late opens nothing.
    pub fn is_reopened_by(&self, side: Side, segment: &Segment<'_>, limits: &Limits) -> bool {
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::RST) {
            return false;
        }
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        if own.synchronized == Some(segment.sequence) {
            return false;
        }
        // A SYN+ACK to the SYN of this connection belongs to it, whatever its own number. While
        // nothing else was captured of this side, a SYN+ACK to an earlier SYN is merely late.
        if segment.flags.has(Flags::ACK) && other.synchronized.is_some() {
            return own.is_settled() && !other.is_answered_by(segment.acknowledgment);
        }
        if own.synchronized.is_some() {
            return true;
        }
        // No SYN of this side was captured. This is it, if the stream begins right after it. While
        // the start is open, bytes between the two may be on their way.
        let room = if own.is_settled() { 0 } else { limits.reassembly_per_direction as u64 };
        !own.is_unseen() && own.distance_from(segment.sequence).is_none_or(|distance| distance > room)
    }

    /// Processes one segment of `side`. `reused`: an earlier connection used the same ports.
    pub fn push<S: Sink>(&mut self, side: Side, segment: &Segment<'_>, reused: bool, context: &mut Context<'_, S>) {
        self.packets += 1;
        (self.last_packet, self.last_time) = (segment.packet, context.now);
        let now = self.stamp(context);
        if self.awaits_unseen_side() {
            self.note_side_delay(side, now);
        }
        self.facts.add_segment(side, segment);
        let is_reset = segment.flags.has(Flags::RST);
        let valid = !is_reset || self.accepts_reset(side, segment);

        if segment.flags.has(Flags::SYN) && !is_reset {
            self.sides[side.index()].synchronize(segment.sequence);
        }
        // SYN "is considered to occur before the first actual data octet of the segment" (RFC 9293
        // section 3.4).
        let own = &mut self.sides[side.index()];
        let first = segment.sequence.wrapping_add(u32::from(segment.flags.has(Flags::SYN)));
        let start = own.position(first);
        let follows_ack = segment.length() > 0 && own.was_announced_at(start);
        let is_next = self.facts.ends[side.index()].packets == 1 && own.begins_at(start);
        if valid && !is_reset && !own.is_settled() {
            own.observe(start, segment.length() > 0 && !segment.could_be_probe(), now);
        }
        let other = &mut self.sides[side.other().index()];
        let mut acknowledged = None;
        if segment.flags.has(Flags::ACK) && valid {
            acknowledged = other.acknowledged_position(segment.acknowledgment);
            if let Some(position) = acknowledged {
                if !other.is_settled() {
                    other.observe(position, true, now);
                }
                other.acknowledge(position, now);
                self.sides[side.index()].limit_acknowledgments_before(start, position);
                let furthest = &mut self.furthest[side.index()];
                let before = *furthest;
                *furthest = before.max((start + u64::from(segment.length()), position));
                // The end of a handshake without its SYNs: an ACK, then data with the same numbers,
                // and nothing else yet. A server's ACK and response look the same where packets
                // changed places, so the content decides.
                if follows_ack
                    && before == (start, position)
                    && self.facts.ends[side.other().index()].packets == 0
                    && (context.looks_like_client)(segment.payload)
                {
                    self.unseen_handshake_end = start;
                }
            }
        }
        // The other side continues at that ACK, and nothing from before it arrived meanwhile.
        if is_next && self.sides[side.other().index()].begins_at(self.unseen_handshake_end) {
            self.sides.iter_mut().for_each(Assembler::settle);
        }

        self.report(side, segment, start, acknowledged, reused, context);
        let sighting = Sighting {
            packet: segment.packet,
            time: segment.time,
            acknowledged: acknowledged.unwrap_or(0),
            arrived: now,
            needed: None,
        };
        if is_reset {
            if valid {
                self.reset(side, segment, now);
            }
        } else {
            self.receive(side, segment, start, sighting, context);
        }
        if !self.is_idle() {
            self.drain(context);
            self.stop_waiting(now, context);
            self.enforce_limit(side, context);
        }
    }

    /// Declares losses that are due at the clock's time. Returns whether the connection is over.
    pub fn expire<S: Sink>(&mut self, context: &mut Context<'_, S>) -> bool {
        let now = self.stamp(context);
        self.stop_waiting(now, context);
        self.discard_time(context.limits).is_some_and(|due| due <= context.now)
    }

    /// The next time after `now` at which [`Connection::expire`] has something to do,
    /// if nothing arrives.
    pub fn deadline(&self, now: Time, disorder: i64, limits: &Limits) -> Option<Time> {
        let linger = self.discard_time(limits);
        if self.is_idle() {
            return linger;
        }
        SIDES.into_iter().filter_map(|side| self.due(side, now, disorder, limits)).chain(linger).min()
    }

    /// Whether both streams have ended and nothing is awaited. Segments that arrive now are late.
    pub fn is_over(&self) -> bool {
        self.lingers() && self.is_idle() && !self.waits_for_unseen_side()
    }

    /// Ends the connection: delivers everything that is buffered and ends both streams.
    pub fn close<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        self.release_until(None, context);
        let ending = if self.reset { Ending::Reset } else { Ending::Cut };
        for side in SIDES {
            let own = &self.sides[side.index()];
            if own.ended {
                continue;
            }
            // Bytes that the peer acknowledged, or whose packet was cut short, without anything
            // after them. A single position is a FIN that was not captured.
            let (next, sent) = (own.next(), own.sent());
            let acked = own.acked().min(self.furthest[side.other().index()].1);
            let behind = sent.max(if acked == next + 1 { 0 } else { acked });
            if behind > next {
                self.lose(side, behind, None, context);
            }
            self.end(side, ending, None, context);
        }
        if let Some((packet, anomaly)) = self.clocks.anomaly(&self.facts.endpoints) {
            context.sink.anomaly(self.id, Side::First, packet, anomaly);
        }
        context.sink.closed(self.id, &self.facts);
    }

    fn stamp<S>(&self, context: &Context<'_, S>) -> Stamp {
        Stamp { packets: self.packets, segments: context.segments, time: context.now }
    }

    /// Whether nothing is buffered or searched, as after every packet in order.
    fn is_idle(&self) -> bool {
        self.sides.iter().all(Assembler::is_idle)
    }

    /// Whether the connection is only retained for late segments.
    fn lingers(&self) -> bool {
        self.reset || self.sides.iter().all(|side| side.ended || side.end().is_some())
    }

    /// Whether one side sent data and the connection waits for the other, of which
    /// nothing was captured.
    fn waits_for_unseen_side(&self) -> bool {
        self.awaits_unseen_side() && (self.cost() > 0 || self.facts.ends.iter().any(|end| end.bytes > 0))
    }

    /// The time at which the connection is discarded, if nothing arrives before.
    fn discard_time(&self, limits: &Limits) -> Option<Time> {
        let due = after(self.last_time, limits.linger_time.saturating_add(self.late)).filter(|_| self.lingers())?;
        if self.waits_for_unseen_side() { Some(due.max(after(self.opened, limits.unseen_time)?)) } else { Some(due) }
    }

    /// Names the segment, counts it, compares its time and emits it.
    fn report<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        acknowledged: Option<u64>,
        reused: bool,
        context: &mut Context<'_, S>,
    ) {
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        self.clocks.add(side, segment);
        let mut analysis = self.analyst.name(side, segment, &self.facts);
        if reused {
            analysis.0 |= Analysis::PORT_REUSED;
        }
        self.facts.count_names(side, analysis);
        let window = self.facts.window(side, segment);
        // Without both SYNs the scale is unknown.
        if self.facts.handshake[0].is_some() && self.facts.handshake[1].is_some() {
            self.windows[side.index()] = u64::from(window);
        }
        context.sink.segment(&SegmentFact {
            connection: self.id,
            side,
            packet: segment.packet,
            time: segment.time,
            is_open: !own.is_settled(),
            late: self.late.saturating_add(context.disorder),
            clocks: self.clocks.difference(),
            offset: own.offset(start),
            acknowledged: acknowledged.map(|position| other.offset(position)),
            window,
            flags: segment.flags,
            analysis,
            length: segment.length(),
            origin: segment.origin,
        });
    }

    /// Whether a RST is valid. "If the RST bit is set and the sequence number is outside the
    /// current receive window, silently drop the segment" (RFC 9293 section 3.10.7.4).
    fn accepts_reset(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        if own.is_unseen() {
            // "In the SYN-SENT state [...] the RST is acceptable if the ACK field acknowledges the
            // SYN" (section 3.5.3).
            let answers = segment.flags.has(Flags::ACK) && other.is_answered_by(segment.acknowledgment);
            return other.is_unseen() || answers;
        }
        let position = own.position(segment.sequence);
        let edge = own.acked().max(own.next()) + self.windows[side.other().index()];
        own.acked() <= position && position <= edge.max(own.sent())
    }

    /// Handles a RST. Nothing is retransmitted after it, so its receiver needs what
    /// is missing then.
    fn reset(&mut self, side: Side, segment: &Segment<'_>, now: Stamp) {
        self.reset = true;
        self.facts.ends[side.index()].rst.get_or_insert(segment.packet);
        for own in &mut self.sides {
            own.acknowledge(own.sent(), now);
        }
    }

    /// Takes the payload and the FIN of a segment. Data in a RST explains the reset and is no part
    /// of the stream (RFC 9293 section 3.5.3); the caller leaves it out.
    fn receive<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        sighting: Sighting,
        context: &mut Context<'_, S>,
    ) {
        let behind = start + u64::from(segment.length());
        let own = &mut self.sides[side.index()];
        if segment.length() > 0 {
            own.note_sent(behind.min(own.end().unwrap_or(u64::MAX)));
        }
        if !segment.payload.is_empty() {
            self.receive_payload(side, segment, start, sighting, context);
        }
        if segment.flags.has(Flags::FIN) {
            self.facts.ends[side.index()].fin.get_or_insert(segment.packet);
            self.sides[side.index()].finish_at(behind, sighting);
        }
    }

    /// Delivers the new bytes of a payload, or buffers them. Checks the others for conflicts.
    fn receive_payload<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        sighting: Sighting,
        context: &mut Context<'_, S>,
    ) {
        let other_ready = {
            let other = &self.sides[side.other().index()];
            other.has_delivered(sighting.acknowledged) && (other.is_settled() || sighting.acknowledged == 0)
        };
        let own = &mut self.sides[side.index()];
        if own.ended {
            return self.check_retransmission(side, segment, start, segment.payload, context);
        }
        // "A FIN is considered to occur after the last actual data octet" (RFC 9293 section 3.4).
        let room = own.end().map_or(u64::MAX, |end| end.saturating_sub(start));
        let payload = &segment.payload[..segment.payload.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let end = start + payload.len() as u64;
        let (next, settled) = (own.next(), own.is_settled());
        let old = if settled { next.saturating_sub(start).min(payload.len() as u64) as usize } else { 0 };
        if old > 0 {
            self.check_retransmission(side, segment, start, &payload[..old], context);
        }
        let new = &payload[old..];
        if new.is_empty() {
            return;
        }
        let start = start + old as u64;
        let cut =
            (old > 0 || payload.len() < segment.payload.len()).then(|| Ranges::cut(segment.origin, old, payload.len()));
        let origin = cut.as_deref().unwrap_or(segment.origin);
        let own = &mut self.sides[side.index()];
        let in_order = settled && start == next && other_ready && own.lowest_buffered().is_none_or(|held| held >= end);
        if in_order {
            own.advance(end);
            let run = Run { start, bytes: new, origin, time: segment.time, acknowledged: sighting.acknowledged };
            self.deliver(side, run, context);
        } else {
            let difference = own.buffer(start, new, origin, segment.could_be_probe(), sighting);
            self.report_conflict(side, segment.packet, difference, context);
        }
    }

    /// Compares a retransmission with the bytes delivered. Keep-alive probes carry garbage.
    fn check_retransmission<S: Sink>(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        start: u64,
        bytes: &[u8],
        context: &mut Context<'_, S>,
    ) {
        if !segment.could_be_probe() {
            let difference = context.recent.compare((self.id, side), self.hints[side.index()], start, bytes);
            self.report_conflict(side, segment.packet, difference, context);
        }
    }

    fn report_conflict<S: Sink>(
        &mut self,
        side: Side,
        packet: PacketNumber,
        difference: Difference,
        context: &mut Context<'_, S>,
    ) {
        if let Some(position) = difference.position() {
            let offset = self.sides[side.index()].offset(position);
            let anomaly = Anomaly::OverlapConflict { offset, length: difference.bytes };
            context.sink.anomaly(self.id, side, packet, anomaly);
        }
    }

    /// Reports the limit that ended the waiting, for the side that buffers most.
    pub fn report_limit<S: Sink>(&mut self, limit: &'static str, context: &mut Context<'_, S>) {
        let side = if self.sides[1].cost() > self.sides[0].cost() { Side::Second } else { Side::First };
        let own = &self.sides[side.index()];
        let anomaly = Anomaly::LimitReached { limit, offset: own.offset(own.next()) };
        context.sink.anomaly(self.id, side, self.last_packet, anomaly);
    }
}
