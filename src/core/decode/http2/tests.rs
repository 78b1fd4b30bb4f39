//! Conversations: the bytes of each side, and the events of the decoder.

mod laws;
mod loss;

use super::frame::{PREFACE, flag, kind};
use super::*;
use crate::decode::Ending;
use crate::decode::http::StartLine;

pub(super) const CLIENT: Direction = Direction::ClientToServer;
pub(super) const SERVER: Direction = Direction::ServerToClient;

/// The flag of a head that is complete, and that of the last frame of a stream.
pub(super) const WHOLE: u8 = flag::END_HEADERS;
pub(super) const LAST: u8 = flag::END_STREAM;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

pub(super) fn headers(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flags, stream, block)
}

pub(super) fn data(flags: u8, stream: u32, content: &str) -> Vec<u8> {
    frame(kind::DATA, flags, stream, content.as_bytes())
}

/// A field that is not indexed.
pub(super) fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

/// `POST /mcp`; its path becomes an entry of the table.
pub(super) const POST: &[u8] = b"\x83\x44\x04/mcp";
/// The block of a response with status 200.
pub(super) const OK: &[u8] = b"\x88";

/// Events as lines, such as `3> POST /mcp`, `3< 200`, `3< 'text'`, `3< end`.
#[derive(Default)]
pub(super) struct EventLines {
    lines: Vec<String>,
    streams: std::collections::HashMap<ExchangeIndex, u32>,
}

impl EventLines {
    pub(super) fn add(&mut self, event: HttpEvent<'_>) {
        let streams = &mut self.streams;
        let at = |exchange: ExchangeIndex, direction| {
            let arrow = if direction == CLIENT { '>' } else { '<' };
            format!("{}{arrow}", streams.get(&exchange).copied().unwrap_or_default())
        };
        let line = match event {
            HttpEvent::Head { exchange, direction, stream, head } => {
                self.streams.insert(exchange, stream.unwrap_or_default());
                let start = match &head.start {
                    StartLine::Request { method, target } => format!("{method} {target}"),
                    StartLine::Response { status, .. } => status.to_string(),
                };
                let known: [&[u8]; 5] = [b":method", b":path", b":scheme", b":authority", b":status"];
                let is_shown = |name: &[u8]| !known.contains(&name) || (direction == SERVER && name == b":path");
                let fields = head.fields().filter(|(name, _)| is_shown(name));
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                let fields: String = fields.map(|(name, value)| format!(" {}={}", text(name), text(value))).collect();
                let arrow = if direction == CLIENT { '>' } else { '<' };
                format!("{}{arrow} {start}{fields}", stream.unwrap_or_default())
            }
            HttpEvent::Content { exchange, direction, bytes, .. } => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                let place = format!("{} ", at(exchange, direction));
                if let Some(last) = self.lines.last_mut().filter(|last| last.starts_with(&format!("{place}'"))) {
                    last.pop();
                    *last += &format!("{text}'");
                    return;
                }
                format!("{place}'{text}'")
            }
            HttpEvent::ContentGap { exchange, direction, length } => {
                format!("{} gap {length:?}", at(exchange, direction))
            }
            HttpEvent::End { exchange, direction, complete, ending } => {
                let how = if complete { "end".to_owned() } else { format!("broken off ({ending:?})") };
                format!("{} {how}", at(exchange, direction))
            }
            HttpEvent::Secret { direction, range, mask } => {
                let mut byte = [0];
                mask.untagged().cover(&mut byte);
                format!("secret {direction:?} {range:?} {:02x}", byte[0])
            }
            HttpEvent::Anomaly { anomaly, .. } => format!("{anomaly:?}"),
            other => format!("{other:?}"),
        };
        self.lines.push(line);
    }
}

