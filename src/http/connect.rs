//! Connects to the server of a URL: addresses, certificates, time limits, and helpful error
//! messages.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

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
    /// The time limit for making a connection, and for the first event of an HTTP+SSE stream. Zero
    /// means no limit for connections.
    pub timeout: Duration,
}

/// Reads a file of certificates in PEM form. Without a file the result is empty, which means those
/// of the system.
///
/// # Errors
/// The file cannot be read.
pub fn certificates(file: Option<&Path>) -> Result<Vec<u8>> {
    let read = |file: &Path| fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    file.map_or(Ok(Vec::new()), read)
}

/// A connected socket, with its TLS session if the URL is `https`.
pub type Connected = (TcpStream, Option<ClientConnection>);

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
            Some((Arc::new(trust::config(&options.certificates, options.insecure)?), name))
        } else {
            None
        };
        Ok(Connector { origin, tls, limit: Some(options.timeout).filter(|limit| !limit.is_zero()) })
    }

    /// Makes a connection. Blocks until it is there, TLS handshake included.
    ///
    /// # Errors
    /// The reason, in words for the user.
    pub fn connect(&self) -> Result<Connected, String> {
        let Origin { host, port, .. } = &self.origin;
        let addresses =
            (host.as_str(), *port).to_socket_addrs().map_err(|_| "the host name cannot be resolved".to_owned())?;
        let mut last = None;
        for address in addresses {
            let attempt = match self.limit {
                Some(limit) => TcpStream::connect_timeout(&address, limit),
                None => TcpStream::connect(address),
            };
            match attempt {
                Ok(socket) => return self.secured(socket).map_err(|error| describe(&error)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| "the host name cannot be resolved".to_owned(), |error| describe(&error)))
    }

    fn secured(&self, mut socket: TcpStream) -> io::Result<Connected> {
        // Nagle's algorithm would delay a request until the one before is acknowledged.
        socket.set_nodelay(true)?;
        let session = match &self.tls {
            Some((config, name)) => {
                socket.set_read_timeout(self.limit)?;
                socket.set_write_timeout(self.limit)?;
                let mut session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
                while session.is_handshaking() {
                    session.complete_io(&mut socket)?;
                }
                Some(session)
            }
            None => None,
        };
        Ok((socket, session))
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
