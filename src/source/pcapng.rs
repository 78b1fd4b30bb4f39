//! The pcapng file format: sections of blocks. Each block has its length at its start and
//! at its end.
//!
//! Follows draft-ietf-opsawg-pcapng. Damage inside a block costs only that block. If the
//! framing itself is damaged, the next block is searched for: a known block type and two
//! lengths that agree.
//!
//! ```text
//!  type │ total length │ body (padded to 32 bits) │ total length again
//! ```

mod block;
pub(super) mod pipes;
#[cfg(test)]
mod tests;

use nom::bytes::streaming::take;
use nom::number::Endianness;
use nom::number::streaming::u32;
use nom::{IResult, Needed, Offset, Parser};

use super::element::{FileElement, MAX_ELEMENT, NextElement, PacketElement, PipePacketElement, cut_short};
use crate::capture::pipe_record::{LinesRecord, PacketRecord};
use crate::capture::{LinkType, Time};
use block::{Interface, PacketBody};

/// Numbers of block types.
mod kind {
    pub const SECTION: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    pub const OBSOLETE_PACKET: u32 = 2;
    pub const SIMPLE_PACKET: u32 = 3;
    pub const NAMES: u32 = 4;
    pub const STATISTICS: u32 = 5;
    pub const ENHANCED_PACKET: u32 = 6;
    pub const JOURNAL: u32 = 9;
    pub const SECRETS: u32 = 10;
    pub const CUSTOM: u32 = 0xbad;
    pub const CUSTOM_NOT_COPIED: u32 = 0x4000_0bad;

    /// The draft's name for a block type; `None` for a type that is not assigned.
    pub fn name(kind: u32) -> Option<&'static str> {
        Some(match kind {
            SECTION => "section header block",
            INTERFACE => "interface description block",
            OBSOLETE_PACKET => "packet block",
            SIMPLE_PACKET => "simple packet block",
            NAMES => "name resolution block",
            STATISTICS => "interface statistics block",
            ENHANCED_PACKET => "enhanced packet block",
            JOURNAL => "systemd journal block",
            SECRETS => "decryption secrets block",
            CUSTOM | CUSTOM_NOT_COPIED => "custom block",
            _ => return None,
        })
    }
}

/// Bytes of a type and two lengths.
const FRAME: usize = 12;
/// Bytes of the longest block that a search accepts. Nearly all packets end at 256 KiB. A search
/// that waited for the end of larger claims would read megabytes ahead in noise.
const SEARCH_REACH: usize = 1 << 20;
/// The largest number of interfaces in one section. Captures of whole data centres have hundreds.
/// Each costs a few bytes for the duration of the section.
const MAX_INTERFACES: usize = 65_536;

/// Errors in the framing of a block.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum FramingError {
    #[error("block type {0:#010x} has length {1}, below the {FRAME} bytes of an empty block")]
    TooShort(u32, u32),
    #[error("block type {0:#010x} has length {1}, not a multiple of 4")]
    NotAligned(u32, u32),
    #[error("block type {0:#010x} claims {1} bytes, which no block has")]
    TooLong(u32, u32),
    #[error("block type {0:#010x} begins with length {1} and ends with length {2}")]
    LengthsDiffer(u32, u32, u32),
    #[error("the section's byte-order magic is {0:08x}")]
    ByteOrder(u32),
    #[error("malformed block")]
    Malformed,
}

impl nom::error::ParseError<&[u8]> for FramingError {
    fn from_error_kind(_: &[u8], _: nom::error::ErrorKind) -> FramingError {
        FramingError::Malformed
    }

    fn append(_: &[u8], _: nom::error::ErrorKind, other: FramingError) -> FramingError {
        other
    }
}

/// Whether a file that begins with these bytes is a pcapng file. The section header's type is the
/// same in both byte orders.
pub fn recognises(bytes: &[u8]) -> bool {
    bytes.starts_with(&kind::SECTION.to_be_bytes())
}

/// The byte order of a section that begins here; `None` if none does.
fn section_order(input: &[u8]) -> IResult<&[u8], Option<Endianness>, FramingError> {
    if !recognises(input) {
        return Ok((input, None));
    }
    let (rest, (_, magic)) = (take(8usize), u32(Endianness::Big)).parse(input)?;
    match magic {
        0x1a2b_3c4d => Ok((rest, Some(Endianness::Big))),
        0x4d3c_2b1a => Ok((rest, Some(Endianness::Little))),
        other => Err(nom::Err::Failure(FramingError::ByteOrder(other))),
    }
}

