//! What a replay says and hears, on its way to a store: a source of packets, the one pipeline, a writer.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow};

use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::engine;
use crate::engine::saver::{self, Recorder};
use crate::event::Detail;
use crate::pipeline::{Options, Pipeline};
use crate::source::Source;
use crate::store::{self, CaptureId, CaptureInfo, CaptureKind, Page, Place, Reader, Scope, Summary, Writer};

/// A recorder on a thread of its own.
#[derive(Debug)]
pub struct Capture {
    thread: JoinHandle<Result<()>>,
    place: Place,
    id: CaptureId,
}

impl Capture {
    /// Begins to record `source` until it ends. `what` is said of it in lists.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn start(
        source: impl Source + Send + 'static,
        place: &Place,
        kind: CaptureKind,
        what: &str,
    ) -> Result<Capture> {
        let info = CaptureInfo { kind, source: what.to_owned(), process: std::process::id(), started: saver::now() };
        let writer = Writer::create(place.clone(), &info, store::Options::default())?;
        let id = writer.capture();
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || record(source, writer));
        Ok(Capture { thread: thread.context("cannot start a thread")?, place: place.clone(), id })
    }

    /// Waits until all is written. The source has to have ended.
    ///
    /// # Errors
    /// It could not be recorded.
    pub fn finish(self) -> Result<Recorded> {
        self.thread.join().unwrap_or_else(|_| Err(anyhow!("the recorder ended")))?;
        let reader = Reader::open(self.place)?;
        let mut requests = HashMap::new();
        let mut page = Page::first(1_000);
        loop {
            let rows = reader.message_rows(Scope::Capture(self.id), page)?;
            let Some(last) = rows.last() else { break };
            page = Page::from(last.key().next(), 1_000);
            for row in rows {
                if (row.direction, row.kind) == (Direction::ClientToServer, Kind::Request)
                    && let Some(id) = row.id
                {
                    requests.entry(id).or_insert(row.number.0);
                }
            }
        }
        Ok(Recorded { requests })
    }
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The number of the client's request of each id, as JSON text.
    pub requests: HashMap<String, u64>,
}

fn record(mut source: impl Source, writer: Writer) -> Result<()> {
    let mut pipeline = Pipeline::new(Options { detail: Detail::Store, ..Options::default() });
    let mut recorder = Recorder::new(writer);
    let stop = Arc::new(AtomicBool::new(false));
    engine::run(&mut source, &mut pipeline, &mut recorder, &stop)?;
    let skipped = pipeline.counts().skipped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    recorder.finish(&Summary { ended: saver::now(), skipped, damage: Vec::new() })
}
