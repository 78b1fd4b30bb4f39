//! Rules about the way messages travelled: captures, TCP, HTTP, server-sent events.

use jiff::Timestamp;

use super::{Finding, Rule, Severity, http2, stdio, tls};
use crate::capture::Time;
use crate::decode::Anomaly;

pub const RULES: &[&Rule] = &[
    &CAPTURE_DAMAGED,
    &CAPTURE_DROPPED,
    &SNAP_LENGTH,
    &TCP_LOST,
    &TCP_OVERLAP,
    &HTTP_BARE_LF,
    &HTTP_FOLDED,
    &HTTP_FRAMING,
    &HTTP_MALFORMED,
    &BYTES_SKIPPED,
    &HTTP_UNASKED,
    &HTTP_CODING,
    &HTTP_UNKNOWN_CODING,
    &LIMIT,
    &HEADER,
    &FRAGMENTS,
];

static CAPTURE_DAMAGED: Rule = Rule {
    id: "capture-damaged",
    severity: Severity::Error,
    layer: "capture",
    title: "The capture file is broken",
    spec: "pcap and pcapng file formats",
    why: "What stands behind the damage may be missing or out of place.",
    example: "a pcapng block whose two lengths differ",
    remedy: "Capture again; mcptap decodes what is left, from the next place that makes sense.",
    ..Rule::BLANK
};

/// A capture file is broken at an offset, for a reason in words.
pub fn damaged(file: &str, offset: u64, reason: &str) -> Finding {
    Finding { text: format!("{file}, byte {offset}: {reason}"), ..Finding::of(&CAPTURE_DAMAGED) }
}

static CAPTURE_DROPPED: Rule = Rule {
    id: "capture-dropped",
    severity: Severity::Warning,
    layer: "capture",
    title: "Packets were dropped because mcptap did not keep up",
    spec: "the capture itself",
    why: "Messages in them are missing, and those around them may be incomplete.",
    example: "a disk without room, beside more traffic than can be decoded at once",
    remedy: "Make room on the disk that the database is on, or capture less: mcptap sniff -f 'tcp port 8080'.",
    ..Rule::BLANK
};

/// So many packets, captured between these times, were dropped.
pub fn dropped(packets: u64, (first, last): (Time, Time)) -> Finding {
    let [first, last] = [first, last].map(|time| Timestamp::from_nanosecond(time.0.into()).unwrap_or_default());
    let text = format!("{packets} packets captured from {first} to {last} were not recorded");
    Finding { text, ..Finding::of(&CAPTURE_DROPPED) }
}

pub static SNAP_LENGTH: Rule = Rule {
    id: "capture-snap-length",
    severity: Severity::Warning,
    layer: "capture",
    title: "Packets were cut when they were captured",
    spec: "pcap file format, snapshot length",
    why: "The bytes that were cut off are lost: messages in them stay incomplete.",
    example: "tcpdump -s 128",
    remedy: "Capture whole packets: tcpdump -s 0, or mcptap sniff.",
    ..Rule::BLANK
};

pub static TCP_LOST: Rule = Rule {
    id: "tcp-bytes-lost",
    severity: Severity::Warning,
    layer: "tcp",
    title: "Bytes of a connection are missing from the capture",
    spec: "RFC 9293 section 3.4",
    why: "Messages in the hole are not shown, and those around it may be incomplete.",
    example: "the capture tool dropped packets under load",
    remedy: "Enlarge the capture buffer, or capture at one of the two hosts.",
    ..Rule::BLANK
};

pub static TCP_OVERLAP: Rule = Rule {
    id: "tcp-overlap-conflict",
    severity: Severity::Warning,
    layer: "tcp",
    title: "Bytes were sent again with other content",
    spec: "RFC 9293 section 3.10",
    why: "Which copy the receiver took is unknown: it is a broken stack, or an attempt to hide something from an observer.",
    example: "two segments with the same sequence numbers and other bytes",
    remedy: "Compare both copies; look for a middlebox that changes traffic.",
    ..Rule::BLANK
};

pub static HTTP_BARE_LF: Rule = Rule {
    id: "http-bare-line-feed",
    severity: Severity::Info,
    layer: "http",
    title: "A line of an HTTP head ends in LF alone",
    spec: "RFC 9112 section 2.2",
    why: "Strict parsers refuse it, and where a proxy and a server disagree requests can be smuggled.",
    example: "Host: a\\n instead of \\r\\n",
    remedy: "End every line of a head with CR LF.",
    ..Rule::BLANK
};

pub static HTTP_FOLDED: Rule = Rule {
    id: "http-folded-header",
    severity: Severity::Info,
    layer: "http",
    title: "A header field is continued on the next line",
    spec: "RFC 9112 section 5.2",
    why: "Line folding is obsolete: servers refuse it or read another value.",
    example: "X-Long: one\\r\\n  two",
    remedy: "Send the value on one line.",
    ..Rule::BLANK
};

pub static HTTP_FRAMING: Rule = Rule {
    id: "http-ambiguous-framing",
    severity: Severity::Error,
    layer: "http",
    title: "An HTTP head does not say in one valid way how long its body is",
    spec: "RFC 9112 section 6.3",
    why: "Where a proxy and a server disagree on the length, requests can be smuggled.",
    example: "Content-Length: 5 beside Transfer-Encoding: chunked",
    remedy: "Send one of the two.",
    ..Rule::BLANK
};