/// The events of a conversation.
pub(super) fn decode_pieces(pieces: &[(Direction, Piece<'_>)]) -> Vec<String> {
    let mut decoder = Http2::new(Limits::default());
    let mut events = EventLines::default();
    for (direction, piece) in pieces {
        decoder.push(*direction, *piece, &mut |event| events.add(event));
    }
    events.lines
}

/// The events of a conversation in turns, which are the same whole and byte by byte.
pub(super) fn decode_turns(turns: &[(Direction, &[Vec<u8>])]) -> Vec<String> {
    let mut sent: Vec<(Direction, Vec<u8>)> = vec![(CLIENT, PREFACE.to_vec())];
    sent.extend(turns.iter().map(|(direction, frames)| (*direction, frames.concat())));
    let whole: Vec<_> = sent.iter().map(|(direction, bytes)| (*direction, Piece::Data(bytes))).collect();
    let bytes = |(direction, bytes): &'_ (Direction, Vec<u8>)| {
        bytes.iter().map(|byte| (*direction, [*byte])).collect::<Vec<_>>()
    };
    let cut: Vec<(Direction, [u8; 1])> = sent.iter().flat_map(bytes).collect();
    let cut: Vec<_> = cut.iter().map(|(direction, byte)| (*direction, Piece::Data(byte))).collect();
    let events = decode_pieces(&whole);
    assert_eq!(events, decode_pieces(&cut), "byte by byte");
    events
}

fn settings() -> Vec<u8> {
    frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])
}

#[test]
fn two_calls_at_once() {
    let events = decode_turns(&[
        (CLIENT, &[settings(), headers(WHOLE, 1, POST), data(LAST, 1, "{1}")]),
        (SERVER, &[settings(), frame(kind::SETTINGS, flag::ACK, 0, b"")]),
        (
            CLIENT,
            &[headers(WHOLE, 3, b"\x83\xbe"), frame(kind::WINDOW_UPDATE, 0, 0, &[0, 0, 1, 0]), data(LAST, 3, "{3}")],
        ),
        (
            SERVER,
            &[headers(WHOLE, 3, OK), data(0, 3, "th"), headers(WHOLE, 1, OK), data(0, 1, "on"), data(LAST, 3, "ree")],
        ),
        (SERVER, &[frame(kind::PING, 0, 0, &[0; 8]), data(LAST, 1, "e")]),
    ]);
    assert_eq!(
        events,
        [
            "1> POST /mcp",
            "1> '{1}'",
            "1> end",
            "3> POST /mcp",
            "3> '{3}'",
            "3> end",
            "3< 200",
            "3< 'th'",
            "1< 200",
            "1< 'on'",
            "3< 'ree'",
            "3< end",
            "1< 'e'",
            "1< end"
        ]
    );
}

#[test]
fn padding_priority_and_continuation_leave_the_head_and_the_content() {
    let block = [POST, &literal("accept", "text/event-stream")].concat();
    let (first, second) = block.split_at(5);
    let padded = [&[3, 0x80, 0, 0, 0, 0xff], first, &[0; 3]].concat();
    let events = decode_turns(&[
        (
            CLIENT,
            &[
                headers(flag::PADDED | flag::PRIORITY, 1, &padded),
                frame(kind::CONTINUATION, 0, 1, &second[..2]),
                frame(kind::CONTINUATION, 0, 1, b""),
                frame(kind::CONTINUATION, WHOLE, 1, &second[2..]),
                frame(kind::DATA, flag::PADDED, 1, b"\x02{}\0\0"),
                frame(kind::DATA, flag::PADDED | LAST, 1, b"\x00"),
            ],
        ),
        (CLIENT, &[frame(kind::PRIORITY, 0, 1, &[0; 5]), frame(0xbe, 0xff, 9, b"unknown")]),
    ]);
    assert_eq!(events, ["1> POST /mcp accept=text/event-stream", "1> '{}'", "1> end"]);
}

#[test]
fn interim_responses_and_trailers() {
    let events = decode_turns(&[
        (CLIENT, &[headers(WHOLE, 1, POST), data(0, 1, "{}"), headers(WHOLE | LAST, 1, &literal("checksum", "1"))]),
        (SERVER, &[headers(WHOLE, 1, &literal(":status", "103")), headers(WHOLE, 1, OK), data(0, 1, "[]")]),
        (SERVER, &[headers(WHOLE | LAST, 1, &literal("server-timing", "1"))]),
    ]);
    assert_eq!(events, ["1> POST /mcp", "1> '{}'", "1> end", "1< 103", "1< 200", "1< '[]'", "1< end"]);
}

