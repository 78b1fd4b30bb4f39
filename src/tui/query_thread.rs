//! The query thread: the drawing thread never waits for the store.
//!
//! ```text
//!  drawing ─ Effect::Query ─► inbox ─► QueryRunner::answer ─► Input::Answer ─► drawing
//!                                      │
//!                                      └─ every 100 ms: store changed? ─► Input::StoreChanged
//! ```

use std::mem::discriminant;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::app::Input;
use super::data::{Answer, Query, Rows};
use super::query_runner::{QueryRunner, TURN};
use crate::engine::saver::now;
use crate::store::{DatabaseFile, StoreReader};

/// Interval at which the store is checked for changes.
const POLL: Duration = Duration::from_millis(100);

/// Number of attempts to open a new database before an error is shown.
const PATIENCE: u32 = 20;

/// The store to query.
pub enum StoreState {
    Open(Box<QueryRunner>),
    /// A database that does not exist yet.
    Awaited(DatabaseFile),
}

/// Answers queries until the sender is gone.
pub fn run(store: StoreState, inbox: &Receiver<Query>, out: &Sender<Input>) {
    let query_runner = match store {
        StoreState::Open(query_runner) => Some(*query_runner),
        StoreState::Awaited(place) => wait_for(&place, inbox, out),
    };
    if let Some(query_runner) = query_runner {
        answer(query_runner, inbox, out);
    }
}

/// Waits until somebody creates the database; meanwhile there are no sessions. `None`: the sender
/// of queries is gone.
fn wait_for(place: &DatabaseFile, inbox: &Receiver<Query>, out: &Sender<Input>) -> Option<QueryRunner> {
    let mut failed = 0;
    loop {
        let answer = match inbox.recv_timeout(POLL) {
            Ok(query @ Query::Sessions) => {
                Input::Answer(query, Answer::Sessions(Rows { rows: Vec::new(), total: 0, complete: true }))
            }
            Ok(query) => Input::Answer(query, Answer::Unplaced(Vec::new())),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if !place.path().exists() => continue,
            Err(RecvTimeoutError::Timeout) => match StoreReader::open(place.clone()) {
                Ok(reader) => {
                    out.send(Input::StoreChanged).ok()?;
                    return Some(QueryRunner::new(reader, true));
                }
                // The process that creates it may not be done.
                Err(_) if failed < PATIENCE => {
                    failed += 1;
                    continue;
                }
                Err(error) => Input::Answer(Query::Sessions, Answer::Failed(format!("{error:#}"))),
            },
        };
        out.send(answer).ok()?;
    }
}

/// Answers queries from an open store, until the other end of a channel is gone.
fn answer(mut query_runner: QueryRunner, inbox: &Receiver<Query>, out: &Sender<Input>) -> Option<()> {
    let mut pending: Vec<Query> = Vec::new();
    // The query of the visible page while a filter searches, and those of sessions, statistics or
    // steps while they are read slice by slice.
    let mut searching: Option<Query> = None;
    let mut unfinished: Vec<Query> = Vec::new();
    loop {
        query_runner.set_now(now());
        let wait = if searching.is_some() || !unfinished.is_empty() { Duration::ZERO } else { POLL };
        match inbox.recv_timeout(wait) {
            Ok(query) => {
                pending.push(query);
                pending.extend(inbox.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        // Queries caused by keys are answered before periodic ones, even if they arrive later.
        while let Some(query) = next(&mut pending, inbox) {
            let answer = query_runner.answer(&query);
            if let (Query::Messages(list, _), Answer::Messages(page)) = (&query, &answer)
                && !list.filter.is_empty()
            {
                searching = (!page.complete).then(|| query.clone());
            }
            remember(&mut unfinished, &query, &answer);
            out.send(Input::Answer(query, answer)).ok()?;
        }
        for query in unfinished.clone() {
            let answer = query_runner.answer(&query);
            remember(&mut unfinished, &query, &answer);
            out.send(Input::Answer(query, answer)).ok()?;
        }
        if let Some(query) = searching.take() {
            let began = Instant::now();
            let more =
                std::iter::from_fn(|| query_runner.search_on().then(|| began.elapsed())).find(|gone| *gone >= TURN);
            let answer = query_runner.answer(&query);
            let done = matches!(&answer, Answer::Messages(page) if page.complete) || more.is_none();
            out.send(Input::Answer(query.clone(), answer)).ok()?;
            searching = (!done).then_some(query);
        }
        if query_runner.has_changed() {
            query_runner.search_again();
            out.send(Input::StoreChanged).ok()?;
        }
    }
}

/// The query to answer next.
fn next(pending: &mut Vec<Query>, inbox: &Receiver<Query>) -> Option<Query> {
    pending.extend(inbox.try_iter());
    newest_only(pending);
    let quick = pending.iter().position(Query::is_urgent).unwrap_or(0);
    (!pending.is_empty()).then(|| pending.remove(quick))
}

/// Keeps the query of its kind whose answer is unfinished: an older one is no longer visible.
fn remember(unfinished: &mut Vec<Query>, query: &Query, answer: &Answer) {
    unfinished.retain(|other| discriminant(other) != discriminant(query));
    if is_unfinished(answer) {
        unfinished.push(query.clone());
    }
}

/// Whether the same query, sent again at once, has a more complete answer.
pub(super) fn is_unfinished(answer: &Answer) -> bool {
    match answer {
        Answer::Statistics(figures) => figures.counted < figures.messages,
        Answer::Steps(page) => !page.complete,
        Answer::Sessions(list) => !list.complete,
        Answer::SessionsFound(_, complete) => !complete,
        _ => false,
    }
}

/// Removes all queries for details but the last: while a key is held down, only the last
/// is still visible.
fn newest_only(pending: &mut Vec<Query>) {
    let last = pending.iter().rposition(|query| matches!(query, Query::Detail(..)));
    let mut at = 0;
    pending.retain(|query| {
        at += 1;
        !matches!(query, Query::Detail(..)) || Some(at - 1) == last
    });
}
