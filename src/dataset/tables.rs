//! The tables of a dataset beside messages: sessions, exchanges and findings.

use std::borrow::Cow;
use std::sync::Arc;

use crate::capture::Time;
use crate::decode::exchange::{Exchange, Fields};
use crate::export::parquet::messages::{self, name, version};
use crate::export::parquet::{Column, Key, MessageRow, Place, SessionFacts, Table, Take, number, word};
use crate::findings::Finding;
use crate::mcp::{Peers, Session};

/// The rows of a table.
pub trait TableRow: Sized + 'static {
    /// The columns of the table.
    const TABLE: &'static Table<Self>;

    /// The time by which rows are sorted, in nanoseconds.
    fn time(&self) -> i64;

    /// The stable name of the row.
    fn key(&self) -> Key;

    /// Bytes of memory that it takes, approximately.
    fn size(&self) -> usize {
        256
    }
}

/// The column that grows when a row gets more complete. Without it rows never change.
pub const STATE: &str = "state";

impl TableRow for MessageRow {
    const TABLE: &'static Table<MessageRow> = &messages::IN_A_DATASET;

    fn time(&self) -> i64 {
        self.message.time.0
    }

    fn key(&self) -> Key {
        self.key
    }

    fn size(&self) -> usize {
        self.message.raw.len() + 1_024
    }
}

/// A session as a row.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub place: Arc<Place>,
    pub facts: Arc<SessionFacts>,
}

/// An exchange with its session.
#[derive(Clone, Debug)]
pub struct ExchangeRow {
    pub place: Arc<Place>,
    pub session: Arc<SessionFacts>,
    pub exchange: Box<Exchange>,
    pub key: Key,
    pub has_text: bool,
}

/// A finding, with the session and the first message that it is about.
#[derive(Clone, Debug)]
pub struct FindingRow {
    pub place: Arc<Place>,
    pub session: Option<Arc<SessionFacts>>,
    pub finding: Box<Finding>,
    pub messages: Vec<Key>,
    pub tool: Option<Arc<str>>,
    pub method: Option<Arc<str>>,
    pub time: Time,
    pub key: Key,
    pub has_text: bool,
}

fn micros(time: Time) -> i64 {
    time.0.div_euclid(1_000)
}

impl TableRow for SessionRow {
    const TABLE: &'static Table<SessionRow> = &Table { name: "sessions", parts: &[SESSION_COLUMNS] };

    fn time(&self) -> i64 {
        self.facts.session.started.0
    }

    fn key(&self) -> Key {
        self.facts.key
    }
}

fn session(row: &SessionRow) -> &Session {
    &row.facts.session
}

fn network(row: &SessionRow) -> Option<(String, String, Option<&str>)> {
    match &session(row).peers {
        Peers::Network { client, server, host } => Some((client.to_string(), server.to_string(), host.as_deref())),
        Peers::Process { .. } => None,
    }
}

fn process(row: &SessionRow) -> Option<(u32, &[String])> {
    match &session(row).peers {
        Peers::Network { .. } => None,
        Peers::Process { process, command } => Some((*process, command)),
    }
}

fn owned<'a>(text: String) -> Option<Cow<'a, [u8]>> {
    Some(Cow::Owned(text.into_bytes()))
}

