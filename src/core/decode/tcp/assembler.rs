//! One direction of a connection: which bytes come next, which are ahead of a hole.
//!
//! ```text
//!              base           next          sent
//!   ────────────┼──────────────┼─────┬─────┬──┬────┬─┼──────► positions
//!    before the │  delivered   │ hole│held │  │held│F│
//!    capture    │              │     └─────┘  └────┘ └ FIN: one position, as SYN
//!               └ offset 0           ▲
//!                                    └ acked: the peer has everything below
//! ```
//!
//! Bytes in order never come here: the connection hands them on as they are. The pieces in `held` never overlap and
//! all lie at or after `next`.

use std::collections::BTreeMap;

use super::sequence::{MAXIMUM_WINDOW, ORIGIN, Stamp, widen};
use crate::capture::{PacketNumber, PacketRange, Ranges, Time};

/// What a held piece costs beyond its bytes: the entry, two allocations, a share of the tree. It makes a million
/// one-byte segments count as what they take.
const PIECE_COST: usize = 192;

/// How and when a piece (or a FIN) was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub packet: PacketNumber,
    pub time: Time,
    /// Position in the other direction up to which its sender had seen it; 0 without ACK.
    pub acknowledged: u64,
    pub arrived: Stamp,
    /// When the peer was first known to have everything before it.
    pub needed: Option<Stamp>,
}

/// A piece ahead of `next`.
#[derive(Debug)]
pub(super) struct Held {
    pub bytes: Box<[u8]>,
    pub origin: Ranges,
    pub sighting: Sighting,
    /// Whether it may be the garbage byte of a keep-alive probe, for which anything else is better.
    probe: bool,
}

/// What the stream needs to go on: its first held piece, or its FIN.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub start: u64,
    pub sighting: Sighting,
}

/// The place of a packet among all: its time, then its number.
pub(super) type Captured = (Time, PacketNumber);

impl Head {
    pub fn captured(&self) -> Captured {
        (self.sighting.time, self.sighting.packet)
    }
}

/// Bytes of two copies that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    first: u64,
    pub bytes: u64,
}

impl Difference {
    /// Compares two copies of the bytes at `position`.
    pub fn compare(&mut self, position: u64, kept: &[u8], other: &[u8]) {
        if kept == other {
            return;
        }
        for (at, _) in kept.iter().zip(other).enumerate().filter(|(_, (kept, other))| kept != other) {
            if self.bytes == 0 {
                self.first = position + at as u64;
            }
            self.bytes += 1;
        }
    }

    /// Position of the first byte that differs.
    pub fn position(&self) -> Option<u64> {
        (self.bytes > 0).then_some(self.first)
    }
}

/// Whether it is known where the stream begins.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Nothing was seen of this side, nor an ACK to it.
    Unseen,
    /// No SYN yet: the stream begins at the lowest position that data or an ACK named, unless an earlier one comes.
    Open { lowest: Option<u64>, since: Stamp },
    /// Offset 0 is fixed.
    Settled,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Assembler {
    start: Start,
    /// The sequence number of its SYN.
    pub synchronized: Option<u32>,
    /// Position of offset 0; while that is open, of the first number seen.
    base: u64,
    next: u64,
    /// Behind the last position known to be sent.
    sent: u64,
    acked: u64,
    fin: Option<Box<Head>>,
    pub ended: bool,
    held: BTreeMap<u64, Held>,
    cost: usize,
}

impl Default for Assembler {
    fn default() -> Assembler {
        Assembler {
            start: Start::Unseen,
            synchronized: None,
            base: ORIGIN,
            next: ORIGIN,
            sent: 0,
            acked: 0,
            fin: None,
            ended: false,
            held: BTreeMap::new(),
            cost: 0,
        }
    }
}

impl Assembler {
    /// The position of a sequence number of this side.
    pub fn position(&self, sequence: u32) -> u64 {
        match self.start {
            Start::Unseen => ORIGIN + u64::from(sequence),
            _ => widen(sequence, self.next),
        }
    }

