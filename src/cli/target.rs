//! The target of a command: a capture file, a saved session or a database.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::args::{Decoding, TargetOptions};
use super::databases;
use super::output::Progress;
use super::redact;
use super::stop;
#[cfg(any(feature = "http", feature = "live"))]
use crate::capture::Limits;
use crate::capture::Packet;
use crate::cli::output::note;
use crate::decode::redact::Redaction;
use crate::engine::saver::{self, Saver};
use crate::engine::{self, Listener};
use crate::event::{Detail, Event};
use crate::mcp::{Session, SessionNumber};
use crate::pipeline::{self, BLANKED, Counts, Pipeline};
use crate::source::Source;
use crate::source::file::Files;
use crate::source::keylog::WithKeyLog;
#[cfg(feature = "live")]
use crate::source::live::User;
use crate::store::{self, CaptureId, CaptureInfo, CaptureKind, DatabaseFile, StoreReader, WriteOptions, Writer};
use crate::view::{command_line, secrets, units};

/// Number of attempts to open a locked database, and the pause between them. In the meantime
/// observed traffic waits in the queue.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// The error if a signal ends the reading of a capture file.
pub const READING: &str = "a signal ended the reading of the capture";

/// An opened target.
pub struct Opened {
    /// The name of the target, as it was given.
    pub name: String,
    /// The store that contains it: a database, or a temporary store for a capture file.
    pub reader: StoreReader,
    /// The chosen session; `None` means all sessions of the store.
    pub session: Option<SessionNumber>,
}

/// The kind of a target, by its name.
#[derive(Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// The latest recording that is no replay.
    Latest,
    /// A saved session.
    Session(SessionNumber),
    /// A database file.
    Database(PathBuf),
    /// A capture file.
    Capture(PathBuf),
}

/// Interprets the name of a target. A number means a session; a file with such a name is written
/// `./7`.
pub fn target_kind(target: &str) -> Result<TargetKind> {
    if target == "latest" {
        return Ok(TargetKind::Latest);
    }
    if let Ok(number) = target.parse() {
        return Ok(TargetKind::Session(SessionNumber(number)));
    }
    let path = PathBuf::from(target);
    if target != "-" && is_database(&path)? { Ok(TargetKind::Database(path)) } else { Ok(TargetKind::Capture(path)) }
}

/// Opens the target of a view. Without one it is the latest recording, and a note on standard
/// error names it.
pub fn open_or_latest(sessions: &TargetOptions, db: Option<PathBuf>) -> Result<Opened> {
    let TargetOptions { target, session, decoding } = sessions;
    let opened = open(Some(target.as_deref().unwrap_or("latest")), *session, decoding, db)?;
    if let (None, Some(session)) = (target, opened.session) {
        note!("session {} of {}", session.0, opened.reader.place().path().display());
    }
    Ok(opened)
}

/// Opens a target, or the default database if there is none.
pub fn open(target: Option<&str>, session: Option<u32>, decoding: &Decoding, db: Option<PathBuf>) -> Result<Opened> {
    let kind = target.map(target_kind).transpose()?;
    let place = match &kind {
        None | Some(TargetKind::Latest | TargetKind::Session(_)) => DatabaseFile::file(existing(database(db)?)?),
        Some(TargetKind::Database(path)) => DatabaseFile::file(path),
        Some(TargetKind::Capture(path)) => {
            let place = temporary()?;
            let files = store::open_files(std::slice::from_ref(path), false)?;
            let info = CaptureInfo::begun(import_kind(&files), path.display().to_string());
            copy(files, place.clone(), &info, decoding, decoding.redaction()?, READING)?;
            place
        }
    };
    let mut reader = StoreReader::open(place)?;
    if reader.place().is_temporary() {
        reader = reader.until(stop::before_cleaning()?)?;
    }
    let mut session = match (&kind, session) {
        (Some(TargetKind::Latest | TargetKind::Session(_)), Some(_)) => {
            bail!("the target is a session already: --session needs a file or a database")
        }
        (Some(TargetKind::Latest), None) => Some(latest(&reader)?),
        (Some(TargetKind::Session(number)), None) => Some(*number),
        (_, number) => number.map(SessionNumber),
    };
    if let Some(number) = session
        && reader.session(number)?.is_none()
    {
        let file = match &kind {
            Some(TargetKind::Database(path) | TargetKind::Capture(path)) => format!(" {}", path.display()),
            _ => String::new(),
        };
        bail!(no_session(number, &file));
    }
    // A capture file was redacted when it was read.
    if !matches!(kind, Some(TargetKind::Capture(_)))
        && let Some(redaction) = decoding.redaction()?
    {
        (reader, session) = redact::copy(&reader, session, decoding, redaction)?;
    }
    Ok(Opened { name: target.unwrap_or_default().to_owned(), reader, session })
}

