//! Writes the bytes of protocols for scripts, so that a fuzzer reaches what lies behind lengths,
//! checksums, compression and encryption.
//!
//! ```text
//!  ┌──────┬─────────┬─────────┐
//!  │ unit │ options │ content │   the payload of a step with the action 7
//!  └──────┴─────────┴─────────┘
//! ```
//!
//! The lower four bits of the unit choose what is written. The options depend on it. JSON content
//! that begins with a byte below 32 is a message of the list `messages.jsonl`. The next byte is its
//! id, and the rest is its text.

use flate2::{Compress, Compression, Crc, FlushCompress};

use super::messages::message;
use crate::decode::tls::sealed_under;

/// What one side of a connection has sent so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Side {
    /// The number of the next TLS record, if the side encrypts.
    sealed: Option<u64>,
    /// Bodies are written in chunks.
    is_chunked: bool,
}

/// What a step sends.
pub enum Unit {
    /// Bytes of the TCP connection.
    Bytes(Vec<u8>),
    /// A datagram to this port.
    Datagram(u16, Vec<u8>),
}

/// The key log lines of the connection with this number.
pub fn secrets(flow: u16) -> String {
    let random = format!("{:02x}", random(flow)).repeat(32);
    let line = |(label, secret): (&str, u8)| format!("{label} {random} {}\n", format!("{secret:02x}").repeat(32));
    let labels = ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"];
    let later = ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"];
    labels.into_iter().zip(HANDSHAKE).chain(later.into_iter().zip(TRAFFIC)).map(line).collect()
}

/// Bytes that repeat to the traffic secrets of client and server.
const HANDSHAKE: [u8; 2] = [1, 2];
const TRAFFIC: [u8; 2] = [3, 4];

/// The byte that repeats to the random of the client.
fn random(flow: u16) -> u8 {
    7 + flow as u8
}

/// Writes what a step describes. `back` means that the server sends.
pub fn compose(side: &mut Side, flow: u16, back: bool, payload: &[u8]) -> Unit {
    let [what, options, content @ ..] = payload else { return Unit::Bytes(payload.to_vec()) };
    let text = || message(content);
    let bytes = match (what & 15, back) {
        (0, false) => request(side, *options, &text()),
        (0, true) => response(side, *options, "application/json", &text()),
        (1, false) => stream_request(*options, content),
        (1, true) => event_head(side, *options),
        (2, _) => chunk(side.is_chunked, &event(*options, &text())),
        (3, _) => chunk(side.is_chunked, content),
        (4, _) => b"0\r\n\r\n".to_vec(),
        (5, _) => upgrade(*options, back),
        (6, _) => websocket_frame(*options, back, &text()),
        (7, _) => http2_start(back),
        (8, _) => http2_head(*options, back, content),
        (9, _) => http2_frame(0, options >> 7, u32::from(options & 15), &text()),
        (10, _) => return Unit::Bytes(hello(side, flow, back)),
        (11, false) => b"CONNECT mcp.example:443 HTTP/1.1\r\nHost: mcp.example\r\n\r\n".to_vec(),
        (11, true) => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
        (12, false) => token_request(content),
        (12, true) => response(side, *options, "application/json", &token_response(content)),
        (13, _) => [&text()[..], b"\n"].concat(),
        (14, _) => return Unit::Datagram([53, 443, 5_353, 8_000][usize::from(options & 3)], content.to_vec()),
        _ => content.to_vec(),
    };
    Unit::Bytes(seal(side, back, bytes))
}

/// A body in a content coding.
fn coded(options: u8, body: &[u8]) -> (&'static str, Vec<u8>) {
    match options & 7 {
        1 => {
            let mut check = Crc::new();
            check.update(body);
            let end = [check.sum().to_le_bytes(), check.amount().to_le_bytes()].concat();
            // RFC 1952 section 2.3: a member without a name.
            let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
            ("gzip", [&head[..], &deflated(body, false, FlushCompress::Finish), &end].concat())
        }
        2 => ("deflate", deflated(body, true, FlushCompress::Finish)),
        3 => ("zstd", zstd::bulk::compress(body, 1).unwrap_or_default()),
        // There is no encoder: the body is damaged.
        4 => ("br", [&[0x0b, 0x80][..], body].concat()),
        _ => ("", body.to_vec()),
    }
}

/// Bytes compressed with DEFLATE, in the format of zlib or without one.
fn deflated(bytes: &[u8], is_zlib: bool, flush: FlushCompress) -> Vec<u8> {
    // More than the bytes of a step can take.
    let mut out = Vec::with_capacity(2 * bytes.len() + 128);
    // It fails only if the room does not suffice. A damaged body is fine here, too.
    let _ = Compress::new(Compression::fast(), is_zlib).compress_vec(bytes, &mut out, flush);
    out
}

