//! The pcap file format: a file header, then records.
//!
//! Follows draft-ietf-opsawg-pcap, and accepts what common readers accept beyond it. That is: times
//! in nanoseconds, both byte orders, the "modified" records of Alexey Kuznetzov's libpcap, any
//! version, any snap length. So an incorrectly written file can still be read.
//!
//! ```text
//!  file    magic │ major, minor │ zone │ accuracy │ snap length │ FCS and link type
//!          24 bytes
//!  record  seconds │ fraction │ captured length │ original length │ (8 bytes more) │ data
//!          16 (24) bytes, then data
//! ```

use nom::bytes::streaming::take;
use nom::number::Endianness;
use nom::number::streaming::{be_u32, u16, u32};
use nom::{IResult, Parser};

use super::element::{FileElement, MAX_ELEMENT, NextElement, PacketElement, cut_short};
use crate::capture::{LinkType, Time};

const HEADER: usize = 24;
const RECORD: usize = 16;
/// Bytes that a "modified" record has after the usual four numbers: interface index, protocol,
/// packet type, padding.
const MODIFIED: usize = 8;

/// The properties of a file that its magic number determines.
#[derive(Clone, Copy, Debug)]
struct Magic {
    order: Endianness,
    /// Nanoseconds per unit of the fraction in a time.
    fraction: i64,
    /// Bytes of a record header after the usual four numbers.
    more: usize,
}

/// Parses the magic number, which is also the byte order mark.
fn magic(input: &[u8]) -> IResult<&[u8], Option<Magic>> {
    let known = |number: u32, order| {
        let (fraction, more) = match number {
            0xa1b2_c3d4 => (1_000, 0),
            0xa1b2_3c4d => (1, 0),
            0xa1b2_cd34 => (1_000, MODIFIED),
            _ => return None,
        };
        Some(Magic { order, fraction, more })
    };
    be_u32.map(|number| known(number, Endianness::Big).or(known(number.swap_bytes(), Endianness::Little))).parse(input)
}

/// Whether a file that begins with these bytes is a pcap file.
pub fn recognises(bytes: &[u8]) -> bool {
    matches!(magic(bytes), Ok((_, Some(_))))
}

/// The parts of the file header that are used.
#[derive(Clone, Copy, Debug)]
struct Header {
    magic: Magic,
    link: LinkType,
}

fn header(input: &[u8]) -> IResult<&[u8], Option<Header>> {
    let (rest, magic) = magic(input)?;
    let Some(magic) = magic else { return Ok((input, None)) };
    let order = magic.order;
    // Version, zone, accuracy and snap length are ignored, because tools disagree on which values
    // are invalid. The lower 16 bits of the last number are the link type, the upper ones describe
    // the frame check sequence.
    let (rest, _) = (u16(order), u16(order), u32(order), u32(order), u32(order)).parse(rest)?;
    let (rest, link) = u32(order)(rest)?;
    Ok((rest, Some(Header { magic, link: LinkType(link as u16) })))
}

/// The times and lengths of one record.
struct Record {
    time: Time,
    captured: u32,
    original: u32,
}

fn record(magic: Magic) -> impl Fn(&[u8]) -> IResult<&[u8], Record> {
    move |input| {
        let order = magic.order;
        let (rest, (seconds, fraction, captured, original, _)) =
            (u32(order), u32(order), u32(order), u32(order), take(magic.more)).parse(input)?;
        // Seconds are unsigned, so that times after 2038 can be read. A fraction of more than a
        // second is added unchanged.
        let time = Time(i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * magic.fraction);
        Ok((rest, Record { time, captured, original }))
    }
}

/// Decodes one pcap file, element by element.
#[derive(Debug, Default)]
pub struct Decoder {
    header: Option<Header>,
}

impl Decoder {
    /// Parses the bytes that follow the last element.
    pub fn next_element(&mut self, bytes: &[u8]) -> NextElement {
        let Some(Header { magic, link }) = self.header else {
            return match header(bytes) {
                Ok((_, None)) => NextElement::Unreadable("no pcap header".into()),
                Ok((_, header)) => {
                    self.header = header;
                    NextElement::Found(HEADER, FileElement::Other)
                }
                Err(_) => NextElement::Need(HEADER),
            };
        };
        let head = RECORD + magic.more;
        let Ok((rest, record)) = record(magic)(bytes) else { return NextElement::Need(head) };
        let length = head.saturating_add(record.captured as usize);
        if length > MAX_ELEMENT {
            // Records contain no mark by which the next one could be found.
            return NextElement::Unreadable(format!(
                "the record claims {} captured bytes, which no packet has",
                record.captured
            ));
        }
        if rest.len() < length - head {
            return NextElement::Need(length);
        }
        NextElement::Found(
            length,
            FileElement::Packet(PacketElement::new(record.time, link, 0, record.original, head..length)),
        )
    }

