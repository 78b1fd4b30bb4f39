//! How a server at a URL is reached: addresses, certificates, time limits, and what goes wrong with them.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::origin::Origin;

/// How a server at a URL is reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Header fields of every request.
    pub fields: Vec<(String, String)>,
    /// Certificates that are trusted, as PEM; empty: those of the system.
    pub certificates: Vec<u8>,
    /// No certificate is checked.
    pub insecure: bool,
    /// How long a connection may take to be made, and a stream to be announced.
    pub timeout: Duration,
}

/// A socket, and what speaks TLS over it.
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
    /// The certificates given are none, or the host's name can be none of a certificate.
    pub fn new(origin: Origin, options: &Options) -> Result<Connector> {
        let tls = if origin.is_https {
            let name =
                ServerName::try_from(origin.host.clone()).with_context(|| format!("{:?} is no host", origin.host))?;
            Some((Arc::new(config(options)?), name))
        } else {
            None
        };
        Ok(Connector { origin, tls, limit: Some(options.timeout).filter(|limit| !limit.is_zero()) })
    }

    /// Makes a connection, and waits for it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn connect(&self) -> Result<Connected, String> {
        let Origin { host, port, .. } = &self.origin;
        let addresses =
            (host.as_str(), *port).to_socket_addrs().map_err(|_| "the host's name is not known".to_owned())?;
        let mut last = None;
        for address in addresses {
            let attempt = match self.limit {
                Some(limit) => TcpStream::connect_timeout(&address, limit),
                None => TcpStream::connect(address),
            };
            match attempt {
                Ok(socket) => return self.secured(socket).map_err(|error| why(&error)),
                Err(error) => last = Some(error),
            }
        }
        Err(last.map_or_else(|| "the host's name is not known".to_owned(), |error| why(&error)))
    }

    fn secured(&self, mut socket: TcpStream) -> io::Result<Connected> {
        // A request must not wait for the acknowledgement of the one before.
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

/// What an error of a connection means.
pub(super) fn why(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused: nobody listens there".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no connection in time".to_owned(),
        // rustls wraps what it finds wrong as invalid data.
        ErrorKind::InvalidData => {
            let why = error.to_string();
            let hint = if why.contains("certificate") {
                ": --cacert FILE trusts a certificate"
            } else if why.contains("corrupt message") {
                ": what listens there does not speak TLS, and may be reached with http://"
            } else {
                ""
            };
            format!("TLS: {why}{hint}")
        }
        _ => error.to_string(),
    }
}

/// Where systems keep the certificates that they trust, as one PEM file.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// How TLS is spoken.
fn config(options: &Options) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
    } else {
        builder.with_root_certificates(trusted(&options.certificates)?)
    };
    Ok(config.with_no_client_auth())
}

/// Whose word is believed of who a server is.
fn trusted(given: &[u8]) -> Result<RootCertStore> {
    let read = |pem: &[u8]| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(pem).filter_map(Result::ok));
        roots
    };
    if !given.is_empty() {
        let roots = read(given);
        if roots.is_empty() {
            bail!("--cacert: no certificate in PEM form in it");
        }
        return Ok(roots);
    }
    let file = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let mut files = file.into_iter().chain(SYSTEM_CERTIFICATES.into_iter().map(Into::into));
    let roots = read(&files.find_map(|file| std::fs::read(file).ok()).unwrap_or_default());
    // A system without such a file: the roots that Mozilla trusts.
    let mozilla = || webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    Ok(if roots.is_empty() { mozilla() } else { roots })
}

/// Believes every certificate (`--insecure`).
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // Whoever may show any certificate has the key of the one that he shows.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
