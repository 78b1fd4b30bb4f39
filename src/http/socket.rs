//! A non-blocking socket, with or without TLS.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustls::Connection;

/// Memory that the buffer of unsent bytes retains when it is empty, in bytes.
const UNSENT: usize = 64 << 10;

/// A connection whose TCP and TLS handshakes are complete.
#[derive(Debug)]
pub struct Socket {
    socket: Arc<TcpStream>,
    tls: Option<Tls>,
    /// Bytes that the socket has not taken yet. With TLS the TLS session buffers them instead.
    unsent: VecDeque<u8>,
    /// The connection is shut down for writing once all bytes are sent.
    closes_when_sent: bool,
}

#[derive(Debug)]
struct Tls {
    session: Box<Connection>,
    /// Decrypted bytes that are buffered in the session.
    buffered: usize,
}

impl Socket {
    /// Makes the socket non-blocking. `session` is the TLS session on it.
    pub fn new(socket: impl Into<Arc<TcpStream>>, session: Option<Connection>) -> io::Result<Socket> {
        let socket = socket.into();
        socket.set_nonblocking(true)?;
        let tls = session.map(|mut session| {
            // The callers limit how much they send, so the session needs no limit.
            session.set_buffer_limit(None);
            // The peer may have sent more together with the end of its handshake.
            let buffered = session.process_new_packets().map_or(0, |state| state.plaintext_bytes_to_read());
            Tls { session: Box::new(session), buffered }
        });
        Ok(Socket { socket, tls, unsent: VecDeque::new(), closes_when_sent: false })
    }

    /// The socket, for `poll`.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends bytes. What the socket does not take now is buffered; [`Socket::flush`]
    /// sends it later.
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

    /// Whether bytes wait to be sent.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.session.wants_write())
    }

    /// Sends as many buffered bytes as the socket takes now.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            let written = match &mut self.tls {
                Some(tls) => tls.session.write_tls(&mut &*self.socket),
                None => {
                    (&*self.socket).write(self.unsent.as_slices().0).inspect(|count| drop(self.unsent.drain(..count)))
                }
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        // Releases the memory of a large message.
        self.unsent.shrink_to(UNSENT);
        if mem::take(&mut self.closes_when_sent) { self.socket.shutdown(Shutdown::Write) } else { Ok(()) }
    }

    /// Shuts the connection down for writing once all bytes are sent. Reading goes on.
    pub fn end(&mut self) -> io::Result<()> {
        self.closes_when_sent = true;
        self.tls.iter_mut().for_each(|tls| tls.session.send_close_notify());
        self.flush()
    }

    /// Reads what has arrived. `None` means that nothing has; zero bytes mean that the peer
    /// closed the connection.
    ///
    /// # Errors
    /// The connection is broken. With TLS also a close without `close_notify`, which an attacker
    /// could have caused.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let read = match &mut self.tls {
                Some(tls) => tls.read(&self.socket, buffer),
                None => (&*self.socket).read(buffer),
            };
            match read {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // TLS may have to answer by itself, for example with a key update.
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.flush().map(|()| None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether decrypted bytes are buffered. `poll` does not report them.
    pub fn has_buffered_plaintext(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.buffered > 0)
    }
}

/// Writes as many bytes as the socket takes now. Returns their number.
fn write_some(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match socket.write(bytes) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
        written => written,
    }
}

impl Tls {
    fn read(&mut self, mut socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => {
                    self.buffered = self.buffered.saturating_sub(*read.as_ref().unwrap_or(&0));
                    return read;
                }
            }
            // After the end of the connection, the next read reports whether TLS was closed
            // properly.
            self.session.read_tls(&mut socket)?;
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
            // The connection ends in any case, so errors are ignored.
            let _ = self.flush();
        }
    }
}
