//! One capture file as a source, from anything that can be read.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::mem;
use std::ops::Range;

use anyhow::anyhow;

use super::element::{FileElement, NextElement, PacketElement, PipePacketElement};
use super::pcapng::pipes::{PipePackets, RestoredPacket};
use super::window::Window;
use super::{Item, Source, pcap, pcapng};
use crate::capture::pipe_record::PacketRecord;
use crate::capture::{Damage, LinkType, Packet, PacketNumber};

/// Reads a pcap or pcapng file. The first bytes tell which of them it is.
#[derive(Debug)]
pub struct CaptureFileReader<R> {
    file: String,
    window: Window<R>,
    format: Format,
    /// Whether the file is still being written: its end is then a pause, not the end.
    follow: bool,
    /// The input has ended: no more bytes will follow those at hand.
    last: bool,
    ended: bool,
    /// Bytes of the element delivered last. They are consumed by the next call, when nobody borrows
    /// them any more.
    lent: usize,
    pub(super) packets: u64,
    /// Interfaces of the files before this one.
    pub(super) interfaces: u32,
    /// Pipe packets that a file has in another form.
    pipes: PipePackets,
    /// The pipe packet delivered last.
    restored: RestoredPacket,
    /// Damage that is known already, with its offsets. It is delivered first.
    pub(super) known_damage: VecDeque<(u64, String)>,
}

#[derive(Debug)]
enum Format {
    Unknown,
    Pcap(pcap::Decoder),
    Pcapng(pcapng::Decoder),
}

/// An item that refers to its bytes by range, found by [`CaptureFileReader::advance`].
/// [`CaptureFileReader::item`] makes an [`Item`] of it.
#[derive(Debug)]
pub(super) enum LocatedItem {
    Packet(PacketElement),
    /// A pipe packet that was restored.
    Restored,
    Secrets(Range<usize>),
    Damage(Damage),
    Idle,
}

impl<R: Read> CaptureFileReader<R> {
    /// A reader of `input`, which error messages call `file`. Nothing is read yet.
    pub fn new(file: impl Into<String>, input: R) -> CaptureFileReader<R> {
        CaptureFileReader {
            file: file.into(),
            window: Window::new(input),
            format: Format::Unknown,
            follow: false,
            last: false,
            ended: false,
            lent: 0,
            packets: 0,
            interfaces: 0,
            pipes: PipePackets::default(),
            restored: RestoredPacket::default(),
            known_damage: VecDeque::new(),
        }
    }

    /// Treats the end of the data as a pause, because the file is still being written.
    pub fn follow(mut self, follow: bool) -> CaptureFileReader<R> {
        self.follow = follow;
        self
    }

    /// Interfaces described so far, in this file and those before it.
    pub fn interfaces(&self) -> u32 {
        self.interfaces.saturating_add(match &self.format {
            Format::Unknown => 0,
            Format::Pcap(decoder) => decoder.interfaces(),
            Format::Pcapng(decoder) => decoder.interfaces(),
        })
    }

    /// The input that the bytes come from.
    pub fn input(&self) -> &R {
        &self.window.input
    }

    /// Bytes of memory that the buffer and held packets occupy.
    pub fn memory(&self) -> usize {
        self.window.memory() + self.pipes.memory()
    }

