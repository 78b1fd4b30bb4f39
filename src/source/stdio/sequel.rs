//! What passes once a successor records: a file that it reads while the file grows (`docs/decisions/0025-a-successor-records-the-rest.md`).
//!
//! ```text
//!  courier ─► length │ block │ length │ block ...  ─► successor
//!     └───── a pipe: a byte for each block, the end ─────┘
//! ```
//!
//! A length is written when its block is there: what a process wrote by half that was killed is not taken for one.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;

use crate::source::batch::Batch;
use crate::source::overflow::{free, nameless};

/// Bytes of a length. Each stands at a multiple of it, so that no two pages share one: a write may end between them.
const LENGTH: u64 = 8;

/// The side of the process that was there.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    end: u64,
    /// Bytes that the file may have: as all that waits, half of what the disk has free.
    most: u64,
    wake: PipeWriter,
}

/// The side of the successor.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    at: u64,
    wake: PipeReader,
    /// The other side is gone: what is in the file is all.
    over: bool,
}

/// Both sides of a file in `folder`.
pub(super) fn sequel(folder: &Path) -> io::Result<(Writer, Reader)> {
    let file = nameless(folder)?;
    let (most, copy) = (free(&file)? / 2, file.try_clone()?);
    let (reader, writer) = io::pipe()?;
    ioctl_fionbio(&writer, true)?;
    ioctl_fionbio(&reader, true)?;
    Ok((Writer { file, end: 0, most, wake: writer }, Reader { file: copy, at: 0, wake: reader, over: false }))
}

impl Writer {
    /// Writes a batch.
    ///
    /// # Errors
    /// There is no room for it; the successor is gone ([`io::ErrorKind::BrokenPipe`]).
    pub(super) fn write(&mut self, batch: &Batch) -> io::Result<()> {
        let mut heads = Vec::new();
        batch.put_heads(&mut heads);
        let (start, bytes) = (self.end + LENGTH, batch.bytes().len() as u64);
        let length = bytes + heads.len() as u64;
        if start + length > self.most {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(batch.bytes(), start)?;
        self.file.write_all_at(&heads, start + bytes)?;
        self.file.write_all_at(&length.to_le_bytes(), self.end)?;
        self.end = (start + length).next_multiple_of(LENGTH);
        match self.wake.write(b"+") {
            // It has enough to read.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            written => written.map(drop),
        }
    }
}

impl Reader {
    /// What has to stay open.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.file.as_fd(), self.wake.as_fd()]
    }

    /// The next batch in place of one that is used up, an empty one where none is there; and whether nothing can follow it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn turn(&mut self, used: Batch) -> anyhow::Result<(Batch, bool)> {
        // Asked first: what was written before the end is found after it.
        let over = self.over;
        let batch = self.read(used.into_memory()).context("cannot read what followed")?;
        let last = over && batch.is_none();
        Ok((batch.unwrap_or_default(), last))
    }

    fn read(&mut self, mut bytes: Vec<u8>) -> io::Result<Option<Batch>> {
        let mut length = [0; LENGTH as usize];
        match self.file.read_exact_at(&mut length, self.at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (length, start) = (u64::from_le_bytes(length), self.at + LENGTH);
        if length == 0 {
            return Ok(None);
        }
        bytes.resize(length as usize, 0);
        self.file.read_exact_at(&mut bytes, start)?;
        self.at = (start + length).next_multiple_of(LENGTH);
        Batch::from_block(bytes).map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sleeps until more is there, or nothing more will be, but no longer than so long.
    pub(super) fn rest(&mut self, most: Duration) {
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        // Whatever this ends with, the pipe says what there is.
        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&most));
        self.over = matches!(self.wake.read(&mut [0; 4_096]), Ok(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, PacketNumber, Time};

    fn batch(bytes: usize) -> Batch {
        let mut batch = Batch::default();
        batch.write(PacketNumber(0), Time(7), LinkType::PIPE, |out| out.resize(bytes, b'x'));
        batch
    }

    const NEVER: Duration = Duration::from_secs(1_000);

    #[test]
    fn what_was_written_is_read_when_it_is_there_and_the_end_when_it_is_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (mut writer, mut reader) = sequel(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
        let turn = |reader: &mut Reader| {
            let (batch, last) = reader.turn(Batch::default()).unwrap();
            (batch.bytes().len(), last)
        };
        assert_eq!(turn(&mut reader), (0, false));
        // More than the pipe has room for bytes: it is not waited for.
        for bytes in 1..100_000 {
            writer.write(&batch(bytes % 100)).unwrap();
        }
        reader.rest(NEVER);
        for bytes in 1..100_000 {
            assert_eq!(turn(&mut reader), (bytes % 100, false));
        }
        assert_eq!(turn(&mut reader), (0, false), "more may come");
        writer.write(&batch(5)).unwrap();
        drop(writer);
        while !reader.over {
            reader.rest(NEVER);
        }
        assert_eq!(turn(&mut reader), (5, false));
        assert_eq!(turn(&mut reader), (0, true));
    }

    #[test]
    fn what_was_written_by_half_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let (mut writer, mut reader) = sequel(folder.path()).unwrap();
        writer.write(&batch(13)).unwrap();
        writer.file.write_all_at(b"the beginning of a block", writer.end + LENGTH).unwrap();
        drop(writer);
        reader.rest(NEVER);
        reader.rest(NEVER);
        assert_eq!(reader.turn(Batch::default()).unwrap().0.bytes().len(), 13);
        let (batch, last) = reader.turn(Batch::default()).unwrap();
        assert!(batch.is_empty() && last);
    }

    #[test]
    fn where_there_is_no_room_or_nobody_reads_the_batch_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (mut writer, mut reader) = sequel(folder.path()).unwrap();
        writer.most = 1_000;
        assert_eq!(writer.write(&batch(1_000)).unwrap_err().kind(), io::ErrorKind::StorageFull);
        writer.write(&batch(10)).unwrap();
        assert_eq!(reader.turn(Batch::default()).unwrap().0.bytes().len(), 10, "the place of the other is used again");
        drop(reader);
        assert_eq!(writer.write(&batch(10)).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
