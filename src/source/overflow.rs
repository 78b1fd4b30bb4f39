//! Overflow: packets that wait on disk, in files without a name, while decoding is
//! slower than capturing.
//!
//! Each batch that is written yields a [`SpilledBatch`], which can be read back once. A file is
//! closed, and its space freed, when all its batches have been read. All files together never
//! use more than half of the free space of the disk, because the decoded packets have to be
//! stored there too.
//!
//! Packets of a network are sealed on disk with AES-128-GCM (NIST SP 800-38D). The keys exist only
//! in the memory of this process. The reason: secrets in packets are masked only after decoding.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use anyhow::{Context, anyhow};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{FallocateFlags, fallocate};

use super::batch::Batch;

/// Bytes of one file. Its space is freed only when all of it has been read.
const SEGMENT: u64 = 64 << 20;

/// Bytes of a file that are allocated at once. Writes to blocks that the file already has take a
/// sixth to a third less time.
const STRIDE: u64 = 8 << 20;

/// Writes batches to disk.
#[derive(Debug)]
pub struct Overflow {
    folder: PathBuf,
    sealed: bool,
    segment: Option<(Arc<Segment>, Written)>,
    /// Bytes in all files together.
    used: Arc<AtomicU64>,
    /// The buffer in which a batch is encoded.
    bytes: Vec<u8>,
}

/// The position in a file up to which it is written, allocated, and may grow.
#[derive(Clone, Copy, Debug)]
struct Written {
    end: u64,
    reserved: u64,
    most: u64,
}

#[derive(Debug)]
struct Segment {
    file: File,
    key: Option<LessSafeKey>,
    /// Bytes in this file, which are part of `total`.
    used: AtomicU64,
    total: Arc<AtomicU64>,
}

/// A batch that waits on disk.
#[derive(Debug)]
pub struct SpilledBatch {
    segment: Arc<Segment>,
    start: u64,
    length: u32,
}

