//! Live telemetry: traces and metrics of the traffic while it is recorded.
//!
//! ```text
//!  events ─► Telemetry ─┬─ spans ───► bounded queue ─► collector thread ─► OTLP over HTTP
//!                       └─ numbers ─► meter ─┬────────────────┘
//!                                            └─► /metrics for Prometheus
//! ```
//!
//! The mapping of calls to spans is that of the OTLP export. Numbers have attributes of these
//! spans. Nobody waits for a collector: what does not fit into the queue is dropped and counted.

mod collector;
mod meter;
mod prometheus;
mod settings;

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

use self::collector::{Collector, Outgoing};
use self::meter::{Instrument, Labels, Meter, labels, labels_of};
pub use self::settings::{Otlp, Settings};
use crate::decode::Direction;
use crate::decode::exchange::Exchange;
use crate::engine::Listener;
use crate::event::Event;
use crate::export::otlp::calls::{Call, OpenRequests};
use crate::export::otlp::proto::KeyValue;
use crate::export::otlp::spans::{Trace, resource};
use crate::http::listen;
use crate::mcp::{Session, SessionNumber};

/// Calls and findings after which they are mapped at once. Otherwise that happens in the next
/// pause, when the records of sessions are up to date.
const WAITING: usize = 1_024;

/// Attributes of spans that numbers of operations have too. All have few values.
const OF_OPERATIONS: [&str; 13] = [
    "mcp.method.name",
    "gen_ai.operation.name",
    "gen_ai.tool.name",
    "gen_ai.prompt.name",
    "rpc.response.status_code",
    "error.type",
    "mcp.protocol.version",
    "network.transport",
    "network.protocol.name",
    "network.protocol.version",
    "service.peer.name",
    "server.address",
    "server.port",
];

/// The same for the number of requests.
const OF_REQUESTS: [&str; 5] =
    ["mcp.method.name", "gen_ai.tool.name", "gen_ai.prompt.name", "mcptap.outcome", "service.peer.name"];

/// The same for the durations of sessions.
const OF_SESSIONS: [&str; 6] = [
    "mcp.protocol.version",
    "network.transport",
    "network.protocol.name",
    "network.protocol.version",
    "server.address",
    "server.port",
];

/// A listener that makes telemetry of the events of a recording.
pub struct Telemetry {
    settings: Settings,
    collector: Option<Collector>,
    meter: Arc<Mutex<Meter>>,
    sessions: BTreeMap<SessionNumber, LiveSession>,
    open: OpenRequests,
    /// Calls that are over, and findings by rule and severity, since the last pause.
    calls: Vec<Call>,
    findings: Vec<(Option<SessionNumber>, &'static str, &'static str)>,
}

/// A session of the recording.
struct LiveSession {
    record: Box<Session>,
    /// Its ids do not change once a span has them.
    trace: Option<Trace>,
    /// The resources of the client and of the server, until the record changes.
    resources: Option<[Resource; 2]>,
    is_over: bool,
}

/// Who telemetry is about, as attributes and as a part of the key of a number.
#[derive(Clone)]
struct Resource {
    attributes: Arc<Vec<KeyValue>>,
    labels: Arc<Labels>,
}

impl Resource {
    fn of(session: &Session, side: Direction, settings: &Settings) -> Resource {
        let attributes = settings.resource(resource(session, side));
        Resource { labels: Arc::new(labels(&attributes)), attributes: Arc::new(attributes) }
    }
}

impl LiveSession {
    fn resource(&mut self, side: Direction, settings: &Settings) -> Resource {
        let record = &self.record;
        let resources = self.resources.get_or_insert_with(|| {
            [Direction::ClientToServer, Direction::ServerToClient].map(|side| Resource::of(record, side, settings))
        });
        resources[side as usize].clone()
    }
}

impl Telemetry {
    /// Starts the threads that the settings ask for. Returns the telemetry, and the address of the
    /// metrics or the reason why they cannot be served.
    pub fn start(settings: Settings) -> Result<(Telemetry, Result<Option<String>>)> {
        let meter = Arc::new(Mutex::new(Meter::new()));
        let serve = |address: &str| prometheus::serve(listen::bind(address)?, Arc::clone(&meter));
        let address = settings.metrics.as_deref().map(serve).transpose();
        let collector = settings.otlp.as_ref().map(|otlp| Collector::start(otlp, Arc::clone(&meter))).transpose()?;
        let with_content = settings.otlp.as_ref().is_some_and(|otlp| otlp.with_content);
        let telemetry = Telemetry {
            settings,
            collector,
            meter,
            sessions: BTreeMap::new(),
            open: OpenRequests::new(with_content),
            calls: Vec::new(),
            findings: Vec::new(),
        };
        Ok((telemetry, address))
    }

