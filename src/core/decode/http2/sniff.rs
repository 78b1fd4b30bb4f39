//! Recognises HTTP/2 by the first bytes of a direction.

use super::frame::{FrameHead, HEAD, MAX_FRAME_SIZE, PREFACE, flag, kind};
use crate::decode::Direction;

/// Whether these bytes begin HTTP/2. `Some(Some(direction))`: yes, and the direction in which they
/// flow. `Some(None)`: more bytes are needed, at most 24. `None`: no.
///
/// A client begins with its preface, a server with SETTINGS on the connection (RFC 9113 section
/// 3.4). Midway, a HEADERS frame that begins with a method or a status is accepted too.
pub fn sniff(bytes: &[u8]) -> Option<Option<Direction>> {
    if PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())]) {
        let whole = bytes.len() >= PREFACE.len();
        return Some(whole.then_some(Direction::ClientToServer));
    }
    let Ok((payload, head)) = FrameHead::read(bytes) else {
        // Accepted lengths begin with a zero byte, and only these two types are of interest.
        let kinds = [kind::HEADERS, kind::SETTINGS];
        let begins =
            bytes.first().is_none_or(|byte| *byte == 0) && bytes.get(3).is_none_or(|byte| kinds.contains(byte));
        return begins.then_some(None);
    };
    match head.kind {
        // RFC 9113 defines six parameters, and extensions a dozen.
        kind::SETTINGS if head.length <= 6 * 16 && head.flags == 0 && head.fault(MAX_FRAME_SIZE).is_none() => {
            Some(Some(Direction::ServerToClient))
        }
        kind::HEADERS if head.is_likely(Direction::ClientToServer, MAX_FRAME_SIZE) && head.has(flag::END_HEADERS) => {
            let before = usize::from(head.has(flag::PADDED)) + if head.has(flag::PRIORITY) { 5 } else { 0 };
            debug_assert!(HEAD + before < PREFACE.len());
            match payload.get(before) {
                None => Some(None),
                // RFC 7541 appendix A: 2 and 3 are methods, 8 to 14 are statuses. Other methods,
                // such as CONNECT, are literals with the name of these entries.
                Some(0x82 | 0x83 | 0x42 | 0x43) => Some(Some(Direction::ClientToServer)),
                Some(0x88..=0x8e) => Some(Some(Direction::ServerToClient)),
                Some(_) => None,
            }
        }
        _ => None,
    }
}

/// The content of a DATA frame that may begin here, as far as these bytes go. `None`: it is none.
///
/// A connection with a long event stream may carry nothing else. The content shows whether it is
/// such a stream.
pub fn sniff_data(bytes: &[u8]) -> Option<&[u8]> {
    let Ok((payload, head)) = FrameHead::read(bytes) else {
        let begins = bytes.first() == Some(&0) && bytes.get(3).is_none_or(|kind| *kind == kind::DATA);
        return begins.then_some(&[]);
    };
    let is_data = head.kind == kind::DATA && head.flags & !flag::END_STREAM == 0 && head.stream % 2 == 1;
    let is_sound = head.length > 0 && head.fault(MAX_FRAME_SIZE).is_none();
    (is_data && is_sound).then(|| &payload[..payload.len().min(head.length as usize)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_what_begins() {
        const CLIENT: Option<Option<Direction>> = Some(Some(Direction::ClientToServer));
        const SERVER: Option<Option<Direction>> = Some(Some(Direction::ServerToClient));
        for (bytes, expected) in [
            (&b""[..], Some(None)),
            (b"PRI * HTTP/2.0\r\n", Some(None)),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0", CLIENT),
            (b"PRI * HTTP/1.1\r\n", None),
            (b"POST / HTTP/1.1\r\n", None),
            (b"\0\0", Some(None)),
            (b"\0\0\x12\x04\0\0\0\0\0", SERVER),
            (b"\0\0\0\x04\0\0\0\0\0", SERVER),
            (b"\0\0\0\x04\x01\0\0\0\0", None),
            (b"\0\0\x11\x04\0\0\0\0\0", None),
            (b"\0\0\x12\x04\0\0\0\0\x01", None),
            (b"\0\0\x20\x01\x04\0\0\0\x05\x83", CLIENT),
            (b"\0\0\x20\x01\x25\0\0\0\x05\x80\0\0\0\xff\x82", CLIENT),
            (b"\0\0\x20\x01\x04\0\0\0\x05\x42", CLIENT),
            (b"\0\0\x20\x01\x04\0\0\0\x05\x88", SERVER),
            (b"\0\0\x20\x01\x04\0\0\0\x05\xbe", None),
            (b"\0\0\x20\x01\x04\0\0\0\x05", Some(None)),
            (b"\x16\x03\x01", None),
            (b"\0\0\0\x54\xffSMB", None),
        ] {
            assert_eq!(sniff(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn content_of_data_is_found() {
        for (bytes, expected) in [
            (&b""[..], None),
            (b"\0", Some(&b""[..])),
            (b"\0\0\x05\0\0\0\0\0", Some(b"")),
            (b"\0\0\x05\0\0\0\0\0\x03da", Some(b"da")),
            (b"\0\0\x05\0\x01\0\0\0\x03data:\0\0", Some(b"data:")),
            (b"\0\0\x05\0\x08\0\0\0\x03\x01", None),
            (b"\0\0\x05\0\0\0\0\0\x02data:", None),
            (b"\0\0\x05\x01\0\0\0\0\x03data:", None),
            (b"POST /", None),
        ] {
            assert_eq!(sniff_data(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn more_bytes_never_turn_a_verdict() {
        for bytes in [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0"[..],
            b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64",
            b"\0\0\x05\x01\x05\0\0\0\x01\x88",
        ] {
            let verdicts: Vec<_> = (0..=bytes.len()).map(|end| sniff(&bytes[..end])).collect();
            let decided = verdicts.iter().position(|verdict| *verdict != Some(None)).unwrap_or(verdicts.len());
            assert!(verdicts[decided..].windows(2).all(|pair| pair[0] == pair[1]), "{bytes:?}: {verdicts:?}");
        }
    }
}
