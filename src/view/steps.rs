//! The step table of a session: events layer by layer, in the order of the capture.

mod table;

use std::net::SocketAddr;

use crate::capture::pipe::FIRST_IMPORTED;
use crate::capture::{PacketNumber, above_tls};
use crate::decode::exchange::{Exchange, Half};
use crate::decode::jsonrpc::Kind;
use crate::decode::tcp::{Facts, SynOptions};
use crate::decode::tls::RecordGroupKind;
use crate::decode::{Direction, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Carrier, MessageNumber, Peers, Session, SessionNumber};
use crate::store::MessageRow;
use crate::view::parties::process_name;
use crate::view::{safe, units};

pub use table::StepTable;

/// A row of the step table: one event on one layer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The position in the table, 1-based.
    pub number: usize,
    /// The session that the step is part of.
    pub session: SessionNumber,
    /// `L4`, `TLS` or `L7`; a dash where there is no network.
    pub layer: &'static str,
    /// The sender: an address, or `host` or `server` for pipes.
    pub from: String,
    /// The receiver, in the same form.
    pub to: String,
    /// The direction; `None` where both sides send.
    pub direction: Option<Direction>,
    /// The server's port.
    pub port: Option<u16>,
    /// The packets that carried it.
    pub packets: Vec<PacketNumber>,
    /// A description of the event.
    pub detail: String,
    /// The role in JSON-RPC: `synchronization`, `request`, `response` or `notification`.
    pub role: Option<&'static str>,
    /// The messages that it carried.
    pub messages: Vec<MessageNumber>,
    /// The first of these messages in words, for people: `initialize id 1`.
    pub about: String,
}

/// The steps of a connection itself: its handshakes, or the fact that there is no network. Where
/// the packets are made up, their details are left out.
pub fn of_connection(session: &Session, connection: &Connection, is_made_up: bool) -> Vec<Step> {
    match (&connection.kind, ConnectionRoles::new(session.number, connection)) {
        (ConnectionKind::Tcp(facts), Some(roles)) => {
            let mut steps = match connection.above_tls() {
                Some(process) => vec![recorded_above_tls(process, &roles)],
                None => handshake(facts, &roles, is_made_up),
            };
            steps.extend(tls(connection, &roles));
            steps
        }
        _ => vec![pipe(session)],
    }
}

/// The two ends of a session's connection, and which of them is the client.
#[derive(Clone, Debug)]
pub struct ConnectionRoles {
    session: SessionNumber,
    addresses: [String; 2],
    client: Side,
    port: u16,
}

impl Step {
    /// Both ends with an arrow: `192.0.2.1 → 192.0.2.2`.
    pub fn ends(&self) -> String {
        let arrow = if self.direction.is_none() { "↔" } else { "→" };
        format!("{} {arrow} {}", self.from, self.to)
    }
}

impl ConnectionRoles {
    /// The ends of a TCP connection; `None` for any other.
    pub fn new(session: SessionNumber, connection: &Connection) -> Option<ConnectionRoles> {
        let ConnectionKind::Tcp(facts) = &connection.kind else { return None };
        let client = connection.client.unwrap_or(Side::First);
        let port = facts.endpoints[client.other().index()].port();
        let name = |end: SocketAddr| match (connection.above_tls(), above_tls::process(&[end, end])) {
            (Some(_), Some(process)) => format!("process {process}"),
            (Some(_), None) => "other end".to_owned(),
            (None, _) => end.ip().to_string(),
        };
        Some(ConnectionRoles { session, addresses: facts.endpoints.map(name), client, port })
    }

    fn step(&self, layer: &'static str, from: Side, packets: Vec<PacketNumber>, detail: String) -> Step {
        Step {
            session: self.session,
            layer,
            from: self.addresses[from.index()].clone(),
            to: self.addresses[from.other().index()].clone(),
            direction: Some(if from == self.client { Direction::ClientToServer } else { Direction::ServerToClient }),
            port: Some(self.port),
            packets,
            detail,
            ..Step::default()
        }
    }
}

/// The step that says where a connection was recorded.
fn recorded_above_tls(process: u32, roles: &ConnectionRoles) -> Step {
    let detail = format!("above TLS, no packets: what process {process} gave to its TLS library and got from it");
    Step { direction: None, ..roles.step("TLS", roles.client, Vec::new(), detail) }
}

fn handshake(facts: &Facts, roles: &ConnectionRoles, is_made_up: bool) -> Vec<Step> {
    let [syn, syn_ack, ack] = facts.handshake;
    let offered = |side: Side| options(&facts.ends[side.index()].options);
    let mut steps = Vec::new();
    let mut step = |side, packet, flags, details: String| {
        let details = if is_made_up { "  (made up: mcptap saw no network)".to_owned() } else { details };
        steps.push(roles.step("L4", side, vec![packet], format!("TCP {flags}{details}")));
    };
    if let Some(syn) = syn {
        step(Side::First, syn.packet, "SYN", offered(Side::First));
    }
    if let Some(syn_ack) = syn_ack {
        let round_trip = syn.map(|syn| format!("  (round trip {})", units::duration(syn_ack.time.since(syn.time))));
        step(Side::Second, syn_ack.packet, "SYN, ACK", offered(Side::Second) + &round_trip.unwrap_or_default());
    }
    if let Some(ack) = ack {
        step(Side::First, ack.packet, "ACK", "  connection established".to_owned());
    }
    steps
}

