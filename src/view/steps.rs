//! The step table of a session: what happened layer by layer, in capture order.

mod index;

use crate::capture::PacketNumber;
use crate::decode::exchange::{Exchange, Half};
use crate::decode::jsonrpc::Kind;
use crate::decode::tcp::{Facts, Options};
use crate::decode::tls::StepKind;
use crate::decode::{Direction, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Carrier, MessageNumber, Peers, Session, SessionNumber};
use crate::store::MessageRow;
use crate::view::{safe, units};

pub use index::Index;

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// 1-based.
    pub number: usize,
    /// The session.
    pub session: SessionNumber,
    /// `L4`, `TLS`, `L7`; a dash where there is no network.
    pub layer: &'static str,
    /// Who speaks: an address, or `host` and `server` for pipes.
    pub from: String,
    /// To whom.
    pub to: String,
    /// Which way; `None`: both speak.
    pub direction: Option<Direction>,
    /// The server's port.
    pub port: Option<u16>,
    /// The packets.
    pub packets: Vec<PacketNumber>,
    /// What happened.
    pub detail: String,
    /// `synchronization`, `request`, `response`, `notification`, where it carries JSON-RPC.
    pub role: Option<&'static str>,
    /// The messages it carries.
    pub messages: Vec<MessageNumber>,
    /// The first of them in words, for people: `initialize id 1`.
    pub about: String,
}

/// What a connection is by itself: its handshakes, or that there is none. Of one whose packets are made up nothing else is told of them.
pub fn of_connection(session: &Session, connection: &Connection, is_made_up: bool) -> Vec<Step> {
    match (&connection.kind, Place::new(session.number, connection)) {
        (ConnectionKind::Tcp(facts), Some(place)) => {
            let mut steps = handshake(facts, &place, is_made_up);
            steps.extend(tls(connection, &place));
            steps
        }
        _ => vec![pipe(session)],
    }
}

/// Who is who on a connection of a session.
#[derive(Clone, Debug)]
pub struct Place {
    session: SessionNumber,
    addresses: [String; 2],
    client: Side,
    port: u16,
}

impl Step {
    /// `192.0.2.1 → 192.0.2.2`
    pub fn ends(&self) -> String {
        let arrow = if self.direction.is_none() { "↔" } else { "→" };
        format!("{} {arrow} {}", self.from, self.to)
    }
}

impl Place {
    /// On a TCP connection.
    pub fn new(session: SessionNumber, connection: &Connection) -> Option<Place> {
        let ConnectionKind::Tcp(facts) = &connection.kind else { return None };
        let client = connection.client.unwrap_or(Side::First);
        let port = facts.endpoints[client.other().index()].port();
        Some(Place { session, addresses: facts.endpoints.map(|endpoint| endpoint.ip().to_string()), client, port })
    }

    fn step(&self, layer: &'static str, from: Side, packets: Vec<PacketNumber>, detail: String) -> Step {
        Step {
            number: 0,
            session: self.session,
            layer,
            from: self.addresses[from.index()].clone(),
            to: self.addresses[from.other().index()].clone(),
            direction: Some(if from == self.client { Direction::ClientToServer } else { Direction::ServerToClient }),
            port: Some(self.port),
            packets,
            detail,
            role: None,
            messages: Vec::new(),
            about: String::new(),
        }
    }
}

