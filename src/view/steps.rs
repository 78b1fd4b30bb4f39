//! The step table of a session: what happened layer by layer, in capture order.

use std::collections::BTreeMap;

use crate::capture::PacketNumber;
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::decode::jsonrpc::Kind;
use crate::decode::tcp::{Facts, Options};
use crate::decode::tls::StepKind;
use crate::decode::{Direction, Side};
use crate::event::{Connection, ConnectionKind};
use crate::mcp::{Carrier, Message, MessageNumber, Peers, Session, SessionNumber};
use crate::view::{safe, units};

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
    /// Both speak.
    pub both: bool,
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

/// What the table of a session is made from.
#[derive(Debug)]
pub struct Told<'a> {
    /// The session.
    pub session: &'a Session,
    /// Its connections.
    pub connections: &'a [Connection],
    /// The exchanges on them.
    pub exchanges: &'a [Exchange],
    /// Its messages.
    pub messages: &'a [Message],
}

/// The steps of a session in capture order.
pub fn steps(told: &Told<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut carried: BTreeMap<(ExchangeNumber, Carrier), Vec<&Message>> = BTreeMap::new();
    for message in told.messages {
        if let Some(exchange) = message.exchange {
            carried.entry((exchange, message.carrier)).or_default().push(message);
        }
    }
    for connection in told.connections {
        match &connection.kind {
            ConnectionKind::Tcp(facts) => {
                let ends = Ends::new(connection, facts);
                steps.extend(handshake(told.session.number, facts, &ends));
                steps.extend(tls(told.session.number, connection, &ends));
                let own = told.exchanges.iter().filter(|exchange| exchange.connection == connection.id);
                for exchange in own {
                    let messages = |carrier| carried.remove(&(exchange.number, carrier)).unwrap_or_default();
                    steps.extend(exchange_steps(told.session.number, exchange, &ends, messages));
                }
            }
            ConnectionKind::Pipe { .. } => steps.push(pipe(told.session)),
        }
    }
    steps.extend(told.messages.iter().filter(|message| message.carrier == Carrier::Line).map(line));
    // Stable: what shares its first packet stays in the order of layers. Lines have no packets and stay in theirs.
    steps.sort_by_key(|step| step.packets.iter().min().copied());
    for (index, step) in steps.iter_mut().enumerate() {
        step.number = index + 1;
    }
    steps
}

/// Who is who on a connection.
struct Ends {
    addresses: [String; 2],
    client: Side,
    port: u16,
}

impl Ends {
    fn new(connection: &Connection, facts: &Facts) -> Ends {
        let client = connection.client.unwrap_or(Side::First);
        let port = facts.endpoints[client.other().index()].port();
        Ends { addresses: facts.endpoints.map(|endpoint| endpoint.ip().to_string()), client, port }
    }

    fn step(
        &self,
        session: SessionNumber,
        layer: &'static str,
        from: Side,
        packets: Vec<PacketNumber>,
        detail: String,
    ) -> Step {
        Step {
            number: 0,
            session,
            layer,
            from: self.addresses[from.index()].clone(),
            to: self.addresses[from.other().index()].clone(),
            both: false,
            port: Some(self.port),
            packets,
            detail,
            role: None,
            messages: Vec::new(),
            about: String::new(),
        }
    }
}

fn handshake(session: SessionNumber, facts: &Facts, ends: &Ends) -> Vec<Step> {
    let [syn, syn_ack, ack] = facts.handshake;
    let offered = |side: Side| options(&facts.ends[side.index()].options);
    let mut steps = Vec::new();
    if let Some(syn) = syn {
        let detail = format!("TCP SYN{}", offered(Side::First));
        steps.push(ends.step(session, "L4", Side::First, vec![syn.packet], detail));
    }
    if let Some(syn_ack) = syn_ack {
        let round_trip = syn.map(|syn| format!("  (round trip {})", units::duration(syn_ack.time.since(syn.time))));
        let detail = format!("TCP SYN, ACK{}{}", offered(Side::Second), round_trip.unwrap_or_default());
        steps.push(ends.step(session, "L4", Side::Second, vec![syn_ack.packet], detail));
    }
    if let Some(ack) = ack {
        let detail = "TCP ACK  connection established".to_owned();
        steps.push(ends.step(session, "L4", Side::First, vec![ack.packet], detail));
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

fn tls(session: SessionNumber, connection: &Connection, ends: &Ends) -> Vec<Step> {
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
        Step { both: true, ..ends.step(session, "TLS", from, step.packets.clone(), detail) }
    });
    steps.collect()
}

