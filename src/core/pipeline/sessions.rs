//! The second stage: from observations to tracked items. It chooses the session of each message,
//! gives the numbers, and passes on what a store needs. It is the only stage that depends on all
//! connections.

mod doubt;
mod ends;

use std::net::IpAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use self::ends::Closing;
use super::PipelineConfig;
use super::arrivals::held::{HeldEnd, Item};
use super::arrivals::{Arrivals, EndpointLookup};
use super::connection_state::{ConnectionState, endpoints_of};
use super::counts::Counts;
use super::encrypted::Encrypted;
use super::notes::FailedConnections;
use super::observation::Observation;
use super::tracked::{Opened, Tracked, TrackedSink};
use super::unclaimed::Unclaimed;
use crate::capture::{PacketNumber, Span, Time};
use crate::decode::stack::{ConnectionInfo, ServerSentEvent, Text, Unit};
use crate::decode::tcp::ClockDifference;
use crate::decode::{Anomaly, ConnectionId, Direction};
use crate::event::{Connection, ConnectionKind, Detail, Event};
use crate::findings::{Finding, http2, tls, transport};
use crate::mcp::tracker::{Tracker, TrackerEvent};
use crate::mcp::{Peers, Session, SessionNumber};

/// Tracks the sessions and the connections that carry them.
#[derive(Debug)]
pub struct Sessions {
    pub(super) options: PipelineConfig,
    pub(super) tracker: Tracker,
    /// The output of the tracker that was not processed yet. The vector is reused.
    tracker_events: Vec<TrackerEvent>,
    /// The counters of messages and exchanges. At the end, those of the first stage too.
    pub(super) counts: Counts,
    /// The latest capture time, as far as units depend on it.
    pub(super) now: Option<Time>,
    names: FxHashMap<IpAddr, String>,
    /// Boxed: a full hash table has room for twice as many values.
    connections: FxHashMap<ConnectionId, Box<ConnectionState>>,
    /// Pairs of hosts whose packets were captured with different clocks. Only the first
    /// [`doubt::HOSTS`] are remembered.
    two_clocks: FxHashSet<[IpAddr; 2]>,
    /// TLS connections whose content could not be decrypted.
    encrypted: Encrypted,
    /// The arrivals stage.
    pub(super) arrivals: Arrivals,
    pub(super) failed: FailedConnections,
    closing: Closing,
}

impl Sessions {
    /// The stage before the first packet of a capture.
    pub fn new(options: PipelineConfig) -> Sessions {
        Sessions {
            options,
            tracker: Tracker::new(options.limits),
            tracker_events: Vec::new(),
            counts: Counts::default(),
            now: None,
            names: FxHashMap::default(),
            connections: FxHashMap::default(),
            two_clocks: FxHashSet::default(),
            encrypted: Encrypted::default(),
            arrivals: Arrivals::default(),
            failed: FailedConnections::default(),
            closing: Closing::default(),
        }
    }

