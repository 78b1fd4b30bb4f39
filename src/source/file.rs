//! Capture files as a source: one, or several that are one capture.

use std::collections::VecDeque;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};

use super::imports::{self, Import};
use super::input::{Input, is_standard_input};
use super::reader::{CaptureFileReader, LocatedItem};
use super::{Item, Source};
use crate::capture::Time;

/// The interval at which a growing file is read.
const LOOK: Duration = Duration::from_millis(20);

/// Reads a recording of another program, or returns `None`. A later layer may know more of them.
pub type Convert = fn(&Path) -> anyhow::Result<Option<Import>>;

/// Capture files as one capture, read one after another in the order of their first packets, as a
/// rotating capture tool writes them. Packets and interfaces are numbered over all of them.
///
/// The first bytes distinguish pcap from pcapng. gzip and zstd are decompressed. The path `-`
/// is standard input.
pub struct Files {
    /// Files that are not open yet.
    waiting: VecDeque<PathBuf>,
    current: Option<CaptureFileReader<Input>>,
    convert: Convert,
    /// Whether each file is a recording of another program.
    are_imports: bool,
    follow: bool,
    /// The end of a growing file was reached: wait before the next read.
    idle: bool,
    packets: u64,
    interfaces: u32,
    /// Bytes of the files that have been read.
    done: u64,
    total: Option<u64>,
}

impl Files {
    /// Opens files as one capture. With `follow`, the end of the last file is a pause
    /// ([`Item::Idle`]) if it is an uncompressed regular file, because it is still being written.
    ///
    /// # Errors
    /// A file does not exist. If there are several, also: one cannot be read or is no capture. A
    /// single file is examined only on reading, so that opening never blocks on an empty pipe.
    pub fn open(paths: &[PathBuf], follow: bool) -> anyhow::Result<Files> {
        Files::converting(paths, follow, |_| Ok(None))
    }

    /// Opens files as [`Files::open`] does, also those that `convert` can read.
    pub fn converting(paths: &[PathBuf], follow: bool, convert: Convert) -> anyhow::Result<Files> {
        let mut total = Some(0);
        let mut regular = true;
        for path in paths {
            let length = regular_length(path)?;
            regular &= length.is_some();
            total = total.zip(length).map(|(total, length)| total + length);
        }
        let mut waiting = paths.to_vec();
        // A file that is not regular cannot be read twice, and a file that is being written is the
        // last one in any case. These stay in the given order.
        if paths.len() > 1 && regular && !follow {
            let mut dated = waiting
                .into_iter()
                .map(|path| Ok((first_time(&path, convert)?, path)))
                .collect::<anyhow::Result<Vec<(Option<Time>, PathBuf)>>>()?;
            dated.sort_by_key(|(time, _)| *time);
            waiting = dated.into_iter().map(|(_, path)| path).collect();
        }
        let mut are_imports = regular && !follow;
        for path in paths.iter().filter(|_| regular && !follow) {
            are_imports = are_imports && (convert(path)?.is_some() || imports::recognises(path)?);
        }
        Ok(Files {
            waiting: waiting.into(),
            current: None,
            convert,
            are_imports,
            follow,
            idle: false,
            packets: 0,
            interfaces: 0,
            done: 0,
            total: total.filter(|_| !follow),
        })
    }

    /// Whether each file is a recording of another program, which has no packets.
    pub fn are_imports(&self) -> bool {
        self.are_imports
    }

    /// Whether packets may come as they are captured: through a pipe, or in a file that grows.
    pub fn is_live(&self) -> bool {
        self.total.is_none()
    }

    /// Closes a file that has ended and opens the next; `false` if there is none.
    fn turn(&mut self) -> anyhow::Result<bool> {
        if let Some(reader) = self.current.take() {
            self.packets = reader.packets;
            self.interfaces = reader.interfaces();
            self.done += reader.input().bytes_read();
        }
        let Some(path) = self.waiting.pop_front() else { return Ok(false) };
        let follow = self.follow && self.waiting.is_empty() && regular_length(&path)?.is_some();
        let mut reader = open(&path, follow, self.convert)?;
        (reader.packets, reader.interfaces) = (self.packets, self.interfaces);
        self.current = Some(reader);
        Ok(true)
    }
}

impl Source for Files {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if std::mem::take(&mut self.idle) {
            thread::sleep(LOOK);
        }
        loop {
            let found = match &mut self.current {
                Some(reader) => reader.advance()?,
                None => None,
            };
            match found {
                Some(found) => {
                    // A pipe has waited already.
                    self.idle = self.follow && matches!(found, LocatedItem::Idle);
                    return Ok(self.current.as_ref().map(|reader| reader.item(found)));
                }
                None if self.turn()? => {}
                None => return Ok(None),
            }
        }
    }

    fn progress(&self) -> (u64, Option<u64>) {
        let current = self.current.as_ref().map_or(0, |reader| reader.input().bytes_read());
        (self.done + current, self.total)
    }
}

/// The length of a regular file; `None` for a pipe.
fn regular_length(path: &Path) -> anyhow::Result<Option<u64>> {
    if is_standard_input(path) {
        return Ok(None);
    }
    let about = fs::metadata(path).map_err(|error| cannot_open(path, &error))?;
    if about.is_dir() {
        bail!("cannot open capture {:?}: it is a directory; name the capture files in it", path.display().to_string());
    }
    Ok(about.is_file().then_some(about.len()))
}

fn open(path: &Path, follow: bool, convert: Convert) -> anyhow::Result<CaptureFileReader<Input>> {
    let name = if is_standard_input(path) { "standard input".into() } else { path.display().to_string() };
    if !follow && let Some(Import { capture, damage }) = import(path, convert)? {
        let mut reader = CaptureFileReader::new(name, Input::Made(Cursor::new(capture)));
        reader.known_damage = damage.into();
        return Ok(reader);
    }
    let input = Input::open(path).map_err(|error| cannot_open(path, &error))?;
    let follow = follow && input.is_plain();
    Ok(CaptureFileReader::new(name, input).follow(follow))
}

/// Reads a recording of another program. `None` if the file is something else.
fn import(path: &Path, convert: Convert) -> anyhow::Result<Option<Import>> {
    if regular_length(path)?.is_none() {
        return Ok(None);
    }
    match convert(path)? {
        Some(import) => Ok(Some(import)),
        None => imports::read(path),
    }
}

fn cannot_open(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow!("cannot open capture {:?}: {error}", path.display().to_string())
}

/// Reads the regular ones among these files up to their first packets. Others are not touched,
/// because they cannot be read twice.
pub fn examine(paths: &[PathBuf], convert: Convert) -> anyhow::Result<()> {
    for path in paths {
        if regular_length(path)?.is_some() {
            first_time(path, convert)?;
        }
    }
    Ok(())
}

/// The time of the first packet in a file.
fn first_time(path: &Path, convert: Convert) -> anyhow::Result<Option<Time>> {
    let mut reader = open(path, false, convert)?;
    while let Some(found) = reader.advance()? {
        if let Item::Packet(packet) = reader.item(found) {
            return Ok(Some(packet.time));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
