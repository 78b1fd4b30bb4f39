//! Whose word is believed of who a server is.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// Where systems keep the certificates that they trust, as one PEM file.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

/// How TLS is spoken, with these certificates (PEM) in place of the system's where there are any.
///
/// # Errors
/// They are none.
pub(super) fn config(certificates: &[u8], is_insecure: bool) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = if certificates.is_empty() && !is_insecure {
        builder.with_root_certificates(system())
    } else {
        let trusted =
            if is_insecure { None } else { Some(TrustedCertificates::new(certificates, Arc::clone(&provider))?) };
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Verifier { trusted, provider }))
    };
    Ok(config.with_no_client_auth())
}

/// The roots that the system trusts.
fn system() -> RootCertStore {
    let file = std::env::var_os("SSL_CERT_FILE").map(std::path::PathBuf::from);
    let mut files = file.into_iter().chain(SYSTEM_CERTIFICATES.into_iter().map(Into::into));
    let roots = roots(&certificates(&files.find_map(|file| std::fs::read(file).ok()).unwrap_or_default()));
    // A system without such a file: the roots that Mozilla trusts.
    let mozilla = || webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    if roots.is_empty() { mozilla() } else { roots }
}

fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn roots(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    roots
}

/// The certificates that were given: they are believed, and so is what they have signed.
///
/// Who makes a certificate for a server of their own mostly makes one that is its own authority (`openssl req -x509`), which the rules for chains do not
/// accept of a server. Given as such it is the one that was meant: it needs no chain, and its dates say nothing.
#[derive(Debug)]
struct TrustedCertificates {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl TrustedCertificates {
    fn new(pem: &[u8], provider: Arc<CryptoProvider>) -> Result<TrustedCertificates> {
        let certificates = certificates(pem);
        let roots = roots(&certificates);
        if roots.is_empty() {
            bail!("--cacert: no certificate in PEM form in it");
        }
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(TrustedCertificates { certificates, chains: chains.context("--cacert: its certificates cannot be used")? })
    }
}

/// Believes those that were given, or every certificate (`--insecure`). Whoever may show any certificate has the key of the one that he shows.
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
