//! Frames of HTTP/2 (RFC 9113 section 4): their heads, and the checks of a head.

use nom::combinator::map;
use nom::number::streaming::{be_u8, be_u24, be_u32};
use nom::{IResult, Parser};

use crate::decode::Direction;

/// Bytes of a frame's head.
pub(super) const HEAD: usize = 9;

/// The first bytes that a client sends (RFC 9113 section 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The largest payload until SETTINGS allow more (RFC 9113 section 6.5.2: "The initial value is
/// 2^14").
pub(super) const MAX_FRAME_SIZE: u32 = 1 << 14;

/// Types of frames (RFC 9113 section 6; RFC 7838 section 4 and RFC 9218 section 7.1 for the last
/// two).
pub(super) mod kind {
    pub(in super::super) const DATA: u8 = 0;
    pub(in super::super) const HEADERS: u8 = 1;
    pub(in super::super) const PRIORITY: u8 = 2;
    pub(in super::super) const RST_STREAM: u8 = 3;
    pub(in super::super) const SETTINGS: u8 = 4;
    pub(in super::super) const PUSH_PROMISE: u8 = 5;
    pub(in super::super) const PING: u8 = 6;
    pub(in super::super) const GOAWAY: u8 = 7;
    pub(in super::super) const WINDOW_UPDATE: u8 = 8;
    pub(in super::super) const CONTINUATION: u8 = 9;
    pub(in super::super) const ALTSVC: u8 = 10;
    pub(in super::super) const PRIORITY_UPDATE: u8 = 16;
}

/// Flags of frames.
pub(super) mod flag {
    pub(in super::super) const END_STREAM: u8 = 0x1;
    pub(in super::super) const ACK: u8 = 0x1;
    pub(in super::super) const END_HEADERS: u8 = 0x4;
    pub(in super::super) const PADDED: u8 = 0x8;
    pub(in super::super) const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Bytes of the payload.
    pub(super) length: u32,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// The number of the stream; 0 means the connection.
    pub(super) stream: u32,
    /// The reserved bit. "The value of a reserved bit ... MUST be ignored when receiving". It only
    /// matters where frames are searched.
    reserved: bool,
}

impl FrameHead {
    /// Parses the head of a frame.
    pub(super) fn read(input: &[u8]) -> IResult<&[u8], FrameHead> {
        map((be_u24, be_u8, be_u8, be_u32), |(length, kind, flags, stream)| FrameHead {
            length,
            kind,
            flags,
            stream: stream & 0x7fff_ffff,
            reserved: stream >> 31 != 0,
        })
        .parse(input)
    }

    /// Whether a flag is set.
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The error in a frame's length or stream, by the rules of its type. A frame of an unknown
    /// type has none ("Implementations MUST ignore and discard frames of unknown types", RFC 9113
    /// section 5.5).
    pub(super) fn fault(&self, most: u32) -> Option<&'static str> {
        let (length, stream) = (self.length, self.stream);
        let on_stream = match self.kind {
            kind::DATA
            | kind::HEADERS
            | kind::PRIORITY
            | kind::RST_STREAM
            | kind::PUSH_PROMISE
            | kind::CONTINUATION => stream != 0,
            kind::SETTINGS | kind::PING | kind::GOAWAY | kind::PRIORITY_UPDATE => stream == 0,
            _ => true,
        };
        let fits = match self.kind {
            kind::PRIORITY => length == 5,
            kind::RST_STREAM | kind::WINDOW_UPDATE => length == 4,
            kind::SETTINGS => length % 6 == 0 && (length == 0 || !self.has(flag::ACK)),
            kind::PING => length == 8,
            kind::GOAWAY => length >= 8,
            kind::PUSH_PROMISE | kind::PRIORITY_UPDATE => length >= 4,
            _ => true,
        };
        match () {
            () if length > most => Some("a frame no larger than SETTINGS_MAX_FRAME_SIZE"),
            () if !on_stream => Some("a frame on a stream that its type allows"),
            () if !fits => Some("a frame of a length that its type allows"),
            () => None,
        }
    }

    /// Whether other bytes would hardly look like this head, as required where frames are searched.
    /// Text never does, since its first byte would be the high byte of a length. Other bytes do
    /// once in about 2^30, and two frames in a row are required.
    pub(super) fn is_likely(&self, direction: Direction, most: u32) -> bool {
        let known = match self.kind {
            kind::DATA => flag::END_STREAM | flag::PADDED,
            kind::HEADERS => flag::END_STREAM | flag::END_HEADERS | flag::PADDED | flag::PRIORITY,
            kind::PUSH_PROMISE => flag::END_HEADERS | flag::PADDED,
            kind::CONTINUATION => flag::END_HEADERS,
            kind::SETTINGS | kind::PING => flag::ACK,
            kind::ALTSVC | kind::PRIORITY_UPDATE | kind::PRIORITY | kind::RST_STREAM => 0,
            kind::GOAWAY | kind::WINDOW_UPDATE => 0,
            _ => return false,
        };
        // Streams are counted from 1, so a connection needs hours to reach this one.
        const STREAMS: u32 = 1 << 24;
        let pushes = self.kind == kind::PUSH_PROMISE && direction == Direction::ClientToServer;
        self.flags & !known == 0 && !self.reserved && self.stream < STREAMS && !pushes && self.fault(most).is_none()
    }
}

