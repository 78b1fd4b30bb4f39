//! The parts of the time of a session's calls, by method and tool.

use std::collections::HashMap;

use anyhow::Result;

use super::latencies::Latencies;
use super::overview::SummaryRow;
use super::timing::{Clock, Medians, Shares};
use super::units::{count, duration};
use crate::decode::jsonrpc::Kind;
use crate::mcp::Session;
use crate::store::StoreReader;

/// Number of messages that are read. For longer sessions they are an evenly spread sample: medians
/// settle long before.
const LOOKED_AT: u64 = 2_000;

/// Maximum number of methods and tools that are counted separately.
const NAMES: usize = 200;

/// Number of methods and tools that people see: those that took most time.
const SHOWN: usize = 12;

/// The times of calls of one method or tool.
#[derive(Clone, Debug, PartialEq)]
pub struct CallTimes {
    /// The method, followed by the tool for `tools/call`.
    pub name: String,
    /// The number of calls that were timed.
    pub timed: u64,
    /// The median of their latencies, in nanoseconds.
    pub latency: i64,
    /// Medians of the parts of the latency.
    pub parts: Medians,
    total: i64,
}

/// The times of a session's calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Methods and tools, the one that took most time first.
    pub calls: Vec<CallTimes>,
    /// Whether the calls are only a sample of the session.
    pub sampled: bool,
}

impl Times {
    /// Reads the times of a session.
    pub fn read(reader: &StoreReader, session: &Session) -> Result<Times> {
        let Some(capture) = reader.capture_of(session.number)? else { return Ok(Times::default()) };
        let mut clock = Clock::new(reader, capture);
        let mut calls: HashMap<String, (u64, i64, Latencies, Shares)> = HashMap::new();
        let step = session.messages / LOOKED_AT + 1;
        let slice = if step == 1 { LOOKED_AT as usize } else { 1 };
        let mut position = 1;
        loop {
            let rows = reader.message_rows_at(session.number, position, slice)?;
            let Some(last) = rows.last() else { break };
            position = last.position + step;
            for row in rows.iter().filter(|row| row.kind == Kind::Request) {
                let (Some(latency), Some(timing)) = (row.latency, clock.of_request(row)?) else { continue };
                let method = row.method.as_deref().unwrap_or("no method");
                let name = match &row.subject {
                    Some(tool) if method == "tools/call" => format!("{method} {tool}"),
                    _ => method.to_owned(),
                };
                if calls.len() < NAMES || calls.contains_key(&name) {
                    let (timed, total, latencies, shares) = calls.entry(name).or_default();
                    *timed += 1;
                    *total = total.saturating_add(latency);
                    latencies.add(latency);
                    shares.add(&timing);
                }
            }
        }
        let finished = |(name, (timed, total, mut latencies, mut shares)): (String, (u64, i64, Latencies, Shares))| {
            let latency = latencies.percentile(50).unwrap_or_default();
            CallTimes { name, timed, latency, parts: shares.medians(), total }
        };
        let mut calls: Vec<CallTimes> = calls.into_iter().map(finished).collect();
        calls.sort_by(|one, other| other.total.cmp(&one.total).then_with(|| one.name.cmp(&other.name)));
        Ok(Times { calls, sampled: step > 1 })
    }

    /// The times as rows for people. There are none without timed calls.
    pub fn lines(&self) -> Vec<SummaryRow> {
        if self.calls.is_empty() {
            return Vec::new();
        }
        let line = |depth, name: &str, value| SummaryRow { depth, name: name.to_owned(), value, message: None };
        let what = if self.sampled { "medians of a sample of the calls" } else { "medians" };
        let mut lines = vec![line(0, "time of calls", what.to_owned())];
        for call in self.calls.iter().take(SHOWN) {
            let parts = [
                ("upload", call.parts.upload),
                ("network", call.parts.network),
                ("server", call.parts.server),
                ("stream", call.parts.stream),
            ];
            let parts = parts.into_iter().filter_map(|(name, time)| Some(format!("{name} {}", duration(time?))));
            let (latency, parts) = (duration(call.latency), parts.collect::<Vec<_>>().join(", "));
            lines.push(line(1, &call.name, format!("{}, {latency}: {parts}", count(call.timed, "call"))));
        }
        lines
    }
}