    /// Interfaces described so far: a pcap file has one.
    pub fn interfaces(&self) -> u32 {
        1
    }

    /// The damage in a file that ends with these bytes after its last whole element.
    pub fn cut(&self, bytes: &[u8]) -> String {
        let have = bytes.len();
        let Some(Header { magic, .. }) = self.header else {
            return cut_short("pcap header", have, HEADER);
        };
        let head = RECORD + magic.more;
        match record(magic)(bytes) {
            Ok((rest, record)) => cut_short("packet", rest.len(), record.captured as usize),
            Err(_) => cut_short("record head", have, head),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::source::samples::{Bytes, account, seen};
    use nom::number::Endianness::{Big, Little};

    #[test]
    fn every_magic_in_both_byte_orders() {
        for order in [Big, Little] {
            let microseconds =
                Bytes::new(order).pcap_header(0xa1b2_c3d4, 1).record(7, 250_000, b"abc").record(6, 0, b"");
            let expected = "packet 1 time 7250000000 link 1 interface 0 length 3 \"abc\"\n\
                            packet 2 time 6000000000 link 1 interface 0 length 0 \"\"\n";
            assert_eq!(account(&seen(&microseconds.bytes)), expected);

            let nanoseconds = Bytes::new(order).pcap_header(0xa1b2_3c4d, 101).record(7, 250_000, b"abc");
            let expected = "packet 1 time 7000250000 link 101 interface 0 length 3 \"abc\"\n";
            assert_eq!(account(&seen(&nanoseconds.bytes)), expected);

            let modified = Bytes::new(order).pcap_header(0xa1b2_cd34, 113);
            let modified = modified.u32(7).u32(1).u32(3).u32(9).u32(2).u16(0x800).raw(&[4, 0]).raw(b"abc");
            let expected = "packet 1 time 7000001000 link 113 interface 0 length 9 \"abc\"\n";
            assert_eq!(account(&seen(&modified.bytes)), expected);
        }
    }

    #[test]
    fn what_writers_get_wrong_is_read_all_the_same() {
        let header = Bytes::new(Little).u32(0xa1b2_c3d4).u16(99).u16(0).u32(0).u32(0).u32(0);
        let frame_check = header.u32(0xf400_0001); // the FCS has four bytes
        let file = frame_check.u32(u32::MAX).u32(u32::MAX).u32(3).u32(1).raw(b"abc");
        let expected = "packet 1 time 4294971589967295000 link 1 interface 0 length 3 \"abc\"\n";
        assert_eq!(account(&seen(&file.bytes)), expected);
    }

    #[test]
    fn an_absurd_length_ends_the_file() {
        let file = Bytes::new(Little).pcap_header(0xa1b2_c3d4, 1).record(1, 0, b"abc");
        let file = file.u32(1).u32(0).u32(u32::MAX).u32(60).record(2, 0, b"lost");
        let expected = "packet 1 time 1000000000 link 1 interface 0 length 3 \"abc\"\n\
                        byte 43: the record claims 4294967295 captured bytes, which no packet has\n";
        assert_eq!(account(&seen(&file.bytes)), expected);
    }

    #[test]
    fn a_cut_says_what_it_went_through() {
        let whole = Bytes::new(Big).pcap_header(0xa1b2_c3d4, 1).record(1, 0, b"abc").bytes;
        for (length, expected) in [
            (4, "byte 0: pcap header cut short by the end of the file: 4 of 24 bytes\n"),
            (24, ""),
            (26, "byte 24: record head cut short by the end of the file: 2 of 16 bytes\n"),
            (40, "byte 24: packet cut short by the end of the file: 0 of 3 bytes\n"),
            (42, "byte 24: packet cut short by the end of the file: 2 of 3 bytes\n"),
        ] {
            assert_eq!(account(&seen(&whole[..length])), expected);
        }
    }
}
