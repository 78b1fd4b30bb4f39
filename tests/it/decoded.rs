//! The events of a capture, and a text form of them that does not depend on how the packets
//! arrived.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use mcptap::source::file::Files;
use mcptap::source::{Item, Source};
use mcptap_core::internal::capture::{Packet, Time};
use mcptap_core::internal::decode::ConnectionId;
use mcptap_core::internal::decode::exchange::{Exchange, Half};
use mcptap_core::internal::decode::mask::MaskKey;
use mcptap_core::internal::event::{Connection, ConnectionKind, Detail, Event};
use mcptap_core::internal::mcp::{Message, MessageNumber, Session, SessionNumber};
use mcptap_core::internal::pipeline::{Input, Pipeline, PipelineConfig};

use crate::rewrite::Frame;

/// The packets of a capture file.
pub fn frames(path: &Path) -> Vec<Frame> {
    frames_of(&mut Files::open(&[path.to_owned()], false).expect("the capture opens"))
}

/// The packets that a source delivers.
pub fn frames_of(source: &mut dyn Source) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(item) = source.next().expect("the source is readable") {
        if let Item::Packet(packet) = item {
            frames.push(frame_of(&packet));
        }
    }
    frames
}

/// A packet with its own bytes.
pub fn frame_of(packet: &Packet<'_>) -> Frame {
    let Packet { time, link, interface, original_length, data, .. } = *packet;
    Frame { time, link, interface, original_length, data: data.to_vec() }
}

/// All events of a pipeline.
pub struct Decoded {
    pub events: Vec<Event>,
}

/// The settings with which a pipeline emits all events.
pub const ALL: fn() -> PipelineConfig = || PipelineConfig {
    detail: Detail::Store,
    hash: true,
    mask_key: Some(MaskKey::new([7; 16])),
    ..PipelineConfig::default()
};

/// The order of the messages of a session in the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOrder {
    /// The order of completion.
    Capture,
    /// The order within each direction of a connection, which TCP guarantees.
    Connection,
}

impl Decoded {
    /// Decodes these packets.
    pub fn of(frames: &[Frame]) -> Decoded {
        let mut inputs = frames.iter().zip(1..).map(|(frame, number)| Input::Packet(frame.packet(number)));
        Decoded::from(&mut inputs, ALL())
    }

    /// Decodes any input. The end of the capture is added.
    pub fn from(inputs: &mut dyn Iterator<Item = Input<'_>>, options: PipelineConfig) -> Decoded {
        let mut pipeline = Pipeline::new(options);
        let mut events = Vec::new();
        for input in inputs.chain([Input::End]) {
            pipeline.push(input, &mut |event| events.push(event));
        }
        Decoded { events }
    }