/// The fields of a body, and the body.
fn with_body(side: &mut Side, options: u8, kind: &str, body: &[u8]) -> Vec<u8> {
    let (coding, body) = coded(options, body);
    side.is_chunked = options & 8 != 0;
    let framing = match side.is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", body.len()),
    };
    let coding = if coding.is_empty() { String::new() } else { format!("Content-Encoding: {coding}\r\n") };
    let head = format!("Content-Type: {kind}\r\n{coding}{framing}\r\n\r\n");
    let end: &[u8] = if side.is_chunked { b"0\r\n\r\n" } else { b"" };
    [head.as_bytes(), &chunk(side.is_chunked, &body), end].concat()
}

/// A POST. Options: 0-2 coding, 3 chunked, 4 session, 5 fields of 2026-07-28, 6 secrets, 7 target.
fn request(side: &mut Side, options: u8, body: &[u8]) -> Vec<u8> {
    let target = if options & 0x80 == 0 { "/mcp" } else { "/messages?session_id=1" };
    let mut head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nAccept: application/json, text/event-stream\r\n");
    if options & 0x10 != 0 {
        head += "Mcp-Session-Id: 1\r\n";
    }
    if options & 0x20 != 0 {
        head += "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: t\r\n";
    }
    if options & 0x40 != 0 {
        head += "Authorization: Bearer secret\r\nCookie: a=secret\r\n";
    }
    [head.as_bytes(), &with_body(side, options, "application/json", body)].concat()
}

/// A request without a body. Options: 0-1 method, 4 session, 6 resumes after an event.
fn stream_request(options: u8, target: &[u8]) -> Vec<u8> {
    let method = ["GET", "DELETE", "OPTIONS", "HEAD"][usize::from(options & 3)];
    let target = if target.starts_with(b"/") { String::from_utf8_lossy(target) } else { "/mcp".into() };
    let session = if options & 0x10 != 0 { "Mcp-Session-Id: 1\r\n" } else { "" };
    let resumes = if options & 0x40 != 0 { "Last-Event-ID: 1\r\n" } else { "" };
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n{session}{resumes}\r\n").into_bytes()
}

/// The statuses of responses.
const STATUS: [&str; 8] = ["200 OK", "202 Accepted", "401 ", "404 Gone", "307 Moved", "400 Bad", "100 Go", "204 None"];

/// A response. Options: 0-2 coding, 3 chunked, 4 session, 5-7 status.
fn response(side: &mut Side, options: u8, kind: &str, body: &[u8]) -> Vec<u8> {
    let session = if options & 0x10 != 0 { "Mcp-Session-Id: 1\r\n" } else { "" };
    let location = if options >> 5 == 4 { "Location: /messages?session_id=1\r\n" } else { "" };
    let head = format!("HTTP/1.1 {}\r\n{session}{location}", STATUS[usize::from(options >> 5)]);
    [head.as_bytes(), &with_body(side, options, kind, body)].concat()
}

/// The head of a response that is an event stream. Options as in [`response`], without coding.
fn event_head(side: &mut Side, options: u8) -> Vec<u8> {
    side.is_chunked = options & 8 != 0;
    let session = if options & 0x10 != 0 { "Mcp-Session-Id: 1\r\n" } else { "" };
    let framing = if side.is_chunked { "Transfer-Encoding: chunked" } else { "Connection: close" };
    format!("HTTP/1.1 200 OK\r\n{session}Content-Type: text/event-stream\r\n{framing}\r\n\r\n").into_bytes()
}

/// A server-sent event. Options: 0-3 id, 4-5 type, 6 the data are two lines, 7 ends with CR LF.
fn event(options: u8, data: &[u8]) -> Vec<u8> {
    let line: &[u8] = if options & 0x80 != 0 { b"\r\n" } else { b"\n" };
    let kind = ["", "event: message", "event: endpoint", ": comment"][usize::from(options >> 4 & 3)];
    let id = if options & 15 != 0 { format!("id: {}", options & 15) } else { String::new() };
    let mut text = Vec::new();
    for field in [kind, &id].into_iter().filter(|field| !field.is_empty()) {
        text.extend([field.as_bytes(), line].concat());
    }
    let parts = if options & 0x40 != 0 { data.split_at(data.len() / 2) } else { (data, &data[..0]) };
    for part in [parts.0, parts.1].into_iter().filter(|part| !part.is_empty()) {
        text.extend([b"data: ", part, line].concat());
    }
    text.extend_from_slice(line);
    text
}

