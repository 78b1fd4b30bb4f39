//! The record layer (RFC 8446 section 5.1, RFC 5246 section 6.2): splits the bytes of one direction
//! into fragments of records.
//!
//! ```text
//!  0   1  content type
//!  1   2  legacy version
//!  3   2  length
//!  5   …  fragment, encrypted or not
//! ```

use crate::capture::{PacketNumber, PacketRange};

/// Bytes of a record's header.
pub(super) const HEADER: usize = 5;

/// RFC 5246 section 6.2.3: an encrypted fragment "MUST NOT exceed 2^14 + 2048" bytes (RFC 8446:
/// 2^14 + 256).
const MAX_LENGTH: u16 = (1 << 14) + 2_048;

/// The type of a record, its first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ContentType {
    ChangeCipherSpec,
    #[default]
    Alert,
    Handshake,
    ApplicationData,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// The header's bytes. The protection of a record covers them.
    pub header: [u8; HEADER],
    pub content: ContentType,
    /// Bytes after the header.
    pub length: u16,
}

impl Record {
    /// Parses a header; `None` if no TLS record begins like this.
    fn read(bytes: [u8; HEADER]) -> Option<Record> {
        let length = u16::from_be_bytes([bytes[3], bytes[4]]);
        let (content, lengths) = match bytes[0] {
            20 => (ContentType::ChangeCipherSpec, 1..=MAX_LENGTH),
            // "Implementations MUST NOT send zero-length fragments of Handshake types, even if
            // these fragments contain padding"; an alert has two bytes at least.
            21 => (ContentType::Alert, 2..=MAX_LENGTH),
            22 => (ContentType::Handshake, 1..=MAX_LENGTH),
            23 => (ContentType::ApplicationData, 0..=MAX_LENGTH),
            _ => return None,
        };
        let known_version = bytes[1] == 3 && bytes[2] <= 4;
        (known_version && lengths.contains(&length)).then_some(Record { header: bytes, content, length })
    }
}

/// Whether a stream begins with a TLS record; `None` while there are too few bytes to decide.
pub(super) fn sniff(bytes: &[u8]) -> Option<bool> {
    let Some(header) = bytes.first_chunk() else {
        let fits = bytes.iter().zip([20..=23, 3..=3, 0..=4, 0..=72]).all(|(byte, range)| range.contains(byte));
        return if fits { None } else { Some(false) };
    };
    Some(Record::read(*header).is_some())
}

/// Consecutive bytes of one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordFragment<'a> {
    pub record: Record,
    /// The packets that carried the header; only for the first fragment of a record.
    pub header: Option<[PacketNumber; HEADER]>,
    /// Whether this is the last fragment of the record.
    pub last: bool,
    pub bytes: &'a [u8],
    /// Packets that carried `bytes`. The first and the last may carry other bytes too.
    pub packets: &'a [PacketRange],
}

/// The bytes not read yet, and the packets that carried them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub bytes: &'a [u8],
    packets: &'a [PacketRange],
    /// Bytes of the first of `packets` that were read.
    used: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], packets: &'a [PacketRange]) -> Cursor<'a> {
        Cursor { bytes, packets, used: 0 }
    }

    /// Reads up to `length` bytes.
    fn take(&mut self, length: usize) -> (&'a [u8], &'a [PacketRange]) {
        let (taken, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        let carriers = self.packets;
        let mut count = 0;
        let mut left = taken.len();
        while let Some(range) = self.packets.first().filter(|_| left > 0) {
            count += 1;
            let inside = range.len() as usize - self.used;
            if left < inside {
                self.used += left;
                break;
            }
            left -= inside;
            (self.packets, self.used) = (&self.packets[1..], 0);
        }
        (taken, &carriers[..count])
    }

    fn byte(&mut self) -> Option<(u8, PacketNumber)> {
        let (bytes, packets) = self.take(1);
        Some((*bytes.first()?, packets.first().map_or(PacketNumber(0), |range| range.packet)))
    }
}

/// Splits one direction into records.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// The header being read: its bytes and their packets.
    header: [(u8, PacketNumber); HEADER],
    /// Bytes of it that were read.
    filled: usize,
    /// The record that is incomplete, with the number of its bytes still to come.
    open: Option<(Record, u16)>,
    /// Bytes were missed, possibly a header. From now on a header is searched where none is found.
    lost: bool,
    /// Bytes that are no record were found where one must begin, and nothing was missed before.
    pub foreign: bool,
}

impl Records {
    /// Reads the next fragment; `None` when all bytes are read, or where they are foreign.
    pub fn next<'a>(&mut self, cursor: &mut Cursor<'a>) -> Option<RecordFragment<'a>> {
        let mut header = None;
        let (record, left) = match self.open {
            Some(open) => open,
            None => {
                let record = self.header(cursor)?;
                header = Some(self.header.map(|(_, packet)| packet));
                (record, record.length)
            }
        };
        if cursor.bytes.is_empty() && header.is_none() {
            return None;
        }
        let (bytes, packets) = cursor.take(usize::from(left));
        let left = left - bytes.len() as u16;
        self.open = (left > 0).then_some((record, left));
        Some(RecordFragment { record, header, last: left == 0, bytes, packets })
    }

    fn header(&mut self, cursor: &mut Cursor<'_>) -> Option<Record> {
        while !self.foreign {
            while self.filled < HEADER {
                self.header[self.filled] = cursor.byte()?;
                self.filled += 1;
            }
            if let Some(record) = Record::read(self.header.map(|(byte, _)| byte)) {
                self.filled = 0;
                return Some(record);
            }
            if self.lost {
                self.header.rotate_left(1);
                self.filled -= 1;
            } else {
                self.foreign = true;
            }
        }
        None
    }

    /// Skips bytes that were missed. Returns whether the incomplete record continues after them.
    pub fn gap(&mut self, length: u64) -> bool {
        match &mut self.open {
            Some((_, left)) if length < u64::from(*left) => {
                *left -= length as u16;
                true
            }
            open => {
                // Where exactly the record's last bytes were missed, the next record begins after
                // them.
                self.lost |= open.is_none_or(|(_, left)| length != u64::from(left));
                *open = None;
                self.filled = 0;
                false
            }
        }
    }
}