#[test]
fn what_is_pushed_keeps_the_table_right() {
    let promise = [&2u32.to_be_bytes(), &b"\x82\x44\x05/push"[..]].concat();
    let events = decode_turns(&[
        (CLIENT, &[headers(WHOLE | LAST, 1, POST)]),
        (SERVER, &[frame(kind::PUSH_PROMISE, WHOLE, 1, &promise), headers(WHOLE, 1, b"\x88\x40\x01a\x01b")]),
        (CLIENT, &[frame(kind::RST_STREAM, 0, 2, &8u32.to_be_bytes())]),
        (SERVER, &[data(LAST, 1, "x"), headers(WHOLE | LAST, 2, OK), headers(WHOLE | LAST, 3, b"\x88\xbf\xbe")]),
    ]);
    // The promised path becomes an entry of the table, although it opens no exchange.
    assert_eq!(events[..7], ["1> POST /mcp", "1> end", "1< 200 a=b", "1< 'x'", "1< end", "2< 200", "2< end"]);
    assert_eq!(events[7], "3< 200 :path=/push a=b");
    assert!(events[8].starts_with("ResponseWithoutRequest"), "{events:?}");
}

#[test]
fn a_reset_ends_its_direction_and_says_why_and_what_was_on_its_way_counts() {
    let events = decode_turns(&[
        (CLIENT, &[headers(WHOLE, 1, POST), data(0, 1, "{")]),
        (SERVER, &[headers(WHOLE, 1, OK), frame(kind::RST_STREAM, 0, 1, &2u32.to_be_bytes())]),
        // Sent before the reset was received.
        (CLIENT, &[data(LAST, 1, "}"), headers(WHOLE | LAST, 3, b"\x83\xbe")]),
        (SERVER, &[data(0, 1, "x"), frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 11])]),
    ]);
    assert_eq!(events[..3], ["1> POST /mcp", "1> '{'", "1< 200"]);
    assert!(events[3].starts_with("StreamReset") && events[3].ends_with("stream: 1, code: 2 }"), "{}", events[3]);
    assert_eq!(events[4..9], ["1< broken off (Reset)", "1> '}'", "1> end", "3> POST /mcp", "3> end"]);
    assert!(events[9].starts_with("GoingAway") && events[9].ends_with("code: 11 }"), "{}", events[9]);
}

#[test]
fn who_saw_a_reset_long_ago_sends_nothing_more_on_the_stream() {
    let mut decoder = Http2::new(Limits::default());
    let mut events = EventLines::default();
    let client = [PREFACE.to_vec(), headers(WHOLE | LAST, 1, POST), headers(WHOLE | LAST, 3, b"\x83\xbe")].concat();
    let reset = frame(kind::RST_STREAM, 0, 1, &8u32.to_be_bytes());
    let behind = (client.len() + reset.len()) as u64;
    let much = "x".repeat(16_000);
    let mut send = |decoder: &mut Http2, direction, frames: &[Vec<u8>]| {
        decoder.push(direction, Piece::Data(&frames.concat()), &mut |event| events.add(event));
    };
    send(&mut decoder, CLIENT, &[client]);
    send(&mut decoder, SERVER, &[headers(WHOLE, 1, OK), headers(WHOLE, 3, OK)]);
    send(&mut decoder, CLIENT, &[reset]);
    // Its system has received the reset; it may not have read it.
    decoder.note_acknowledged(SERVER, behind);
    send(&mut decoder, SERVER, &[data(0, 1, "{")]);
    (0..4).for_each(|_| send(&mut decoder, SERVER, &[data(0, 3, &much)]));
    send(&mut decoder, SERVER, &[data(0, 1, "}"), data(0, 3, &much), data(0, 1, "late")]);
    let starts: Vec<&str> = events.lines.iter().map(|line| line.get(..7).unwrap_or(line)).collect();
    assert_eq!(starts[starts.len() - 5..], ["1< '{'", "3< 'xxx", "1< '}'", "3< 'xxx", "1< brok"]);
}