    /// The position of the peer's acknowledgment number; `None` where it is too far ahead to be one.
    pub fn acknowledged_position(&self, acknowledgment: u32) -> Option<u64> {
        let position = self.position(acknowledgment);
        let edge = self.next.max(self.sent).max(self.acked).saturating_add(MAXIMUM_WINDOW);
        (matches!(self.start, Start::Unseen) || position <= edge).then_some(position)
    }

    /// The offset in the stream of a position; 0 for what lies before the stream.
    pub fn offset(&self, position: u64) -> u64 {
        let base = match self.start {
            Start::Open { lowest: Some(lowest), .. } => lowest,
            _ => self.base,
        };
        position.saturating_sub(base)
    }

    /// Position of the next byte to deliver.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Behind the last position known to be sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Up to where the peer has everything.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Behind the last byte of the stream, where the FIN is known.
    pub fn end(&self) -> Option<u64> {
        self.fin.as_ref().map(|fin| fin.start)
    }

    /// Memory held, in bytes.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether nothing was seen of this side, nor an ACK to it.
    pub fn is_unseen(&self) -> bool {
        matches!(self.start, Start::Unseen)
    }

    /// Whether offset 0 is fixed.
    pub fn is_settled(&self) -> bool {
        matches!(self.start, Start::Settled)
    }