fn exchange_steps<'m>(
    session: SessionNumber,
    exchange: &Exchange,
    ends: &Ends,
    mut messages: impl FnMut(Carrier) -> Vec<&'m Message>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let server = ends.client.other();
    if let Some(method) = &exchange.method {
        let target = safe::visible(exchange.target.as_deref().unwrap_or_default());
        let detail = format!("HTTP {} {target}{}", safe::visible(method), content(&exchange.request));
        let step = ends.step(session, "L7", ends.client, exchange.request.packets.clone(), detail);
        steps.push(with_messages(step, &messages(Carrier::RequestBody)));
    }
    if let Some(status) = exchange.status {
        let reason = safe::visible(exchange.reason.as_deref().unwrap_or_default());
        let location = field(&exchange.response, "location").map(|to| format!(" → {}", safe::visible(to)));
        let detail = format!("HTTP {status} {reason}{}{}", location.unwrap_or_default(), content(&exchange.response));
        let events = messages(Carrier::SseEvent);
        let packets = if events.is_empty() { &exchange.response.packets } else { &exchange.response.head_packets };
        let step = ends.step(session, "L7", server, packets.clone(), detail);
        steps.push(with_messages(step, &messages(Carrier::ResponseBody)));
        for event in events {
            let id = event.sse_id.as_deref().map(|id| format!("  id {}", safe::visible(id)));
            let detail = format!("SSE event{}  {}", id.unwrap_or_default(), units::size(event.raw.len() as u64));
            let step = ends.step(session, "L7", server, event.packets.clone(), detail);
            steps.push(with_messages(step, &[event]));
        }
    }
    steps
}

fn field<'e>(half: &'e Half, name: &str) -> Option<&'e str> {
    half.fields.get(name)
}

fn content(half: &Half) -> String {
    let media = field(half, "content-type").map(|value| value.split(';').next().unwrap_or(value));
    let media = media.map(|media| format!("  {}", safe::visible(media))).unwrap_or_default();
    let size = if half.body_bytes > 0 { format!("  {}", units::size(half.body_bytes)) } else { String::new() };
    let cut = if half.complete || half.head_end == 0 { "" } else { "  (cut)" };
    format!("{media}{size}{cut}")
}

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
        both: true,
        port: None,
        packets: Vec::new(),
        detail,
        role: None,
        messages: Vec::new(),
        about: String::new(),
    }
}

fn line(message: &Message) -> Step {
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
        both: false,
        port: None,
        packets: Vec::new(),
        detail: format!("{pipe}, line {line}, bytes {start}..{end}"),
        role: None,
        messages: Vec::new(),
        about: String::new(),
    };
    with_messages(step, &[message])
}

fn with_messages(step: Step, messages: &[&Message]) -> Step {
    let Some(first) = messages.first() else { return step };
    let more = if messages.len() > 1 { format!(" and {} more", messages.len() - 1) } else { String::new() };
    let id = first.id.as_deref().map(|id| format!(" id {}", safe::visible(id))).unwrap_or_default();
    let about = format!("{}{id}{more}", safe::visible(first.method.as_deref().unwrap_or("no known method")));
    Step { role: role(first), messages: messages.iter().map(|message| message.number).collect(), about, ..step }
}

/// What a message does for the session.
pub fn role(message: &Message) -> Option<&'static str> {
    const SYNCHRONIZATION: [&str; 4] = ["initialize", "notifications/initialized", "ping", "server/discover"];
    match (message.kind, message.method.as_deref()) {
        (Kind::Invalid, _) => None,
        (_, Some(method)) if SYNCHRONIZATION.contains(&method) => Some("synchronization"),
        (Kind::Request, _) => Some("request"),
        (Kind::Notification, _) => Some("notification"),
        (Kind::Response | Kind::Error, _) => Some("response"),
    }
}
