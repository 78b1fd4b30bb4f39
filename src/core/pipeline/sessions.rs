//! From the units of the connections to events: sessions, messages, findings, and the data that a
//! store needs.

mod doubt;
mod ends;

use std::net::IpAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use self::doubt::transport_and_beginning;
use self::ends::Closing;
use super::PipelineConfig;
use super::arrivals::held::{HeldEnd, HeldEvent, Item};
use super::arrivals::{Arrivals, EndpointLookup};
use super::connection_state::{ConnectionState, endpoints_of};
use super::counts::Counts;
use super::encrypted::Encrypted;
use super::notes::FailedConnections;
use super::unclaimed::Unclaimed;
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{Packet, PacketNumber, Span};
use crate::decode::stack::{ConnectionInfo, ServerSentEvent, Text, Unit};
use crate::decode::tcp::{ClockDifference, Flags, SegmentFact};
use crate::decode::{Anomaly, ConnectionId, Direction, dns};
use crate::event::{Connection, ConnectionKind, Detail, Emit, Event, Segment};
use crate::findings::{Checker, Finding, tls, transport};
use crate::mcp::tracker::{Tracker, TrackerEvent};
use crate::mcp::{Peers, Session};

/// Tracks the sessions and the connections that carry them, and applies the rules.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) options: PipelineConfig,
    pub(super) tracker: Tracker,
    /// The output of the tracker that was not processed yet. The vector is reused.
    tracker_events: Vec<TrackerEvent>,
    pub(super) checker: Checker,
    pub(super) counts: Counts,
    names: FxHashMap<IpAddr, String>,
    /// Boxed: a full hash table has room for twice as many values.
    connections: FxHashMap<ConnectionId, Box<ConnectionState>>,
    /// Pairs of hosts whose packets were captured with different clocks. Only the first
    /// [`doubt::HOSTS`] are remembered.
    two_clocks: FxHashSet<[IpAddr; 2]>,
    /// The number of pipe connections so far.
    pub(super) pipes: u32,
    /// TLS connections whose content could not be decrypted.
    encrypted: Encrypted,
    /// The arrivals stage.
    pub(super) arrivals: Arrivals,
    pub(super) failed: FailedConnections,
    closing: Closing,
}

impl Sessions {
    pub(super) fn new(options: PipelineConfig) -> Sessions {
        Sessions {
            options,
            tracker: Tracker::new(options.limits),
            tracker_events: Vec::new(),
            checker: Checker::new(options.limits),
            counts: Counts::default(),
            names: FxHashMap::default(),
            connections: FxHashMap::default(),
            two_clocks: FxHashSet::default(),
            pipes: 0,
            encrypted: Encrypted::default(),
            arrivals: Arrivals::default(),
            failed: FailedConnections::default(),
            closing: Closing::default(),
        }
    }

    fn stores(&self) -> bool {
        self.options.detail == Detail::Store
    }

    /// Whether a connection carries a session, and events for a store are wanted.
    pub(super) fn is_stored(&self, id: ConnectionId) -> bool {
        self.stores() && self.connections.get(&id).is_some_and(|state| !state.sessions.is_empty())
    }

    /// Takes a new connection.
    pub(super) fn opened(&mut self, id: ConnectionId, kind: ConnectionKind, emit: &mut Emit<'_>) {
        if let ConnectionKind::Tcp(_) = kind {
            self.counts.tcp_connections += 1;
        }
        self.make_room(emit);
        let record =
            Connection { id, kind, client: None, protocol: "unknown", host: None, tls: Vec::new(), agreed: None };
        if self.stores() {
            emit(Event::Connection(Box::new(record.clone())));
        }
        self.connections.insert(id, Box::new(ConnectionState::new(record)));
    }

