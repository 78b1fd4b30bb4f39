//! Rows from a database: what it has gained since the last time.
//!
//! The dataset holds how far each database was exported (`_mcptap/exported-HOST-HASH.json`). The
//! note is written after the rows. Rows that were written without it are found by their keys.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::collector::Collector;
use super::file_name::host_part;
use super::keys;
use super::storage::{self, Storage};
use super::write::Dataset;
use crate::capture::Time;
use crate::decode::exchange::ExchangeNumber;
use crate::event::Event;
use crate::export::parquet::Place;
use crate::mcp::{Message, Session, SessionNumber};
use crate::source::host;
use crate::store::{Capture, CaptureId, CaptureKind, Page, RowKey, Scope, StoreReader};

/// Messages and exchanges that are read again in the next round: those of the last packets, so that
/// equal places are numbered alike.
const AGAIN: u64 = 1_024;

/// Messages younger than this wait for the next round. A handshake takes less, and names the server
/// for the messages before its answer.
const SETTLING: i64 = 30_000_000_000;

/// Messages read at once.
const PAGE: usize = 1_000;

/// How far the captures of a database were exported, by their number and start.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Exported(BTreeMap<String, ExportedUntil>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct ExportedUntil {
    /// The last message.
    message: u64,
    /// The first finding that is missing.
    finding: u64,
    /// The first exchange that was not complete.
    exchange: u64,
    /// The capture ended, and all of it was exported.
    whole: bool,
}

/// Exports databases to a dataset.
pub struct Exporter {
    /// The place of the dataset.
    pub to: String,
    /// The capture point, if the user named it.
    pub host: Option<String>,
    /// The name of the capture, if the user gave one.
    pub capture: Option<String>,
    /// Whether payloads are written.
    pub has_text: bool,
}

impl Exporter {
    /// The capture point of a capture. A recording was made on this machine. A file says where it
    /// was captured only by its folder.
    fn host(&self, capture: &Capture) -> Option<String> {
        self.host.clone().or_else(|| match capture.info.kind {
            CaptureKind::Import => host::named(Path::new(capture.info.source.split(' ').next()?)),
            _ => host::local(),
        })
    }

    /// Writes what the database has gained. `now` is the system's time. With `is_last`, also
    /// messages of the last seconds.
    pub fn export(&self, reader: &StoreReader, now: Time, is_last: bool) -> Result<Dataset> {
        let mut dataset = Dataset::new(storage::open(&self.to)?);
        let path = std::fs::canonicalize(reader.place().path()).unwrap_or_else(|_| reader.place().path().to_owned());
        let hash = keys::key(&[path.as_os_str().as_encoded_bytes()]);
        let note = format!("{}exported-{}-{hash}.json", storage::OWN, host_part(host::local().as_deref()));
        let before = read_note(dataset.storage(), &note)?;
        let mut exported = Exported::default();
        let mut captures = reader.captures(Page::first(10_000))?;
        while let Some(last) = captures.last().map(|capture| capture.id) {
            for capture in &captures {
                let name = format!("{}-{}", capture.id.0, capture.info.started.0);
                let mut progress = before.0.get(&name).copied().unwrap_or_default();
                // A recording that waited in a file beside the database can come later.
                let next = RowKey::new(capture.id, progress.message).next();
                let has_more = || {
                    reader.message_rows(Scope::Capture(capture.id), Page::from(next, 1)).map(|rows| !rows.is_empty())
                };
                if !progress.whole || has_more()? {
                    let until = if is_last || !capture.is_live(now) { i64::MAX } else { now.0 - SETTLING };
                    dataset = self.capture(dataset, reader, capture, &mut progress, until)?;
                    progress.whole = capture.summary.is_some() || !capture.is_live(now);
                }
                exported.0.insert(name, progress);
            }
            captures = reader.captures(Page::from(CaptureId(last.0 + 1), 10_000))?;
        }
        if exported != before {
            write_note(dataset.storage(), &note, &exported)?;
        }
        Ok(dataset)
    }

