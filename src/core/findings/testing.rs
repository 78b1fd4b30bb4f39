//! Conversations for the tests of rules. They run through the whole pipeline, as a capture does.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use etherparse::{PacketBuilder, TcpHeader};

use crate::capture::pipe::{self, Exit, Pipe, PipeEvent, Start};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::event::Event;
use crate::findings::Finding;
use crate::pipeline::{Input, Pipeline, PipelineConfig};

/// The findings of a conversation. Each text is one step. It is a conversation over HTTP if a step
/// begins with `> POST`, `> GET` or `> DELETE`, and on a pipe otherwise.
///
/// | step on a pipe | meaning |
/// |---|---|
/// | `> {"jsonrpc":…}` | a line of the client |
/// | `< {"jsonrpc":…}` | a line of the server |
/// | `<_…` | bytes of the server as they are, without a line end |
/// | `2 …` | a line of stderr |
/// | `>.`, `<.` | the end of stdin, of stdout |
/// | `! 3` | the exit of the server with status 3 |
/// | `~` | as the first step: recording began while the process ran |
///
/// | step over HTTP | meaning |
/// |---|---|
/// | `> POST /mcp\nName: value\n\nbody` | a request; `Host` and `Content-Length` are added |
/// | `< 200\nName: value\n\nbody` | a response; `Content-Length` is added |
/// | `>_…`, `<_…` | bytes as they are |
/// | `@ 2` | the next steps use connection 2 of the client; from `@ 900` on, another port |
/// | `~ 2` | this connection was open before the capture |
/// | `x 2` | this connection closes |
///
/// In both, `+ 500` lets 500 milliseconds of capture time pass.
pub fn findings<S: AsRef<str>>(steps: &[S]) -> Vec<Finding> {
    let mut found = Vec::new();
    for event in events(steps) {
        if let Event::Finding(finding) = event {
            found.push(*finding);
        }
    }
    found
}

/// The events that the pipeline emits for a conversation.
pub fn events<S: AsRef<str>>(steps: &[S]) -> Vec<Event> {
    events_with(steps, PipelineConfig::default(), false)
}

/// The same with these options. With `ticks`, a tick follows every packet.
pub fn events_with<S: AsRef<str>>(steps: &[S], options: PipelineConfig, ticks: bool) -> Vec<Event> {
    let over_http =
        steps.iter().any(|step| ["> POST", "> GET", "> DELETE"].iter().any(|verb| step.as_ref().starts_with(verb)));
    let packets = if over_http { network(steps) } else { pipes(steps) };
    let mut pipeline = Pipeline::new(options);
    let mut events = Vec::new();
    for ((time, link, data), number) in packets.iter().zip(1..) {
        let original_length = data.len() as u32;
        let (number, time, link) = (PacketNumber(number), Time(*time), *link);
        let packet = Packet { number, time, link, interface: 0, original_length, data };
        pipeline.push(Input::Packet(packet), &mut |event| events.push(event));
        if ticks {
            pipeline.push(Input::Tick(time), &mut |event| events.push(event));
        }
    }
    pipeline.push(Input::End, &mut |event| events.push(event));
    events
}

/// Asserts that the conversation breaks this rule, and returns the first finding.
#[track_caller]
pub fn fires<S: AsRef<str>>(rule: &str, steps: &[S]) -> Finding {
    let found = findings(steps);
    let ids: Vec<(&str, &str)> = found.iter().map(|finding| (finding.rule.id, finding.text.as_str())).collect();
    match found.iter().find(|finding| finding.rule.id == rule) {
        Some(finding) => finding.clone(),
        None => panic!("{rule} was not found, but {ids:#?}"),
    }
}

/// Asserts that the conversation does not break this rule.
#[track_caller]
pub fn silent<S: AsRef<str>>(rule: &str, steps: &[S]) {
    assert!(super::rule(rule).is_some(), "there is no rule {rule}");
    if let Some(finding) = findings(steps).into_iter().find(|finding| finding.rule.id == rule) {
        panic!("{rule} was found: {finding:#?}");
    }
}

