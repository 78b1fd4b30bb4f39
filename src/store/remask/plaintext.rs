//! What TLS carried, as packets that the decoder can read.
//!
//! The rows hold the bytes of each side without times. So the client's bytes come first, and every
//! packet of the server acknowledges all of them.

use rusqlite::params;

use super::Sweep;
use crate::capture::{Limits, Packet, PacketNumber, Time};
use crate::source::tape::{ACK, Flow, OPENING, SEGMENT};
use crate::store::chunk::StoredPacket;
use crate::store::text;

/// Bytes of the headers of IPv4 and TCP.
const HEADERS: usize = 40;

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
        let mut flow = Flow::new(([127, 0, 0, 1], 40_000).into(), ([127, 0, 0, 2], 80).into());
        let mut packets = Vec::new();
        for (sender, flags) in OPENING {
            packets.push(segment(&mut flow, packets.len(), sender, flags, &[]));
        }
        let mut ends = [0u64; 2];
        for (_, stream, is_server) in streams {
            let rows: Vec<(i64, Vec<u8>)> = self.rows(sql, *stream, |row| Ok((row.get(0)?, row.get(1)?)))?;
            for (start, frame) in rows {
                let bytes = text::unpack(&frame, Limits::default().message)?;
                let sender = usize::from(*is_server);
                let mut skipped = [0; 2];
                skipped[sender] = (start as u64).wrapping_sub(ends[sender]);
                flow.skip(skipped);
                for part in bytes.chunks(SEGMENT) {
                    packets.push(segment(&mut flow, packets.len(), sender, ACK, part));
                }
                ends[sender] = (start as u64).saturating_add(bytes.len() as u64);
                pieces.push(PlaintextRow { stream: *stream, start: start as u64, bytes });
            }
        }
        let masked = self.decoded(&mut packets.into_iter().map(Ok))?;
        let mut packer = text::Packer::new()?;
        let (mut number, mut changed) = (OPENING.len() as u64, 0);
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

/// The next segment of one side, in a packet of its own.
fn segment(flow: &mut Flow, packets: usize, sender: usize, flags: u8, payload: &[u8]) -> StoredPacket {
    let mut data = Vec::new();
    let link = flow.segment(sender, flags, payload, &mut data);
    let (number, original_length) = (packets as u64 + 1, data.len() as u32);
    let (number, time) = (PacketNumber(number), Time(number as i64));
    StoredPacket::new(&Packet { number, time, link, interface: 0, original_length, data: &data }, Vec::new())
}
