//! Folders for temporary databases and key logs. A database contains a whole capture, and a key log
//! the secrets of TLS. So nobody else may read them, and they must not stay behind.
//!
//! * The name is random and the mode 0700.
//! * The process holds a lock on the folder (`flock`). The system releases it when the process
//!   ends, however that happens.
//! * The folder is removed after its last use, by [`remove_all`] before the process ends, and
//!   otherwise by the next process that makes a folder: it removes all whose lock is free.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, openat, statfs, unlinkat};
use rustix::process::geteuid;

/// The name of the database in its folder.
const DATABASE: &str = "capture.db";

/// What SQLite appends to that name for the files beside a database.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// The name of the key log in its folder, and of the folder of programs beside it.
const KEY_LOG: &str = "keys.log";
const PROGRAMS: &str = "programs";

/// The beginnings of a folder's name, and the number of random characters after it.
const PREFIX: &str = "mcptap-capture-";
const KEYS_PREFIX: &str = "mcptap-keys-";
const RANDOM: usize = 20;

/// The folders of this process.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder for one database or one key log. It is removed on drop.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// The opened folder, which holds the lock.
    _lock: File,
}

impl TemporaryFolder {
    /// Makes a folder, and removes those that other processes left behind.
    pub(super) fn create() -> io::Result<TemporaryFolder> {
        static ONCE: Once = Once::new();
        let parent = std::env::temp_dir();
        ONCE.call_once(|| remove_abandoned(&parent));
        TemporaryFolder::create_in(&parent, PREFIX)
    }

    /// Makes a folder for a key log in the first of these folders that is in memory (tmpfs), and
    /// makes the empty file. Removes what other processes left behind in all of them.
    pub fn for_key_log(parents: &[PathBuf]) -> io::Result<TemporaryFolder> {
        // TMPFS_MAGIC of `linux/magic.h`.
        let is_in_memory = |parent: &&PathBuf| statfs(parent.as_path()).is_ok_and(|about| about.f_type == 0x0102_1994);
        parents.iter().for_each(|parent| remove_abandoned(parent));
        let mut error = io::Error::other("no folder in memory (tmpfs)");
        for parent in parents.iter().filter(is_in_memory) {
            match TemporaryFolder::create_in(parent, KEYS_PREFIX) {
                Ok(folder) => {
                    File::options().write(true).create_new(true).mode(0o600).open(folder.key_log())?;
                    return Ok(folder);
                }
                Err(why) => error = why,
            }
        }
        Err(error)
    }

    fn create_in(parent: &Path, prefix: &str) -> io::Result<TemporaryFolder> {
        loop {
            // While the list is locked, a signal cannot end the process between the two steps.
            let mut folders = folders();
            let path = tempfile::Builder::new()
                .prefix(prefix)
                .rand_bytes(RANDOM)
                .permissions(PermissionsExt::from_mode(0o700))
                .tempdir_in(parent)?
                .keep();
            // Another process may remove the folder before it is locked.
            match locked(&path) {
                Ok(lock) => {
                    folders.push(path.clone());
                    return Ok(TemporaryFolder { path, _lock: lock });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The path for the database.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// The path of the key log.
    pub fn key_log(&self) -> PathBuf {
        self.path.join(KEY_LOG)
    }

    /// The path for a folder of programs.
    pub fn programs(&self) -> PathBuf {
        self.path.join(PROGRAMS)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let mut folders = folders();
        folders.retain(|path| *path != self.path);
        remove(&self.path);
    }
}

/// Removes the folders of this process, for a process that ends without dropping them.
pub fn remove_all() {
    folders().drain(..).for_each(|path| remove(&path));
}

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens and locks a folder that was just made.
fn locked(path: &Path) -> io::Result<File> {
    let folder = open(path)?;
    // A file system without locks is no reason to fail: nobody else can lock the folder either, so
    // nobody removes it.
    let _ = flock(&folder, FlockOperation::LockExclusive);
    let (opened, named) = (folder.metadata()?, path.symlink_metadata()?);
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(ErrorKind::NotFound.into());
    }
    Ok(folder)
}

/// Opens a folder, but not a symbolic link to one.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?.into())
}

/// Removes the folders that processes of this user left behind.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = open(parent).and_then(|parent| Ok(Dir::read_from(parent)?)) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        if is_ours(name) {
            // What cannot be removed now is left to the next process.
            let _ = remove_if_abandoned(&parent.join(name));
        }
    }
}