    /// Takes a captured TCP segment.
    pub(super) fn segment(&mut self, fact: &SegmentFact<'_>, emit: &mut Emit<'_>) {
        self.arrivals.segment(fact);
        if let Some(state) = self.connections.get_mut(&fact.connection) {
            state.has_beginning |= fact.flags.has(Flags::SYN);
            state.clocks = fact.clocks;
        }
        if fact.clocks == ClockDifference::Certain {
            self.note_two_clocks(fact.connection);
        }
        if self.stores() {
            emit(Event::Segment(Segment::of(fact)));
        }
    }

    /// Takes a pipe packet. For a store it is a segment of its connection.
    pub(super) fn pipe_packet(
        &mut self,
        id: ConnectionId,
        content: &PipeEvent<'_>,
        packet: &Packet<'_>,
        emit: &mut Emit<'_>,
    ) {
        if let Some(session) = self.tracker.session_on(id) {
            self.checker.pipe_event(session, content, packet.time, transport_and_beginning(&self.tracker));
        }
        let stores = self.stores();
        let Some(state) = self.connections.get_mut(&id) else { return };
        let (pipe, length) = match content {
            PipeEvent::Data(pipe, bytes) => (*pipe, bytes.len() as u64),
            PipeEvent::Lost(pipe, bytes) => (*pipe, pipe::gap(state.offsets[*pipe as usize], *bytes)),
            _ => (Pipe::Stdin, 0),
        };
        let offset = state.offsets[pipe as usize];
        state.offsets[pipe as usize] += length;
        if stores {
            let is_captured = matches!(content, PipeEvent::Data(..));
            emit(Event::Segment(Segment::of_pipe(id, pipe, packet, offset..offset + length, is_captured)));
        }
    }

    /// Stores the host names of a DNS response. People recognise servers by them.
    pub(super) fn dns_response(&mut self, message: &[u8]) {
        for name in dns::names(message) {
            if self.names.len() < self.options.limits.names {
                self.names.insert(name.address, name.name);
            }
        }
    }

    /// Takes a unit that a connection emitted.
    pub(super) fn unit(&mut self, unit: Unit<'_>, emit: &mut Emit<'_>) {
        match unit {
            Unit::Text(text, connected) => self.text(text, connected, emit),
            Unit::Head(exchange, direction, connected) => {
                self.tracker.head(exchange, direction, connected);
                self.track(emit, |tracker, sink| tracker.assign_by_id(exchange.number, sink));
                if direction == Direction::ServerToClient {
                    self.release_complete(emit);
                    self.tracker.response_head(exchange);
                    self.track(emit, |tracker, sink| tracker.assign_by_id(exchange.number, sink));
                    self.release_complete(emit);
                }
                let session = self.tracker.session_at(exchange.number);
                let found = self.checker.head(exchange, direction, session);
                emit_findings(found, emit);
            }
            Unit::Event(sent) if self.arrivals.holds_for_session(sent.exchange) => {
                self.arrivals.hold_event(HeldEvent::new(&sent), self.tracker.now());
                self.release_due(emit);
            }
            Unit::Event(sent) => self.server_sent_event(&sent, emit),
            Unit::Exchange(exchange) => {
                while let Some(item) = self.arrivals.next_of_exchange(exchange.number, &self.tracker) {
                    self.process(item, emit);
                    self.release_complete(emit);
                }
                match self.arrivals.holds(exchange.number) {
                    true => self.arrivals.hold_end(HeldEnd::Exchange(exchange)),
                    false => self.exchange_ended(exchange, emit),
                }
            }
            Unit::Closed(id, connected, facts) => {
                self.arrivals.closed(id);
                match self.arrivals.holds_on(id) {
                    true => {
                        let connected = Box::new(connected.clone());
                        self.arrivals.hold_end(HeldEnd::Connection(id, connected, facts.map(Box::new)));
                        while let Some(item) = self.arrivals.next_of_closed() {
                            self.process(item, emit);
                            self.release_complete(emit);
                        }
                    }
                    false => self.closed(id, connected, facts.as_ref(), emit),
                }
            }
            Unit::Anomaly { connection, packets, span, anomaly, .. } => {
                self.anomaly(connection, packets, span, &anomaly, emit);
            }
            Unit::ConnectionChanged(id, connected) => self.connected(id, connected, emit),
            Unit::Stderr(connection, line) => self.stderr_line(connection, &line, emit),
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
            Unit::Keys(connection, lines) if self.stores() => match self.unclaimed(connection) {
                Some(unclaimed) => unclaimed.keys(connection, lines),
                None => emit(Event::Keys(connection, lines)),
            },
            Unit::Keys(..) => {}
        }
    }

