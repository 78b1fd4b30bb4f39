//! Connects to the server of a URL: addresses, certificates, time limits, and helpful error
//! messages.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection};

use super::origin::Origin;
use super::trust;

/// Options for reaching a server.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Header fields that every request gets.
    pub fields: Vec<(String, String)>,
    /// Trusted certificates in PEM form. Empty means the certificates of the system.
    pub certificates: Vec<u8>,
    /// Accept every certificate without a check.
    pub insecure: bool,
    /// Trust the certificates of the system too.
    pub also_system: bool,
    /// The time limit for making a connection, and for the first event of an HTTP+SSE stream. Zero
    /// means no limit for connections.
    pub timeout: Duration,
}

impl ConnectOptions {
    /// The header fields of a request. Name and password of the URL are among them, unless other
    /// fields authorise the request.
    pub fn request_fields(&self, user: Option<&str>) -> Vec<(String, String)> {
        let mut fields = self.fields.clone();
        let has_other = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("Authorization"));
        if let Some(user) = user.filter(|_| !has_other) {
            let user = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
            let basic = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user));
            fields.push(("Authorization".to_owned(), basic));
        }
        fields
    }
}

/// Reads a file of certificates in PEM form. Without a file the result is empty, which means those
/// of the system.
pub fn certificates(file: Option<&Path>) -> Result<Vec<u8>> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    file.map_or(Ok(Vec::new()), read)
}

/// Makes TLS sessions with any server, whose certificate must be valid.
#[derive(Debug)]
pub struct TlsClient(ClientConfig);

impl TlsClient {
    /// A client that trusts what the options say.
    pub fn new(options: &ConnectOptions) -> Result<TlsClient> {
        trust::config(&options.certificates, options.insecure, options.also_system).map(TlsClient)
    }

    /// Makes a session with the server of this name, and offers these protocols (ALPN).
    pub fn open(
        &self,
        socket: &mut TcpStream,
        name: &str,
        protocols: Vec<Vec<u8>>,
        limit: Duration,
    ) -> Result<Connection, String> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| "not a valid host name for TLS".to_owned())?;
        let mut config = self.0.clone();
        config.alpn_protocols = protocols;
        let session = secured(socket, Arc::new(config), name, Some(limit));
        session.map(Connection::Client).map_err(|error| describe(&error))
    }
}

/// A connected socket, with its TLS session if the URL is `https`.
pub type Connected = (TcpStream, Option<Connection>);

/// Makes connections to one origin.
#[derive(Debug)]
pub struct Connector {
    origin: Origin,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    limit: Option<Duration>,
}

impl Connector {
    /// # Errors
    /// The given certificates are unusable, or the host is not a valid name for TLS.
    pub fn new(origin: Origin, options: &ConnectOptions) -> Result<Connector> {
        let tls = if origin.is_https {
            let name = ServerName::try_from(origin.host.clone())
                .with_context(|| format!("{:?} is not a valid host name for TLS", origin.host))?;
            Some((Arc::new(trust::config(&options.certificates, options.insecure, options.also_system)?), name))
        } else {
            None
        };
        Ok(Connector { origin, tls, limit: Some(options.timeout).filter(|limit| !limit.is_zero()) })
    }

    /// Makes a connection. Blocks until it is there, TLS handshake included.
    pub fn connect(&self) -> Result<Connected, String> {
        let mut socket = dial(&self.origin.host, self.origin.port, self.limit)?;
        let Some((config, name)) = &self.tls else { return Ok((socket, None)) };
        let session = secured(&mut socket, Arc::clone(config), name.clone(), self.limit);
        session.map(|session| (socket, Some(session.into()))).map_err(|error| describe(&error))
    }
}

/// Makes a TCP connection. Tries the addresses of the host in turn.
pub fn dial(host: &str, port: u16, limit: Option<Duration>) -> Result<TcpStream, String> {
    let addresses = (host, port).to_socket_addrs().map_err(|_| "the host name cannot be resolved".to_owned())?;
    let mut last = None;
    for address in addresses {
        let attempt = match limit {
            Some(limit) => TcpStream::connect_timeout(&address, limit),
            None => TcpStream::connect(address),
        };
        // Nagle's algorithm would delay a request until the one before is acknowledged.
        match attempt.and_then(|socket| socket.set_nodelay(true).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| "the host name cannot be resolved".to_owned(), |error| describe(&error)))
}

/// Makes a TLS session on a connection. Blocks until the handshake is complete.
fn secured(
    socket: &mut TcpStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    limit: Option<Duration>,
) -> io::Result<ClientConnection> {
    let mut session = ClientConnection::new(config, name).map_err(io::Error::other)?;
    let mut socket = BeforeDeadline::new(socket, limit);
    while session.is_handshaking() {
        session.complete_io(&mut socket)?;
    }
    Ok(session)
}

/// A blocking socket whose operations end at a deadline that they share.
#[derive(Debug)]
pub struct BeforeDeadline<'s> {
    socket: &'s TcpStream,
    deadline: Option<Instant>,
}

impl BeforeDeadline<'_> {
    /// The operations on this socket may take as long as `limit` together.
    pub fn new(socket: &TcpStream, limit: Option<Duration>) -> BeforeDeadline<'_> {
        BeforeDeadline { socket, deadline: limit.map(|limit| Instant::now() + limit) }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for BeforeDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(buffer)
    }
}

impl Write for BeforeDeadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream that can be read and written.
pub trait ReadWrite: Read + Write {}

impl<S: Read + Write> ReadWrite for S {}

/// The stream for the content of a connection, over TLS if it has a session.
pub fn stream<'s>(session: &'s mut Option<Connection>, socket: &'s mut BeforeDeadline<'_>) -> Box<dyn ReadWrite + 's> {
    match session {
        Some(Connection::Client(session)) => Box::new(rustls::Stream::new(session, socket)),
        Some(Connection::Server(session)) => Box::new(rustls::Stream::new(session, socket)),
        None => Box::new(socket),
    }
}

/// The meaning of a connection error, in words for the user.
pub fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused: no program listens there".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "the connection timed out".to_owned(),
        // rustls reports TLS errors as invalid data.
        ErrorKind::InvalidData => {
            let why = error.to_string();
            let hint = if why.contains("certificate") {
                ": use --cacert FILE to trust a certificate"
            } else if why.contains("corrupt message") {
                ": the server does not use TLS; try http://"
            } else {
                ""
            };
            format!("TLS: {why}{hint}")
        }
        _ => error.to_string(),
    }
}
