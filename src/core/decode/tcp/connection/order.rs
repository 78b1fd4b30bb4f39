//! The order of delivery: what a piece waits for, and for how long.
//!
//! A piece is delivered when three things hold:
//!
//! 1. The beginning of its direction is certain, by a SYN or after the search for an earlier start.
//! 2. Everything before it was delivered or declared lost.
//! 3. The other direction was delivered up to the piece's acknowledgment number, since the sender
//!    had received those bytes before.
//!
//! No response therefore precedes its request, in whatever order the packets were captured.
//!
//! While only one direction of a connection has been captured, the other may be late as a whole.
//! `Limits::unseen_time` bounds this wait: unlimited for a file, one second live. The allowances
//! below do not apply meanwhile.
//!
//! A piece that waits for one of the three conditions is buffered. Missing bytes count as lost when
//! the peer has acknowledged them and one of these allowances has passed:
//!
//! - `Limits::loss_packets` further packets of the connection,
//! - `Limits::loss_time` together with `Limits::loss_segments` segments of all connections,
//! - `Limits::loss_quiet`.
//!
//! They also count as lost when a memory limit is reached and when the connection closes. Two
//! pieces that wait for each other show that one was retransmitted, and that only the
//! retransmission was captured: it acknowledges more than the first sending did.

use super::super::assembler::{Assembler, Captured, FirstBuffered, Sighting};
use super::super::sequence::{Patience, Stamp, after};
use super::super::{Anomaly, Delivery, Ending, Piece, Side, Sink};
use super::{Connection, Context, SIDES};
use crate::capture::{Limits, PacketRange, Time};

/// New bytes of one side, to be delivered.
pub(super) struct Run<'a> {
    pub start: u64,
    pub bytes: &'a [u8],
    pub origin: &'a [PacketRange],
    pub time: Time,
    pub acknowledged: u64,
}

/// The patience of the search for an earlier start. In a file, a SYN may be captured long after the
/// packets that follow it.
fn search_patience(limits: &Limits) -> Patience {
    if limits.is_live() { Patience::Short } else { Patience::Start }
}

impl Connection {
    /// Delivers everything that is held and was captured up to `until`, in causal order. Bytes that
    /// are missing before it are declared lost. Returns when the next held piece was captured.
    pub fn release_until<S: Sink>(
        &mut self,
        until: Option<Captured>,
        context: &mut Context<'_, S>,
    ) -> Option<Captured> {
        self.stop_awaiting_unseen_side();
        self.sides.iter_mut().for_each(Assembler::settle);
        loop {
            let ready = self.first_ready();
            let (side, next) = ready.or_else(|| self.first_waiting())?;
            if until.is_some_and(|until| until < next) {
                return Some(next);
            }
            match ready {
                Some(_) => self.deliver_next(side, context),
                None => self.skip_missing(side, context),
            }
        }
    }

    /// The capture time of the first buffered piece.
    pub fn first_buffered_time(&self) -> Option<Captured> {
        self.first_waiting().map(|(_, captured)| captured)
    }

