//! `tool_statistics`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use crate::agents::answer::{MaxBytes, NOTICE, Room};
use crate::agents::recorded::{milliseconds, name};
use crate::decode::json::{Object, array};
use crate::filter::Filter;
use crate::mcp::content::{Status, body};
use crate::mcp::{MessageNumber, Session};
use crate::store::{CaptureId, RowKey, Scope, StoreReader};
use crate::view::latencies::Latencies;
use crate::view::overview;

pub const DESCRIPTION: &str = "Statistics of the tools of one session: calls, failures, unanswered calls, latencies \
    and sizes of results. Also listed tools without any call, and the size of the list of tools in bytes and, estimated, \
    in tokens.";

/// Names of tools that are listed at most.
const TOOLS: usize = 1_000;

/// The arguments of `tool_statistics`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatisticsArguments {
    /// The number of the session. Without it, the latest recording.
    #[serde(default)]
    session: Option<u32>,
    #[serde(default)]
    max_bytes: MaxBytes,
}

/// Statistics of the tools of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ToolStatistics {
    /// A reminder about recorded text.
    notice: &'static str,
    /// The number of the session.
    session: u32,
    /// The called tools, those with most time in all first.
    tools: Vec<ToolRow>,
    /// Tools in the server's latest list that were never called.
    never_called: Vec<String>,
    /// Tools that were called but are not in the server's latest list.
    not_listed: Vec<String>,
    /// The server's latest list of tools, if the client asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<ToolList>,
    /// What to do next.
    hint: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ToolList {
    /// The number of tools in it.
    tools: u64,
    /// Bytes of their definitions.
    bytes: u64,
    /// Tokens that these take in a model's context. An estimate: four bytes are one token.
    estimated_tokens: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ToolRow {
    /// The name of the tool.
    tool: String,
    /// The number of calls.
    calls: u64,
    /// Answered with a result that reports no failure.
    ok: u64,
    /// Answered with a result that reports a failure of the tool.
    tool_errors: u64,
    /// Answered with a JSON-RPC error, or refused by the status of the HTTP response.
    errors: u64,
    /// Cancelled by the client, and not answered.
    cancelled: u64,
    /// Without a response so far.
    unanswered: u64,
    /// The median latency in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<f64>,
    /// The 95th percentile of the latency in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<f64>,
    /// The largest latency in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ms: Option<f64>,
    /// Bytes of all results together.
    result_bytes: u64,
}

/// The calls of one tool.
#[derive(Debug, Default)]
struct Calls {
    calls: u64,
    ok: u64,
    tool_errors: u64,
    errors: u64,
    cancelled: u64,
    unanswered: u64,
    total: i64,
    longest: Option<i64>,
    latencies: Latencies,
    result_bytes: u64,
}

/// Counts the calls of each tool.
pub fn statistics(reader: &StoreReader, arguments: StatisticsArguments) -> Result<ToolStatistics> {
    let (session, capture) = super::session(reader, arguments.session)?;
    let mut called: BTreeMap<String, Calls> = BTreeMap::new();
    let filter = Filter::parse("tool and method = tools/call")?;
    for row in reader.all_matching(&filter, Scope::Session(session.number)) {
        let row = row?;
        let Some(tool) = row.subject.clone().filter(|_| !row.is_repeated()) else { continue };
        let calls = called.entry(tool).or_default();
        if row.answers.is_some() {
            calls.result_bytes += row.size;
            continue;
        }
        calls.calls += 1;
        match row.status {
            Some(Status::Ok | Status::Negative) => calls.ok += 1,
            Some(Status::ToolError) => calls.tool_errors += 1,
            Some(Status::Error) => calls.errors += 1,
            None => calls.unanswered += 1,
        }
        if let Some(latency) = row.latency {
            calls.latencies.add(latency);
            calls.total = calls.total.saturating_add(latency);
            calls.longest = calls.longest.max(Some(latency));
        }
    }
    for note in reader.all_notes(session.number) {
        let note = note?.note;
        let (requests, is_cancelled) = note.kind.settled_requests();
        for request in requests {
            let row = reader.message_row(RowKey::new(capture, request.0))?.filter(|row| row.answered_by.is_none());
            let Some(calls) = row.and_then(|row| called.get_mut(&row.subject?)) else { continue };
            calls.unanswered = calls.unanswered.saturating_sub(1);
            *(if is_cancelled { &mut calls.cancelled } else { &mut calls.errors }) += 1;
        }
    }
    let listed = overview::read(reader, &session)?.lists.remove("tools");
    let names = listed.as_ref().map(|listed| names(reader, &session, capture, listed.message)).transpose()?;
    let names = names.unwrap_or_default();
    let mut room = Room::of(arguments.max_bytes);
    let mut fit = |names: Vec<&String>| -> Vec<String> {
        names.into_iter().map(|tool| name(tool)).take_while(|name| room.takes(name)).collect()
    };
    // Of a longer list not all names are known.
    let not_listed: Vec<&String> = match listed {
        Some(_) if names.len() < TOOLS => called.keys().filter(|tool| !names.contains(*tool)).collect(),
        _ => Vec::new(),
    };
    let never_called: Vec<&String> = names.iter().filter(|tool| !called.contains_key(*tool)).collect();
    let all_names = not_listed.len() + never_called.len();
    let (not_listed, never_called) = (fit(not_listed), fit(never_called));
    let is_cut = not_listed.len() + never_called.len() < all_names || names.len() >= TOOLS;
    let mut rows: Vec<(String, Calls)> = called.into_iter().collect();
    rows.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.total));
    let all = rows.len();
    let tools: Vec<ToolRow> =
        rows.into_iter().map(|(tool, calls)| row(&tool, calls)).take_while(|row| room.takes(row)).collect();
    let hint = match (is_cut || tools.len() < all, tools.is_empty()) {
        (true, _) => "not all tools are listed: pass a larger max_bytes; of a list at most 1,000 names are read",
        (false, true) => "no tool was called: explain_session with the symptom never-called says why",
        (false, false) => "search_messages with tool = NAME shows the calls of a tool",
    };
    let list =
        listed.map(|listed| ToolList { tools: listed.items, bytes: listed.bytes, estimated_tokens: listed.tokens() });
    Ok(ToolStatistics { notice: NOTICE, session: session.number.0, tools, never_called, not_listed, list, hint })
}

