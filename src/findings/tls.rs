//! Rules about TLS: what was not decrypted, why, and what to do about it.

use super::{Rule, rules};
use crate::decode::Anomaly;

rules! {
    /// No secrets.
    NO_SECRETS = Info "tls-no-secrets", "The content of TLS connections is encrypted, and their secrets are not at hand", "RFC 8446 section 7.1";
    /// No ClientHello.
    LATE = Info "tls-handshake-not-captured", "The capture began after the handshake of TLS connections, which can then not be decrypted", "RFC 8446 section 4.1.2";
    /// Secrets that do not open.
    NOT_OPENED = Warning "tls-secrets-do-not-fit", "TLS records do not open with the secrets that the key log has for their session", "RFC 8446 section 5.2";
    /// A suite.
    UNSUPPORTED = Warning "tls-unsupported", "TLS records are protected in a way that mcptap does not open", "RFC 8446 section 9.1";
    /// Records were lost.
    RECORDS_LOST = Warning "tls-records-lost", "TLS records are missing from the capture; decryption went on behind them", "RFC 8446 section 5.3";
}

/// How to see what is encrypted.
pub const HOW: &str = "run the client or server with SSLKEYLOGFILE=keys.log (browsers, curl, Node with --tls-keylog, Python, Go and rustls \
    programs that allow it) and give --keylog keys.log; or put a proxy in between; or use http:// on this machine";

/// The rule that an anomaly of TLS breaks, and its sentence.
pub fn judge(anomaly: &Anomaly) -> (&'static Rule, String) {
    match anomaly {
        Anomaly::TlsUnsupported { what } => (&UNSUPPORTED, format!("{what} is not decrypted")),
        Anomaly::TlsNotOpened { offset, before: true } => (
            &NOT_OPENED,
            format!(
                "from offset {offset} on records do not open, though earlier ones did: they are damaged, or the keys were changed unseen"
            ),
        ),
        Anomaly::TlsRecordsLost { length, records, .. } => {
            (&RECORDS_LOST, format!("{records} record(s) are missing, {length} bytes; decryption goes on behind them"))
        }
        _ => (&NOT_OPENED, "no record opens: the key log has other secrets for this session".to_owned()),
    }
}
