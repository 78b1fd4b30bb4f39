//! What capture files are made of: headers, records, blocks.
//!
//! The decoders of [`pcap`](super::pcap) and [`pcapng`](super::pcapng) do no input or output. They are shown the bytes at hand and answer
//! with a [`NextElement`]; what they find they name by its range in those bytes, so that nothing is copied and the caller may keep or drop them.

use std::ops::Range;

use crate::capture::{LinkType, Time};

/// Bytes of the largest record or block that is read, head included. Capture tools cut packets at 256 KiB unless told otherwise, and
/// packets of 3 MB have been met; what claims more than this is a broken length. Nothing is allocated for a claim: the buffer
/// grows with the bytes that arrive.
pub const MAX_ELEMENT: usize = 64 << 20;

/// What a decoder says to the bytes it was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextElement {
    /// To say more it must be shown at least so many bytes from here on.
    Need(usize),
    /// The next so many bytes are this. They are not to be shown again.
    Found(usize, FileElement),
    /// The bytes are broken, for this reason, and nothing tells where the next unit would begin.
    Unreadable(String),
}

/// What a unit holds. Ranges count from the first byte of the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileElement {
    /// A packet.
    Packet(PacketElement),
    /// TLS secrets, as NSS key log lines.
    Secrets(Range<usize>),
    /// Nothing to hand on: a header, or a block that is not about packets.
    Other,
    /// The unit is broken, for this reason.
    Damaged(String),
}

/// A packet as it stands in a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketElement {
    /// When it was captured.
    pub time: Time,
    /// What its first byte is.
    pub link: LinkType,
    /// The position of its interface's description in this file.
    pub interface: u32,
    /// Bytes on the wire, never less than were captured.
    pub original_length: u32,
    /// Where the captured bytes stand.
    pub data: Range<usize>,
}

impl PacketElement {
    /// The rule for original lengths below the captured length, which broken writers produce: what was captured was certainly there.
    pub(super) fn new(
        time: Time,
        link: LinkType,
        interface: u32,
        original_length: u32,
        data: Range<usize>,
    ) -> PacketElement {
        let captured = u32::try_from(data.len()).unwrap_or(u32::MAX);
        PacketElement { time, link, interface, original_length: original_length.max(captured), data }
    }
}

/// Says in what a file breaks off.
pub(super) fn cut_short(what: &str, have: usize, whole: usize) -> String {
    format!("{what} cut short by the end of the file: {have} of {whole} bytes")
}
