//! A connection to the server, in the clear or inside TLS, that never makes its owner wait. What passes is noted on a tape: the bytes before TLS wraps them
//! and after it is taken off.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

use super::connect::Connected;
use crate::source::tape::{Tape, TapeConnection};

/// A connection that is made.
#[derive(Debug)]
pub(super) struct Wire {
    socket: TcpStream,
    tls: Option<Tls>,
    /// What the socket has not taken yet, where there is no TLS, which keeps its own.
    unsent: VecDeque<u8>,
    tape: Tape,
    connection: TapeConnection,
}

#[derive(Debug)]
struct Tls {
    session: Box<ClientConnection>,
    /// Plain bytes that were read from the socket and not asked for yet.
    held: usize,
}

impl Wire {
    /// A connection whose handshakes are over.
    pub(super) fn new((socket, session): Connected, tape: &Tape) -> io::Result<Wire> {
        socket.set_nonblocking(true)?;
        let connection = tape.open(socket.local_addr()?, socket.peer_addr()?);
        let tls = session.map(|mut session| {
            // What is sent is bounded by what was recorded.
            session.set_buffer_limit(None);
            Tls { session: Box::new(session), held: 0 }
        });
        Ok(Wire { socket, tls, unsent: VecDeque::new(), tape: tape.clone(), connection })
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends these bytes: what the socket does not take now waits for [`Wire::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Noted first: the answer may come before this returns.
        self.tape.sent(self.connection, bytes);
        match &mut self.tls {
            Some(tls) => tls.session.writer().write_all(bytes)?,
            None => self.unsent.extend(bytes),
        }
        self.flush()
    }

    /// Whether something waits for the socket to take it.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.session.wants_write())
    }

    /// Writes what the socket takes now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
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
        Ok(())
    }

    /// Reads what is here: `None` if nothing is, no bytes at the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let read = match &mut self.tls {
                Some(tls) => tls.read(&mut self.socket, buffer),
                None => self.socket.read(buffer),
            };
            match read {
                Ok(count) => {
                    self.tape.received(self.connection, &buffer[..count]);
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // TLS may want to say something itself: that it goes over to new keys, for one.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.flush().map(|()| None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether there are bytes of which the socket, when it is asked, knows nothing any more.
    pub(super) fn holds_received(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.held > 0)
    }

    /// Whether the server left the connection open and said nothing unasked.
    pub(super) fn is_open(&mut self) -> bool {
        matches!(self.receive(&mut [0; 1]), Ok(None))
    }
}

impl Tls {
    fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => {
                    self.held = self.held.saturating_sub(*read.as_ref().unwrap_or(&0));
                    return read;
                }
            }
            // At its end the next look says whether it was a proper one.
            self.session.read_tls(socket)?;
            let state =
                self.session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.held = state.plaintext_bytes_to_read();
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.session.send_close_notify();
            // Whether it is heard or not, the connection is over.
            let _ = self.flush();
        }
        self.tape.close(self.connection);
    }
}
