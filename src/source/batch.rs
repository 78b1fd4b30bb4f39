//! Batches: packets side by side in one piece of memory, as threads pass them to each other.

use crate::capture::{LinkType, Packet, PacketNumber, Time};

/// Packets on their way from the capturing thread to the decoding thread.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    heads: Vec<Head>,
}

/// A packet's metadata. Its bytes end at offset `end` of the batch.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: PacketNumber,
    time: Time,
    original_length: u32,
    interface: u32,
    end: u32,
    link: LinkType,
}

/// Bytes of a `Head` when it is written to disk.
const HEAD: usize = 30;

impl Batch {
    /// An empty batch with room for this many bytes of packets.
    pub fn with_capacity(bytes: usize) -> Batch {
        Batch { bytes: Vec::with_capacity(bytes), heads: Vec::new() }
    }

    /// Appends a packet.
    pub fn push(&mut self, packet: &Packet<'_>) {
        self.bytes.extend_from_slice(packet.data);
        let Packet { number, time, link, interface, original_length, .. } = *packet;
        self.heads.push(Head { number, time, original_length, interface, end: self.end(), link });
    }

    /// Appends a packet of the first interface of which nothing was cut off. `write` appends its
    /// bytes to the buffer.
    pub fn write(&mut self, number: PacketNumber, time: Time, link: LinkType, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.end();
        write(&mut self.bytes);
        let end = self.end();
        self.heads.push(Head { number, time, original_length: end - start, interface: 0, end, link });
    }

    /// The packet at `index`, from 0.
    pub fn get(&self, index: usize) -> Option<Packet<'_>> {
        let Head { number, time, original_length, interface, end, link } = *self.heads.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.heads[before].end);
        let data = self.bytes.get(start as usize..end as usize)?;
        Some(Packet { number, time, link, interface, original_length, data })
    }

    /// The packets in order.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The last packet.
    pub fn last(&self) -> Option<Packet<'_>> {
        self.get(self.len().checked_sub(1)?)
    }

    /// Removes the last packet.
    pub fn pop(&mut self) {
        self.heads.pop();
        self.bytes.truncate(self.heads.last().map_or(0, |head| head.end as usize));
    }

    /// Bytes of packets that fit without growing the buffer.
    pub fn room(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// The number of packets.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether the batch has no packets.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The bytes of its packets.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory in use.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.heads.len() * size_of::<Head>()
    }

    /// Removes the packets but not the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.heads.clear();
    }

    /// Appends everything but the packets' bytes: each packet's metadata (little-endian), then the
    /// number of packets. On disk this follows [`Batch::bytes`].
    pub fn put_heads(&self, out: &mut Vec<u8>) {
        for head in &self.heads {
            out.extend_from_slice(&head.number.0.to_le_bytes());
            out.extend_from_slice(&head.time.0.to_le_bytes());
            out.extend_from_slice(&head.original_length.to_le_bytes());
            out.extend_from_slice(&head.interface.to_le_bytes());
            out.extend_from_slice(&head.end.to_le_bytes());
            out.extend_from_slice(&head.link.0.to_le_bytes());
        }
        out.extend_from_slice(&(self.heads.len() as u32).to_le_bytes());
    }

    /// Parses [`Batch::bytes`] followed by the output of [`Batch::put_heads`]; `None` if the bytes
    /// are not a batch.
    pub fn from_block(mut block: Vec<u8>) -> Option<Batch> {
        let (rest, count) = block.split_last_chunk()?;
        let heads = (u32::from_le_bytes(*count) as usize).checked_mul(HEAD)?;
        let (bytes, heads) = rest.split_at_checked(rest.len().checked_sub(heads)?)?;
        let heads = heads.chunks_exact(HEAD).map(head).collect::<Option<Vec<Head>>>()?;
        let ends = heads.iter().map(|head| head.end as usize);
        let end = bytes.len();
        if !ends.clone().is_sorted() || ends.max().unwrap_or(0) != end {
            return None;
        }
        block.truncate(end);
        Some(Batch { bytes: block, heads })
    }

    /// The emptied buffer, to be used for another batch.
    pub fn into_memory(mut self) -> Vec<u8> {
        self.bytes.clear();
        self.bytes
    }

    fn end(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }
}

fn head(bytes: &[u8]) -> Option<Head> {
    let (number, bytes) = bytes.split_first_chunk()?;
    let (time, bytes) = bytes.split_first_chunk()?;
    let (original_length, bytes) = bytes.split_first_chunk()?;
    let (interface, bytes) = bytes.split_first_chunk()?;
    let (end, bytes) = bytes.split_first_chunk()?;
    let (link, _) = bytes.split_first_chunk()?;
    Some(Head {
        number: PacketNumber(u64::from_le_bytes(*number)),
        time: Time(i64::from_le_bytes(*time)),
        original_length: u32::from_le_bytes(*original_length),
        interface: u32::from_le_bytes(*interface),
        end: u32::from_le_bytes(*end),
        link: LinkType(u16::from_le_bytes(*link)),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type ArbitraryPacket = (u64, i64, u16, u32, u32, Vec<u8>);

    fn packet((number, time, link, interface, original_length, data): &ArbitraryPacket) -> Packet<'_> {
        let (number, time, link) = (PacketNumber(*number), Time(*time), LinkType(*link));
        Packet { number, time, link, interface: *interface, original_length: *original_length, data }
    }

    proptest! {
        #[test]
        fn packets_come_back_as_they_were_from_memory_and_from_a_block(packets: Vec<ArbitraryPacket>, cut: prop::sample::Index) {
            let mut batch = Batch::default();
            packets.iter().for_each(|fields| batch.push(&packet(fields)));
            let mut block = batch.bytes().to_vec();
            batch.put_heads(&mut block);
            let again = Batch::from_block(block.clone()).expect("a block of ours");
            for batch in [&batch, &again] {
                prop_assert_eq!(batch.len(), packets.len());
                for (index, fields) in packets.iter().enumerate() {
                    let got = batch.get(index).expect("it was pushed");
                    prop_assert_eq!(format!("{got:?}"), format!("{:?}", packet(fields)));
                }
                prop_assert!(batch.get(packets.len()).is_none());
            }
            let mut shorter = again;
            shorter.pop();
            prop_assert_eq!(shorter.len(), packets.len().saturating_sub(1));
            let last = packets.iter().rev().nth(1).map(|fields| format!("{:?}", packet(fields)));
            prop_assert_eq!(shorter.last().map(|packet| format!("{packet:?}")), last);
            prop_assert_eq!(shorter.bytes().len(), shorter.len().checked_sub(1).map_or(0, |at| packets[..=at].iter().map(|fields| fields.5.len()).sum()));
            if let Some(cut) = Batch::from_block(block[..cut.index(block.len())].to_vec()) {
                prop_assert!((0..cut.len()).all(|index| cut.get(index).is_some()), "whatever it is taken for");
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(block: Vec<u8>) {
            if let Some(batch) = Batch::from_block(block) {
                prop_assert!((0..batch.len()).all(|index| batch.get(index).is_some()));
            }
        }
    }
}
