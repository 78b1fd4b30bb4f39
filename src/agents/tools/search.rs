//! `search_messages`.

use anyhow::{Result, anyhow};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use crate::agents::answer::{MaxBytes, NOTICE, PageCursor, Room};
use crate::agents::recorded::{Recorded, milliseconds, name, time};
use crate::filter::{FIELDS, Filter};
use crate::findings::Severity;
use crate::mcp::SessionNumber;
use crate::mcp::content::Status;
use crate::store::{MessageRow, Page, RowKey, Scope, StoreReader};
use crate::view::text::about;

/// Rows of a page.
const ROWS: usize = 100;

/// Bytes of the summary of a message.
const SUMMARY: usize = 400;

/// Columns of a line that explains an error in a filter.
const WIDTH: usize = 100;

/// The description of the tool, with the grammar of filters.
pub fn description() -> String {
    let fields: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    format!(
        "Searches the messages of one session, or of all, with a filter. Terms are `field operator value`, a field \
         alone (it has a value), or a word that the text of the message contains. They are joined with and, or, not \
         and parentheses.\n\
         Operators: = != < <= > >= contains, matches (a regular expression), in {{a, b}}.\n\
         Fields: {}.\n\
         Values inside a message: params.arguments.city, result.content[0].text, error.code, result.tools[*].name.\n\
         kind is request, notification, response, error or invalid. status is ok, error, tool-error or negative, and \
         only responses have status and latency. A request and its response have the same tool and method.\n\
         Examples: `tool = add and latency > 2s`, `status != ok`, `kind = request and answered = false`, \
         `method = tools/list and kind = response`, `severity = error`, `\"no such city\"`. An empty filter selects \
         every message.",
        fields.join(", ")
    )
}

/// The arguments of `search_messages`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchArguments {
    /// The filter. The description of the tool has its grammar.
    #[serde(default)]
    filter: String,
    /// Only this session. Without it, all sessions are searched, the earliest first.
    #[serde(default)]
    session: Option<u32>,
    /// The `next_cursor` of the page before, with the same filter and session.
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    max_bytes: MaxBytes,
}

/// Messages that match a filter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundMessages {
    /// A reminder about recorded text.
    notice: &'static str,
    /// The messages of this page, in order.
    messages: Vec<FoundMessage>,
    /// Pass it as `cursor` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// What to do next.
    hint: &'static str,
}

/// A message without its text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct FoundMessage {
    /// The number of the session, for read_message.
    session: u32,
    /// The number of the message, for read_message.
    message: u64,
    /// The capture time.
    time: String,
    /// client-to-server or server-to-client.
    direction: &'static str,
    /// request, notification, response, error or invalid.
    kind: &'static str,
    /// The method. A response has that of its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// ok, error, tool-error or negative.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Milliseconds from the request to the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_ms: Option<f64>,
    /// Bytes of its text.
    size: u64,
    /// The number of the response to this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<u64>,
    /// The number of the request that this response answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    answers: Option<u64>,
    /// The number of findings about it.
    findings: u32,
    /// The worst severity among the findings: error, warning or info.
    #[serde(skip_serializing_if = "Option::is_none")]
    severity: Option<&'static str>,
    /// The message in a few words.
    summary: Recorded,
}

/// Parses a filter. The error shows the place, and what was expected there.
pub fn filter(text: &str) -> Result<Filter> {
    Filter::parse(text).map_err(|error| anyhow!("cannot read the filter\n{}", error.render(WIDTH)))
}

/// Searches for messages, page by page.
pub fn search(reader: &StoreReader, arguments: SearchArguments) -> Result<FoundMessages> {
    let filter = filter(&arguments.filter)?;
    let scope = match arguments.session {
        Some(number) => {
            super::session(reader, Some(number))?;
            Scope::Session(SessionNumber(number))
        }
        None => Scope::All,
    };
    let page = Page {
        from: arguments.cursor.as_deref().map(PageCursor::read).transpose()?.map(PageCursor::key),
        ..Page::first(ROWS)
    };
    let rows = reader.matching(&filter, scope, page)?;
    let is_full = rows.len() == ROWS;
    let (mut room, mut messages, mut next) = (Room::of(arguments.max_bytes), Vec::new(), None);
    for (index, row) in rows.iter().enumerate() {
        let found = found(reader, row)?;
        if !room.takes(&found) && index > 0 {
            next = Some(row.key());
            break;
        }
        messages.push(found);
        next = Some(behind(reader, row, scope)?).flatten().filter(|_| is_full);
    }
    let hint = match (messages.is_empty(), next) {
        (true, _) => "no message matches: try a wider filter, or another session",
        (false, Some(_)) => {
            "there are more: pass next_cursor as cursor, or narrow down, for example with and latency > 1s"
        }
        (false, None) => "read_message shows a message whole, with its layers and findings",
    };
    Ok(FoundMessages { notice: NOTICE, messages, next_cursor: next.map(|key| PageCursor::of(key).text()), hint })
}

/// The row that follows in the list. In a session rows are in order of time, not of number.
fn behind(reader: &StoreReader, row: &MessageRow, scope: Scope) -> Result<Option<RowKey>> {
    match scope {
        Scope::Session(session) => {
            let next = reader.message_rows_at(session, row.position + 1, 1)?;
            Ok(next.first().map(MessageRow::key))
        }
        Scope::All | Scope::Capture(_) => Ok(Some(row.key().next())),
    }
}

/// A row as agents get it.
pub fn found(reader: &StoreReader, row: &MessageRow) -> Result<FoundMessage> {
    let message = reader.message(row.key())?;
    let summary = message.map(|message| about(&message)).unwrap_or_default();
    Ok(FoundMessage {
        session: row.session.0,
        message: row.number.0,
        time: time(row.time),
        direction: row.direction.name(),
        kind: row.kind.name(),
        method: row.method.as_deref().map(name),
        status: row.status.map(Status::name).filter(|_| row.answers.is_some()),
        latency_ms: row.latency.map(milliseconds),
        size: row.size,
        answered_by: row.answered_by.map(|number| number.0),
        answers: row.answers.map(|number| number.0),
        findings: row.findings,
        severity: row.severity.map(Severity::name),
        summary: Recorded::new(&summary, SUMMARY),
    })
}
