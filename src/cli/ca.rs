//! `mcptap ca`: shows how clients are told to trust the authority of `mcptap proxy --intercept`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{output, target};
use crate::http::authority::Authority;
use crate::view::command_line;

/// Each runtime, and what tells it to trust the authority. `$CERT` stands for its certificate, and
/// `$BUNDLE` for the file that has those of the system too.
const RUNTIMES: [(&str, &str); 12] = [
    ("Node.js", "export NODE_EXTRA_CA_CERTS=$CERT; from version 24 NODE_USE_ENV_PROXY=1 makes it use HTTPS_PROXY"),
    ("Bun", "export NODE_EXTRA_CA_CERTS=$CERT"),
    ("Deno", "export DENO_CERT=$CERT"),
    ("Python", "export SSL_CERT_FILE=$BUNDLE (httpx, aiohttp) REQUESTS_CA_BUNDLE=$BUNDLE (requests)"),
    ("Go, OpenSSL", "export SSL_CERT_FILE=$BUNDLE"),
    ("Rust", "export SSL_CERT_FILE=$BUNDLE, for programs that use the certificates of the system"),
    ("curl", "curl --cacert $CERT, or export CURL_CA_BUNDLE=$BUNDLE"),
    ("git", "export GIT_SSL_CAINFO=$BUNDLE"),
    (
        "Java",
        "keytool -importcert -cacerts -alias mcptap -file $CERT (password changeit); java -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=8877",
    ),
    ("Debian, Ubuntu", "sudo cp $CERT /usr/local/share/ca-certificates/mcptap.crt && sudo update-ca-certificates"),
    ("Fedora, RHEL", "sudo cp $CERT /etc/pki/ca-trust/source/anchors/mcptap.pem && sudo update-ca-trust"),
    ("macOS", "security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db $CERT"),
];

/// The files that make clients trust the authority.
#[derive(Clone, Debug)]
pub struct Trust {
    certificate: PathBuf,
    bundle: PathBuf,
}

impl Trust {
    pub fn of(authority: &Authority) -> Trust {
        Trust { certificate: authority.certificate(), bundle: authority.bundle() }
    }

    /// The environment of a client that uses the proxy at this address, as words of a shell.
    pub fn environment(&self, proxy: SocketAddr) -> String {
        let variables = self.variables(proxy).map(|(name, value)| format!("{name}={}", command_line::quoted(&[value])));
        format!("env {}", variables.join(" "))
    }

    /// The environment of a client that uses the proxy at this address.
    pub fn variables(&self, proxy: SocketAddr) -> [(&'static str, String); 7] {
        let path = |path: &Path| path.display().to_string();
        [
            ("HTTPS_PROXY", format!("http://{proxy}")),
            ("HTTP_PROXY", format!("http://{proxy}")),
            ("http_proxy", format!("http://{proxy}")),
            ("NODE_USE_ENV_PROXY", "1".to_owned()),
            ("NODE_EXTRA_CA_CERTS", path(&self.certificate)),
            ("SSL_CERT_FILE", path(&self.bundle)),
            ("REQUESTS_CA_BUNDLE", path(&self.bundle)),
        ]
    }
}

/// The authority of this user. It is made the first time.
pub fn authority() -> Result<Authority> {
    let database = target::database(None)?;
    let folder = database.parent().context("cannot find the data directory")?.join("authority");
    Authority::open(&folder).with_context(|| format!("cannot use the authority in {}", folder.display()))
}

pub fn run() -> Result<()> {
    let trust = Trust::of(&authority()?);
    let word = |path: &Path| command_line::quoted(&[path.display().to_string()]);
    let (certificate, bundle) = (word(&trust.certificate), word(&trust.bundle));
    let mut out = output::stdout();
    writeln!(
        out,
        "The authority of \"mcptap proxy --intercept\". Whoever has its key can read what clients that trust it"
    )?;
    writeln!(out, "send, so prefer a variable for one client to a change of the system.\n")?;
    writeln!(out, "CERT={certificate}      # its certificate")?;
    writeln!(out, "BUNDLE={bundle}  # with those of the system\n")?;
    for (runtime, how) in RUNTIMES {
        writeln!(out, "{runtime:<15} {}", how)?;
    }
    Ok(out.flush()?)
}