/// A payload without its padding, and the number of bytes before it (RFC 9113 section 6.1: pad
/// length, then data, then padding).
///
/// # Errors
///
/// "If the length of the padding is the length of the frame payload or greater".
pub(super) fn unpadded<'a>(head: &FrameHead, payload: &'a [u8]) -> Result<(&'a [u8], usize), &'static str> {
    if !head.has(flag::PADDED) {
        return Ok((payload, 0));
    }
    let content = payload.split_first().and_then(|(padding, rest)| {
        let length = rest.len().checked_sub(usize::from(*padding))?;
        rest.get(..length)
    });
    content.map(|content| (content, 1)).ok_or("padding that fits into its frame")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(length: u32, kind: u8, flags: u8, stream: u32) -> FrameHead {
        FrameHead { length, kind, flags, stream, reserved: false }
    }

    #[test]
    fn a_head_is_read_as_drawn_in_the_standard() {
        let bytes = [0, 1, 2, 1, 0x25, 0x80, 0, 0, 3, b'x'];
        let (rest, read) = FrameHead::read(&bytes).expect("it is whole");
        assert_eq!((rest, read), (&b"x"[..], FrameHead { reserved: true, ..head(258, 1, 0x25, 3) }));
        assert!(FrameHead::read(&bytes[..8]).is_err());
    }

    #[test]
    fn types_have_lengths_and_streams() {
        for (frame, fine) in [
            (head(0, kind::DATA, 0, 1), true),
            (head(0, kind::DATA, 0, 0), false),
            (head(6, kind::SETTINGS, 0, 0), true),
            (head(6, kind::SETTINGS, flag::ACK, 0), false),
            (head(7, kind::SETTINGS, 0, 0), false),
            (head(8, kind::PING, 0, 1), false),
            (head(4, kind::WINDOW_UPDATE, 0, 0), true),
            (head(16_385, kind::DATA, 0, 1), false),
            (head(100, 0xbe, 0xff, 7), true),
        ] {
            assert_eq!(frame.fault(MAX_FRAME_SIZE).is_none(), fine, "{frame:?}");
        }
    }

    #[test]
    fn text_is_no_frame() {
        let text = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
        for window in text.windows(HEAD) {
            let (_, head) = FrameHead::read(window).expect("it is whole");
            assert!(!head.is_likely(Direction::ClientToServer, MAX_FRAME_SIZE));
        }
    }

    #[test]
    fn padding_stands_behind_the_content() {
        let padded = head(5, kind::DATA, flag::PADDED, 1);
        assert_eq!(unpadded(&padded, b"\x02ab\0\0"), Ok((&b"ab"[..], 1)));
        assert_eq!(unpadded(&padded, b"\x04\0\0\0\0"), Ok((&b""[..], 1)));
        assert!(unpadded(&padded, b"\x05\0\0\0\0").is_err());
        assert!(unpadded(&padded, b"").is_err());
        assert_eq!(unpadded(&head(2, kind::DATA, 0, 1), b"ab"), Ok((&b"ab"[..], 0)));
    }
}