    /// Finds the next item; `None` at the end.
    pub(super) fn advance(&mut self) -> anyhow::Result<Option<LocatedItem>> {
        if let Some((offset, reason)) = self.known_damage.pop_front() {
            return Ok(Some(LocatedItem::Damage(Damage { file: self.file.clone(), offset, reason })));
        }
        self.window.consume(mem::take(&mut self.lent));
        loop {
            if let Some(packet) = self.pipes.pop() {
                self.packets += 1;
                self.restored = packet;
                return Ok(Some(LocatedItem::Restored));
            }
            if self.ended {
                match self.pipes.flush() {
                    true => continue,
                    false => return Ok(None),
                }
            }
            match self.next_element()? {
                NextElement::Need(wanted) => match self.window.fill(wanted) {
                    Ok(true) => {}
                    Ok(false) if self.follow => return Ok(Some(LocatedItem::Idle)),
                    // One more attempt with `last` set: a search may still find something in the
                    // bytes at hand.
                    Ok(false) if !self.last => self.last = true,
                    Ok(false) => {
                        if let Some(damage) = self.cut() {
                            return Ok(Some(damage));
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Some(LocatedItem::Idle)),
                    Err(error) => return self.failed(error).map(Some),
                },
                NextElement::Found(length, content) => {
                    self.lent = length;
                    match content {
                        FileElement::Other => self.window.consume(mem::take(&mut self.lent)),
                        FileElement::Packet(mut packet) => {
                            self.packets += 1;
                            packet.interface = packet.interface.saturating_add(self.interfaces);
                            return Ok(Some(LocatedItem::Packet(packet)));
                        }
                        FileElement::Line(record, line) => {
                            self.pipes.line(&record, &self.window.bytes()[line]);
                            self.window.consume(mem::take(&mut self.lent));
                        }
                        FileElement::PipePacket(PipePacketElement { recording, position, time, packet }) => {
                            let packet = &self.window.bytes()[packet];
                            self.pipes.packet(&PacketRecord { recording, position, time, packet });
                            self.window.consume(mem::take(&mut self.lent));
                        }
                        FileElement::Secrets(lines) => return Ok(Some(LocatedItem::Secrets(lines))),
                        FileElement::Damaged(reason) => return Ok(Some(self.damage(reason))),
                    }
                }
                NextElement::Unreadable(reason) => {
                    self.ended = true;
                    return Ok(Some(self.damage(reason)));
                }
            }
        }
    }

    /// The item for a `LocatedItem` that [`CaptureFileReader::advance`] has just returned.
    pub(super) fn item(&self, found: LocatedItem) -> Item<'_> {
        match found {
            LocatedItem::Packet(PacketElement { time, link, interface, original_length, data }) => {
                Item::Packet(Packet {
                    number: PacketNumber(self.packets),
                    time,
                    link,
                    interface,
                    original_length,
                    data: &self.window.bytes()[data],
                })
            }
            LocatedItem::Restored => Item::Packet(Packet {
                number: PacketNumber(self.packets),
                time: self.restored.time,
                link: LinkType::PIPE,
                interface: self.interfaces,
                original_length: u32::try_from(self.restored.data.len()).unwrap_or(u32::MAX),
                data: &self.restored.data,
            }),
            LocatedItem::Secrets(lines) => Item::Secrets(&self.window.bytes()[lines]),
            LocatedItem::Damage(damage) => Item::Damage(damage),
            LocatedItem::Idle => Item::Idle,
        }
    }

    fn next_element(&mut self) -> anyhow::Result<NextElement> {
        let bytes = self.window.bytes();
        match &mut self.format {
            Format::Pcap(decoder) => return Ok(decoder.next_element(bytes)),
            Format::Pcapng(decoder) => return Ok(decoder.next_element(bytes, self.last)),
            Format::Unknown if bytes.len() < 4 && !self.last => return Ok(NextElement::Need(4)),
            Format::Unknown => {}
        }
        self.format = if pcap::recognises(bytes) {
            Format::Pcap(pcap::Decoder::default())
        } else if pcapng::recognises(bytes) {
            Format::Pcapng(pcapng::Decoder::default())
        } else {
            self.ended = true;
            // A few more bytes tell which other format it is. Without them the message is shorter.
            let _ = self.window.fill(16);
            return Err(anyhow!("cannot open capture {:?}: {}", self.file, no_capture(self.window.bytes())));
        };
        self.next_element()
    }

    fn damage(&self, reason: String) -> LocatedItem {
        LocatedItem::Damage(Damage { file: self.file.clone(), offset: self.window.offset, reason })
    }

    /// The input has ended. Between two elements this is the end of the file, inside one
    /// it is damage.
    fn cut(&mut self) -> Option<LocatedItem> {
        self.ended = true;
        let bytes = self.window.bytes();
        let reason = match &self.format {
            _ if bytes.is_empty() => return None,
            Format::Unknown => return None,
            Format::Pcap(decoder) => decoder.cut(bytes),
            Format::Pcapng(decoder) => decoder.cut(bytes),
        };
        Some(self.damage(reason))
    }

