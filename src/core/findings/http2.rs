//! Rules about HTTP/2, and about what else runs in the place of HTTP/1: WebSocket, QUIC.

use std::net::SocketAddr;

use super::{Rule, Severity};

pub const RULES: &[&Rule] = &[&UNKNOWN_FIELDS, &STREAM_RESET, &GOING_AWAY, &WEBSOCKET_MALFORMED, &QUIC];

pub static UNKNOWN_FIELDS: Rule = Rule {
    id: "http2-fields-unknown",
    severity: Severity::Warning,
    layer: "http",
    title: "Header fields refer to others that the capture does not hold",
    spec: "RFC 7541 section 2.3",
    why: "HTTP/2 sends a header field once and then refers to it: what was sent before the capture, or in a hole of it, cannot be known.",
    example: "a capture that begins in the middle of a connection",
    remedy: "Begin the capture before the connection.",
    ..Rule::BLANK
};

pub static STREAM_RESET: Rule = Rule {
    id: "http2-stream-reset",
    severity: Severity::Warning,
    layer: "http",
    title: "An HTTP/2 stream was given up with an error",
    spec: "RFC 9113 section 5.4.2",
    why: "The exchange ends before it was over: its messages may be cut off.",
    example: "RST_STREAM with INTERNAL_ERROR while a response is being sent",
    remedy: "Look into the log of the side that sent it.",
    ..Rule::BLANK
};

pub static GOING_AWAY: Rule = Rule {
    id: "http2-connection-error",
    severity: Severity::Error,
    layer: "http",
    title: "An HTTP/2 connection was ended with an error",
    spec: "RFC 9113 section 5.4.1",
    why: "All exchanges of the connection end with it.",
    example: "GOAWAY with ENHANCE_YOUR_CALM to a client that sends too many pings",
    remedy: "The error names what the other side did wrong.",
    ..Rule::BLANK
};

pub static WEBSOCKET_MALFORMED: Rule = Rule {
    id: "websocket-malformed",
    severity: Severity::Error,
    layer: "http",
    title: "A WebSocket connection cannot be read further",
    spec: "RFC 6455 section 5.2",
    why: "Frames have no mark by which the next could be found: messages behind this place are not shown.",
    example: "a hole in the capture over the head of a frame",
    remedy: "Enlarge the capture buffer; where nothing is missing, look for a broken peer.",
    ..Rule::BLANK
};

pub static QUIC: Rule = Rule {
    id: "quic-not-decoded",
    severity: Severity::Info,
    layer: "http",
    title: "A server was asked over QUIC, which mcptap does not decode",
    spec: "RFC 9000, RFC 9114",
    why: "Messages that travel over HTTP/3 are not shown.",
    example: "a browser that changes to HTTP/3 after the first visit",
    remedy: "Let the client use HTTP/2 or HTTP/1.1, or block UDP port 443.",
    ..Rule::BLANK
};

/// Whether messages may be hidden where this was found.
pub(super) fn hides_messages(rule: &Rule) -> bool {
    [&STREAM_RESET, &GOING_AWAY, &WEBSOCKET_MALFORMED].contains(&rule)
}

/// What is said of a server that was asked over QUIC.
pub fn not_decoded(client: SocketAddr, server: SocketAddr, name: Option<&str>, version: u8) -> (&'static Rule, String) {
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    (&QUIC, format!("{client} speaks QUIC v{version} to {server}{name}: not decoded"))
}

/// The name of an error code (RFC 9113 section 7).
pub(super) fn error(code: u32) -> String {
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
