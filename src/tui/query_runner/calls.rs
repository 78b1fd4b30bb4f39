//! Figures of a session's calls. They grow with the messages; none is counted twice.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::Result;

use super::super::data::{CallFigures, Statistics};
use super::TURN;
use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::SessionNumber;
use crate::mcp::content::Status;
use crate::store::{MessageRow, NoteRow, RowKey, Scope, StoreReader};
use crate::view::latencies::Latencies;
use crate::view::outcome::is_failure;
use crate::view::timing::{Clock, Sample, Shares};

/// Messages that are read at once.
const SLICE: usize = 2_000;

/// Parts of the session's time for the message rate: about the columns of a screen.
const PARTS: usize = 72;

/// Counters that the parts are computed from. All have one length, which doubles whenever the
/// session outgrows them.
const COUNTERS: usize = PARTS * 16;

/// Initial length of a counter in nanoseconds.
const FIRST_LENGTH: i64 = 1_000_000;

/// Limit of the separately counted tools and methods: hostile names could be endless.
const NAMES: usize = 1_000;

/// Whether a response reports a failure.
pub(super) fn failed(row: &MessageRow) -> bool {
    row.kind != Kind::Request && is_failure(row.status)
}

/// The calls of one method or tool while they are counted.
#[derive(Default)]
struct CallCounter {
    figures: CallFigures,
    latencies: Latencies,
    shares: Shares,
}

/// The figures of a session, as far as it was counted.
pub(super) struct Figures {
    session: SessionNumber,
    /// Position of the first message that was not counted.
    next: u64,
    /// The last note that was read.
    last_note: Option<(Time, u64)>,
    counted: u64,
    bytes: [u64; 2],
    histogram: Vec<u64>,
    calls: HashMap<String, CallCounter>,
    counters: Vec<u64>,
    /// Length of each counter in nanoseconds.
    length: i64,
}

impl Figures {
    pub(super) fn new(session: SessionNumber) -> Figures {
        Figures {
            session,
            next: 1,
            last_note: None,
            counted: 0,
            bytes: [0; 2],
            histogram: vec![0; 48],
            calls: HashMap::new(),
            counters: vec![0; COUNTERS],
            length: FIRST_LENGTH,
        }
    }

    pub(super) fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// Counts more messages for one time slice. Returns the figures so far.
    pub(super) fn read(&mut self, reader: &StoreReader) -> Result<Statistics> {
        let Some(record) = reader.session(self.session)? else { return Ok(Statistics::default()) };
        // The parts of the latency are computed for a sample of the calls. The longer the session,
        // the fewer of the new calls are in it.
        let (mut clock, mut sample) = (None, Sample::of(record.outcomes.requests() + record.server_requests));
        let began = Instant::now();
        while began.elapsed() < TURN {
            let rows = reader.message_rows_at(self.session, self.next, SLICE)?;
            let Some(last) = rows.last() else { break };
            self.next = last.position + 1;
            for row in &rows {
                self.count(row, row.time.since(record.started).max(0));
                let is_answered = row.kind == Kind::Request && row.answered_by.is_some();
                if is_answered && sample.takes() {
                    let clock = clock.get_or_insert_with(|| Clock::new(reader, row.capture));
                    if let Some(timing) = clock.of_request(row)? {
                        self.call(row).shares.add(&timing);
                    }
                }
            }
        }
        if self.counted >= record.messages {
            self.read_notes(reader, began)?;
        }
        let part = record.ended.since(record.started).max(1) / PARTS as i64 + 1;
        let mut calls: Vec<CallFigures> = self.calls.values_mut().map(figures_of).collect();
        calls.sort_by(|one, other| other.total.cmp(&one.total).then_with(|| one.name.cmp(&other.name)));
        Ok(Statistics {
            counted: self.counted,
            messages: reader.message_count(Scope::Session(self.session))?.max(self.counted),
            calls,
            histogram: self.histogram.clone(),
            rate: self.rate(part),
            part,
            bytes: self.bytes,
        })
    }

