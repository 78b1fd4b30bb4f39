//! Packets, as a source observed them.

use std::fmt;

/// The position of a packet in the capture, 1-based. It counts over all files of the capture, as
/// the frame numbers of Wireshark do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketNumber(pub u64);

impl fmt::Display for PacketNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A capture time: nanoseconds since 1970-01-01T00:00:00Z.
///
/// The times in a capture file may be wrong or out of order. Therefore all arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Nanoseconds from `earlier` to this time; negative if the clock went back.
    pub fn since(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The time that many nanoseconds later.
    pub fn plus(self, nanoseconds: i64) -> Time {
        Time(self.0.saturating_add(nanoseconds))
    }
}

/// The format of a packet's first bytes: a number of the LINKTYPE registry
/// (<https://www.tcpdump.org/linktypes.html>), as in pcap and pcapng files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a four-byte protocol family in the byte order of the capturing machine.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet II and IEEE 802.3.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP, with or without HDLC framing.
    pub const PPP: LinkType = LinkType(9);
    /// PPP in HDLC framing, or Cisco HDLC.
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPPoE without the Ethernet header.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// HDLC as Cisco routers send it.
    pub const CISCO_HDLC: LinkType = LinkType(104);
    /// IEEE 802.11.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// Frame Relay (ITU-T Q.922).
    pub const FRAME_RELAY: LinkType = LinkType(107);
    /// IEEE 802.11 with a radiotap header in front.
    pub const IEEE802_11_RADIOTAP: LinkType = LinkType(127);
    /// Raw IPv4 or IPv6. The version nibble distinguishes them.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback: a four-byte protocol family in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture, version 1 (`-i any`).
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// A chunk of a pipe between an MCP host and its STDIO server, in the format of
    /// [`crate::capture::pipe`]. The number is LINKTYPE_USER0, which is reserved for private use.
    pub const PIPE: LinkType = LinkType(147);
    /// Raw IPv4 without a link header.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6 without a link header.
    pub const IPV6: LinkType = LinkType(229);
    /// A unit of some protocol, and the name of the dissector that Wireshark gives it to.
    pub const UPPER_PDU: LinkType = LinkType(252);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}

/// One observed packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The position in the capture.
    pub number: PacketNumber,
    /// The capture time.
    pub time: Time,
    /// The format of its first bytes.
    pub link: LinkType,
    /// The interface that captured it: the position of its description in the capture.
    pub interface: u32,
    /// Bytes transmitted. More than `data.len()` if a snap length cut the packet.
    pub original_length: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}