const SESSION_COLUMNS: &[Column<SessionRow>] = &[
    ("required binary key (STRING)", Take::Key(|row| Some(row.facts.key))),
    (
        "required int64 state",
        Take::Number(|row| {
            let (captured, _) = session(row).bytes;
            number(session(row).messages.saturating_add(captured).saturating_add(session(row).exit.is_some().into()))
        }),
    ),
    ("required int64 time (TIMESTAMP(MICROS,true))", Take::Number(|row| Some(micros(session(row).started)))),
    ("required int64 time_ns", Take::Number(|row| Some(session(row).started.0))),
    ("required int64 ended (TIMESTAMP(MICROS,true))", Take::Number(|row| Some(micros(session(row).ended)))),
    ("required int64 ended_ns", Take::Number(|row| Some(session(row).ended.0))),
    ("optional binary host (STRING)", Take::Text(|row| word(row.place.host.as_deref()?))),
    ("required binary capture (STRING)", Take::Text(|row| word(&row.place.capture))),
    ("required int64 run", Take::Number(|row| Some(row.place.run))),
    ("required int64 session", Take::Number(|row| Some(session(row).number.0.into()))),
    ("required binary transport (STRING)", Take::Text(|row| word(session(row).transport.name()))),
    ("optional binary session_id (STRING)", Take::Text(|row| word(session(row).session_id.as_deref()?))),
    ("optional binary client_name (STRING)", Take::Text(|row| name(&session(row).client))),
    ("optional binary client_version (STRING)", Take::Text(|row| version(&session(row).client))),
    ("optional binary server_name (STRING)", Take::Text(|row| name(&session(row).server))),
    ("optional binary server_version (STRING)", Take::Text(|row| version(&session(row).server))),
    ("optional binary revision (STRING)", Take::Text(|row| word(session(row).protocol_version.as_deref()?))),
    ("optional binary client_address (STRING)", Take::Text(|row| owned(network(row)?.0))),
    ("optional binary server_address (STRING)", Take::Text(|row| owned(network(row)?.1))),
    ("optional binary server_host (STRING)", Take::Text(|row| word(network(row)?.2?))),
    ("optional int64 process", Take::Number(|row| Some(process(row)?.0.into()))),
    ("optional binary command (STRING)", Take::Text(|row| owned(process(row)?.1.join(" ")))),
    ("optional binary name (STRING)", Take::Text(|row| word(session(row).name.as_deref()?))),
    ("required int64 messages", Take::Number(|row| number(session(row).messages))),
    ("required int64 requests", Take::Number(|row| number(session(row).outcomes.requests()))),
    ("required int64 ok", Take::Number(|row| number(session(row).outcomes.ok))),
    ("required int64 tool_errors", Take::Number(|row| number(session(row).outcomes.tool_errors))),
    ("required int64 errors", Take::Number(|row| number(session(row).outcomes.errors))),
    ("required int64 cancelled", Take::Number(|row| number(session(row).outcomes.cancelled))),
    ("required int64 unanswered", Take::Number(|row| number(session(row).outcomes.unanswered))),
    ("required int64 server_requests", Take::Number(|row| number(session(row).server_requests))),
    ("required int64 responses", Take::Number(|row| number(session(row).responses))),
    ("required int64 notifications", Take::Number(|row| number(session(row).notifications))),
    ("required int64 invalid", Take::Number(|row| number(session(row).invalid))),
    ("required int64 bytes_captured", Take::Number(|row| number(session(row).bytes.0))),
    ("required int64 bytes_sent", Take::Number(|row| number(session(row).bytes.1))),
    ("optional int64 exit_code", Take::Number(|row| Some(session(row).exit?.code?.into()))),
    ("optional int64 exit_signal", Take::Number(|row| Some(session(row).exit?.signal?.into()))),
];

impl TableRow for ExchangeRow {
    const TABLE: &'static Table<ExchangeRow> = &Table { name: "exchanges", parts: &[EXCHANGE_COLUMNS] };

    fn time(&self) -> i64 {
        started(&self.exchange).0
    }

    fn key(&self) -> Key {
        self.key
    }

    fn size(&self) -> usize {
        self.exchange.size() + 1_536
    }
}

/// The time of the first byte.
fn started(exchange: &Exchange) -> Time {
    exchange.request.started.or(exchange.response.started).unwrap_or_default()
}

fn fields<'a>(fields: &Fields) -> Option<Cow<'a, [u8]>> {
    let pairs: Vec<(&str, &str)> = fields.iter().collect();
    Some(Cow::Owned(serde_json::to_vec(&pairs).ok()?))
}

fn target(row: &ExchangeRow) -> Option<&str> {
    let target = row.exchange.target.as_deref()?;
    // The query of a target is sent data, as a body is.
    if row.has_text { Some(target) } else { target.split('?').next() }
}

