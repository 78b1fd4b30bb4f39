//! What a command works on: a capture file, a saved session, a database.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::args::Decoding;
use super::output::Progress;
use super::read::options;
use crate::engine::saver::{self, Saver};
use crate::engine::{self, Both, Listener};
use crate::event::{Detail, Event};
use crate::mcp::{Session, SessionNumber};
use crate::pipeline::{Counts, Pipeline};
use crate::source::file::Files;
use crate::source::keylog::WithKeyLog;
use crate::store::{self, CaptureInfo, CaptureKind, DatabaseFile, StoreReader, Summary, WriteOptions, Writer};

/// How often a database that cannot be opened is tried again, and how long to wait in between: another program may hold it locked. What is observed
/// meanwhile waits in the queue.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// A target, opened.
pub struct Opened {
    /// The store that holds it: the database, or a temporary one for a capture file.
    pub reader: StoreReader,
    /// The session that was asked for; `None`: all of the store.
    pub session: Option<SessionNumber>,
}

/// What a target's name says.
#[derive(Debug, PartialEq, Eq)]
pub enum Named {
    /// The session that began last.
    Latest,
    /// A saved session.
    Session(SessionNumber),
    /// A database file.
    Database(PathBuf),
    /// A capture file.
    Capture(PathBuf),
}

/// Reads a target's name. A number is a session; a file with that name is `./7`.
pub fn named(target: &str) -> Result<Named> {
    if target == "latest" {
        return Ok(Named::Latest);
    }
    if let Ok(number) = target.parse() {
        return Ok(Named::Session(SessionNumber(number)));
    }
    let path = PathBuf::from(target);
    if target != "-" && is_database(&path)? { Ok(Named::Database(path)) } else { Ok(Named::Capture(path)) }
}

/// Opens a target; without one, the default database.
pub fn open(target: Option<&str>, session: Option<u32>, decoding: &Decoding, db: Option<PathBuf>) -> Result<Opened> {
    let default = || Ok::<_, anyhow::Error>(DatabaseFile::file(database(db.clone())?));
    let named = target.map(named).transpose()?;
    let place = match &named {
        None | Some(Named::Latest | Named::Session(_)) => existing(default()?)?,
        Some(Named::Database(path)) => DatabaseFile::file(path),
        Some(Named::Capture(path)) => {
            let place = DatabaseFile::temporary()?;
            import(std::slice::from_ref(path), place.clone(), decoding)?;
            place
        }
    };
    let reader = StoreReader::open(place)?;
    let session = match (named, session) {
        (Some(Named::Latest), _) => match reader.latest_session()? {
            Some(session) => Some(session.number),
            None => bail!("no session is saved yet: wrap a server, or read a capture with --save"),
        },
        (Some(Named::Session(number)), _) => Some(number),
        (_, number) => number.map(SessionNumber),
    };
    if let Some(number) = session
        && reader.session(number)?.is_none()
    {
        bail!("there is no session {}: \"mcptap sessions\" lists them", number.0);
    }
    Ok(Opened { reader, session })
}

impl Opened {
    /// The sessions asked for, in order.
    pub fn sessions(&self) -> Result<Vec<Session>> {
        if let Some(number) = self.session {
            return Ok(self.reader.session(number)?.into_iter().collect());
        }
        self.reader.all_sessions().collect()
    }

    /// The one session asked for; an error that lists them where there are several.
    pub fn one_session(&self) -> Result<Session> {
        let mut sessions = self.sessions()?;
        match sessions.len() {
            0 => bail!("no MCP session in it: \"mcptap read\" says what there is"),
            1 => Ok(sessions.remove(0)),
            count => bail!("it holds {count} sessions: choose one with --session 1 to --session {count}"),
        }
    }
}

/// Decodes captures into a store.
pub fn import(files: &[PathBuf], place: DatabaseFile, decoding: &Decoding) -> Result<Counts> {
    let keys = decoding.key_log(false);
    let mut source = WithKeyLog::new(Files::open(files, false)?, keys.as_deref(), false)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: names.join(" "),
        process: std::process::id(),
        started: saver::now(),
    };
    let options = options(decoding, false, Detail::Store);
    let writer = Writer::create(place, &info, store_options(decoding))?;
    let mut pipeline = Pipeline::new(options);
    let mut listeners = Both(Watch(Progress::new()), Saver::new(writer, false));
    let run = engine::run(&mut source, &mut pipeline, &mut listeners, &AtomicBool::new(false));
    let Both(Watch(mut progress), saver) = listeners;
    progress.clear();
    let saved = saver.finish(summary(pipeline.counts()));
    run?;
    saved?;
    Ok(pipeline.counts().clone())
}

/// How the store is written for a command.
pub fn store_options(decoding: &Decoding) -> WriteOptions {
    WriteOptions { keep_secrets: decoding.keep_secrets, ..WriteOptions::default() }
}

/// Begins a capture while others may hold the database locked. Each failure is told to `goes_on`, which says whether to try again.
/// A refusal, as of a database of a newer version, is not tried again.
pub fn create_patiently(
    place: &DatabaseFile,
    info: &CaptureInfo,
    options: WriteOptions,
    mut goes_on: impl FnMut(&anyhow::Error) -> bool,
) -> Result<Writer> {
    let mut attempt = 1;
    loop {
        match Writer::create(place.clone(), info, options) {
            Err(error) if goes_on(&error) && store::may_pass(&error) && attempt < ATTEMPTS => attempt += 1,
            result => return result,
        }
        thread::sleep(PAUSE);
    }
}

/// What a store is told at the end.
pub fn summary(counts: &Counts) -> Summary {
    let skipped = counts.skipped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    Summary { ended: saver::now(), skipped, damage: Vec::new() }
}

/// Shows progress.
#[derive(Debug)]
struct Watch(Progress);

impl Listener for Watch {
    fn event(&mut self, _: Event) -> Result<()> {
        Ok(())
    }

    fn hear(&mut self, _: &Event) -> Result<()> {
        Ok(())
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.0.set(read, total);
    }
}

/// The database: what was asked for, else the XDG data directory's.
pub fn database(asked: Option<PathBuf>) -> Result<PathBuf> {
    use etcetera::BaseStrategy;
    if let Some(path) = asked {
        return Ok(path);
    }
    let directories = etcetera::choose_base_strategy().context("cannot find the home directory: give --db PATH")?;
    Ok(directories.data_dir().join("mcptap").join("mcptap.db"))
}

fn existing(place: DatabaseFile) -> Result<DatabaseFile> {
    if !place.path().exists() {
        bail!(
            "there is no database {} yet: wrap a server with \"mcptap wrap\", or read a capture with --save; \"mcptap demo\" has some",
            place.path().display()
        );
    }
    Ok(place)
}

/// Whether a file is an SQLite database, by its first bytes.
fn is_database(path: &Path) -> Result<bool> {
    let mut head = [0; 16];
    let mut file = File::open(path).with_context(|| {
        format!("cannot open {:?}: neither a file nor a session (a number, or latest)", path.display().to_string())
    })?;
    // Other than from a regular file, the bytes would be gone.
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let read = file.read(&mut head)?;
    Ok(&head[..read] == b"SQLite format 3\0")
}
