//! A connection to the server whose traffic is recorded on a tape: outside of TLS, as plain bytes.

use std::io;

use crate::http::connect::Connected;
use crate::http::socket::Socket;
use crate::source::tape::{Tape, TapeConnection};

/// A connection and its recording.
#[derive(Debug)]
pub(super) struct TapedConnection {
    pub(super) socket: Socket,
    tape: Tape,
    connection: TapeConnection,
}

impl TapedConnection {
    /// Wraps a connection whose handshakes are complete.
    pub(super) fn new((socket, session): Connected, tape: &Tape) -> io::Result<TapedConnection> {
        let socket = Socket::new(socket, session)?;
        let connection = tape.open(socket.socket().local_addr()?, socket.socket().peer_addr()?);
        Ok(TapedConnection { socket, tape: tape.clone(), connection })
    }

    /// Sends bytes. What the socket does not take now is sent by [`Socket::flush`].
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Recorded first, because the response may arrive before this returns.
        self.tape.sent(self.connection, bytes);
        self.socket.send(bytes)
    }

    /// Reads what has arrived. `None` means that nothing has; zero bytes mean that the server
    /// closed the connection.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = self.socket.receive(buffer)?;
        self.tape.received(self.connection, &buffer[..read.unwrap_or(0)]);
        Ok(read)
    }

    /// Whether an idle connection can be used: the server neither closed it nor sent anything.
    pub(super) fn is_open(&mut self) -> bool {
        matches!(self.receive(&mut [0; 1]), Ok(None))
    }
}

impl Drop for TapedConnection {
    fn drop(&mut self) {
        self.tape.close(self.connection);
    }
}
