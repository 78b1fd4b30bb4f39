//! The speed of reading JSON-RPC envelopes and of writing message lines, in bytes a second: `cargo
//! bench --bench jsonrpc`.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;

use mcptap::export::jsonl::write_message;
use mcptap_core::internal::capture::{Limits, PacketNumber, Span, Time};
use mcptap_core::internal::decode::Direction;
use mcptap_core::internal::decode::jsonrpc::{Envelope, Kind, parse};
use mcptap_core::internal::mcp::{Carrier, Message, MessageNumber, SessionNumber, Transport};

fn main() {
    divan::main();
}

/// A `tools/list` response of about this many bytes: short members and many quotes, as
/// servers send them.
fn tools(bytes: usize) -> Vec<u8> {
    let tool = r#"{"name":"get_weather","description":"Current weather of a city, with its temperature in °C.","inputSchema":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1}},"required":["city"]}}"#;
    let list = vec![tool; (bytes / tool.len()).max(1)].join(",");
    format!(r#"{{"jsonrpc":"2.0","id":17,"result":{{"tools":[{list}]}}}}"#).into_bytes()
}

/// A `tools/call` response of about this many bytes: one long text that contains JSON, as servers
/// send it too.
fn text(bytes: usize) -> Vec<u8> {
    let line = r#"{\"city\": \"Quito\", \"temperature\": 17.5, \"summary\": \"light rain in the afternoon\"}\n"#;
    let lines = line.repeat((bytes / line.len()).max(1));
    format!(
        r#"{{"jsonrpc":"2.0","id":17,"result":{{"content":[{{"type":"text","text":"{lines}"}}],"isError":false}}}}"#
    )
    .into_bytes()
}

const SIZES: [usize; 4] = [200, 2_000, 20_000, 1_000_000];

#[divan::bench(args = SIZES, sample_size = 32)]
fn parse_tools(bencher: Bencher, bytes: usize) {
    bench_parse(bencher, tools(bytes));
}

#[divan::bench(args = SIZES, sample_size = 32)]
fn parse_text(bencher: Bencher, bytes: usize) {
    bench_parse(bencher, text(bytes));
}

fn bench_parse(bencher: Bencher, raw: Vec<u8>) {
    let limits = Limits::default();
    bencher.counter(BytesCount::new(raw.len())).bench(|| parse(black_box(&raw), limits.json_depth, limits.batch));
}

#[divan::bench(args = SIZES, sample_size = 32)]
fn write_tools(bencher: Bencher, bytes: usize) {
    bench_write(bencher, tools(bytes));
}

#[divan::bench(args = SIZES, sample_size = 32)]
fn write_text(bencher: Bencher, bytes: usize) {
    bench_write(bencher, text(bytes));
}

fn bench_write(bencher: Bencher, raw: Vec<u8>) {
    let message = Message {
        session: SessionNumber(1),
        number: MessageNumber(1_017),
        time: Time(1_795_158_853_123_456_789),
        transport: Transport::StreamableHttp,
        direction: Direction::ServerToClient,
        kind: Kind::Response,
        id: Some("17".into()),
        method: Some("tools/list".into()),
        tool: None,
        raw: raw.into(),
        envelope: Envelope::default(),
        batch: None,
        answers: Some(MessageNumber(1_016)),
        answered_by: None,
        latency: Some(5_670_000),
        span: Span::default(),
        packets: vec![PacketNumber(3_411), PacketNumber(3_412)],
        carrier: Carrier::SseEvent,
        exchange: Some(Default::default()),
        sse_id: None,
        line: None,
        redelivered: false,
        copies: None,
        operation: None,
        link: None,
        findings: vec![],
    };
    let mut line = Vec::new();
    write_message(&mut line, &message);
    // The bytes of output, which a reader of the lines receives.
    bencher.counter(BytesCount::new(line.len())).bench_local(|| {
        line.clear();
        write_message(&mut line, black_box(&message));
        black_box(line.len())
    });
}
