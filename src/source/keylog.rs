//! A key log file beside a capture, as an application writes it (`SSLKEYLOGFILE`).

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;

use super::{Item, Source};

/// The interval at which a growing key log is read. Applications write secrets a moment before the
/// records that need them.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes delivered at once.
const CHUNK: usize = 64 << 10;
/// The longest line in bytes. Longer lines are not key log lines and are discarded.
const LINE: usize = 4 << 10;

/// A source combined with a key log, whose secrets are delivered before the packets that need them.
pub struct WithKeyLog<S> {
    inner: S,
    log: Option<KeyLog>,
}

/// A key log file that is read piece by piece.
struct KeyLog {
    path: PathBuf,
    /// `None` while the file does not exist.
    file: Option<File>,
    /// Whether the file may still grow.
    follow: bool,
    /// The time of the last read; `None` while there may be more to read at once.
    looked: Option<Instant>,
    /// The bytes read: whole lines up to `whole`, then the start of another line.
    bytes: Vec<u8>,
    whole: usize,
}

impl<S: Source> WithKeyLog<S> {
    /// Combines a source and a key log. A key log that is followed need not exist yet.
    ///
    /// # Errors
    /// The file cannot be opened, or it does not exist and is not followed.
    pub fn new(inner: S, path: Option<&Path>, follow: bool) -> anyhow::Result<WithKeyLog<S>> {
        let log = path.map(|path| {
            let file = open(path, follow)?;
            Ok::<_, anyhow::Error>(KeyLog {
                path: path.to_owned(),
                file,
                follow,
                looked: None,
                bytes: Vec::new(),
                whole: 0,
            })
        });
        Ok(WithKeyLog { inner, log: log.transpose()? })
    }

    /// Returns the source that was combined with the key log.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Source> Source for WithKeyLog<S> {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if let Some(log) = &mut self.log
            && log.read()?
        {
            let log = self.log.as_ref();
            return Ok(log.map(|log| Item::Secrets(&log.bytes[..log.whole])));
        }
        self.inner.next()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.inner.progress()
    }
}

impl KeyLog {
    /// Reads new bytes when it is time to; returns whether there are whole lines.
    fn read(&mut self) -> anyhow::Result<bool> {
        if self.looked.is_some_and(|looked| !self.follow || looked.elapsed() < LOOK) {
            return Ok(false);
        }
        if self.file.is_none() {
            self.file = open(&self.path, self.follow)?;
        }
        let rest = self.bytes.len() - self.whole;
        self.bytes.drain(..self.whole);
        if rest > LINE {
            self.bytes.clear();
        }
        let before = self.bytes.len();
        let read =
            match &mut self.file {
                None => 0,
                Some(file) => file.by_ref().take(CHUNK as u64).read_to_end(&mut self.bytes).map_err(|error| {
                    anyhow!("cannot read the key log {:?}: {error}", self.path.display().to_string())
                })?,
            };
        let end = memchr::memrchr(b'\n', &self.bytes[before..]).map(|at| before + at + 1);
        // The last line of a complete file may have no line end.
        let last = read < CHUNK && !self.follow;
        self.whole = if last { self.bytes.len() } else { end.unwrap_or(0) };
        if read < CHUNK {
            self.looked = Some(Instant::now());
        }
        Ok(self.whole > 0)
    }
}

/// Opens a key log; `None` if it does not exist yet and is followed.
fn open(path: &Path, follow: bool) -> anyhow::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if follow && error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(anyhow!("cannot open the key log {:?}: {error}", path.display().to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A source that is always idle.
    struct Quiet;

    impl Source for Quiet {
        fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
            Ok(Some(Item::Idle))
        }
    }

    fn lines(source: &mut WithKeyLog<Quiet>) -> String {
        let mut text = String::new();
        while let Some(Item::Secrets(lines)) = source.next().expect("it can be read") {
            text += std::str::from_utf8(lines).expect("text");
        }
        text
    }

    #[test]
    fn a_complete_file_is_read_once_and_whole() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let text = "x".repeat(100) + "\n";
        let all = text.repeat(2_000) + "last";
        file.write_all(all.as_bytes()).expect("written");
        let mut source = WithKeyLog::new(Quiet, Some(file.path()), false).expect("opened");
        assert_eq!(lines(&mut source), all);
        file.write_all(b"more\n").expect("written");
        assert_eq!(lines(&mut source), "");
    }

    #[test]
    fn a_growing_file_gives_whole_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys.log");
        assert!(WithKeyLog::new(Quiet, Some(&path), false).is_err(), "nothing to wait for");
        let mut source = WithKeyLog::new(Quiet, Some(&path), true).expect("it may come");
        assert_eq!(lines(&mut source), "");
        let mut file = File::create(&path).expect("created");
        let mut seen = String::new();
        for part in ["one\ntw", "o", "\nthree\n", &"y".repeat(3 * LINE), "\nfour\n"] {
            file.write_all(part.as_bytes()).expect("written");
            if let Some(log) = &mut source.log {
                log.looked = None;
            }
            seen += &lines(&mut source);
        }
        assert!(seen.starts_with("one\ntwo\nthree\n") && seen.ends_with("\nfour\n"), "{seen}");
    }
}
