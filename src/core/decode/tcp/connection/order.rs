//! The order of delivery: what waits for what, and for how long.
//!
//! A piece is delivered when three things hold:
//!
//! 1. its direction knows where it begins (a SYN, or the search for an earlier start is over),
//! 2. everything before it was delivered or declared lost,
//! 3. the other direction was delivered up to the piece's acknowledgment number, for what the sender had seen came before
//!    what it said. So no response precedes its request, in whatever order the capture holds them.
//!
//! Of a connection of which one side was not seen yet nothing waits on a term: that side may be late as a whole, for `Limits::unseen_time`.
//!
//! What waits on one of the three is held, and what it waits for is missing. Missing bytes count as lost when the peer has
//! acknowledged them and `Limits::loss_packets` further packets of the connection, or `Limits::loss_time` with `Limits::loss_segments` of
//! all connections, or `Limits::loss_quiet`, have gone; when a memory limit is reached; and when the connection closes. Two pieces that wait for each other mean that one was sent twice and only the
//! second sending was captured: it knew more than the first did.

use super::super::assembler::{Assembler, Captured, Head, Sighting};
use super::super::sequence::{Patience, Stamp, after};
use super::super::{Anomaly, Delivery, Ending, Piece, Side, Sink};
use super::{Connection, Context, SIDES};
use crate::capture::{Limits, PacketRange, Time};

/// A run of new bytes of one side, wherever they are kept.
pub(super) struct Run<'a> {
    pub start: u64,
    pub bytes: &'a [u8],
    pub origin: &'a [PacketRange],
    pub time: Time,
    pub acknowledged: u64,
}

/// How long an earlier start is looked for: in a file a SYN may stand behind packets that came long after it.
fn search_patience(limits: &Limits) -> Patience {
    if limits.is_live() { Patience::Short } else { Patience::Start }
}

impl Connection {
    /// Delivers everything that is held and was captured up to `until`, in causal order. Bytes that are missing
    /// before it are declared lost. Returns when the next held piece was captured.
    pub fn release_until<S: Sink>(
        &mut self,
        until: Option<Captured>,
        context: &mut Context<'_, S>,
    ) -> Option<Captured> {
        self.stop_awaiting();
        self.sides.iter_mut().for_each(Assembler::settle);
        loop {
            let ready = self.first_ready();
            let (side, next) = ready.or_else(|| self.first_waiting())?;
            if until.is_some_and(|until| until < next) {
                return Some(next);
            }
            match ready {
                Some(_) => self.deliver_head(side, context),
                None => self.force(side, context),
            }
        }
    }

    /// When that was captured which is told first of what is held.
    pub fn holds_from(&self) -> Option<Captured> {
        self.first_waiting().map(|(_, captured)| captured)
    }

    /// Delivers held pieces and FINs that wait for nothing, those seen first in the capture first.
    pub(super) fn drain<S: Sink>(&mut self, context: &mut Context<'_, S>) {
        while let Some((side, _)) = self.first_ready() {
            self.deliver_head(side, context);
        }
    }

    /// The side whose next piece was captured first, of those that wait for nothing.
    fn first_ready(&self) -> Option<(Side, Captured)> {
        let ready = SIDES.into_iter().filter_map(|side| Some((side, self.head_if_ready(side)?.captured())));
        ready.min_by_key(|(_, captured)| *captured)
    }

    fn head_if_ready(&self, side: Side) -> Option<Head> {
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        let head = own.head().filter(|head| own.is_settled() && head.start == own.next())?;
        let acknowledged = head.sighting.acknowledged;
        let informed = acknowledged == 0 || (other.is_settled() && other.has_delivered(acknowledged));
        informed.then_some(head)
    }

