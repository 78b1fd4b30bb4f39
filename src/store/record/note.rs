//! Notes: what happened around the messages of a session. The facts of each kind are a
//! JSON object.

use anyhow::Context;
use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

use super::Columns;
use crate::capture::Time;
use crate::capture::pipe::Exit;
use crate::decode::exchange::ExchangeNumber;
use crate::mcp::note::{Failure, HttpNote, NoteKind, WaitEnd};
use crate::mcp::{MessageNumber, Note, SessionNumber};
use crate::store::CaptureId;
use crate::store::codec::{BlobReader, Damaged, packet_list};

const DAMAGED: Damaged = Damaged("a note");

/// A stored note.
#[derive(Clone, Debug, PartialEq)]
pub struct NoteRow {
    /// Its number in the database.
    pub number: u64,
    /// The note. Its session has the number in the database.
    pub note: Note,
}

/// Whether a note is stored. The packets hold the lines of stderr.
pub(in crate::store) fn is_stored(note: &Note) -> bool {
    !matches!(note.kind, NoteKind::Stderr { .. })
}

pub(in crate::store) fn write(
    db: &Connection,
    capture: CaptureId,
    session: Option<i64>,
    note: &Note,
) -> rusqlite::Result<()> {
    let (kind, details) = encoded(&note.kind);
    db.prepare_cached("INSERT INTO note (capture, session, time, kind, details, packets) VALUES (?, ?, ?, ?, ?, ?)")?
        .execute(params![capture.0, session, note.time.0, kind, details.to_string(), packet_list(&note.packets)])?;
    Ok(())
}

/// Deletes some notes that fulfil a condition on `value`. Returns their number.
pub(in crate::store) fn delete_some(db: &Connection, which: &str, value: i64, rows: usize) -> anyhow::Result<usize> {
    let sql = format!("DELETE FROM note WHERE id IN (SELECT id FROM note WHERE {which} LIMIT {rows})");
    Ok(db.prepare_cached(&sql)?.execute([value])?)
}

/// Columns in the order of [`read`].
pub(in crate::store) const COLUMNS: &str = "id, session, time, kind, details, packets";

pub(in crate::store) fn read(row: &Row<'_>) -> anyhow::Result<NoteRow> {
    let mut columns = Columns::new(row);
    let number = columns.u64()?;
    let session = columns.get::<Option<u32>>()?.map(SessionNumber);
    let time = Time(columns.get()?);
    let (kind, details): (String, String) = (columns.get()?, columns.get()?);
    let details = serde_json::from_str(&details).map_err(|_| DAMAGED)?;
    let packets = BlobReader::new(columns.bytes("a note")?, "a note").packets()?;
    let kind = decoded(&kind, &details).context(DAMAGED)?;
    Ok(NoteRow { number, note: Note { session, time, packets, kind } })
}

fn encoded(kind: &NoteKind) -> (&'static str, Value) {
    match kind {
        NoteKind::Stderr { line, text } => ("stderr", json!({ "line": line, "text": text })),
        NoteKind::Ended { exit, pending } => {
            ("ended", json!({ "status": exit.code, "signal": exit.signal, "pending": numbers(pending) }))
        }
        NoteKind::Refused(http) => ("refused", encoded_http(http)),
        NoteKind::Redirected(http) => ("redirected", encoded_http(http)),
        NoteKind::Unanswered { request, waited, end, is_certain } => {
            let by = if let WaitEnd::Cancelled(message) = end { Some(message.0) } else { None };
            (
                "unanswered",
                json!({ "request": request.0, "waited": waited, "end": end.name(), "by": by, "certain": is_certain }),
            )
        }
        NoteKind::Connection { from, to, failure } => {
            ("connection", json!({ "from": from, "to": to, "what": failure.name() }))
        }
    }
}

fn encoded_http(http: &HttpNote) -> Value {
    json!({
        "exchange": http.exchange.0, "method": http.method, "target": http.target, "status": http.status,
        "reason": http.reason, "detail": http.detail, "requests": numbers(&http.requests),
    })
}