/// The message that a session does not exist. `file` is the target after a blank, or empty.
pub fn no_session(number: SessionNumber, file: &str) -> String {
    format!("there is no session {}: \"mcptap sessions{file}\" lists all sessions", number.0)
}

/// A new temporary database, which is removed also if a signal ends the process.
pub fn temporary() -> Result<DatabaseFile> {
    stop::before_cleaning()?;
    DatabaseFile::temporary()
}

/// Waits until the database has a recording that is no replay.
pub fn await_recording(db: Option<PathBuf>) -> Result<()> {
    let place = DatabaseFile::file(database(db)?);
    let mut is_reported = false;
    // An empty file, and a file that is being made, cannot be opened yet.
    let is_there = || match place.path().exists().then(|| StoreReader::open(&place)) {
        Some(Ok(reader)) => reader.latest_recording().map(|latest| latest.is_some()),
        Some(Err(error)) if !store::may_pass(&error) && !place.is_empty() => Err(error),
        _ => Ok(false),
    };
    while !is_there()? {
        if !std::mem::replace(&mut is_reported, true) {
            note!("waiting for a recording in {}; Ctrl-C ends it", place.path().display());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The latest recording that is no replay.
pub fn latest(reader: &StoreReader) -> Result<SessionNumber> {
    reader.latest_recording()?.context("no session is saved yet: wrap a server, or read a capture with --save")
}

impl Opened {
    /// The chosen sessions, in order.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        if let Some(number) = self.session {
            return Ok(self.reader.session(number)?.into_iter().collect());
        }
        self.reader.all_sessions().collect()
    }

    /// The only session of the target. If there are several, the error names the option
    /// that chooses one.
    pub fn one_session(&self) -> Result<Session> {
        let mut sessions = self.sessions()?;
        match sessions.len() {
            0 => bail!("no MCP session found: \"mcptap read\" shows what the capture contains"),
            1 => Ok(sessions.remove(0)),
            count => bail!("there are {count} sessions: choose one with --session N; \"mcptap sessions\" lists them"),
        }
    }
}

/// Decodes packets into a store, with a line of progress. Returns the capture there. `stopped` is
/// the error if a signal ends it.
pub fn copy(
    source: impl Source + Send,
    place: DatabaseFile,
    info: &CaptureInfo,
    decoding: &Decoding,
    redaction: Option<&'static Redaction>,
    stopped: &'static str,
) -> Result<CaptureId> {
    let writer = Writer::create(place, info, store_options(decoding.keep_secrets, redaction))?;
    let (capture, mut saver) = (writer.capture(), Saver::new(writer, false));
    let stop = stop::before_cleaning()?;
    let options = pipeline_options(decoding.keep_secrets, Detail::Store, redaction);
    let decoded = decode(source, decoding, options, &mut saver, &stop, stopped);
    let saved = saver.finish(decoded.as_ref().map(saver::summary).unwrap_or_default());
    note_blanked(&decoded?);
    saved?;
    Ok(capture)
}

/// Decodes packets for a listener, with a line of progress. Returns how much was read. `stopped` is
/// the error if `stop` ends it.
pub fn decode(
    source: impl Source + Send,
    decoding: &Decoding,
    options: pipeline::PipelineConfig,
    listener: &mut dyn Listener,
    stop: &AtomicBool,
    stopped: &'static str,
) -> Result<Counts> {
    let mut source = WithKeyLog::new(source, decoding.key_log(false).as_deref(), false)?;
    let mut pipeline = Pipeline::new(options);
    let mut listener = WithProgress(Progress::new(), listener);
    let run = engine::run_on(decoding.threads(), &mut source, &mut pipeline, &mut listener, stop);
    listener.0.clear();
    run?;
    ensure!(!stop.load(Ordering::Relaxed), stopped);
    Ok(pipeline.counts())
}

/// The command line of a server or a client as it is recorded.
pub fn recorded_command(words: &[OsString], keep_secrets: bool, redaction: Option<&Redaction>) -> Vec<String> {
    let mut recorded = match keep_secrets {
        true => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        false => command_line::masked(words),
    };
    recorded.iter_mut().for_each(|word| *word = redacted(std::mem::take(word), redaction));
    recorded
}

/// A text as it is recorded.
pub fn redacted(text: String, redaction: Option<&Redaction>) -> String {
    redaction.map(|redaction| redaction.masked(&text).into_owned()).unwrap_or(text)
}

/// The kind of a capture that is read from files.
pub fn import_kind(files: &Files) -> CaptureKind {
    if files.are_imports() { CaptureKind::Foreign } else { CaptureKind::Import }
}

/// The names of files, separated by blanks.
pub fn joined(files: &[PathBuf]) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" ")
}

