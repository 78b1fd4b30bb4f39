//! The certificate authority of this machine's user. It issues the certificates that a proxy shows
//! to clients in place of those of the servers.
//!
//! It is made once. Its key can be read by the user only and never leaves the folder. Clients trust
//! it only if the user tells them to.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SerialNumber, date_time_ymd,
};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ParsedCertificate;
use rustls::{ServerConfig, version};

use super::trust;

/// The name of the authority, as lists of certificates show it.
const NAME: &str = "mcptap authority of this user";

/// Time for which the authority is valid. A new one has to be given to every client again.
const AUTHORITY_YEARS: i32 = 10;

/// Days for which the certificate of a host is valid. Apple's systems accept at most 398.
const HOST_DAYS: i32 = 90;

/// A certificate authority.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// The key of all certificates that it issues.
    host_key: KeyPair,
}

impl Authority {
    /// Opens the authority in this folder. Makes it if there is none.
    ///
    /// # Errors
    /// It cannot be read or made, others can read its key, or the files do not belong together.
    pub fn open(folder: &Path) -> Result<Authority> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join("authority.key");
        let make = || Ok(pem("PRIVATE KEY", &KeyPair::generate()?.serialize_der()));
        let text = read_or_make(&path, make)?;
        let mode = fs::metadata(&path).with_context(|| format!("cannot read {}", path.display()))?.mode();
        ensure!(
            mode & 0o077 == 0,
            "{} can be read by others: delete the folder {}, and a new authority is made",
            path.display(),
            folder.display()
        );
        let unusable = || format!("{} is not a key of an authority", path.display());
        let der = PrivatePkcs8KeyDer::from_pem_slice(&text).with_context(unusable)?;
        let key = KeyPair::try_from(&der).with_context(unusable)?;
        let issuer = Issuer::new(authority_parameters()?, key);
        let authority = Authority { folder: folder.to_owned(), issuer, host_key: KeyPair::generate()? };
        authority.write_certificates()?;
        Ok(authority)
    }

    /// The file with the certificate of the authority (PEM), for clients that trust it in addition.
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// The file with that certificate and those of the system (PEM), for clients that trust the
    /// certificates of one file only.
    pub fn bundle(&self) -> PathBuf {
        self.folder.join("with-system.pem")
    }

    fn write_certificates(&self) -> Result<()> {
        let path = self.certificate();
        let key = self.issuer.key();
        let make = || Ok(pem("CERTIFICATE", authority_parameters()?.self_signed(key)?.der()));
        let text = read_or_make(&path, make)?;
        let certificate = CertificateDer::from_pem_slice(&text);
        let certificate = certificate.with_context(|| format!("{} is not a certificate", path.display()))?;
        let known = ParsedCertificate::try_from(&certificate)?.subject_public_key_info();
        ensure!(
            memchr::memmem::find(&known, key.public_key_raw()).is_some(),
            "{} is not the certificate of its key: delete the folder {}, and a new authority is made",
            path.display(),
            self.folder.display()
        );
        let system = trust::system_certificates().unwrap_or_default();
        replace(&self.bundle(), &[&text[..], &system].concat(), 0o644)
    }

    /// The TLS configuration of a server with this host name or address. The only protocol that it
    /// offers in ALPN is the given one.
    pub(super) fn server(&self, host: &str, protocol: Option<Vec<u8>>) -> Result<ServerConfig> {
        let mut parameters = CertificateParams::new([host.to_owned()])?;
        set_validity(&mut parameters, Span::new().days(HOST_DAYS))?;
        // Clients refuse two certificates with one number.
        let mut number = [0; 16];
        SystemRandom::new().fill(&mut number).map_err(|_| rcgen::Error::RingUnspecified)?;
        number[0] &= 0x7f;
        parameters.serial_number = Some(SerialNumber::from_slice(&number));
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        // "Upper bounds": a common name has at most 64 characters (RFC 5280 appendix A.1).
        parameters.distinguished_name.push(DnType::CommonName, host.chars().take(64).collect::<String>());
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        parameters.use_authority_key_identifier_extension = true;
        let certificate = parameters.signed_by(&self.host_key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.host_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = protocol.into_iter().collect();
        // Each connection has its own configuration, so nothing could be resumed.
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn authority_parameters() -> Result<CertificateParams> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, NAME);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut parameters, Span::new().years(AUTHORITY_YEARS))?;
    Ok(parameters)
}

/// Makes a certificate valid from yesterday, because clocks differ, for this time.
fn set_validity(parameters: &mut CertificateParams, length: Span) -> Result<()> {
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let day = |date: Date| date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8);
    parameters.not_before = day(today.yesterday()?);
    parameters.not_after = day(today.checked_add(length)?);
    Ok(())
}

/// The content of a file. If it does not exist, it is made with mode 0600. Of two programs that do
/// so at once, both get the same content.
fn read_or_make(path: &Path, make: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    let failed = || format!("cannot write {}", path.display());
    if let Err(error) = fs::metadata(path)
        && error.kind() == ErrorKind::NotFound
    {
        let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).with_context(failed)?;
        file.write_all(&make()?).with_context(failed)?;
        if let Err(error) = file.persist_noclobber(path) {
            let is_made = error.error.kind() == ErrorKind::AlreadyExists;
            ensure!(is_made, "cannot write {}: {}", path.display(), error.error);
        }
    }
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Replaces the content of a file at once.
fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("."))).with_context(failed)?;
    file.write_all(content).with_context(failed)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(mode)).with_context(failed)?;
    file.persist(path).map(drop).with_context(failed)
}

/// The textual encoding of a value (RFC 7468).
fn pem(label: &str, der: &[u8]) -> Vec<u8> {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n").into_bytes();
    for line in text.as_bytes().chunks(64) {
        pem.extend_from_slice(line);
        pem.push(b'\n');
    }
    pem.extend_from_slice(format!("-----END {label}-----\n").as_bytes());
    pem
}
