//! Imports capture files into a temporary store. The screen already shows what is there.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::data::Progress;
use crate::capture::Packet;
use crate::engine::saver::{self, Saver};
use crate::engine::{self, Listener};
use crate::event::{Detail, Event};
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::source::file::{self, Files};
use crate::source::keylog::WithKeyLog;
use crate::store::{CaptureInfo, CaptureKind, DatabaseFile, WriteOptions, Writer, open_files, read_mcphawk};

/// Interval at which newly read messages are made visible.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of packets that belong to no MCP session which are shown too. They take less on the disk,
/// because they are compressed.
const OTHER_PACKETS: u64 = 512 << 20;

/// Options for decoding captures.
#[derive(Clone, Debug, Default)]
pub struct Decoding {
    /// File with TLS secrets.
    pub key_log: Option<PathBuf>,
    /// The number of threads that decode.
    pub threads: usize,
    /// Options of the pipeline. Everything is stored.
    pub pipeline: PipelineConfig,
    /// Options of the store. A part of the other packets is stored too.
    pub store: WriteOptions,
}

/// An import that has not started. Its capture exists in the store already, so readers find it.
pub struct Import {
    source: WithKeyLog<Files>,
    writer: Writer,
    decoding: Decoding,
}

impl Import {
    /// Opens the files, and creates a store at `place`.
    ///
    /// # Errors
    /// A file cannot be opened, or the store cannot be created.
    pub fn new(files: &[PathBuf], place: DatabaseFile, decoding: Decoding) -> Result<Import> {
        // A file that is no capture is an error before the screen is taken.
        file::examine(files, read_mcphawk)?;
        let opened = open_files(files, false)?;
        let kind = if opened.are_imports() { CaptureKind::Foreign } else { CaptureKind::Import };
        let source = WithKeyLog::new(opened, decoding.key_log.as_deref(), false)?;
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let info = CaptureInfo::begun(kind, names.join(" "));
        let options = WriteOptions { other_packets: OTHER_PACKETS, ..decoding.store };
        Ok(Import { source, writer: Writer::create(place, &info, options)?, decoding })
    }

    /// Reads everything. `progress` is called with the position, and at last with success or the
    /// reason of failure.
    pub fn run(mut self, progress: &mut dyn FnMut(Progress), stop: &AtomicBool) {
        let mut pipeline = Pipeline::new(PipelineConfig { detail: Detail::Store, ..self.decoding.pipeline });
        let saver = Saver::new(self.writer, false);
        let mut listener = ImportListener { saver, progress, reported: Instant::now() };
        let read = engine::run_on(self.decoding.threads, &mut self.source, &mut pipeline, &mut listener, stop);
        let ImportListener { saver, progress, .. } = listener;
        let saved = saver.finish(saver::summary(&pipeline.counts()));
        progress(match read.and(saved.map(drop)) {
            Ok(()) => Progress::Done,
            Err(error) => Progress::Failed(format!("{error:#}")),
        });
    }
}

/// Saves what is read and reports progress.
struct ImportListener<'p> {
    saver: Saver,
    progress: &'p mut dyn FnMut(Progress),
    reported: Instant,
}

impl Listener for ImportListener<'_> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.saver.packet(packet)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.saver.event(event)
    }

    fn after_input(&mut self) -> Result<()> {
        self.saver.after_input()
    }

    fn idle(&mut self) -> Result<()> {
        self.saver.idle()
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        if self.reported.elapsed() >= REPORT_INTERVAL {
            self.reported = Instant::now();
            // Written now, because the user is looking. An error is reported again at the end.
            let _ = self.saver.idle();
            (self.progress)(Progress::Reading(read, total));
        }
    }
}
