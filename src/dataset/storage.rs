//! The place of a dataset: a folder, or a bucket of object storage.

#[cfg(feature = "fleet")]
mod bucket;

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::{Builder, NamedTempFile};

/// The folder for what is no table. Engines skip names that begin like this.
pub const OWN: &str = "_mcptap/";

/// Holds files by name. A name has slashes, and no file is visible before it is whole.
pub trait Storage: Send + Sync {
    /// The name of the place, for people.
    fn name(&self) -> String;

    /// The files below a folder whose names there begin with `start`, with their sizes, in order of
    /// name. `folder` ends with a slash.
    fn list(&self, folder: &str, start: &str) -> Result<Vec<(String, u64)>>;

    /// Opens a file. `None` if there is none.
    fn open(&self, name: &str) -> Result<Option<File>>;

    /// A new file without a name, to be published.
    fn create(&self) -> Result<NamedTempFile>;

    /// Gives a file its name. It replaces a file of that name.
    fn publish(&self, name: &str, file: NamedTempFile) -> Result<()>;

    /// Removes a file. It may be gone already.
    fn remove(&self, name: &str) -> Result<()>;
}

/// Opens the place with this name: a folder, or a URL of object storage.
///
/// # Errors
/// The URL is wrong, or this program was built without object storage.
pub fn open(place: &str) -> Result<Box<dyn Storage>> {
    let scheme = place.split_once("://").map(|(scheme, _)| scheme);
    match scheme {
        None => Ok(Box::new(Folder(PathBuf::from(place)))),
        Some("file") => Ok(Box::new(Folder(PathBuf::from(place.trim_start_matches("file://"))))),
        #[cfg(feature = "fleet")]
        Some(scheme) if bucket::SCHEMES.contains(&scheme) => Ok(Box::new(bucket::Bucket::open(place)?)),
        #[cfg(not(feature = "fleet"))]
        Some("s3" | "gs" | "az" | "abfs" | "abfss") => {
            bail!("this mcptap was built without object storage: build it with the feature fleet, or name a folder")
        }
        Some(scheme) => bail!("{scheme}:// is no storage that mcptap knows: give a folder, s3://, gs:// or az://"),
    }
}

/// A dataset in a folder of this machine.
struct Folder(PathBuf);

impl Folder {
    fn cannot(&self, what: &str, name: &str) -> String {
        format!("cannot {what} {}", self.0.join(name).display())
    }
}

impl Storage for Folder {
    fn name(&self) -> String {
        self.0.display().to_string()
    }

    fn list(&self, folder: &str, start: &str) -> Result<Vec<(String, u64)>> {
        let (mut found, mut open, start) = (Vec::new(), vec![folder.to_owned()], format!("{folder}{start}"));
        while let Some(folder) = open.pop() {
            let entries = match fs::read_dir(self.0.join(&folder)) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error).with_context(|| self.cannot("read", &folder)),
            };
            for entry in entries {
                let entry = entry.with_context(|| self.cannot("read", &folder))?;
                let Some(name) = entry.file_name().to_str().map(|name| format!("{folder}{name}")) else { continue };
                match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    true => open.push(format!("{name}/")),
                    false if name.starts_with(&start) => {
                        // Another program can have removed it since.
                        let size = entry.metadata().map_or(0, |about| about.len());
                        found.push((name, size));
                    }
                    false => {}
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn open(&self, name: &str) -> Result<Option<File>> {
        match File::open(self.0.join(name)) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| self.cannot("read", name)),
        }
    }

    fn create(&self) -> Result<NamedTempFile> {
        let folder = self.0.join(OWN);
        fs::create_dir_all(&folder).with_context(|| self.cannot("create", OWN))?;
        Builder::new().prefix("new-").tempfile_in(&folder).with_context(|| self.cannot("write to", OWN))
    }

    fn publish(&self, name: &str, mut file: NamedTempFile) -> Result<()> {
        let path = self.0.join(name);
        let cannot = || self.cannot("write", name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).with_context(cannot)?;
        file.flush().with_context(cannot)?;
        // After a power cut the name must not lead to an empty file.
        file.as_file().sync_data().with_context(cannot)?;
        file.persist(&path).map_err(|error| error.error).with_context(cannot)?;
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        match fs::remove_file(self.0.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| self.cannot("remove", name))
            }
            _ => Ok(()),
        }
    }
}
