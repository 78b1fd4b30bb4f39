//! Packets as a pcapng file in memory: a section, an interface for each link type, and a block for
//! each packet.

use crate::capture::{LinkType, Time};

/// Bytes of a block with a packet besides the packet, at most.
const BLOCK: usize = 36;

/// The file of these packets, which are freed on the way. Times are in nanoseconds.
pub(super) fn write(packets: Vec<(Time, LinkType, Vec<u8>)>) -> Vec<u8> {
    let mut links: Vec<LinkType> = Vec::new();
    let mut out = Vec::with_capacity(packets.iter().map(|(.., data)| BLOCK + data.len()).sum());
    // A section of unknown length, version 1.0.
    block(&mut out, 0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    for (_, link, _) in &packets {
        if !links.contains(link) {
            links.push(*link);
            // No limit of a packet's length. The option if_tsresol: units of 10^-9 seconds.
            block(&mut out, 1, &[&link.0.to_le_bytes()[..], &[0; 6], &[9, 0, 1, 0, 9, 0, 0, 0], &[0; 4]].concat());
        }
    }
    for (time, link, data) in packets {
        let interface = links.iter().position(|known| *known == link).unwrap_or_default() as u32;
        let (time, length) = (time.0.max(0) as u64, data.len() as u32);
        let numbers = [interface, (time >> 32) as u32, time as u32, length, length];
        let mut content: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        content.extend_from_slice(&data);
        content.resize(content.len().next_multiple_of(4), 0);
        block(&mut out, 6, &content);
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, content: &[u8]) {
    let length = (content.len() as u32 + 12).to_le_bytes();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&length);
    out.extend_from_slice(content);
    out.extend_from_slice(&length);
}