    /// Delivers what stands at the next position of `side`: a held piece, or the FIN.
    fn deliver_head<S: Sink>(&mut self, side: Side, context: &mut Context<'_, S>) {
        let own = &mut self.sides[side.index()];
        let start = own.next();
        if own.end() == Some(start) {
            let sighting = own.head().map(|head| head.sighting);
            return self.end(side, Ending::Finished, sighting, context);
        }
        let Some(held) = own.take() else { return };
        let Sighting { time, acknowledged, .. } = held.sighting;
        let run = Run { start, bytes: &held.bytes, origin: &held.origin, time, acknowledged };
        self.deliver(side, run, context);
    }

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
            acknowledged: self.seen_of(side.other(), run.acknowledged),
        });
    }

    /// The offset in `side`'s stream of what its peer had acknowledged; never beyond what was delivered.
    fn seen_of(&self, side: Side, acknowledged: u64) -> u64 {
        let other = &self.sides[side.index()];
        let delivered = other.next().min(other.end().unwrap_or(u64::MAX));
        if other.is_settled() { other.offset(acknowledged.min(delivered)) } else { 0 }
    }

    /// Declares the bytes of `side` up to `position` lost.
    pub(super) fn lose<S: Sink>(
        &mut self,
        side: Side,
        position: u64,
        head: Option<Head>,
        context: &mut Context<'_, S>,
    ) {
        let own = &mut self.sides[side.index()];
        let (start, length) = (own.next(), position.saturating_sub(own.next()));
        own.advance(position);
        let offset = own.offset(start);
        self.facts.ends[side.index()].lost += length;
        let packet = head.map_or(self.last_packet, |head| head.sighting.packet);
        context.sink.anomaly(self.id, side, packet, Anomaly::Lost { offset, length });
        context.sink.delivered(Delivery {
            connection: self.id,
            side,
            offset,
            piece: Piece::Gap(length),
            origin: &[],
            time: context.now,
            acknowledged: self.seen_of(side.other(), head.map_or(0, |head| head.sighting.acknowledged)),
        });
    }

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
            acknowledged: self.seen_of(side.other(), acknowledged),
        });
    }

    /// Stops waiting for what has been missing for too long.
    pub(super) fn give_up<S: Sink>(&mut self, now: Stamp, context: &mut Context<'_, S>) {
        let Context { limits, disorder, .. } = *context;
        if self.is_awaiting() && now.time.since(self.opened) >= limits.unseen_time {
            self.stop_awaiting();
        }
        for side in SIDES {
            let since = self.search_since(side);
            if since.is_some_and(|since| since.has_aged(now, search_patience(limits), disorder, limits)) {
                self.sides[side.index()].settle();
            }
        }
        self.drain(context);
        while let Some(side) = SIDES.into_iter().find(|side| self.is_overdue(*side, now, disorder, limits)) {
            self.force(side, context);
            self.drain(context);
        }
    }

    /// Whether one side was not seen so far, and is waited for.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaits_both && self.facts.ends.iter().any(|end| end.packets == 0)
    }

    /// A segment of `side` comes, and so far there were none of one of the two. If this is the first, and the other side spoke of it before, it stands so
    /// late behind that, or its whole direction does: another tap's clock, another file. What comes first may be less late than what
    /// follows, so twice as long is waited from now on.
    pub(super) fn meet(&mut self, side: Side, now: Stamp) {
        if self.facts.ends[side.index()].packets == 0 && !self.sides[side.index()].is_unseen() {
            self.late = now.time.since(self.opened).saturating_mul(2);
            self.sides.iter_mut().for_each(|side| side.search_from(now));
        }
    }

    /// Stops waiting for a side of which nothing was seen. Says whether there was one.
    pub fn stop_awaiting(&mut self) -> bool {
        std::mem::take(&mut self.awaits_both) && self.facts.ends.iter().any(|end| end.packets == 0)
    }

    /// Since when it is looked for where the stream of `side` begins. While a side is awaited there is no hurry.
    fn search_since(&self, side: Side) -> Option<Stamp> {
        self.sides[side.index()].open_since().filter(|_| !self.is_awaiting())
    }

    /// Since when `side` waits for something, and how long; `None` where it waits without a term: bytes that nobody acknowledged may
    /// still be sent again.
    fn waits_since(&self, side: Side) -> Option<(Stamp, Patience)> {
        let own = &self.sides[side.index()];
        let head = own.head().filter(|_| own.is_settled())?;
        let Sighting { arrived, needed, .. } = head.sighting;
        // In a capture of one direction nothing is ever acknowledged, and nothing of the other comes.
        let one_sided = self.facts.ends[side.other().index()].packets == 0;
        let long = if self.late > 0 { Patience::Late } else { Patience::Long };
        if self.is_awaiting() || self.search_since(side.other()).is_some() {
            return None;
        }
        if head.start == own.next() {
            return Some((arrived, if one_sided { Patience::Short } else { long }));
        }
        needed.map(|since| (since, long)).or(one_sided.then_some((arrived, Patience::Time)))
    }

    fn is_overdue(&self, side: Side, now: Stamp, disorder: i64, limits: &Limits) -> bool {
        let late = self.late.saturating_add(disorder);
        self.waits_since(side).is_some_and(|(since, patience)| since.has_aged(now, patience, late, limits))
    }

    pub(super) fn due(&self, side: Side, now: Time, disorder: i64, limits: &Limits) -> Option<Time> {
        if self.is_awaiting() {
            return after(self.opened, limits.unseen_time);
        }
        if let Some(since) = self.search_since(side) {
            return since.due(now, search_patience(limits), disorder, limits);
        }
        let (since, patience) = self.waits_since(side)?;
        since.due(now, patience, self.late.saturating_add(disorder), limits)
    }

    /// The side whose next piece was captured first, of those that wait.
    fn first_waiting(&self) -> Option<(Side, Captured)> {
        let waiting = SIDES.into_iter().filter_map(|side| Some((side, self.sides[side.index()].head()?.captured())));
        waiting.min_by_key(|(_, captured)| *captured)
    }

    /// Goes on without what the next piece of `side` waits for. Both directions are settled.
    fn force<S: Sink>(&mut self, side: Side, context: &mut Context<'_, S>) {
        let (own, other) = (&self.sides[side.index()], &self.sides[side.other().index()]);
        let Some(head) = own.head() else { return };
        if head.start > own.next() {
            return self.lose(side, head.start, Some(head), context);
        }
        let acknowledged = head.sighting.acknowledged;
        match other.head() {
            // Each waits for the other: the one captured later was sent again, knowing more than the first time.
            Some(theirs) if theirs.start == other.next() => {
                let again = if theirs.captured() > head.captured() { side.other() } else { side };
                self.deliver_head(again, context);
            }
            Some(theirs) => self.lose(side.other(), theirs.start.min(acknowledged), Some(theirs), context),
            // One position behind everything else is a FIN that was not captured.
            None if acknowledged == other.next() + 1 => self.deliver_head(side, context),
            None => self.lose(side.other(), acknowledged, None, context),
        }
    }

    /// Holds no more than one direction may.
    pub(super) fn keep_within_limit<S: Sink>(&mut self, side: Side, context: &mut Context<'_, S>) {
        let most = context.limits.reassembly_per_direction;
        if self.sides[side.index()].cost() > most && self.stop_awaiting() {
            self.sides.iter_mut().for_each(Assembler::settle);
            self.give_up(self.stamp(context), context);
        }
        if self.sides[side.index()].cost() <= most {
            return;
        }
        self.report_limit("reassembly_per_direction", context);
        self.sides.iter_mut().for_each(Assembler::settle);
        self.drain(context);
        while self.sides[side.index()].cost() > most {
            self.force(side, context);
            self.drain(context);
        }
    }
}
