//! A socket, in the clear or inside TLS, that never makes its owner wait.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};

use rustls::ClientConnection;

use super::connect::Connected;

/// Memory kept for what is unsent.
const UNSENT: usize = 64 << 10;

/// A connection whose handshakes are over.
#[derive(Debug)]
pub struct Socket {
    socket: TcpStream,
    tls: Option<Tls>,
    /// What the socket has not taken yet, where there is no TLS, which keeps its own.
    unsent: VecDeque<u8>,
    /// To be ended once all is sent.
    closes_when_sent: bool,
}

#[derive(Debug)]
struct Tls {
    session: Box<ClientConnection>,
    /// Plain bytes that were read from the socket and not asked for yet.
    buffered: usize,
}

impl Socket {
    /// # Errors
    /// The socket is none that works without waiting.
    pub fn new((socket, session): Connected) -> io::Result<Socket> {
        socket.set_nonblocking(true)?;
        let tls = session.map(|mut session| {
            // Whoever sends bounds what is unsent.
            session.set_buffer_limit(None);
            Tls { session: Box::new(session), buffered: 0 }
        });
        Ok(Socket { socket, tls, unsent: VecDeque::new(), closes_when_sent: false })
    }

    /// What is to be waited for.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends these bytes: what the socket does not take now waits for [`Socket::flush`].
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => tls.session.writer().write_all(bytes)?,
            None => {
                if self.unsent.is_empty() {
                    bytes = &bytes[write_some(&self.socket, bytes)?..];
                }
                self.unsent.extend(bytes);
            }
        }
        self.flush()
    }

    /// Whether something waits for the socket to take it.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.session.wants_write())
    }

    /// Writes what the socket takes now.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            let written = match &mut self.tls {
                Some(tls) => tls.session.write_tls(&mut self.socket),
                None => self.socket.write(self.unsent.as_slices().0).inspect(|count| drop(self.unsent.drain(..count))),
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // The memory of a large message is not kept.
        self.unsent.shrink_to(UNSENT);
        if mem::take(&mut self.closes_when_sent) { self.socket.shutdown(Shutdown::Write) } else { Ok(()) }
    }

    /// Nothing more is sent. What comes is still read.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn end(&mut self) -> io::Result<()> {
        self.closes_when_sent = true;
        self.tls.iter_mut().for_each(|tls| tls.session.send_close_notify());
        self.flush()
    }

    /// Reads what is here: `None` if nothing is, no bytes at the end.
    ///
    /// # Errors
    /// The connection is broken; inside TLS also where it ended and its peer did not say so, since anybody may have ended it.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let read = match &mut self.tls {
                Some(tls) => tls.read(&mut self.socket, buffer),
                None => self.socket.read(buffer),
            };
            match read {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // TLS may want to say something itself: that it goes over to new keys, for one.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.flush().map(|()| None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether there are bytes of which the socket, when it is asked, knows nothing any more.
    pub fn has_buffered_plaintext(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.buffered > 0)
    }
}

/// How much of this a socket takes at once.
fn write_some(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match socket.write(bytes) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        written => written,
    }
}

impl Tls {
    fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => {
                    self.buffered = self.buffered.saturating_sub(*read.as_ref().unwrap_or(&0));
                    return read;
                }
            }
            // At its end the next look says whether it was a proper one.
            self.session.read_tls(socket)?;
            let state =
                self.session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.buffered = state.plaintext_bytes_to_read();
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.send_close_notify();
            // Whether it is heard or not, the connection is over.
            let _ = self.flush();
        }
    }
}
