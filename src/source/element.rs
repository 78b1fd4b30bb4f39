//! Elements of capture files: file headers, packet records, blocks.
//!
//! The decoders of [`pcap`](super::pcap) and [`pcapng`](super::pcapng) do no input or output. They
//! get the bytes at hand and return a [`NextElement`]. An element refers to its bytes by their
//! range, so nothing is copied.

use std::ops::Range;

use crate::capture::pipe_record::LinesRecord;
use crate::capture::{LinkType, Time};

/// Bytes of the largest record or block that is read, header included. Capture tools cut packets at
/// 256 KiB by default, and packets of 3 MB have been seen. A larger length is taken for damage. A
/// length allocates nothing: the buffer grows with the bytes that arrive.
pub const MAX_ELEMENT: usize = 64 << 20;

/// The result of looking for the next element in the bytes at hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextElement {
    /// The element is incomplete: at least this many bytes are needed, counted from its start.
    Need(usize),
    /// An element of this many bytes. The caller consumes them.
    Found(usize, FileElement),
    /// The bytes are damaged, for this reason, and the start of the next element cannot be found.
    Unreadable(String),
}

/// The content of an element. Ranges count from its first byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileElement {
    /// A packet record or a packet block.
    Packet(PacketElement),
    /// TLS secrets, as NSS key log lines.
    Secrets(Range<usize>),
    /// A line of a pipe, with the pipe packets that its bytes are from.
    Line(LinesRecord, Range<usize>),
    /// A pipe packet that is no part of a line.
    PipePacket(PipePacketElement),
    /// Nothing to deliver: a header, or a block that is not about packets.
    Other,
    /// The element is damaged, for this reason. Reading resumes after it.
    Damaged(String),
}

/// A `PacketRecord` inside an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipePacketElement {
    /// Identifies the records that were written together.
    pub recording: i64,
    /// The position of the pipe packet among them.
    pub position: u64,
    /// The time of the pipe packet.
    pub time: Time,
    /// The range of its bytes within the element.
    pub packet: Range<usize>,
}

/// A packet inside an element: its metadata, and the range of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketElement {
    /// The time at which it was captured.
    pub time: Time,
    /// The link type, which determines how the first bytes are parsed.
    pub link: LinkType,
    /// The index of its interface among the descriptions in this file.
    pub interface: u32,
    /// Bytes on the wire, at least the number of captured bytes.
    pub original_length: u32,
    /// The range of the captured bytes within the element.
    pub data: Range<usize>,
}

impl PacketElement {
    /// Raises an original length that is below the captured length, which broken writers produce.
    /// The captured bytes were certainly on the wire.
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

/// The message for a file that ends inside an element: its name, the bytes present, and the bytes
/// of the whole.
pub(super) fn cut_short(what: &str, have: usize, whole: usize) -> String {
    format!("{what} cut short by the end of the file: {have} of {whole} bytes")
}
