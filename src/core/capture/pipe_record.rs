//! Pipe packets in a pcapng file, in a form in which Wireshark shows their messages.
//!
//! A message of STDIO is a line, and a pipe packet is a chunk of any size. Wireshark knows neither.
//! So a file has each line of stdin and stdout once, as a packet of link type
//! [`LinkType::UPPER_PDU`](super::LinkType::UPPER_PDU), which Wireshark gives to the dissector that
//! the packet names. Options and blocks of mcptap beside it hold what is needed to restore the pipe
//! packets (decision 40).
//!
//! The *lines record* is an option of the packet with a line. It says from which pipe packets the
//! bytes are:
//!
//! ```text
//!  0   4  "MTW1"
//!  4   8  recording  the same in all records of one file
//! 12   4  process    process id of the server
//! 16   1  pipe       0 stdin, 1 stdout
//! 17   3  zero
//! 20   …  pieces of 24 bytes: position (8) and time (8) of the pipe packet,
//!         bytes of it here (4), 1 if these are its last ones (4)
//! ```
//!
//! The *packet record* is a block with any other pipe packet, whole: start, exit, stderr, the end
//! of a pipe, or a loss.
//!
//! ```text
//!  0   4  "MTW1"
//!  4   8  recording
//! 12   8  position
//! 20   8  time
//! 28   4  length of the pipe packet
//! 32   …  the pipe packet
//! ```
//!
//! Positions count the pipe packets of the file from 0. All numbers are little-endian, whatever the
//! byte order of the file, because programs that copy a file leave these bytes as they are.

use super::Time;
use super::pipe::Pipe;

/// The number of the organisation in options and blocks of mcptap: the private enterprise number
/// for documentation (RFC 5612), because mcptap has none. [`MAGIC`] tells mcptap from others
/// that use the number.
pub const ENTERPRISE: u32 = 32_473;

const MAGIC: &[u8; 4] = b"MTW1";
const LINES_HEAD: usize = 20;
const PIECE: usize = 24;
const PACKET_HEAD: usize = 32;

/// Pieces of one lines record. An option has at most 65,535 bytes.
pub const MOST_PIECES: usize = 2_000;

/// Bytes of a line that come from one pipe packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinePiece {
    /// The position of the pipe packet.
    pub position: u64,
    /// The time of the pipe packet.
    pub time: Time,
    /// Number of its bytes.
    pub length: u32,
    /// Whether the pipe packet has no more bytes.
    pub is_last: bool,
}

/// The origin of the bytes of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinesRecord {
    /// Identifies the records that were written together.
    pub recording: i64,
    /// The process id of the server.
    pub process: u32,
    /// The pipe that carried the line.
    pub pipe: Pipe,
    /// In order of their bytes.
    pub pieces: Vec<LinePiece>,
}

/// A pipe packet that is no part of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord<'a> {
    /// Identifies the records that were written together.
    pub recording: i64,
    /// The position of the pipe packet.
    pub position: u64,
    /// The time of the pipe packet.
    pub time: Time,
    /// The pipe packet.
    pub packet: &'a [u8],
}

impl LinesRecord {
    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.recording.to_le_bytes());
        out.extend_from_slice(&self.process.to_le_bytes());
        out.extend_from_slice(&[self.pipe as u8, 0, 0, 0]);
        for piece in &self.pieces {
            out.extend_from_slice(&piece.position.to_le_bytes());
            out.extend_from_slice(&piece.time.0.to_le_bytes());
            out.extend_from_slice(&piece.length.to_le_bytes());
            out.extend_from_slice(&u32::from(piece.is_last).to_le_bytes());
        }
    }

    /// Parses a record. `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<LinesRecord> {
        let (head, pieces) = bytes.split_at_checked(LINES_HEAD)?;
        let pipe = match head[16] {
            0 => Pipe::Stdin,
            1 => Pipe::Stdout,
            _ => return None,
        };
        let (pieces, rest) = pieces.as_chunks::<PIECE>();
        if !head.starts_with(MAGIC) || !rest.is_empty() {
            return None;
        }
        Some(LinesRecord {
            recording: i64::from_le_bytes(part(head, 4)?),
            process: u32::from_le_bytes(part(head, 12)?),
            pipe,
            pieces: pieces.iter().map(|piece| line_piece(piece)).collect::<Option<_>>()?,
        })
    }
}

fn line_piece(bytes: &[u8]) -> Option<LinePiece> {
    Some(LinePiece {
        position: u64::from_le_bytes(part(bytes, 0)?),
        time: Time(i64::from_le_bytes(part(bytes, 8)?)),
        length: u32::from_le_bytes(part(bytes, 16)?),
        is_last: u32::from_le_bytes(part(bytes, 20)?) == 1,
    })
}

impl<'a> PacketRecord<'a> {
    /// Appends the record to `out`. `None` if the packet is too long for it.
    pub fn encode(&self, out: &mut Vec<u8>) -> Option<()> {
        let length = u32::try_from(self.packet.len()).ok()?;
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.recording.to_le_bytes());
        out.extend_from_slice(&self.position.to_le_bytes());
        out.extend_from_slice(&self.time.0.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(self.packet);
        Some(())
    }

    /// Parses a record, which padding may follow. `None` if the bytes are none.
    pub fn decode(bytes: &'a [u8]) -> Option<PacketRecord<'a>> {
        let (head, rest) = bytes.split_at_checked(PACKET_HEAD)?;
        let length = u32::from_le_bytes(part(head, 28)?) as usize;
        head.starts_with(MAGIC).then_some(PacketRecord {
            recording: i64::from_le_bytes(part(head, 4)?),
            position: u64::from_le_bytes(part(head, 12)?),
            time: Time(i64::from_le_bytes(part(head, 20)?)),
            packet: rest.get(..length)?,
        })
    }
}

/// The `N` bytes at an offset.
fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_the_round_trip_and_other_bytes_are_none() {
        let piece = LinePiece { position: 7, time: Time(-5), length: 12, is_last: true };
        let lines = LinesRecord {
            recording: -1,
            process: 4711,
            pipe: Pipe::Stdout,
            pieces: vec![piece, LinePiece { is_last: false, ..piece }],
        };
        let mut bytes = Vec::new();
        lines.encode(&mut bytes);
        assert_eq!(LinesRecord::decode(&bytes), Some(lines));
        assert_eq!(LinesRecord::decode(&bytes[..bytes.len() - 1]), None, "half a piece");
        bytes[16] = 2;
        assert_eq!(LinesRecord::decode(&bytes), None, "stderr has no lines record");

        let packet = PacketRecord { recording: 3, position: u64::MAX, time: Time(9), packet: b"MTP1" };
        let mut bytes = Vec::new();
        packet.encode(&mut bytes).unwrap();
        bytes.push(0);
        assert_eq!(PacketRecord::decode(&bytes), Some(packet), "with padding");
        assert_eq!(PacketRecord::decode(&bytes[..bytes.len() - 2]), None, "cut");
        assert_eq!(PacketRecord::decode(b"MTW2"), None);
    }
}
