//! Recognises a frame by its own bytes, where the beginning of the connection was not captured.

use super::frame::{FrameHead, TEXT};
use crate::decode::Direction;

/// The bytes that decide. At least 18 of them are payload, and 14 of those are not free to be
/// anything under some masking key.
const DECISIVE: usize = 32;

/// The shortest payload: a message of JSON-RPC has more than 30 bytes.
const SHORTEST: u64 = 20;

/// The first members of JSON-RPC messages, in the order that peers write them.
const MEMBERS: [&[u8]; 6] =
    [b"{\"jsonrpc\"", b"{\"id\"", b"{\"method\"", b"{\"params\"", b"{\"result\"", b"{\"error\""];

/// Whether these bytes are certainly the beginning of a frame with a message of JSON-RPC, and in
/// which direction: only clients mask. `None`: no. `Some(None)`: more bytes are needed, at most 32.
pub fn sniff(bytes: &[u8]) -> Option<Option<Direction>> {
    // The only fragment of a text, not compressed.
    if bytes.first().is_some_and(|first| *first != 0x80 | TEXT) {
        return None;
    }
    let Ok((payload, head)) = FrameHead::read(bytes) else { return Some(None) };
    if head.length < SHORTEST || head.violation(false).is_some() {
        return None;
    }
    let wanted = (DECISIVE - (bytes.len() - payload.len())).min(usize::try_from(head.length).unwrap_or(usize::MAX));
    let payload = &payload[..payload.len().min(wanted)];
    let mut text = [0; DECISIVE];
    let key = head.key.unwrap_or_default().into_iter().cycle();
    text.iter_mut().zip(payload.iter().zip(key)).for_each(|(text, (byte, key))| *text = byte ^ key);
    let text = &text[..payload.len()];
    let begins = |member: &&[u8]| member.starts_with(&text[..text.len().min(member.len())]);
    if !MEMBERS.iter().any(begins) || text.iter().any(|byte| *byte < b' ') {
        return None;
    }
    let direction = if head.key.is_some() { Direction::ClientToServer } else { Direction::ServerToClient };
    Some((text.len() == wanted).then_some(direction))
}

#[cfg(test)]
mod tests {
    use super::super::tests::frame;
    use super::*;

    const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    const KEY: Option<[u8; 4]> = Some([0x9a, 1, 0x7f, 0x22]);

    #[test]
    fn frames_with_messages_are_recognised_and_nothing_else() {
        const CLIENT: Option<Option<Direction>> = Some(Some(Direction::ClientToServer));
        const SERVER: Option<Option<Direction>> = Some(Some(Direction::ServerToClient));
        let long = [br#"{"result":{"text":""#.as_slice(), &[b'x'; 300]].concat();
        for (bytes, expected) in [
            (frame(0x81, KEY, PING), CLIENT),
            (frame(0x81, None, PING), SERVER),
            (frame(0x81, KEY, &long), CLIENT),
            (frame(0x81, None, &long), SERVER),
            (frame(0x81, KEY, &[&long[..], &[b'y'; 70_000]].concat()), CLIENT),
            (frame(0xc1, KEY, PING), None),
            (frame(0x01, KEY, PING), None),
            (frame(0x82, None, PING), None),
            (frame(0x81, None, b"{\"id\":1}"), None),
            (frame(0x81, None, br#"{"name":"x","jsonrpc":"2.0","id":1}"#), None),
            (frame(0x81, None, b"{\"jsonrpc\"\n\0\0\0\0\0\0\0\0\0\0\0\0\0"), None),
            (b"\x81".to_vec(), Some(None)),
            (b"POST / HTTP/1.1\r\n".to_vec(), None),
        ] {
            let verdicts: Vec<_> = (1..=bytes.len().min(40)).map(|end| sniff(&bytes[..end])).collect();
            assert_eq!(verdicts.last(), Some(&expected), "{bytes:02x?}");
            let decided = verdicts.iter().position(|verdict| *verdict != Some(None)).unwrap_or(verdicts.len());
            assert!(verdicts[decided..].windows(2).all(|pair| pair[0] == pair[1]), "{verdicts:?}");
        }
    }
}
