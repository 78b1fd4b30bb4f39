//! The speed of storing a capture, and of showing a page of it.
//!
//! The capture is generated: one session of calls over HTTP on keep-alive connections. Messages
//! have 500 bytes to 4 KB in packets of 1,514 bytes, with acknowledgments between. The events are
//! those that the pipeline would emit. Throughput is in bytes of packets.

use std::sync::Mutex;

use divan::counter::BytesCount;
use mcptap::source::Source;
use mcptap::store::{
    CaptureId, CaptureInfo, CaptureKind, DatabaseFile, Page, RowKey, Scope, Selection, StoreReader, StoredPackets,
    Summary, WriteOptions, Writer,
};
use mcptap_core::internal::capture::{
    LinkType, Origin, Packet, PacketNumber, PacketRange, Span, StreamId, StreamPart, Time,
};
use mcptap_core::internal::decode::exchange::{Exchange, ExchangeNumber, Half};
use mcptap_core::internal::decode::jsonrpc::{Envelope, Kind};
use mcptap_core::internal::decode::tcp::{Analysis, Flags};
use mcptap_core::internal::decode::{ConnectionId, Direction, Side};
use mcptap_core::internal::event::{Event, Segment, Stream, StreamKind};
use mcptap_core::internal::mcp::{Carrier, Message, MessageNumber, Outcomes, Peers, Session, SessionNumber, Transport};

/// The database of a million messages. The first user makes it, and the last one removes it.
static MILLION: Mutex<Option<DatabaseFile>> = Mutex::new(None);

fn main() {
    divan::main();
    *MILLION.lock().expect("nobody panicked") = None;
}

/// The calls of the capture.
const CALLS: u64 = 10_000;

/// The bytes of the headers of Ethernet, IPv4 and TCP with timestamps.
const HEAD: usize = 66;

/// Groups of events that are stored, to measure the cost of each.
const PARTS: [&str; 4] = ["everything", "packets", "messages", "exchanges and provenance"];

enum StoreInput {
    Packet { time: Time, data: Vec<u8> },
    Event(Event),
}

/// A random number generator that gives the same capture every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// JSON text of about this many bytes: rows with equal names and different values.
    fn json(&mut self, id: u64, bytes: usize) -> String {
        const WORDS: [&str; 24] = [
            "path",
            "result",
            "Quito",
            "temperature",
            "the",
            "file",
            "search",
            "error",
            "line",
            "value",
            "of",
            "commit",
            "src/main.rs",
            "returns",
            "a",
            "list",
            "weather",
            "warning",
            "unused",
            "variable",
            "in",
            "function",
            "and",
            "2025-11-25",
        ];
        let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#);
        while text.len() + 6 < bytes {
            match self.below(32) as usize {
                word @ 0..24 => text.push_str(WORDS[word]),
                24..30 => text.push_str(r#"\n{\"name\": \"item\", \"size\": "#),
                _ => text.push_str(&self.below(1 << 20).to_string()),
            }
            text.push(' ');
        }
        text + "\"}]}}"
    }
}

/// The state of one direction of a connection.
struct DirectionState {
    stream: StreamId,
    offset: u64,
}

struct InputRecorder {
    inputs: Vec<StoreInput>,
    packet: u64,
    bytes: u64,
}

impl InputRecorder {
    fn event(&mut self, event: Event) {
        self.inputs.push(StoreInput::Event(event));
    }

    /// Sends `payload` in segments. Returns their packets.
    fn send(&mut self, side: Side, sender: &mut DirectionState, payload: &[u8]) -> Vec<PacketNumber> {
        let mut packets = Vec::new();
        let mut parts = Vec::new();
        for piece in payload.chunks(1_448) {
            self.packet += 1;
            let packet = PacketNumber(self.packet);
            let mut data = vec![0; HEAD];
            data[..8].copy_from_slice(&(self.packet * 0x9E37_79B9_7F4A_7C15).to_be_bytes());
            data.extend_from_slice(piece);
            self.bytes += data.len() as u64;
            let end = data.len() as u32;
            self.inputs.push(StoreInput::Packet { time: Time(self.packet as i64 * 10_007), data });
            self.segment(side, packet, sender.offset, vec![PacketRange { packet, start: HEAD as u32, end }]);
            let next = sender.offset + piece.len() as u64;
            let origin = Origin::Packet { packet, offset: HEAD as u32 };
            parts.push(StreamPart { start: sender.offset, end: next, origin });
            packets.push(packet);
            sender.offset = next;
            self.event(Event::Cleared { connection: ConnectionId(1), side, offset: next });
        }
        self.packet += 1;
        self.inputs.push(StoreInput::Packet { time: Time(self.packet as i64 * 10_007), data: vec![0; HEAD] });
        self.segment(side.other(), PacketNumber(self.packet), 0, Vec::new());
        parts.into_iter().for_each(|part| self.event(Event::Part(sender.stream, part)));
        packets
    }

