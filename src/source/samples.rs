//! Capture files for the tests of this folder, made byte by byte so that any byte can be wrong.

use nom::number::Endianness;

use super::reader::{CaptureFileReader, fuzz_capture_file};
use super::{Item, Source};

/// An item that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedItem {
    Packet { number: u64, time: i64, link: u16, interface: u32, original: u32, data: Vec<u8> },
    Secrets(Vec<u8>),
    Damage { offset: u64, reason: String },
    Idle,
}

impl OwnedItem {
    pub fn from(item: Item<'_>) -> OwnedItem {
        match item {
            Item::Packet(packet) => OwnedItem::Packet {
                number: packet.number.0,
                time: packet.time.0,
                link: packet.link.0,
                interface: packet.interface,
                original: packet.original_length,
                data: packet.data.to_vec(),
            },
            Item::Secrets(lines) => OwnedItem::Secrets(lines.to_vec()),
            Item::Damage(damage) => OwnedItem::Damage { offset: damage.offset, reason: damage.reason },
            Item::Dropped(dropped) => unreachable!("files drop nothing: {dropped:?}"),
            Item::Idle => OwnedItem::Idle,
        }
    }

    pub fn is_packet(&self) -> bool {
        matches!(self, OwnedItem::Packet { .. })
    }

    pub fn is_damage(&self) -> bool {
        matches!(self, OwnedItem::Damage { .. })
    }
}

/// Reads all items up to the end or up to an error.
pub fn drain(source: &mut dyn Source) -> anyhow::Result<Vec<OwnedItem>> {
    let mut seen = Vec::new();
    while let Some(item) = source.next()? {
        seen.push(OwnedItem::from(item));
    }
    Ok(seen)
}

/// The items of a file with these bytes. Also checks that reading it in pieces gives the same.
pub fn seen(bytes: &[u8]) -> Vec<OwnedItem> {
    fuzz_capture_file(bytes);
    drain(&mut CaptureFileReader::new("sample", bytes)).expect("a capture file")
}

/// A description of items, one line each, for comparison.
pub fn account(seen: &[OwnedItem]) -> String {
    let line = |item: &OwnedItem| match item {
        OwnedItem::Packet { number, time, link, interface, original, data } => {
            let text = String::from_utf8_lossy(data);
            format!("packet {number} time {time} link {link} interface {interface} length {original} {text:?}\n")
        }
        OwnedItem::Secrets(lines) => format!("secrets {:?}\n", String::from_utf8_lossy(lines)),
        OwnedItem::Damage { offset, reason } => format!("byte {offset}: {reason}\n"),
        OwnedItem::Idle => "idle\n".into(),
    };
    seen.iter().map(line).collect()
}

/// A file that is being written in one byte order.
#[derive(Clone)]
pub struct Bytes {
    pub order: Endianness,
    pub bytes: Vec<u8>,
}

impl Bytes {
    pub fn new(order: Endianness) -> Bytes {
        Bytes { order, bytes: Vec::new() }
    }

    pub fn u16(mut self, number: u16) -> Bytes {
        let bytes = if self.order == Endianness::Big { number.to_be_bytes() } else { number.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    pub fn u32(mut self, number: u32) -> Bytes {
        let bytes = if self.order == Endianness::Big { number.to_be_bytes() } else { number.to_le_bytes() };
        self.bytes.extend(bytes);
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.bytes.extend(bytes);
        self
    }

    /// Bytes, padded to 32 bits.
    pub fn padded(mut self, bytes: &[u8]) -> Bytes {
        self.bytes.extend(bytes);
        self.bytes.resize(self.bytes.len() + bytes.len().next_multiple_of(4) - bytes.len(), 0);
        self
    }

    fn empty(&self) -> Bytes {
        Bytes::new(self.order)
    }

    // pcap

    pub fn pcap_header(self, magic: u32, link: u32) -> Bytes {
        self.u32(magic).u16(2).u16(4).u32(0).u32(0).u32(65_535).u32(link)
    }

    pub fn record(self, seconds: u32, fraction: u32, data: &[u8]) -> Bytes {
        let length = data.len() as u32;
        self.u32(seconds).u32(fraction).u32(length).u32(length).raw(data)
    }

    // pcapng

    pub fn block(self, kind: u32, body: Bytes) -> Bytes {
        let length = body.bytes.len() as u32 + 12;
        self.u32(kind).u32(length).raw(&body.bytes).u32(length)
    }

    pub fn section(self) -> Bytes {
        let body = self.empty().u32(0x1a2b_3c4d).u16(1).u16(0).raw(&[0xff; 8]);
        self.block(0x0a0d_0d0a, body)
    }

    pub fn interface(self, link: u16, snap_length: u32, options: &[(u16, &[u8])]) -> Bytes {
        let mut body = self.empty().u16(link).u16(0).u32(snap_length);
        for (code, value) in options {
            body = body.u16(*code).u16(value.len() as u16).padded(value);
        }
        self.block(1, body)
    }

    pub fn enhanced(self, interface: u32, ticks: u64, data: &[u8]) -> Bytes {
        let length = data.len() as u32;
        let body = self.empty().u32(interface).u32((ticks >> 32) as u32).u32(ticks as u32).u32(length).u32(length);
        self.block(6, body.padded(data))
    }

    pub fn simple(self, original: u32, data: &[u8]) -> Bytes {
        let body = self.empty().u32(original).padded(data);
        self.block(3, body)
    }

    pub fn secrets(self, kind: u32, lines: &[u8]) -> Bytes {
        let body = self.empty().u32(kind).u32(lines.len() as u32).padded(lines);
        self.block(10, body)
    }
}