const EXCHANGE_COLUMNS: &[Column<ExchangeRow>] = &[
    ("required binary key (STRING)", Take::Key(|row| Some(row.key))),
    (
        "required int64 state",
        Take::Number(|row| {
            let halves = [&row.exchange.request, &row.exchange.response];
            number(halves.iter().map(|half| half.body_bytes.saturating_add(u64::from(half.complete))).sum())
        }),
    ),
    ("required int64 time (TIMESTAMP(MICROS,true))", Take::Number(|row| Some(micros(started(&row.exchange))))),
    ("required int64 time_ns", Take::Number(|row| Some(started(&row.exchange).0))),
    ("optional binary host (STRING)", Take::Text(|row| word(row.place.host.as_deref()?))),
    ("required binary capture (STRING)", Take::Text(|row| word(&row.place.capture))),
    ("required int64 run", Take::Number(|row| Some(row.place.run))),
    ("required binary session_key (STRING)", Take::Key(|row| Some(row.session.key))),
    ("required int64 session", Take::Number(|row| Some(row.session.session.number.0.into()))),
    ("required int64 exchange", Take::Number(|row| number(row.exchange.number.0))),
    ("required binary transport (STRING)", Take::Text(|row| word(row.session.session.transport.name()))),
    ("optional binary client_name (STRING)", Take::Text(|row| name(&row.session.session.client))),
    ("optional binary client_version (STRING)", Take::Text(|row| version(&row.session.session.client))),
    ("optional binary server_name (STRING)", Take::Text(|row| name(&row.session.session.server))),
    ("optional binary server_version (STRING)", Take::Text(|row| version(&row.session.session.server))),
    ("optional binary revision (STRING)", Take::Text(|row| word(row.session.session.protocol_version.as_deref()?))),
    ("required binary http_version (STRING)", Take::Text(|row| word(row.exchange.http_version))),
    ("optional int64 h2_stream", Take::Number(|row| Some(row.exchange.h2_stream?.into()))),
    ("optional binary method (STRING)", Take::Text(|row| word(row.exchange.method.as_deref()?))),
    ("optional binary target (STRING)", Take::Text(|row| word(target(row)?))),
    ("optional int64 status", Take::Number(|row| Some(row.exchange.status?.into()))),
    ("optional binary reason (STRING)", Take::Text(|row| word(row.exchange.reason.as_deref()?))),
    (
        "optional int64 first_byte_ns",
        Take::Number(|row| Some(row.exchange.response.started?.since(row.exchange.request.started?))),
    ),
    (
        "optional int64 duration_ns",
        Take::Number(|row| Some(row.exchange.response.ended?.since(row.exchange.request.started?))),
    ),
    ("required int64 request_bytes", Take::Number(|row| number(row.exchange.request.body_bytes))),
    ("required int64 response_bytes", Take::Number(|row| number(row.exchange.response.body_bytes))),
    ("required boolean request_complete", Take::Truth(|row| row.exchange.request.complete)),
    ("required boolean response_complete", Take::Truth(|row| row.exchange.response.complete)),
    // JSON: [["name", "value"]]. Secrets are masked.
    (
        "optional binary request_fields (STRING)",
        Take::Text(|row| fields(&row.exchange.request.fields).filter(|_| row.has_text)),
    ),
    (
        "optional binary response_fields (STRING)",
        Take::Text(|row| fields(&row.exchange.response.fields).filter(|_| row.has_text)),
    ),
];

impl TableRow for FindingRow {
    const TABLE: &'static Table<FindingRow> = &Table { name: "findings", parts: &[FINDING_COLUMNS] };

    fn time(&self) -> i64 {
        self.time.0
    }

    fn key(&self) -> Key {
        self.key
    }

    fn size(&self) -> usize {
        self.finding.text.len() + 512
    }
}

fn of(row: &FindingRow) -> Option<&Session> {
    Some(&row.session.as_ref()?.session)
}

const FINDING_COLUMNS: &[Column<FindingRow>] = &[
    ("required binary key (STRING)", Take::Key(|row| Some(row.key))),
    ("required int64 time (TIMESTAMP(MICROS,true))", Take::Number(|row| Some(micros(row.time)))),
    ("required int64 time_ns", Take::Number(|row| Some(row.time.0))),
    ("optional binary host (STRING)", Take::Text(|row| word(row.place.host.as_deref()?))),
    ("required binary capture (STRING)", Take::Text(|row| word(&row.place.capture))),
    ("required int64 run", Take::Number(|row| Some(row.place.run))),
    ("optional binary session_key (STRING)", Take::Key(|row| Some(row.session.as_ref()?.key))),
    ("optional int64 session", Take::Number(|row| Some(of(row)?.number.0.into()))),
    ("optional binary transport (STRING)", Take::Text(|row| word(of(row)?.transport.name()))),
    ("optional binary client_name (STRING)", Take::Text(|row| name(&of(row)?.client))),
    ("optional binary client_version (STRING)", Take::Text(|row| version(&of(row)?.client))),
    ("optional binary server_name (STRING)", Take::Text(|row| name(&of(row)?.server))),
    ("optional binary server_version (STRING)", Take::Text(|row| version(&of(row)?.server))),
    ("optional binary revision (STRING)", Take::Text(|row| word(of(row)?.protocol_version.as_deref()?))),
    ("required binary rule (STRING)", Take::Text(|row| word(row.finding.rule.id))),
    ("required binary severity (STRING)", Take::Text(|row| word(row.finding.severity.name()))),
    ("required binary title (STRING)", Take::Text(|row| word(row.finding.rule.title))),
    // A sentence can quote what was sent.
    ("optional binary text (STRING)", Take::Text(|row| word(&row.finding.text).filter(|_| row.has_text))),
    ("required int64 repeated", Take::Number(|row| number(row.finding.repeated))),
    ("optional binary method (STRING)", Take::Text(|row| word(row.method.as_deref()?))),
    ("optional binary tool (STRING)", Take::Text(|row| word(row.tool.as_deref()?))),
    (
        "required group message_keys (LIST) { repeated group list { required binary element (STRING); } }",
        Take::Keys(|row| &row.messages),
    ),
];
