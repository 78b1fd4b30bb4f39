//! A connection to the server. What passes is noted on a tape: the bytes before TLS wraps them and after it is taken off.

use std::io;

use crate::http::connect::Connected;
use crate::http::socket::Socket;
use crate::source::tape::{Tape, TapeConnection};

/// A connection that is made.
#[derive(Debug)]
pub(super) struct TapedConnection {
    pub(super) socket: Socket,
    tape: Tape,
    connection: TapeConnection,
}

impl TapedConnection {
    /// A connection whose handshakes are over.
    pub(super) fn new(connected: Connected, tape: &Tape) -> io::Result<TapedConnection> {
        let socket = Socket::new(connected)?;
        let connection = tape.open(socket.socket().local_addr()?, socket.socket().peer_addr()?);
        Ok(TapedConnection { socket, tape: tape.clone(), connection })
    }

    /// Sends these bytes: what the socket does not take now waits for [`Socket::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Noted first: the answer may come before this returns.
        self.tape.sent(self.connection, bytes);
        self.socket.send(bytes)
    }

    /// Reads what is here: `None` if nothing is, no bytes at the end.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = self.socket.receive(buffer)?;
        self.tape.received(self.connection, &buffer[..read.unwrap_or(0)]);
        Ok(read)
    }

    /// Whether the server left the connection open and said nothing unasked.
    pub(super) fn is_open(&mut self) -> bool {
        matches!(self.receive(&mut [0; 1]), Ok(None))
    }
}

impl Drop for TapedConnection {
    fn drop(&mut self) {
        self.tape.close(self.connection);
    }
}
