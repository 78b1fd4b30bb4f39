//! Tests as conversations: the bytes of each side, and the events of the decoder. Each conversation
//! is decoded whole, byte by byte, and in pieces of seven bytes.

mod framing;
mod laws;
mod loss;
mod pairing;
mod switching;

use super::*;
use crate::decode::http::StartLine;
use crate::decode::{Anomaly, Ending};

/// An action of one side.
#[derive(Clone, Debug)]
enum PeerAction {
    /// Sends bytes to the other side.
    Sends(Direction, Vec<u8>),
    /// Sends bytes that are not captured.
    Lost(Direction, u64),
    /// Ends the stream of its direction.
    Ends(Direction, Ending),
}

fn client(text: &str) -> PeerAction {
    PeerAction::Sends(Direction::ClientToServer, text.replace('\n', "\r\n").into())
}

fn server(text: &str) -> PeerAction {
    PeerAction::Sends(Direction::ServerToClient, text.replace('\n', "\r\n").into())
}

/// Sends the text unchanged, without CR before LF.
fn server_raw(text: &str) -> PeerAction {
    PeerAction::Sends(Direction::ServerToClient, text.into())
}

/// Sends the text unchanged, without CR before LF.
fn client_raw(text: &str) -> PeerAction {
    PeerAction::Sends(Direction::ClientToServer, text.into())
}

fn client_lost(length: u64) -> PeerAction {
    PeerAction::Lost(Direction::ClientToServer, length)
}

fn server_lost(length: u64) -> PeerAction {
    PeerAction::Lost(Direction::ServerToClient, length)
}

fn client_ends(ending: Ending) -> PeerAction {
    PeerAction::Ends(Direction::ClientToServer, ending)
}

fn server_ends(ending: Ending) -> PeerAction {
    PeerAction::Ends(Direction::ServerToClient, ending)
}

/// The events of a conversation as lines. Each side has received everything that the other sent
/// before. Data are cut into pieces of `size` bytes. Contents that follow each other share a line.
fn event_lines(limits: Limits, steps: &[PeerAction], size: usize) -> Vec<String> {
    let mut decoder = Http1::new(limits);
    let mut sent = [0u64; 2];
    let mut lines: Vec<String> = Vec::new();
    // For each direction: the last run of bytes, the offset after it, and its line.
    let mut runs = [const { (String::new(), 0, 0) }; 2];
    for step in steps {
        let (direction, pieces): (_, Vec<Piece<'_>>) = match step {
            PeerAction::Sends(direction, bytes) => (*direction, bytes.chunks(size).map(Piece::Data).collect()),
            PeerAction::Lost(direction, length) => (*direction, vec![Piece::Gap(*length)]),
            PeerAction::Ends(direction, ending) => (*direction, vec![Piece::End(*ending)]),
        };
        let seen = sent[direction.reversed() as usize];
        for piece in pieces {
            let length = match piece {
                Piece::Data(bytes) => bytes.len() as u64,
                Piece::Gap(length) => length,
                Piece::End(_) => 0,
            };
            sent[direction as usize] = sent[direction as usize].saturating_add(length);
            decoder.push(direction, piece, seen, &mut |event| {
                let (text, bytes) = describe(&event);
                let run = &mut runs[usize::from(text.starts_with('<'))];
                let Some((offset, bytes)) = bytes else {
                    *run = Default::default();
                    return lines.push(text);
                };
                if (&run.0, run.1) != (&text, offset) {
                    lines.push(format!("{text} @{offset} "));
                    *run = (text, offset, lines.len() - 1);
                }
                lines[run.2].push_str(&bytes.escape_ascii().to_string());
                run.1 += bytes.len() as u64;
            });
        }
    }
    lines
}

