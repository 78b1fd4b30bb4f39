//! `mcptap ship`, and `--dataset` of the recording commands: sends to a dataset what a database
//! gains.
//!
//! The database is the buffer. While the storage is away, rounds fail and are repeated, later and
//! later. Nothing is held in memory between rounds.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::args::{DatasetTarget, Ship};
use super::dataset::{database, exporter, report};
use super::output::note;
use super::stop;
use crate::dataset::{self, Dataset, Exporter};
use crate::engine::saver;
use crate::store::StoreReader;

/// The pause after the first round that failed. Each further one doubles it, up to the interval of
/// the rounds, or this.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// The interval of rounds beside a recording.
const EVERY: Duration = Duration::from_secs(120);

pub fn run(arguments: Ship, db: Option<PathBuf>) -> Result<()> {
    let path = database(db)?;
    let exporter = exporter(&arguments.dataset, &arguments.options);
    // A place with a wrong name stays wrong: waiting for it does not help.
    dataset::open(&arguments.dataset)?;
    if arguments.once {
        report(&round(&exporter, &path, true)?)?;
        return Ok(());
    }
    let every = Duration::from_nanos(u64::try_from(arguments.every).unwrap_or(0)).max(Duration::from_secs(1));
    note!("shipping {} to {}; Ctrl-C ends it", path.display(), arguments.dataset);
    rounds(&exporter, &path, every, &stop::channel()?, &say);
    // What the last seconds brought.
    report(&round(&exporter, &path, true)?)?;
    Ok(())
}

/// Sends what the database gained.
fn round(exporter: &Exporter, path: &Path, is_last: bool) -> Result<Dataset> {
    exporter.export(&StoreReader::open(path)?, saver::now(), is_last)
}

/// Prints a line for people.
pub fn say(line: &str) {
    note!("{line}");
}

/// Sends in rounds, until `end` receives something or nobody can send to it. `say` prints a line.
fn rounds(exporter: &Exporter, path: &Path, every: Duration, end: &Receiver<()>, say: &dyn Fn(&str)) {
    let mut pause = every;
    let mut failures = 0u32;
    while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        // A recorder creates the database with its first records.
        if !path.exists() {
            continue;
        }
        match round(exporter, path, false) {
            Ok(_) => {
                if failures > 0 {
                    say(&format!("{} is back: nothing was lost", exporter.to));
                }
                (failures, pause) = (0, every);
            }
            Err(error) => {
                pause =
                    FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(every.max(FIRST_PAUSE)).min(LONGEST_PAUSE);
                if failures == 0 {
                    say(&format!("{error:#}; the recording goes on, and what is missing is sent later"));
                }
                failures += 1;
            }
        }
    }
}

/// Sends a recording while it is made.
pub struct Shipper {
    exporter: Exporter,
    path: PathBuf,
    end: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Shipper {
    fn start(exporter: Exporter, path: &Path, say: impl Fn(&str) + Send + 'static) -> Shipper {
        let (end, ended) = bounded(1);
        let (own, place) = (copy(&exporter), path.to_owned());
        let run = move || rounds(&own, &place, EVERY, &ended, &say);
        // Without the thread, all is sent at the end.
        let thread = thread::Builder::new().name("ship".to_owned()).spawn(run).ok();
        Shipper { exporter, path: path.to_owned(), end, thread }
    }

    /// Sends the rest. Returns a line for people if that failed.
    pub fn finish(mut self) -> Option<String> {
        let _ = self.end.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let error = round(&self.exporter, &self.path, true).err()?;
        Some(format!("{error:#}; \"mcptap ship --dataset {}\" sends what is missing", self.exporter.to))
    }
}

/// Starts sending what a recording saves at `path`, if a dataset is given. `say` prints a line for
/// people. A recording does not fail because of the dataset: if its name is wrong, a line says so.
pub fn beside(target: &DatasetTarget, path: &Path, say: impl Fn(&str) + Send + 'static) -> Option<Shipper> {
    let place = target.dataset.as_ref()?;
    if let Err(error) = dataset::open(place) {
        say(&format!("{error:#}; the recording goes on, and nothing is sent"));
        return None;
    }
    Some(Shipper::start(exporter(place, &target.options), path, say))
}

/// Sends the rest of a recording. Returns a line for people if that failed.
pub fn end(shipper: Option<Shipper>) -> Option<String> {
    shipper.and_then(Shipper::finish)
}

fn copy(exporter: &Exporter) -> Exporter {
    let Exporter { to, host, capture, has_text } = exporter;
    Exporter { to: to.clone(), host: host.clone(), capture: capture.clone(), has_text: *has_text }
}
