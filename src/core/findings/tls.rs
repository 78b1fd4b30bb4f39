//! Rules about TLS: what was not decrypted, why, and what to do.

use super::{Rule, Severity};
use crate::decode::Anomaly;

pub const RULES: &[&Rule] =
    &[&NO_SECRETS, &LATE, &NOT_OPENED, &UNSUPPORTED, &RECORDS_LOST, &TLS_TO_CLEAR, &CLEAR_TO_TLS];

pub static NO_SECRETS: Rule = Rule {
    id: "tls-no-secrets",
    severity: Severity::Info,
    title: "TLS connections are encrypted, and their secrets are not available",
    spec: "RFC 8446 section 7.1",
    why: "mcptap shows handshakes, server names, sizes and times, but not the content.",
    example: "a capture of an https:// server without --keylog",
    remedy: "Run the client or the server with SSLKEYLOGFILE=keys.log and pass --keylog keys.log. Or put a proxy in between, or use http:// on this machine.",
    ..Rule::BLANK
};

pub static LATE: Rule = Rule {
    id: "tls-handshake-not-captured",
    severity: Severity::Info,
    title: "TLS connections began before the capture",
    spec: "RFC 8446 section 4.1.2",
    why: "The ClientHello identifies the secrets of a connection in a key log. Without it, mcptap tries secrets within bounds: a record of TLS 1.3 proves which ones fit. TLS 1.2 also needs the ServerHello. Keys that were updated before the capture began are not found.",
    example: "a capture that was started while a client was already connected",
    remedy: "Start the capture first and then the client, or make the client connect again.",
    ..Rule::BLANK
};

pub static NOT_OPENED: Rule = Rule {
    id: "tls-secrets-do-not-fit",
    severity: Severity::Warning,
    title: "TLS records cannot be decrypted with the secrets that the key log has for their session",
    spec: "RFC 8446 section 5.2",
    why: "The content of these records is not shown.",
    example: "a key log that was edited, or records that were damaged on the way",
    remedy: "Use the key log that was written while the capture was taken.",
    ..Rule::BLANK
};

pub static UNSUPPORTED: Rule = Rule {
    id: "tls-unsupported",
    severity: Severity::Warning,
    title: "TLS records use a protection that mcptap cannot decrypt",
    spec: "RFC 8446 section 9.1",
    why: "The content of these records is not shown, although their secrets are available.",
    example: "TLS 1.0, or a suite with CBC or CCM",
    remedy: "Configure one side to use TLS 1.2 or 1.3 with AES-GCM or ChaCha20-Poly1305.",
    ..Rule::BLANK
};

pub static RECORDS_LOST: Rule = Rule {
    id: "tls-records-lost",
    severity: Severity::Warning,
    title: "TLS records are missing from the capture; decryption resumed after them",
    spec: "RFC 8446 section 5.3",
    why: "Messages in them are not shown, and messages around them may be incomplete.",
    example: "the capture tool dropped packets under load",
    remedy: "Enlarge the capture buffer, or capture at one of the two hosts.",
    ..Rule::BLANK
};

pub static TLS_TO_CLEAR: Rule = Rule {
    id: "tls-to-http-port",
    severity: Severity::Error,
    title: "A client speaks https to a server that speaks http",
    spec: "RFC 9110 section 4.2.2",
    why: "The server takes the ClientHello for a malformed request and refuses it. No message is exchanged.",
    example: "https://localhost:8000/mcp where the server listens without TLS",
    remedy: "Use http:// in the URL that the client is configured with, or configure TLS in the server.",
    ..Rule::BLANK
};

pub static CLEAR_TO_TLS: Rule = Rule {
    id: "http-to-tls-port",
    severity: Severity::Error,
    title: "A client speaks http to a server that speaks https",
    spec: "RFC 9110 section 4.2.1",
    why: "The server expects a ClientHello and refuses the request. Whatever the request contained was sent without encryption.",
    example: "http://localhost:8443/mcp where the server listens with TLS",
    remedy: "Use https:// in the URL that the client is configured with. If the request carried a token, replace the token.",
    ..Rule::BLANK
};

/// Advice on how to decrypt a connection.
pub const DECRYPTION_ADVICE: &str = "run the client or server with SSLKEYLOGFILE=keys.log and give --keylog keys.log (docs/tls.md), put a proxy in between, or \
                       use http:// on this machine";

/// The rule and the text for an anomaly of TLS.
pub fn judge(anomaly: &Anomaly) -> (&'static Rule, String) {
    match anomaly {
        Anomaly::TlsUnsupported { what } => (&UNSUPPORTED, format!("{what} is not decrypted")),
        Anomaly::TlsNotOpened { offset, before: true } => {
            let text = format!(
                "records from offset {offset} on cannot be decrypted, although earlier ones could: they are damaged, or the keys changed unnoticed"
            );
            (&NOT_OPENED, text)
        }
        Anomaly::TlsRecordsLost { length, records, .. } => {
            (&RECORDS_LOST, format!("{records} record(s), {length} bytes, are missing; decryption resumes after them"))
        }
        Anomaly::TlsToClearServer { server, status, .. } => {
            let answer = status.map_or("a page of HTML".to_owned(), |status| format!("HTTP status {status}"));
            let text = format!("the client speaks https to {server}, which answers with {answer}: use http://{server}");
            (&TLS_TO_CLEAR, text)
        }
        Anomaly::ClearToTlsServer { server, status, .. } => {
            let answer = status.map_or("a TLS alert".to_owned(), |status| format!("HTTP status {status} and a hint"));
            let text = format!("the client speaks http to {server}, which answers with {answer}: use https://{server}");
            (&CLEAR_TO_TLS, text)
        }
        _ => (&NOT_OPENED, "no record can be decrypted: the secrets of the key log do not fit this session".to_owned()),
    }
}