    fn place(&self, capture: &Capture) -> Place {
        let source = self.capture.clone().unwrap_or_else(|| match capture.info.kind {
            CaptureKind::Import => file_names(&capture.info.source),
            _ => capture.info.source.clone(),
        });
        let host = self.host(capture);
        let run = run_number(host.as_deref(), &source, capture.info.started);
        Place { host, capture: source, run }
    }

    fn capture(
        &self,
        dataset: Dataset,
        reader: &StoreReader,
        capture: &Capture,
        progress: &mut ExportedUntil,
        until: i64,
    ) -> Result<Dataset> {
        let mut feed = Feed::new(reader, capture.id, Collector::new(dataset, self.place(capture), self.has_text));
        let from = progress.message.saturating_sub(AGAIN);
        let mut findings = reader.findings_from(Scope::Capture(capture.id), progress.finding).peekable();
        let mut next = RowKey::new(capture.id, from + 1);
        'all: loop {
            let page = reader.messages(Scope::Capture(capture.id), Page::from(next, PAGE))?;
            if page.is_empty() {
                break;
            }
            for message in page {
                if message.time.0 > until {
                    break 'all;
                }
                let number = message.number;
                next = RowKey::new(capture.id, number.0).next();
                feed.message(message)?;
                progress.message = progress.message.max(number.0);
                while let Some(finding) = findings
                    .next_if(|row| row.as_ref().is_ok_and(|row| row.messages.iter().all(|about| *about <= number)))
                {
                    progress.finding = feed.finding(finding?)?;
                }
            }
        }
        if until == i64::MAX {
            for finding in findings {
                progress.finding = feed.finding(finding?)?;
            }
            // Sessions whose messages were written before can have ended meanwhile, and some have
            // no message.
            for session in reader.sessions_of(capture.id)? {
                feed.session(session, None)?;
            }
        }
        // At the end also those of sessions without new messages.
        let is_end = until == i64::MAX;
        let from = if is_end { 0 } else { progress.exchange.saturating_sub(AGAIN) };
        progress.exchange = feed.exchanges(from, is_end)?;
        feed.collector.finish()
    }
}

/// Writes sessions of a database, all of them or one. No note is kept.
pub fn export_sessions(exporter: &Exporter, reader: &StoreReader, sessions: &[Session]) -> Result<Dataset> {
    let mut dataset = Dataset::new(storage::open(&exporter.to)?);
    for session in sessions {
        let Some(id) = reader.capture_of(session.number)? else { continue };
        let Some(capture) = reader.capture(id)? else { continue };
        let place = exporter.place(&capture);
        let mut feed = Feed::new(reader, id, Collector::new(dataset, place, exporter.has_text));
        let mut findings = reader.all_findings(Scope::Session(session.number)).peekable();
        for message in reader.numbered_messages(session.number)? {
            let message = message?;
            let number = message.number;
            feed.message(message)?;
            while let Some(finding) =
                findings.next_if(|row| row.as_ref().is_ok_and(|row| row.messages.iter().all(|about| *about <= number)))
            {
                feed.finding(finding?)?;
            }
        }
        for finding in findings {
            feed.finding(finding?)?;
        }
        feed.session(session.number, None)?;
        feed.exchanges(0, true)?;
        dataset = feed.collector.finish()?;
    }
    Ok(dataset)
}

/// The number of a run: it is the same whenever the same recording is exported.
pub fn run_number(host: Option<&str>, capture: &str, started: Time) -> i64 {
    let key = keys::key(&[host.unwrap_or_default().as_bytes(), capture.as_bytes(), &started.0.to_le_bytes()]);
    (key.0 >> 1) as i64
}

/// The names of files without their folders.
pub fn file_names(paths: &str) -> String {
    paths.split(' ').map(|path| path.rsplit('/').next().unwrap_or(path)).collect::<Vec<_>>().join(" ")
}

/// Feeds a collector from a database.
struct Feed<'r> {
    reader: &'r StoreReader,
    capture: CaptureId,
    collector: Collector,
    introduced: HashSet<SessionNumber>,
}

