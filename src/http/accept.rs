//! TLS towards a client, in place of the server that it wants.
//!
//! The client's first message says what it offers. The proxy offers the same to the server, and
//! then accepts with what the server chose. So the bytes inside are of one protocol on both sides.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::Connection;
use rustls::server::{Accepted, Acceptor};

use super::authority::Authority;
use super::connect::BeforeDeadline;

/// Protocols that the decoder reads, as ALPN names them (RFC 7301, RFC 9113 section 3.2). Others
/// are not offered to the server.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The first message of a client (ClientHello).
pub struct Hello {
    accepted: Accepted,
}

impl Hello {
    /// Reads the first message.
    pub fn read(socket: &TcpStream, limit: Duration) -> io::Result<Hello> {
        let mut acceptor = Acceptor::default();
        let mut socket = BeforeDeadline::new(socket, Some(limit));
        loop {
            if acceptor.read_tls(&mut socket)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(Hello { accepted }),
                Ok(None) => {}
                Err((error, mut alert)) => {
                    // The connection ends in any case.
                    let _ = alert.write_all(&mut socket);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            }
        }
    }

    /// The host name that the client wants (SNI).
    pub fn host(&self) -> Option<String> {
        self.accepted.client_hello().server_name().map(str::to_owned)
    }

    /// The protocols that the client offers, as far as the decoder reads them.
    pub fn protocols(&self) -> Vec<Vec<u8>> {
        let hello = self.accepted.client_hello();
        let offered = hello.alpn().into_iter().flatten().filter(|offered| PROTOCOLS.contains(offered));
        offered.map(<[u8]>::to_vec).collect()
    }

    /// Completes the handshake with a certificate for `host` and with this protocol.
    pub fn accept(
        self,
        socket: &TcpStream,
        authority: &Authority,
        host: &str,
        protocol: Option<Vec<u8>>,
        limit: Duration,
    ) -> io::Result<Connection> {
        let mut socket = BeforeDeadline::new(socket, Some(limit));
        let config = authority.server(host, protocol).map_err(io::Error::other)?;
        let mut session = match self.accepted.into_connection(Arc::new(config)) {
            Ok(session) => session,
            Err((error, mut alert)) => {
                let _ = alert.write_all(&mut socket);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        };
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Connection::Server(session))
    }
}

/// Whether the client begins with TLS. `None` if it sends nothing within the limit.
pub fn begins_with_tls(socket: &TcpStream, limit: Duration) -> Option<bool> {
    /// The type of records that contain handshake messages (RFC 8446 section 5.1).
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    socket.set_read_timeout(Some(limit)).ok()?;
    (socket.peek(&mut first).ok()? == 1).then_some(first[0] == HANDSHAKE)
}