    /// The buffer for the data of a connection that no session claims so far; `None`
    /// once one claims it.
    fn unclaimed(&mut self, id: ConnectionId) -> Option<&mut Unclaimed> {
        let state = self.connections.get_mut(&id)?;
        state.sessions.is_empty().then_some(&mut state.unclaimed)
    }

    /// Takes a text from a connection. It is held, or it is tracked at once.
    fn text(&mut self, text: Text<'_>, connected: &ConnectionInfo, emit: &mut Emit<'_>) {
        self.tracker.advance(text.time);
        let now = self.tracker.now();
        let arrivals = &self.arrivals;
        self.tracker.forget_awaited_beginnings(|since| arrivals.is_due(since, now));
        self.release_due(emit);
        let Some(parsed) = self.tracker.parse(&text) else { return };
        let admitted = self.arrivals.admit(text, parsed, connected, &self.tracker, &endpoints_of(&self.connections));
        if let Some((text, parsed)) = admitted {
            self.track(emit, |tracker, sink| tracker.track_text(text, parsed, connected, sink));
            self.release_complete(emit);
        }
        let surplus = self.tracker.surplus_sessions();
        if !surplus.is_empty() {
            while let Some(item) = self.arrivals.next_of_sessions(&self.tracker, |session| surplus.contains(&session)) {
                self.process(item, emit);
            }
            self.track(emit, |tracker, sink| tracker.end(&surplus, sink));
        }
    }