    /// The counters of this stage. After the end of the capture they are complete.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    fn stores(&self) -> bool {
        self.options.detail == Detail::Store
    }

    /// Whether a connection carries a session, and events for a store are wanted.
    pub(super) fn is_stored(&self, id: ConnectionId) -> bool {
        self.stores() && self.connections.get(&id).is_some_and(|state| !state.sessions.is_empty())
    }

    /// Takes the next observation. Calls `emit` with the items that it completes, in order.
    pub fn take(&mut self, observation: Observation, emit: &mut TrackedSink<'_>) {
        match observation {
            Observation::Opened(id, kind) => self.opened(id, *kind, emit),
            Observation::Beginning(id) => {
                self.connections.get_mut(&id).into_iter().for_each(|state| state.has_beginning = true);
            }
            Observation::Clocks(id, clocks) => {
                self.connections.get_mut(&id).into_iter().for_each(|state| state.clocks = clocks);
                if clocks == ClockDifference::Certain {
                    self.note_two_clocks(id);
                }
            }
            Observation::Holes { connection, lacks_beginning } => self.arrivals.has_holes(connection, lacks_beginning),
            Observation::NoHoles(id) => self.arrivals.has_no_holes(id),
            Observation::Order { is_doubtful, late } => self.arrivals.order(is_doubtful, late),
            Observation::Unit(unit) => self.unit(unit, emit),
            Observation::Process(id, change, time) => {
                if let Some(session) = self.tracker.session_on(id) {
                    emit(Tracked::Process(session, change, time, self.how_opened(session)));
                }
            }
            // People recognise servers by their host names.
            Observation::Names(names) => {
                for name in names {
                    if self.names.len() < self.options.limits.names {
                        self.names.insert(name.address, name.name);
                    }
                }
            }
            Observation::Quic { client, server, version, packet } => {
                let name = self.names.get(&server.ip()).map(String::as_str);
                let (rule, text) = http2::not_decoded(client, server, name, version);
                let finding = Finding { packets: vec![packet], text, ..Finding::of(rule) };
                emit(Event::Finding(Box::new(finding)).into());
            }
            Observation::FragmentsDiffer(packet) => emit_finding(transport::fragments_differ(packet), emit),
            Observation::Now(time) => self.now = Some(time),
            Observation::Event(event) => emit(event.into()),
            Observation::End(counts) => {
                self.now = counts.last;
                self.counts = self.counts.joined(&counts);
                self.finish(emit);
            }
        }
    }

    /// Takes a new connection.
    fn opened(&mut self, id: ConnectionId, kind: ConnectionKind, emit: &mut TrackedSink<'_>) {
        self.make_room(emit);
        let record =
            Connection { id, kind, client: None, protocol: "unknown", host: None, tls: Vec::new(), agreed: None };
        if self.stores() {
            emit(Event::Connection(Box::new(record.clone())).into());
        }
        self.connections.insert(id, Box::new(ConnectionState::new(record)));
    }

    /// Takes a unit that a connection emitted.
    fn unit(&mut self, unit: Unit, emit: &mut TrackedSink<'_>) {
        match unit {
            Unit::Text(text) => {
                self.advance(text.time, emit);
                self.text(text, emit);
            }
            Unit::OtherText(time) => self.advance(time, emit),
            Unit::Head(exchange, direction, connected) => {
                self.tracker.head(&exchange, direction, &connected);
                self.track(emit, |tracker, sink| tracker.assign_by_id(exchange.number, sink));
                if direction == Direction::ServerToClient {
                    self.release_complete(emit);
                    self.tracker.response_head(&exchange);
                    self.track(emit, |tracker, sink| tracker.assign_by_id(exchange.number, sink));
                    self.release_complete(emit);
                }
                let session = self.tracker.session_at(exchange.number);
                emit(Tracked::Head(exchange, direction, session));
            }
            Unit::Event(sent) if self.arrivals.holds_for_session(sent.exchange) => {
                self.arrivals.hold_event(sent, self.tracker.now());
                self.release_due(emit);
            }
            Unit::Event(sent) => self.server_sent_event(sent, emit),
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
            Unit::Closed(id, bytes, facts) => {
                self.arrivals.has_no_holes(id);
                match self.arrivals.holds_on(id) {
                    true => {
                        self.arrivals.hold_end(HeldEnd::Connection(id, bytes, facts));
                        while let Some(item) = self.arrivals.next_of_closed() {
                            self.process(item, emit);
                            self.release_complete(emit);
                        }
                    }
                    false => self.closed(id, bytes, facts, emit),
                }
            }
            Unit::Anomaly { connection, packets, span, anomaly, .. } => {
                self.anomaly(connection, packets, span, &anomaly, emit);
            }
            Unit::ConnectionChanged(id, connected, bytes) => {
                self.count_bytes(id, bytes);
                self.connected(id, &connected, emit);
            }
            Unit::Stderr(connection, line) => self.stderr_line(connection, &line, emit),
            Unit::Secret(connection, side, range, mask) => {
                emit(Event::Secret { connection, side, start: range.start, end: range.end, mask }.into());
            }
            Unit::Cleared(connection, side, offset) => emit(Event::Cleared { connection, side, offset }.into()),
            Unit::Stream(stream) => match self.unclaimed(stream.connection) {
                Some(unclaimed) => unclaimed.stream(stream),
                None => emit(Event::Stream(stream).into()),
            },
            Unit::Part(connection, stream, part) => match self.unclaimed(connection) {
                Some(unclaimed) => unclaimed.part(stream, part),
                None => emit(Event::Part(stream, part).into()),
            },
            Unit::Plaintext(connection, stream, start, bytes) => {
                let most = self.options.limits.undecided;
                match self.unclaimed(connection) {
                    Some(unclaimed) => unclaimed.plaintext(stream, start, bytes, most),
                    None => emit(Event::Plaintext(stream, start, bytes).into()),
                }
            }
            Unit::Keys(connection, lines) if self.stores() => match self.unclaimed(connection) {
                Some(unclaimed) => unclaimed.keys(connection, lines),
                None => emit(Event::Keys(connection, lines).into()),
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

    /// Advances the clock to the time of a text.
    fn advance(&mut self, time: Time, emit: &mut TrackedSink<'_>) {
        self.tracker.advance(time);
        let now = self.tracker.now();
        let arrivals = &self.arrivals;
        self.tracker.forget_awaited_beginnings(|since| arrivals.is_due(since, now));
        self.release_due(emit);
    }

    /// Takes a text from a connection. It is held, or it is tracked at once.
    fn text(&mut self, text: Box<Text>, emit: &mut TrackedSink<'_>) {
        let admitted = self.arrivals.admit(text, &self.tracker, &endpoints_of(&self.connections));
        if let Some(text) = admitted {
            self.track(emit, |tracker, sink| tracker.track_text(*text, sink));
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
    fn release_due(&mut self, emit: &mut TrackedSink<'_>) {
        while let Some(item) = self.next(Arrivals::next_due) {
            self.process(item, emit);
            self.release_complete(emit);
        }
    }

    /// Releases what lacks nothing any more.
    fn release_complete(&mut self, emit: &mut TrackedSink<'_>) {
        if self.arrivals.is_empty() {
            return;
        }
        while let Some(item) = self.next(Arrivals::next_complete) {
            self.process(item, emit);
        }
        while let Some(end) = self.arrivals.next_ended() {
            match end {
                HeldEnd::Exchange(exchange) => self.exchange_ended(exchange, emit),
                HeldEnd::Connection(id, bytes, facts) => self.closed(id, bytes, facts, emit),
            }
        }
    }

    /// Processes a released text or event.
    fn process(&mut self, item: Item, emit: &mut TrackedSink<'_>) {
        match item {
            Item::Text(text) => self.track(emit, |tracker, sink| tracker.track_text(*text, sink)),
            Item::Event(sent) => self.server_sent_event(sent, emit),
        }
    }

    /// Processes a server-sent event.
    fn server_sent_event(&mut self, sent: Box<ServerSentEvent>, emit: &mut TrackedSink<'_>) {
        let session = self.tracker.session_at(sent.exchange);
        let opened = session.and_then(|session| self.how_opened(session));
        emit(Tracked::ServerSentEvent(sent, session, opened));
    }

    /// Takes a change of a connection's protocol, of its endpoints' roles, or of its process.
    fn connected(&mut self, id: ConnectionId, connected: &ConnectionInfo, emit: &mut TrackedSink<'_>) {
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
            emit(Event::Connection(Box::new(record.clone())).into());
        }
        let has_beginning = state.has_beginning;
        let hides_streams = !has_beginning && matches!(record.protocol, "http/2" | "websocket");
        if matches!(record.protocol, "http/1.1" | "http/2" | "websocket" | "pipe") {
            for finding in std::mem::take(&mut state.waiting_findings) {
                let finding = if has_beginning { finding } else { transport::with_doubt(finding) };
                emit_finding(finding, emit);
            }
        }
        // Streams that were opened before the capture cannot be read.
        if hides_streams {
            self.messages_missing(id, emit);
        }
        let time = self.now.unwrap_or_default();
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
        emit: &mut TrackedSink<'_>,
    ) {
        let (rule, text) = transport::judge(anomaly);
        if transport::hides_messages(rule) {
            self.messages_missing(id, emit);
        }
        let Some(state) = self.connections.get_mut(&id) else { return };
        let session = state.sessions.last().map(|carried| carried.session);
        let finding = Finding { session, packets, span, text, ..Finding::of(rule) };
        match state.record.protocol {
            "http/1.1" | "http/2" | "websocket" | "pipe" => {
                let finding = if state.has_beginning { finding } else { transport::with_doubt(finding) };
                emit_finding(finding, emit);
            }
            "tls" if tls::RULES.contains(&finding.rule) => emit_finding(finding, emit),
            // The content of TLS may still turn out to be HTTP.
            "unknown" | "tls" => state.hold(finding),
            _ => {}
        }
    }

    /// Calls the tracker, then processes its output.
    fn track(&mut self, emit: &mut TrackedSink<'_>, call: impl FnOnce(&mut Tracker, &mut dyn FnMut(TrackerEvent))) {
        let mut tracker_events = std::mem::take(&mut self.tracker_events);
        call(&mut self.tracker, &mut |tracked| tracker_events.push(tracked));
        tracker_events.drain(..).for_each(|tracked| self.tracker_event(tracked, emit));
        self.tracker_events = tracker_events;
    }

    /// Processes one output of the tracker.
    fn tracker_event(&mut self, tracked: TrackerEvent, emit: &mut TrackedSink<'_>) {
        match tracked {
            TrackerEvent::Opened(session) => emit(Event::Session(Box::new(self.with_host_name(*session))).into()),
            TrackerEvent::Carries(connection, session) => {
                if let Some(state) = self.connections.get_mut(&connection) {
                    if state.sessions.is_empty() && self.options.detail == Detail::Store {
                        emit(Event::Claimed(connection).into());
                        state.unclaimed.claim(connection, session, emit);
                    }
                    state.add_session(session);
                    if state.has_gaps {
                        emit(Tracked::MessagesMissing(session, how_opened(&self.tracker, session)));
                    }
                }
                self.close(connection, emit);
            }
            TrackerEvent::Belongs(exchange, session) if self.stores() => emit(Event::Belongs(exchange, session).into()),
            TrackerEvent::Belongs(..) => {}
            TrackerEvent::Message(mut message, oddities) => {
                self.arrivals.emitted(&message);
                message.latency = message.latency.filter(|latency| self.is_credible(*latency, &message));
                let has_beginning = self.tracker.has_beginning(message.session);
                let is_order_doubtful = self.is_order_doubtful(&message);
                self.counts.messages += 1;
                emit(Tracked::Message { message, oddities, has_beginning, is_order_doubtful });
            }
            TrackerEvent::Note(note) => emit(Event::Note(note).into()),
            TrackerEvent::Linked(session, message, link) => emit(Event::Linked(session, message, link).into()),
            TrackerEvent::Ended(session, pending) => {
                let number = session.number;
                emit(Tracked::SessionEnded(number, pending));
                emit(Event::Session(Box::new(self.with_host_name(*session))).into());
                emit(Event::Ended(number).into());
            }
        }
    }

    /// The transport of an open session, and whether its beginning was captured.
    fn how_opened(&self, session: SessionNumber) -> Opened {
        how_opened(&self.tracker, session)
    }

    /// Adds the host name that DNS gave to the server, if the session has no better one.
    fn with_host_name(&self, mut session: Session) -> Session {
        if let Peers::Network { server, host: host @ None, .. } = &mut session.peers {
            *host = self.names.get(&server.ip()).cloned();
        }
        session
    }

    /// Emits the records of sessions that changed.
    pub(super) fn refresh(&mut self, emit: &mut TrackedSink<'_>) {
        for session in self.tracker.changed() {
            let session = self.with_host_name(session);
            emit(Event::Session(Box::new(session)).into());
        }
    }

    /// Takes the end of the capture.
    fn finish(&mut self, emit: &mut TrackedSink<'_>) {
        while let Some(item) = self.next(Arrivals::next_at_end) {
            self.process(item, emit);
            self.release_complete(emit);
        }
        self.close_all(emit);
        self.notes_at_end(emit);
        self.track(emit, |tracker, sink| tracker.late_links(sink));
        for session in self.tracker.open_sessions() {
            let pending = self.tracker.unanswered(session).into_iter().cloned().collect();
            emit(Tracked::SessionEnded(session, pending));
        }
        for finding in self.encrypted.findings() {
            emit_finding(finding, emit);
        }
        if self.counts.cut > 0 {
            let text = format!("{} packets were cut by the snap length: capture with -s 0", self.counts.cut);
            emit_finding(Finding { text, ..Finding::of(&transport::SNAP_LENGTH) }, emit);
        }
        if !self.counts.malformed.is_empty() {
            let finding = transport::malformed(self.counts.malformed_by_reason(), &self.counts.malformed);
            emit_finding(finding, emit);
        }
        emit(Tracked::End);
        self.refresh(emit);
    }
}

/// Emits the finding of a decoder.
fn emit_finding(finding: Finding, emit: &mut TrackedSink<'_>) {
    emit(Tracked::DecoderFinding(Box::new(finding)));
}

fn how_opened(tracker: &Tracker, session: SessionNumber) -> Opened {
    Some((tracker.transport(session)?, tracker.has_beginning(session)))
}
