//! The thread that answers: the drawing thread never waits for the store.
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
use crate::store::{DatabaseFile, StoreReader};

/// How often the store is asked whether anybody wrote: soon enough for eyes.
const POLL: Duration = Duration::from_millis(100);

/// So often a new database is tried to be opened before somebody hears that it cannot be.
const PATIENCE: u32 = 20;

/// What is read.
pub enum Store {
    /// A store.
    Open(Box<Library>),
    /// A database that nobody has recorded into yet.
    Awaited(DatabaseFile),
}

/// Answers until nobody asks any more.
pub fn run(store: Store, inbox: &Receiver<Request>, out: &Sender<Input>) {
    let library = match store {
        Store::Open(library) => Some(*library),
        Store::Awaited(place) => wait_for(&place, inbox, out),
    };
    if let Some(library) = library {
        answer(library, inbox, out);
    }
}

/// The database, once somebody has begun to record into it; until then there are no sessions. `None`: nobody asks any more.
fn wait_for(place: &DatabaseFile, inbox: &Receiver<Request>, out: &Sender<Input>) -> Option<Library> {
    let mut failed = 0;
    loop {
        let answer = match inbox.recv_timeout(POLL) {
            Ok(request @ Request::Sessions) => Input::Answer(request, Answer::Sessions(Vec::new())),
            Ok(request) => Input::Answer(request, Answer::Unplaced(Vec::new())),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if !place.path().exists() => continue,
            Err(RecvTimeoutError::Timeout) => match StoreReader::open(place.clone()) {
                Ok(reader) => {
                    out.send(Input::Changed).ok()?;
                    return Some(Library::new(reader, true));
                }
                // Whoever makes it may be at it just now.
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

/// Answers from a library.
fn answer(mut library: Library, inbox: &Receiver<Request>, out: &Sender<Input>) {
    let mut asked: Vec<Request> = Vec::new();
    // The page in view while a filter is at work, or figures and steps that are counted slice by slice.
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
        // What a key made be asked is answered before what is found again each second, also if it came meanwhile.
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

/// The question to be answered next.
fn next(asked: &mut Vec<Request>, inbox: &Receiver<Request>) -> Option<Request> {
    asked.extend(inbox.try_iter());
    newest_only(asked);
    let quick = asked.iter().position(Request::is_urgent).unwrap_or(0);
    (!asked.is_empty()).then(|| asked.remove(quick))
}

/// Whether asking again at once tells more.
fn is_unfinished(answer: &Answer) -> bool {
    match answer {
        Answer::Statistics(figures) => figures.counted < figures.messages,
        Answer::Steps(page) => !page.complete,
        _ => false,
    }
}

/// Of details that were asked for one after the other, while a key was held down, only the last is still in view.
fn newest_only(asked: &mut Vec<Request>) {
    let last = asked.iter().rposition(|request| matches!(request, Request::Detail(..)));
    let mut at = 0;
    asked.retain(|request| {
        at += 1;
        !matches!(request, Request::Detail(..)) || Some(at - 1) == last
    });
}
