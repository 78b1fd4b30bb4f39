//! The bytes of the fields of headers, so that a view can light them.

use std::ops::Range;

use super::headers::Header;

/// A field, and the first byte in the header and the one after the last.
type FieldPlace = (&'static str, u32, u32);

/// The end of the header.
const END: u32 = u32::MAX;

/// The fields of each protocol. Bits share the bytes that contain them.
const PLACES: &[(&str, &[FieldPlace])] = &[
    ("Ethernet II", &[("destination", 0, 6), ("source", 6, 12), ("type", 12, 14), ("length", 12, 14)]),
    ("802.2 SNAP", &[("type", 6, 8)]),
    ("BSD loopback", &[("family", 0, 4)]),
    ("Linux cooked v1", &[("packet type", 0, 2), ("device type", 2, 4), ("source", 6, 14), ("protocol", 14, 16)]),
    (
        "Linux cooked v2",
        &[
            ("protocol", 0, 2),
            ("interface index", 4, 8),
            ("device type", 8, 10),
            ("packet type", 10, 11),
            ("source", 12, 20),
        ],
    ),
    ("802.1Q", &[("identifier", 0, 2), ("priority", 0, 1), ("drop eligible", 0, 1), ("type", 2, 4)]),
    ("MPLS", &[("label", 0, 3), ("traffic class", 2, 3), ("bottom of stack", 2, 3), ("time to live", 3, 4)]),
    (
        "IPv4",
        &[
            ("source", 12, 16),
            ("destination", 16, 20),
            ("header length", 0, 1),
            ("dscp", 1, 2),
            ("ecn", 1, 2),
            ("total length", 2, 4),
            ("identification", 4, 6),
            ("flags", 6, 7),
            ("fragment offset", 6, 8),
            ("time to live", 8, 9),
            ("protocol", 9, 10),
            ("header checksum", 10, 12),
            ("options", 20, END),
        ],
    ),
    (
        "IPv6",
        &[
            ("source", 8, 24),
            ("destination", 24, 40),
            ("dscp", 0, 2),
            ("ecn", 1, 2),
            ("flow label", 1, 4),
            ("payload length", 4, 6),
            ("next header", 6, 7),
            ("hop limit", 7, 8),
        ],
    ),
    ("UDP", &[("source port", 0, 2), ("destination port", 2, 4), ("length", 4, 6), ("checksum", 6, 8)]),
    (
        "TCP",
        &[
            ("source port", 0, 2),
            ("destination port", 2, 4),
            ("sequence number (raw)", 4, 8),
            ("relative sequence number", 4, 8),
            ("acknowledgment number (raw)", 8, 12),
            ("relative acknowledgment number", 8, 12),
            ("header length", 12, 13),
            ("flags", 12, 14),
            ("window", 14, 16),
            ("window in bytes", 14, 16),
            ("checksum", 16, 18),
            ("urgent pointer", 18, 20),
            ("options", 20, END),
        ],
    ),
];

impl Header {
    /// The range of a field's bytes in the packet's data; the whole header if its place is unknown.
    pub fn field_range(&self, field: &str) -> Range<u32> {
        let whole = self.start..self.end;
        let fields =
            PLACES.iter().find(|(protocol, _)| *protocol == self.protocol).map_or(&[][..], |(_, fields)| fields);
        let Some((_, start, end)) = fields.iter().find(|(name, ..)| *name == field) else { return whole };
        let end = if *end == END { self.end } else { self.start + end };
        let range = self.start + start..end;
        if range.start < range.end && range.end <= self.end { range } else { whole }
    }
}
