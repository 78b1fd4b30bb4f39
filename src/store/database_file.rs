//! The file of a database: one that stays, or one that is removed after its last use.

use std::fs::{DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::temporary_folder::TemporaryFolder;

/// The file of a database. A clone refers to the same file.
#[derive(Clone, Debug)]
pub struct DatabaseFile {
    path: PathBuf,
    temporary: Option<Arc<TemporaryFolder>>,
}

impl DatabaseFile {
    /// A file that stays.
    pub fn file(path: impl Into<PathBuf>) -> DatabaseFile {
        DatabaseFile { path: path.into(), temporary: None }
    }

    /// A new file in a folder of its own that only this user can read, for views on a capture file.
    /// Both are removed when the last clone is dropped. Every writer and reader holds a clone.
    ///
    /// It is a file and not an anonymous database, so that a reader on another thread can show what
    /// a writer is still writing.
    pub fn temporary() -> anyhow::Result<DatabaseFile> {
        let folder = TemporaryFolder::create();
        let folder = folder.with_context(|| format!("cannot create a folder in {}", std::env::temp_dir().display()))?;
        let path = folder.database();
        create_private(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(DatabaseFile { path, temporary: Some(Arc::new(folder)) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed after use.
    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Whether both are the same file, even under different names.
    pub fn is_same(&self, other: &DatabaseFile) -> bool {
        self.path == other.path || self.identity().is_some_and(|own| other.identity() == Some(own))
    }

    /// Whether the file has no content, as when another program is creating it.
    pub fn is_empty(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|file| file.len() == 0)
    }

    /// The directory of the file.
    pub fn folder(&self) -> PathBuf {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new(".")).to_owned()
    }

    /// Creates the directory of the file and those above it, and returns it. Only this user gets
    /// access, because captures contain what people wrote to each other.
    pub fn create_folder(&self) -> anyhow::Result<PathBuf> {
        let parent = self.folder();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&parent).with_context(|| format!("cannot create the directory {}", parent.display()))?;
        Ok(parent)
    }

    /// The device and the inode of the file, which distinguish it from another file of the same
    /// name. `None` if there is no such file.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        std::fs::metadata(&self.path).ok().map(|file| (file.dev(), file.ino()))
    }

    /// Creates the file, empty, in its directory. SQLite gives its `-wal` and `-shm` files the mode
    /// of the database.
    pub(super) fn create(&self) -> anyhow::Result<()> {
        self.create_folder()?;
        match create_private(&self.path) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("cannot create the database {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

impl From<PathBuf> for DatabaseFile {
    fn from(path: PathBuf) -> DatabaseFile {
        DatabaseFile::file(path)
    }
}

impl From<&Path> for DatabaseFile {
    fn from(path: &Path) -> DatabaseFile {
        DatabaseFile::file(path)
    }
}

impl From<&DatabaseFile> for DatabaseFile {
    fn from(place: &DatabaseFile) -> DatabaseFile {
        place.clone()
    }
}

fn create_private(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}