    /// Counts requests that were refused or cancelled, and so have no response. Notes name them.
    fn read_notes(&mut self, reader: &StoreReader, began: Instant) -> Result<()> {
        let Some(capture) = reader.capture_of(self.session)? else { return Ok(()) };
        while began.elapsed() < TURN {
            let notes = reader.notes(Scope::Session(self.session), self.last_note, SLICE)?;
            if notes.is_empty() {
                break;
            }
            for NoteRow { number, note } in notes {
                self.last_note = Some((note.time, number));
                let (requests, is_cancelled) = note.kind.settled_requests();
                for request in requests {
                    if let Some(row) = reader.message_row(RowKey::new(capture, request.0))?
                        && row.kind == Kind::Request
                        && row.answered_by.is_none()
                    {
                        let figures = &mut self.call(&row).figures;
                        figures.settled += 1;
                        *(if is_cancelled { &mut figures.cancelled } else { &mut figures.errors }) += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts a message, `at` nanoseconds after the session's start.
    fn count(&mut self, row: &MessageRow, at: i64) {
        self.counted += 1;
        self.bytes[usize::from(row.direction == Direction::ServerToClient)] += row.size;
        while at / self.length >= COUNTERS as i64 {
            self.counters = self.counters.chunks(2).map(|pair| pair.iter().sum()).chain([0; COUNTERS / 2]).collect();
            self.length = self.length.saturating_mul(2);
        }
        self.counters[(at / self.length) as usize] += 1;
        let is_answer = matches!(row.kind, Kind::Response | Kind::Error) && row.answers.is_some();
        if !row.is_repeated() && (row.kind == Kind::Request || is_answer) {
            let call = self.call(row);
            match is_answer {
                false => call.figures.calls += 1,
                true => call.answered(row),
            }
            if let Some(latency) = row.latency.filter(|_| is_answer) {
                // All latencies below 2 µs are in the first bucket.
                let power = (latency.max(0) / 1_000).checked_ilog2().unwrap_or(0) as usize;
                let last = self.histogram.len() - 1;
                self.histogram[power.min(last)] += 1;
            }
        }
    }

    /// The call that a message counts for. A response has the method and the tool of its request.
    fn call(&mut self, row: &MessageRow) -> &mut CallCounter {
        let method = row.method.as_deref().unwrap_or("no method");
        let name = match &row.subject {
            Some(tool) if method == "tools/call" => format!("{method} {tool}"),
            _ => method.to_owned(),
        };
        let is_counted_alone = self.calls.len() < NAMES || self.calls.contains_key(&name);
        let name = if is_counted_alone { name } else { "others".to_owned() };
        self.calls.entry(name).or_insert_with_key(|name| CallCounter {
            figures: CallFigures { name: name.clone(), ..CallFigures::default() },
            ..CallCounter::default()
        })
    }

    /// Messages in each part of this length.
    fn rate(&self, part: i64) -> Vec<u64> {
        let mut rate = vec![0; PARTS];
        for (at, count) in self.counters.iter().enumerate() {
            let middle = (at as i64).saturating_mul(self.length).saturating_add(self.length / 2);
            rate[((middle / part) as usize).min(PARTS - 1)] += count;
        }
        rate
    }
}

impl CallCounter {
    /// Counts an answered request.
    fn answered(&mut self, row: &MessageRow) {
        let call = &mut self.figures;
        call.settled += 1;
        call.errors += u64::from(row.status == Some(Status::Error));
        call.tool_errors += u64::from(row.status == Some(Status::ToolError));
        call.negatives += u64::from(row.status == Some(Status::Negative));
        if let Some(latency) = row.latency.map(|latency| latency.max(0)) {
            call.total = call.total.saturating_add(latency);
            let [least, most] = call.extremes.get_or_insert([latency; 2]);
            (*least, *most) = ((*least).min(latency), (*most).max(latency));
            self.latencies.add(latency);
        }
    }
}

fn figures_of(call: &mut CallCounter) -> CallFigures {
    let percentiles = [50, 95, 99].map(|percent| call.latencies.percentile(percent).unwrap_or_default());
    CallFigures { percentiles, parts: call.shares.medians(), ..call.figures.clone() }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::mcp::Outcomes;
    use crate::store::DatabaseFile;
    use crate::tui::import::{Decoding, Import};

    fn captures(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                found.extend(captures(&path));
            } else if path.extension().is_some_and(|extension| extension == "pcap" || extension == "pcapng") {
                found.push(path);
            }
        }
        found
    }

    /// The outcomes that the figures of a session add up to.
    fn outcomes(figures: &Statistics) -> Outcomes {
        figures.calls.iter().fold(Outcomes::default(), |mut sum, call| {
            sum.add(&Outcomes {
                ok: call.settled - call.errors - call.tool_errors - call.cancelled,
                tool_errors: call.tool_errors,
                errors: call.errors,
                cancelled: call.cancelled,
                unanswered: call.calls - call.settled,
            });
            sum
        })
    }

    /// The figures of the calls are those of the session's record, which all other views show.
    #[test]
    fn every_request_counts_as_in_other_views() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut compared = 0;
        for path in ["samples", "tests/captures", "tests/cases"].iter().flat_map(|folder| captures(&root.join(folder)))
        {
            let place = DatabaseFile::temporary().expect("a place");
            let Ok(import) = Import::new(std::slice::from_ref(&path), place.clone(), Decoding::default()) else {
                continue;
            };
            import.run(&mut |_| {}, &AtomicBool::new(false));
            let reader = StoreReader::open(place).expect("a store");
            // Requests of the server are counted apart, but the figures have them by their methods.
            for session in reader.all_sessions().map(|session| session.expect("a session")) {
                let mut figures = Figures::new(session.number);
                let mut read = figures.read(&reader).expect("figures");
                while read.counted < read.messages {
                    read = figures.read(&reader).expect("figures");
                }
                if session.server_requests == 0 {
                    assert_eq!(outcomes(&read), session.outcomes, "{} {}", path.display(), session.number.0);
                    compared += 1;
                }
            }
        }
        assert!(compared > 40, "{compared} sessions");
    }
}
