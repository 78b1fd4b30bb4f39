//! Messages: their small columns, some of them derived from the text. The text has its own table.

use std::sync::Arc;

use rusqlite::{Connection, Row, Statement, params};

use super::Columns;
use super::rows::Insert;
use crate::capture::{Limits, PacketNumber, Span, StreamId, Time};
use crate::decode::Direction;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::json::{member, string};
use crate::decode::jsonrpc::{self, Envelope, JsonRpcText, Kind};
use crate::findings::Severity;
use crate::mcp::content::{self, Status};
use crate::mcp::link::{Link, Why};
use crate::mcp::{Carrier, Message, MessageNumber, SessionNumber, Transport};
use crate::store::codec::{BlobReader, Code, packet_list};
use crate::store::{CaptureId, RowKey};

impl Code for Option<Status> {
    const ALL: &'static [Option<Status>] =
        &[None, Some(Status::Ok), Some(Status::Error), Some(Status::ToolError), Some(Status::Negative)];
    const WHAT: &'static str = "a status";
}

impl Code for Why {
    const ALL: &'static [Why] = &[
        Why::Answer,
        Why::Cursor,
        Why::RequestState,
        Why::InputResponses,
        Why::Task,
        Why::Subscription,
        Why::Retry,
        Why::Redirect,
        Why::Progress,
        Why::Cancel,
        Why::Elicitation,
    ];
    const WHAT: &'static str = "why a message is linked";
}

/// A message without its text, for lists.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// The capture to which `number` belongs.
    pub capture: CaptureId,
    /// Its number in the capture.
    pub number: MessageNumber,
    /// Its session's number in the database.
    pub session: SessionNumber,
    /// Its position in the session: 1, 2, 3 … without holes.
    pub position: u64,
    /// The capture time of its last byte.
    pub time: Time,
    /// The transport of its session.
    pub transport: Transport,
    /// Client to server, or server to client.
    pub direction: Direction,
    /// Request, response, notification and so on.
    pub kind: Kind,
    /// The request id as JSON text.
    pub id: Option<String>,
    /// The method; for a response that of its request.
    pub method: Option<String>,
    /// The tool, prompt or resource that it is about, cut to 200 bytes; for a response that
    /// of its request.
    pub subject: Option<String>,
    /// The result of the call: on a response, and on a request that was answered. `None` if there
    /// is no response, or none is expected.
    pub status: Option<Status>,
    /// Nanoseconds between request and response, on both.
    pub latency: Option<i64>,
    /// The request that this response answers.
    pub answers: Option<MessageNumber>,
    /// The response to this request.
    pub answered_by: Option<MessageNumber>,
    /// Bytes of its text.
    pub size: u64,
    /// A body, a server-sent event or a line.
    pub carrier: Carrier,
    /// The HTTP exchange that carried it.
    pub exchange: Option<ExchangeNumber>,
    /// The number of its batch and its position in the batch.
    pub batch: Option<(u64, u32)>,
    /// The number of the line on the pipe.
    pub line: Option<u64>,
    /// The id of the server-sent event.
    pub sse_id: Option<String>,
    /// Whether a resumed stream delivered the same event again.
    pub redelivered: bool,
    /// The number of the first request of its operation, if it belongs to one.
    pub operation: Option<MessageNumber>,
    /// The link to an earlier message of its operation. The first request has none.
    pub link: Option<Link>,
    /// The address of its bytes.
    pub span: Span,
    /// Packets that carried its bytes.
    pub packets: Vec<PacketNumber>,
    /// The number of findings about it.
    pub findings: u32,
    /// The highest severity of these findings.
    pub severity: Option<Severity>,
}

impl MessageRow {
    /// The key of its row, for paging.
    pub fn key(&self) -> RowKey {
        RowKey::new(self.capture, self.number.0)
    }

    /// Whether it repeats an earlier message: a resumed stream delivered it again, or it was sent
    /// again because of a redirect.
    pub fn is_repeated(&self) -> bool {
        self.redelivered || self.link.as_ref().is_some_and(|link| link.why == Why::Redirect)
    }

    /// Whether it is a request with a response, or a response whose request is known. Such a
    /// message has a latency, unless its directions were captured with different clocks.
    pub fn is_paired(&self) -> bool {
        self.answers.or(self.answered_by).is_some()
    }

