//! `list_sessions`.

use anyhow::Result;
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use crate::agents::answer::{MaxBytes, NOTICE, PageCursor, Room};
use crate::agents::recorded::{name, time};
use crate::mcp::SessionNumber;
use crate::store::{ListedSession, Page, StoreReader};
use crate::view::{parties, session_list};

pub const DESCRIPTION: &str = "Lists recorded MCP sessions, the latest first, with the outcomes of their requests and \
    the number of findings. Begin here. Then call explain_session for the cause of a problem.";

/// Rows of a page.
const ROWS: usize = 50;

/// The arguments of `list_sessions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListArguments {
    /// Only sessions with a message that matches this filter, such as `tool = add` or `server =
    /// weather`. The description of search_messages has the language.
    #[serde(default)]
    filter: Option<String>,
    /// The `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    max_bytes: MaxBytes,
}

/// Sessions, the latest first.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionList {
    /// A reminder about recorded text.
    notice: &'static str,
    /// The sessions of this page.
    sessions: Vec<SessionRow>,
    /// Pass it as `cursor` to get the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// What to do next.
    hint: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct SessionRow {
    /// The number of the session, for the other tools.
    session: u32,
    /// The name of the server.
    server: String,
    /// The name and version of the client, if it gave them.
    client: String,
    /// stdio, http-sse, streamable-http, http or websocket.
    transport: &'static str,
    /// The protocol revision in force, if known.
    revision: String,
    /// The time of the first message.
    started: String,
    /// The time of the last message.
    ended: String,
    /// live, died (the server ended with an error), cut (the recorder was killed) or ended.
    state: &'static str,
    /// The number of messages.
    messages: u64,
    /// The client's requests by outcome.
    requests: RequestCounts,
    /// Findings of the severity error: places where traffic breaks the protocol.
    errors_found: u64,
    /// Findings of the severity warning.
    warnings_found: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct RequestCounts {
    /// Answered with a result.
    ok: u64,
    /// Answered with a result that reports a failure of the tool.
    tool_errors: u64,
    /// Answered with a JSON-RPC error, or refused by HTTP.
    errors: u64,
    /// Cancelled by the client.
    cancelled: u64,
    /// Without a response so far.
    unanswered: u64,
}

/// Lists a page of sessions.
pub fn list(reader: &StoreReader, arguments: ListArguments) -> Result<SessionList> {
    let filter = arguments.filter.as_deref().map(super::search::filter).transpose()?;
    let page = match arguments.cursor.as_deref().map(PageCursor::read).transpose()? {
        Some(cursor) => Page::back_from(SessionNumber(u32::try_from(cursor.number).unwrap_or(u32::MAX)), ROWS),
        None => Page::last(ROWS),
    };
    let (mut room, mut sessions, mut next) = (Room::of(arguments.max_bytes), Vec::new(), None);
    let listed = reader.listed_sessions(filter.as_ref(), page)?;
    let is_full = listed.len() == ROWS;
    for (index, listed) in listed.iter().enumerate() {
        let number = listed.session.number.0;
        let row = row(listed);
        if !room.takes(&row) && index > 0 {
            next = Some(number);
            break;
        }
        sessions.push(row);
        next = Some(number.saturating_sub(1)).filter(|next| is_full && *next > 0);
    }
    let next_cursor = next.map(|number| PageCursor { capture: 0, number: number.into() }.text());
    let hint = match (sessions.is_empty(), &next_cursor) {
        (true, _) if filter.is_some() => "no session matches: try a wider filter",
        (true, _) => "nothing is recorded yet: \"mcptap wrap -- SERVER\" records a server",
        (false, Some(_)) => "there are more: pass next_cursor as cursor, or narrow down with filter",
        (false, None) => "explain_session finds the cause of a problem",
    };
    Ok(SessionList { notice: NOTICE, sessions, next_cursor, hint })
}

fn row(listed: &ListedSession) -> SessionRow {
    let session = &listed.session;
    let outcomes = session.outcomes;
    let now = crate::source::now();
    let state = match session_list::state(listed, now).word() {
        "" => "ended",
        word => word,
    };
    SessionRow {
        session: session.number.0,
        server: name(&session_list::name(listed)),
        client: name(&parties::party(&session.client).unwrap_or_default()),
        transport: session.transport.name(),
        revision: name(session.protocol_version.as_deref().unwrap_or_default()),
        started: time(session.started),
        ended: time(session.ended),
        state,
        messages: session.messages,
        requests: RequestCounts {
            ok: outcomes.ok,
            tool_errors: outcomes.tool_errors,
            errors: outcomes.errors,
            cancelled: outcomes.cancelled,
            unanswered: outcomes.unanswered,
        },
        errors_found: listed.findings[2],
        warnings_found: listed.findings[1],
    }
}
