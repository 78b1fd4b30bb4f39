//! The list of sessions, read in slices.
//!
//! A database can have many thousand sessions. So the first answer has the sessions that are shown
//! first, and the query thread asks again until the list is complete.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::super::data::{ROWS, Rows, SessionRow};
use super::{QueryRunner, TURN};
use crate::filter::Filter;
use crate::mcp::SessionNumber;
use crate::store::{ListedSession, Page, Scope};
use crate::view::latencies::Latencies;

/// Messages up to which the latencies of a session are read for its row.
const COUNTED: u64 = 256;

/// Number of sessions that are read before the clock is looked at.
const STEP: usize = 16;

/// The sessions as they were listed last, and the list that is being read.
#[derive(Default)]
pub(super) struct SessionList {
    /// The last complete list. Its rows stand for those that are not read again yet.
    complete: Vec<SessionRow>,
    /// The rows of the list that is being read.
    reading: Option<Vec<SessionRow>>,
    /// The version of the store when the reading of the last list began.
    version: i64,
}

/// A search over all sessions, as far as it went.
pub(super) struct SessionSearch {
    text: String,
    filter: Filter,
    /// The version of the store when the search began.
    version: i64,
    found: BTreeSet<SessionNumber>,
    /// The session that was searched last.
    last: Option<SessionNumber>,
    complete: bool,
}

impl QueryRunner {
    /// Reads the next slice of the list, and returns all rows read so far.
    ///
    /// A list is incomplete as long as it is being read, and if the store has changed meanwhile.
    pub(super) fn sessions(&mut self) -> Result<Rows<SessionRow>> {
        self.sessions_within(TURN)
    }

    fn sessions_within(&mut self, turn: Duration) -> Result<Rows<SessionRow>> {
        let began = Instant::now();
        let version = self.reader.data_version()?;
        if self.sessions.reading.is_none() {
            self.sessions.version = version;
        }
        let mut read = self.sessions.reading.take().unwrap_or_default();
        loop {
            let last = read.last().map(|row: &SessionRow| row.session.number);
            let sessions = self.reader.listed_sessions(None, self.next_page(last, STEP))?;
            let is_last = sessions.len() < STEP;
            for listed in sessions {
                read.push(self.session_row(listed)?);
            }
            if is_last || read.len() >= ROWS {
                self.sessions.complete = read;
                let rows = self.sessions.complete.clone();
                return Ok(Rows { total: rows.len(), rows, complete: version == self.sessions.version });
            }
            if began.elapsed() >= turn {
                break;
            }
        }
        let mut rows = read.clone();
        let unread = self.sessions.complete.iter().skip_while(|known| !self.is_before(read.last(), known));
        rows.extend(unread.cloned());
        self.sessions.reading = Some(read);
        Ok(Rows { total: rows.len(), rows, complete: false })
    }

    /// The page that follows a row of the list.
    fn next_page(&self, last: Option<SessionNumber>, limit: usize) -> Page<SessionNumber> {
        match (self.newest_first, last.map(|number| number.0)) {
            (true, None) => Page::last(limit),
            (true, Some(last)) => Page::back_from(SessionNumber(last.saturating_sub(1)), limit),
            (false, None) => Page::first(limit),
            (false, Some(last)) => Page::from(SessionNumber(last.saturating_add(1)), limit),
        }
    }