fn options(options: &SynOptions) -> String {
    let mut words = Vec::new();
    if let Some(mss) = options.mss {
        words.push(format!("MSS {mss}"));
    }
    if let Some(shift) = options.window_scale {
        words.push(format!("window scale {}", 1u32 << shift.min(14)));
    }
    if options.sack_permitted {
        words.push("SACK permitted".to_owned());
    }
    if options.timestamps {
        words.push("timestamps".to_owned());
    }
    if words.is_empty() { String::new() } else { format!("  {}", words.join(", ")) }
}

fn tls(connection: &Connection, roles: &ConnectionRoles) -> Vec<Step> {
    let from = roles.client;
    let has_data = connection
        .tls
        .iter()
        .any(|step| matches!(step.kind, RecordGroupKind::ApplicationData | RecordGroupKind::Decrypted));
    // Session tickets and a closing alert are details. An alert without any data explains why
    // there is none.
    let shown = connection.tls.iter().filter(|step| match step.kind {
        RecordGroupKind::Handshake | RecordGroupKind::ApplicationData | RecordGroupKind::Decrypted => true,
        RecordGroupKind::SessionTickets => false,
        RecordGroupKind::Alert => !has_data,
    });
    let steps = shown.map(|step| {
        let what = match step.kind {
            RecordGroupKind::Handshake => "TLS handshake",
            RecordGroupKind::ApplicationData => "TLS application data, encrypted",
            RecordGroupKind::Decrypted => "TLS application data, decrypted",
            RecordGroupKind::SessionTickets => "TLS session tickets",
            RecordGroupKind::Alert => "TLS alert",
        };
        let detail = if step.detail.is_empty() { what.to_owned() } else { format!("{what}  {}", step.detail) };
        Step { direction: None, ..roles.step("TLS", from, step.packets.clone(), detail) }
    });
    steps.collect()
}

/// The request of an exchange, if it was captured, with the messages in its body.
pub fn of_request(roles: &ConnectionRoles, exchange: &Exchange, messages: &[&MessageRow]) -> Option<Step> {
    let method = exchange.method.as_ref()?;
    let target = safe::visible(exchange.target.as_deref().unwrap_or_default());
    let detail = format!("HTTP {} {target}{}", safe::visible(method), content(&exchange.request, true));
    let step = roles.step("L7", roles.client, exchange.request.packets.clone(), detail);
    Some(with_messages(step, messages))
}

/// The response of an exchange, if it was captured, with the messages in its body. Server-sent
/// events are steps of their own.
pub fn of_response(
    roles: &ConnectionRoles,
    exchange: &Exchange,
    messages: &[&MessageRow],
    has_events: bool,
) -> Option<Step> {
    let status = exchange.status?;
    let reason = safe::visible(exchange.reason.as_deref().unwrap_or_default());
    let location = exchange.response.fields.get("location").map(|to| format!(" → {}", safe::visible(to)));
    // The bytes behind a switch of protocols are not content of the response, so it has no end.
    let switched = status == 101;
    let detail =
        format!("HTTP {status} {reason}{}{}", location.unwrap_or_default(), content(&exchange.response, !switched));
    let packets = if has_events { &exchange.response.head_packets } else { &exchange.response.packets };
    Some(with_messages(roles.step("L7", roles.client.other(), packets.clone(), detail), messages))
}

/// A message in a frame of its own: a server-sent event or a WebSocket message.
pub fn of_frame(roles: &ConnectionRoles, message: &MessageRow) -> Step {
    let id = message.sse_id.as_deref().map(|id| format!("  id {}", safe::visible(id))).unwrap_or_default();
    let what = if message.carrier == Carrier::WebSocket { "WebSocket message" } else { "SSE event" };
    let detail = format!("{what}{id}  {}", units::size(message.size));
    let from = match message.direction {
        Direction::ClientToServer => roles.client,
        Direction::ServerToClient => roles.client.other(),
    };
    with_messages(roles.step("L7", from, message.packets.clone(), detail), &[message])
}

fn content(half: &Half, has_end: bool) -> String {
    let media = half.fields.get("content-type").map(|value| value.split(';').next().unwrap_or(value));
    let media = media.map(|media| format!("  {}", safe::visible(media))).unwrap_or_default();
    let size = if half.body_bytes > 0 { format!("  {}", units::size(half.body_bytes)) } else { String::new() };
    let cut = if half.complete || half.head_end == 0 || !has_end { "" } else { "  (cut)" };
    format!("{media}{size}{cut}")
}