fn numbers(messages: &[MessageNumber]) -> Vec<u64> {
    messages.iter().map(|number| number.0).collect()
}

/// The facts of a note; `None` if they are damaged.
fn decoded(kind: &str, details: &Value) -> Option<NoteKind> {
    let number = |name: &str| details[name].as_u64();
    let text = |name: &str| details[name].as_str().map(str::to_owned);
    let messages = |name: &str| -> Option<Vec<MessageNumber>> {
        details[name].as_array()?.iter().map(|number| number.as_u64().map(MessageNumber)).collect()
    };
    let http = || {
        Some(HttpNote {
            exchange: ExchangeNumber(number("exchange")?),
            method: text("method")?,
            target: text("target")?,
            status: u16::try_from(number("status")?).ok()?,
            reason: text("reason")?,
            detail: text("detail")?,
            requests: messages("requests")?,
        })
    };
    let word = |name: &str| details[name].as_i64().and_then(|number| i32::try_from(number).ok());
    Some(match kind {
        "stderr" => NoteKind::Stderr { line: number("line")?, text: text("text")? },
        "ended" => {
            let exit = Exit { code: word("status"), signal: word("signal") };
            NoteKind::Ended { exit, pending: messages("pending")? }
        }
        "refused" => NoteKind::Refused(http()?),
        "redirected" => NoteKind::Redirected(http()?),
        "unanswered" => NoteKind::Unanswered {
            request: MessageNumber(number("request")?),
            waited: details["waited"].as_i64()?,
            is_certain: details["certain"].as_bool()?,
            end: match (details["end"].as_str()?, number("by")) {
                ("cancelled", Some(by)) => WaitEnd::Cancelled(MessageNumber(by)),
                ("response-ended", _) => WaitEnd::ResponseEnded,
                ("connection-ended", _) => WaitEnd::ConnectionEnded,
                ("session-ended", _) => WaitEnd::SessionEnded,
                _ => return None,
            },
        },
        "connection" => NoteKind::Connection {
            from: details["from"].as_str()?.parse().ok()?,
            to: details["to"].as_str()?.parse().ok()?,
            failure: match details["what"].as_str()? {
                "refused" => Failure::Refused,
                "reset" => Failure::Reset,
                _ => return None,
            },
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let http = || HttpNote {
            exchange: ExchangeNumber(4),
            method: "POST".into(),
            target: "/mcp".into(),
            status: 404,
            reason: "Not Found".into(),
            detail: "Session not found".into(),
            requests: vec![MessageNumber(8)],
        };
        let unanswered = |end| {
            let is_certain = end != WaitEnd::SessionEnded;
            NoteKind::Unanswered { request: MessageNumber(3), waited: 8_000_000_000, end, is_certain }
        };
        let connection = |failure| NoteKind::Connection {
            from: "[::1]:50000".parse().unwrap(),
            to: "127.0.0.1:80".parse().unwrap(),
            failure,
        };
        let exit = |code, signal| NoteKind::Ended { exit: Exit { code, signal }, pending: vec![MessageNumber(2)] };
        for kind in [
            NoteKind::Stderr { line: 3, text: "KeyError".into() },
            exit(Some(1), None),
            exit(None, Some(9)),
            NoteKind::Refused(http()),
            NoteKind::Redirected(http()),
            unanswered(WaitEnd::Cancelled(MessageNumber(10))),
            unanswered(WaitEnd::ResponseEnded),
            unanswered(WaitEnd::ConnectionEnded),
            unanswered(WaitEnd::SessionEnded),
            connection(Failure::Refused),
            connection(Failure::Reset),
        ] {
            let (name, details) = encoded(&kind);
            assert_eq!(decoded(name, &details), Some(kind));
        }
        assert_eq!(decoded("refused", &json!({ "exchange": 1 })), None, "damaged");
    }
}