    /// Delivers buffered pieces and FINs that wait for nothing, in order of capture.
    pub(super) fn drain<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        while let Some((side, _)) = self.first_ready() {
            self.deliver_next(side, context);
        }
    }

    /// The side whose next piece was captured first, of those that wait for nothing.
    fn first_ready(&self) -> Option<(Side, Captured)> {
        let ready = SIDES.into_iter().filter_map(|side| Some((side, self.ready_piece(side)?.captured())));
        ready.min_by_key(|(_, captured)| *captured)
    }

    /// The next piece of `side`, if it waits for nothing.
    fn ready_piece(&self, side: Side) -> Option<FirstBuffered> {
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        let first = own.first_buffered().filter(|first| own.is_settled() && first.start == own.next())?;
        let acknowledged = first.sighting.acknowledged;
        let informed = acknowledged == 0 || (other.is_settled() && other.has_delivered(acknowledged));
        informed.then_some(first)
    }

    /// Delivers the buffered piece or the FIN at the next position of `side`.
    fn deliver_next<S: Sink>(&mut self, side: Side, context: &mut Context<'_, S>) {
        let own = &mut self.sides[side.index()];
        let start = own.next();
        if own.end() == Some(start) {
            let sighting = own.first_buffered().map(|first| first.sighting);
            return self.end(side, Ending::Finished, sighting, context);
        }
        let Some(held) = own.take() else { return };
        let Sighting { time, acknowledged, .. } = held.sighting;
        let run = Run { start, bytes: &held.bytes, origin: &held.origin, time, acknowledged };
        self.deliver(side, run, context);
    }

    /// Delivers bytes of `side`.
    pub(super) fn deliver<S: Sink>(&mut self, side: Side, run: Run<'_>, context: &mut Context<'_, S>) {
        let index = side.index();
        self.facts.ends[index].bytes += run.bytes.len() as u64;
        context.recent.remember((self.id, side), &mut self.hints[index], run.start, run.bytes);
        context.sink.delivered(Delivery {
            connection: self.id,
            side,
            offset: self.sides[index].offset(run.start),
            piece: Piece::Data(run.bytes),
            origin: run.origin,
            time: run.time,
            acknowledged: self.acknowledged_offset(side.other(), run.acknowledged),
        });
    }

    /// The offset in `side`'s stream that its peer had acknowledged, but not beyond
    /// what was delivered.
    fn acknowledged_offset(&self, side: Side, acknowledged: u64) -> u64 {
        let other = &self.sides[side.index()];
        let delivered = other.next().min(other.end().unwrap_or(u64::MAX));
        if other.is_settled() { other.offset(acknowledged.min(delivered)) } else { 0 }
    }

    /// Declares the bytes of `side` up to `position` lost.
    pub(super) fn lose<S: Sink>(
        &mut self,
        side: Side,
        position: u64,
        first: Option<FirstBuffered>,
        context: &mut Context<'_, S>,
    ) {
        let own = &mut self.sides[side.index()];
        let (start, length) = (own.next(), position.saturating_sub(own.next()));
        own.advance(position);
        let offset = own.offset(start);
        self.facts.ends[side.index()].lost += length;
        let packet = first.map_or(self.last_packet, |first| first.sighting.packet);
        context.sink.anomaly(self.id, side, packet, Anomaly::Lost { offset, length });
        context.sink.delivered(Delivery {
            connection: self.id,
            side,
            offset,
            piece: Piece::Gap(length),
            origin: &[],
            time: context.now,
            acknowledged: self.acknowledged_offset(side.other(), first.map_or(0, |first| first.sighting.acknowledged)),
        });
    }

    /// Ends the stream of `side`. `sighting` is that of the FIN, if there was one.
    pub(super) fn end<S: Sink>(
        &mut self,
        side: Side,
        ending: Ending,
        sighting: Option<Sighting>,
        context: &mut Context<'_, S>,
    ) {
        let own = &mut self.sides[side.index()];
        let offset = own.offset(own.next());
        own.close();
        let acknowledged = sighting.map_or(u64::MAX, |sighting| sighting.acknowledged);
        context.sink.delivered(Delivery {
            connection: self.id,
            side,
            offset,
            piece: Piece::End(ending),
            origin: &[],
            time: sighting.map_or(context.now, |sighting| sighting.time),
            acknowledged: self.acknowledged_offset(side.other(), acknowledged),
        });
    }

    /// Ends the waiting for what has been missing for too long.
    pub(super) fn stop_waiting<S: Sink>(&mut self, now: Stamp, context: &mut Context<'_, S>) {
        let Context { limits, disorder, .. } = *context;
        if self.awaits_unseen_side() && now.time.since(self.opened) >= limits.unseen_time {
            self.stop_awaiting_unseen_side();
        }
        for side in SIDES {
            let since = self.search_since(side);
            if since.is_some_and(|since| since.has_aged(now, search_patience(limits), disorder, limits)) {
                self.sides[side.index()].settle();
            }
        }
        self.drain(context);
        while let Some(side) = SIDES.into_iter().find(|side| self.is_overdue(*side, now, disorder, limits)) {
            self.skip_missing(side, context);
            self.drain(context);
        }
    }

    /// Whether nothing was captured of one side so far, and the connection waits for it.
    pub(super) fn awaits_unseen_side(&self) -> bool {
        self.may_await_side && self.facts.ends.iter().any(|end| end.packets == 0)
    }

    /// Called for a segment of `side` while one side has sent none.
    ///
    /// If this is its first segment and the other side acknowledged it before, the whole direction
    /// may be late: another tap's clock, another file. The first segment may be less late than
    /// those after it, so twice its delay is allowed from now on.
    pub(super) fn note_side_delay(&mut self, side: Side, now: Stamp) {
        if self.facts.ends[side.index()].packets == 0 && !self.sides[side.index()].is_unseen() {
            self.late = now.time.since(self.opened).saturating_mul(2);
            self.sides.iter_mut().for_each(|side| side.search_from(now));
        }
    }

    /// Stops waiting for a side of which nothing was captured. Returns whether there was one.
    pub fn stop_awaiting_unseen_side(&mut self) -> bool {
        std::mem::take(&mut self.may_await_side) && self.facts.ends.iter().any(|end| end.packets == 0)
    }

    /// The moment when the search for the beginning of `side` started. None while a side is
    /// awaited, since then there is no hurry.
    fn search_since(&self, side: Side) -> Option<Stamp> {
        self.sides[side.index()].open_since().filter(|_| !self.awaits_unseen_side())
    }

    /// The moment since when `side` waits, and its patience. `None` where it waits without a
    /// deadline: bytes that nobody acknowledged may still be retransmitted.
    fn waiting_since(&self, side: Side) -> Option<(Stamp, Patience)> {
        let own = &self.sides[side.index()];
        let first = own.first_buffered().filter(|_| own.is_settled())?;
        let Sighting { arrived, needed, .. } = first.sighting;
        // A capture of one direction has no ACKs of its bytes, and nothing of the other direction
        // follows.
        let one_sided = self.facts.ends[side.other().index()].packets == 0;
        let long = if self.late > 0 { Patience::Late } else { Patience::Long };
        if self.awaits_unseen_side() || self.search_since(side.other()).is_some() {
            return None;
        }
        if first.start == own.next() {
            return Some((arrived, if one_sided { Patience::Short } else { long }));
        }
        needed.map(|since| (since, long)).or(one_sided.then_some((arrived, Patience::Time)))
    }

    /// Whether `side` has waited for too long.
    fn is_overdue(&self, side: Side, now: Stamp, disorder: i64, limits: &Limits) -> bool {
        let late = self.late.saturating_add(disorder);
        self.waiting_since(side).is_some_and(|(since, patience)| since.has_aged(now, patience, late, limits))
    }

    /// The next time at which `side` may have waited for too long.
    pub(super) fn due(&self, side: Side, now: Time, disorder: i64, limits: &Limits) -> Option<Time> {
        if self.awaits_unseen_side() {
            return after(self.opened, limits.unseen_time);
        }
        if let Some(since) = self.search_since(side) {
            return since.due(now, search_patience(limits), disorder, limits);
        }
        let (since, patience) = self.waiting_since(side)?;
        since.due(now, patience, self.late.saturating_add(disorder), limits)
    }

    /// The side whose next piece was captured first, of those that wait.
    fn first_waiting(&self) -> Option<(Side, Captured)> {
        let waiting =
            SIDES.into_iter().filter_map(|side| Some((side, self.sides[side.index()].first_buffered()?.captured())));
        waiting.min_by_key(|(_, captured)| *captured)
    }

    /// Continues without what the next piece of `side` waits for. Both directions are settled.
    fn skip_missing<S: Sink>(&mut self, side: Side, context: &mut Context<'_, S>) {
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        let Some(first) = own.first_buffered() else { return };
        if first.start > own.next() {
            return self.lose(side, first.start, Some(first), context);
        }
        let acknowledged = first.sighting.acknowledged;
        match other.first_buffered() {
            // Each waits for the other. The one captured later is a retransmission, which
            // acknowledges more.
            Some(other_first) if other_first.start == other.next() => {
                let again = if other_first.captured() > first.captured() { side.other() } else { side };
                self.deliver_next(again, context);
            }
            Some(other_first) => {
                self.lose(side.other(), other_first.start.min(acknowledged), Some(other_first), context)
            }
            // A single position after everything else is a FIN that was not captured.
            None if acknowledged == other.next() + 1 => self.deliver_next(side, context),
            None => self.lose(side.other(), acknowledged, None, context),
        }
    }

    /// Enforces the limit on the memory of one direction.
    pub(super) fn enforce_limit<S: Sink>(&mut self, side: Side, context: &mut Context<'_, S>) {
        let most = context.limits.reassembly_per_direction;
        if self.sides[side.index()].cost() > most && self.stop_awaiting_unseen_side() {
            self.sides.iter_mut().for_each(Assembler::settle);
            self.stop_waiting(self.stamp(context), context);
        }
        if self.sides[side.index()].cost() <= most {
            return;
        }
        self.report_limit("reassembly_per_direction", context);
        self.sides.iter_mut().for_each(Assembler::settle);
        self.drain(context);
        while self.sides[side.index()].cost() > most {
            self.skip_missing(side, context);
            self.drain(context);
        }
    }
}