/// A block without its framing.
struct Block<'a> {
    kind: u32,
    body: &'a [u8],
}

/// Parses a whole block of at most `limit` bytes.
fn block<'a>(order: Endianness, limit: usize) -> impl Fn(&'a [u8]) -> IResult<&'a [u8], Block<'a>, FramingError> {
    move |input| {
        let (rest, (kind, length)) = (u32(order), u32(order)).parse(input)?;
        let fault = if length < FRAME as u32 {
            Some(FramingError::TooShort(kind, length))
        } else if length % 4 != 0 {
            // "This value MUST be a multiple of 4."
            Some(FramingError::NotAligned(kind, length))
        } else if length as usize > limit {
            Some(FramingError::TooLong(kind, length))
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(nom::Err::Failure(fault));
        }
        let (rest, body) = take(length as usize - FRAME)(rest)?;
        let (rest, again) = u32(order)(rest)?;
        match again == length {
            true => Ok((rest, Block { kind, body })),
            false => Err(nom::Err::Failure(FramingError::LengthsDiffer(kind, length, again))),
        }
    }
}

/// Decodes one pcapng file, element by element.
#[derive(Debug)]
pub struct Decoder {
    order: Endianness,
    /// The interfaces of this section, by id; `None` for one whose description is
    /// damaged beyond use.
    interfaces: Vec<Option<Interface>>,
    /// Interfaces of the sections before this one.
    earlier_interfaces: u32,
    /// The time of the last packet, used for blocks without a time.
    time: Time,
    /// The framing is damaged: the next block is being searched for.
    searching: bool,
}

impl Default for Decoder {
    fn default() -> Decoder {
        let order = Endianness::Little;
        Decoder { order, interfaces: Vec::new(), earlier_interfaces: 0, time: Time(0), searching: false }
    }
}

impl Decoder {
    /// Parses the bytes that follow the last element. With `last`, no more bytes will come, so an
    /// incomplete element is damage.
    pub fn next_element(&mut self, bytes: &[u8], last: bool) -> NextElement {
        if self.searching {
            return self.search(bytes, last);
        }
        let block = section_order(bytes).and_then(|(_, order)| {
            if let Some(order) = order {
                self.begin_section(order);
            }
            block(self.order, MAX_ELEMENT)(bytes)
        });
        match block {
            Ok((rest, block)) => {
                let content = self.content(bytes, &block).unwrap_or_else(|fault| {
                    FileElement::Damaged(format!("{}: {fault}", kind::name(block.kind).unwrap_or("block")))
                });
                NextElement::Found(bytes.offset(rest), content)
            }
            Err(nom::Err::Incomplete(needed)) => NextElement::Need(bytes.len().saturating_add(missing(needed))),
            Err(nom::Err::Error(fault) | nom::Err::Failure(fault)) => {
                self.searching = true;
                NextElement::Found(bytes.len().min(4), FileElement::Damaged(fault.to_string()))
            }
        }
    }

    /// Interfaces described so far.
    pub fn interfaces(&self) -> u32 {
        self.earlier_interfaces.saturating_add(self.interfaces.len() as u32)
    }

    /// The damage in a file that ends with these bytes after its last whole element.
    pub fn cut(&self, bytes: &[u8]) -> String {
        let have = bytes.len();
        let head: IResult<_, _, FramingError> = (u32(self.order), u32(self.order)).parse(bytes);
        match head {
            Ok((_, (kind, length))) => match kind::name(kind) {
                Some(name) => cut_short(name, have, length as usize),
                None => cut_short(&format!("block of type {kind:#010x}"), have, length as usize),
            },
            Err(_) => cut_short("block head", have, 8),
        }
    }

    /// Starts a section. "Interface IDs are unique within a section", and only there.
    fn begin_section(&mut self, order: Endianness) {
        self.earlier_interfaces = self.interfaces();
        self.interfaces.clear();
        self.order = order;
    }

