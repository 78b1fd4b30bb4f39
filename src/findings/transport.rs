//! Rules about the way messages travelled: captures, TCP, HTTP, server-sent events.

use super::{Rule, rules};
use crate::decode::Anomaly;
use crate::decode::quic::Asked;

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
    /// Entries of the HPACK table that nobody saw.
    HTTP2_UNKNOWN = Warning "http2-fields-unknown", "Header fields refer to others that the capture does not hold", "RFC 7541 section 2.3";
    /// RST_STREAM with an error.
    HTTP2_RESET = Warning "http2-stream-reset", "An HTTP/2 stream was given up with an error", "RFC 9113 section 5.4.2";
    /// GOAWAY with an error.
    HTTP2_GOAWAY = Error "http2-connection-error", "An HTTP/2 connection was ended with an error", "RFC 9113 section 5.4.1";
    /// No WebSocket where one should be.
    WEBSOCKET_MALFORMED = Error "websocket-malformed", "A WebSocket connection cannot be read further", "RFC 6455 section 5.2";
    /// HTTP/3.
    QUIC = Info "quic-not-decoded", "A server was asked over QUIC, which mcptap does not decode", "RFC 9000, RFC 9114";
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
        Anomaly::UnknownFields { offset, count } => (
            &HTTP2_UNKNOWN,
            format!(
                "{count} field(s) of the head at offset {offset} refer to earlier ones that the capture does not hold"
            ),
        ),
        Anomaly::StreamReset { stream, code, .. } => {
            (&HTTP2_RESET, format!("stream {stream} was given up: {}", http2_error(*code)))
        }
        Anomaly::GoingAway { code, .. } => (&HTTP2_GOAWAY, format!("the connection was ended: {}", http2_error(*code))),
        Anomaly::NotWebSocket { offset, expected } => {
            (&WEBSOCKET_MALFORMED, format!("at offset {offset} {expected} was expected; nothing behind it is shown"))
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
        Anomaly::FragmentConflict => (&FRAGMENTS, "two fragments of one datagram differ where they overlap".to_owned()),
    }
}

/// What is said of a server that was asked over QUIC.
pub fn not_decoded(asked: &Asked) -> (&'static Rule, String) {
    let Asked { client, server, version, name, protocols } = asked;
    let name = name.as_deref().unwrap_or("no name");
    let protocols = if protocols.is_empty() { "no protocol".to_owned() } else { protocols.join(", ") };
    let text = format!(
        "{client} speaks QUIC v{version} to {server} ({name}; {protocols}): not decoded. To see its messages, let the client use HTTP/2 or HTTP/1.1"
    );
    (&QUIC, text)
}

/// The name of an error code (RFC 9113 section 7).
fn http2_error(code: u32) -> String {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).map_or_else(|| format!("error {code}"), |name| (*name).to_owned())
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