    /// Ends the telemetry: what is open ends, and the collector gets the rest within `limit`, or
    /// within the time that the user chose.
    /// Returns a line about what was sent, and whether a part of it was not delivered.
    pub fn finish(mut self, limit: Duration) -> Option<(String, bool)> {
        self.calls.extend(self.open.end_all(None));
        let sessions: Vec<SessionNumber> = self.sessions.keys().copied().collect();
        self.map_all();
        sessions.into_iter().for_each(|session| self.end_session(session));
        self.count_open_sessions();
        let limit = self.settings.otlp.as_ref().and_then(|otlp| otlp.end).unwrap_or(limit);
        self.collector.take().map(|collector| collector.finish(limit))
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Session(session) => self.session(session),
            Event::Message(message) => {
                self.calls.extend(self.open.message(message, || true));
                self.calls.extend(self.open.end_excess());
            }
            Event::Note(note) => self.calls.extend(self.open.note(note)),
            Event::Finding(finding) => {
                self.findings.push((finding.session, finding.rule.id, finding.severity.name()));
            }
            Event::Exchange(exchange) => self.end_deleted(exchange),
            Event::Ended(number) => {
                self.end(*number);
                self.sessions.remove(number);
            }
            _ => {}
        }
        if self.calls.len() + self.findings.len() >= WAITING {
            self.map_all();
        }
    }

    fn session(&mut self, session: &Session) {
        let live = self.sessions.entry(session.number).or_insert_with(|| LiveSession {
            record: Box::new(session.clone()),
            trace: None,
            resources: None,
            is_over: false,
        });
        if (&live.record.client, &live.record.server) != (&session.client, &session.server) {
            live.resources = None;
        }
        *live.record = session.clone();
        if session.exit.is_some() && !live.is_over {
            self.end(session.number);
        }
    }

    /// Ends the session that a client deleted: "an HTTP DELETE to the MCP endpoint with the
    /// Mcp-Session-Id header, to explicitly terminate the session".
    fn end_deleted(&mut self, exchange: &Exchange) {
        let is_accepted = exchange.status.is_some_and(|status| status / 100 == 2);
        if exchange.method.as_deref() != Some("DELETE") || !is_accepted {
            return;
        }
        let Some(id) = exchange.request.fields.get("mcp-session-id") else { return };
        let is_of = |live: &LiveSession| live.record.session_id.as_deref() == Some(id);
        let found = self.sessions.iter().find(|(_, live)| is_of(live)).map(|(number, _)| *number);
        if let Some(number) = found {
            self.end(number);
        }
    }

    /// Ends a session with its calls.
    fn end(&mut self, number: SessionNumber) {
        self.calls.extend(self.open.end_all(Some(number)));
        self.map_all();
        self.end_session(number);
    }

    /// Maps the calls and findings since the last pause.
    fn map_all(&mut self) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        for call in mem::take(&mut self.calls) {
            let Some(live) = self.sessions.get_mut(&call.request.session) else { continue };
            let sender = call.request.sender;
            let [from, to] = [sender, sender.reversed()].map(|side| live.resource(side, &self.settings));
            let trace = live.trace.get_or_insert_with(|| Trace::of(&live.record, None));
            let span = trace.call(&live.record, &call);
            meter.add(Instrument::Requests, &from.labels, labels_of(&span.attributes, &OF_REQUESTS));
            if let Some(seconds) = call.seconds() {
                let labels = labels_of(&span.attributes, &OF_OPERATIONS);
                meter.record(Instrument::ClientOperation, &from.labels, labels.clone(), seconds);
                // "mcp.server.operation.duration" has neither address nor peer.
                let is_own = |(name, _): &(String, _)| !name.starts_with("server.") && name != "service.peer.name";
                let labels = labels.into_iter().filter(is_own).collect();
                meter.record(Instrument::ServerOperation, &to.labels, labels, seconds);
            }
            // The application decided that its trace is not sampled.
            let is_sampled = call.request.parent.as_ref().is_none_or(|parent| parent.flags & 1 == 1);
            if let Some(collector) = self.collector.as_mut().filter(|_| is_sampled) {
                collector.offer(Outgoing { resource: from.attributes, span });
            }
        }
        for (session, rule, severity) in mem::take(&mut self.findings) {
            let live = session.and_then(|session| self.sessions.get_mut(&session));
            let resource = live.map(|live| live.resource(Direction::ServerToClient, &self.settings).labels);
            let labels = [("mcptap.rule", rule), ("mcptap.severity", severity)];
            let labels = labels.map(|(name, value)| (name.to_owned(), value.into())).to_vec();
            meter.add(Instrument::Findings, &resource.unwrap_or_default(), labels);
        }
    }

    /// Records the end of a session, once.
    fn end_session(&mut self, number: SessionNumber) {
        let Some(live) = self.sessions.get_mut(&number).filter(|live| !live.is_over) else { return };
        live.is_over = true;
        let sides = [Direction::ClientToServer, Direction::ServerToClient];
        let [client, server] = sides.map(|side| live.resource(side, &self.settings));
        let trace = live.trace.get_or_insert_with(|| Trace::of(&live.record, None));
        let span = trace.session(&live.record);
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = (live.record.ended.0 - live.record.started.0).max(0) as f64 / 1e9;
        let labels = labels_of(&span.attributes, &OF_SESSIONS);
        meter.record(Instrument::ClientSession, &client.labels, labels.clone(), seconds);
        let labels = labels.into_iter().filter(|(name, _)| !name.starts_with("server.")).collect();
        meter.record(Instrument::ServerSession, &server.labels, labels, seconds);
        drop(meter);
        if let Some(collector) = &mut self.collector {
            collector.offer(Outgoing { resource: client.attributes, span });
        }
    }

    fn count_open_sessions(&mut self) {
        let mut counts: BTreeMap<Arc<Labels>, u64> = BTreeMap::new();
        for live in self.sessions.values_mut() {
            let resource = live.resource(Direction::ServerToClient, &self.settings);
            *counts.entry(resource.labels).or_default() += u64::from(!live.is_over);
        }
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).set(Instrument::OpenSessions, counts);
    }
}

impl Listener for Telemetry {
    fn event(&mut self, event: Event) -> Result<()> {
        self.event_ref(&event)
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        self.take(event);
        Ok(())
    }

    fn idle(&mut self) -> Result<()> {
        // The sessions first: a reader who finds a call finds its session too.
        self.count_open_sessions();
        if !self.calls.is_empty() || !self.findings.is_empty() {
            self.map_all();
        }
        Ok(())
    }
}
