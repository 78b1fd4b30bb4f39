//! What a replay says and hears, on its way to a store: a source of packets, the one pipeline, a writer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::engine::saver::{self, Recorder};
use crate::engine::{self, Both, Listener};
use crate::event::{Detail, Event};
use crate::mcp::SessionNumber;
use crate::pipeline::{Options, Pipeline};
use crate::source::Source;
use crate::store::{
    self, CaptureId, CaptureInfo, CaptureKind, DatabaseFile, Page, Scope, Selection, StoreReader, StoredPackets,
    Summary, Writer,
};

/// A recorder on a thread of its own.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<Result<Numbers>>,
    place: DatabaseFile,
    id: CaptureId,
}

impl Capture {
    /// Begins to record `source` until it ends. `what` is said of it in lists.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn start(
        source: impl Source + Send + 'static,
        place: &DatabaseFile,
        kind: CaptureKind,
        what: &str,
    ) -> Result<Capture> {
        let info = CaptureInfo { kind, source: what.to_owned(), process: std::process::id(), started: saver::now() };
        let writer = Writer::create(place.clone(), &info, store::WriteOptions::default())?;
        let id = writer.capture();
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || record(source, writer));
        Ok(Capture { thread: thread.context("cannot start a thread")?, place: place.clone(), id })
    }

    /// Waits until all is written. The source has to have ended.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn finish(self) -> Result<Recorded> {
        let numbers = self.thread.join().unwrap_or_else(|_| Err(anyhow!("the recorder ended")))?;
        Ok(Recorded { numbers, place: self.place, id: self.id })
    }
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    numbers: Numbers,
    place: DatabaseFile,
    id: CaptureId,
}

impl Recorded {
    /// The number of the client's request that was sent with this id.
    pub fn request(&self, id: u64) -> Option<u64> {
        self.numbers.0.get(usize::try_from(id).ok()?).copied().filter(|number| *number > 0)
    }

    /// The session that it is; `None` where nothing was said.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn session(&self) -> Result<Option<SessionNumber>> {
        session_of(&self.place, self.id)
    }

    /// Saves it in another place as well, under the numbers that it has, and says which session it is there; `None` where nothing was said.
    ///
    /// # Errors
    /// It cannot be read, or the other place not be written.
    pub fn save(&self, place: &DatabaseFile) -> Result<Option<SessionNumber>> {
        let capture =
            StoreReader::open(self.place.clone())?.capture(self.id)?.context("the replay is no longer there")?;
        let writer = Writer::create(place.clone(), &capture.info, store::WriteOptions::default())?;
        let id = writer.capture();
        // What was decoded once is decoded again: the same packets give the same messages.
        record(StoredPackets::open(self.place.clone(), Selection::Capture(self.id))?, writer)?;
        session_of(place, id)
    }
}

/// The session of a capture: the last one. A `server/discover` that was refused over HTTP is one of its own before it.
fn session_of(place: &DatabaseFile, id: CaptureId) -> Result<Option<SessionNumber>> {
    let last = StoreReader::open(place.clone())?.message_rows(Scope::Capture(id), Page::last(1))?;
    Ok(last.first().map(|row| row.session))
}

/// By id of a request of the client: its number, or 0 where there is none. The ids are our own, counted from 1.
#[derive(Clone, Debug, Default)]
struct Numbers(Vec<u64>);

/// Ids beyond it are not ours.
const IDS: usize = 1 << 24;

impl Listener for Numbers {
    fn event(&mut self, event: Event) -> Result<()> {
        self.hear(&event)
    }

    fn hear(&mut self, event: &Event) -> Result<()> {
        if let Event::Message(message) = event
            && (message.direction, message.kind) == (Direction::ClientToServer, Kind::Request)
            && let Some(id) = message.id.as_deref().and_then(|id| id.parse::<usize>().ok()).filter(|id| *id < IDS)
        {
            self.0.resize(self.0.len().max(id + 1), 0);
            if self.0[id] == 0 {
                self.0[id] = message.number.0;
            }
        }
        Ok(())
    }
}

fn record(mut source: impl Source, writer: Writer) -> Result<Numbers> {
    let mut pipeline = Pipeline::new(Options { detail: Detail::Store, ..Options::default() });
    let mut recorder = Both(Numbers::default(), Recorder::new(writer));
    let stop = Arc::new(AtomicBool::new(false));
    engine::run(&mut source, &mut pipeline, &mut recorder, &stop)?;
    let skipped = pipeline.counts().skipped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    let Both(numbers, recorder) = recorder;
    recorder.finish(&Summary { ended: saver::now(), skipped, damage: Vec::new() })?;
    Ok(numbers)
}
