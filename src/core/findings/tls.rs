//! Rules about TLS: what was not decrypted, why, and what to do about it.

use super::{Rule, Severity};
use crate::decode::Anomaly;

pub const RULES: &[&Rule] = &[&NO_SECRETS, &LATE, &NOT_OPENED, &UNSUPPORTED, &RECORDS_LOST];

pub static NO_SECRETS: Rule = Rule {
    id: "tls-no-secrets",
    severity: Severity::Info,
    layer: "tls",
    title: "The content of TLS connections is encrypted, and their secrets are not at hand",
    spec: "RFC 8446 section 7.1",
    why: "Handshake, names, sizes and times are shown; what was said is not.",
    example: "a capture of an https:// server without --keylog",
    remedy: "Run the client or the server with SSLKEYLOGFILE=keys.log and give --keylog keys.log; or put a proxy in between; or use http:// on this \
             machine.",
    ..Rule::BLANK
};

pub static LATE: Rule = Rule {
    id: "tls-handshake-not-captured",
    severity: Severity::Info,
    layer: "tls",
    title: "TLS connections began before the capture",
    spec: "RFC 8446 section 4.1.2",
    why: "The ClientHello says which secrets of a key log open a connection. Without it they are tried, within bounds: a record of TLS 1.3 \
          proves which fit. TLS 1.2 needs the ServerHello too, and keys that were updated before the capture began are not found.",
    example: "a capture that was started while a client was already connected",
    remedy: "Start the capture first, then the client; or make the client connect again.",
    ..Rule::BLANK
};

pub static NOT_OPENED: Rule = Rule {
    id: "tls-secrets-do-not-fit",
    severity: Severity::Warning,
    layer: "tls",
    title: "TLS records do not open with the secrets that the key log has for their session",
    spec: "RFC 8446 section 5.2",
    why: "What stands in these records is not shown.",
    example: "a key log that was edited, or records that were damaged on the way",
    remedy: "Use the key log that was written while the capture was taken.",
    ..Rule::BLANK
};

pub static UNSUPPORTED: Rule = Rule {
    id: "tls-unsupported",
    severity: Severity::Warning,
    layer: "tls",
    title: "TLS records are protected in a way that mcptap does not open",
    spec: "RFC 8446 section 9.1",
    why: "What stands in these records is not shown, though their secrets are at hand.",
    example: "TLS 1.0, or a suite with CBC or CCM",
    remedy: "Make one of the two sides use TLS 1.2 or 1.3 with AES-GCM or ChaCha20-Poly1305.",
    ..Rule::BLANK
};

pub static RECORDS_LOST: Rule = Rule {
    id: "tls-records-lost",
    severity: Severity::Warning,
    layer: "tls",
    title: "TLS records are missing from the capture; decryption went on behind them",
    spec: "RFC 8446 section 5.3",
    why: "Messages in them are not shown, and those around them may be incomplete.",
    example: "the capture tool dropped packets under load",
    remedy: "Enlarge the capture buffer, or capture at one of the two hosts.",
    ..Rule::BLANK
};

/// How to see what is encrypted.
pub const HOW: &str = "run the client or server with SSLKEYLOGFILE=keys.log and give --keylog keys.log (docs/tls.md), put a proxy in between, or \
                       use http:// on this machine";

/// The rule that an anomaly of TLS breaks, and its sentence.
pub fn judge(anomaly: &Anomaly) -> (&'static Rule, String) {
    match anomaly {
        Anomaly::TlsUnsupported { what } => (&UNSUPPORTED, format!("{what} is not decrypted")),
        Anomaly::TlsNotOpened { offset, before: true } => {
            let text = format!(
                "from offset {offset} on records do not open, though earlier ones did: they are damaged, or keys were changed unseen"
            );
            (&NOT_OPENED, text)
        }
        Anomaly::TlsRecordsLost { length, records, .. } => {
            (&RECORDS_LOST, format!("{records} record(s), {length} bytes, are missing; decryption goes on behind them"))
        }
        _ => (&NOT_OPENED, "no record opens: the key log has other secrets for this session".to_owned()),
    }
}