    fn segment(&mut self, side: Side, packet: PacketNumber, offset: u64, origin: Vec<PacketRange>) {
        self.event(Event::Segment(Segment {
            connection: ConnectionId(1),
            side,
            packet,
            offset,
            length: origin.iter().map(PacketRange::len).sum(),
            acknowledged: Some(offset),
            window: 65_536,
            flags: Flags(Flags::ACK),
            analysis: Analysis(0),
            origin: origin.as_slice().into(),
        }));
    }
}

fn session(messages: u64) -> Session {
    let peers =
        Peers::Network { client: ([192, 0, 2, 1], 50_000).into(), server: ([192, 0, 2, 2], 80).into(), host: None };
    Session {
        protocol_version: Some("2025-11-25".into()),
        session_id: Some("8b56930f".into()),
        connections: vec![ConnectionId(1)],
        ended: Time(messages as i64),
        messages,
        outcomes: Outcomes { ok: messages / 2, ..Outcomes::default() },
        responses: messages / 2,
        ..Session::opened(SessionNumber(1), Transport::StreamableHttp, peers, Time(0))
    }
}

fn capture() -> (Vec<StoreInput>, u64) {
    let mut random = Random(88_172_645_463_325_252);
    let mut recorder = InputRecorder { inputs: Vec::new(), packet: 0, bytes: 0 };
    let mut senders =
        [DirectionState { stream: StreamId(1), offset: 0 }, DirectionState { stream: StreamId(2), offset: 0 }];
    for side in [Side::First, Side::Second] {
        let id = senders[side.index()].stream;
        recorder.event(Event::Stream(Stream { id, connection: ConnectionId(1), kind: StreamKind::Tcp(side) }));
    }
    recorder.event(Event::Claimed(ConnectionId(1)));
    for call in 1..=CALLS {
        let mut exchange = Exchange {
            number: ExchangeNumber(call),
            connection: ConnectionId(1),
            http_version: "1.1",
            method: Some("POST".into()),
            target: Some("/mcp".into()),
            status: Some(200),
            ..Exchange::default()
        };
        for (side, direction) in [(Side::First, Direction::ClientToServer), (Side::Second, Direction::ServerToClient)] {
            let length = 500 + random.below(3_500) as usize;
            let raw = random.json(call, length);
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: 8b56930f\r\nDate: today\r\n\r\n";
            let sender = &mut senders[side.index()];
            let head_start = sender.offset;
            let packets = recorder.send(side, sender, &[head.as_bytes(), raw.as_bytes()].concat());
            let body = StreamId(1 + call as u32 * 2 + side.index() as u32);
            let kind = StreamKind::Body(exchange.number, direction);
            recorder.event(Event::Stream(Stream { id: body, connection: ConnectionId(1), kind }));
            let end = raw.len() as u64;
            let origin = Origin::Copied { stream: sender.stream, offset: head_start + head.len() as u64 };
            recorder.event(Event::Part(body, StreamPart { start: 0, end, origin }));
            let half = Half {
                fields: [
                    ("Content-Type", "application/json"),
                    ("Mcp-Session-Id", "8b56930f"),
                    ("Date", "Fri, 21 Nov 2025 10:00:00 GMT"),
                ]
                .into_iter()
                .collect(),
                head_start,
                head_end: head_start + head.len() as u64,
                packets: packets.clone(),
                head_packets: packets[..1].to_vec(),
                body_bytes: end,
                complete: true,
                ..Half::default()
            };
            let answer = side == Side::Second;
            *(if answer { &mut exchange.response } else { &mut exchange.request }) = half;
            recorder.event(Event::Message(Box::new(Message {
                session: SessionNumber(1),
                number: MessageNumber(call * 2 - 1 + u64::from(answer)),
                time: Time(recorder.packet as i64 * 10_007),
                transport: Transport::StreamableHttp,
                direction,
                kind: if answer { Kind::Response } else { Kind::Request },
                id: Some(call.to_string().into()),
                method: Some("tools/call".into()),
                tool: None,
                raw: raw.into(),
                envelope: Envelope::default(),
                batch: None,
                answers: answer.then_some(MessageNumber(call * 2 - 1)),
                answered_by: None,
                latency: answer.then_some(20_014),
                span: Span { stream: body, start: 0, end },
                packets,
                carrier: Carrier::RequestBody,
                exchange: Some(exchange.number),
                sse_id: None,
                line: None,
                redelivered: false,
                copies: None,
                operation: None,
                link: None,
                findings: Vec::new(),
            })));
            recorder.event(Event::Session(Box::new(session(call * 2))));
        }
        recorder.event(Event::Belongs(exchange.number, SessionNumber(1)));
        recorder.event(Event::Exchange(Box::new(exchange)));
    }
    (recorder.inputs, recorder.bytes)
}