    fn next(&mut self, which: fn(&mut Arrivals, &Tracker, &EndpointLookup<'_>) -> Option<Item>) -> Option<Item> {
        which(&mut self.arrivals, &self.tracker, &endpoints_of(&self.connections))
    }

    /// Releases what was held for long enough, and what exceeds a bound.
    fn release_due(&mut self, emit: &mut Emit<'_>) {
        while let Some(item) = self.next(Arrivals::next_due) {
            self.process(item, emit);
            self.release_complete(emit);
        }
    }

    /// Releases what lacks nothing any more.
    fn release_complete(&mut self, emit: &mut Emit<'_>) {
        if self.arrivals.is_empty() {
            return;
        }
        while let Some(item) = self.next(Arrivals::next_complete) {
            self.process(item, emit);
        }
        while let Some(end) = self.arrivals.next_ended() {
            match end {
                HeldEnd::Exchange(exchange) => self.exchange_ended(exchange, emit),
                HeldEnd::Connection(id, connected, facts) => self.closed(id, &connected, facts.as_deref(), emit),
            }
        }
    }

    /// Processes a released text or event.
    fn process(&mut self, item: Item, emit: &mut Emit<'_>) {
        match item {
            Item::Text(held) => {
                let parsed = held.parsed.clone();
                self.track(emit, |tracker, sink| tracker.track_text(held.text(), parsed, &held.connected, sink));
            }
            Item::Event(held) => held.with(|sent| self.server_sent_event(&sent, emit)),
        }
    }

    /// Processes a server-sent event.
    fn server_sent_event(&mut self, sent: &ServerSentEvent<'_>, emit: &mut Emit<'_>) {
        let session = self.tracker.session_at(sent.exchange);
        let tracker = &self.tracker;
        let mut found = self.checker.event(sent.exchange, sent.event, session, transport_and_beginning(tracker));
        for finding in &mut found {
            finding.packets = sent.provenance.packets(sent.span);
            finding.span = Some(sent.span);
        }
        emit_findings(found, emit);
    }

    /// Takes a change of a connection's protocol, of its endpoints' roles, or of its process.
    fn connected(&mut self, id: ConnectionId, connected: &ConnectionInfo, emit: &mut Emit<'_>) {
        self.count_bytes(id, connected);
        let stores = self.stores();
        let Some(state) = self.connections.get_mut(&id) else { return };
        let record = &mut state.record;
        record.client = connected.client;
        record.protocol = connected.protocol;
        record.tls = connected.tls.clone();
        record.agreed = connected.agreed.clone();
        state.secrecy = connected.secrecy;
        let server =
            connected.endpoints.map(|endpoints| endpoints[connected.client.map_or(1, |side| side.other().index())]);
        record.host = connected.server_name.clone().or_else(|| self.names.get(&server?.ip()).cloned());
        if stores {
            emit(Event::Connection(Box::new(record.clone())));
        }
        let has_beginning = state.has_beginning;
        let hides_streams = !has_beginning && matches!(record.protocol, "http/2" | "websocket");
        if matches!(record.protocol, "http/1.1" | "http/2" | "websocket" | "pipe") {
            for finding in std::mem::take(&mut state.waiting_findings) {
                let finding = if has_beginning { finding } else { transport::with_doubt(finding) };
                emit_findings(self.checker.decoder_finding(finding), emit);
            }
        }
        // Streams that were opened before the capture cannot be read.
        if hides_streams {
            self.messages_missing(id);
        }
        let time = self.counts.last.unwrap_or_default();
        self.track(emit, |tracker, sink| match &connected.process {
            Some(process) => tracker.process(id, process, time, sink),
            None => tracker.tls_connected(id, connected, sink),
        });
        self.process_changed(id, connected, emit);
    }

    /// Makes a finding of an irregularity on a connection. Only connections of HTTP, WebSocket,
    /// pipes, and to some extent TLS concern MCP. Others are ignored.
    pub(super) fn anomaly(
        &mut self,
        id: ConnectionId,
        packets: Vec<PacketNumber>,
        span: Option<Span>,
        anomaly: &Anomaly,
        emit: &mut Emit<'_>,
    ) {
        let (rule, text) = transport::judge(anomaly);
        if transport::hides_messages(rule) {
            self.messages_missing(id);
        }
        let Some(state) = self.connections.get_mut(&id) else { return };
        let session = state.sessions.last().map(|carried| carried.session);
        let finding = Finding { session, packets, span, text, ..Finding::of(rule) };
        match state.record.protocol {
            "http/1.1" | "http/2" | "websocket" | "pipe" => {
                let finding = if state.has_beginning { finding } else { transport::with_doubt(finding) };
                emit_findings(self.checker.decoder_finding(finding), emit);
            }
            "tls" if tls::RULES.contains(&finding.rule) => emit_findings(self.checker.decoder_finding(finding), emit),
            // The content of TLS may still turn out to be HTTP.
            "unknown" | "tls" => state.hold(finding),
            _ => {}
        }
    }

    /// Reports that this fragment differs from an earlier one of its datagram where they overlap.
    pub(super) fn fragments_differ(&mut self, packet: PacketNumber, emit: &mut Emit<'_>) {
        emit_findings(self.checker.decoder_finding(transport::fragments_differ(packet)), emit);
    }

    /// Calls the tracker, then processes its output.
    fn track(&mut self, emit: &mut Emit<'_>, call: impl FnOnce(&mut Tracker, &mut dyn FnMut(TrackerEvent))) {
        let mut tracker_events = std::mem::take(&mut self.tracker_events);
        call(&mut self.tracker, &mut |tracked| tracker_events.push(tracked));
        tracker_events.drain(..).for_each(|tracked| self.tracker_event(tracked, emit));
        self.tracker_events = tracker_events;
    }

    /// Processes one output of the tracker.
    fn tracker_event(&mut self, tracked: TrackerEvent, emit: &mut Emit<'_>) {
        match tracked {
            TrackerEvent::Opened(session) => emit(Event::Session(Box::new(self.with_host_name(*session)))),
            TrackerEvent::Carries(connection, session) => {
                if let Some(state) = self.connections.get_mut(&connection) {
                    if state.sessions.is_empty() && self.options.detail == Detail::Store {
                        emit(Event::Claimed(connection));
                        state.unclaimed.claim(connection, session, emit);
                    }
                    state.add_session(session);
                    if state.has_gaps {
                        self.checker.messages_missing(session, transport_and_beginning(&self.tracker));
                    }
                }
                self.close(connection, emit);
            }
            TrackerEvent::Belongs(exchange, session) if self.stores() => emit(Event::Belongs(exchange, session)),
            TrackerEvent::Belongs(..) => {}
            TrackerEvent::Message(mut message, oddities) => {
                self.arrivals.emitted(&message);
                message.latency = message.latency.filter(|latency| self.is_credible(*latency, &message));
                let (tracker, session) = (&self.tracker, message.session);
                let is_order_doubtful = self.is_order_doubtful(&message);
                let found =
                    self.checker.message(&mut message, &oddities, || tracker.has_beginning(session), is_order_doubtful);
                self.counts.messages += 1;
                emit(Event::Message(message));
                emit_findings(found, emit);
            }
            TrackerEvent::Note(note) => self.note(*note, emit),
            TrackerEvent::Linked(session, message, link) => emit(Event::Linked(session, message, link)),
            TrackerEvent::Ended(session, pending) => {
                let number = session.number;
                emit_findings(self.checker.session_ended(number, &pending.iter().collect::<Vec<_>>()), emit);
                emit(Event::Session(Box::new(self.with_host_name(*session))));
                emit(Event::Ended(number));
            }
        }
    }

    /// The host name of an address, from DNS.
    pub(super) fn host_name(&self, address: IpAddr) -> Option<&str> {
        self.names.get(&address).map(String::as_str)
    }

    /// Adds the host name that DNS gave to the server, if the session has no better one.
    fn with_host_name(&self, mut session: Session) -> Session {
        if let Peers::Network { server, host: host @ None, .. } = &mut session.peers {
            *host = self.names.get(&server.ip()).cloned();
        }
        session
    }

    /// Emits the records of sessions that changed.
    pub(super) fn refresh(&mut self, emit: &mut Emit<'_>) {
        for session in self.tracker.changed() {
            let session = self.with_host_name(session);
            emit(Event::Session(Box::new(session)));
        }
    }

    /// Takes the end of the capture.
    pub(super) fn finish(&mut self, emit: &mut Emit<'_>) {
        while let Some(item) = self.next(Arrivals::next_at_end) {
            self.process(item, emit);
            self.release_complete(emit);
        }
        self.close_all(emit);
        self.notes_at_end(emit);
        self.track(emit, |tracker, sink| tracker.late_links(sink));
        for session in self.tracker.open_sessions() {
            let found = self.checker.session_ended(session, &self.tracker.unanswered(session));
            emit_findings(found, emit);
        }
        for finding in self.encrypted.findings() {
            emit_findings(self.checker.decoder_finding(finding), emit);
        }
        if self.counts.cut > 0 {
            let text = format!("{} packets were cut by the snap length: capture with -s 0", self.counts.cut);
            emit_findings(self.checker.decoder_finding(Finding { text, ..Finding::of(&transport::SNAP_LENGTH) }), emit);
        }
        if !self.counts.malformed.is_empty() {
            let finding = transport::malformed(self.counts.malformed_by_reason(), &self.counts.malformed);
            emit_findings(self.checker.decoder_finding(finding), emit);
        }
        emit_findings(self.checker.finish(), emit);
        self.refresh(emit);
    }
}

fn emit_findings(found: Vec<Finding>, emit: &mut Emit<'_>) {
    found.into_iter().for_each(|finding| emit(Event::Finding(Box::new(finding))));
}