    /// The messages in order of completion.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.events.iter().filter_map(|event| if let Event::Message(message) = event { Some(&**message) } else { None })
    }

    /// The last record of each exchange, by number.
    pub fn exchanges(&self) -> BTreeMap<u64, &Exchange> {
        let exchanges = self.events.iter().filter_map(|event| match event {
            Event::Exchange(exchange) => Some((exchange.number.0, &**exchange)),
            _ => None,
        });
        exchanges.collect()
    }

    /// The last record of each session, by number.
    pub fn sessions(&self) -> BTreeMap<SessionNumber, &Session> {
        let sessions = self.events.iter().filter_map(|event| match event {
            Event::Session(session) => Some((session.number, &**session)),
            _ => None,
        });
        sessions.collect()
    }

    /// The last record of each connection.
    pub fn connections(&self) -> HashMap<ConnectionId, &Connection> {
        let connections = self.events.iter().filter_map(|event| match event {
            Event::Connection(connection) => Some((connection.id, &**connection)),
            _ => None,
        });
        connections.collect()
    }

    /// The number of messages with the same direction, kind and text.
    pub fn texts(&self) -> BTreeMap<String, usize> {
        count(self.messages().map(text))
    }

    /// For each session, the counts of [`Decoded::texts`].
    pub fn texts_of_sessions(&self) -> Vec<BTreeMap<String, usize>> {
        let mut texts_of_sessions: BTreeMap<SessionNumber, BTreeMap<String, usize>> = BTreeMap::new();
        for message in self.messages() {
            *texts_of_sessions.entry(message.session).or_default().entry(text(message)).or_default() += 1;
        }
        let mut texts_of_sessions: Vec<_> = texts_of_sessions.into_values().collect();
        texts_of_sessions.sort();
        texts_of_sessions
    }

    /// The number of times that a response was paired with a request.
    pub fn pairs(&self) -> BTreeMap<String, usize> {
        let requests: HashMap<MessageNumber, &Message> = self.messages().map(|m| (m.number, m)).collect();
        count(self.messages().filter_map(|answer| {
            let request = requests.get(&answer.answers?)?;
            Some(format!("{}\n  answered by {}", text(request), text(answer)))
        }))
    }

    /// The number of times that an HTTP response was paired with a request.
    pub fn http_pairs(&self) -> BTreeMap<String, usize> {
        let exchanges = self.exchanges();
        let pairs = exchanges.values().filter(|exchange| exchange.method.is_some() && exchange.status.is_some());
        count(pairs.map(|exchange| {
            let Exchange { method, target, status, request, response, .. } = exchange;
            format!("{method:?} {target:?} {:?}\n  answered by {status:?} {:?}", request.fields, response.fields)
        }))
    }

    /// The text form: sessions with their messages, and exchanges.
    pub fn text(&self, order: TextOrder) -> String {
        let mut parts = self.session_texts(order);
        let exchanges = self.exchanges();
        let connections = self.connections();
        parts.extend(exchanges.values().map(|exchange| {
            let Exchange { http_version, method, target, status, request, response, .. } = exchange;
            let ends = ends(connections.get(&exchange.connection).copied());
            let (request, response) = (half(request), half(response));
            format!("exchange {ends} {http_version} {method:?} {target:?} {status:?}\n{request}{response}")
        }));
        if order == TextOrder::Connection {
            parts.sort();
        }
        parts.concat()
    }

    /// The text form of each session.
    pub fn session_texts(&self, order: TextOrder) -> Vec<String> {
        let (exchanges, connections) = (self.exchanges(), self.connections());
        let requests: HashMap<MessageNumber, &Message> = self.messages().map(|m| (m.number, m)).collect();
        let mut places: BTreeMap<SessionNumber, BTreeMap<String, String>> = BTreeMap::new();
        let is_whole = !self.events.iter().any(|event| match event {
            Event::Finding(finding) => finding.rule.id == "tcp-bytes-lost",
            Event::Connection(connection) => match &connection.kind {
                ConnectionKind::Tcp(facts) => facts.handshake.contains(&None),
                ConnectionKind::Pipe { .. } => false,
            },
            _ => false,
        });
        for message in self.messages() {
            let exchange = message.exchange.and_then(|number| exchanges.get(&number.0));
            let connection = exchange.and_then(|exchange| connections.get(&exchange.connection));
            let place = format!("{} {}", ends(connection.copied()), message.direction.name());
            let mut line = text(message);
            let Message { id, method, tool, batch, carrier, sse_id, line: number, redelivered, findings, .. } = message;
            let batch = batch.map(|(_, index)| index);
            let target = exchange.map(|exchange| (&exchange.method, &exchange.target, exchange.status));
            // If bytes are lost or a beginning is missing, the order across two connections is not
            // certain: other input decides when the bytes count as lost.
            let stands = |rule: &&&str| is_whole || rule.starts_with("jsonrpc-");
            let findings: Vec<&str> = findings.iter().filter(stands).copied().collect();
            let about = (id, method, tool, batch, carrier, sse_id, number, redelivered, findings, target);
            let _ = writeln!(line, "\n      {about:?}");
            if let Some(request) = message.answers.and_then(|number| requests.get(&number)) {
                let _ = writeln!(line, "      answers {}", text(request));
            }
            let group = if order == TextOrder::Capture { String::new() } else { place.clone() };
            let said = places.entry(message.session).or_default().entry(group).or_default();
            let _ = write!(said, "    {place}\n    {line}");
        }
        let describe = |session: &Session| {
            let Session { transport, protocol_version, session_id, client, server, .. } = session;
            let Session { messages, outcomes, server_requests, responses, notifications, invalid, .. } = session;
            let counts = (messages, outcomes, server_requests, responses, notifications, invalid);
            let mut text = format!(
                "session {} {protocol_version:?} {session_id:?} {client:?} {server:?} {counts:?}\n",
                transport.name()
            );
            text.extend(places.get(&session.number).into_iter().flat_map(BTreeMap::values).map(String::as_str));
            text
        };
        self.sessions().values().map(|session| describe(session)).collect()
    }
}

