//! The columns of messages.

use std::borrow::Cow;
use std::sync::Arc;

use super::table::{Column, Key, Table, Take, number, word};
use crate::mcp::content::{self, Status};
use crate::mcp::{Message, Party, Session};

/// The place where rows were captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The machine that captured them.
    pub host: Option<String>,
    /// The name of the capture.
    pub capture: String,
    /// The number of the run that decoded them. Numbers of messages, exchanges and sessions are
    /// numbers of one run.
    pub run: i64,
}

/// What a row repeats of its session.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    pub session: Session,
    pub key: Key,
    /// Name and version in one word.
    client: Option<String>,
    server: Option<String>,
}

impl SessionFacts {
    /// The facts of a session.
    pub fn new(session: Session, key: Key) -> SessionFacts {
        let (client, server) = (party(&session.client), party(&session.server));
        SessionFacts { session, key, client, server }
    }
}

/// A message with its session.
#[derive(Clone, Debug)]
pub struct MessageRow {
    pub place: Arc<Place>,
    pub session: Arc<SessionFacts>,
    pub message: Box<Message>,
    pub key: Key,
    /// For a response: the key of its request.
    pub answers: Option<Key>,
    /// Whether the text is written.
    pub has_text: bool,
}

/// The messages of one file of `export`.
pub const IN_A_FILE: Table<MessageRow> =
    Table { name: "messages_of_a_file", parts: &[TIMES, COMMON, FILE_ONLY, PEERS, TEXT] };

/// The messages of a dataset.
pub const IN_A_DATASET: Table<MessageRow> =
    Table { name: "messages", parts: &[KEYS, TIMES, PLACE, COMMON, DATASET_ONLY, PEERS, TEXT] };

const KEYS: &[Column<MessageRow>] = &[
    ("required binary key (STRING)", Take::Key(|row| Some(row.key))),
    ("optional binary answers_key (STRING)", Take::Key(|row| row.answers)),
];

const TIMES: &[Column<MessageRow>] = &[
    ("required int64 time (TIMESTAMP(MICROS,true))", Take::Number(|row| Some(row.message.time.0.div_euclid(1_000)))),
    ("required int64 time_ns", Take::Number(|row| Some(row.message.time.0))),
];

const PLACE: &[Column<MessageRow>] = &[
    ("optional binary host (STRING)", Take::Text(|row| word(row.place.host.as_deref()?))),
    ("required binary capture (STRING)", Take::Text(|row| word(&row.place.capture))),
    ("required int64 run", Take::Number(|row| Some(row.place.run))),
    ("required binary session_key (STRING)", Take::Key(|row| Some(row.session.key))),
];

/// The columns are named like the members of the JSON lines.
const COMMON: &[Column<MessageRow>] = &[
    ("required int64 session", Take::Number(|row| Some(row.message.session.0.into()))),
    ("required int64 number", Take::Number(|row| number(row.message.number.0))),
    ("required binary transport (STRING)", Take::Text(|row| word(row.message.transport.name()))),
    ("required binary direction (STRING)", Take::Text(|row| word(row.message.direction.name()))),
    ("required binary kind (STRING)", Take::Text(|row| word(row.message.kind.name()))),
    // The JSON of the id, so that 1 and "1" stay two.
    ("optional binary id (STRING)", Take::Text(|row| word(row.message.id.as_deref()?))),
    ("optional binary method (STRING)", Take::Text(|row| word(row.message.method.as_deref()?))),
    ("optional binary tool (STRING)", Take::Text(|row| word(row.message.tool.as_deref()?))),
    ("optional binary status (STRING)", Take::Text(|row| word(content::status(&row.message).map(Status::name)?))),
    ("optional int64 answers", Take::Number(|row| number(row.message.answers?.0))),
    ("optional int64 operation", Take::Number(|row| number(row.message.operation?.0))),
    ("required binary carrier (STRING)", Take::Text(|row| word(row.message.carrier.name()))),
    ("optional int64 exchange", Take::Number(|row| number(row.message.exchange?.0))),
    ("optional binary sse_id (STRING)", Take::Text(|row| word(row.message.sse_id.as_deref()?))),
    ("optional int64 line", Take::Number(|row| number(row.message.line?))),
    ("required int64 packets", Take::Number(|row| number(row.message.packets.len() as u64))),
    ("required boolean redelivered", Take::Truth(|row| row.message.redelivered)),
    ("required int64 size", Take::Number(|row| number(row.message.raw.len() as u64))),
];

/// Columns whose values are known only when the session has ended.
const FILE_ONLY: &[Column<MessageRow>] = &[
    (
        "required group findings (LIST) { repeated group list { required binary element (STRING); } }",
        Take::Words(|row| row.message.findings.as_slice()),
    ),
    ("optional int64 latency_ns", Take::Number(|row| row.message.latency)),
    ("optional int64 answered_by", Take::Number(|row| number(row.message.answered_by?.0))),
    ("optional binary client (STRING)", Take::Text(|row| word(row.session.client.as_deref()?))),
    ("optional binary server (STRING)", Take::Text(|row| word(row.session.server.as_deref()?))),
];

/// A row of a dataset is written once. So only a response has the latency: when its request is
/// written, nobody knows it yet. Findings are a table of their own.
const DATASET_ONLY: &[Column<MessageRow>] =
    &[("optional int64 latency_ns", Take::Number(|row| row.message.latency.filter(|_| row.message.answers.is_some())))];

const PEERS: &[Column<MessageRow>] = &[
    ("optional binary client_name (STRING)", Take::Text(|row| name(&row.session.session.client))),
    ("optional binary client_version (STRING)", Take::Text(|row| version(&row.session.session.client))),
    ("optional binary server_name (STRING)", Take::Text(|row| name(&row.session.session.server))),
    ("optional binary server_version (STRING)", Take::Text(|row| version(&row.session.session.server))),
    ("optional binary revision (STRING)", Take::Text(|row| word(row.session.session.protocol_version.as_deref()?))),
];

const TEXT: &[Column<MessageRow>] = &[
    ("optional binary text (STRING)", Take::Text(|row| word(row.message.raw.text().filter(|_| row.has_text)?))),
    // A text that is not UTF-8.
    (
        "optional binary bytes",
        Take::Text(|row| {
            (row.has_text && row.message.raw.text().is_none()).then_some(Cow::Borrowed(&*row.message.raw))
        }),
    ),
];

fn party(party: &Option<Party>) -> Option<String> {
    let Party { name, version } = party.as_ref()?;
    Some(format!("{name} {version}").trim_end().to_owned())
}

/// The name of a peer.
pub fn name(party: &Option<Party>) -> Option<Cow<'_, [u8]>> {
    word(&party.as_ref()?.name)
}

/// The version of a peer.
pub fn version(party: &Option<Party>) -> Option<Cow<'_, [u8]>> {
    word(&party.as_ref()?.version)
}
