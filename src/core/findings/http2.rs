//! Rules about HTTP/2, and about other protocols in the place of HTTP/1: WebSocket and QUIC.

use std::net::SocketAddr;

use super::{Rule, Severity};

pub const RULES: &[&Rule] = &[&UNKNOWN_FIELDS, &STREAM_RESET, &GOING_AWAY, &WEBSOCKET_MALFORMED, &QUIC];

pub static UNKNOWN_FIELDS: Rule = Rule {
    id: "http2-fields-unknown",
    severity: Severity::Warning,
    title: "Header fields refer to earlier fields that the capture does not contain",
    spec: "RFC 7541 section 2.3",
    why: "HTTP/2 sends a header field once and later refers to it. Fields that were sent before the capture, or in a gap, are unknown.",
    example: "a capture that begins in the middle of a connection",
    remedy: "Begin the capture before the connection.",
    ..Rule::BLANK
};

pub static STREAM_RESET: Rule = Rule {
    id: "http2-stream-reset",
    severity: Severity::Warning,
    title: "An HTTP/2 stream was reset with an error",
    spec: "RFC 9113 section 5.4.2",
    why: "The exchange was aborted, so its messages may be incomplete.",
    example: "RST_STREAM with INTERNAL_ERROR while a response is being sent",
    remedy: "Look at the log of the side that sent RST_STREAM.",
    ..Rule::BLANK
};

pub static GOING_AWAY: Rule = Rule {
    id: "http2-connection-error",
    severity: Severity::Error,
    title: "An HTTP/2 connection was closed with an error",
    spec: "RFC 9113 section 5.4.1",
    why: "All exchanges of the connection end with it.",
    example: "GOAWAY with ENHANCE_YOUR_CALM to a client that sends too many pings",
    remedy: "Use the error code to find out what the other side did wrong.",
    ..Rule::BLANK
};

pub static WEBSOCKET_MALFORMED: Rule = Rule {
    id: "websocket-malformed",
    severity: Severity::Error,
    title: "Bytes that should be a WebSocket frame are none",
    spec: "RFC 6455 section 5.2",
    why: "WebSocket frames have no marker by which the next one could be found. Messages are not shown until a frame follows that certainly carries one.",
    example: "a frame with a reserved bit that no extension defines",
    remedy: "Look at the bytes: a peer is broken, or uses an extension that was not negotiated.",
    ..Rule::BLANK
};

pub static QUIC: Rule = Rule {
    id: "quic-not-decoded",
    severity: Severity::Info,
    title: "A client uses QUIC, which mcptap does not decode",
    spec: "RFC 9000, RFC 9114",
    why: "Messages that travel over HTTP/3 are not shown.",
    example: "a browser that switches to HTTP/3 after the first visit",
    remedy: "Let the client use HTTP/2 or HTTP/1.1, or block UDP port 443.",
    ..Rule::BLANK
};

/// Whether a finding of this rule means that messages may be missing.
pub(super) fn hides_messages(rule: &Rule) -> bool {
    [&STREAM_RESET, &GOING_AWAY, &WEBSOCKET_MALFORMED].contains(&rule)
}

/// The rule and the text for a client that uses QUIC.
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
