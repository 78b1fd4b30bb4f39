//! Pipes and sockets on which no test waits for ever.

use std::io::{Read, Result, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::waits::PATIENCE;

/// A pipe or socket whose reads and writes have a bound.
pub struct Patient<T> {
    inner: T,
    what: &'static str,
}

impl<T: AsFd> Patient<T> {
    /// Wraps a pipe. `what` names the awaited thing in the panic message.
    pub fn new(inner: T, what: &'static str) -> Patient<T> {
        Patient { inner, what }
    }

    /// The pipe without a bound.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn await_ready(&self, flags: PollFlags) {
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        loop {
            match poll(&mut [PollFd::new(&self.inner, flags)], Some(&patience)) {
                Ok(0) => panic!("waited {} s for {}", PATIENCE.as_secs(), self.what),
                Err(Errno::INTR) => {}
                done => return done.map(drop).expect("it can be waited for"),
            }
        }
    }
}

impl<T: AsFd + Read> Read for Patient<T> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.await_ready(PollFlags::IN);
        self.inner.read(buffer)
    }
}

impl<T: AsFd + Write> Write for Patient<T> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.await_ready(PollFlags::OUT);
        // POSIX, write(): PIPE_BUF bytes (at least 512, on Linux 4,096) are written completely if
        // there is room.
        self.inner.write(&bytes[..bytes.len().min(4_096)])
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
}

/// A connection whose reads and writes fail after a bound.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    stream
}