fn text(message: &Message) -> String {
    let raw = String::from_utf8_lossy(&message.raw);
    format!("{} {} {}", message.direction.name(), message.kind.name(), raw.escape_debug())
}

fn half(half: &Half) -> String {
    let Half { fields, body_bytes, body_sha256, complete, .. } = half;
    let hash = body_sha256.map(|hash| u64::from_be_bytes(hash[..8].try_into().expect("eight bytes")));
    format!("    {body_bytes} bytes {hash:x?} complete {complete} {fields:?}\n")
}

fn ends(connection: Option<&Connection>) -> String {
    match connection.map(|connection| (&connection.kind, connection.client)) {
        Some((ConnectionKind::Tcp(facts), client)) => {
            let client = client.map_or(0, |side| side.index());
            format!("{} - {}", facts.endpoints[client], facts.endpoints[1 - client])
        }
        _ => "pipe".into(),
    }
}

fn count(texts: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    counts
}

/// Asserts that two texts are equal, and shows the difference otherwise.
pub fn assert_same(what: &str, wanted: &str, said: &str) {
    if wanted != said {
        let cut = |text: &str| -> String {
            text.lines().map(|line| line.chars().take(300).collect::<String>() + "\n").collect()
        };
        let (wanted, said) = (cut(wanted), cut(said));
        let diff = similar::TextDiff::from_lines(&wanted, &said);
        panic!("{what}:\n{}", diff.unified_diff().context_radius(2).header("wanted", "said"));
    }
}

/// Asserts that nothing is more frequent in `said` than in `wanted`.
pub fn assert_subset(what: &str, wanted: &BTreeMap<String, usize>, said: &BTreeMap<String, usize>) {
    let invented: Vec<&String> = said
        .iter()
        .filter(|(text, count)| wanted.get(*text).is_none_or(|wanted| wanted < count))
        .map(|(text, _)| text)
        .collect();
    assert!(invented.is_empty(), "{what}: not in the original:\n{invented:#?}");
}

/// The captures on which the laws are tested: `samples/` and `tests/captures/`.
pub fn captures() -> Vec<PathBuf> {
    let mut found = folders(&crate::program::root().join("samples"));
    found.extend(folders(&crate::program::data("captures")));
    found.sort();
    assert!(found.len() >= 40, "the captures were found");
    found
}

/// All captures of the pipes of wrapped servers.
pub fn pipes() -> Vec<PathBuf> {
    let samples = crate::program::root().join("samples");
    let folders = [samples.join("causes"), samples, crate::program::data("captures")];
    let entries = folders.into_iter().flat_map(|folder| std::fs::read_dir(folder).expect("readable"));
    let files = entries.map(|entry| entry.expect("readable").path().join("stdio.pcapng"));
    let found: BTreeSet<PathBuf> = files.filter(|path| path.exists()).collect();
    assert!(found.len() >= 10, "captures of pipes were found: {found:?}");
    found.into_iter().collect()
}

/// Captures that repeat the conversation of another one in packets that `rewrite` makes too.
const REPEATED: [&str; 11] = [
    "04_any_sll",
    "04_bigendian",
    "04_null_loopback",
    "04_pcap_gz",
    "04_pcapng_tsresol",
    "04_rawip",
    "06_dup",
    "06_gre",
    "06_ipfrag",
    "06_tiny_mss",
    "06_vlan",
];

/// The captures with each conversation once.
pub fn conversations() -> Vec<PathBuf> {
    captures().into_iter().filter(|path| !REPEATED.contains(&name(path).as_str())).collect()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(path).expect("readable").map(|entry| entry.expect("readable").path());
    let names = ["capture.pcap", "capture.pcapng", "capture.pcap.gz"];
    folders.flat_map(|folder| names.map(|name| folder.join(name))).filter(|path| path.exists()).collect()
}

/// The name of the folder of a capture.
pub fn name(path: &Path) -> String {
    path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
}

/// The time half-way between two times.
pub fn between(earlier: Time, later: Time) -> Time {
    Time(earlier.0.saturating_add(later.since(earlier) / 2))
}