fn handshake(facts: &Facts, ends: &Place, is_made_up: bool) -> Vec<Step> {
    let [syn, syn_ack, ack] = facts.handshake;
    let offered = |side: Side| options(&facts.ends[side.index()].options);
    let mut steps = Vec::new();
    let mut step = |side, packet, flags, told: String| {
        let told = if is_made_up { "  (made up: mcptap saw no network)".to_owned() } else { told };
        steps.push(ends.step("L4", side, vec![packet], format!("TCP {flags}{told}")));
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

fn options(options: &Options) -> String {
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

fn tls(connection: &Connection, ends: &Place) -> Vec<Step> {
    let from = ends.client;
    let spoke = connection.tls.iter().any(|step| matches!(step.kind, StepKind::ApplicationData | StepKind::Decrypted));
    // Tickets are plumbing, and so is the alert that closes; one that came instead of data is the story.
    let told = connection.tls.iter().filter(|step| match step.kind {
        StepKind::Handshake | StepKind::ApplicationData | StepKind::Decrypted => true,
        StepKind::SessionTickets => false,
        StepKind::Alert => !spoke,
    });
    let steps = told.map(|step| {
        let what = match step.kind {
            StepKind::Handshake => "TLS handshake",
            StepKind::ApplicationData => "TLS application data, encrypted",
            StepKind::Decrypted => "TLS application data, decrypted",
            StepKind::SessionTickets => "TLS session tickets",
            StepKind::Alert => "TLS alert",
        };
        let detail = if step.detail.is_empty() { what.to_owned() } else { format!("{what}  {}", step.detail) };
        Step { direction: None, ..ends.step("TLS", from, step.packets.clone(), detail) }
    });
    steps.collect()
}

/// The request of an exchange, where it was seen, with the messages that its body carried.
pub fn of_request(place: &Place, exchange: &Exchange, messages: &[&MessageRow]) -> Option<Step> {
    let method = exchange.method.as_ref()?;
    let target = safe::visible(exchange.target.as_deref().unwrap_or_default());
    let detail = format!("HTTP {} {target}{}", safe::visible(method), content(&exchange.request, true));
    let step = place.step("L7", place.client, exchange.request.packets.clone(), detail);
    Some(with_messages(step, messages))
}

/// The response, where it was seen, with the messages that its body carried; events are steps of their own.
pub fn of_response(place: &Place, exchange: &Exchange, messages: &[&MessageRow], has_events: bool) -> Option<Step> {
    let status = exchange.status?;
    let reason = safe::visible(exchange.reason.as_deref().unwrap_or_default());
    let location = field(&exchange.response, "location").map(|to| format!(" → {}", safe::visible(to)));
    // What follows a switch of protocols is no content of the response, so that there is no end of it.
    let switched = status == 101;
    let detail =
        format!("HTTP {status} {reason}{}{}", location.unwrap_or_default(), content(&exchange.response, !switched));
    let packets = if has_events { &exchange.response.head_packets } else { &exchange.response.packets };
    Some(with_messages(place.step("L7", place.client.other(), packets.clone(), detail), messages))
}

/// A message with a frame of its own: a server-sent event, or what a WebSocket carried.
pub fn of_frame(place: &Place, message: &MessageRow) -> Step {
    let id = message.sse_id.as_deref().map(|id| format!("  id {}", safe::visible(id))).unwrap_or_default();
    let what = if message.carrier == Carrier::WebSocket { "WebSocket message" } else { "SSE event" };
    let detail = format!("{what}{id}  {}", units::size(message.size));
    let from = match message.direction {
        Direction::ClientToServer => place.client,
        Direction::ServerToClient => place.client.other(),
    };
    with_messages(place.step("L7", from, message.packets.clone(), detail), &[message])
}

fn field<'e>(half: &'e Half, name: &str) -> Option<&'e str> {
    half.fields.get(name)
}

fn content(half: &Half, has_end: bool) -> String {
    let media = field(half, "content-type").map(|value| value.split(';').next().unwrap_or(value));
    let media = media.map(|media| format!("  {}", safe::visible(media))).unwrap_or_default();
    let size = if half.body_bytes > 0 { format!("  {}", units::size(half.body_bytes)) } else { String::new() };
    let cut = if half.complete || half.head_end == 0 || !has_end { "" } else { "  (cut)" };
    format!("{media}{size}{cut}")
}

/// That there is no network below a session of pipes.
fn pipe(session: &Session) -> Step {
    let detail = match &session.peers {
        Peers::Process { process, command, .. } => {
            let command = safe::fit(&command.join(" "), 80);
            format!("link, network, transport: none (pipes inside one machine)  pid {process}  {command}")
        }
        Peers::Network { .. } => "link, network, transport: none".to_owned(),
    };
    let (from, to) = ("host".to_owned(), "server".to_owned());
    Step {
        number: 0,
        session: session.number,
        layer: "-",
        from,
        to,
        direction: None,
        port: None,
        packets: Vec::new(),
        detail,
        role: None,
        messages: Vec::new(),
        about: String::new(),
    }
}

/// A line on a pipe.
pub fn of_line(message: &MessageRow) -> Step {
    let (from, to, pipe) = match message.direction {
        Direction::ClientToServer => ("host", "server", "stdin"),
        Direction::ServerToClient => ("server", "host", "stdout"),
    };
    let line = message.line.unwrap_or_default();
    let (start, end) = (message.span.start, message.span.end);
    let step = Step {
        number: 0,
        session: message.session,
        layer: "L7",
        from: from.to_owned(),
        to: to.to_owned(),
        direction: Some(message.direction),
        port: None,
        packets: Vec::new(),
        detail: format!("{pipe}, line {line}, bytes {start}..{end}"),
        role: None,
        messages: Vec::new(),
        about: String::new(),
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

/// What a message does for the session.
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
    use crate::talk;

    #[test]
    fn what_follows_a_switch_to_websocket_is_told_message_by_message_and_the_switch_is_whole() {
        let addresses = ["192.0.2.1".to_owned(), "192.0.2.2".to_owned()];
        let place = Place { session: SessionNumber(1), addresses, client: Side::First, port: 80 };
        let response = |status| {
            let response = Half { head_end: 90, packets: vec![PacketNumber(2)], ..Half::default() };
            let exchange = Exchange { status: Some(status), response, ..Exchange::default() };
            of_response(&place, &exchange, &[], true).map(|step| step.detail)
        };
        assert_eq!(response(101).as_deref(), Some("HTTP 101 "));
        assert_eq!(response(200).as_deref(), Some("HTTP 200   (cut)"));
        let store = DatabaseFile::temporary().unwrap();
        let info = CaptureInfo { kind: CaptureKind::Import, source: "one".into(), process: 1, started: Time(0) };
        let mut writer = Writer::create(store.clone(), &info, WriteOptions::default()).unwrap();
        let peers = Peers::Process { process: 1, command: Vec::new(), name: None };
        let session = Session::opened(SessionNumber(1), Transport::WebSocket, peers, Time(0));
        writer.event(Event::Session(Box::new(session)));
        for (number, direction) in [(1, Direction::ClientToServer), (2, Direction::ServerToClient)] {
            let text = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let message = talk::message(number, Time(0), direction, text);
            writer.event(Event::Message(Box::new(Message { carrier: Carrier::WebSocket, ..message })));
        }
        writer.finish(&Summary::default()).unwrap();
        let rows = StoreReader::open(store).unwrap().message_rows(Scope::All, Page::<RowKey>::first(10)).unwrap();
        let steps = rows.iter().map(|row| of_frame(&place, row));
        let told: Vec<_> = steps.map(|step| (step.ends(), step.detail, step.messages)).collect();
        let expected =
            |ends: &str, number| (ends.to_owned(), "WebSocket message  40 B".to_owned(), vec![MessageNumber(number)]);
        assert_eq!(told, [expected("192.0.2.1 → 192.0.2.2", 1), expected("192.0.2.2 → 192.0.2.1", 2)]);
    }
}