/// The options of the pipeline for a command.
pub fn pipeline_options(
    keep_secrets: bool,
    detail: Detail,
    redaction: Option<&'static Redaction>,
) -> pipeline::PipelineConfig {
    let mask_key = secrets::key();
    pipeline::PipelineConfig { detail, keep_secrets, mask_key, redaction, ..pipeline::PipelineConfig::default() }
}

/// The options of the pipeline for live traffic.
#[cfg(any(feature = "http", feature = "live"))]
pub fn live_options(
    keep_secrets: bool,
    detail: Detail,
    redaction: Option<&'static Redaction>,
) -> pipeline::PipelineConfig {
    pipeline::PipelineConfig { limits: Limits::live(), ..pipeline_options(keep_secrets, detail, redaction) }
}

/// The options of the store for a command.
pub fn store_options(keep_secrets: bool, redaction: Option<&'static Redaction>) -> WriteOptions {
    WriteOptions { keep_secrets, mask_key: secrets::key(), redaction, ..WriteOptions::default() }
}

/// Begins a capture although other programs may have the database locked. After each failure
/// `retry` decides whether to try again. A permanent error, such as a database of a newer
/// version, is returned at once.
pub fn create_patiently(
    place: &DatabaseFile,
    info: &CaptureInfo,
    options: WriteOptions,
    mut retry: impl FnMut(&anyhow::Error) -> bool,
) -> Result<Writer> {
    let mut attempt = 1;
    loop {
        match Writer::create(place.clone(), info, options) {
            Err(error) if retry(&error) && store::may_pass(&error) && attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
        thread::sleep(PAUSE);
    }
}

/// The sessions of a finished recording, in words.
pub fn recorded_as(sessions: &[SessionNumber], place: &DatabaseFile) -> String {
    format!("recorded as {} of {}", numbers(sessions), place.path().display())
}

/// Prints the sessions of a finished recording. If the packets were saved before, it says so. What
/// cannot be read is left out, because the recording itself was saved. Returns whether it
/// has any sessions.
pub fn note_saved(place: &DatabaseFile, capture: CaptureId) -> bool {
    let Ok(reader) = StoreReader::open(place) else { return false };
    let sessions = reader.sessions_of(capture).unwrap_or_default();
    if !sessions.is_empty() {
        note!("{}", recorded_as(&sessions, place));
    }
    let earlier = reader.earlier_import(capture).unwrap_or_default();
    if !earlier.is_empty() {
        note!("the same packets were saved before, as {}: \"mcptap delete\" removes one of them", numbers(&earlier));
    }
    !sessions.is_empty()
}

/// Numbers of sessions in words: `session 7`, `sessions 7 and 9`, `sessions 7 to 12`.
fn numbers(sessions: &[SessionNumber]) -> String {
    match sessions {
        [one] => format!("session {}", one.0),
        [one, other] => format!("sessions {} and {}", one.0, other.0),
        [one, .., last] => format!("sessions {} to {}", one.0, last.0),
        [] => String::new(),
    }
}

/// Prints the number of packets of sessions that were not saved.
pub fn note_unkept(counts: &store::Counts) {
    let unkept = counts.packet_counts.discarded;
    if unkept > 0 {
        let unkept = units::count(unkept, "packet");
        note!("{unkept} of MCP connections were not kept; findings of the sessions name the connections");
    }
}

/// Prints the line about contents whose bytes were not kept.
pub fn note_blanked(counts: &Counts) {
    blanked(counts).into_iter().for_each(|line| note!("{line}"));
}

/// The line about contents whose bytes were not kept, if there are any.
pub fn blanked(counts: &Counts) -> Option<String> {
    let blanked = *counts.skipped.get(BLANKED)?;
    Some(format!(
        "redaction: {blanked} coded bodies or TLS connections are blanked in their packets, because no value can be masked inside"
    ))
}

/// A listener, and the line of progress.
struct WithProgress<'a>(Progress, &'a mut dyn Listener);

