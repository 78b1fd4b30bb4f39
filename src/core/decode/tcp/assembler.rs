//! One direction of a connection: which bytes are next, and which lie ahead of a hole.
//!
//! ```text
//!              base           next          sent
//!   ────────────┼──────────────┼────┬────────┬──┬────────┬─┼──────► positions
//!    before the │  delivered   │hole│buffered│  │buffered│F│
//!    capture    │              │    └────────┘  └────────┘ └ FIN: one position, as SYN
//!               └ offset 0          ▲
//!                                   └ acked: the peer has everything below
//! ```
//!
//! Bytes in order are not buffered: the connection delivers them as they are. The buffered pieces
//! never overlap, and all lie at or after `next`.

use std::collections::BTreeMap;

use super::difference::Difference;
use super::sequence::{MAXIMUM_WINDOW, ORIGIN, Stamp, widen};
use crate::capture::{PacketNumber, PacketRange, Ranges, Time};

/// Bytes of memory that a buffered piece takes beyond its content: the entry, two allocations, a
/// share of the tree. With it, a million segments of one byte count as what they take.
const PIECE_COST: usize = 192;

/// The circumstances in which a piece (or a FIN) was captured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub packet: PacketNumber,
    pub time: Time,
    /// Position in the other direction up to which the sender had acknowledged; 0 without ACK.
    pub acknowledged: u64,
    pub arrived: Stamp,
    /// The moment when the peer was first known to have everything before it.
    pub needed: Option<Stamp>,
}

/// A piece ahead of `next`.
#[derive(Debug)]
pub(super) struct BufferedPiece {
    pub bytes: Box<[u8]>,
    pub origin: Ranges,
    pub sighting: Sighting,
    /// Whether it may be the garbage byte of a keep-alive probe. Any other copy of the
    /// byte is better.
    probe: bool,
}

/// The next thing to deliver: the first buffered piece, or the FIN.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstBuffered {
    pub start: u64,
    pub sighting: Sighting,
}

/// The order of a packet among all: its time, then its number.
pub(super) type Captured = (Time, PacketNumber);

impl FirstBuffered {
    pub fn captured(&self) -> Captured {
        (self.sighting.time, self.sighting.packet)
    }
}

/// Whether the beginning of the stream is known.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// Neither a segment of this side was captured, nor an ACK to it.
    Unseen,
    /// No SYN yet. The stream begins at the lowest position that data or an ACK named, unless a
    /// lower one follows.
    Open { lowest: Option<u64>, since: Stamp },
    /// Offset 0 is fixed.
    Settled,
}

/// The bytes of one direction.
#[derive(Debug)]
pub(super) struct Assembler {
    start: Start,
    /// The sequence number of its SYN, where captured.
    pub synchronized: Option<u32>,
    /// The position of offset 0. While that is open, the position of the first number captured.
    base: u64,
    next: u64,
    /// The position after the last one known to be sent.
    sent: u64,
    acked: u64,
    fin: Option<Box<FirstBuffered>>,
    pub ended: bool,
    buffered: BTreeMap<u64, BufferedPiece>,
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
            buffered: BTreeMap::new(),
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

    /// The position of the peer's acknowledgment number; `None` where it is too far ahead
    /// to be valid.
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

    /// The position of the next byte to deliver.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The position after the last one known to be sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The position up to which the peer has everything.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The position after the last byte of the stream, where the FIN was captured.
    pub fn end(&self) -> Option<u64> {
        self.fin.as_ref().map(|fin| fin.start)
    }

    /// Memory of the buffered pieces, in bytes.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether neither a segment of this side nor an ACK to it was captured.
    pub fn is_unseen(&self) -> bool {
        matches!(self.start, Start::Unseen)
    }

    /// Whether offset 0 is fixed.
    pub fn is_settled(&self) -> bool {
        matches!(self.start, Start::Settled)
    }