impl<'r> Feed<'r> {
    fn new(reader: &'r StoreReader, capture: CaptureId, collector: Collector) -> Feed<'r> {
        Feed { reader, capture, collector, introduced: HashSet::new() }
    }

    fn message(&mut self, message: Message) -> Result<()> {
        self.connect(&message)?;
        self.session(message.session, Some(&message))?;
        self.collector.take(Event::Message(Box::new(message)))
    }

    /// Makes the connection of a message known.
    fn connect(&mut self, message: &Message) -> Result<()> {
        if self.collector.knows(message) {
            return Ok(());
        }
        let Some(stream) = self.reader.stream(self.capture, message.span.stream)? else { return Ok(()) };
        if let Some(connection) = self.reader.connection(self.capture, stream.connection)? {
            self.collector.take(Event::Connection(Box::new(connection)))?;
        }
        self.collector.take(Event::Stream(stream))
    }

    fn session(&mut self, number: SessionNumber, current: Option<&Message>) -> Result<()> {
        if !self.introduced.insert(number) {
            return Ok(());
        }
        let Some(session) = self.reader.session(number)? else { return Ok(()) };
        let first = match (self.reader.number_range(number)?, current) {
            (Some((first, _)), Some(message)) if first.number() == message.number.0 => Some(message.clone()),
            (Some((first, _)), _) => self.reader.message(first)?,
            (None, _) => None,
        };
        match first {
            Some(first) => {
                self.connect(&first)?;
                self.collector.introduce(session, &first);
            }
            None => self.collector.take(Event::Session(Box::new(session)))?,
        }
        Ok(())
    }

    /// Takes a finding. Returns the number from which to go on.
    fn finding(&mut self, row: crate::store::FindingRow) -> Result<u64> {
        let next = row.number + 1;
        if let Some(session) = row.session {
            self.session(session, None)?;
        }
        if let Some(finding) = row.finding() {
            self.collector.take(Event::Finding(Box::new(finding)))?;
        }
        Ok(next)
    }

    /// Takes the exchanges of the sessions that were introduced: those that are complete, or all.
    /// Returns the number of the first one that is missing.
    fn exchanges(&mut self, from: u64, all: bool) -> Result<u64> {
        let (mut open, mut last) = (None::<u64>, from);
        let mut sessions: Vec<SessionNumber> = self.introduced.iter().copied().collect();
        sessions.sort_unstable();
        for session in sessions {
            let mut next = ExchangeNumber(from);
            loop {
                let page = self.reader.exchanges(session, Page::from(next, PAGE))?;
                let Some(end) = page.last().map(|exchange| exchange.number.0) else { break };
                next = ExchangeNumber(end + 1);
                last = last.max(end + 1);
                for exchange in page {
                    if !all && !exchange.response.complete {
                        open = Some(open.map_or(exchange.number.0, |open| open.min(exchange.number.0)));
                        continue;
                    }
                    if let Some(connection) = self.reader.connection(self.capture, exchange.connection)? {
                        self.collector.take(Event::Connection(Box::new(connection)))?;
                    }
                    self.collector.take(Event::Belongs(exchange.number, session))?;
                    self.collector.take(Event::Exchange(Box::new(exchange)))?;
                }
            }
        }
        Ok(open.unwrap_or(last))
    }
}

fn read_note(storage: &dyn Storage, name: &str) -> Result<Exported> {
    let Some(mut file) = storage.open(name)? else { return Ok(Exported::default()) };
    let mut text = String::new();
    file.read_to_string(&mut text).with_context(|| format!("cannot read {}/{name}", storage.name()))?;
    // A note of another version is as good as none: rows that are there are found by their keys.
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn write_note(storage: &dyn Storage, name: &str, exported: &Exported) -> Result<()> {
    let mut file = storage.create()?;
    file.write_all(&serde_json::to_vec(exported)?).with_context(|| format!("cannot write {name}"))?;
    storage.publish(name, file)
}