impl Listener for WithProgress<'_> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.1.packet(packet)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.1.event(event)
    }

    fn after_input(&mut self) -> Result<()> {
        self.1.after_input()
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.0.set(read, total);
    }
}

/// The path of the database: the given one, else the default in the XDG data directory.
pub fn database(given: Option<PathBuf>) -> Result<PathBuf> {
    use etcetera::BaseStrategy;
    if let Some(path) = given {
        return Ok(path);
    }
    let directories = etcetera::choose_base_strategy().context("cannot find the home directory: give --db PATH")?;
    Ok(directories.data_dir().join("mcptap").join("mcptap.db"))
}

/// The path of the database for a program that became this user. The variables of the process are
/// those of root then.
#[cfg(feature = "live")]
pub fn database_of(given: Option<PathBuf>, user: Option<&User>) -> Result<PathBuf> {
    let Some(user) = user.filter(|_| given.is_none()) else { return database(given) };
    let data = || user.place("XDG_DATA_HOME").unwrap_or_else(|| user.home.join(".local/share"));
    Ok(user.place("MCPTAP_DB").unwrap_or_else(|| data().join("mcptap").join("mcptap.db")))
}

/// The path of a database, or an error with advice if it does not exist.
pub fn existing(path: PathBuf) -> Result<PathBuf> {
    if !path.exists() {
        databases::mention_others(&path);
        bail!(
            "there is no database {} yet: record a server with \"mcptap wrap\", or read a capture with --save; \"mcptap demo\" shows examples",
            path.display()
        );
    }
    Ok(path)
}

/// Whether a file is an SQLite database of mcptap. That of another recorder is read as a capture.
fn is_database(path: &Path) -> Result<bool> {
    let mut head = [0; 16];
    let mut file = File::open(path).with_context(|| {
        format!("cannot open {:?}: neither a file nor a session (a number, or latest)", path.display().to_string())
    })?;
    // Bytes read from anything but a regular file would be lost.
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let read = file.read(&mut head)?;
    Ok(&head[..read] == b"SQLite format 3\0" && !store::is_mcphawk(path))
}
