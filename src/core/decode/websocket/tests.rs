use proptest::prelude::*;

use super::*;
use crate::decode::Anomaly;

/// A frame with this first byte. With a key, its payload is masked.
pub(super) fn frame(first: u8, key: Option<[u8; 4]>, payload: &[u8]) -> Vec<u8> {
    let masked = if key.is_some() { 0x80 } else { 0 };
    let mut frame = match payload.len() {
        length @ ..126 => vec![first, masked | length as u8],
        length @ ..0x1_0000 => [&[first, masked | 126], &(length as u16).to_be_bytes()[..]].concat(),
        length => [&[first, masked | 127], &(length as u64).to_be_bytes()[..]].concat(),
    };
    frame.extend(key.into_iter().flatten());
    let mask = key.unwrap_or_default().into_iter().cycle();
    frame.extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    frame
}

/// The output for the pieces of one direction. It must be the same byte by byte.
fn emitted(direction: Direction, extensions: &str, pieces: &[Piece<'_>]) -> Vec<String> {
    let run = |size: usize| {
        let mut emitted = Vec::new();
        let mut decoder = WebSocket::new(Limits::default(), [0; 2], Deflate::agreed(extensions));
        let mut push = |piece| {
            decoder.push(direction, piece, &mut |event| match event {
                WebSocketEvent::Message { bytes, .. } => emitted.push(String::from_utf8_lossy(bytes).into_owned()),
                WebSocketEvent::Anomaly { anomaly, .. } => emitted.push(format!("{anomaly:?}")),
            });
        };
        for piece in pieces {
            match piece {
                Piece::Data(bytes) => bytes.chunks(size).map(Piece::Data).for_each(&mut push),
                piece => push(*piece),
            }
        }
        emitted
    };
    let whole = run(usize::MAX);
    assert_eq!(whole, run(1), "byte by byte");
    whole
}

const SERVER: Direction = Direction::ServerToClient;
const KEY: Option<[u8; 4]> = Some([1, 2, 3, 4]);

#[test]
fn the_examples_of_the_standard() {
    // RFC 6455 section 5.7.
    let hello = [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    assert_eq!(emitted(SERVER, "", &[Piece::Data(&hello)]), ["Hello"]);
    let masked = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
    assert_eq!(emitted(Direction::ClientToServer, "", &[Piece::Data(&masked)]), ["Hello"]);
    let fragments = [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
    assert_eq!(emitted(SERVER, "", &[Piece::Data(&fragments)]), ["Hello"]);
    // RFC 7692 section 7.2.3: one frame, two frames, the previous message's window, a stored block,
    // and a block with BFINAL.
    let agreed = "permessage-deflate; server_max_window_bits=10";
    let compressed = [0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let shared = [0xc1, 0x05, 0xf2, 0x00, 0x11, 0x00, 0x00];
    assert_eq!(emitted(SERVER, agreed, &[Piece::Data(&[&compressed[..], &shared].concat())]), ["Hello", "Hello"]);
    let two = [0x41, 0x03, 0xf2, 0x48, 0xcd, 0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00];
    assert_eq!(emitted(SERVER, agreed, &[Piece::Data(&two)]), ["Hello"]);
    let stored = [0xc1, 0x0b, 0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00];
    assert_eq!(emitted(SERVER, agreed, &[Piece::Data(&stored)]), ["Hello"]);
    let last = [0xc1, 0x08, 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
    assert_eq!(emitted(SERVER, agreed, &[Piece::Data(&last)]), ["Hello"]);
}

#[test]
fn control_frames_between_fragments_and_frames_after_a_close() {
    let frames = [
        frame(0x01, KEY, b"one "),
        frame(0x89, KEY, b"ping"),
        frame(0x00, KEY, b""),
        frame(0x80, KEY, b"two"),
        frame(0x82, KEY, &[b'x'; 70_000]),
        frame(0x88, KEY, &[3, 232]),
        frame(0x81, KEY, b"late"),
    ];
    let emitted = emitted(Direction::ClientToServer, "", &[Piece::Data(&frames.concat())]);
    assert_eq!((emitted.len(), emitted[0].as_str(), emitted[1].len()), (2, "one two", 70_000));
}

#[test]
fn a_gap_in_a_payload_costs_its_message_and_those_that_refer_to_it() {
    let (first, second) = (frame(0x81, None, b"a message"), frame(0x81, None, b"another"));
    let pieces = [Piece::Data(&first[..4]), Piece::Gap(3), Piece::Data(&first[7..]), Piece::Data(&second)];
    assert_eq!(emitted(SERVER, "", &pieces), ["another"]);
    let shared = [0xc1, 0x05, 0xf2, 0x00, 0x11, 0x00, 0x00];
    let pieces = [Piece::Data(&[0xc1, 0x07, 0xf2]), Piece::Gap(6), Piece::Data(&shared), Piece::Data(&second)];
    let emitted_after = emitted(SERVER, "permessage-deflate", &pieces);
    assert_eq!(emitted_after, ["Skipped { offset: 11, length: 5 }", "another"]);
    let whole = [0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let pieces = [Piece::Data(&[0xc1, 0x07, 0xf2]), Piece::Gap(6), Piece::Data(&whole)];
    assert_eq!(emitted(SERVER, "permessage-deflate; server_no_context_takeover", &pieces), ["Hello"]);
}

/// A message of JSON-RPC. Its frame is certain.
const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

#[test]
fn after_a_lost_frame_head_the_next_certain_frame_is_found() {
    let (first, second) = (frame(0x81, None, b"a message"), frame(0x81, None, b"another"));
    let (ping, text) = (frame(0x81, None, PING), String::from_utf8_lossy(PING));
    let skipped = |offset: u64, length: usize| format!("Skipped {{ offset: {offset}, length: {length} }}");
    let found = |offset, length| [skipped(offset, length), text.to_string(), "another".to_owned()];
    let pieces =
        [Piece::Data(&first[..4]), Piece::Gap(8), Piece::Data(&second), Piece::Data(&ping), Piece::Data(&second)];
    assert_eq!(emitted(SERVER, "", &pieces), found(12, second.len()));
    // Only a frame of this direction is one.
    let pieces = [&pieces[..2], &[Piece::Data(&frame(0x81, KEY, PING)), Piece::End(crate::decode::Ending::Finished)]];
    assert_eq!(emitted(SERVER, "", &pieces.concat()), [skipped(12, PING.len() + 6)]);
    for bytes in [&b"\xc1\x01x"[..], b"\x83\x01x", b"\x80\x01x", b"\x09\x01x", b"\x91\x01x", b"\x01\x01x\x81\x01x"] {
        let emitted = emitted(SERVER, "", &[Piece::Data(bytes), Piece::Data(&ping), Piece::Data(&second)]);
        let begin = if bytes.len() > 3 { 3 } else { 0 };
        assert!(emitted[0].starts_with("NotWebSocket"), "{bytes:?} {emitted:?}");
        assert_eq!(emitted[1..], found(begin, bytes.len() - begin as usize), "{bytes:?}");
    }
}

#[test]
fn a_websocket_is_joined_in_its_middle() {
    let compressed = [0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
    let stream = [&b"\x81 rest of a frame"[..], &frame(0x81, KEY, PING), &compressed, &frame(0x81, KEY, b"short")];
    let mut decoder = WebSocket::midway(Limits::default(), [100; 2]);
    let mut emitted = Vec::new();
    decoder.push(Direction::ClientToServer, Piece::Data(&stream.concat()), &mut |event| match event {
        WebSocketEvent::Message { bytes, payloads, .. } => {
            emitted.push(format!("{} {:?}", bytes.len(), payloads[0].range))
        }
        WebSocketEvent::Anomaly { anomaly, .. } => emitted.push(format!("{anomaly:?}")),
    });
    // What is compressed may refer to a message from before the capture.
    let skipped =
        ["Skipped { offset: 100, length: 17 }", "40 123..163", "Skipped { offset: 165, length: 7 }", "5 178..183"];
    assert_eq!(emitted, skipped);
}

#[test]
fn a_bomb_is_stopped() {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, &vec![0; 8 << 20]).expect("memory takes it");
    let bomb = encoder.finish().expect("memory takes it");
    let limits = Limits { inflate_ratio: 10, ..Limits::default() };
    let mut decoder = WebSocket::new(limits, [0; 2], Deflate::agreed("permessage-deflate"));
    let mut limited = false;
    decoder.push(SERVER, Piece::Data(&frame(0xc1, None, &bomb)), &mut |event| {
        let WebSocketEvent::Anomaly { anomaly, .. } = event else { panic!("{event:?}") };
        limited = matches!(anomaly, Anomaly::LimitReached { limit: "inflate_ratio", .. });
    });
    assert!(limited);
}

#[test]
fn compression_that_a_server_accepts() {
    assert_eq!(Deflate::agreed(""), None);
    assert_eq!(Deflate::agreed("x-webkit-deflate-frame"), None);
    let both = "foo, permessage-deflate; Client_No_Context_Takeover ;server_no_context_takeover";
    assert_ne!(Deflate::agreed(both), Deflate::agreed("permessage-deflate"));
    assert_ne!(Deflate::agreed(both), Deflate::agreed("permessage-deflate; client_no_context_takeover"));
}

proptest! {
    #[test]
    fn any_bytes(data: Vec<u8>) {
        fuzz_websocket(&data);
    }

    #[test]
    fn frames_with_holes(steps in prop::collection::vec((prop::sample::select(&[0x81u8, 0x01, 0x80, 0x00, 0xc1, 0x41, 0x89, 0x88][..]),
        prop::option::of(any::<[u8; 4]>()),
        prop_oneof![prop::collection::vec(any::<u8>(), 0..9), Just(PING.to_vec())], prop::option::of(0u8..8)), 0..12)) {
        let mut script = Vec::new();
        for (first, key, payload, gap) in steps {
            let frame = frame(first, key, &payload);
            // The length byte may be one too large. Then the frame takes the first byte of
            // the next step.
            script.push(frame.len() as u8 | 1);
            script.extend(frame);
            script.extend(gap.map(|length| length * 2));
        }
        fuzz_websocket(&script);
    }
}
