//! Capture files into a temporary store, while the screen already shows what is there.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::data::Progress;
use crate::capture::Packet;
use crate::engine::saver::{Saver, now};
use crate::engine::{self, Listener};
use crate::event::{Detail, Event};
use crate::pipeline::{self, Pipeline};
use crate::source::file::Files;
use crate::source::keylog::WithKeyLog;
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, Summary, WriteOptions, Writer};

/// What is read is shown so often.
const SHOWN: Duration = Duration::from_millis(100);

/// How captures are decoded.
#[derive(Clone, Debug, Default)]
pub struct Decoding {
    /// TLS secrets.
    pub key_log: Option<PathBuf>,
    /// Show secrets as they were sent.
    pub keep_secrets: bool,
}

/// An import that was not begun: its capture is in the store already, so readers find it.
pub struct Import {
    source: WithKeyLog<Files>,
    writer: Writer,
    decoding: Decoding,
}

impl Import {
    /// Opens the files, and a store at `place`.
    ///
    /// # Errors
    /// A file that cannot be opened; a store that cannot be created.
    pub fn new(files: &[PathBuf], place: DatabaseFile, decoding: Decoding) -> Result<Import> {
        let source = WithKeyLog::new(Files::open(files, false)?, decoding.key_log.as_deref(), false)?;
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let info = CaptureInfo {
            kind: CaptureKind::Import,
            source: names.join(" "),
            process: std::process::id(),
            started: now(),
        };
        let options = WriteOptions { keep_secrets: decoding.keep_secrets, ..WriteOptions::default() };
        Ok(Import { source, writer: Writer::create(place, &info, options)?, decoding })
    }

    /// Reads everything. `progress` is told how far it is, at last that it is done or why it stopped.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) {
        let options = pipeline::Options {
            detail: Detail::Store,
            keep_secrets: self.decoding.keep_secrets,
            ..pipeline::Options::default()
        };
        let mut pipeline = Pipeline::new(options);
        let saver = Saver::new(self.writer, false);
        let mut recorder = Recorder { saver, progress, shown: Instant::now() };
        let read = engine::run(&mut self.source, &mut pipeline, &mut recorder, stop);
        let skipped = pipeline.counts().skipped.iter().map(|(reason, count)| ((*reason).to_owned(), *count));
        let summary = Summary { ended: now(), skipped: skipped.collect(), damage: Vec::new() };
        let Recorder { saver, progress, .. } = recorder;
        let saved = saver.finish(summary);
        progress(match read.and(saved.map(drop)) {
            Ok(()) => Progress::Done,
            Err(error) => Progress::Failed(format!("{error:#}")),
        });
    }
}

/// Saves, and tells how far it is.
struct Recorder<'p> {
    saver: Saver,
    progress: &'p mut dyn FnMut(Progress),
    shown: Instant,
}

impl Listener for Recorder<'_> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.saver.packet(packet)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.saver.event(event)
    }

    fn settled(&mut self) -> Result<()> {
        self.saver.settled()
    }

    fn idle(&mut self) -> Result<()> {
        self.saver.idle()
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        if self.shown.elapsed() >= SHOWN {
            self.shown = Instant::now();
            // Somebody is looking: what there is shall be written. Where it cannot be, the end tells.
            let _ = self.saver.idle();
            (self.progress)(Progress::Reading(read, total));
        }
    }
}
