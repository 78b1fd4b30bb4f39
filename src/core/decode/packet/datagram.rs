//! Reassembles fragments to datagrams (RFC 791 section 3.2, RFC 8200 section 4.5), in any order.
//!
//! etherparse's `IpDefragBuf` retains the last copy of overlapping bytes and does not record their
//! packets. Here the first copy counts, a different later one is counted as a conflict, and each
//! byte is traced to its packet.

use std::collections::VecDeque;
use std::ops::Range;

use etherparse::IpNumber;

use super::ip::{Fragment, IpAddresses};
use crate::capture::{PacketNumber, PacketRange, Time};

/// The longest payload of a datagram in bytes. A longer one needs the jumbo option of IPv6, which
/// forbids fragments (RFC 2675 section 3).
const MAX_LENGTH: usize = 65_535;

/// The time after which an incomplete datagram is discarded: 60 seconds after its first fragment.
///
/// RFC 8200 section 4.5: "reassembly of that packet must be abandoned and all the fragments that
/// have been received for that packet must be discarded". Identifications are used again, so an old
/// fragment would corrupt a later datagram.
const TIMEOUT_NANOSECONDS: i64 = 60_000_000_000;

/// Bytes of a datagram that came from one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// The position of the bytes in the datagram.
    range: Range<usize>,
    packet: PacketNumber,
    /// Offset of the first byte in the packet.
    offset: usize,
}

/// A datagram whose fragments are being collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assembly {
    pub addresses: IpAddresses,
    /// The protocol of the first fragment: "only the value from the Offset zero fragment is
    /// used for reassembly".
    pub protocol: IpNumber,
    /// The payload so far. Bytes not yet received are 0.
    pub bytes: Vec<u8>,
    identification: u32,
    /// Capture time of the fragment that arrived first.
    first_seen: Time,
    /// The length of the payload, once the last fragment arrived.
    length: Option<usize>,
    /// Number of different bytes received.
    filled_bytes: usize,
    /// The received parts in order, without overlap.
    pieces: Vec<Piece>,
}

impl Assembly {
    fn new(fragment: &Fragment<'_>, first_seen: Time) -> Assembly {
        Assembly {
            addresses: fragment.addresses,
            protocol: fragment.protocol,
            bytes: Vec::new(),
            identification: fragment.identification,
            first_seen,
            length: None,
            filled_bytes: 0,
            pieces: Vec::new(),
        }
    }

    fn accepts(&self, fragment: &Fragment<'_>) -> bool {
        // RFC 791 distinguishes datagrams by their protocol too. RFC 8200 does not: its fragments
        // may differ in it.
        let same_protocol = self.addresses.source.is_ipv6() || self.protocol == fragment.protocol;
        self.identification == fragment.identification && self.addresses == fragment.addresses && same_protocol
    }

    fn is_complete(&self) -> bool {
        self.length == Some(self.filled_bytes)
    }

    /// Whether a fragment at `range` contradicts the length of the datagram.
    fn contradicts(&self, range: &Range<usize>, more: bool) -> bool {
        let too_long = self.length.is_some_and(|length| range.end > length || (!more && range.end != length));
        too_long || (!more && range.end < self.bytes.len())
    }

    /// Stores the new bytes of a fragment. Returns whether its other bytes differ
    /// from those stored.
    fn add(&mut self, fragment: &Fragment<'_>, range: Range<usize>, packet: PacketNumber) -> bool {
        let from = fragment.payload.rest();
        if fragment.offset == 0 && self.pieces.first().is_none_or(|piece| piece.range.start > 0) {
            self.protocol = fragment.protocol;
        }
        if !fragment.more {
            self.length = Some(range.end);
        }
        if self.bytes.len() < range.end {
            self.bytes.resize(range.end, 0);
        }
        let mut conflicts_found = false;
        let mut new_ranges = Vec::new();
        let mut at = range.start;
        let first = self.pieces.partition_point(|piece| piece.range.end <= range.start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.range.start < range.end) {
            new_ranges.push(at..piece.range.start.max(at));
            let overlap = piece.range.start.max(range.start)..piece.range.end.min(range.end);
            conflicts_found |=
                self.bytes[overlap.clone()] != from[overlap.start - range.start..overlap.end - range.start];
            at = overlap.end;
        }
        new_ranges.push(at..range.end);
        for new in new_ranges.into_iter().filter(|new| !new.is_empty()) {
            let inside = new.start - range.start;
            self.bytes[new.clone()].copy_from_slice(&from[inside..inside + new.len()]);
            self.filled_bytes += new.len();
            let index = self.pieces.partition_point(|piece| piece.range.start < new.start);
            self.pieces.insert(index, Piece { range: new, packet, offset: fragment.payload.start + inside });
        }
        conflicts_found
    }

