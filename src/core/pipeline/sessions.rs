//! From what the stacks found to events: sessions, messages, findings, and what a store needs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::encrypted::Encrypted;
use super::holes::Holes;
use super::order::Order;
use super::{Emit, Options};
use crate::capture::pipe::{self, Content, HEAD, Pipe};
use crate::capture::{Packet, PacketNumber, PacketRange, Ranges, Time};
use crate::decode::stack::{Connected, Unit};
use crate::decode::tcp::{Analysis, Facts, Flags, SegmentFact};
use crate::decode::tls::Secrecy;
use crate::decode::{Anomaly, ConnectionId, Endpoints, Side, dns};
use crate::event::{Connection, ConnectionKind, Detail, Event, Segment};
use crate::findings::{Checker, Finding, tls, transport};
use crate::mcp::tracker::{SESSIONS, Tracked, Tracker};
use crate::mcp::{Message, Peers, Session, SessionNumber};

/// Figures of the capture so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Captured bytes.
    pub bytes: u64,
    /// Packets that hold nothing for mcptap, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// TCP connections.
    pub tcp_connections: u64,
    /// HTTP exchanges that are over.
    pub exchanges: u64,
    /// Messages.
    pub messages: u64,
    /// Time of the earliest packet.
    pub first: Option<Time>,
    /// Time of the latest packet.
    pub last: Option<Time>,
    /// TCP segments that the snap length cut.
    pub cut: u64,
}

impl Counts {
    /// One more packet.
    pub(super) fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += packet.data.len() as u64;
        self.first = Some(self.first.map_or(packet.time, |first| first.min(packet.time)));
        self.last = Some(self.last.map_or(packet.time, |last| last.max(packet.time)));
    }
}

/// Anomalies held for a connection until it is known what runs on it.
const HELD: usize = 64;

/// Sessions, and what is known of the connections that carry them.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) options: Options,
    tracker: Tracker,
    /// What it said last and is not taken in yet. Kept for its memory.
    said: Vec<Tracked>,
    checker: Checker,
    pub(super) counts: Counts,
    names: FxHashMap<IpAddr, String>,
    connections: FxHashMap<ConnectionId, Known>,
    /// Pipes seen so far.
    pub(super) pipes: u32,
    /// Connections to be kept, for the stacks to be told.
    pub(super) kept: Vec<ConnectionId>,
    /// TLS connections whose content was not seen.
    encrypted: Encrypted,
    /// Connections on which bytes are waited for.
    pub(super) holes: Holes,
    /// Whether packets of several connections changed places.
    order: Order,
}

/// What is known of an open connection.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) record: Connection,
    sessions: Vec<Carried>,
    /// Findings that wait until it is known what runs on the connection.
    held: Vec<Finding>,
    /// Offsets in the streams of pipes, which no reassembler counts.
    offsets: [u64; 3],
    /// Whether TLS could be opened on it.
    pub(super) secrecy: Secrecy,
}

/// A session on a connection.
#[derive(Clone, Copy, Debug)]
struct Carried {
    session: SessionNumber,
    /// Bytes of the connection, seen and lost, that it was told of.
    told: (u64, u64),
}

impl Sessions {
    pub(super) fn new(options: Options) -> Sessions {
        Sessions {
            options,
            tracker: Tracker::new(options.limits),
            said: Vec::new(),
            checker: Checker::new(options.limits),
            counts: Counts::default(),
            names: FxHashMap::default(),
            connections: FxHashMap::default(),
            pipes: 0,
            kept: Vec::new(),
            encrypted: Encrypted::default(),
            holes: Holes::default(),
            order: Order::default(),
        }
    }

    fn stores(&self) -> bool {
        self.options.detail == Detail::Store
    }

    /// Whether a connection carries a session and is stored.
    fn is_kept(&self, id: ConnectionId) -> bool {
        self.stores() && self.connections.get(&id).is_some_and(|known| !known.sessions.is_empty())
    }

    /// A connection was seen for the first time.
    pub(super) fn opened(&mut self, id: ConnectionId, kind: ConnectionKind, emit: &mut Emit<'_>) {
        if let ConnectionKind::Tcp(_) = kind {
            self.counts.tcp_connections += 1;
        }
        let record =
            Connection { id, kind, client: None, protocol: "unknown", host: None, tls: Vec::new(), agreed: None };
        if self.stores() {
            emit(Event::Connection(Box::new(record.clone())));
        }
        let known =
            Known { record, sessions: Vec::new(), held: Vec::new(), offsets: [0; 3], secrecy: Secrecy::default() };
        self.connections.insert(id, known);
    }

