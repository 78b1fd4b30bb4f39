//! The databases that this user's programs wrote to, in a list in the user's state folder.
//!
//! Hosts pass no environment on. So a server that is wrapped by hand may be recorded in another
//! database than the one in which its user looks. The list names that one.
//!
//! The list is a help, and never a reason to fail: what goes wrong here is ignored.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use crossbeam_channel::{Receiver, bounded};
use etcetera::BaseStrategy;

use super::output;
use super::output::note;
use crate::capture::Time;
use crate::engine::saver;
use crate::view::units;

/// Databases in the list. One that was not used for longer than all these is forgotten.
const MOST: usize = 64;

/// Maximum bytes of the list that are read: so many of the longest paths.
const BYTES: u64 = MOST as u64 * 4_096;

/// Databases that a message names.
const NAMED: usize = 3;

/// The time that a command waits at its end for the list.
const WAIT: Duration = Duration::from_millis(200);

/// The time during which a database counts as written lately: a week.
const LATELY: i64 = 7 * 24 * 3_600 * 1_000_000_000;

/// A database that was written lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenDatabase {
    /// The path of its file.
    pub path: PathBuf,
    /// The last change of the file.
    pub written: Time,
}

/// A database that is being added to the list. Dropping this waits for a moment, for the sake of
/// commands that end at once.
#[derive(Debug)]
pub struct Listing(Receiver<()>);

impl Drop for Listing {
    fn drop(&mut self) {
        let _ = self.0.recv_timeout(WAIT);
    }
}

/// Adds a database to the list, on a thread, because a folder in a network may hang.
pub fn remember(path: &Path) -> Listing {
    let (done, receiver) = bounded::<()>(0);
    let path = path.to_owned();
    let add = move || {
        let _done = done;
        list().and_then(|list| add(&list, &path))
    };
    let _ = thread::Builder::new().name("databases".to_owned()).spawn(add);
    Listing(receiver)
}

/// Databases other than this one that were written lately, the latest first.
pub fn others(than: &Path) -> Vec<WrittenDatabase> {
    let than = fs::canonicalize(than).unwrap_or_else(|_| than.to_owned());
    let now = saver::now();
    let paths = list().and_then(|list| read(&list)).unwrap_or_default();
    let others = paths.into_iter().filter(|path| *path != than);
    let mut others: Vec<_> = others
        .filter_map(|path| Some(WrittenDatabase { written: last_change(&path)?, path }))
        .filter(|other| now.since(other.written) < LATELY)
        .collect();
    others.sort_by_key(|other| std::cmp::Reverse(other.written));
    others.truncate(NAMED);
    others
}

/// Names the databases other than this one that were written lately, on standard error.
pub fn mention_others(than: &Path) {
    for WrittenDatabase { path, written } in others(than) {
        let (path, written) = (path.display(), units::clock(written));
        note!("another database was written at {written}: mcptap sessions --db {path}");
    }
}

/// The path of the list.
fn list() -> Result<PathBuf> {
    let folders = etcetera::choose_base_strategy()?;
    Ok(folders.state_dir().context("no state folder")?.join("mcptap").join("databases"))
}

/// Adds a path to a list, as the last.
fn add(list: &Path, path: &Path) -> Result<()> {
    let path = fs::canonicalize(path)?;
    ensure!(!path.as_os_str().as_bytes().contains(&b'\n'), "a path of several lines");
    if read(list).is_ok_and(|paths| paths.last() == Some(&path)) {
        return Ok(());
    }
    let folder = list.parent().context("a list has a folder")?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // One writer at a time. The list itself is replaced, so another file is locked.
    let lock = output::create_private(&list.with_extension("lock"))?;
    lock.lock()?;
    let mut paths = read(list).unwrap_or_default();
    paths.retain(|known| *known != path && known.exists());
    paths.push(path);
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    for path in &paths[paths.len().saturating_sub(MOST)..] {
        new.write_all(path.as_os_str().as_bytes())?;
        new.write_all(b"\n")?;
    }
    new.persist(list)?;
    Ok(())
}

/// The paths in a list, the one added last at the end.
fn read(list: &Path) -> Result<Vec<PathBuf>> {
    let mut bytes = Vec::new();
    File::open(list)?.take(BYTES).read_to_end(&mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n').map(OsStr::from_bytes);
    Ok(lines.map(PathBuf::from).filter(|path| path.is_absolute()).collect())
}

/// The last change of a database: of its file, or of the file with its latest transactions.
/// A reader may leave the second one behind empty.
fn last_change(path: &Path) -> Option<Time> {
    let mut log = path.as_os_str().to_owned().into_vec();
    log.extend_from_slice(b"-wal");
    let changed = |path: &Path| {
        let file = fs::metadata(path).ok().filter(|file| file.is_file() && file.len() > 0)?;
        file.modified().ok()
    };
    let latest: SystemTime = changed(path)?.max(changed(Path::new(&OsString::from_vec(log))).unwrap_or(UNIX_EPOCH));
    Some(Time(i64::try_from(latest.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?))
}