pub static HTTP_MALFORMED: Rule = Rule {
    id: "http-malformed",
    severity: Severity::Error,
    layer: "http",
    title: "Bytes where HTTP should be are no HTTP",
    spec: "RFC 9112 section 2.2",
    why: "Nothing behind it can be read until the next message begins.",
    example: "a chunk whose size is no number",
    remedy: "Look at the bytes: a broken peer, or a hole in the capture.",
    ..Rule::BLANK
};

pub static BYTES_SKIPPED: Rule = Rule {
    id: "bytes-skipped",
    severity: Severity::Warning,
    layer: "http",
    title: "Bytes were passed over until decoding could resume",
    spec: "RFC 9112 section 2.2",
    why: "What stood in them is not shown.",
    example: "the middle of a body whose head was not captured",
    remedy: "Begin the capture before the connection.",
    ..Rule::BLANK
};

pub static HTTP_UNASKED: Rule = Rule {
    id: "http-response-without-request",
    severity: Severity::Warning,
    layer: "http",
    title: "A response answers no request that the capture holds",
    spec: "RFC 9112 section 9.2",
    why: "It cannot be matched to a request, so it is shown alone.",
    example: "a response whose request was sent before the capture began",
    remedy: "Begin the capture before the connection.",
    ..Rule::BLANK
};

pub static HTTP_CODING: Rule = Rule {
    id: "http-content-coding",
    severity: Severity::Error,
    layer: "http",
    title: "A body is not what its Content-Encoding says",
    spec: "RFC 9110 section 8.4",
    why: "The receiver cannot read the body either.",
    example: "Content-Encoding: gzip on a body that is not compressed",
    remedy: "Name the coding that was applied, or none.",
    ..Rule::BLANK
};

pub static HTTP_UNKNOWN_CODING: Rule = Rule {
    id: "http-content-coding-unknown",
    severity: Severity::Warning,
    layer: "http",
    title: "A body is coded in a way that mcptap does not decode",
    spec: "RFC 9110 section 8.4",
    why: "Messages in the body are not shown.",
    example: "Content-Encoding: compress",
    remedy: "Ask the peer for gzip, br, zstd or no coding in Accept-Encoding.",
    ..Rule::BLANK
};

pub static LIMIT: Rule = Rule {
    id: "limit-reached",
    severity: Severity::Warning,
    layer: "capture",
    title: "A limit on memory stopped decoding",
    spec: "docs/architecture.md, invariant 6",
    why: "What is beyond the limit is not shown.",
    example: "a message of more than 128 MiB",
    remedy: "Nothing, unless it was meant to be so large.",
    ..Rule::BLANK
};

pub static HEADER: Rule = Rule {
    id: "packet-header-invalid",
    severity: Severity::Warning,
    layer: "tcp",
    title: "A packet's header contradicts itself",
    spec: "RFC 791, RFC 8200, RFC 9293",
    why: "The packet is not decoded.",
    example: "an IP header that is longer than the packet",
    remedy: "Look at the packet: a broken capture tool, or offloading by the network card.",
    ..Rule::BLANK
};

pub static FRAGMENTS: Rule = Rule {
    id: "ip-fragments-conflict",
    severity: Severity::Warning,
    layer: "ip",
    title: "IP fragments overlap with different content",
    spec: "RFC 5722, RFC 791 section 3.2",
    why: "Which copy the receiver took is unknown: it is a broken stack, or an attempt to hide something.",
    example: "two IP fragments that overlap with other bytes",
    remedy: "Compare both; overlapping fragments are not sent by honest stacks.",
    ..Rule::BLANK
};

/// Whether messages may be hidden where this was found.
pub(super) fn hides_messages(rule: &Rule) -> bool {
    [&TCP_LOST, &BYTES_SKIPPED, &HTTP_MALFORMED, &HTTP_CODING, &HTTP_UNKNOWN_CODING, &LIMIT, &HEADER].contains(&rule)
        || http2::hides_messages(rule)
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
            &http2::UNKNOWN_FIELDS,
            format!(
                "{count} field(s) of the head at offset {offset} refer to earlier ones that the capture does not hold"
            ),
        ),
        Anomaly::StreamReset { stream, code, .. } => {
            (&http2::STREAM_RESET, format!("stream {stream} was given up: {}", http2::error(*code)))
        }
        Anomaly::GoingAway { code, .. } => {
            (&http2::GOING_AWAY, format!("the connection was ended: {}", http2::error(*code)))
        }
        Anomaly::NotWebSocket { offset, expected } => (
            &http2::WEBSOCKET_MALFORMED,
            format!("at offset {offset} {expected} was expected; nothing behind it is shown"),
        ),
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
        Anomaly::FramingNoise { pipe, offset, what } => {
            (&stdio::FRAMING_NOISE, format!("{}: {what} at offset {offset}", pipe.name()))
        }
        Anomaly::Unterminated { pipe, length, .. } => {
            (&stdio::UNTERMINATED, format!("{} was closed behind {} of a line", pipe.name(), bytes(*length)))
        }
        Anomaly::MessageOnStderr { line } => {
            (&stdio::JSON_ON_STDERR, format!("line {line} of stderr is a JSON-RPC message"))
        }
    }
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
