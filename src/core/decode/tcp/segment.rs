//! One TCP segment: its flags, its options, and where its payload lies in packets.

use std::net::SocketAddr;

use crate::capture::{PacketNumber, PacketRange, Time};

/// The flag bits of a TCP header (RFC 9293 section 3.1): the low byte and NS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// The sender has no more data.
    pub const FIN: u16 = 0x01;
    /// The sequence numbers are synchronised.
    pub const SYN: u16 = 0x02;
    /// The connection is reset.
    pub const RST: u16 = 0x04;
    /// The receiver is to deliver the data at once.
    pub const PSH: u16 = 0x08;
    /// The acknowledgment number is valid.
    pub const ACK: u16 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u16 = 0x20;
    /// The ECN echo flag (RFC 3168).
    pub const ECE: u16 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u16 = 0x80;

    /// Whether any bit of `mask` is set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask != 0
    }
}

/// One TCP segment as the packet layer decoded it.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Capture time of the packet that completed it.
    pub time: Time,
    /// The number of that packet: its own, or that of the last fragment to arrive.
    pub packet: PacketNumber,
    /// The address of the sender.
    pub source: SocketAddr,
    /// The address of the receiver.
    pub destination: SocketAddr,
    /// The sequence number as sent.
    pub sequence: u32,
    /// The acknowledgment number as sent.
    pub acknowledgment: u32,
    /// The flag bits.
    pub flags: Flags,
    /// The window as sent, not scaled.
    pub window: u16,
    /// The option list as sent.
    pub options: &'a [u8],
    /// The payload as captured.
    pub payload: &'a [u8],
    /// Payload bytes after `payload` that the capture cut off (snap length).
    pub missing: u32,
    /// The ranges of packets with the bytes of `payload`: one, or several for
    /// a fragmented datagram.
    pub origin: &'a [PacketRange],
}

impl Segment<'_> {
    /// Number of payload bytes on the wire.
    pub(super) fn length(&self) -> u32 {
        (self.payload.len() as u32).saturating_add(self.missing)
    }

    /// Whether it can be a keep-alive probe, which may come "containing one garbage octet" (RFC
    /// 9293 section 3.8.4). A single byte that an application sent carries PSH.
    pub(super) fn could_be_probe(&self) -> bool {
        self.length() <= 1 && !self.flags.has(Flags::PSH | Flags::SYN | Flags::FIN | Flags::RST)
    }
}

/// The options that a SYN offered (RFC 9293, 7323, 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// The maximum segment size, in bytes.
    pub mss: Option<u16>,
    /// The shift count of the window scale.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgments are permitted.
    pub sack_permitted: bool,
    /// Whether timestamps are offered.
    pub timestamps: bool,
}

impl SynOptions {
    /// Parses the option list of a SYN. Stops where the list contradicts itself, and returns the
    /// options before that place.
    pub fn read(mut list: &[u8]) -> SynOptions {
        let mut options = SynOptions::default();
        // Kind 0 ends the list, kind 1 is padding. Every other kind has a length, which includes
        // the bytes of kind and length (RFC 9293 section 3.1).
        while let [kind, rest @ ..] = list {
            match kind {
                0 => break,
                1 => {
                    list = rest;
                    continue;
                }
                _ => {}
            }
            let Some((option, behind)) = rest.first().and_then(|length| list.split_at_checked(usize::from(*length)))
            else {
                break;
            };
            match option {
                [2, 4, high, low] => options.mss = Some(u16::from_be_bytes([*high, *low])),
                // "If a Window Scale option is received with a shift.cnt value larger than 14, the
                // TCP SHOULD log the error but MUST use 14" (RFC 7323 section 2.3).
                [3, 3, shift] => options.window_scale = Some((*shift).min(14)),
                [4, 2] => options.sack_permitted = true,
                [8, 10, ..] => options.timestamps = true,
                [] | [_] => break,
                _ => {}
            }
            list = behind;
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_syn_are_read_up_to_the_first_contradiction() {
        let linux = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let expected = SynOptions { mss: Some(1460), window_scale: Some(7), sack_permitted: true, timestamps: true };
        assert_eq!(SynOptions::read(&linux), expected);
        for cut in 0..linux.len() {
            SynOptions::read(&linux[..cut]);
        }
        assert_eq!(
            SynOptions::read(&[4, 2, 2, 0, 3, 3, 1]),
            SynOptions { sack_permitted: true, ..SynOptions::default() }
        );
        assert_eq!(SynOptions::read(&[0, 4, 2]), SynOptions::default(), "behind the end of the list");
        assert_eq!(SynOptions::read(&[3, 3, 200]).window_scale, Some(14));
    }
}