    /// Searches the messages of further sessions. Returns the sessions found so far, and whether
    /// these are all. After a search, the sessions are searched again if the store has changed.
    /// Until then those that were found stay.
    pub(super) fn search_sessions(&mut self, text: &str) -> Result<(BTreeSet<SessionNumber>, bool)> {
        let version = self.reader.data_version()?;
        let mut search = match self.session_search.take().filter(|search| search.text == text) {
            Some(search) => search,
            None => SessionSearch {
                text: text.to_owned(),
                filter: Filter::parse(text)?,
                version,
                found: BTreeSet::new(),
                last: None,
                complete: false,
            },
        };
        if search.complete && search.version != version {
            (search.version, search.last, search.complete) = (version, None, false);
        }
        let began = Instant::now();
        while !search.complete && began.elapsed() < TURN {
            // A page of matches can need a search of all sessions, so each is searched alone.
            let next = self.reader.sessions(self.next_page(search.last, 1))?.pop();
            // A damaged number at the end of its range leads to itself.
            let Some(next) = next.filter(|next| search.last != Some(next.number)) else {
                search.complete = true;
                break;
            };
            match self.reader.matching(&search.filter, Scope::Session(next.number), Page::first(1))?.is_empty() {
                true => search.found.remove(&next.number),
                false => search.found.insert(next.number),
            };
            search.last = Some(next.number);
        }
        let answer = (search.found.clone(), search.complete && search.version == version);
        self.session_search = Some(search);
        Ok(answer)
    }

    /// Whether the first row is listed before the second one.
    fn is_before(&self, first: Option<&SessionRow>, second: &SessionRow) -> bool {
        first.is_none_or(|first| match self.newest_first {
            true => first.session.number > second.session.number,
            false => first.session.number < second.session.number,
        })
    }

    /// The figures of a short session are exact, as in other views. Those of a long one come from
    /// the histogram that its writer stored.
    fn session_row(&self, listed: ListedSession) -> Result<SessionRow> {
        let session = &listed.session;
        let latency = if session.messages > COUNTED {
            listed.latency
        } else {
            let rows = self.reader.message_rows_at(session.number, 1, COUNTED as usize)?;
            let answered = rows.iter().filter(|row| row.answers.is_some());
            let mut latencies: Latencies = answered.filter_map(|row| row.latency).collect();
            latencies.percentile(50).zip(latencies.percentile(95))
        };
        Ok(SessionRow { latency, live: listed.is_live(self.now), listed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Time;
    use crate::event::Event;
    use crate::mcp::{Peers, Session, Transport};
    use crate::store::{CaptureInfo, CaptureKind, StoreReader, Summary, WriteOptions, Writer};

    /// Writes a capture with sessions.
    fn record(path: &std::path::Path, sessions: u32) {
        let info = CaptureInfo::begun(CaptureKind::Import, "trace".into());
        let mut writer = Writer::create(path, &info, WriteOptions::default()).expect("a writer");
        for number in 1..=sessions {
            let peers = Peers::Process { process: number, command: Vec::new() };
            let session = Session::opened(SessionNumber(number), Transport::Stdio, peers, Time(1));
            writer.event(Event::Session(Box::new(session)));
        }
        writer.finish(&Summary::default()).expect("the capture ends");
    }

    /// The numbers of the sessions of each answer until the list is complete.
    fn answers(runner: &mut QueryRunner) -> Vec<Vec<u32>> {
        let mut answers = Vec::new();
        loop {
            let list = runner.sessions_within(Duration::ZERO).expect("a list");
            answers.push(list.rows.iter().map(|row| row.session.number.0).collect());
            if list.complete {
                return answers;
            }
        }
    }

    #[test]
    fn a_long_list_grows_slice_by_slice() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sessions.db");
        record(&path, 100);
        for newest_first in [true, false] {
            let open = || StoreReader::open(&*path).expect("a store");
            let mut runner = QueryRunner::new(open(), newest_first);
            let mut all: Vec<u32> = open().all_sessions().map(|session| session.expect("a session").number.0).collect();
            if newest_first {
                all.reverse();
            }
            let first = answers(&mut runner);
            assert!(first.len() > 5, "{} answers", first.len());
            assert!(first.iter().all(|answer| all.starts_with(answer)), "each answer is a beginning of the list");
            assert_eq!(first.last(), Some(&all));
            // The rows of the last list stand for those that are not read again yet.
            assert!(answers(&mut runner).iter().all(|answer| *answer == all));
            record(&path, 3);
            let longer = answers(&mut runner);
            assert!(longer.iter().all(|answer| answer.len() >= all.len()));
            assert_eq!(longer.last().map(Vec::len), Some(all.len() + 3));
        }
    }
}