    /// Since when offset 0 is being looked for.
    pub fn open_since(&self) -> Option<Stamp> {
        match self.start {
            Start::Open { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Whether all that was seen of this side so far were ACKs whose sequence number said that `position` comes next.
    pub fn was_announced_at(&self, position: u64) -> bool {
        matches!(self.start, Start::Open { lowest: None, .. }) && self.base == position
    }

    /// Whether nothing is known of this side before `position`, and where it begins is open.
    pub fn begins_at(&self, position: u64) -> bool {
        matches!(self.start, Start::Open { lowest: Some(lowest), .. } if lowest == position)
    }

    /// Whether nothing waits here: no piece, no FIN, no open start.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && (self.fin.is_none() || self.ended) && self.open_since().is_none()
    }

    /// Whether the other side's bytes that were sent after seeing this one up to `position` may be delivered.
    pub fn has_delivered(&self, position: u64) -> bool {
        self.next >= position || self.ended || position == 0
    }

    /// Its SYN: offset 0 is the position behind it. A second SYN with another number counts only while nothing followed
    /// the first.
    pub fn synchronize(&mut self, sequence: u32) {
        let first = self.position(sequence) + 1;
        if self.is_settled() && first != self.base {
            if !self.is_untouched() {
                return;
            }
            (self.sent, self.acked) = (0, 0);
        }
        self.synchronized = Some(sequence);
        if !self.is_settled() || first != self.base {
            self.settle_at(first);
        }
    }

    /// Whether nothing of the stream was seen beyond its SYN.
    fn is_untouched(&self) -> bool {
        self.next == self.base && self.held.is_empty() && self.fin.is_none() && !self.ended
    }

    /// How far behind the SYN `sequence` the stream begins, as far as it is known; `None` where it begins before.
    pub fn distance_from(&self, sequence: u32) -> Option<u64> {
        let begins = match self.start {
            Start::Open { lowest: Some(lowest), .. } => lowest,
            _ => self.base,
        };
        begins.checked_sub(self.position(sequence) + 1)
    }

    /// Whether an acknowledgment number answers the SYN of this side, or what was sent with it.
    pub fn is_answered_by(&self, acknowledgment: u32) -> bool {
        let position = self.position(acknowledgment);
        self.synchronized.is_some() && self.base <= position && position <= self.base.max(self.sent)
    }

    /// A segment or an ACK named `position`. `bound` says that the stream reaches down to it; a pure ACK or a probe
    /// only gives a first idea.
    pub fn observe(&mut self, position: u64, bound: bool, now: Stamp) {
        match &mut self.start {
            Start::Unseen => {
                (self.base, self.next) = (position, position);
                self.start = Start::Open { lowest: bound.then_some(position), since: now };
            }
            Start::Open { lowest, .. } if bound => {
                *lowest = Some(lowest.map_or(position, |lowest| lowest.min(position)));
            }
            _ => {}
        }
    }

    /// The search for offset 0 begins: so far others only named it.
    pub fn search_from(&mut self, now: Stamp) {
        if let Start::Open { since, .. } = &mut self.start {
            *since = now;
        }
    }

    /// Gives up looking for an earlier start.
    pub fn settle(&mut self) {
        if let Start::Open { lowest, .. } = self.start {
            self.settle_at(lowest.unwrap_or(self.base));
        }
    }

    fn settle_at(&mut self, base: u64) {
        self.start = Start::Settled;
        (self.base, self.next) = (base, base);
        self.forget_before(base);
        self.fin = self.fin.take().filter(|fin| fin.start >= base);
    }

    /// The peer has everything below `position`.
    pub fn acknowledge(&mut self, position: u64, now: Stamp) {
        if position <= self.acked {
            return;
        }
        // What is held behind a hole starts at or below the ACK that covers the hole.
        if !self.held.is_empty() {
            for (_, piece) in self.held.range_mut(self.acked.saturating_add(1)..=position) {
                piece.sighting.needed.get_or_insert(now);
            }
        }
        if let Some(fin) = self.fin.as_mut().filter(|fin| fin.start <= position) {
            fin.sighting.needed.get_or_insert(now);
        }
        self.acked = position;
    }

    /// Everything below `position` was sent.
    pub fn note_sent(&mut self, position: u64) {
        self.sent = self.sent.max(position);
    }

    /// The FIN stands at `position`. Of several, the lowest counts, so that their order does not.
    pub fn finish_at(&mut self, position: u64, mut sighting: Sighting) {
        if self.ended || (self.is_settled() && position < self.next) || self.end().is_some_and(|end| end <= position) {
            return;
        }
        self.forget_from(position);
        sighting.needed = (self.acked >= position).then_some(sighting.arrived);
        self.fin = Some(Box::new(Head { start: position, sighting }));
    }

    /// Position of the first held byte.
    pub fn first_held(&self) -> Option<u64> {
        self.held.first_key_value().map(|(start, _)| *start)
    }

    /// What the stream needs to go on.
    pub fn head(&self) -> Option<Head> {
        let fin = self.fin.as_deref().copied().filter(|_| !self.ended);
        match (self.held.first_key_value(), fin) {
            (Some((start, _)), Some(fin)) if *start >= fin.start => Some(fin),
            (Some((start, piece)), _) => Some(Head { start: *start, sighting: piece.sighting }),
            (None, fin) => fin,
        }
    }

    /// Keeps what is new of a segment; where bytes are held already, the first copy stays. Says where copies differ.
    pub fn hold(
        &mut self,
        start: u64,
        payload: &[u8],
        origin: &[PacketRange],
        probe: bool,
        mut sighting: Sighting,
    ) -> Difference {
        let end = start + payload.len() as u64;
        // What stands further along the stream was sent with at least the same knowledge.
        if let Some((_, behind)) = self.held.range(end..).next() {
            sighting.acknowledged = sighting.acknowledged.min(behind.sighting.acknowledged);
        }
        self.split_what_knew_more(start, sighting.acknowledged);
        self.split_what_knew_more(end, sighting.acknowledged);
        let mut difference = Difference::default();
        let first = match self.held.range(..=start).next_back() {
            Some((before, piece)) if before + piece.bytes.len() as u64 > start => *before,
            _ => start,
        };
        let mut at = start;
        let mut fresh = Vec::new();
        let mut probes = Vec::new();
        for (&begin, piece) in self.held.range_mut(first..end) {
            let behind = begin + piece.bytes.len() as u64;
            if piece.probe && !probe {
                probes.push(begin);
                continue;
            }
            if begin > at {
                fresh.push((at, begin));
            }
            let (from, to) = (begin.max(start), behind.min(end));
            let theirs = &piece.bytes[(from - begin) as usize..(to - begin) as usize];
            if !probe {
                difference.compare(from, theirs, &payload[(from - start) as usize..(to - start) as usize]);
            }
            // Sent again later means seen more of the other side: the lowest acknowledgment is that of the first sending.
            if start <= begin && behind <= end {
                piece.sighting.acknowledged = piece.sighting.acknowledged.min(sighting.acknowledged);
            }
            at = at.max(behind);
        }
        for begin in probes {
            self.remove(begin);
        }
        if at < end {
            fresh.push((at, end));
        }
        for (from, to) in fresh {
            let (low, high) = ((from - start) as usize, (to - start) as usize);
            sighting.needed = (self.acked >= from).then_some(sighting.arrived);
            let piece =
                Held { bytes: payload[low..high].into(), origin: Ranges::cut(origin, low, high), sighting, probe };
            self.cost += PIECE_COST + piece.bytes.len();
            self.held.insert(from, piece);
        }
        difference
    }

    /// The sender had seen no more of the other side than up to `acknowledged` when it had sent everything below `position`.
    /// A held piece from there that claims more was sent again later, or "acks something not yet sent" (RFC 9293 section
    /// 3.10.7.4).
    pub fn knew_no_more_before(&mut self, position: u64, acknowledged: u64) {
        // Held pieces claim more and more along the stream, so the first that claims no more ends the search.
        let below = self.held.range_mut(..position).rev();
        let behind = |start: u64, piece: &Held| start + piece.bytes.len() as u64;
        for (_, piece) in below.skip_while(|(start, piece)| behind(**start, piece) > position) {
            if piece.sighting.acknowledged <= acknowledged {
                break;
            }
            piece.sighting.acknowledged = acknowledged;
        }
    }

    /// The piece at `next`, to be delivered; `next` moves behind it.
    pub fn take(&mut self) -> Option<Held> {
        let piece = self.remove(self.next)?;
        self.next += piece.bytes.len() as u64;
        Some(piece)
    }

    /// `next` moves to `position`: bytes were delivered, or declared lost.
    pub fn advance(&mut self, position: u64) {
        self.next = self.next.max(position);
        self.sent = self.sent.max(self.next);
    }

    /// The stream is over. Its FIN takes one position; what is held behind it never was part of the stream.
    pub fn close(&mut self) {
        self.ended = true;
        if self.end() == Some(self.next) {
            self.next += 1;
        }
        self.held.clear();
        self.cost = 0;
    }

    /// Drops held bytes below `position`: they lie before the stream.
    fn forget_before(&mut self, position: u64) {
        while let Some(start) = self.first_held().filter(|start| *start < position) {
            self.split(start, position);
            self.remove(start);
        }
    }

    /// Drops held bytes at and above `position`: they lie behind the FIN.
    fn forget_from(&mut self, position: u64) {
        if let Some((&start, _)) = self.held.range(..position).next_back() {
            self.split(start, position);
        }
        while let Some((&start, _)) = self.held.range(position..).next_back() {
            self.remove(start);
        }
    }

    /// Makes two pieces of the one around `border`, where a segment begins or ends whose sender had seen less than that of the piece:
    /// what came again later, with other borders, is told apart by what it came again from.
    fn split_what_knew_more(&mut self, border: u64, acknowledged: u64) {
        let around = self.held.range(..border).next_back();
        if let Some((&start, _)) = around.filter(|(_, piece)| piece.sighting.acknowledged > acknowledged) {
            self.split(start, border);
        }
    }

    /// Makes two pieces of the one at `start` if it spans `position`.
    fn split(&mut self, start: u64, position: u64) {
        let Some(piece) = self.held.get(&start) else { return };
        let (at, length) = ((position - start) as usize, piece.bytes.len());
        if at == 0 || at >= length {
            return;
        }
        let part = |from: usize, to: usize| Held {
            bytes: piece.bytes[from..to].into(),
            origin: Ranges::cut(&piece.origin, from, to),
            ..*piece
        };
        let (low, high) = (part(0, at), part(at, length));
        self.held.insert(start, low);
        self.held.insert(position, high);
        self.cost += PIECE_COST;
    }

    fn remove(&mut self, start: u64) -> Option<Held> {
        let piece = self.held.remove(&start)?;
        self.cost -= PIECE_COST + piece.bytes.len();
        Some(piece)
    }
}