    /// Appends the packet ranges of `bytes` of the datagram to `out`, in order.
    pub fn origin(&self, bytes: Range<usize>, out: &mut Vec<PacketRange>) {
        let first = self.pieces.partition_point(|piece| piece.range.end <= bytes.start);
        for piece in self.pieces[first..].iter().take_while(|piece| piece.range.start < bytes.end) {
            let start = piece.range.start.max(bytes.start);
            let end = piece.range.end.min(bytes.end);
            let moved = piece.offset + (start - piece.range.start);
            out.push(PacketRange { packet: piece.packet, start: moved as u32, end: (moved + (end - start)) as u32 });
        }
    }
}

/// The result of adding a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reassembly {
    /// The fragment completed this datagram.
    Complete(Box<Assembly>),
    /// Other fragments are still missing.
    Incomplete,
    /// The fragment cannot belong to any datagram.
    Malformed,
}

/// The incomplete datagrams, oldest first. They are few, so a linear search is cheap enough.
#[derive(Debug)]
pub(super) struct Datagrams {
    incomplete: VecDeque<Assembly>,
    /// The most incomplete datagrams. The oldest is discarded for a new one.
    limit: usize,
    /// Number of fragments that overlap others with different bytes.
    pub conflicts: u64,
    /// Number of datagrams discarded while incomplete.
    pub abandoned: u64,
}

impl Datagrams {
    /// A collection for at most `limit` incomplete datagrams.
    pub fn new(limit: usize) -> Datagrams {
        Datagrams { incomplete: VecDeque::new(), limit: limit.max(1), conflicts: 0, abandoned: 0 }
    }

    /// Adds a completely captured fragment.
    pub fn push(&mut self, fragment: &Fragment<'_>, packet: PacketNumber, time: Time) -> Reassembly {
        let length = fragment.payload.rest().len();
        let range = fragment.offset..fragment.offset + length;
        // RFC 8200 section 4.5: errors are a length that "is not a multiple of 8 octets and the M
        // flag of that fragment is 1", and a datagram that "would exceed 65,535 octets".
        if length == 0 || (fragment.more && !length.is_multiple_of(8)) || range.end > MAX_LENGTH {
            return Reassembly::Malformed;
        }
        let found = self.incomplete.iter().position(|assembly| assembly.accepts(fragment));
        let index = match found {
            Some(index) if time.since(self.incomplete[index].first_seen).saturating_abs() <= TIMEOUT_NANOSECONDS => {
                index
            }
            outdated => {
                if outdated.is_some() || self.incomplete.len() >= self.limit {
                    self.incomplete.remove(outdated.unwrap_or(0));
                    self.abandoned += 1;
                }
                self.incomplete.push_back(Assembly::new(fragment, time));
                self.incomplete.len() - 1
            }
        };
        let assembly = &mut self.incomplete[index];
        if assembly.contradicts(&range, fragment.more) {
            return Reassembly::Malformed;
        }
        if assembly.add(fragment, range, packet) {
            self.conflicts += 1;
        }
        if !assembly.is_complete() {
            return Reassembly::Incomplete;
        }
        self.incomplete
            .remove(index)
            .map_or(Reassembly::Incomplete, |assembly| Reassembly::Complete(Box::new(assembly)))
    }
}