/// A session on a pipe: a handshake of this revision with all capabilities of both sides, then
/// these steps. The ids from 1 on are free.
pub fn session(version: &str, steps: &[&str]) -> Vec<String> {
    let client = r#"{"roots":{"listChanged":true},"sampling":{},"elicitation":{}}"#;
    let server = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"logging":{},"completions":{},
        "resources":{"subscribe":true,"listChanged":true}}"#;
    session_of(version, client, &server.replace('\n', ""), steps)
}

/// The same with these capabilities of client and server.
pub fn session_of(version: &str, client: &str, server: &str, steps: &[&str]) -> Vec<String> {
    let info = r#"{"name":"n","version":"1"}"#;
    let mut all = vec![
        format!(
            r#"> {{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{client},"clientInfo":{info}}}}}"#
        ),
        format!(
            r#"< {{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{version}","capabilities":{server},"serverInfo":{info}}}}}"#
        ),
        r#"> {"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
    ];
    all.extend(steps.iter().map(|step| (*step).to_owned()));
    all
}

/// The `params` of a request of 2026-07-28 with these additional members, such as `"name":"x"`.
pub fn modern(more: &str) -> String {
    let comma = if more.is_empty() { "" } else { "," };
    format!(
        r#"{{{more}{comma}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{{"name":"n","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
    )
}

/// A POST with the headers that Streamable HTTP requires, and these additional
/// ones: `"Name: value\n"`.
pub fn post(headers: &str, body: &str) -> String {
    format!(
        "> POST /mcp\nAccept: application/json, text/event-stream\nContent-Type: application/json\n{headers}\n{body}"
    )
}

/// A response with a JSON body.
pub fn json(status: u16, headers: &str, body: &str) -> String {
    format!("< {status}\nContent-Type: application/json\n{headers}\n{body}")
}

/// A session over Streamable HTTP of this revision. Its session id is `s-1`, or it has none if
/// `id` is false.
pub fn http_session(version: &str, id: bool, steps: &[String]) -> Vec<String> {
    let handshake = session(version, &[]);
    let assigned = if id { "Mcp-Session-Id: s-1\n" } else { "" };
    let headers = header(version, id);
    let mut all = vec![
        post("", &handshake[0][2..]),
        json(200, assigned, &handshake[1][2..]),
        post(&headers, &handshake[2][2..]),
        "< 202\n\n".to_owned(),
    ];
    all.extend(steps.iter().cloned());
    all
}

/// The headers of a request in such a session.
pub fn header(version: &str, id: bool) -> String {
    let session = if id { "Mcp-Session-Id: s-1\n" } else { "" };
    if version < "2025-06-18" { session.to_owned() } else { format!("{session}MCP-Protocol-Version: {version}\n") }
}

type Frame = (i64, LinkType, Vec<u8>);

const MILLISECOND: i64 = 1_000_000;

fn pipes<S: AsRef<str>>(steps: &[S]) -> Vec<Frame> {
    let mut packets = Vec::new();
    let mut time = 1_700_000_000_000 * MILLISECOND;
    let mut say = |time: i64, content: PipeEvent<'_>| {
        let mut data = Vec::new();
        pipe::encode(7, &content, &mut data);
        packets.push((time, LinkType::PIPE, data));
    };
    if steps.first().is_none_or(|step| step.as_ref() != "~") {
        say(time, PipeEvent::Start(Start { command: vec!["server".to_owned()], ..Start::default() }));
    }
    for step in steps {
        time += MILLISECOND;
        let step = step.as_ref();
        match step.split_at(step.len().min(2)) {
            ("> ", line) => say(time, PipeEvent::Data(Pipe::Stdin, format!("{line}\n").as_bytes())),
            ("< ", line) => say(time, PipeEvent::Data(Pipe::Stdout, format!("{line}\n").as_bytes())),
            ("<_", rest) => say(time, PipeEvent::Data(Pipe::Stdout, rest.as_bytes())),
            ("2 ", line) => say(time, PipeEvent::Data(Pipe::Stderr, format!("{line}\n").as_bytes())),
            ("<?", lost) => say(time, PipeEvent::Lost(Pipe::Stdout, lost.parse().expect("bytes"))),
            (">.", _) => say(time, PipeEvent::EndOfFile(Pipe::Stdin)),
            ("<.", _) => say(time, PipeEvent::EndOfFile(Pipe::Stdout)),
            ("! ", code) => say(time, PipeEvent::Exit(Exit { code: code.parse().ok(), signal: None })),
            ("+ ", wait) => time += wait.parse::<i64>().expect("milliseconds") * MILLISECOND,
            ("~", _) => {}
            _ => panic!("no step: {step}"),
        }
    }
    packets
}

