//! How a server at a URL is reached: certificates, time limits, and what the errors of it mean.

use std::time::Duration;

use anyhow::{Result, bail};
use ureq::{Agent, Error};

use super::connector::TapedConnector;
use super::{Failure, FailureKind};
use crate::source::tape::Tape;

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

/// What an error of ureq means.
pub(super) fn failure(error: &Error, url: &str) -> Failure {
    let what = match error {
        Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            "connection refused: nobody listens there".to_owned()
        }
        // rustls wraps what it finds wrong in a handshake as invalid data.
        Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData => tls(&io.to_string()),
        Error::Rustls(error) => tls(&error.to_string()),
        Error::Timeout(_) => "no connection in time".to_owned(),
        Error::HostNotFound => "the host's name is not known".to_owned(),
        other => other.to_string(),
    };
    Failure::new(FailureKind::Server, format!("cannot reach {url}: {what}"))
}

/// What went wrong with TLS, and what to try.
fn tls(why: &str) -> String {
    let hint = if why.contains("certificate") {
        ": --cacert FILE trusts a certificate"
    } else if why.contains("corrupt message") {
        ": what listens there does not speak TLS, and may be reached with http://"
    } else {
        ""
    };
    format!("TLS: {why}{hint}")
}

/// Where systems keep the certificates that they trust, as one PEM file.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// What sends requests as the options say, and notes what goes over the wire.
///
/// # Errors
/// The certificates given are none.
pub(super) fn agent(options: &Options, tape: Tape) -> Result<Agent> {
    use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
    let given = !options.certificates.is_empty();
    let system = || {
        let file = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
        let files = file.into_iter().chain(SYSTEM_CERTIFICATES.into_iter().map(Into::into));
        files.into_iter().find_map(|file| std::fs::read(file).ok()).unwrap_or_default()
    };
    let pem = if given { options.certificates.clone() } else { system() };
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if given && certificates.is_empty() {
        bail!("--cacert: no certificate in PEM form in it");
    }
    // A system without such a file: the roots that Mozilla trusts.
    let roots = if certificates.is_empty() { RootCerts::WebPki } else { RootCerts::new_with_certs(&certificates) };
    let tls = TlsConfig::builder().root_certs(roots).disable_verification(options.insecure).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .timeout_connect(Some(options.timeout))
        // Redirects are ours to judge: see origin.rs.
        .max_redirects(0)
        .user_agent(concat!("mcptap/", env!("CARGO_PKG_VERSION")))
        .build();
    let resolver = ureq::unversioned::resolver::DefaultResolver::default();
    Ok(Agent::with_parts(config, TapedConnector::new(tape), resolver))
}
