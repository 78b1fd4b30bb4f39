//! One TCP segment: flags, options, and the parts of it that stand in packets.

use std::net::SocketAddr;

use crate::capture::{PacketNumber, PacketRange, Time};

/// The flag bits of a TCP header (RFC 9293 section 3.1), low byte and NS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// No more data from sender.
    pub const FIN: u16 = 0x01;
    /// Synchronize sequence numbers.
    pub const SYN: u16 = 0x02;
    /// Reset the connection.
    pub const RST: u16 = 0x04;
    /// Push.
    pub const PSH: u16 = 0x08;
    /// The acknowledgment number is valid.
    pub const ACK: u16 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u16 = 0x20;
    /// ECN echo.
    pub const ECE: u16 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u16 = 0x80;

    /// Whether any bit of `mask` is set.
    pub fn has(self, mask: u16) -> bool {
        self.0 & mask != 0
    }
}

/// One TCP segment as the packet layer hands it over.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// When the packet that completed it was captured.
    pub time: Time,
    /// That packet (its own, or the last fragment to arrive).
    pub packet: PacketNumber,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Sequence number as sent.
    pub sequence: u32,
    /// Acknowledgment number as sent.
    pub acknowledgment: u32,
    /// Flag bits.
    pub flags: Flags,
    /// Window as sent, not scaled.
    pub window: u16,
    /// The raw options.
    pub options: &'a [u8],
    /// The payload as captured.
    pub payload: &'a [u8],
    /// Payload bytes that the capture cut off behind `payload` (snap length).
    pub missing: u32,
    /// Where the bytes of `payload` stand in packets: one range, or several for a fragmented datagram.
    pub origin: &'a [PacketRange],
}

impl Segment<'_> {
    /// Payload bytes on the wire.
    pub(super) fn length(&self) -> u32 {
        (self.payload.len() as u32).saturating_add(self.missing)
    }

    /// Whether it could be a keep-alive probe, which may come "containing one garbage octet" (RFC 9293 section 3.8.4).
    /// A byte that an application sent alone carries PSH.
    pub(super) fn could_be_probe(&self) -> bool {
        self.length() <= 1 && !self.flags.has(Flags::PSH | Flags::SYN | Flags::FIN | Flags::RST)
    }
}

/// What a SYN offered (RFC 9293, 7323, 2018).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size.
    pub mss: Option<u16>,
    /// Window scale: the shift count.
    pub window_scale: Option<u8>,
    /// Selective acknowledgment permitted.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: bool,
}

impl Options {
    /// Reads the option list of a SYN; stops where the list contradicts itself and keeps what came before.
    pub fn read(mut list: &[u8]) -> Options {
        let mut options = Options::default();
        // Kind 0 ends the list, kind 1 is padding, every other kind has a length that counts kind and length too
        // (RFC 9293 section 3.1).
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
                // "If a Window Scale option is received with a shift.cnt value larger than 14, the TCP SHOULD log the error
                // but MUST use 14" (RFC 7323 section 2.3).
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
        let expected = Options { mss: Some(1460), window_scale: Some(7), sack_permitted: true, timestamps: true };
        assert_eq!(Options::read(&linux), expected);
        for cut in 0..linux.len() {
            Options::read(&linux[..cut]);
        }
        assert_eq!(Options::read(&[4, 2, 2, 0, 3, 3, 1]), Options { sack_permitted: true, ..Options::default() });
        assert_eq!(Options::read(&[0, 4, 2]), Options::default(), "behind the end of the list");
        assert_eq!(Options::read(&[3, 3, 200]).window_scale, Some(14));
    }
}
