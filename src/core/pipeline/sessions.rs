//! From what the stacks found to events: sessions, messages, findings, and what a store needs.

use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::Options;
use super::arrivals::held::{Ended, HeldEvent, Item};
use super::arrivals::{Arrivals, Ends};
use super::counts::Counts;
use super::encrypted::Encrypted;
use super::known::{Known, ends};
use super::unclaimed::Unclaimed;
use crate::capture::pipe::{self, Content, Pipe};
use crate::capture::{Packet, PacketNumber, Span};
use crate::decode::exchange::Exchange;
use crate::decode::stack::{Connected, ServerSent, Text, Unit};
use crate::decode::tcp::{Facts, SegmentFact};
use crate::decode::{Anomaly, ConnectionId, Direction, dns};
use crate::event::{Connection, ConnectionKind, Detail, Emit, Event, Segment};
use crate::findings::{Checker, Finding, tls, transport};
use crate::mcp::tracker::{Tracked, Tracker};
use crate::mcp::{Message, Peers, Session, SessionNumber};

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
    /// TLS connections whose content was not seen.
    encrypted: Encrypted,
    /// Texts that lack something which may still come.
    pub(super) arrivals: Arrivals,
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
            encrypted: Encrypted::default(),
            arrivals: Arrivals::default(),
        }
    }

    fn stores(&self) -> bool {
        self.options.detail == Detail::Store
    }

    /// Whether a connection carries a session and is stored.
    pub(super) fn is_kept(&self, id: ConnectionId) -> bool {
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
        self.connections.insert(id, Known::new(record));
    }

    /// A TCP segment arrived.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>, emit: &mut Emit<'_>) {
        self.arrivals.segment(fact);
        if self.stores() {
            emit(Event::Segment(Segment::of(fact)));
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
            let is_captured = matches!(content, Content::Data(..));
            emit(Event::Segment(Segment::of_pipe(id, pipe, packet, offset..offset + length, is_captured)));
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
            Unit::Text(text, connected) => self.arrived(text, connected, emit),
            Unit::Head(exchange, direction, connected) => {
                self.tracker.head(exchange, direction, connected);
                if direction == Direction::ServerToClient {
                    self.release(emit);
                    self.tracker.responded(exchange);
                    self.release(emit);
                }
                let session = self.tracker.session_at(exchange.number);
                let found = self.checker.head(exchange, direction, session);
                say(found, emit);
            }
            Unit::Event(sent) if self.arrivals.is_behind(sent.exchange) => {
                self.arrivals.hold_event(HeldEvent::new(&sent), self.tracker.now());
                self.give_up_due(emit);
            }
            Unit::Event(sent) => self.event(&sent, emit),
            Unit::Exchange(exchange) => {
                while let Some(item) = self.arrivals.next_of_exchange(exchange.number, &self.tracker) {
                    self.take(item, emit);
                    self.release(emit);
                }
                match self.arrivals.holds(exchange.number) {
                    true => self.arrivals.hold_end(Ended::Exchange(exchange)),
                    false => self.exchange_over(exchange, emit),
                }
            }
            Unit::Closed(id, connected, facts) => {
                self.arrivals.closed(id);
                match self.arrivals.holds_on(id) {
                    true => {
                        let connected = Box::new(connected.clone());
                        self.arrivals.hold_end(Ended::Connection(id, connected, facts.map(Box::new)));
                        while let Some(item) = self.arrivals.next_of_closed() {
                            self.take(item, emit);
                            self.release(emit);
                        }
                    }
                    false => self.closed(id, connected, facts.as_ref(), emit),
                }
            }
            Unit::Anomaly { connection, packets, span, anomaly, .. } => {
                self.anomaly(connection, packets, span, &anomaly, emit);
            }
            Unit::Connected(id, connected) => self.connected(id, connected, emit),
            Unit::Secret(connection, side, range, mask) => {
                emit(Event::Secret { connection, side, start: range.start, end: range.end, mask });
            }
            Unit::Cleared(connection, side, offset) => emit(Event::Cleared { connection, side, offset }),
            Unit::Stream(stream) => match self.unclaimed(stream.connection) {
                Some(unclaimed) => unclaimed.stream(stream),
                None => emit(Event::Stream(stream)),
            },
            Unit::Part(connection, stream, part) => match self.unclaimed(connection) {
                Some(unclaimed) => unclaimed.part(stream, part),
                None => emit(Event::Part(stream, part)),
            },
            Unit::Plaintext(connection, stream, start, bytes) => {
                let most = self.options.limits.undecided;
                match self.unclaimed(connection) {
                    Some(unclaimed) => unclaimed.plaintext(stream, start, bytes, most),
                    None => emit(Event::Plaintext(stream, start, bytes)),
                }
            }
            Unit::Keys(connection, lines) if self.is_kept(connection) => emit(Event::Keys(connection, lines)),
            Unit::Keys(..) => {}
        }
    }

    /// Holds what a store may want of a connection that no session claims so far.
    fn unclaimed(&mut self, id: ConnectionId) -> Option<&mut Unclaimed> {
        let known = self.connections.get_mut(&id)?;
        known.sessions.is_empty().then_some(&mut known.unclaimed)
    }

    /// A text arrived from a connection.
    fn arrived(&mut self, text: Text<'_>, connected: &Connected, emit: &mut Emit<'_>) {
        self.tracker.advance(text.time);
        let now = self.tracker.now();
        let arrivals = &self.arrivals;
        self.tracker.forget_unbegun(|since| arrivals.is_due(since, now));
        self.give_up_due(emit);
        let Some(reading) = self.tracker.parse(&text) else { return };
        let admitted = self.arrivals.admit(text, reading, connected, &self.tracker, &ends(&self.connections));
        if let Some((text, reading)) = admitted {
            self.track(emit, |tracker, say| tracker.text(text, reading, connected, say));
            self.release(emit);
        }
        let surplus = self.tracker.surplus();
        if !surplus.is_empty() {
            while let Some(item) = self.arrivals.next_of_sessions(&self.tracker, |session| surplus.contains(&session)) {
                self.take(item, emit);
            }
            self.track(emit, |tracker, say| tracker.end(&surplus, say));
        }
    }

    fn next(&mut self, which: fn(&mut Arrivals, &Tracker, &Ends<'_>) -> Option<Item>) -> Option<Item> {
        which(&mut self.arrivals, &self.tracker, &ends(&self.connections))
    }

    /// Takes what was held for long enough, or is too much.
    fn give_up_due(&mut self, emit: &mut Emit<'_>) {
        while let Some(item) = self.next(Arrivals::next_due) {
            self.take(item, emit);
            self.release(emit);
        }
    }

    /// Takes what was held and lacks nothing any more.
    fn release(&mut self, emit: &mut Emit<'_>) {
        if self.arrivals.is_empty() {
            return;
        }
        while let Some(item) = self.next(Arrivals::next_complete) {
            self.take(item, emit);
        }
        while let Some(ended) = self.arrivals.next_ended() {
            match ended {
                Ended::Exchange(exchange) => self.exchange_over(exchange, emit),
                Ended::Connection(id, connected, facts) => self.closed(id, &connected, facts.as_deref(), emit),
            }
        }
    }

    /// Takes what was held.
    fn take(&mut self, item: Item, emit: &mut Emit<'_>) {
        match item {
            Item::Text(held) => {
                let reading = held.reading.clone();
                self.track(emit, |tracker, say| tracker.text(held.text(), reading, &held.connected, say));
            }
            Item::Event(held) => held.with(|sent| self.event(&sent, emit)),
        }
    }

    /// A server-sent event.
    fn event(&mut self, sent: &ServerSent<'_>, emit: &mut Emit<'_>) {
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

    /// An exchange is over, and all its messages were told.
    fn exchange_over(&mut self, exchange: Box<Exchange>, emit: &mut Emit<'_>) {
        self.tracker.exchange_over(exchange.number);
        let found = self.checker.exchange(&exchange);
        self.counts.exchanges += 1;
        emit(Event::Exchange(exchange));
        say(found, emit);
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
    pub(super) fn anomaly(
        &mut self,
        id: ConnectionId,
        packets: Vec<PacketNumber>,
        span: Option<Span>,
        anomaly: &Anomaly,
        emit: &mut Emit<'_>,
    ) {
        let Some(known) = self.connections.get_mut(&id) else { return };
        let (rule, text) = transport::judge(anomaly);
        let session = known.sessions.last().map(|carried| carried.session);
        let finding = Finding { session, packets, span, text, ..Finding::of(rule) };
        match known.record.protocol {
            "http/1.1" | "http/2" | "websocket" | "pipe" => say(self.checker.stated(finding), emit),
            "tls" if tls::RULES.contains(&finding.rule) => say(self.checker.stated(finding), emit),
            // What TLS carries may still turn out to be HTTP.
            "unknown" | "tls" => known.hold(finding),
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
                        known.unclaimed.claim(emit);
                    }
                    known.carries(session);
                }
            }
            Tracked::Message(mut message, oddities) => {
                self.arrivals.told(&message);
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
        message.exchange.is_some() && self.arrivals.is_ahead(may_carry)
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

    /// The name that DNS gave to an address.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<&str> {
        self.names.get(&address).map(String::as_str)
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
        for (session, seen, lost) in known.traffic((seen, lost)) {
            self.tracker.traffic(session, seen, lost);
        }
    }

    /// A connection is over. What TCP knows of it counts now.
    fn closed(&mut self, id: ConnectionId, connected: &Connected, facts: Option<&Facts>, emit: &mut Emit<'_>) {
        self.account(id, connected);
        self.tracker.connection_over(id);
        let Some(mut known) = self.connections.remove(&id) else { return };
        self.encrypted.count(&known);
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
        while let Some(item) = self.next(Arrivals::next_at_end) {
            self.take(item, emit);
            self.release(emit);
        }
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
