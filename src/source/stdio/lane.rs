//! A lane: one direction of one pipe, from its writer to its reader, without ever blocking.

use std::mem;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

use super::tap::Tap;
use crate::capture::pipe::Pipe;

/// The default capacity of a pipe on Linux. A pipe that was full is enlarged, because each read of
/// a full pipe makes two processes take turns on a processor.
const FULL: usize = 64 << 10;
/// The capacity of an enlarged pipe: a quarter of what every user may request, so that twenty
/// wrappers stay far below the limit for all pipes of one user.
const LARGE: usize = 256 << 10;

/// Unread bytes that keep a reader busy for a while.
const BACKLOG: u64 = 16 << 10;

/// Bytes that a pipe takes without blocking once `poll` reports it writable (POSIX, `PIPE_BUF`:
/// at least 512).
const PIPE_BUF: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Copies bytes from one descriptor to another.
#[derive(Debug)]
pub(super) struct Lane {
    pipe: Pipe,
    /// `None` once the lane is closed.
    descriptors: Option<Descriptors>,
    /// Bytes that were read but not yet written, from offset `taken` on.
    pending: Vec<u8>,
    taken: usize,
    /// Bytes still to be read after the server has ended; `None` before.
    left: Option<u64>,
    /// Whether its pipes were full and have been enlarged.
    enlarged: bool,
}

/// The two open ends of a lane, and the way to write to the reader's.
#[derive(Debug)]
struct Descriptors {
    from: OwnedFd,
    to: OwnedFd,
    method: WriteMethod,
}

/// The way to write to a descriptor without blocking on it.
///
/// `O_NONBLOCK` belongs to the open file description, which others share (the host's own copy, a
/// terminal), so mcptap must not set it. Instead each single write asks not to block.
#[derive(Clone, Copy, Debug)]
enum WriteMethod {
    /// A socket: `send` with `MSG_DONTWAIT`.
    Send,
    /// A pipe: `pwritev2` with `RWF_NOWAIT`, Linux 6.4 and later.
    NoWait,
    /// A pipe elsewhere: `poll` first, then write no more than a writable pipe always takes.
    PollFirst,
    /// A file or a terminal: an ordinary write. Files never block; a terminal may block all lanes.
    Blocking,
}

impl Lane {
    pub fn new(pipe: Pipe, from: OwnedFd, to: OwnedFd) -> Lane {
        let method = match rustix::fs::fstat(&to).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
            Ok(FileType::Fifo) => WriteMethod::NoWait,
            Ok(FileType::Socket) => WriteMethod::Send,
            _ => WriteMethod::Blocking,
        };
        Lane {
            pipe,
            descriptors: Some(Descriptors { from, to, method }),
            pending: Vec::new(),
            taken: 0,
            left: None,
            enlarged: false,
        }
    }

    /// Whether both ends are closed.
    pub fn is_closed(&self) -> bool {
        self.descriptors.is_none()
    }

    /// Closes both ends: the reader sees the end of the file, the writer a broken pipe.
    pub fn close(&mut self) {
        self.descriptors = None;
        self.pending.clear();
    }

    /// The server, which is the writer, has ended. Delivers the bytes that are left in its pipe
    /// and then closes.
    ///
    /// A child of the server may hold the pipe open, or even go on writing. The lane does not wait
    /// for it: the server's end is reported to the host at once, as without mcptap.
    pub fn finish(&mut self, tap: &mut Tap) {
        if let Some(descriptors) = &self.descriptors {
            self.left = Some(rustix::io::ioctl_fionread(&descriptors.from).unwrap_or(0));
            self.close_if_finished(tap);
        }
    }

    fn close_if_finished(&mut self, tap: &mut Tap) {
        if self.left == Some(0) && self.pending.is_empty() && self.descriptors.is_some() {
            tap.end_of_file(self.pipe);
            self.close();
        }
    }

    /// The descriptor to poll. A closed lane polls `nothing`, for no event.
    pub fn watch<'a>(&'a self, nothing: BorrowedFd<'a>) -> PollFd<'a> {
        match &self.descriptors {
            None => PollFd::from_borrowed_fd(nothing, PollFlags::empty()),
            Some(descriptors) if self.pending.is_empty() => PollFd::new(&descriptors.from, PollFlags::IN),
            Some(descriptors) => PollFd::new(&descriptors.to, PollFlags::OUT),
        }
    }

    /// Whether more bytes may gather without delaying anybody: the reader has not read what it has,
    /// and the writer has room.
    pub fn may_gather(&self) -> bool {
        let unread = |end: &OwnedFd| rustix::io::ioctl_fionread(end).ok();
        let Some(Descriptors { from, to, method: WriteMethod::NoWait }) = &self.descriptors else { return false };
        let is_busy = unread(to).is_some_and(|unread| unread >= BACKLOG);
        is_busy && self.pending.is_empty() && unread(from).is_some_and(|unread| unread < FULL as u64 / 2)
    }

    /// Moves the bytes that can be moved, after `poll` has reported the
    /// descriptor of [`watch`](Lane::watch).
    pub fn step(&mut self, tap: &mut Tap) {
        if self.pending.is_empty() {
            self.pass(tap);
        } else {
            self.deliver();
        }
        self.close_if_finished(tap);
    }

    /// Reads from the writer as much as fits, and writes to the reader as much as it takes.
    fn pass(&mut self, tap: &mut Tap) {
        let Some(descriptors) = &mut self.descriptors else { return };
        match tap.read(self.pipe, &descriptors.from) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(None) | Err(_) => {
                tap.end_of_file(self.pipe);
                self.close();
            }
            Ok(Some(chunk)) => {
                let length = chunk.bytes().len();
                self.left = self.left.map(|left| left.saturating_sub(length as u64));
                if length >= FULL && !mem::replace(&mut self.enlarged, true) {
                    descriptors.enlarge();
                }
                match descriptors.write_all(chunk.bytes()) {
                    Ok(written) => {
                        self.taken = 0;
                        self.pending.extend_from_slice(&chunk.bytes()[written..]);
                    }
                    Err(_) => self.close(),
                }
                // The bytes are delivered before they are recorded, because recording may wait for
                // room. The order in the record is right: this thread also reads the response, so
                // it reads it later.
                tap.keep(chunk);
            }
        }
    }

    /// Writes pending bytes, as many as the reader takes.
    fn deliver(&mut self) {
        let Some(descriptors) = &mut self.descriptors else { return };
        match descriptors.write_all(&self.pending[self.taken..]) {
            Ok(written) => self.taken += written,
            Err(_) => return self.close(),
        }
        if self.taken == self.pending.len() {
            self.pending.clear();
        }
    }
}