    /// A TCP segment arrived.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>, emit: &mut Emit<'_>) {
        self.holes.segment(fact);
        self.order.segment(fact);
        self.tracker.may_be_late(fact.late);
        if self.stores() {
            emit(Event::Segment(Segment {
                connection: fact.connection,
                side: fact.side,
                packet: fact.packet,
                offset: fact.offset,
                length: fact.length,
                acknowledged: fact.acknowledged,
                window: fact.window,
                flags: fact.flags,
                analysis: fact.analysis,
                origin: fact.origin.into(),
            }));
        }
    }

    /// A chunk of a pipe arrived: for a store it is a segment of its connection.
    pub(super) fn piped(&mut self, id: ConnectionId, content: &Content<'_>, packet: &Packet<'_>, emit: &mut Emit<'_>) {
        if let Some(session) = self.tracker.session_on(id) {
            self.checker.piped(session, content, packet.time);
        }
        let stores = self.stores();
        let Some(known) = self.connections.get_mut(&id) else { return };
        let (pipe, length) = match content {
            Content::Data(pipe, bytes) => (*pipe, bytes.len() as u64),
            Content::Lost(pipe, bytes) => (*pipe, pipe::gap(known.offsets[*pipe as usize], *bytes)),
            _ => (Pipe::Stdin, 0),
        };
        let offset = known.offsets[pipe as usize];
        known.offsets[pipe as usize] += length;
        if stores {
            let (start, end) = (HEAD as u32, packet.data.len() as u32);
            let whole = Ranges::One(PacketRange { packet: packet.number, start, end });
            emit(Event::Segment(Segment {
                connection: id,
                side: if pipe == Pipe::Stdin { Side::First } else { Side::Second },
                packet: packet.number,
                offset,
                length: u32::try_from(length).unwrap_or(u32::MAX),
                acknowledged: None,
                window: 0,
                flags: Flags::default(),
                analysis: Analysis::default(),
                origin: if matches!(content, Content::Data(..)) { whole } else { Ranges::default() },
            }));
        }
    }

    /// A DNS answer: names of servers, for people.
    pub(super) fn names(&mut self, message: &[u8]) {
        for name in dns::names(message) {
            if self.names.len() < self.options.limits.names {
                self.names.insert(name.address, name.name);
            }
        }
    }

    /// What a stack found.
    pub(super) fn unit(&mut self, unit: Unit<'_>, emit: &mut Emit<'_>) {
        match unit {
            Unit::Text(text, connected) => {
                self.tracker.beginning(self.beginning());
                self.track(emit, |tracker, say| tracker.text(text, connected, say));
            }
            Unit::Head(exchange, direction, connected) => {
                self.track(emit, |tracker, say| tracker.head(exchange, direction, connected, say));
                let session = self.tracker.session_at(exchange.number);
                let found = self.checker.head(exchange, direction, session);
                say(found, emit);
            }
            Unit::Event(sent) => {
                let session = self.tracker.session_at(sent.exchange);
                let tracker = &self.tracker;
                let opened = |session| Some((tracker.transport(session)?, tracker.has_begun(session)));
                let mut found = self.checker.event(sent.exchange, sent.event, session, opened);
                for finding in &mut found {
                    finding.packets = sent.provenance.packets(sent.span);
                    finding.span = Some(sent.span);
                }
                say(found, emit);
            }
            Unit::Exchange(exchange) => {
                self.track(emit, |tracker, say| tracker.exchange_over(exchange.number, say));
                let found = self.checker.exchange(&exchange);
                self.counts.exchanges += 1;
                emit(Event::Exchange(exchange));
                say(found, emit);
            }
            Unit::Anomaly { connection, packets, span, anomaly, .. } => {
                let (rule, text) = transport::judge(&anomaly);
                let finding = Finding { packets, span, text, ..Finding::of(rule) };
                self.found(connection, finding, emit);
            }
            Unit::Connected(id, connected) => self.connected(id, connected, emit),
            Unit::Secret(connection, side, range, mask) => {
                emit(Event::Secret { connection, side, start: range.start, end: range.end, mask });
            }
            Unit::Cleared(connection, side, offset) => emit(Event::Cleared { connection, side, offset }),
            Unit::Stream(stream) => emit(Event::Stream(stream)),
            Unit::Part(stream, part) => emit(Event::Part(stream, part)),
            Unit::Plaintext(stream, start, bytes) => emit(Event::Plaintext(stream, start, bytes)),
            Unit::Keys(connection, lines) if self.is_kept(connection) => emit(Event::Keys(connection, lines)),
            Unit::Keys(..) => {}
        }
    }

    /// What runs on a connection, or who is at its ends, became known.
    fn connected(&mut self, id: ConnectionId, connected: &Connected, emit: &mut Emit<'_>) {
        self.account(id, connected);
        let stores = self.stores();
        let Some(known) = self.connections.get_mut(&id) else { return };
        let record = &mut known.record;
        record.client = connected.client;
        record.protocol = connected.protocol;
        record.tls = connected.tls.clone();
        record.agreed = connected.agreed.clone();
        known.secrecy = connected.secrecy;
        let server =
            connected.endpoints.map(|endpoints| endpoints[connected.client.map_or(1, |side| side.other().index())]);
        record.host = connected.server_name.clone().or_else(|| self.names.get(&server?.ip()).cloned());
        if stores {
            emit(Event::Connection(Box::new(record.clone())));
        }
        if matches!(record.protocol, "http/1.1" | "http/2" | "websocket" | "pipe") {
            for finding in std::mem::take(&mut known.held) {
                say(self.checker.stated(finding), emit);
            }
        }
        let time = self.counts.last.unwrap_or_default();
        self.track(emit, |tracker, say| match &connected.process {
            Some(process) => tracker.process(id, process, time, say),
            None => tracker.encrypted(id, connected, say),
        });
    }

    /// Something odd in a TCP stream.
    pub(super) fn tcp_anomaly(
        &mut self,
        id: ConnectionId,
        _: Side,
        packet: PacketNumber,
        anomaly: Anomaly,
        emit: &mut Emit<'_>,
    ) {
        let (rule, text) = transport::judge(&anomaly);
        self.found(id, Finding { packets: vec![packet], text, ..Finding::of(rule) }, emit);
    }

    /// A finding about a connection. What is odd on a connection that is neither HTTP nor a pipe is no concern of MCP.
    fn found(&mut self, id: ConnectionId, finding: Finding, emit: &mut Emit<'_>) {
        let Some(known) = self.connections.get_mut(&id) else { return };
        let finding = Finding { session: known.sessions.last().map(|carried| carried.session), ..finding };
        match known.record.protocol {
            "http/1.1" | "http/2" | "websocket" | "pipe" => say(self.checker.stated(finding), emit),
            "tls" if tls::RULES.contains(&finding.rule) => say(self.checker.stated(finding), emit),
            // What TLS carries may still turn out to be HTTP.
            "unknown" | "tls" if known.held.len() < HELD => known.held.push(finding),
            _ => {}
        }
    }

    /// Lets the tracker speak, then takes in what it said.
    fn track(&mut self, emit: &mut Emit<'_>, speak: impl FnOnce(&mut Tracker, &mut dyn FnMut(Tracked))) {
        let mut said = std::mem::take(&mut self.said);
        speak(&mut self.tracker, &mut |tracked| said.push(tracked));
        said.drain(..).for_each(|tracked| self.tracked(tracked, emit));
        self.said = said;
    }

    /// What the tracker said.
    fn tracked(&mut self, tracked: Tracked, emit: &mut Emit<'_>) {
        match tracked {
            Tracked::Opened(session) => emit(Event::Session(Box::new(self.named(*session)))),
            Tracked::Carries(connection, session) => {
                if let Some(known) = self.connections.get_mut(&connection) {
                    if known.sessions.is_empty() && self.options.detail == Detail::Store {
                        emit(Event::Keep(connection));
                        self.kept.push(connection);
                    }
                    // Whatever the connection carried before counts for it too.
                    if known.sessions.len() == SESSIONS {
                        known.sessions.remove(0);
                    }
                    known.sessions.push(Carried { session, told: (0, 0) });
                }
            }
            Tracked::Message(mut message, oddities) => {
                let (tracker, session) = (&self.tracker, message.session);
                let awaits = self.awaits(&message);
                let found = self.checker.message(&mut message, &oddities, || tracker.has_begun(session), awaits);
                self.counts.messages += 1;
                emit(Event::Message(message));
                say(found, emit);
            }
            Tracked::Ended(session, pending) => {
                let number = session.number;
                say(self.checker.ended(number, &pending.iter().collect::<Vec<_>>()), emit);
                emit(Event::Session(Box::new(self.named(*session))));
                emit(Event::Ended(number));
            }
        }
    }

    /// Whether what was sent before a message may be told behind it.
    fn awaits(&self, message: &Message) -> bool {
        let may_carry = |id| self.may_carry(id, message.session);
        let is_ahead = || self.order.is_doubtful() || self.holes.are_many() || self.holes.iter().any(may_carry);
        message.exchange.is_some() && is_ahead()
    }

    /// Whether a connection carries a session, or may turn out to: nothing of it was told yet, and it is between the same two.
    fn may_carry(&self, id: ConnectionId, session: SessionNumber) -> bool {
        let Some(known) = self.connections.get(&id) else { return false };
        match known.record.kind {
            ConnectionKind::Tcp(facts) if known.sessions.is_empty() => {
                self.tracker.is_between(session, facts.endpoints)
            }
            _ => known.sessions.iter().any(|carried| carried.session == session),
        }
    }

    /// The connections whose beginning is looked for, and those of which not all was told that came meanwhile, with their ends.
    fn beginning(&self) -> Vec<(ConnectionId, Endpoints)> {
        let ends = |id| match self.connections.get(&id)?.record.kind {
            ConnectionKind::Tcp(facts) => Some((id, facts.endpoints)),
            ConnectionKind::Pipe { .. } => None,
        };
        self.holes.beginning().filter_map(ends).collect()
    }

    /// A session whose server has a name that DNS told, where nothing better is known.
    fn named(&self, mut session: Session) -> Session {
        if let Peers::Network { server, host: host @ None, .. } = &mut session.peers {
            *host = self.names.get(&server.ip()).cloned();
        }
        session
    }

    /// Tells the sessions of a connection how many of its bytes were seen and lost since they were last told. One that
    /// joins later is told of all of them, so that it does not matter when there was time to tell.
    pub(super) fn account(&mut self, id: ConnectionId, connected: &Connected) {
        let Some(known) = self.connections.get_mut(&id) else { return };
        let [seen, lost] = [connected.seen, connected.lost]
            .map(|sides| sides.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes)));
        let now = (seen, lost);
        for Carried { session, told } in &mut known.sessions {
            self.tracker.traffic(*session, now.0 - told.0, now.1 - told.1);
            *told = now;
        }
    }

    /// Whether a message on a connection waits for its session.
    pub(super) fn waits(&self, id: ConnectionId) -> bool {
        self.tracker.waits_on(id)
    }

    /// Whether messages found their sessions since this was last asked.
    pub(super) fn released(&mut self) -> bool {
        self.tracker.released()
    }

    /// No message on a connection waits for its session any longer.
    pub(super) fn settle(&mut self, id: ConnectionId, emit: &mut Emit<'_>) {
        self.track(emit, |tracker, say| tracker.name_on(id, say));
    }

    /// A connection is over. What TCP knows of it counts now.
    pub(super) fn closed(&mut self, id: ConnectionId, facts: Option<&Facts>, emit: &mut Emit<'_>) {
        self.tracker.connection_over(id);
        let Some(mut known) = self.connections.remove(&id) else { return };
        self.encrypted.count(&known);
        self.holes.closed(id);
        if let Some(facts) = facts {
            self.checker.closed(id, facts);
        }
        if self.stores() {
            if let Some(facts) = facts {
                known.record.kind = ConnectionKind::Tcp(*facts);
            }
            emit(Event::Connection(Box::new(known.record)));
            emit(Event::Closed(id));
        }
    }

    /// Says the records of sessions that changed.
    pub(super) fn refresh(&mut self, emit: &mut Emit<'_>) {
        for session in self.tracker.changed() {
            let session = self.named(session);
            emit(Event::Session(Box::new(session)));
        }
    }

    /// The capture is over.
    pub(super) fn finish(&mut self, emit: &mut Emit<'_>) {
        self.track(emit, |tracker, say| tracker.finish(say));
        for session in self.tracker.open_sessions() {
            let found = self.checker.ended(session, &self.tracker.unanswered(session));
            say(found, emit);
        }
        for finding in self.encrypted.findings() {
            say(self.checker.stated(finding), emit);
        }
        if self.counts.cut > 0 {
            let text = format!("{} packets were cut by the snap length: capture with -s 0", self.counts.cut);
            say(self.checker.stated(Finding { text, ..Finding::of(&transport::SNAP_LENGTH) }), emit);
        }
        say(self.checker.finish(), emit);
        self.refresh(emit);
    }
}

fn say(found: Vec<Finding>, emit: &mut Emit<'_>) {
    found.into_iter().for_each(|finding| emit(Event::Finding(Box::new(finding))));
}
