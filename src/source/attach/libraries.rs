//! The TLS libraries of a process: those whose secrets can be taken, and those that cannot be seen.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use memchr::memmem;

use super::boringssl;
use super::processes::path;

/// The largest file that is searched. Programs that contain a browser engine have 300 MB.
const LARGEST: u64 = 1 << 30;

/// A place in a file of a process where secrets of TLS pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretPlace {
    /// OpenSSL 3: the exported function `EVP_KDF_derive`.
    OpenSsl(PathBuf),
    /// BoringSSL: the function that logs secrets, at this offset in the file.
    BoringSsl(PathBuf, u64),
    /// Go: the method that writes a line of a key log, if the symbol table names it.
    Go(PathBuf),
}

/// The TLS libraries of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// The places where secrets pass.
    pub places: Vec<SecretPlace>,
    /// Files that may export `SSL_read` and `SSL_write`, through which text above TLS passes.
    pub text: Vec<PathBuf>,
    /// The libraries whose secrets cannot be taken, each with the reason.
    pub unseen: Vec<String>,
}

/// Looks into the files that a process has mapped.
///
/// # Errors
/// The process has ended, or it belongs to another user.
pub fn libraries(process: u32) -> std::io::Result<Libraries> {
    let maps = fs::read_to_string(path(process, "maps"))?;
    // "7f00-7f10 r-xp 00000000 08:01 42   /usr/lib/libssl.so.3" (proc(5))
    let file = |line: &str| {
        let at = line.find('/')?;
        let permissions = line.split(' ').nth(1)?;
        permissions.contains('x').then(|| line[at..].to_owned())
    };
    let files: BTreeSet<String> = maps.lines().filter_map(file).collect();
    let mut found = Libraries::default();
    for file in files {
        // Then the file of this name is another one than the process has mapped.
        let replaced = file.strip_suffix(" (deleted)");
        let name = replaced.unwrap_or(&file);
        // As the process sees it, which may be in a container.
        let seen = path(process, "root").join(name.trim_start_matches('/'));
        // Reading a device or a pipe might never end.
        let is_small = fs::metadata(&seen).is_ok_and(|about| about.is_file() && about.len() <= LARGEST);
        let Some(bytes) = is_small.then(|| fs::read(&seen).ok()).flatten() else { continue };
        let known = (found.places.len(), found.text.len());
        found.add(name, seen, &bytes);
        if replaced.is_some() && (found.places.len(), found.text.len()) > known {
            found.places.truncate(known.0);
            found.text.truncate(known.1);
            found.unseen.push(format!("{name} was replaced after the process had loaded it: restart the process"));
        }
    }
    Ok(found)
}

impl Libraries {
    fn add(&mut self, name: &str, seen: PathBuf, bytes: &[u8]) {
        let has = |text: &str| memmem::find(bytes, text.as_bytes()).is_some();
        if has("\0SSL_read_ex\0") && has("\0SSL_do_handshake\0") {
            self.text.push(seen.clone());
        }
        // The name of a function alone is also in the programs that call it.
        if has("EVP_KDF_derive\0") && has("TLS13-KDF\0") {
            self.places.push(SecretPlace::OpenSsl(seen));
        } else if has("CLIENT_HANDSHAKE_TRAFFIC_SECRET\0") && has("BoringSSL") {
            match boringssl::log_secret(bytes) {
                Some(offset) => self.places.push(SecretPlace::BoringSsl(seen, offset)),
                None => self.unseen.push(format!("BoringSSL in {name}: the function that logs secrets was not found")),
            }
        } else if has(" Go buildinf:") && has("crypto/tls.(*Config).writeKeyLog") {
            self.places.push(SecretPlace::Go(seen));
        } else if let Some((_, what)) = UNSEEN.iter().find(|(marks, _)| marks.iter().all(|mark| has(mark))) {
            self.unseen.push(unseen(&format!("{what} in {name}")));
        }
    }
}

/// The note that a TLS library keeps its secrets, with what works instead.
pub(super) fn unseen(library: &str) -> String {
    format!("{library}: its secrets cannot be taken; \"mcptap proxy --intercept HOST\" shows its traffic")
}

/// Texts in the files of implementations that keep their secrets to themselves.
const UNSEEN: [(&[&str], &str); 4] = [
    (&["rustls", "tls13 "], "rustls"),
    (&["JNI_CreateJavaVM", "Java HotSpot"], "Java's own TLS"),
    (&["gnutls_handshake", "GNUTLS_"], "GnuTLS"),
    (&["OpenSSL 1.1", "SSL_CTX_set_keylog_callback"], "OpenSSL 1.1"),
];
