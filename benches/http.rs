//! The speed of the decoders of HTTP/1, server-sent events and lines, in bytes of input: `cargo
//! bench --bench http`.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use mcptap_core::internal::capture::Limits;
use mcptap_core::internal::decode::http1::Http1;
use mcptap_core::internal::decode::lines::Lines;
use mcptap_core::internal::decode::sse::Sse;
use mcptap_core::internal::decode::{Direction, Piece};

fn main() {
    divan::main();
}

const REQUEST: &str = "POST /mcp HTTP/1.1\r\nhost: localhost:8000\r\naccept: application/json, text/event-stream\r\n\
    accept-encoding: gzip, deflate\r\nconnection: keep-alive\r\nuser-agent: python-httpx/0.28.1\r\ncontent-type: application/json\r\n\
    mcp-session-id: 0f1e2d3c4b5a69788796a5b4c3d2e1f0\r\nmcp-protocol-version: 2025-06-18\r\ncontent-length: 0\r\n\r\n";

const RESPONSE: &str = "HTTP/1.1 200 OK\r\ndate: Tue, 01 Jul 2025 10:00:00 GMT\r\nserver: uvicorn\r\n\
    cache-control: no-cache, no-transform\r\nconnection: keep-alive\r\ncontent-type: text/event-stream\r\n\
    mcp-session-id: 0f1e2d3c4b5a69788796a5b4c3d2e1f0\r\nx-accel-buffering: no\r\ntransfer-encoding: chunked\r\n\r\n";

const MESSAGE: &str = "{\"jsonrpc\":\"2.0\",\"id\":17,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"The quick brown fox jumps over \
    the lazy dog, again and again, until the message is as long as messages of tools tend to be.\"}],\"isError\":false}}";

/// A conversation in pieces of the length of a segment, each with its direction.
fn segments(direction: Direction, text: &str, length: usize) -> Vec<(Direction, &[u8])> {
    text.as_bytes().chunks(length).map(|piece| (direction, piece)).collect()
}

fn http1(bencher: Bencher<'_, '_>, pieces: &[(Direction, &[u8])]) {
    let bytes: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut decoder = Http1::new(Limits::default());
        for (direction, piece) in pieces {
            decoder.push(*direction, Piece::Data(piece), 0, &mut |event| drop(black_box(event)));
        }
    });
}

/// Heads only, each in a segment of its own, as clients send them.
#[divan::bench]
fn heads(bencher: Bencher<'_, '_>) {
    let pieces = vec![(Direction::ClientToServer, REQUEST.as_bytes()); 1_000];
    http1(bencher, &pieces);
}

/// Heads in segments of 100 bytes.
#[divan::bench]
fn heads_in_small_segments(bencher: Bencher<'_, '_>) {
    let text = REQUEST.repeat(1_000);
    http1(bencher, &segments(Direction::ClientToServer, &text, 100));
}

/// A head in segments of one byte, up to the limit.
#[divan::bench]
fn head_in_drops(bencher: Bencher<'_, '_>) {
    let text = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(10_000));
    http1(bencher, &segments(Direction::ClientToServer, &text, 1));
}

/// A chunked body with one message a chunk.
#[divan::bench]
fn chunks(bencher: Bencher<'_, '_>) {
    let chunk = format!("{:x}\r\ndata: {MESSAGE}\n\n\r\n", MESSAGE.len() + 8);
    let text = format!("{RESPONSE}{}", chunk.repeat(4_000));
    http1(bencher, &segments(Direction::ServerToClient, &text, 1_448));
}

/// A body of known length.
#[divan::bench]
fn length(bencher: Bencher<'_, '_>) {
    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{}", "x".repeat(1_000_000));
    http1(bencher, &segments(Direction::ServerToClient, &text, 1_448));
}

/// Text without the beginning of a message, after a loss.
#[divan::bench]
fn search(bencher: Bencher<'_, '_>) {
    let text = format!("{MESSAGE}\n").repeat(4_000);
    http1(bencher, &segments(Direction::ServerToClient, &text, 1_448));
}

/// Server-sent events with one message each, one event a segment.
#[divan::bench(args = [1, 100])]
fn events(bencher: Bencher<'_, '_>, messages: usize) {
    let event =
        format!("id: 00000000-0000-0000-0000-000000000000_17\nevent: message\ndata: {}\n\n", MESSAGE.repeat(messages));
    bencher.counter(BytesCount::new(event.len() * 1_000)).bench_local(|| {
        let mut decoder = Sse::new(Limits::default());
        for _ in 0..1_000 {
            decoder.push(Piece::Data(event.as_bytes()), &mut |event| drop(black_box(event)));
        }
    });
}

/// Lines of a pipe, in pieces of the length of its buffer.
#[divan::bench]
fn lines(bencher: Bencher<'_, '_>) {
    let text = format!("{MESSAGE}\n").repeat(4_000);
    bencher.counter(BytesCount::new(text.len())).bench_local(|| {
        let mut decoder = Lines::new(Limits::default());
        for piece in text.as_bytes().chunks(64 << 10) {
            decoder.push(Piece::Data(piece), &mut |event| drop(black_box(event)));
        }
    });
}