    /// Moves to the next block that has a known type and two lengths that agree.
    fn search(&mut self, bytes: &[u8], last: bool) -> NextElement {
        for at in 0..bytes.len() {
            let here = &bytes[at..];
            let order = match section_order(here) {
                Ok((_, order)) => order.unwrap_or(self.order),
                // Its byte order follows its length.
                Err(nom::Err::Incomplete(needed)) if !last => {
                    return match at {
                        0 => NextElement::Need(bytes.len().saturating_add(missing(needed))),
                        _ => NextElement::Found(at, FileElement::Other),
                    };
                }
                // Cut inside a section header: the block parser reports that.
                Err(nom::Err::Incomplete(_)) => self.order,
                Err(_) => continue,
            };
            let number: IResult<_, _, FramingError> = u32(order)(here);
            if number.is_ok_and(|(_, number)| kind::name(number).is_none()) {
                continue;
            }
            match block(order, SEARCH_REACH)(here) {
                Ok(_) => {
                    self.searching = false;
                    return NextElement::Found(at, FileElement::Other);
                }
                Err(nom::Err::Incomplete(_)) if last => {}
                Err(nom::Err::Incomplete(needed)) if at == 0 => {
                    return NextElement::Need(bytes.len().saturating_add(missing(needed)));
                }
                Err(nom::Err::Incomplete(_)) => return NextElement::Found(at, FileElement::Other),
                Err(_) => {}
            }
        }
        match bytes.len() {
            0 => NextElement::Need(1),
            all => NextElement::Found(all, FileElement::Other),
        }
    }

    /// The element that a whole block contains.
    fn content(&mut self, bytes: &[u8], block: &Block<'_>) -> Result<FileElement, block::BodyError> {
        let order = self.order;
        match block.kind {
            kind::SECTION => block::section(order, block.body).map(|()| FileElement::Other),
            kind::INTERFACE if self.interfaces.len() >= MAX_INTERFACES => Err(block::BodyError::TooManyInterfaces),
            kind::INTERFACE => {
                let (interface, fault) = block::interface(order, block.body);
                self.interfaces.push(interface);
                fault.map_or(Ok(FileElement::Other), Err)
            }
            kind::ENHANCED_PACKET => {
                let packet = block::enhanced_packet(order, block.body)?;
                let line = packet.data;
                Ok(match self.packet(bytes, packet)? {
                    FileElement::Packet(packet) if packet.link == LinkType::UPPER_PDU => {
                        let record = block::packet_option(order, block.body, line.len());
                        match record.and_then(LinesRecord::decode).zip(block::exported_pdu(line)) {
                            Some((record, line)) => FileElement::Line(record, range(bytes, line)),
                            None => FileElement::Packet(packet),
                        }
                    }
                    element => element,
                })
            }
            kind::CUSTOM => {
                let record = block::custom(order, block.body).and_then(PacketRecord::decode);
                Ok(record.map_or(FileElement::Other, |PacketRecord { recording, position, time, packet }| {
                    let packet = range(bytes, packet);
                    FileElement::PipePacket(PipePacketElement { recording, position, time, packet })
                }))
            }
            kind::OBSOLETE_PACKET => self.packet(bytes, block::obsolete_packet(order, block.body)?),
            kind::SIMPLE_PACKET => {
                let snap_length = self.interface(0)?.snap_length;
                self.packet(bytes, block::simple_packet(order, block.body, snap_length)?)
            }
            kind::SECRETS => Ok(match block::key_log(order, block.body)? {
                Some(lines) => FileElement::Secrets(range(bytes, lines)),
                None => FileElement::Other,
            }),
            // "Readers MUST skip unknown blocks." Names and statistics add nothing to the packets.
            _ => Ok(FileElement::Other),
        }
    }

    fn packet(&mut self, bytes: &[u8], packet: PacketBody<'_>) -> Result<FileElement, block::BodyError> {
        let interface = self.interface(packet.interface)?;
        let link = interface.link;
        if let Some(ticks) = packet.ticks {
            self.time = interface.clock.time(ticks);
        }
        let number = self.earlier_interfaces.saturating_add(packet.interface);
        let data = range(bytes, packet.data);
        Ok(FileElement::Packet(PacketElement::new(self.time, link, number, packet.original_length, data)))
    }

    fn interface(&self, id: u32) -> Result<&Interface, block::BodyError> {
        let known = self.interfaces.get(id as usize).and_then(Option::as_ref);
        known.ok_or(block::BodyError::UnknownInterface(id))
    }
}

/// The range of `part` within `whole`, of which it is a slice.
fn range(whole: &[u8], part: &[u8]) -> std::ops::Range<usize> {
    let start = whole.offset(part);
    start..start + part.len()
}

fn missing(needed: Needed) -> usize {
    match needed {
        Needed::Size(size) => size.get(),
        Needed::Unknown => 1,
    }
}