    /// Handles a failed read. A refusal by the operating system is an error. A failure of a
    /// decompressor is damage to the file.
    fn failed(&mut self, error: io::Error) -> anyhow::Result<LocatedItem> {
        self.ended = true;
        match error.raw_os_error() {
            Some(_) => {
                self.pipes = PipePackets::default();
                Err(anyhow!("cannot read capture {:?}: {error}", self.file))
            }
            None => Ok(self.damage(error.to_string())),
        }
    }
}

impl<R: Read> Source for CaptureFileReader<R> {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        let found = self.advance()?;
        Ok(found.map(|found| self.item(found)))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.window.offset, None)
    }
}

/// Whether a file that begins with these bytes is a capture file.
pub(super) fn is_capture(bytes: &[u8]) -> bool {
    pcap::recognises(bytes) || pcapng::recognises(bytes)
}

/// File formats that people open by mistake: their first bytes, and advice.
const FOREIGN: [(&[u8], &str); 9] = [
    (
        b"SQLite format 3\0",
        "It is an SQLite database: \"mcptap sessions FILE\" lists the sessions that mcptap saved in one.",
    ),
    (b"\xfd7zXZ\0", "It is compressed with xz: decompress it first."),
    (b"BZh", "It is compressed with bzip2: decompress it first."),
    (b"\x04\x22\x4d\x18", "It is compressed with lz4: decompress it first."),
    (b"PK\x03\x04", "It is a zip archive: unpack it first."),
    (b"snoop\0\0\0", "It is a snoop capture: convert it with \"editcap -F pcapng\"."),
    (b"GMBU", "It is a Network Monitor capture: convert it with \"editcap -F pcapng\"."),
    (b"\x1f\x8b", "It is compressed twice: decompress it first."),
    (b"\x28\xb5\x2f\xfd", "It is compressed twice: decompress it first."),
];

/// The reason why a file that begins with these bytes is not a capture, and what to try.
fn no_capture(first: &[u8]) -> String {
    if first.is_empty() {
        return "the file is empty".into();
    }
    let shown: Vec<String> = first.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut message = format!("not a pcap or pcapng file (first bytes {})", shown.join(" "));
    let text = first.iter().take(16).all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
    if let Some((_, hint)) = FOREIGN.iter().find(|(magic, _)| first.starts_with(magic)) {
        message = format!("{message}. {hint}");
    } else if text {
        message += ". Of texts, mcptap reads lines of JSON with messages; \"mcptap wrap\" records a server.";
    }
    message
}

/// The body of the fuzz target for capture files. Any bytes are read to an end, without a panic and
/// in bounded memory. The size of the pieces in which they arrive changes nothing.
///
/// # Panics
/// When one of these properties does not hold.
pub fn fuzz_capture_file(data: &[u8]) {
    /// Returns at most this many bytes per read.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(buffer.len()).min(self.0.len());
            let (piece, rest) = self.0.split_at(length);
            buffer[..length].copy_from_slice(piece);
            self.0 = rest;
            Ok(length)
        }
    }

    let read = |size| {
        let mut reader = CaptureFileReader::new("fuzz", Pieces(data, size));
        let mut items = Vec::new();
        let mut captured = 0;
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(Item::Packet(packet))) => {
                    assert!(packet.original_length as usize >= packet.data.len());
                    captured += packet.data.len();
                    items.push(format!("{packet:?}"));
                }
                Ok(Some(item)) => items.push(format!("{item:?}")),
                Err(error) => {
                    items.push(error.to_string());
                    assert!(matches!(reader.next(), Ok(None)), "an error is final");
                    break;
                }
            }
            assert!(items.len() <= data.len(), "every item stands for bytes");
        }
        assert!(captured <= data.len(), "no byte is handed out twice");
        assert!(reader.memory() <= (4 * data.len()).max(256 << 10), "memory grows only with what arrived");
        assert!(matches!(reader.next(), Ok(None)), "the end is final");
        items
    };
    let whole = read(usize::MAX);
    assert_eq!(read(1), whole);
    assert_eq!(read(7), whole);
}