/// Writes a line if that cannot block; returns whether it was written.
pub(super) fn write_at_once(to: &OwnedFd, line: &[u8]) -> bool {
    let mut writable = [PollFd::new(to, PollFlags::OUT)];
    let is_writable = poll(&mut writable, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0);
    is_writable && line.len() <= PIPE_BUF && rustix::io::write(to, line).is_ok_and(|written| written == line.len())
}

impl Descriptors {
    /// Enlarges both ends if they are pipes and this user may have larger ones.
    fn enlarge(&self) {
        #[cfg(target_os = "linux")]
        for end in [&self.from, &self.to] {
            use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
            // A pipe is never made smaller, because its owner may have chosen the size.
            if fcntl_getpipe_size(end).is_ok_and(|size| size < LARGE) {
                let _ = fcntl_setpipe_size(end, LARGE);
            }
        }
    }

    /// Writes as many of `bytes` as the reader takes at once; returns their number.
    fn write_all(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(length) => written += length,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Writes some of `bytes` at once, or fails with `EAGAIN`.
    fn write(&mut self, bytes: &[u8]) -> rustix::io::Result<usize> {
        match self.method {
            WriteMethod::Send => {
                use rustix::net::{SendFlags, send};
                send(&self.to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }
            WriteMethod::Blocking => rustix::io::write(&self.to, bytes),
            WriteMethod::NoWait => match write_nowait(&self.to, bytes) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    self.method = WriteMethod::PollFirst;
                    self.write_little(bytes)
                }
                written => written,
            },
            WriteMethod::PollFirst => self.write_little(bytes),
        }
    }

    fn write_little(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        let mut writable = [PollFd::new(&self.to, PollFlags::OUT)];
        match poll(&mut writable, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? {
            0 => Err(Errno::AGAIN),
            _ => rustix::io::write(&self.to, &bytes[..bytes.len().min(PIPE_BUF)]),
        }
    }
}

#[cfg(target_os = "linux")]
fn write_nowait(to: &OwnedFd, bytes: &[u8]) -> rustix::io::Result<usize> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    const CURRENT_POSITION: u64 = u64::MAX;
    pwritev2(to, &[std::io::IoSlice::new(bytes)], CURRENT_POSITION, ReadWriteFlags::NOWAIT)
}

#[cfg(not(target_os = "linux"))]
fn write_nowait(_: &OwnedFd, _: &[u8]) -> rustix::io::Result<usize> {
    Err(Errno::NOSYS)
}