fn is_ours(name: &Path) -> bool {
    let random = name.to_str().and_then(|name| name.strip_prefix(PREFIX).or(name.strip_prefix(KEYS_PREFIX)));
    random.is_some_and(|random| random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn remove_if_abandoned(path: &Path) -> io::Result<()> {
    let folder = open(path)?;
    let facts = folder.metadata()?;
    if facts.uid() == geteuid().as_raw() && facts.mode() & 0o777 == 0o700 {
        flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
        empty_and_remove(&folder, path);
    }
    Ok(())
}

fn remove(path: &Path) {
    if let Ok(folder) = open(path) {
        empty_and_remove(&folder, path);
    }
}

/// Removes our files from a folder, and then the folder if nothing else is in it.
/// Files are named relative to the opened folder, so that no link leads elsewhere.
fn empty_and_remove(folder: &File, path: &Path) {
    for suffix in SUFFIXES {
        // It may not exist, and an error could no longer be reported to anybody.
        let _ = unlinkat(folder, format!("{DATABASE}{suffix}"), AtFlags::empty());
    }
    let _ = unlinkat(folder, KEY_LOG, AtFlags::empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(programs) = openat(folder, PROGRAMS, flags, Mode::empty()) {
        for entry in Dir::read_from(&programs).into_iter().flatten().filter_map(Result::ok) {
            let _ = unlinkat(&programs, entry.file_name(), AtFlags::empty());
        }
        let _ = unlinkat(folder, PROGRAMS, AtFlags::REMOVEDIR);
    }
    let _ = unlinkat(CWD, path, AtFlags::REMOVEDIR);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A folder as a killed process leaves it.
    fn left_behind(parent: &Path, name: &str, mode: u32) -> PathBuf {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(DATABASE), "captured").unwrap();
        fs::write(folder.join(format!("{DATABASE}-journal")), "captured").unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[test]
    fn only_what_a_process_left_behind_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let here = parent.path();
        let name = |last: char| format!("{PREFIX}{}{last}", "a".repeat(RANDOM - 1));
        let abandoned = left_behind(here, &name('a'), 0o700);
        let held = left_behind(here, &name('b'), 0o700);
        let lock = locked(&held).unwrap();
        let readable = left_behind(here, &name('c'), 0o755);
        let other_name = left_behind(here, &format!("{PREFIX}project"), 0o700);
        let target = left_behind(here, "target", 0o700);
        symlink(&target, here.join(name('d'))).unwrap();
        let with_link = left_behind(here, &name('e'), 0o700);
        fs::remove_file(with_link.join(DATABASE)).unwrap();
        symlink(target.join(DATABASE), with_link.join(DATABASE)).unwrap();
        let with_more = left_behind(here, &name('f'), 0o700);
        fs::write(with_more.join("notes"), "of the user").unwrap();
        remove_abandoned(here);
        for gone in [&abandoned, &with_link] {
            assert!(!gone.exists(), "{}", gone.display());
        }
        for stays in [&held, &readable, &other_name, &target] {
            assert!(stays.join(DATABASE).exists(), "{}", stays.display());
        }
        assert!(with_more.join("notes").exists() && here.join(name('d')).is_symlink());
        drop(lock);
        remove_abandoned(here);
        assert!(!held.exists());
    }

    #[test]
    fn a_folder_is_private_and_locked() {
        let folder = TemporaryFolder::create().unwrap();
        let path = folder.path.clone();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(is_ours(Path::new(path.file_name().unwrap())));
        let other = open(&path).unwrap();
        assert!(flock(&other, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(folder);
        assert!(!path.exists());
        let shm = [PathBuf::from("/dev/shm")];
        let Ok(folder) = TemporaryFolder::for_key_log(&shm) else { return };
        let (path, file) = (folder.path.clone(), folder.key_log());
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(&file)), (0o700, 0o600));
        fs::create_dir(folder.programs()).unwrap();
        fs::write(folder.programs().join("npx"), "").unwrap();
        drop(folder);
        assert!(!path.exists());
        let [one, two] = [(); 2].map(|()| TemporaryFolder::create().unwrap());
        assert_ne!(one.path, two.path);
    }
}