fn chunk(is_chunked: bool, bytes: &[u8]) -> Vec<u8> {
    if !is_chunked || bytes.is_empty() {
        return bytes.to_vec();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A change of the protocol. Options: 0 to HTTP/2, 1 with compression.
fn upgrade(options: u8, back: bool) -> Vec<u8> {
    let head = if back { "HTTP/1.1 101 Switching Protocols" } else { "GET /mcp HTTP/1.1\r\nHost: a" };
    let protocol = match options & 3 {
        0 => "websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mcp",
        1 | 3 => "h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        _ => "websocket\r\nSec-WebSocket-Extensions: permessage-deflate",
    };
    format!("{head}\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n").into_bytes()
}

/// A WebSocket frame. Options: 0-3 opcode, 4 not the last, 5 compressed. Clients mask.
fn websocket_frame(options: u8, back: bool, payload: &[u8]) -> Vec<u8> {
    let is_compressed = options & 0x20 != 0;
    let mut payload = payload.to_vec();
    if is_compressed {
        payload = deflated(&payload, false, FlushCompress::Sync);
        // RFC 7692 section 7.2.1: the block ends at a byte, and its last four bytes are left out.
        payload.truncate(payload.len().saturating_sub(4));
    }
    let first = options & 15 | u8::from(options & 0x10 == 0) << 7 | u8::from(is_compressed) << 6;
    let mask = if back { 0 } else { 0x80 };
    let mut frame = match payload.len() {
        length @ ..126 => vec![first, mask | length as u8],
        length => [&[first, mask | 126][..], &(length as u16).to_be_bytes()].concat(),
    };
    if !back {
        let key = [0x5a, 0xa5, 0x0f, 0xf0];
        frame.extend(key);
        payload.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    }
    [frame, payload].concat()
}

/// A frame of HTTP/2. The lowest bit of `flags` ends the stream.
fn http2_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn http2_start(back: bool) -> Vec<u8> {
    let preface: &[u8] = if back { b"" } else { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" };
    [preface, &http2_frame(4, 0, 0, &[0, 3, 0, 0, 0, 100])].concat()
}

/// A HEADERS frame. Options: 0-3 stream, 4 event stream, 5 adds to the table, 6 trailers, 7 last.
fn http2_head(options: u8, back: bool, content: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    let mut add = |name: &str, value: &[u8]| {
        block.push(if options & 0x20 != 0 { 0x40 } else { 0 });
        for text in [name.as_bytes(), &value[..value.len().min(100)]] {
            block.push(text.len() as u8);
            block.extend_from_slice(text);
        }
    };
    match (options & 0x40 != 0, back) {
        (true, _) => add("grpc-status", b"0"),
        (false, true) => add(":status", b"200"),
        (false, false) => {
            for (name, value) in [(":method", "POST"), (":scheme", "http"), (":path", "/mcp"), (":authority", "a")] {
                add(name, value.as_bytes());
            }
            add("authorization", b"Bearer secret");
        }
    }
    add("content-type", if options & 0x10 != 0 { b"text/event-stream" } else { b"application/json" });
    add("x-content", content);
    http2_frame(1, 4 | options >> 7, u32::from(options & 15), &block)
}

/// The hello of TLS 1.3, and what encrypts from then on: for the server, its Finished follows.
fn hello(side: &mut Side, flow: u16, back: bool) -> Vec<u8> {
    let (kind, suites, versions): (u8, &[u8], &[u8]) =
        if back { (2, &[0x13, 1, 0], &[3, 4]) } else { (1, &[0, 2, 0x13, 1, 1, 0], &[2, 3, 4]) };
    let extension = [&[0, 43, 0, versions.len() as u8], versions].concat();
    let fields = [&[3, 3][..], &[random(flow); 32], &[0], suites, &[0, extension.len() as u8], &extension].concat();
    let message = [&[kind, 0, 0, fields.len() as u8][..], &fields].concat();
    let record = [&[22, 3, 3, 0, message.len() as u8][..], &message].concat();
    side.sealed = Some(0);
    if back { [record, finished(side, back)].concat() } else { record }
}

/// The Finished of a side, with its handshake secret.
fn finished(side: &mut Side, back: bool) -> Vec<u8> {
    // After it, the numbers of records begin again.
    side.sealed = Some(1);
    sealed_under(HANDSHAKE[usize::from(back)], 0, 22, &[&[20, 0, 0, 32][..], &[0; 32]].concat())
}

/// The bytes as a TLS record, if the side encrypts.
fn seal(side: &mut Side, back: bool, bytes: Vec<u8>) -> Vec<u8> {
    let Some(number) = side.sealed else { return bytes };
    let before = if number == 0 { finished(side, back) } else { Vec::new() };
    let number = number.max(1);
    side.sealed = Some(number + 1);
    [before, sealed_under(TRAFFIC[usize::from(back)], number - 1, 23, &bytes)].concat()
}

/// The request of an OAuth token: a form with secrets.
fn token_request(content: &[u8]) -> Vec<u8> {
    let body = [b"grant_type=authorization_code&code=secret&client_secret=secret&x=", content].concat();
    let fields = "Host: a\r\nContent-Type: application/x-www-form-urlencoded";
    [format!("POST /token HTTP/1.1\r\n{fields}\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
}

fn token_response(content: &[u8]) -> Vec<u8> {
    let more = String::from_utf8_lossy(content).replace(['"', '\\'], "");
    format!(r#"{{"access_token":"secret","token_type":"Bearer","x":"{more}","refresh_token":"secret"}}"#).into_bytes()
}
