//! Rules about the way messages travelled: captures, TCP, HTTP, server-sent events.

use super::{Rule, rules, tls};
use crate::decode::Anomaly;

rules! {
    /// The file is broken.
    CAPTURE_DAMAGED = Error "capture-damaged", "The capture file is broken", "";
    /// Packets are not whole.
    SNAP_LENGTH = Warning "capture-snap-length", "Packets were cut when they were captured", "";
    /// Bytes were never seen.
    TCP_LOST = Warning "tcp-bytes-lost", "Bytes of a connection are missing from the capture", "RFC 9293 section 3.4";
    /// A retransmission with other bytes.
    TCP_OVERLAP = Warning "tcp-overlap-conflict", "Bytes were sent again with other content", "RFC 9293 section 3.10";
    /// LF alone.
    HTTP_BARE_LF = Info "http-bare-line-feed", "A line of an HTTP head ends in LF alone", "RFC 9112 section 2.2";
    /// obs-fold.
    HTTP_FOLDED = Info "http-folded-header", "A header field is continued on the next line", "RFC 9112 section 5.2";
    /// Two lengths.
    HTTP_FRAMING = Error "http-ambiguous-framing", "An HTTP head does not say in one valid way how long its body is", "RFC 9112 section 6.3";
    /// No HTTP where HTTP should be.
    HTTP_MALFORMED = Error "http-malformed", "Bytes where HTTP should be are no HTTP", "RFC 9112 section 2.2";
    /// Passed over.
    BYTES_SKIPPED = Warning "bytes-skipped", "Bytes were passed over until decoding could resume", "";
    /// A response nobody asked for.
    HTTP_UNASKED = Warning "http-response-without-request", "A response answers no request that the capture holds", "RFC 9112 section 9.2";
    /// Not what its coding says.
    HTTP_CODING = Error "http-content-coding", "A body is not what its Content-Encoding says", "RFC 9110 section 8.4";
    /// A coding that is not decoded.
    HTTP_UNKNOWN_CODING = Warning "http-content-coding-unknown", "A body is coded in a way that mcptap does not decode", "RFC 9110 section 8.4";
    /// A limit.
    LIMIT = Warning "limit-reached", "A limit on memory stopped decoding", "";
    /// A bad header.
    HEADER = Warning "packet-header-invalid", "A packet's header contradicts itself", "RFC 791, RFC 8200, RFC 9293";
    /// Fragments overlap.
    FRAGMENTS = Warning "ip-fragments-conflict", "IP fragments overlap with different content", "RFC 5722, RFC 791 section 3.2";
}

/// The rule that an anomaly breaks, and its sentence.
pub fn judge(anomaly: &Anomaly) -> (&'static Rule, String) {
    match anomaly {
        Anomaly::OverlapConflict { offset, length } => (
            &TCP_OVERLAP,
            format!(
                "{} at offset {offset} were sent again with other content; the first copy is shown",
                bytes(*length)
            ),
        ),
        Anomaly::Lost { offset, length } => {
            (&TCP_LOST, format!("{} from offset {offset} on are not in the capture", bytes(*length)))
        }
        Anomaly::BareLineFeed { offset } => (&HTTP_BARE_LF, format!("the line that ends at offset {offset} has no CR")),
        Anomaly::FoldedHeader { offset } => {
            (&HTTP_FOLDED, format!("the line at offset {offset} continues the field before"))
        }
        Anomaly::AmbiguousFraming { why, .. } => (&HTTP_FRAMING, (*why).to_owned()),
        Anomaly::NotHttp { offset, expected } => {
            (&HTTP_MALFORMED, format!("at offset {offset} {expected} was expected"))
        }
        Anomaly::Skipped { offset, length } => {
            (&BYTES_SKIPPED, format!("{} from offset {offset} on were passed over", bytes(*length)))
        }
        Anomaly::ResponseWithoutRequest { offset } => {
            (&HTTP_UNASKED, format!("the response at offset {offset} answers no request that was seen"))
        }
        Anomaly::BadCoding { coding, why } => (&HTTP_CODING, format!("the body is not {coding}: {why}")),
        Anomaly::UnknownCoding { coding } => (&HTTP_UNKNOWN_CODING, format!("the body is coded as {coding}")),
        Anomaly::LimitReached { limit, offset } => {
            (&LIMIT, format!("the limit \"{limit}\" stopped decoding at offset {offset}"))
        }
        Anomaly::BadHeader { why } => (&HEADER, (*why).to_owned()),
        Anomaly::TlsRecordsLost { .. } | Anomaly::TlsNotOpened { .. } | Anomaly::TlsUnsupported { .. } => {
            tls::judge(anomaly)
        }
        Anomaly::FragmentConflict => (&FRAGMENTS, "two fragments of one datagram differ where they overlap".to_owned()),
    }
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