    /// The moment when the search for offset 0 began, while it lasts.
    pub fn open_since(&self) -> Option<Stamp> {
        match self.start {
            Start::Open { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Whether only ACKs of this side were captured so far, whose sequence number announced
    /// `position` as the next.
    pub fn was_announced_at(&self, position: u64) -> bool {
        matches!(self.start, Start::Open { lowest: None, .. }) && self.base == position
    }

    /// Whether the stream begins at `position` as far as is known, while that is not certain.
    pub fn begins_at(&self, position: u64) -> bool {
        matches!(self.start, Start::Open { lowest: Some(lowest), .. } if lowest == position)
    }

    /// Whether nothing waits here: no piece, no FIN, no open start.
    pub fn is_idle(&self) -> bool {
        self.buffered.is_empty() && (self.fin.is_none() || self.ended) && self.open_since().is_none()
    }

    /// Whether bytes of the other side may be delivered that were sent after receiving this side up
    /// to `position`.
    pub fn has_delivered(&self, position: u64) -> bool {
        self.next >= position || self.ended || position == 0
    }

    /// Handles the SYN: offset 0 is the position after it. A second SYN with another number counts
    /// only while nothing followed the first.
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

    /// Whether nothing of the stream was captured beyond its SYN.
    fn is_untouched(&self) -> bool {
        self.next == self.base && self.buffered.is_empty() && self.fin.is_none() && !self.ended
    }

    /// The distance from the SYN `sequence` to the beginning of the stream, as far as it is known.
    /// `None` where the stream begins before the SYN.
    pub fn distance_from(&self, sequence: u32) -> Option<u64> {
        let begins = match self.start {
            Start::Open { lowest: Some(lowest), .. } => lowest,
            _ => self.base,
        };
        begins.checked_sub(self.position(sequence) + 1)
    }

    /// Whether an acknowledgment number answers the SYN of this side, or data sent with it.
    pub fn is_answered_by(&self, acknowledgment: u32) -> bool {
        let position = self.position(acknowledgment);
        self.synchronized.is_some() && self.base <= position && position <= self.base.max(self.sent)
    }

    /// Notes that a segment or an ACK named `position`. With `bound` the stream certainly reaches
    /// down to it. A pure ACK or a probe only gives a first estimate.
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

    /// Restarts the search for offset 0 at this moment. Before, only the other side had named it.
    pub fn search_from(&mut self, now: Stamp) {
        if let Start::Open { since, .. } = &mut self.start {
            *since = now;
        }
    }

    /// Ends the search for an earlier start.
    pub fn settle(&mut self) {
        if let Start::Open { lowest, .. } = self.start {
            self.settle_at(lowest.unwrap_or(self.base));
        }
    }

    fn settle_at(&mut self, base: u64) {
        self.start = Start::Settled;
        (self.base, self.next) = (base, base);
        self.drop_before(base);
        self.fin = self.fin.take().filter(|fin| fin.start >= base);
    }

    /// Notes that the peer has everything below `position`.
    pub fn acknowledge(&mut self, position: u64, now: Stamp) {
        if position <= self.acked {
            return;
        }
        // Pieces after a hole start at or below the ACK that covers the hole.
        if !self.buffered.is_empty() {
            for (_, piece) in self.buffered.range_mut(self.acked.saturating_add(1)..=position) {
                piece.sighting.needed.get_or_insert(now);
            }
        }
        if let Some(fin) = self.fin.as_mut().filter(|fin| fin.start <= position) {
            fin.sighting.needed.get_or_insert(now);
        }
        self.acked = position;
    }

    /// Notes that everything below `position` was sent.
    pub fn note_sent(&mut self, position: u64) {
        self.sent = self.sent.max(position);
    }

    /// Handles a FIN at `position`. Of several the lowest counts, so their order does not matter.
    pub fn finish_at(&mut self, position: u64, mut sighting: Sighting) {
        if self.ended || (self.is_settled() && position < self.next) || self.end().is_some_and(|end| end <= position) {
            return;
        }
        self.drop_from(position);
        sighting.needed = (self.acked >= position).then_some(sighting.arrived);
        self.fin = Some(Box::new(FirstBuffered { start: position, sighting }));
    }

    /// The position of the first buffered byte.
    pub fn lowest_buffered(&self) -> Option<u64> {
        self.buffered.first_key_value().map(|(start, _)| *start)
    }

    /// The next thing to deliver, whether or not bytes are missing before it.
    pub fn first_buffered(&self) -> Option<FirstBuffered> {
        let fin = self.fin.as_deref().copied().filter(|_| !self.ended);
        match (self.buffered.first_key_value(), fin) {
            (Some((start, _)), Some(fin)) if *start >= fin.start => Some(fin),
            (Some((start, piece)), _) => Some(FirstBuffered { start: *start, sighting: piece.sighting }),
            (None, fin) => fin,
        }
    }

    /// Buffers the new bytes of a segment. Where bytes are buffered already, the first copy stays.
    /// Returns where the copies differ.
    pub fn buffer(
        &mut self,
        start: u64,
        payload: &[u8],
        origin: &[PacketRange],
        probe: bool,
        mut sighting: Sighting,
    ) -> Difference {
        let end = start + payload.len() as u64;
        // Bytes further along the stream were sent by a sender that had received at least as much.
        if let Some((_, behind)) = self.buffered.range(end..).next() {
            sighting.acknowledged = sighting.acknowledged.min(behind.sighting.acknowledged);
        }
        self.split_retransmission(start, sighting.acknowledged);
        self.split_retransmission(end, sighting.acknowledged);
        let mut difference = Difference::default();
        let first = match self.buffered.range(..=start).next_back() {
            Some((before, piece)) if before + piece.bytes.len() as u64 > start => *before,
            _ => start,
        };
        let mut at = start;
        let mut fresh = Vec::new();
        let mut probes = Vec::new();
        for (&begin, piece) in self.buffered.range_mut(first..end) {
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
            // A retransmission acknowledges more. The lowest acknowledgment is that of the first
            // sending.
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
            let piece = BufferedPiece {
                bytes: payload[low..high].into(),
                origin: Ranges::cut(origin, low, high),
                sighting,
                probe,
            };
            self.cost += PIECE_COST + piece.bytes.len();
            self.buffered.insert(from, piece);
        }
        difference
    }

    /// Limits the acknowledgments of buffered pieces before `position`: the sender had acknowledged
    /// no more than `acknowledged` when it had sent everything below `position`. A piece that
    /// claims more was retransmitted, or "acks something not yet sent" (RFC 9293 section 3.10.7.4).
    pub fn limit_acknowledgments_before(&mut self, position: u64, acknowledged: u64) {
        // Acknowledgments grow along the stream, so the search ends at the first piece that fits.
        let below = self.buffered.range_mut(..position).rev();
        let behind = |start: u64, piece: &BufferedPiece| start + piece.bytes.len() as u64;
        for (_, piece) in below.skip_while(|(start, piece)| behind(**start, piece) > position) {
            if piece.sighting.acknowledged <= acknowledged {
                break;
            }
            piece.sighting.acknowledged = acknowledged;
        }
    }

    /// Takes the piece at `next` for delivery, and moves `next` after it.
    pub fn take(&mut self) -> Option<BufferedPiece> {
        let piece = self.remove(self.next)?;
        self.next += piece.bytes.len() as u64;
        Some(piece)
    }

    /// Moves `next` to `position`: bytes were delivered or declared lost.
    pub fn advance(&mut self, position: u64) {
        self.next = self.next.max(position);
        self.sent = self.sent.max(self.next);
    }

    /// Ends the stream. A FIN takes one position. Pieces after it were never part of the stream.
    pub fn close(&mut self) {
        self.ended = true;
        if self.end() == Some(self.next) {
            self.next += 1;
        }
        self.buffered.clear();
        self.cost = 0;
    }

    /// Drops buffered bytes below `position`, which lie before the stream.
    fn drop_before(&mut self, position: u64) {
        while let Some(start) = self.lowest_buffered().filter(|start| *start < position) {
            self.split(start, position);
            self.remove(start);
        }
    }

    /// Drops buffered bytes at and above `position`, which lie after the FIN.
    fn drop_from(&mut self, position: u64) {
        if let Some((&start, _)) = self.buffered.range(..position).next_back() {
            self.split(start, position);
        }
        while let Some((&start, _)) = self.buffered.range(position..).next_back() {
            self.remove(start);
        }
    }

    /// Splits the piece around `border`, where a segment begins or ends whose sender had
    /// acknowledged less than that of the piece. The piece is then a retransmission of several
    /// segments with other borders. After the split, each part gets the acknowledgment of the
    /// segment that it repeats.
    fn split_retransmission(&mut self, border: u64, acknowledged: u64) {
        let around = self.buffered.range(..border).next_back();
        if let Some((&start, _)) = around.filter(|(_, piece)| piece.sighting.acknowledged > acknowledged) {
            self.split(start, border);
        }
    }

    /// Splits the piece at `start` if it spans `position`.
    fn split(&mut self, start: u64, position: u64) {
        let Some(piece) = self.buffered.get(&start) else { return };
        let (at, length) = ((position - start) as usize, piece.bytes.len());
        if at == 0 || at >= length {
            return;
        }
        let part = |from: usize, to: usize| BufferedPiece {
            bytes: piece.bytes[from..to].into(),
            origin: Ranges::cut(&piece.origin, from, to),
            ..*piece
        };
        let (low, high) = (part(0, at), part(at, length));
        self.buffered.insert(start, low);
        self.buffered.insert(position, high);
        self.cost += PIECE_COST;
    }

    fn remove(&mut self, start: u64) -> Option<BufferedPiece> {
        let piece = self.buffered.remove(&start)?;
        self.cost -= PIECE_COST + piece.bytes.len();
        Some(piece)
    }
}
