//! Invariant 6: for any input, memory stays under `Limits`, and events report what was discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io::Write as _;

use mcptap_core::internal::capture::{Limits, LinkType, Packet, Time};
use mcptap_core::internal::decode::packet::{Decoded as Found, Packets};
use mcptap_core::internal::decode::stack::{StackOptions, Stacks};
use mcptap_core::internal::decode::tcp::{self, Delivery, Facts, SegmentFact, Tcp};
use mcptap_core::internal::decode::{Anomaly, ConnectionId, Side};
use mcptap_core::internal::event::Event;
use mcptap_core::internal::pipeline::{Input, PipelineConfig};

use crate::decoded::{ALL, Decoded};
use crate::rewrite::Frame;

/// Limits that small captures reach.
fn low() -> Limits {
    Limits {
        connections: 40,
        reassembly_per_direction: 16 << 10,
        reassembly_total: 64 << 10,
        datagrams: 8,
        head: 2 << 10,
        pipelined: 16,
        message: 16 << 10,
        messages_total: 64 << 10,
        inflate_ratio: 4,
        json_depth: 16,
        batch: 8,
        unanswered: 20,
        event_ids: 20,
        packets_listed: 10,
        undecided: 8 << 10,
        ..Limits::default()
    }
}

pub const SYN: u8 = 0x02;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;

/// A raw IPv4 packet from the client at `port`, or to it.
pub fn packet(port: u16, side: Side, numbers: [u32; 2], flags: u8, payload: &[u8]) -> Frame {
    let (client, server) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let (ends, ports) =
        if side == Side::First { ([client, server], [port, 80]) } else { ([server, client], [80, port]) };
    let mut data = vec![0x45, 0];
    data.extend_from_slice(&(40 + payload.len() as u16).to_be_bytes());
    data.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
    data.extend(ends.concat());
    data.extend(ports.map(u16::to_be_bytes).concat());
    data.extend(numbers.map(u32::to_be_bytes).concat());
    data.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    data.extend_from_slice(payload);
    Frame { time: Time(0), link: LinkType::RAW, interface: 0, original_length: data.len() as u32, data }
}

/// One connection: the bytes of both ends, in segments of a kilobyte unless set otherwise.
pub struct Talk {
    port: u16,
    sent: [u32; 2],
    segment: usize,
    pub frames: Vec<Frame>,
}

impl Talk {
    pub fn new(port: u16) -> Talk {
        let frames = vec![
            packet(port, Side::First, [0, 0], SYN, b""),
            packet(port, Side::Second, [0, 1], SYN | ACK, b""),
            packet(port, Side::First, [1, 1], ACK, b""),
        ];
        Talk { port, sent: [1, 1], segment: 1_024, frames }
    }

    /// Later bytes are sent in segments of this many.
    pub fn in_segments_of(self, segment: usize) -> Talk {
        Talk { segment, ..self }
    }

    fn send(mut self, side: Side, bytes: impl AsRef<[u8]>) -> Talk {
        for part in bytes.as_ref().chunks(self.segment) {
            let numbers = [self.sent[side.index()], self.sent[side.other().index()]];
            self.frames.push(packet(self.port, side, numbers, PSH | ACK, part));
            self.sent[side.index()] += part.len() as u32;
        }
        self
    }

    pub fn client(self, bytes: impl AsRef<[u8]>) -> Talk {
        self.send(Side::First, bytes)
    }

    pub fn server(self, bytes: impl AsRef<[u8]>) -> Talk {
        self.send(Side::Second, bytes)
    }

    /// Leaves out that many bytes.
    pub fn hole(mut self, side: Side, length: u32) -> Talk {
        self.sent[side.index()] += length;
        self
    }
}

const POST: &str = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n";
const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

fn post(body: &str) -> String {
    format!("{POST}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// An attacker who tries to fill the memory in every way for which there is a limit.
fn attack() -> Vec<Frame> {
    let much = "x".repeat(100_000);
    let asked = "GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\n\r\n";
    let list = (0..200).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).collect::<Vec<_>>();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 8 << 20]).expect("memory takes it");
    let bomb = bomb.finish().expect("memory takes it");
    let coded = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        bomb.len()
    );
    let mut ids = String::new();
    (0..200).for_each(|id| write!(ids, "id: {id}\ndata: {}\n\n", list[id]).expect("memory takes it"));
    let talks = [
        // Bytes after holes that are never filled, in one direction and in many.
        Talk::new(1).client(post("{}")).hole(Side::First, 100).client(&much),
        Talk::new(2).client(format!("{POST}X: ")).client(&much),
        Talk::new(3).client("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(200)),
        Talk::new(4).client(format!("{POST}Content-Length: 1000000000\r\n\r\n[\"")).client(&much),
        Talk::new(5).client(asked).server(format!("{EVENTS}data: ")).server(&much),
        Talk::new(6).client(asked).server(EVENTS).server(&ids),
        Talk::new(7).client(post("{}")).server(coded).server(&bomb),
        Talk::new(8).client(list.iter().map(|text| post(text)).collect::<String>()),
        Talk::new(9).client(post(&"[".repeat(5_000))),
        Talk::new(10).client(post(&format!("[{}]", list.join(",")))),
    ];
    let mut frames: Vec<Frame> = talks.into_iter().flat_map(|talk| talk.frames).collect();
    for port in 100..140 {
        frames.extend(Talk::new(port).client(post("{}")).hole(Side::First, 9).client(&much[..8_000]).frames);
    }
    for port in 200..240 {
        frames.extend(
            Talk::new(port).client(format!("{POST}Content-Length: 9999\r\n\r\n[")).client(&much[..9_000]).frames,
        );
    }
    frames.extend((1_000..2_000).map(|port| packet(port, Side::First, [0, 0], SYN, b"")));
    frames.extend((0..100u16).map(|identification| {
        let mut fragment = packet(9, Side::First, [0, 0], ACK, &[0; 28]);
        fragment.data[4..8].copy_from_slice(&(u32::from(identification) << 16 | 0x2000).to_be_bytes());
        fragment
    }));
    frames
}