/// The first step of a session over pipes: there is no network.
fn pipe(session: &Session) -> Step {
    let detail = match &session.peers {
        Peers::Process { process, command, .. } => {
            let command = safe::fit(&command.join(" "), 80);
            let below = match *process >= FIRST_IMPORTED {
                true => "not captured (another program recorded the messages alone)",
                false => "none (pipes inside one machine)",
            };
            format!("link, network, transport: {below}  {}  {command}", process_name(*process))
        }
        Peers::Network { .. } => "link, network, transport: none".to_owned(),
    };
    Step {
        session: session.number,
        layer: "-",
        from: "host".to_owned(),
        to: "server".to_owned(),
        detail,
        ..Step::default()
    }
}

/// A message that is a line on a pipe.
pub fn of_line(message: &MessageRow) -> Step {
    let (from, to, pipe) = match message.direction {
        Direction::ClientToServer => ("host", "server", "stdin"),
        Direction::ServerToClient => ("server", "host", "stdout"),
    };
    let line = message.line.unwrap_or_default();
    let (start, end) = (message.span.start, message.span.end);
    let step = Step {
        session: message.session,
        layer: "L7",
        from: from.to_owned(),
        to: to.to_owned(),
        direction: Some(message.direction),
        detail: format!("{pipe}, line {line}, bytes {start}..{end}"),
        ..Step::default()
    };
    with_messages(step, &[message])
}

fn with_messages(step: Step, messages: &[&MessageRow]) -> Step {
    let Some(first) = messages.first() else { return step };
    let more = if messages.len() > 1 { format!(" and {} more", messages.len() - 1) } else { String::new() };
    let id = first.id.as_deref().map(|id| format!(" id {}", safe::visible(id))).unwrap_or_default();
    let about = format!("{}{id}{more}", safe::visible(first.method.as_deref().unwrap_or("no known method")));
    Step {
        role: role(first.kind, first.method.as_deref()),
        messages: messages.iter().map(|message| message.number).collect(),
        about,
        ..step
    }
}

/// The role of a message in JSON-RPC; `None` for a text that is not a message.
pub fn role(kind: Kind, method: Option<&str>) -> Option<&'static str> {
    const SYNCHRONIZATION: [&str; 4] = ["initialize", "notifications/initialized", "ping", "server/discover"];
    match (kind, method) {
        (Kind::Invalid, _) => None,
        (_, Some(method)) if SYNCHRONIZATION.contains(&method) => Some("synchronization"),
        (Kind::Request, _) => Some("request"),
        (Kind::Notification, _) => Some("notification"),
        (Kind::Response | Kind::Error, _) => Some("response"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Time;
    use crate::event::Event;
    use crate::mcp::{Message, Transport};
    use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, Page, RowKey, WriteOptions};
    use crate::store::{Scope, StoreReader, Summary, Writer};
    use crate::test_messages;

    #[test]
    fn websocket_messages_are_steps_and_the_switch_is_complete() {
        let addresses = ["192.0.2.1".to_owned(), "192.0.2.2".to_owned()];
        let roles = ConnectionRoles { session: SessionNumber(1), addresses, client: Side::First, port: 80 };
        let response = |status| {
            let response = Half { head_end: 90, packets: vec![PacketNumber(2)], ..Half::default() };
            let exchange = Exchange { status: Some(status), response, ..Exchange::default() };
            of_response(&roles, &exchange, &[], true).map(|step| step.detail)
        };
        assert_eq!(response(101).as_deref(), Some("HTTP 101 "));
        assert_eq!(response(200).as_deref(), Some("HTTP 200   (cut)"));
        let store = DatabaseFile::temporary().unwrap();
        let info = CaptureInfo::begun(CaptureKind::Import, "one".into());
        let mut writer = Writer::create(store.clone(), &info, WriteOptions::default()).unwrap();
        let peers = Peers::Process { process: 1, command: Vec::new() };
        let session = Session::opened(SessionNumber(1), Transport::WebSocket, peers, Time(0));
        writer.event(Event::Session(Box::new(session)));
        for (number, direction) in [(1, Direction::ClientToServer), (2, Direction::ServerToClient)] {
            let text = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let message = test_messages::message(number, Time(0), direction, text);
            writer.event(Event::Message(Box::new(Message { carrier: Carrier::WebSocket, ..message })));
        }
        writer.finish(&Summary::default()).unwrap();
        let rows = StoreReader::open(store).unwrap().message_rows(Scope::All, Page::<RowKey>::first(10)).unwrap();
        let steps = rows.iter().map(|row| of_frame(&roles, row));
        let shown: Vec<_> = steps.map(|step| (step.ends(), step.detail, step.messages)).collect();
        let expected =
            |ends: &str, number| (ends.to_owned(), "WebSocket message  40 B".to_owned(), vec![MessageNumber(number)]);
        assert_eq!(shown, [expected("192.0.2.1 → 192.0.2.2", 1), expected("192.0.2.2 → 192.0.2.1", 2)]);
    }
}