/// The packets of the client's connections.
fn network<S: AsRef<str>>(steps: &[S]) -> Vec<Frame> {
    let mut wire = Wire { frames: Vec::new(), time: 1_700_000_000_000 * MILLISECOND, open: BTreeMap::new() };
    let mut port = 40_000;
    for step in steps {
        wire.time += MILLISECOND;
        let step = step.as_ref();
        let (mark, text) = step.split_at(step.len().min(2));
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let (first, fields) = head.split_once('\n').unwrap_or((head, ""));
        let fields: String = fields.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
        let length = format!("Content-Length: {}\r\n\r\n", body.len());
        match mark {
            "> " => wire.send(port, 0, &format!("{first} HTTP/1.1\r\nHost: 10.0.0.2:8000\r\n{fields}{length}{body}")),
            "< " => wire.send(port, 1, &format!("HTTP/1.1 {first} Reason\r\n{fields}{length}{body}")),
            ">_" => wire.send(port, 0, text),
            "<_" => wire.send(port, 1, text),
            "@ " => port = 40_000 + text.parse::<u16>().expect("a number"),
            "~ " => drop(wire.open.insert(40_000 + text.parse::<u16>().expect("a number"), [1_000, 5_000])),
            "+ " => wire.time += text.parse::<i64>().expect("milliseconds") * MILLISECOND,
            "x " => wire.close(40_000 + text.parse::<u16>().expect("a number")),
            _ => panic!("no step: {step}"),
        }
    }
    wire.open.keys().copied().collect::<Vec<_>>().into_iter().for_each(|port| wire.close(port));
    wire.frames
}

/// Client ports from here on lead to the server's second port.
const SECOND_SERVER: u16 = 40_900;

struct Wire {
    frames: Vec<Frame>,
    time: i64,
    /// The next sequence numbers of client and server, by the client's port.
    open: BTreeMap<u16, [u32; 2]>,
}

impl Wire {
    fn send(&mut self, port: u16, from: usize, text: &str) {
        if let Entry::Vacant(place) = self.open.entry(port) {
            place.insert([1_000, 5_000]);
            self.segment(port, 0, "S", b"");
            self.segment(port, 1, "S", b"");
            self.segment(port, 0, "A", b"");
        }
        text.as_bytes().chunks(1_000).for_each(|chunk| self.segment(port, from, "A", chunk));
    }

    fn close(&mut self, port: u16) {
        self.segment(port, 0, "F", b"");
        self.segment(port, 1, "F", b"");
        self.segment(port, 0, "A", b"");
        self.open.remove(&port);
    }

    fn segment(&mut self, port: u16, from: usize, flags: &str, payload: &[u8]) {
        let to = 1 - from;
        let ports = [port, if port < SECOND_SERVER { 8_000 } else { 8_443 }];
        let sequences = self.open.get_mut(&port).expect("an open connection");
        let mut header = TcpHeader::new(ports[from], ports[to], sequences[from], 60_000);
        header.acknowledgment_number = sequences[to];
        header.ack = flags != "S" || from == 1;
        header.syn = flags == "S";
        header.fin = flags == "F";
        sequences[from] = sequences[from].wrapping_add(payload.len() as u32 + u32::from(header.syn || header.fin));
        let hosts = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(hosts[from], hosts[to], 64).tcp_header(header);
        let mut frame = Vec::with_capacity(builder.size(payload.len()));
        builder.write(&mut frame, payload).expect("a frame");
        self.frames.push((self.time, LinkType::ETHERNET, frame));
    }
}