#[test]
fn an_attacker_fills_nothing() {
    let (limits, frames) = (low(), attack());
    let mut inputs = frames.iter().zip(1..).map(|(frame, number)| Input::Packet(frame.packet(number)));
    let decoded = Decoded::from(&mut inputs, PipelineConfig { limits, ..ALL() });
    let mut open = BTreeSet::new();
    let mut asked: BTreeMap<ConnectionId, BTreeSet<u64>> = BTreeMap::new();
    let mut reached = BTreeSet::new();
    for event in &decoded.events {
        match event {
            Event::Connection(connection) => {
                open.insert(connection.id);
                assert!(open.len() <= limits.connections, "{} connections are open", open.len());
            }
            Event::Closed(connection) => assert!(open.remove(connection), "{connection} was open"),
            Event::Message(message) => {
                let members = message.batch.map_or(0, |(_, index)| index as usize);
                assert!(message.raw.len() <= limits.message, "message {}", message.number.0);
                // The rest of a batch above the limit is one more message.
                assert!(members <= limits.batch, "message {}: {members} members", message.number.0);
            }
            Event::Head(exchange) => {
                let waiting = asked.entry(exchange.connection).or_default();
                waiting.insert(exchange.number.0);
                // One more for the request that evicts another.
                assert!(waiting.len() <= limits.pipelined + 1, "{} exchanges are open", waiting.len());
            }
            Event::Exchange(exchange) => {
                asked.entry(exchange.connection).or_default().remove(&exchange.number.0);
                for half in [&exchange.request, &exchange.response] {
                    assert!(half.packets.len() <= limits.packets_listed, "exchange {}", exchange.number.0);
                    assert!(half.head_end - half.head_start <= limits.head as u64, "exchange {}", exchange.number.0);
                }
            }
            Event::Finding(finding) if finding.rule.id == "limit-reached" => {
                reached.extend(finding.text.split('"').nth(1).map(str::to_owned));
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "all are closed in the end");
    let wanted =
        ["connections", "head", "inflate_ratio", "message", "messages_total", "pipelined", "reassembly_per_direction"];
    let unsaid: Vec<_> = wanted.iter().filter(|limit| !reached.contains(**limit)).collect();
    assert!(unsaid.is_empty(), "reached and not said: {unsaid:?}; said: {reached:?}");
}

/// Counts what the layers below sessions store.
struct LowerLayers {
    stacks: Stacks,
    open: usize,
    limits: Limits,
}

impl tcp::Sink for LowerLayers {
    fn opened(&mut self, connection: ConnectionId, facts: &Facts) {
        self.open += 1;
        self.stacks.opened(connection, facts);
    }

    fn segment(&mut self, _: &SegmentFact<'_>) {}

    fn delivered(&mut self, delivery: Delivery<'_>) {
        self.stacks.delivered(&delivery, &mut |_| ());
        // Two directions, and for each open request its bodies: as sent, decoded, and the data of
        // events.
        let most = self.limits.connections * (2 + 3 * 2 * self.limits.pipelined);
        let streams = self.stacks.provenance().open_streams();
        assert!(
            self.open <= self.limits.connections && streams <= most,
            "{} connections, {streams} streams",
            self.open
        );
    }

    fn anomaly(&mut self, _: ConnectionId, _: Side, _: mcptap_core::internal::capture::PacketNumber, _: Anomaly) {}

    fn closed(&mut self, connection: ConnectionId, _: &Facts) {
        self.open -= 1;
        self.stacks.closed(connection, None, &mut |_| ());
    }
}

#[test]
fn streams_and_fragments_are_given_up_in_time() {
    let limits = low();
    let (mut packets, mut tcp) = (Packets::new(limits), Tcp::new(limits, |_| true));
    let mut held = LowerLayers { stacks: Stacks::new(limits, StackOptions::default()), open: 0, limits };
    for (frame, number) in attack().iter().zip(1..) {
        let packet: Packet<'_> = frame.packet(number);
        if let Found::Tcp(segment) = packets.push(&packet) {
            tcp.push(&segment, &mut held);
        }
    }
    assert_eq!(packets.abandoned_datagrams(), 100 - limits.datagrams as u64, "first fragments of 100 datagrams");
    tcp.finish(&mut held);
    assert_eq!((held.open, held.stacks.provenance().open_streams()), (0, 0), "nothing is left behind");
}