/// Describes one event. Its bytes are returned separately, so that runs can be joined.
fn describe<'a>(event: &HttpEvent<'a>) -> (String, Option<(u64, &'a [u8])>) {
    let arrow = |direction: &Direction| if *direction == Direction::ClientToServer { '>' } else { '<' };
    match event {
        HttpEvent::Head { exchange, direction, head, .. } => {
            let start = match &head.start {
                StartLine::Request { method, target } => format!("{method} {target}"),
                StartLine::Response { status, reason } => format!("{status} {reason}"),
            };
            (format!("{} {} {}", arrow(direction), exchange.0, start.trim_end()), None)
        }
        HttpEvent::Content { exchange, direction, offset, bytes } => {
            (format!("{} {} content", arrow(direction), exchange.0), Some((*offset, bytes)))
        }
        HttpEvent::ContentGap { exchange, direction, length } => {
            let length = length.map_or("?".into(), |length| length.to_string());
            (format!("{} {} gap {length}", arrow(direction), exchange.0), None)
        }
        HttpEvent::End { exchange, direction, complete, ending } => {
            let complete = if *complete { "complete" } else { "incomplete" };
            (format!("{} {} {complete} {ending:?}", arrow(direction), exchange.0), None)
        }
        HttpEvent::Switched { exchange, direction, offset } => {
            (format!("{} {} switched @{offset}", arrow(direction), exchange.0), None)
        }
        HttpEvent::Opaque { direction, offset, bytes } => {
            (format!("{} opaque", arrow(direction)), Some((*offset, bytes)))
        }
        HttpEvent::Secret { .. } => unreachable!("HTTP/1 codes nothing"),
        HttpEvent::Anomaly { direction, anomaly, .. } => {
            let anomaly = match anomaly {
                Anomaly::Skipped { offset, length } => format!("skipped {offset}+{length}"),
                Anomaly::ResponseWithoutRequest { .. } => "not asked for".into(),
                Anomaly::AmbiguousFraming { why, .. } => format!("ambiguous: {why}"),
                Anomaly::NotHttp { offset, expected } => format!("no {expected} @{offset}"),
                Anomaly::BareLineFeed { offset } => format!("bare line feed @{offset}"),
                Anomaly::FoldedHeader { offset } => format!("folded @{offset}"),
                Anomaly::LimitReached { limit, offset } => format!("limit {limit} @{offset}"),
                other => format!("{other:?}"),
            };
            (format!("{} ! {anomaly}", arrow(direction)), None)
        }
    }
}

#[track_caller]
fn check(steps: &[PeerAction], expected: &[&str]) {
    check_with(Limits::default(), steps, expected);
}

#[track_caller]
fn check_with(limits: Limits, steps: &[PeerAction], expected: &[&str]) {
    assert_eq!(event_lines(limits, steps, usize::MAX), expected, "whole");
    assert_eq!(event_lines(limits, steps, 1), expected, "byte by byte");
    assert_eq!(event_lines(limits, steps, 7), expected, "cut");
}

#[test]
fn a_call_and_its_answer() {
    check(
        &[
            client("POST /mcp HTTP/1.1\nHost: a\nContent-Length: 8\n\n{\"id\":1}"),
            server("HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 2\n\n{}"),
            client("GET /mcp HTTP/1.1\n\n"),
            server("HTTP/1.1 405 Method Not Allowed\nContent-Length: 0\n\n"),
            client_ends(Ending::Finished),
            server_ends(Ending::Finished),
        ],
        &[
            "> 0 POST /mcp",
            "> 0 content @50 {\\\"id\\\":1}",
            "> 0 complete Finished",
            "< 0 200 OK",
            "< 0 content @70 {}",
            "< 0 complete Finished",
            "> 1 GET /mcp",
            "> 1 complete Finished",
            "< 1 405 Method Not Allowed",
            "< 1 complete Finished",
        ],
    );
}

#[test]
fn a_stream_of_events_that_the_client_leaves() {
    check(
        &[
            client("GET /mcp HTTP/1.1\nAccept: text/event-stream\n\n"),
            server("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n9\ndata: 1"),
            server("\n"),
            server("\n9\ndata: 2\n\n"),
            client_ends(Ending::Finished),
            server_ends(Ending::Reset),
        ],
        &[
            "> 0 GET /mcp",
            "> 0 complete Finished",
            "< 0 200 OK",
            "< 0 content @50 data: 1\\r\\n",
            "< 0 content @64 data: 2\\r\\n",
            "< 0 incomplete Reset",
        ],
    );
}

#[test]
fn a_head_is_a_text_and_places_in_it() {
    let text = "POST /mcp HTTP/1.0\r\nHost:a\r\nX-Empty:\r\nX: \t y z \t\r\n\r\n";
    for size in [1, 7, text.len()] {
        let mut decoder = Http1::new(Limits::default());
        let mut found = None;
        for piece in text.as_bytes().chunks(size) {
            decoder.push(Direction::ClientToServer, Piece::Data(piece), 0, &mut |event| {
                if let HttpEvent::Head { head, .. } = event {
                    found = Some(head);
                }
            });
        }
        let head = found.unwrap();
        assert_eq!((head.version, head.offset, &*head.text), ("1.0", 0, text.as_bytes()));
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields, [(&b"Host"[..], &b"a"[..]), (b"X-Empty", b""), (b"X", b"y z")]);
    }
}

#[test]
fn content_is_handed_on_where_it_lies_and_a_whole_head_is_not_held() {
    let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let mut decoder = Http1::new(Limits::default());
    decoder.push(Direction::ServerToClient, Piece::Data(text), 0, &mut |event| {
        if let HttpEvent::Content { bytes, .. } = event {
            assert!(text.as_ptr_range().contains(&bytes.as_ptr()));
        }
    });
    assert_eq!(decoder.low_water(Direction::ServerToClient), text.len() as u64);
    decoder.push(Direction::ServerToClient, Piece::Data(b"5\r"), 0, &mut |_| {});
    assert_eq!(decoder.low_water(Direction::ServerToClient), text.len() as u64, "a line waits for its end");
}
