//! Figures of a session's calls.

use std::collections::HashMap;

use anyhow::Result;

use super::super::data::{CallFigures, Statistics};
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::SessionNumber;
use crate::store::{MessageRow, Reader, Scope, Status};
use crate::view::latencies::Latencies;
use crate::view::outcome::is_failure;
use crate::view::timing::{Clock, Sample, Shares};

/// Messages that are counted: beyond, figures hardly change, and a second has gone.
const COUNTED: u64 = 500_000;

/// Messages read at once.
const SLICE: usize = 10_000;

/// Parts of the session's time for the rate: about the columns of a screen.
const PARTS: usize = 72;

/// Tools and methods told apart; hostile ones could be endless.
const NAMES: usize = 1_000;

/// Whether a message says that something failed.
pub(super) fn failed(row: &MessageRow) -> bool {
    row.kind != Kind::Request && is_failure(row.status.outcome())
}

/// Calls of one kind while they are counted.
#[derive(Default)]
struct Call {
    figures: CallFigures,
    latencies: Latencies,
    shares: Shares,
}

/// Reads the figures.
pub(super) fn read(reader: &Reader, session: SessionNumber) -> Result<Statistics> {
    let mut figures = Statistics { histogram: vec![0; 48], rate: vec![0; PARTS], ..Statistics::default() };
    let Some(record) = reader.session(session)? else { return Ok(figures) };
    figures.messages = reader.message_count(Scope::Session(session))?;
    let length = record.ended.since(record.started).max(1);
    figures.part = length / PARTS as i64 + 1;
    let mut calls: HashMap<String, Call> = HashMap::new();
    let (mut clock, mut sample) = (None, Sample::of(record.requests));
    let mut position = 1;
    while position <= COUNTED {
        let rows = reader.message_rows_at(session, position, SLICE)?;
        let Some(last) = rows.last() else { break };
        position = last.position + 1;
        for row in &rows {
            figures.counted += 1;
            figures.bytes[usize::from(row.direction == Direction::ServerToClient)] += row.size;
            let part = (row.time.since(record.started).max(0) / figures.part) as usize;
            figures.rate[part.min(PARTS - 1)] += 1;
            if row.kind == Kind::Request {
                let call = count(&mut figures, &mut calls, row);
                if row.answered_by.is_some() && sample.takes() {
                    let clock = clock.get_or_insert_with(|| Clock::new(reader, row.capture));
                    if let Some(timing) = clock.of_request(row)? {
                        call.shares.add(&timing);
                    }
                }
            }
        }
    }
    figures.calls = calls.into_values().map(finished).collect();
    figures.calls.sort_by(|one, other| other.total.cmp(&one.total).then_with(|| one.name.cmp(&other.name)));
    Ok(figures)
}

/// A request; once it is answered it knows how.
fn count<'c>(figures: &mut Statistics, calls: &'c mut HashMap<String, Call>, row: &MessageRow) -> &'c mut Call {
    let method = row.method.as_deref().unwrap_or("no method");
    let name = match &row.subject {
        Some(tool) if method == "tools/call" => format!("{method} {tool}"),
        _ => method.to_owned(),
    };
    let name = if calls.len() < NAMES || calls.contains_key(&name) { name } else { "others".to_owned() };
    let counted = calls.entry(name.clone()).or_default();
    let Call { figures: call, latencies, .. } = &mut *counted;
    call.name = name;
    call.calls += 1;
    call.errors += u64::from(row.status == Status::Error);
    call.tool_errors += u64::from(row.status == Status::ToolError);
    call.negatives += u64::from(row.status == Status::Negative);
    call.unanswered += u64::from(row.answered_by.is_none());
    if let Some(latency) = row.latency.map(|latency| latency.max(0)) {
        call.total = call.total.saturating_add(latency);
        let [least, most] = call.extremes.get_or_insert([latency; 2]);
        (*least, *most) = ((*least).min(latency), (*most).max(latency));
        latencies.add(latency);
        // Below 2 µs all are one.
        let power = (latency / 1_000).checked_ilog2().unwrap_or(0) as usize;
        let last = figures.histogram.len() - 1;
        figures.histogram[power.min(last)] += 1;
    }
    counted
}

fn finished(Call { mut figures, mut latencies, mut shares }: Call) -> CallFigures {
    figures.percentiles = [50, 95, 99].map(|percent| latencies.percentile(percent).unwrap_or_default());
    figures.parts = shares.medians();
    figures
}
