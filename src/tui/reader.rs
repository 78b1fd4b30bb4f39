//! The query thread: the drawing thread never waits for the store.
//!
//! ```text
//!  drawing thread ── Ask(Request) ──►  inbox ──► Library::answer ──► Input::Answer ──► drawing thread
//!                                        │
//!                                        └ nothing asked for 100 ms: has anybody written? a filter not done? ──► Input::Changed
//! ```

use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::app::Input;
use super::data::{Answer, Request};
use super::library::{Library, TURN};
use crate::engine::saver::now;
use crate::store::{Place, Reader};

/// Interval at which the store is checked for changes.
const POLL: Duration = Duration::from_millis(100);

/// Number of attempts to open a new database before an error is shown.
const PATIENCE: u32 = 20;

/// The store to query.
pub enum Store {
    Open(Box<Library>),
    /// A database that does not exist yet.
    Awaited(Place),
}

/// Answers queries until the sender is gone.
pub fn run(store: Store, inbox: &Receiver<Request>, out: &Sender<Input>) {
    let library = match store {
        Store::Open(library) => Some(*library),
        Store::Awaited(place) => wait_for(&place, inbox, out),
    };
    if let Some(library) = library {
        answer(library, inbox, out);
    }
}

/// Waits until somebody creates the database; meanwhile there are no sessions. `None`: the sender
/// of queries is gone.
fn wait_for(place: &Place, inbox: &Receiver<Request>, out: &Sender<Input>) -> Option<Library> {
    let mut failed = 0;
    loop {
        let answer = match inbox.recv_timeout(POLL) {
            Ok(request @ Request::Sessions) => Input::Answer(request, Answer::Sessions(Vec::new())),
            Ok(request) => Input::Answer(request, Answer::Unplaced(Vec::new())),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if !place.path().exists() => continue,
            Err(RecvTimeoutError::Timeout) => match Reader::open(place.clone()) {
                Ok(reader) => {
                    out.send(Input::Changed).ok()?;
                    return Some(Library::new(reader, true));
                }
                // The process that creates it may not be done.
                Err(_) if failed < PATIENCE => {
                    failed += 1;
                    continue;
                }
                Err(error) => Input::Answer(Request::Sessions, Answer::Failed(format!("{error:#}"))),
            },
        };
        out.send(answer).ok()?;
    }
}

/// Answers queries from an open store.
fn answer(mut library: Library, inbox: &Receiver<Request>, out: &Sender<Input>) {
    let mut asked: Vec<Request> = Vec::new();
    // The query of the visible page while a filter searches, and that of statistics or steps while
    // they are counted slice by slice.
    let mut searching: Option<Request> = None;
    let mut counting: Option<Request> = None;
    loop {
        library.set_now(now());
        let wait = if searching.is_some() || counting.is_some() { Duration::ZERO } else { POLL };
        match inbox.recv_timeout(wait) {
            Ok(request) => {
                asked.push(request);
                asked.extend(inbox.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Queries caused by keys are answered before periodic ones, even if they arrive later.
        while let Some(request) = next(&mut asked, inbox) {
            let answer = library.answer(&request);
            if let (Request::Messages { filter, .. }, Answer::Messages(page)) = (&request, &answer)
                && !filter.is_empty()
            {
                searching = (!page.complete).then(|| request.clone());
            }
            if is_unfinished(&answer) {
                counting = Some(request.clone());
            }
            if out.send(Input::Answer(request, answer)).is_err() {
                return;
            }
        }
        if let Some(request) = counting.take() {
            let answer = library.answer(&request);
            counting = is_unfinished(&answer).then(|| request.clone());
            if out.send(Input::Answer(request, answer)).is_err() {
                return;
            }
        }
        if let Some(request) = searching.take() {
            let began = Instant::now();
            let more = std::iter::from_fn(|| library.search_on().then(|| began.elapsed())).find(|gone| *gone >= TURN);
            let answer = library.answer(&request);
            let done = matches!(&answer, Answer::Messages(page) if page.complete) || more.is_none();
            if out.send(Input::Answer(request.clone(), answer)).is_err() {
                return;
            }
            searching = (!done).then_some(request);
        }
        if library.has_changed() {
            library.search_again();
            if out.send(Input::Changed).is_err() {
                return;
            }
        }
    }
}

/// The query to answer next.
fn next(asked: &mut Vec<Request>, inbox: &Receiver<Request>) -> Option<Request> {
    asked.extend(inbox.try_iter());
    newest_only(asked);
    let quick = asked.iter().position(Request::is_urgent).unwrap_or(0);
    (!asked.is_empty()).then(|| asked.remove(quick))
}

/// Whether the same query, sent again at once, has a more complete answer.
fn is_unfinished(answer: &Answer) -> bool {
    match answer {
        Answer::Statistics(figures) => figures.counted < figures.messages,
        Answer::Steps(page) => !page.complete,
        _ => false,
    }
}

/// Removes all queries for details but the last: while a key is held down, only the last is still
/// visible.
fn newest_only(asked: &mut Vec<Request>) {
    let last = asked.iter().rposition(|request| matches!(request, Request::Detail(..)));
    let mut at = 0;
    asked.retain(|request| {
        at += 1;
        !matches!(request, Request::Detail(..)) || Some(at - 1) == last
    });
}
