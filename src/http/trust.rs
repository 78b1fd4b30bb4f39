//! Decides which server certificates are trusted.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The files in which common systems store their trusted certificates (PEM).
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// Gives libraries that bring no cryptography of their own the one of this program.
#[cfg(feature = "fleet")]
pub fn install_provider() {
    // A second call changes nothing.
    let _ = ring::default_provider().install_default();
}

/// The TLS configuration. Certificates given as PEM replace those of the system, or with
/// `also_system` are added to them.
pub(super) fn config(certificates: &[u8], is_insecure: bool, also_system: bool) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = if certificates.is_empty() && !is_insecure {
        builder.with_root_certificates(system())
    } else {
        let trusted = if is_insecure {
            None
        } else {
            Some(TrustedCertificates::new(certificates, also_system, Arc::clone(&provider))?)
        };
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Verifier { trusted, provider }))
    };
    Ok(config.with_no_client_auth())
}

/// The root certificates of the system.
fn system() -> RootCertStore {
    let file = std::env::var_os("SSL_CERT_FILE").and_then(|file| std::fs::read(file).ok());
    let roots = roots(&certificates(&file.or_else(system_certificates).unwrap_or_default()));
    // On a system without such a file: the roots that Mozilla trusts.
    let mozilla = || webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    if roots.is_empty() { mozilla() } else { roots }
}

/// The file of the system's certificates.
pub(super) fn system_certificates() -> Option<Vec<u8>> {
    SYSTEM_CERTIFICATES.into_iter().find_map(|file| std::fs::read(file).ok())
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn roots(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    roots
}

/// Certificates that the user trusts. They are accepted themselves, and as the issuers of others.
///
/// Private servers often have a certificate that is its own authority (`openssl req -x509`). The
/// rules for chains do not accept such a certificate for a server. If the user gives exactly this
/// certificate, it is accepted without a chain and without a check of its dates.
#[derive(Debug)]
struct TrustedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl TrustedCertificates {
    fn new(pem: &[u8], also_system: bool, provider: Arc<CryptoProvider>) -> Result<TrustedCertificates> {
        let certificates = certificates(pem);
        let mut roots = roots(&certificates);
        if roots.is_empty() {
            bail!("--cacert: the file contains no certificate in PEM form");
        }
        if also_system {
            roots.extend(system().roots);
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(TrustedCertificates { certificates, chains: chains.context("--cacert: its certificates cannot be used")? })
    }
}

/// Accepts the certificates of the user, or every certificate (`--insecure`). In the second case
/// signatures are not checked either: a server that may show any certificate can show one whose
/// key it has.
#[derive(Debug)]
struct Verifier {
    trusted: Option<TrustedCertificates>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn signature(
        &self,
        check: impl FnOnce(&WebPkiServerVerifier) -> Result<HandshakeSignatureValid, Error>,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.trusted.as_ref().map_or(Ok(HandshakeSignatureValid::assertion()), |trusted| check(&trusted.chains))
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        if trusted.certificates.iter().any(|trusted| trusted == certificate) {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        trusted.chains.verify_server_cert(certificate, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(|chains| chains.verify_tls12_signature(message, certificate, signed))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signature(|chains| chains.verify_tls13_signature(message, certificate, signed))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
