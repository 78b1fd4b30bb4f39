//! Records the traffic of a replay: from a source of packets through the pipeline into a store.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::engine::saver::{self, DirectSaver};
use crate::engine::{self, Both, Listener};
use crate::event::{Detail, Event};
use crate::mcp::SessionNumber;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::source::Source;
use crate::store::{
    self, CaptureId, CaptureInfo, CaptureKind, DatabaseFile, Page, Scope, Selection, StoreReader, StoredPackets, Writer,
};
use crate::view::secrets;

/// A recorder on a thread of its own.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<Result<RequestNumbers>>,
    place: DatabaseFile,
    id: CaptureId,
}

impl Capture {
    /// Starts recording `source` until it ends. `replay_of` is the session that is sent again, if
    /// `place` contains it. `description` describes the source in lists of captures.
    pub fn start(
        source: impl Source + Send + 'static,
        place: &DatabaseFile,
        replay_of: Option<SessionNumber>,
        description: &str,
    ) -> Result<Capture> {
        let info = CaptureInfo { replay_of, ..CaptureInfo::begun(CaptureKind::Replay, description.to_owned()) };
        let writer = Writer::create(place.clone(), &info, options())?;
        let id = writer.capture();
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || record(source, writer));
        Ok(Capture { thread: thread.context("cannot start a thread")?, place: place.clone(), id })
    }

    /// Waits until everything is written. The source must have ended.
    pub fn finish(self) -> Result<Recorded> {
        let numbers = self.thread.join().unwrap_or_else(|_| Err(anyhow!("the recorder failed")))?;
        Ok(Recorded { numbers, place: self.place, id: self.id })
    }
}

/// The recorded traffic of a replay.
#[derive(Clone, Debug)]
pub struct Recorded {
    numbers: RequestNumbers,
    place: DatabaseFile,
    id: CaptureId,
}

impl Recorded {
    /// The message number of the client's request with this id.
    pub fn request(&self, id: u64) -> Option<u64> {
        self.numbers.0.get(usize::try_from(id).ok()?).copied().filter(|number| *number > 0)
    }

    /// The session number of the replay. `None` if no message was recorded.
    pub fn session(&self) -> Result<Option<SessionNumber>> {
        session_of(&self.place, self.id)
    }

    /// Copies the traffic to another store, with the same message numbers. Returns its session
    /// there, or `None` if no message was recorded. `replay_of` is the session that was sent again,
    /// if that store contains it.
    pub fn save(&self, place: &DatabaseFile, replay_of: Option<SessionNumber>) -> Result<Option<SessionNumber>> {
        let capture =
            StoreReader::open(self.place.clone())?.capture(self.id)?.context("the replay is no longer in the store")?;
        let info = CaptureInfo { replay_of, ..capture.info };
        let writer = Writer::create(place.clone(), &info, options())?;
        let id = writer.capture();
        // The packets are decoded again, which gives the same messages.
        record(StoredPackets::open(self.place.clone(), Selection::Capture(self.id))?, writer)?;
        session_of(place, id)
    }
}

fn options() -> store::WriteOptions {
    store::WriteOptions { mask_key: secrets::key(), ..store::WriteOptions::default() }
}

/// The last session of a capture. A `server/discover` that was refused over HTTP forms a session of
/// its own before it.
fn session_of(place: &DatabaseFile, id: CaptureId) -> Result<Option<SessionNumber>> {
    let last = StoreReader::open(place.clone())?.message_rows(Scope::Capture(id), Page::last(1))?;
    Ok(last.first().map(|row| row.session))
}

/// The message number of each request of the client, by id; 0 where there is none. The replay
/// assigns the ids, counting from 1.
#[derive(Clone, Debug, Default)]
struct RequestNumbers(Vec<u64>);

/// No replay assigns ids beyond this. It limits the memory for ids of other origin.
const MAX_ID: usize = 1 << 24;

impl Listener for RequestNumbers {
    fn event(&mut self, event: Event) -> Result<()> {
        self.event_ref(&event)
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        if let Event::Message(message) = event
            && (message.direction, message.kind) == (Direction::ClientToServer, Kind::Request)
            && let Some(id) = message.id.as_deref().and_then(|id| id.parse::<usize>().ok()).filter(|id| *id < MAX_ID)
        {
            self.0.resize(self.0.len().max(id + 1), 0);
            if self.0[id] == 0 {
                self.0[id] = message.number.0;
            }
        }
        Ok(())
    }
}

fn record(mut source: impl Source, writer: Writer) -> Result<RequestNumbers> {
    let mut pipeline =
        Pipeline::new(PipelineConfig { detail: Detail::Store, mask_key: secrets::key(), ..PipelineConfig::default() });
    let mut recorder = Both(RequestNumbers::default(), DirectSaver::new(writer));
    let stop = Arc::new(AtomicBool::new(false));
    engine::run(&mut source, &mut pipeline, &mut recorder, &stop)?;
    let Both(numbers, recorder) = recorder;
    recorder.finish(&saver::summary(&pipeline.counts()))?;
    Ok(numbers)
}