#[test]
fn a_secret_is_named_where_it_stands_even_over_frames() {
    // "authorization: Bearer s3cret", first in plain text over two frames, then as Huffman codes,
    // then from the table.
    let plain = [POST, &literal("authorization", "Bearer s3cret")].concat();
    let cut = plain.len() - 6;
    let coded = [&b"\x83\xbe\x57\x82"[..], &[0x94, 0xe7]].concat();
    let events = decode_turns(&[
        (CLIENT, &[headers(LAST, 1, &plain[..cut]), frame(kind::CONTINUATION, WHOLE, 1, &plain[cut..])]),
        (CLIENT, &[headers(LAST | WHOLE, 3, &coded), headers(LAST | WHOLE, 5, b"\x83\xbf\xbe")]),
    ]);
    let first = PREFACE.len() as u64 + 9;
    let (start, end) = (first + cut as u64 - 7, first + cut as u64);
    let third = end + 9 + 6 + 9 + 4;
    assert_eq!(events[0], format!("secret ClientToServer {start}..{end} 2a"));
    assert_eq!(events[1], format!("secret ClientToServer {}..{} 2a", end + 9, end + 15));
    assert_eq!(events[2], "1> POST /mcp authorization=Bearer s3cret");
    assert_eq!(events[4], format!("secret ClientToServer {third}..{} f9", third + 2));
    assert_eq!(events.iter().filter(|line| line.starts_with("secret")).count(), 3, "an index is no secret");
    assert!(events[7].starts_with("5> POST /mcp authorization="), "{}", events[7]);
}

#[test]
fn floods_meet_limits() {
    let limits = Limits { head: 100, pipelined: 2, ..Limits::default() };
    let mut events = EventLines::default();
    let mut decoder = Http2::new(limits);
    let mut client = |bytes: &[u8]| {
        decoder.push(CLIENT, Piece::Data(bytes), &mut |event| events.add(event));
        assert!(decoder.held().0 <= 200);
    };
    client(PREFACE);
    for stream in [1, 3, 5] {
        client(&headers(WHOLE, stream, b"\x83"));
    }
    // A block that never ends. The table restarts after it.
    client(&headers(0, 7, &[0x83; 60]));
    for _ in 0..10 {
        client(&frame(kind::CONTINUATION, 0, 7, &[0x84; 60]));
    }
    client(&headers(WHOLE | LAST, 9, b"\x83"));
    // A bomb: 100 bytes that contain a field of 70 bytes many times.
    let bomb = [&b"\x40\x01a\x40"[..], &[b'b'; 64], &[0xbe; 30]].concat();
    client(&headers(WHOLE | LAST, 11, &bomb));
    let limits: Vec<_> = events.lines.iter().filter(|line| line.starts_with("LimitReached")).collect();
    assert_eq!(limits.len(), 5, "{:?}", events.lines);
    assert!(events.lines.contains(&"1> broken off (Cut)".to_owned()), "{:?}", events.lines);
    assert!(events.lines.iter().all(|line| line.len() < 400));
}

#[test]
fn an_upgrade_makes_its_response_that_of_stream_1() {
    let mut events = EventLines::default();
    let mut decoder = Http2::upgraded(Limits::default(), ExchangeIndex(4), [100, 50]);
    let server = [settings(), headers(WHOLE, 1, OK), data(LAST, 1, "{}")].concat();
    decoder.push(SERVER, Piece::Data(&server), &mut |event| events.add(event));
    let client = [PREFACE, &settings(), &headers(WHOLE | LAST, 3, POST)].concat();
    decoder.push(CLIENT, Piece::Data(&client), &mut |event| events.add(event));
    decoder.push(CLIENT, Piece::End(Ending::Finished), &mut |event| events.add(event));
    assert_eq!(events.lines[..3], ["1< 200", "1< '{}'", "1< end"]);
    assert_eq!(events.streams[&ExchangeIndex(4)], 1);
    assert_eq!(events.lines[3..], ["3> POST /mcp", "3> end"]);
}