/// The names of the tools in the latest list, from its first page on.
fn names(
    reader: &StoreReader,
    session: &Session,
    capture: CaptureId,
    first: MessageNumber,
) -> Result<BTreeSet<String>> {
    let filter = Filter::parse(&format!("method = tools/list and kind = response and number >= {}", first.0))?;
    let mut names = BTreeSet::new();
    for row in reader.all_matching(&filter, Scope::Session(session.number)) {
        let Some(message) = reader.message(RowKey::new(capture, row?.number.0))? else { continue };
        for tool in array(body(&message).get("tools").unwrap_or_default(), TOOLS) {
            names.extend(Object::read(tool).text("name").map(|name| name.into_owned()));
            if names.len() >= TOOLS {
                return Ok(names);
            }
        }
    }
    Ok(names)
}

fn row(tool: &str, mut calls: Calls) -> ToolRow {
    let mut percentile = |percent| calls.latencies.percentile(percent).map(milliseconds);
    ToolRow {
        tool: name(tool),
        p50_ms: percentile(50),
        p95_ms: percentile(95),
        max_ms: calls.longest.map(milliseconds),
        calls: calls.calls,
        ok: calls.ok,
        tool_errors: calls.tool_errors,
        errors: calls.errors,
        cancelled: calls.cancelled,
        unanswered: calls.unanswered,
        result_bytes: calls.result_bytes,
    }
}
