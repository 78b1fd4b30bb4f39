//! Makes the captures of the bombs.

use std::io::Write;

use mcptap_core::internal::capture::Time;
use mcptap_core::internal::capture::pipe::{Pipe, PipeEvent};
use mcptap_core::internal::decode::Side;

use crate::limits::{ACK, PSH, Talk, packet};
use crate::rewrite::Frame;
use crate::wire::{MILLISECOND, Wire};

/// The largest segments that fit into an IPv4 packet, in round numbers.
const SEGMENT: usize = 60_000;

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn talk(port: u16) -> Talk {
    Talk::new(port).in_segments_of(SEGMENT)
}

/// A request that a response follows.
fn asked(port: u16) -> Talk {
    talk(port).client(post(PING))
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// The packets of a connection. One millisecond is between two of them.
fn packets(talk: Talk) -> Vec<Frame> {
    timed(talk.frames)
}

fn timed(mut frames: Vec<Frame>) -> Vec<Frame> {
    for (frame, at) in frames.iter_mut().zip(1..) {
        frame.time = Time(at * MILLISECOND);
    }
    frames
}

/// Blanks of that many MiB.
pub fn spaces(mebibytes: usize) -> Vec<u8> {
    vec![b' '; mebibytes << 20]
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// Eight million times the letter `a`, by the brotli program.
pub const BROTLI: &[u8] = b"\x9b\xff\x11\x7a\xf8\x25\xc2\xe2\xb1\x40\x20\x37\x41\x0f";

pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).expect("memory takes it")
}

/// A response with a coded body.
pub fn coded(coding: &str, body: &[u8]) -> Vec<Frame> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\nContent-Length: {length}\r\n\r\n"
    );
    packets(asked(1).server(head).server(body))
}

/// An event stream with this content.
pub fn events(content: &str) -> Vec<Frame> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let asked = talk(1).client("GET /mcp HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n");
    packets(asked.server(head).server(content))
}

/// The bytes of a client.
pub fn client(bytes: impl AsRef<[u8]>) -> Vec<Frame> {
    packets(talk(1).client(bytes))
}

pub mod http2 {
    use super::*;

    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const CONTINUATION: u8 = 9;
    pub const END_HEADERS: u8 = 4;

    /// `POST /` over http, by entries of the static table (RFC 7541 appendix A).
    pub const POST: &[u8] = b"\x83\x84\x86";

    pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// A client that begins with one request and then sends `frames`.
    pub fn connection(frames: impl Iterator<Item = Vec<u8>>) -> Vec<Frame> {
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, b""));
        bytes.extend(frame(HEADERS, END_HEADERS, 1, POST));
        frames.for_each(|frame| bytes.extend(frame));
        client(bytes)
    }

    /// Settings that allow the largest table of header fields.
    pub fn largest_table() -> Vec<u8> {
        frame(SETTINGS, 0, 0, &[0, 1, 0xff, 0xff, 0xff, 0xff])
    }

    /// A field that is added to the table.
    pub fn indexed(number: u32) -> Vec<u8> {
        let (name, value) = (format!("x{number:07}"), "v".repeat(100));
        [&[0x40, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    }
}

/// A WebSocket whose server sends `frames`.
pub fn websocket(extensions: &str, frames: &[u8]) -> Vec<Frame> {
    let asked = format!(
        "GET /mcp HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mcp\r\n{extensions}\r\n"
    );
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mcp\r\n{extensions}\r\n"
    );
    packets(talk(1).client(asked).server(head).server(frames))
}

/// One frame of a WebSocket.
pub fn websocket_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    match payload.len() {
        length @ ..126 => [&[first, length as u8], payload].concat(),
        length => [&[first, 127], &(length as u64).to_be_bytes()[..], payload].concat(),
    }
}

pub fn raw_deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// Segments that all overlap, each with other bytes.
pub fn overlaps() -> Vec<Frame> {
    let mut frames = talk(1).client(post(PING)).frames;
    let start = 1 + post(PING).len() as u32;
    for number in 0..1_000u32 {
        let bytes = vec![b'a' + (number % 26) as u8; 20_000];
        frames.push(packet(1, Side::First, [start + number % 19_000, 1], PSH | ACK, &bytes));
    }
    timed(frames)
}

/// Segments with a missing byte before each, which never arrives.
pub fn holes() -> Vec<Frame> {
    let mut talk = Talk::new(1).client(post(PING));
    for _ in 0..20_000 {
        talk = talk.hole(Side::First, 1).client("x".repeat(1_000));
    }
    packets(talk)
}

/// A server that writes to its pipe without ever ending the line.
pub fn endless_line() -> Vec<Frame> {
    let mut wire = Wire::lines(&[format!("> {PING}"), "< ".to_owned()]);
    let piece = vec![b'x'; 1 << 20];
    for at in 0..160 {
        wire.pipe(10 + at, PipeEvent::Data(Pipe::Stdout, &piece));
    }
    of(wire)
}

fn of(wire: Wire) -> Vec<Frame> {
    let frame = |(at, link, data): (i64, _, Vec<u8>)| Frame {
        time: Time(at * MILLISECOND),
        link,
        interface: 0,
        original_length: data.len() as u32,
        data,
    };
    wire.packets.into_iter().map(frame).collect()
}

/// A session over pipes in which these lines follow the handshake: `> ` is sent by the client, `< `
/// by the server.
fn session(lines: &[String]) -> Vec<Frame> {
    let handshake = [
        r#"> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        r#"< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#,
        r#"> {"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    ];
    let lines: Vec<&str> = handshake.into_iter().chain(lines.iter().map(String::as_str)).collect();
    of(Wire::lines(&lines))
}

/// A session in which the client sends this text as parameters.
pub fn parameters(text: &str) -> Vec<Frame> {
    session(&[format!(r#"> {{"jsonrpc":"2.0","id":2,"method":"ping","params":{text}}}"#)])
}

/// A session whose server publishes this schema for the arguments and the result of its tool. The
/// tool is called with `argument`, and returns it.
pub fn tool(schema: &str, argument: &str) -> Vec<Frame> {
    session(&[
        r#"> {"jsonrpc":"2.0","id":2,"method":"tools/list"}"#.to_owned(),
        format!(
            r#"< {{"jsonrpc":"2.0","id":2,"result":{{"tools":[{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}]}}}}"#
        ),
        format!(r#"> {{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"t","arguments":{argument}}}}}"#),
        format!(r#"< {{"jsonrpc":"2.0","id":3,"result":{{"content":[],"structuredContent":{argument}}}}}"#),
    ])
}

/// A schema whose definitions each refer twice to the next.
pub fn exponential_references() -> String {
    let definitions: Vec<String> = (0..64)
        .map(|number| {
            format!(
                r##""d{number}":{{"allOf":[{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}]}}"##,
                next = number + 1
            )
        })
        .collect();
    format!(r##"{{"type":"object","$ref":"#/$defs/d0","$defs":{{{},"d64":{{}}}}}}"##, definitions.join(","))
}

/// A schema that is nested deeply.
pub fn deep_schema(depth: usize) -> String {
    format!(r#"{{"type":"object","properties":{{"a":{}{}{}}}}}"#, r#"{"not":"#.repeat(depth), "{}", "}".repeat(depth))
}

/// A schema with this pattern for the member `a`.
pub fn pattern(pattern: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"a":{{"type":"string","pattern":"{pattern}"}}}}}}"#)
}
