//! Findings. The texts of a rule are stored with them, because a program with other rules may
//! read the file.

use rusqlite::{Connection, Row, params};

use super::Columns;
use crate::capture::{PacketNumber, Span, StreamId};
use crate::findings::{self, Finding, Rule, Severity};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::codec::{BlobReader, BlobWriter, Code, Damaged, packet_list};
use crate::store::{CaptureId, RowKey};

/// A stored finding.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingRow {
    /// Its number in the database, which is the key for paging.
    pub number: u64,
    /// The capture to which the numbers of messages and packets belong.
    pub capture: CaptureId,
    /// The rule's id.
    pub rule: String,
    /// The severity of this finding, which may differ from its rule's.
    pub severity: Severity,
    /// The title of the rule, in one line.
    pub title: String,
    /// The section of the specification on which the rule is based.
    pub spec: String,
    /// The session's number in the database.
    pub session: Option<SessionNumber>,
    /// The numbers of the messages that the finding is about.
    pub messages: Vec<MessageNumber>,
    /// The numbers of the packets that the finding is about.
    pub packets: Vec<PacketNumber>,
    /// The bytes that the finding is about.
    pub span: Option<Span>,
    /// A sentence that describes the finding.
    pub text: String,
    /// The number of findings that this row stands for, if they are not listed one by
    /// one; otherwise 0.
    pub repeated: u64,
}

impl FindingRow {
    /// The row that a store would have for a finding.
    pub fn new(number: u64, capture: CaptureId, finding: Finding) -> FindingRow {
        FindingRow {
            number,
            capture,
            rule: finding.rule.id.to_owned(),
            severity: finding.severity,
            title: finding.rule.title.to_owned(),
            spec: finding.rule.spec.to_owned(),
            session: finding.session,
            messages: finding.messages,
            packets: finding.packets,
            span: finding.span,
            text: finding.text,
            repeated: finding.repeated,
        }
    }

    /// The finding, if this program has its rule.
    pub fn finding(self) -> Option<Finding> {
        Some(Finding {
            rule: findings::rule(&self.rule)?,
            severity: self.severity,
            session: self.session,
            messages: self.messages,
            packets: self.packets,
            span: self.span,
            text: self.text,
            repeated: self.repeated,
            once: "",
        })
    }
}

/// Writes the texts of a rule, replacing those of another version of this program.
pub(in crate::store) fn write_rule(db: &Connection, rule: &Rule) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO rule (id, severity, title, spec) VALUES (?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET severity = excluded.severity, title = excluded.title, spec = excluded.spec",
    )?
    .execute(params![rule.id, rule.severity.code(), rule.title, rule.spec])?;
    Ok(())
}

pub(in crate::store) fn write(
    db: &Connection,
    capture: CaptureId,
    session: Option<i64>,
    finding: &Finding,
) -> rusqlite::Result<()> {
    let mut messages = BlobWriter::default();
    finding.messages.iter().for_each(|number| messages.u64(number.0));
    let id = db
        .prepare_cached(
            "INSERT INTO finding (capture, session, rule, severity, repeated, text, messages, packets, stream,
                span_start, span_end) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .insert(params![
            capture.0,
            session,
            finding.rule.id,
            finding.severity.code(),
            i64::try_from(finding.repeated).unwrap_or(i64::MAX),
            finding.text,
            messages.0,
            packet_list(&finding.packets),
            finding.span.map(|span| span.stream.0),
            finding.span.map(|span| span.start as i64),
            finding.span.map(|span| span.end as i64),
        ])?;
    let mut about =
        db.prepare_cached("INSERT OR IGNORE INTO finding_message (message, finding, severity) VALUES (?, ?, ?)")?;
    for number in &finding.messages {
        about.execute(params![RowKey::new(capture, number.0), id, finding.severity.code()])?;
    }
    Ok(())
}

/// Reads the column `messages`.
fn read_messages(blob: &[u8]) -> Result<Vec<MessageNumber>, Damaged> {
    let mut list = BlobReader::new(blob, "a finding");
    let mut messages = Vec::new();
    while !list.is_empty() {
        messages.push(MessageNumber(list.u64()?));
    }
    Ok(messages)
}

/// Deletes some findings for which `which` is true of `?1`; returns their number.
pub(in crate::store) fn delete_some(db: &Connection, which: &str, value: i64, most: usize) -> anyhow::Result<usize> {
    let sql = format!("SELECT id, capture, messages FROM finding WHERE {which} LIMIT {most}");
    let mut select = db.prepare_cached(&sql)?;
    let mut rows = select.query([value])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let mut columns = Columns::new(row);
        let (id, capture): (i64, _) = (columns.get()?, columns.capture()?);
        // If a list cannot be read, the deletion of the messages removes the rest.
        found.push((id, capture, read_messages(columns.bytes("a finding")?).unwrap_or_default()));
    }
    let mut about = db.prepare_cached("DELETE FROM finding_message WHERE message = ? AND finding = ?")?;
    let mut delete = db.prepare_cached("DELETE FROM finding WHERE id = ?")?;
    for (id, capture, messages) in &found {
        for number in messages {
            about.execute(params![RowKey::new(*capture, number.0), id])?;
        }
        delete.execute([id])?;
    }
    Ok(found.len())
}

/// Columns in the order of [`read`], from `finding JOIN rule`.
pub(in crate::store) const COLUMNS: &str = "
    finding.id, capture, rule, finding.severity, title, spec, session, messages, packets, stream, span_start, span_end, text,
    repeated";

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<FindingRow> {
    let mut columns = Columns::new(row);
    Ok(FindingRow {
        number: columns.u64()?,
        capture: columns.capture()?,
        rule: columns.get()?,
        severity: columns.code()?,
        title: columns.get()?,
        spec: columns.get()?,
        session: columns.get::<Option<u32>>()?.map(SessionNumber),
        messages: read_messages(columns.bytes("a finding")?)?,
        packets: BlobReader::new(columns.bytes("a finding")?, "a finding").packets()?,
        span: match (columns.get()?, columns.optional_u64()?, columns.optional_u64()?) {
            (Some(stream), Some(start), Some(end)) => Some(Span { stream: StreamId(stream), start, end }),
            _ => None,
        },
        text: columns.get()?,
        repeated: columns.u64()?,
    })
}