fn is_measured(event: &Event, part: &str) -> bool {
    match event {
        Event::Message(_) | Event::Session(_) => part == "messages",
        Event::Exchange(_) | Event::Belongs(..) | Event::Stream(_) | Event::Part(..) => {
            part == "exchanges and provenance"
        }
        _ => part == "packets",
    }
}

/// Stores the capture. The time is that of one core, without generating the events.
fn store(place: &DatabaseFile, inputs: impl IntoIterator<Item = StoreInput>, part: &str) -> Writer {
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "benchmark".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place, &info, WriteOptions::default()).expect("a writer");
    let mut number = 0;
    for input in inputs {
        match input {
            StoreInput::Packet { time, data } => {
                number += 1;
                let (number, original_length) = (PacketNumber(number), data.len() as u32);
                let link = LinkType::ETHERNET;
                writer.packet(&Packet { number, time, link, interface: 0, original_length, data: &data });
            }
            StoreInput::Event(event) if part == PARTS[0] || is_measured(&event, part) => writer.event(event),
            StoreInput::Event(_) => {}
        }
    }
    writer.finish(&Summary::default()).expect("a database that can be written");
    writer
}

#[divan::bench(args = PARTS, sample_count = 5, sample_size = 1)]
fn write(bencher: divan::Bencher<'_, '_>, part: &str) {
    bencher
        .counter(BytesCount::new(capture().1))
        .with_inputs(|| (DatabaseFile::temporary().expect("a place"), capture().0))
        .bench_local_values(|(place, inputs)| store(&place, inputs, part));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn write_to_a_file(bencher: divan::Bencher<'_, '_>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut next = 0;
    bencher
        .counter(BytesCount::new(capture().1))
        .with_inputs(|| {
            next += 1;
            (DatabaseFile::file(directory.path().join(format!("{next}.db"))), capture().0)
        })
        .bench_local_values(|(place, inputs)| store(&place, inputs, PARTS[0]));
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn replay(bencher: divan::Bencher<'_, '_>) {
    let (inputs, bytes) = capture();
    let writer = store(&DatabaseFile::temporary().expect("a place"), inputs, "packets");
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let mut stored = StoredPackets::open(writer.place(), Selection::Capture(CaptureId(1))).expect("packets");
        while stored.next().expect("a packet").is_some() {}
    });
}

/// A million messages, and a screen of them at the beginning, in the middle and at the end.
#[divan::bench_group(sample_count = 20, sample_size = 1)]
mod a_million_messages {
    use super::*;

    const MESSAGES: u64 = 1_000_000;
    const PLACES: [u64; 3] = [1, MESSAGES / 2, MESSAGES - 100];

    fn reader() -> StoreReader {
        let mut place = MILLION.lock().expect("nobody panicked");
        StoreReader::open(&*place.get_or_insert_with(make)).expect("a reader")
    }

    fn make() -> DatabaseFile {
        let message = capture().0.into_iter().find_map(|input| match input {
            StoreInput::Event(Event::Message(message)) => Some(message),
            _ => None,
        });
        let message = message.expect("a message");
        let events = (1..=MESSAGES).map(|number| {
            let raw = format!(r#"{{"jsonrpc":"2.0","method":"ping","id":{number}}}"#).into();
            StoreInput::Event(Event::Message(Box::new(Message {
                number: MessageNumber(number),
                raw,
                ..(*message).clone()
            })))
        });
        let place = DatabaseFile::temporary().expect("a place");
        store(&place, events, PARTS[0]);
        place
    }

    #[divan::bench(args = PLACES)]
    fn rows_of_a_session(bencher: divan::Bencher<'_, '_>, at: u64) {
        let reader = reader();
        bencher.bench_local(|| reader.message_rows_at(SessionNumber(1), at, 60).expect("rows"));
    }

    #[divan::bench(args = PLACES)]
    fn rows_from_a_number(bencher: divan::Bencher<'_, '_>, at: u64) {
        let reader = reader();
        let page = Page::from(RowKey::new(CaptureId(1), at), 60);
        bencher.bench_local(|| reader.message_rows(Scope::Session(SessionNumber(1)), page).expect("rows"));
    }

    #[divan::bench(args = PLACES)]
    fn messages_backward(bencher: divan::Bencher<'_, '_>, at: u64) {
        let reader = reader();
        let page = Page::back_from(RowKey::new(CaptureId(1), at), 60);
        bencher.bench_local(|| reader.messages(Scope::All, page).expect("messages"));
    }

    #[divan::bench]
    fn count(bencher: divan::Bencher<'_, '_>) {
        let reader = reader();
        bencher.bench_local(|| reader.message_count(Scope::All).expect("a count"));
    }
}