    /// The message with its text, from which the envelope is parsed again.
    pub(in crate::store) fn with_text(self, raw: Vec<u8>, findings: Vec<&'static str>, limits: &Limits) -> Message {
        let raw = raw.into();
        let envelope = match jsonrpc::parse_raw(&raw, limits.json_depth, limits.batch) {
            JsonRpcText::Single(envelope) => envelope,
            JsonRpcText::Batch(_) | JsonRpcText::Invalid(_) => Envelope::default(),
        };
        let called = self.method.as_deref() == Some("tools/call");
        Message {
            session: self.session,
            number: self.number,
            time: self.time,
            transport: self.transport,
            direction: self.direction,
            kind: self.kind,
            id: self.id.map(Arc::from),
            tool: self.subject.filter(|_| called).map(Arc::from),
            method: self.method.map(Arc::from),
            raw,
            envelope,
            batch: self.batch,
            answers: self.answers,
            answered_by: self.answered_by,
            latency: self.latency,
            span: self.span,
            packets: self.packets,
            carrier: self.carrier,
            exchange: self.exchange,
            sse_id: self.sse_id,
            line: self.line,
            redelivered: self.redelivered,
            copies: None,
            operation: self.operation,
            link: self.link,
            findings,
        }
    }
}

/// Columns derived from the text before it is compressed.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::store) struct DerivedColumns {
    pub(in crate::store) size: usize,
    pub(in crate::store) status: Option<Status>,
    pub(in crate::store) subject: Option<String>,
    /// The request that it answers, unless that is written in the same transaction.
    pub(in crate::store) request: Option<MessageNumber>,
}

impl DerivedColumns {
    pub(in crate::store) fn of(message: &Message) -> DerivedColumns {
        let (status, subject, request) = (content::status(message), subject(message), message.answers);
        DerivedColumns { size: message.raw.len(), status, subject, request }
    }
}

/// The name of the tool or prompt, or the URI of the resource, that a request or notification is
/// about (MCP 2025-11-25, server features).
fn subject(message: &Message) -> Option<String> {
    let name = match message.method.as_deref()? {
        "tools/call" => return content::tool(message).map(|tool| tool.as_ref().to_owned()),
        "prompts/get" => "name",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" | "notifications/resources/updated" => "uri",
        _ => return None,
    };
    let mut subject = string(member(content::part(message, "params")?, name)?)?.into_owned();
    subject.truncate(subject.floor_char_boundary(200));
    Some(subject)
}

/// Parameters in the order of [`write()`]. A row that exists stays unchanged.
pub(in crate::store) const INSERT: &str = "
    INSERT OR IGNORE INTO message
        (id, session, position, time, transport, direction, kind, json_id, method, subject, status, latency, answers,
         answered_by, size, carrier, exchange, batch, batch_index, line, sse_id, redelivered, stream, span_start, span_end,
         packets)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, coalesce(?10, (SELECT subject FROM message WHERE id = ?11)), ?12, ?13, ?14,
            ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)";

/// Writes a message without its text; returns whether it is new.
pub(in crate::store) fn write(
    statement: &mut Statement<'_>,
    (capture, session, position): (CaptureId, i64, i64),
    message: &Message,
    derived: &DerivedColumns,
) -> rusqlite::Result<bool> {
    let inserted = statement.execute(params![
        RowKey::new(capture, message.number.0),
        session,
        position,
        message.time.0,
        message.transport.code(),
        message.direction.code(),
        message.kind.code(),
        message.id,
        message.method,
        derived.subject,
        derived.request.map(|number| RowKey::new(capture, number.0)),
        derived.status.code(),
        message.latency,
        message.answers.map(|number| number.0 as i64),
        message.answered_by.map(|number| number.0 as i64),
        derived.size as i64,
        message.carrier.code(),
        message.exchange.map(|number| number.0 as i64),
        message.batch.map(|(number, _)| number as i64),
        message.batch.map(|(_, index)| index),
        message.line.map(|line| line as i64),
        message.sse_id,
        message.redelivered,
        message.span.stream.0,
        message.span.start as i64,
        message.span.end as i64,
        packet_list(&message.packets),
    ])?;
    Ok(inserted == 1)
}

/// Parameters: the key, the text.
pub(in crate::store) const TEXT_ROWS: Insert<2> = Insert("INSERT OR IGNORE INTO message_text (id, text)");

/// Parameters in the order of [`write_link`].
pub(in crate::store) const INSERT_LINK: &str =
    "INSERT OR IGNORE INTO link (message, operation, previous, why) VALUES (?, ?, ?, ?)";

/// Writes the link from a message to an earlier one.
pub(in crate::store) fn write_link(
    statement: &mut Statement<'_>,
    (capture, number): (CaptureId, MessageNumber),
    link: &Link,
) -> rusqlite::Result<()> {
    let key = |number: MessageNumber| RowKey::new(capture, number.0);
    statement.execute(params![key(number), key(link.operation), key(link.previous), link.why.code()])?;
    Ok(())
}

