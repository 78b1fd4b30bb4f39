//! Where packets wait that memory has no room for, while whoever decodes them is behind: a file without a name.
//!
//! Bounded in bytes, and by what the disk has free. Packets of a network are sealed there (AES-128-GCM, NIST SP 800-38D) with a key that exists
//! in this process's memory only, for secrets in them are masked no sooner than they are decoded. Where there is no such file, or no room in
//! it, packets are dropped as without it: that is for its users to count.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, anyhow};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::batch::Batch;

/// Bytes on the disk at most: minutes of a busy loopback interface, and a tenth of a usual disk at worst.
const MOST: u64 = 4 << 30;

/// Batches that wait on the disk, first in, first out.
#[derive(Debug)]
pub struct Overflow {
    folder: PathBuf,
    sealed: bool,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    key: Option<LessSafeKey>,
    /// Bytes it may have.
    most: u64,
    waiting: VecDeque<Block>,
    /// Where the first of them begins, and where the next is written.
    start: u64,
    end: u64,
    /// Blocks sealed so far: each has a nonce of its own.
    sealed: u64,
    /// The one being sealed or opened.
    bytes: Vec<u8>,
}

/// A sealed batch in the file, behind the one before it.
#[derive(Clone, Copy, Debug)]
struct Block {
    length: u32,
    nonce: u64,
}

impl Overflow {
    /// One that makes its file in `folder` once it needs it. What it keeps is `sealed` if it is more than will be saved in the end.
    pub fn new(folder: &Path, sealed: bool) -> Overflow {
        Overflow { folder: folder.to_owned(), sealed, open: None }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.waiting.is_empty())
    }

    /// Appends a batch. False: there is no room for it, or no file.
    pub fn push(&mut self, batch: &Batch) -> bool {
        if self.open.is_none() {
            self.open = Open::new(&self.folder, self.sealed).ok();
        }
        self.open.as_mut().is_some_and(|open| open.push(batch).is_ok())
    }

    /// The batch that waited longest; `None` where none waits.
    ///
    /// # Errors
    /// The file cannot be read back.
    pub fn pop(&mut self) -> anyhow::Result<Option<Batch>> {
        match &mut self.open {
            Some(open) => open.pop().context("cannot read back packets that waited on the disk"),
            None => Ok(None),
        }
    }
}

impl Open {
    fn new(folder: &Path, sealed: bool) -> io::Result<Open> {
        let file = nameless(folder)?;
        let key = sealed.then(key).transpose()?;
        let disk = rustix::fs::fstatvfs(&file)?;
        // Half of it is left to others, and to the database.
        let most = MOST.min(disk.f_bavail.saturating_mul(disk.f_frsize) / 2);
        Ok(Open { file, key, most, waiting: VecDeque::new(), start: 0, end: 0, sealed: 0, bytes: Vec::new() })
    }

    fn push(&mut self, batch: &Batch) -> io::Result<()> {
        self.bytes.clear();
        batch.put_heads(&mut self.bytes);
        let length = self.bytes.len() + batch.bytes().len() + self.key.as_ref().map_or(0, |_| AES_128_GCM.tag_len());
        let length = u32::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = self.end.saturating_add(length.into());
        if end > self.most {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let number = self.sealed;
        if let Some(key) = &self.key {
            // Whatever becomes of this block: no other one is sealed with its nonce.
            self.sealed += 1;
            self.bytes.extend_from_slice(batch.bytes());
            let sealed = key.seal_in_place_append_tag(nonce(number), Aad::empty(), &mut self.bytes);
            sealed.map_err(|_| io::ErrorKind::FileTooLarge)?;
        } else {
            self.file.write_all_at(batch.bytes(), self.end + self.bytes.len() as u64)?;
        }
        self.file.write_all_at(&self.bytes, self.end)?;
        self.end = end;
        self.waiting.push_back(Block { length, nonce: number });
        Ok(())
    }

    fn pop(&mut self) -> anyhow::Result<Option<Batch>> {
        let Some(block) = self.waiting.pop_front() else { return Ok(None) };
        self.bytes.resize(block.length as usize, 0);
        self.file.read_exact_at(&mut self.bytes, self.start)?;
        self.start += u64::from(block.length);
        if self.waiting.is_empty() {
            (self.start, self.end) = (0, 0);
            // Where that fails the space is given back at the end.
            let _ = self.file.set_len(0);
        }
        let bytes = match &self.key {
            Some(key) => key.open_in_place(nonce(block.nonce), Aad::empty(), &mut self.bytes).ok().map(|bytes| &*bytes),
            None => Some(&*self.bytes),
        };
        bytes.and_then(Batch::take).map(Some).ok_or_else(|| anyhow!("they were changed there"))
    }
}

fn key() -> io::Result<LessSafeKey> {
    let mut key = [0; 16];
    let key = SystemRandom::new().fill(&mut key).and_then(|()| UnboundKey::new(&AES_128_GCM, &key));
    key.map(LessSafeKey::new).map_err(|_| io::Error::other("no random numbers"))
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// A new file that only this user could open while it had a name, which it has no longer. It is gone with the process.
fn nameless(folder: &Path) -> io::Result<File> {
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

    fn number(batch: Option<Batch>) -> Option<u64> {
        batch.map(|batch| batch.get(0).expect("one packet").number.0)
    }

    #[test]
    fn what_came_first_leaves_first_and_the_space_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        for sealed in [true, false] {
            let mut overflow = Overflow::new(folder.path(), sealed);
            assert!(overflow.is_empty() && overflow.pop().unwrap().is_none());
            for round in 0..3 {
                assert!((0..100).all(|number| overflow.push(&batch(round * 100 + number))));
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the file has no name");
                for wanted in 0..100 {
                    assert_eq!(number(overflow.pop().unwrap()), Some(round * 100 + wanted));
                }
                assert!(overflow.is_empty());
                assert_eq!(overflow.open.as_ref().unwrap().file.metadata().unwrap().len(), 0);
            }
        }
    }

    #[test]
    fn nothing_can_be_read_in_the_file_and_nothing_changed_goes_unseen() {
        let folder = tempfile::tempdir().unwrap();
        let mut overflow = Overflow::new(folder.path(), true);
        assert!(overflow.push(&batch(1)) && overflow.push(&batch(1)) && overflow.push(&batch(2)));
        let open = overflow.open.as_ref().unwrap();
        let mut bytes = vec![0; open.end as usize];
        open.file.read_exact_at(&mut bytes, 0).unwrap();
        assert!(memchr::memmem::find(&bytes, b"Bearer").is_none());
        let length = open.waiting[0].length as usize;
        assert_ne!(bytes[..length], bytes[length..2 * length], "the same packet twice");
        open.file.write_all_at(&[bytes[9] ^ 1], 9).unwrap();
        assert!(overflow.pop().unwrap_err().to_string().contains("read back"));
        assert_eq!(number(overflow.pop().unwrap()), Some(1), "the next is as it was");
    }

    #[test]
    fn where_there_is_no_room_batches_are_refused_until_there_is() {
        let folder = tempfile::tempdir().unwrap();
        let mut overflow = Overflow::new(folder.path(), true);
        assert!(overflow.push(&batch(1)));
        let open = overflow.open.as_mut().unwrap();
        open.most = open.end * 2 - 1;
        assert!(!overflow.push(&batch(2)));
        assert_eq!(number(overflow.pop().unwrap()), Some(1));
        assert!(overflow.push(&batch(3)));
        assert_eq!(number(overflow.pop().unwrap()), Some(3));
        assert!(!Overflow::new(&folder.path().join("missing"), true).push(&batch(1)));
    }
}