impl Overflow {
    /// Creates files in `folder` when they are needed. Set `sealed` for packets that will not all
    /// be stored in the end.
    pub fn new(folder: &Path, sealed: bool) -> Overflow {
        Overflow { folder: folder.to_owned(), sealed, segment: None, used: Arc::default(), bytes: Vec::new() }
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// There is no room for it, or no file can be created. A later attempt may succeed.
    pub fn write(&mut self, batch: &Batch) -> io::Result<SpilledBatch> {
        self.bytes.clear();
        if self.sealed {
            self.bytes.extend_from_slice(batch.bytes());
        }
        batch.put_heads(&mut self.bytes);
        let before = if self.sealed { 0 } else { batch.bytes().len() };
        let length = before + self.bytes.len() + if self.sealed { AES_128_GCM.tag_len() } else { 0 };
        let length = u32::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // After any error with a file nothing more is written to it, so no two batches are sealed
        // with the same key at the same offset.
        let (segment, Written { end: start, mut reserved, most }) =
            match self.segment.take().filter(|(_, written)| written.end + u64::from(length) <= written.most) {
                Some(current) => current,
                None => self.begin()?,
            };
        let end = start + u64::from(length);
        if end > most {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if end > reserved {
            reserved = most.min(end + STRIDE);
            // If this fails, each write allocates its blocks itself, or reports the error.
            let _ = fallocate(&segment.file, FallocateFlags::KEEP_SIZE, start, reserved - start);
        }
        if let Some(key) = &segment.key {
            let sealed = key.seal_in_place_append_tag(nonce(start), Aad::empty(), &mut self.bytes);
            sealed.map_err(|_| io::ErrorKind::FileTooLarge)?;
        } else {
            segment.file.write_all_at(batch.bytes(), start)?;
        }
        segment.file.write_all_at(&self.bytes, start + before as u64)?;
        segment.used.fetch_add(length.into(), Ordering::Relaxed);
        self.used.fetch_add(length.into(), Ordering::Relaxed);
        self.segment = Some((Arc::clone(&segment), Written { end, reserved, most }));
        Ok(SpilledBatch { segment, start, length })
    }

    /// Closes the current file while nothing waits, so that its space is freed.
    pub fn rest(&mut self) {
        self.segment = None;
    }

    fn begin(&self) -> io::Result<(Arc<Segment>, Written)> {
        let file = nameless(&self.folder)?;
        let key = self.sealed.then(key).transpose()?;
        let most = SEGMENT.min(free(&file)?.saturating_sub(self.used.load(Ordering::Relaxed)) / 2);
        let segment = Segment { file, key, used: AtomicU64::new(0), total: Arc::clone(&self.used) };
        Ok((Arc::new(segment), Written { end: 0, reserved: 0, most }))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.total.fetch_sub(*self.used.get_mut(), Ordering::Relaxed);
    }
}

impl SpilledBatch {
    /// Reads the batch back into the memory of a used batch.
    pub fn read(self, memory: Batch) -> anyhow::Result<Batch> {
        self.read_into(memory.into_memory()).context("cannot read back packets that waited on the disk")
    }

    fn read_into(self, mut bytes: Vec<u8>) -> anyhow::Result<Batch> {
        let SpilledBatch { segment, start, length } = self;
        bytes.resize(length as usize, 0);
        segment.file.read_exact_at(&mut bytes, start)?;
        let changed = || anyhow!("they were changed there");
        if let Some(key) = &segment.key {
            let opened = key.open_in_place(nonce(start), Aad::empty(), &mut bytes).map_err(|_| changed())?.len();
            bytes.truncate(opened);
        }
        Batch::from_block(bytes).ok_or_else(changed)
    }
}

/// Free bytes of the disk that holds a file.
fn free(file: &File) -> io::Result<u64> {
    let disk = rustix::fs::fstatvfs(file)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

fn key() -> io::Result<LessSafeKey> {
    let mut key = [0; 16];
    let key = SystemRandom::new().fill(&mut key).and_then(|()| UnboundKey::new(&AES_128_GCM, &key));
    key.map(LessSafeKey::new).map_err(|_| io::Error::other("no random numbers"))
}

/// The nonce for the batch at this offset. Each file has its own key, and no offset
/// is written twice.
fn nonce(start: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&start.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// Creates a file, readable by this user only, and removes its name at once. The file disappears
/// with the process.
pub(crate) fn nameless(folder: &Path) -> io::Result<File> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".mcptap-overflow-{}-{next}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, Packet, PacketNumber, Time};

    fn batch(number: u64) -> Batch {
        let mut batch = Batch::default();
        let data = format!("Authorization: Bearer {number}");
        let (number, time, link) = (PacketNumber(number), Time(7), LinkType::ETHERNET);
        batch.push(&Packet { number, time, link, interface: 0, original_length: 99, data: data.as_bytes() });
        batch
    }

    fn number(block: SpilledBatch) -> u64 {
        let batch = block.read(Batch::default()).expect("it can be read");
        batch.get(0).expect("one packet").number.0
    }

    #[test]
    fn what_was_written_is_read_and_the_space_given_back() {
        let folder = tempfile::tempdir().unwrap();
        for sealed in [true, false] {
            let mut overflow = Overflow::new(folder.path(), sealed);
            for round in 0..3 {
                let blocks: Vec<_> =
                    (0..100).map(|number| overflow.write(&batch(round * 100 + number)).unwrap()).collect();
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
                assert!(overflow.used.load(Ordering::Relaxed) > 100);
                let (segment, written) = overflow.segment.as_ref().unwrap();
                assert_eq!(segment.file.metadata().unwrap().len(), written.end, "what is asked for is not in it yet");
                for (wanted, block) in blocks.into_iter().enumerate() {
                    assert_eq!(number(block), round * 100 + wanted as u64);
                }
                overflow.rest();
                assert_eq!(overflow.used.load(Ordering::Relaxed), 0);
            }
        }
    }

    #[test]
    fn nothing_can_be_read_in_the_file_and_nothing_changed_goes_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let mut overflow = Overflow::new(folder.path(), true);
        let [first, same, next] = [1, 1, 2].map(|number| overflow.write(&batch(number)).unwrap());
        let (segment, Written { end, .. }) = overflow.segment.as_ref().unwrap();
        let mut bytes = vec![0; *end as usize];
        segment.file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(memchr::memmem::find(&bytes, b"Bearer").is_none());
        let length = first.length as usize;
        assert_ne!(bytes[..length], bytes[length..2 * length], "the same packet twice");
        segment.file.write_all_at(&[bytes[9] ^ 1], 9).unwrap();
        assert!(first.read(Batch::default()).unwrap_err().to_string().contains("read back"));
        assert_eq!([same, next].map(number), [1, 2], "the others are as they were");
    }

    #[test]
    fn where_there_is_no_room_batches_are_refused_and_the_next_file_is_as_good_as_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let mut overflow = Overflow::new(folder.path(), true);
        let first = overflow.write(&batch(1)).unwrap();
        let written = &mut overflow.segment.as_mut().unwrap().1;
        written.most = written.end * 2 - 1;
        // With this much in use, half of the disk's free space leaves no room.
        let used = overflow.used.swap(u64::MAX / 2, Ordering::Relaxed);
        assert_eq!(overflow.write(&batch(2)).unwrap_err().kind(), io::ErrorKind::StorageFull);
        overflow.used.store(used, Ordering::Relaxed);
        let second = overflow.write(&batch(3)).unwrap();
        assert!(!Arc::ptr_eq(&first.segment, &second.segment));
        assert_eq!([first, second].map(number), [1, 3]);
        assert!(Overflow::new(&folder.path().join("missing"), true).write(&batch(1)).is_err());
    }
}
