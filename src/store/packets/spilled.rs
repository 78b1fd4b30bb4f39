//! Packets of an undecided connection that wait on disk, sealed, because memory has no room.

use std::io;

use super::connection::BufferedPacket;
use crate::capture::{LinkType, PacketNumber, Time};
use crate::decode::{ConnectionId, Side};
use crate::source::batch::Batch;
use crate::source::overflow::{Overflow, SpilledBatch};
use crate::store::chunk::{self, StoredPacket};
use crate::store::codec::{BlobReader, BlobWriter, Code, Damaged};

/// Packets on disk, in order.
#[derive(Debug)]
pub(super) struct SpilledPackets {
    block: SpilledBatch,
    pub(super) packets: u64,
    /// Bytes of their data.
    pub(super) data: u64,
    /// Bytes that the packets took in memory.
    pub(super) bytes: usize,
}

impl SpilledPackets {
    /// Writes packets to disk.
    pub(super) fn write(packets: &[BufferedPacket], overflow: &mut Overflow) -> io::Result<SpilledPackets> {
        let mut batch = Batch::default();
        let mut rest = BlobWriter::default();
        for buffered in packets {
            batch.push(&buffered.packet.packet());
            put(&mut rest, buffered);
        }
        // What a packet of a capture does not have follows as a packet of its own.
        batch.write(PacketNumber::default(), Time::default(), LinkType::PIPE, |out| out.extend_from_slice(&rest.0));
        let block = overflow.write(&batch)?;
        let bytes = packets.iter().map(|buffered| buffered.packet.size()).sum();
        Ok(SpilledPackets { block, packets: packets.len() as u64, data: data_bytes(packets), bytes })
    }

    /// Reads the packets back.
    pub(super) fn read(self, connection: ConnectionId) -> anyhow::Result<Vec<BufferedPacket>> {
        let batch = self.block.read(Batch::default())?;
        let rest = batch.last().map(|packet| packet.data).unwrap_or_default();
        let mut rest = BlobReader::new(rest, "a packet that waited on the disk");
        let packets = batch.packets().take(batch.len().saturating_sub(1));
        packets.map(|packet| Ok(get(&mut rest, StoredPacket::new(&packet, Vec::new()), connection)?)).collect()
    }
}

/// Bytes of the data of packets.
pub(super) fn data_bytes(packets: &[BufferedPacket]) -> u64 {
    packets.iter().map(|buffered| buffered.packet.data.len() as u64).sum()
}

fn put(out: &mut BlobWriter, buffered: &BufferedPacket) {
    out.u64(buffered.side.code() as u64);
    out.u64(buffered.is_copy.into());
    out.u64(buffered.carries.len() as u64);
    for (offset, range) in &buffered.carries {
        out.u64(*offset);
        out.u64(range.start as u64);
        out.u64(range.len() as u64);
    }
    out.option(buffered.packet.segment.as_ref(), chunk::put_segment);
}

fn get(
    blob: &mut BlobReader<'_>,
    mut packet: StoredPacket,
    connection: ConnectionId,
) -> Result<BufferedPacket, Damaged> {
    let side = Side::from_code(blob.u32()?.into())?;
    let is_copy = blob.u64()? != 0;
    let carries = blob.list(|blob| {
        let (offset, start) = (blob.u64()?, blob.u32()? as usize);
        Ok((offset, start..start + blob.u32()? as usize))
    })?;
    let number = packet.number;
    packet.segment = blob.option(|blob| chunk::read_segment(blob, connection, number, side))?;
    packet.connection = connection;
    if carries.iter().any(|(_, range)| range.end > packet.data.len()) {
        return Err(blob.damaged());
    }
    Ok(BufferedPacket { packet, side, carries, is_copy })
}