/// Writes the link of a message that was written before. The messages of the operation that it
/// began move to the operation of the link.
pub(in crate::store) fn write_late_link(
    db: &Connection,
    (capture, number): (CaptureId, MessageNumber),
    link: &Link,
) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached(INSERT_LINK)?;
    write_link(&mut insert, (capture, number), link)?;
    let key = |number: MessageNumber| RowKey::new(capture, number.0);
    let (own, operation) = (key(number), key(link.operation));
    db.prepare_cached("UPDATE link SET operation = ? WHERE operation = ?")?.execute(params![operation, own])?;
    let answer = "INSERT OR IGNORE INTO link (message, operation, previous, why)
        SELECT capture << 40 | answered_by, ?1, ?2, ?3 FROM message WHERE id = ?2 AND answered_by IS NOT NULL";
    db.prepare_cached(answer)?.execute(params![operation, own, Why::Answer.code()])?;
    Ok(())
}

/// Adds a response to its request. Parameters: the response's number, the latency, the status and
/// the request's key. The first response counts.
pub(in crate::store) const ANSWERED: &str =
    "UPDATE message SET answered_by = ?, latency = ?, status = ? WHERE id = ? AND answered_by IS NULL";

/// Marks a request as refused by the status of its HTTP response.
pub(in crate::store) const REFUSED: &str = "UPDATE message SET status = 2 WHERE id = ? AND answered_by IS NULL";

/// Columns in the order of [`read`].
pub(in crate::store) const COLUMNS: &str = "
    id, session, position, time, transport, direction, kind, json_id, method, subject, status, latency, answers, answered_by,
    size, carrier, exchange, batch, batch_index, line, sse_id, redelivered, stream, span_start, span_end, packets,
    (SELECT previous FROM link WHERE link.message = message.id), (SELECT why FROM link WHERE link.message = message.id),
    coalesce((SELECT operation FROM link WHERE link.message = message.id),
             (SELECT operation FROM link WHERE link.operation = message.id),
             (SELECT operation FROM link WHERE link.operation = message.capture << 40 | message.answers)),
    (SELECT count(*) FROM finding_message AS f WHERE f.message = message.id),
    (SELECT max(severity) FROM finding_message AS f WHERE f.message = message.id)";

/// The number of columns of [`COLUMNS`]. Columns that a query adds follow them.
pub(in crate::store) const WIDTH: usize = 31;

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<MessageRow> {
    let mut columns = Columns::new(row);
    let key = columns.key()?;
    let mut row = MessageRow {
        capture: key.capture(),
        number: MessageNumber(key.number()),
        session: SessionNumber(columns.get()?),
        position: columns.u64()?,
        time: Time(columns.get()?),
        transport: columns.code()?,
        direction: columns.code()?,
        kind: columns.code()?,
        id: columns.get()?,
        method: columns.get()?,
        subject: columns.get()?,
        status: columns.code()?,
        latency: columns.get()?,
        answers: columns.optional_u64()?.map(MessageNumber),
        answered_by: columns.optional_u64()?.map(MessageNumber),
        size: columns.u64()?,
        carrier: columns.code()?,
        exchange: columns.optional_u64()?.map(ExchangeNumber),
        batch: columns.optional_u64()?.zip(columns.get()?),
        line: columns.optional_u64()?,
        sse_id: columns.get()?,
        redelivered: columns.get()?,
        span: Span { stream: StreamId(columns.get()?), start: columns.u64()?, end: columns.u64()? },
        packets: BlobReader::new(columns.bytes("a list of packets")?, "a list of packets").packets()?,
        link: None,
        operation: None,
        findings: 0,
        severity: None,
    };
    let (previous, why) = (columns.optional_key()?, columns.optional_code()?);
    row.operation = columns.optional_key()?.map(|key| MessageNumber(key.number()));
    row.link = match (row.operation, previous, why) {
        (Some(operation), Some(previous), Some(why)) => {
            Some(Link { operation, previous: MessageNumber(previous.number()), why })
        }
        // When the first request was answered, the decoder did not know yet that other requests
        // would continue it.
        (Some(operation), ..) if row.answers == Some(operation) => {
            Some(Link { operation, previous: operation, why: Why::Answer })
        }
        _ => None,
    };
    (row.findings, row.severity) = (columns.get()?, columns.optional_code()?);
    Ok(row)
}
