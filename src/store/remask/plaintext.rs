//! What TLS carried, as packets that the decoder can read.
//!
//! The rows hold the bytes of each side without times. So the client's bytes come first, and every
//! packet of the server acknowledges all of them.

use std::net::Ipv4Addr;

use rusqlite::params;

use super::Sweep;
use crate::capture::{Limits, LinkType, PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::store::chunk::StoredPacket;
use crate::store::text;

/// Bytes of the headers of IPv4 and TCP.
const HEADERS: usize = 40;

/// The most bytes in one packet (RFC 791 section 3.1: a total length of 16 bits).
const SEGMENT: usize = 60_000;

/// A row of the table.
struct PlaintextRow {
    stream: i64,
    start: u64,
    bytes: Vec<u8>,
}

impl Sweep<'_> {
    /// Masks what TLS carried. Returns the number of rows that changed.
    pub(super) fn plaintext(&self) -> anyhow::Result<u64> {
        // The streams of a connection, those of the client first.
        let sql = "SELECT s.connection, s.id, s.which <> coalesce(c.client, 0) FROM stream AS s
                   LEFT JOIN connection AS c ON c.id = s.connection
                   WHERE s.capture = ? AND s.kind = 6 ORDER BY 1, 3";
        let streams: Vec<(i64, i64, bool)> =
            self.rows(sql, self.capture.0, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let mut changed = 0;
        for connection in streams.chunk_by(|one, other| one.0 == other.0) {
            changed += self.connection(connection)?;
        }
        Ok(changed)
    }

    fn connection(&self, streams: &[(i64, i64, bool)]) -> anyhow::Result<u64> {
        let sql = "SELECT start, data FROM plaintext WHERE stream = ? ORDER BY start";
        let mut pieces: Vec<PlaintextRow> = Vec::new();
        let mut packets = vec![segment(1, false, [0, 0], SYN, &[]), segment(2, true, [0, 1], SYN | ACK, &[])];
        let mut ends = [0u64; 2];
        for (_, stream, is_server) in streams {
            let rows: Vec<(i64, Vec<u8>)> = self.rows(sql, *stream, |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (start, frame) in rows {
                let bytes = text::unpack(&frame, Limits::default().message)?;
                for (index, part) in bytes.chunks(SEGMENT).enumerate() {
                    let at = start as u64 + (index * SEGMENT) as u64;
                    let acknowledged = if *is_server { ends[0] + 1 } else { 1 };
                    let number = packets.len() as u64 + 1;
                    packets.push(segment(number, *is_server, [at + 1, acknowledged], ACK, part));
                }
                let side = usize::from(*is_server);
                ends[side] = ends[side].max(start as u64 + bytes.len() as u64);
                pieces.push(PlaintextRow { stream: *stream, start: start as u64, bytes });
            }
        }
        let masked = self.decoded(&mut packets.into_iter().map(Ok))?;
        let mut packer = text::Packer::new()?;
        let (mut number, mut changed) = (2, 0);
        for PlaintextRow { stream, start, bytes } in pieces {
            let mut after = Vec::with_capacity(bytes.len());
            for part in bytes.chunks(SEGMENT) {
                number += 1;
                let data = masked.get(&PacketNumber(number)).and_then(|data| data.get(HEADERS..));
                after.extend_from_slice(data.unwrap_or(part));
            }
            if after != bytes {
                changed += 1;
                let frame = packer.frame(&after)?;
                let sql = "UPDATE plaintext SET data = ? WHERE stream = ? AND start = ?";
                self.change(sql, params![frame, stream, start as i64])?;
            }
        }
        Ok(changed)
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A TCP segment in a packet of its own. `numbers` are its sequence number and its acknowledgment,
/// counted from the start of each side.
fn segment(number: u64, is_server: bool, numbers: [u64; 2], flags: u8, payload: &[u8]) -> StoredPacket {
    let length = (HEADERS + payload.len()) as u16;
    let mut addresses = [(Ipv4Addr::new(127, 0, 0, 1), 40_000u16), (Ipv4Addr::new(127, 0, 0, 2), 80)];
    if is_server {
        addresses.reverse();
    }
    let [from, to] = addresses;
    let mut data = Vec::with_capacity(length.into());
    data.extend_from_slice(&[0x45, 0]);
    data.extend_from_slice(&length.to_be_bytes());
    // No identification, no fragment; 64 hops, TCP; the checksum is not examined.
    data.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    data.extend(from.0.octets().into_iter().chain(to.0.octets()));
    data.extend(from.1.to_be_bytes().into_iter().chain(to.1.to_be_bytes()));
    numbers.iter().for_each(|number| data.extend_from_slice(&(*number as u32).to_be_bytes()));
    // A header of 20 bytes, the largest window.
    data.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    data.extend_from_slice(payload);
    StoredPacket {
        number: PacketNumber(number),
        time: Time(number as i64),
        link: LinkType::RAW,
        interface: 0,
        original_length: length.into(),
        data,
        connection: ConnectionId::default(),
        segment: None,
        masked: false,
    }
}
