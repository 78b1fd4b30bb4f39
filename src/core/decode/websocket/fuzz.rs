//! The body of the fuzz target for WebSocket.

use super::{Deflate, WebSocket, WebSocketEvent};
use crate::capture::Limits;
use crate::decode::{Direction, Piece};

/// Decodes one direction of a connection, with and without compression, and from its middle. `data`
/// is a script. An
/// even byte below 16 is a gap of half that length. Any other byte is the number of stream bytes
/// that follow it.
///
/// Checks that cutting changes nothing. The ranges of a message must be inside the stream and in
/// order, and copied ranges must equal the message. Memory must stay within the limit.
///
/// # Panics
///
/// Panics if one of these does not hold.
pub fn fuzz_websocket(data: &[u8]) {
    for (direction, extensions) in [
        (Direction::ClientToServer, "permessage-deflate"),
        (Direction::ServerToClient, "permessage-deflate; server_no_context_takeover"),
        (Direction::ServerToClient, ""),
        (Direction::ClientToServer, MIDWAY),
        (Direction::ServerToClient, MIDWAY),
    ] {
        let whole = run(data, direction, extensions, usize::MAX);
        assert_eq!(whole, run(data, direction, extensions, 1), "byte by byte");
        assert_eq!(whole, run(data, direction, extensions, 5), "cut");
    }
}

/// In the place of extensions: the upgrade was not captured.
const MIDWAY: &str = "midway";

fn run(mut data: &[u8], direction: Direction, extensions: &str, size: usize) -> Vec<String> {
    let limits = Limits { message: 500, ..Limits::default() };
    let mut decoder = match extensions {
        MIDWAY => WebSocket::midway(limits, [0; 2]),
        _ => WebSocket::new(limits, [0; 2], Deflate::agreed(extensions)),
    };
    let mut emitted = Vec::new();
    let mut stream: Vec<u8> = Vec::new();
    let mut end = 0;
    while let Some((step, rest)) = data.split_first() {
        let pieces: Vec<Piece<'_>> = if step % 2 == 0 && *step < 16 {
            data = rest;
            vec![Piece::Gap(u64::from(*step) / 2)]
        } else {
            let (sent, behind) = rest.split_at(usize::from(*step).min(rest.len()));
            data = behind;
            sent.chunks(size).map(Piece::Data).collect()
        };
        for piece in pieces {
            match piece {
                Piece::Data(bytes) => stream.extend_from_slice(bytes),
                Piece::Gap(length) => stream.resize(stream.len() + length as usize, 0),
                Piece::End(_) => {}
            }
            decoder.push(direction, piece, &mut |event| {
                if let WebSocketEvent::Message { bytes, payloads, .. } = &event {
                    let mut at = 0;
                    for payload in *payloads {
                        assert!(end <= payload.range.start && payload.range.end <= stream.len() as u64, "{payload:?}");
                        end = payload.range.end;
                        let part = &bytes[at..at + payload.length as usize];
                        assert!(!payload.is_copied || &stream[payload.range.start as usize..end as usize] == part);
                        at += part.len();
                    }
                    assert_eq!(at, bytes.len());
                }
                emitted.push(format!("{event:?}"));
            });
            assert!(decoder.buffered_bytes() <= limits.message && decoder.low_water(direction) <= stream.len() as u64);
        }
    }
    emitted
}
