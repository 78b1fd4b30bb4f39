//! Rules about the transport of messages: captures, TCP, HTTP, server-sent events.

use jiff::Timestamp;

use super::{Finding, Rule, Severity, http2, stdio, tls};
use crate::capture::{PacketNumber, Time};
use crate::decode::{Anomaly, ConnectionId};

pub const CAPTURE: &[&Rule] = &[&CAPTURE_DAMAGED, &CAPTURE_DROPPED, &SNAP_LENGTH, &CLOCKS];
pub const TCP: &[&Rule] = &[&TCP_LOST, &TCP_OVERLAP];
pub const HTTP: &[&Rule] = &[
    &HTTP_BARE_LF,
    &HTTP_FOLDED,
    &HTTP_FRAMING,
    &HTTP_MALFORMED,
    &BYTES_SKIPPED,
    &HTTP_UNASKED,
    &HTTP_CODING,
    &HTTP_UNKNOWN_CODING,
];
pub const DECODING: &[&Rule] = &[&LIMIT, &HEADER];
pub const IP: &[&Rule] = &[&FRAGMENTS];

static CAPTURE_DAMAGED: Rule = Rule {
    id: "capture-damaged",
    severity: Severity::Error,
    title: "The capture file is broken",
    spec: "pcap and pcapng file formats",
    why: "Packets after the damaged place may be missing or wrong.",
    example: "a pcapng block whose two lengths differ",
    remedy: "Capture again. mcptap continues at the next readable place.",
    ..Rule::BLANK
};

/// The finding for a damaged capture file: the offset in bytes and the reason.
pub fn damaged(file: &str, offset: u64, reason: &str) -> Finding {
    Finding { text: format!("{file}, byte {offset}: {reason}"), ..Finding::of(&CAPTURE_DAMAGED) }
}

static CAPTURE_DROPPED: Rule = Rule {
    id: "capture-dropped",
    severity: Severity::Warning,
    title: "Packets or decrypted bytes were dropped because they exceeded what mcptap holds",
    spec: "the capture itself",
    why: "Messages in them are missing, and messages around them may be incomplete.",
    example: "the disk is full while more traffic arrives than can be decoded at once",
    remedy: "Make room on the disk that the database is on, or capture less: mcptap sniff -f 'tcp port 8080'.",
    ..Rule::BLANK
};

/// The finding for packets that were captured between these times and then dropped.
pub fn dropped(packets: u64, (first, last): (Time, Time)) -> Finding {
    let [first, last] = [first, last].map(|time| Timestamp::from_nanosecond(time.0.into()).unwrap_or_default());
    let text = format!("{packets} packets captured from {first} to {last} were not recorded");
    Finding { text, ..Finding::of(&CAPTURE_DROPPED) }
}

/// The finding for packets of a connection that a store discarded before it carried MCP.
pub fn not_kept(connection: ConnectionId, packets: u64, bytes: u64) -> Finding {
    let text = format!(
        "{packets} packets ({bytes} bytes) from the start of connection {} were not kept: neither memory nor the disk had room",
        connection.0
    );
    Finding { text, ..Finding::of(&CAPTURE_DROPPED) }
}

/// The finding for decrypted bytes of a connection that were discarded before it carried MCP.
pub fn plaintext_not_kept(connection: ConnectionId, bytes: u64) -> Finding {
    let text = format!(
        "{bytes} decrypted bytes from the start of connection {} were not kept: too much came before its first message. \
         Its packets are kept: read them again with the key log to see these bytes",
        connection.0
    );
    Finding { text, ..Finding::of(&CAPTURE_DROPPED) }
}

pub static SNAP_LENGTH: Rule = Rule {
    id: "capture-snap-length",
    severity: Severity::Warning,
    title: "Packets were cut when they were captured",
    spec: "pcap file format, snapshot length",
    why: "The bytes that were cut off are lost, so their messages are incomplete.",
    example: "tcpdump -s 128",
    remedy: "Capture whole packets: tcpdump -s 0, or mcptap sniff.",
    ..Rule::BLANK
};

pub static CLOCKS: Rule = Rule {
    id: "capture-clocks-differ",
    severity: Severity::Warning,
    title: "The two directions of a connection were captured with different clocks",
    spec: "RFC 9293 section 3.4",
    why: "Acknowledgments precede the bytes that they acknowledge. So times from one direction to the other are wrong, and latencies are left out.",
    example: "the captures of two hosts that are not synchronised, merged into one file",
    remedy: "Correct the times of one capture by the difference (editcap -t) and merge again, or capture both directions at one place.",
    ..Rule::BLANK
};

pub static TCP_LOST: Rule = Rule {
    id: "tcp-bytes-lost",
    severity: Severity::Warning,
    title: "Bytes of a connection are missing from the capture",
    spec: "RFC 9293 section 3.4",
    why: "Messages in the gap are not shown, and messages around it may be incomplete.",
    example: "the capture tool dropped packets under load",
    remedy: "Enlarge the capture buffer, or capture at one of the two hosts.",
    ..Rule::BLANK
};

pub static TCP_OVERLAP: Rule = Rule {
    id: "tcp-overlap-conflict",
    severity: Severity::Warning,
    title: "Bytes were sent again with different content",
    spec: "RFC 9293 section 3.10",
    why: "It is unknown which copy the receiver used. Either a TCP stack is broken, or somebody tries to hide data from an observer.",
    example: "two segments with the same sequence numbers and different bytes",
    remedy: "Compare both copies, and look for a middlebox that changes traffic.",
    ..Rule::BLANK
};

pub static HTTP_BARE_LF: Rule = Rule {
    id: "http-bare-line-feed",
    severity: Severity::Info,
    title: "A line of an HTTP head ends in LF alone",
    spec: "RFC 9112 section 2.2",
    why: "Strict parsers refuse it. Where a proxy and a server disagree about line ends, requests can be smuggled.",
    example: "Host: a\\n instead of \\r\\n",
    remedy: "End every line of a head with CR LF.",
    ..Rule::BLANK
};

pub static HTTP_FOLDED: Rule = Rule {
    id: "http-folded-header",
    severity: Severity::Info,
    title: "A header field is continued on the next line",
    spec: "RFC 9112 section 5.2",
    why: "Line folding is obsolete: servers refuse the field or read a different value.",
    example: "X-Long: one\\r\\n  two",
    remedy: "Send the value on one line.",
    ..Rule::BLANK
};

pub static HTTP_FRAMING: Rule = Rule {
    id: "http-ambiguous-framing",
    severity: Severity::Error,
    title: "An HTTP head states the length of its body in conflicting or invalid ways",
    spec: "RFC 9112 section 6.3",
    why: "Where a proxy and a server disagree about the length, requests can be smuggled.",
    example: "Content-Length: 5 together with Transfer-Encoding: chunked",
    remedy: "Send only one of the two fields.",
    ..Rule::BLANK
};

pub static HTTP_MALFORMED: Rule = Rule {
    id: "http-malformed",
    severity: Severity::Error,
    title: "Bytes that should be HTTP are not valid HTTP",
    spec: "RFC 9112 section 2.2",
    why: "Nothing after them can be read until the next message begins.",
    example: "a chunk whose size is not a number",
    remedy: "Look at the bytes: either a peer is broken, or the capture has a gap.",
    ..Rule::BLANK
};

pub static BYTES_SKIPPED: Rule = Rule {
    id: "bytes-skipped",
    severity: Severity::Warning,
    title: "Bytes were skipped until decoding could resume",
    spec: "RFC 9112 section 2.2",
    why: "The content of these bytes is not shown.",
    example: "the middle of a body whose head was not captured",
    remedy: "Begin the capture before the connection.",
    ..Rule::BLANK
};

pub static HTTP_UNASKED: Rule = Rule {
    id: "http-response-without-request",
    severity: Severity::Warning,
    title: "A response answers no request of the capture",
    spec: "RFC 9112 section 9.2",
    why: "It cannot be matched to a request, so it is shown alone.",
    example: "a response whose request was sent before the capture began",
    remedy: "Begin the capture before the connection.",
    ..Rule::BLANK
};

pub static HTTP_CODING: Rule = Rule {
    id: "http-content-coding",
    severity: Severity::Error,
    title: "A body is not encoded as its Content-Encoding states",
    spec: "RFC 9110 section 8.4",
    why: "The receiver cannot read the body either.",
    example: "Content-Encoding: gzip on a body that is not compressed",
    remedy: "Name the coding that was applied, or send no Content-Encoding.",
    ..Rule::BLANK
};

pub static HTTP_UNKNOWN_CODING: Rule = Rule {
    id: "http-content-coding-unknown",
    severity: Severity::Warning,
    title: "A body uses a content coding that mcptap does not decode",
    spec: "RFC 9110 section 8.4",
    why: "Messages in the body are not shown.",
    example: "Content-Encoding: compress",
    remedy: "Request gzip, br, zstd or no coding from the peer in Accept-Encoding.",
    ..Rule::BLANK
};

pub static LIMIT: Rule = Rule {
    id: "limit-reached",
    severity: Severity::Warning,
    title: "A limit on memory stopped decoding",
    spec: "docs/architecture.md, invariant 6",
    why: "Data beyond the limit is not shown.",
    example: "a message of more than 128 MiB",
    remedy: "Nothing, if so much data is intended. Otherwise find out why it is so large.",
    ..Rule::BLANK
};

pub static HEADER: Rule = Rule {
    id: "packet-header-invalid",
    severity: Severity::Warning,
    title: "Headers of packets contradict themselves",
    spec: "RFC 791, RFC 8200, RFC 9293",
    why: "These packets are not decoded. Messages in them are missing, and messages around them may be incomplete.",
    example: "an IP header that is longer than the packet",
    remedy: "Look at the packet: the capture tool may be broken, or the network card changed the packet (offloading).",
    ..Rule::BLANK
};

pub static FRAGMENTS: Rule = Rule {
    id: "ip-fragments-conflict",
    severity: Severity::Warning,
    title: "IP fragments overlap with different content",
    spec: "RFC 5722, RFC 791 section 3.2",
    why: "It is unknown which copy the receiver used. Either an IP stack is broken, or somebody tries to hide data.",
    example: "two IP fragments that overlap and contain different bytes",
    remedy: "Compare both copies. Correct IP stacks do not send overlapping fragments.",
    ..Rule::BLANK
};

/// The finding for packets whose headers contradict themselves. `reasons` names each kind of header
/// with the number of packets, and `first` lists the first packets.
pub fn malformed(reasons: impl Iterator<Item = (&'static str, u64)>, first: &[PacketNumber]) -> Finding {
    let reasons = reasons.map(|(reason, count)| format!("{reason} ({count})")).collect::<Vec<_>>().join(", ");
    let text = format!("packets are not decoded: {reasons}");
    Finding { packets: first.to_vec(), text, ..Finding::of(&HEADER) }
}

/// The finding for a fragment that overlaps an earlier one of its datagram with other bytes.
pub fn fragments_differ(packet: PacketNumber) -> Finding {
    let text = "this fragment differs from an earlier one where they overlap; the first copy is shown".to_owned();
    Finding { packets: vec![packet], text, ..Finding::of(&FRAGMENTS) }
}

/// Whether a finding of this rule means that messages may be missing.
pub fn hides_messages(rule: &Rule) -> bool {
    [
        &TCP_LOST,
        &stdio::BYTES_LOST,
        &BYTES_SKIPPED,
        &HTTP_UNASKED,
        &HTTP_MALFORMED,
        &HTTP_CODING,
        &HTTP_UNKNOWN_CODING,
        &LIMIT,
    ]
    .contains(&rule)
        || http2::hides_messages(rule)
}

/// A finding on a connection whose beginning was not captured. What is not HTTP there may be the
/// rest of a message.
pub fn with_doubt(finding: Finding) -> Finding {
    if ![&HTTP_MALFORMED, &http2::WEBSOCKET_MALFORMED].contains(&finding.rule) {
        return finding;
    }
    let text = format!("{}; the connection began before the capture", finding.text);
    Finding { severity: Severity::Warning, text, ..finding }
}

/// The rule and the text for an anomaly.
pub fn judge(anomaly: &Anomaly) -> (&'static Rule, String) {
    match anomaly {
        Anomaly::OverlapConflict { offset, length } => (
            &TCP_OVERLAP,
            format!(
                "{} at offset {offset} were sent again with different content; the first copy is shown",
                bytes(*length)
            ),
        ),
        Anomaly::Lost { offset, length } => {
            (&TCP_LOST, format!("{} from offset {offset} on are not in the capture", bytes(*length)))
        }
        Anomaly::ClocksDiffer { ahead, behind, nanoseconds: (least, most) } => {
            // Outwards, so that the words are true.
            let (least, most) =
                (least.div_euclid(100_000) as f64 / 10.0, (most.saturating_add(99_999) / 100_000) as f64 / 10.0);
            let text = format!(
                "the clock for packets of {ahead} is {least:.1} to {most:.1} ms ahead of that for {behind}; latencies are left out"
            );
            (&CLOCKS, text)
        }
        Anomaly::BareLineFeed { offset } => (&HTTP_BARE_LF, format!("the line that ends at offset {offset} has no CR")),
        Anomaly::FoldedHeader { offset } => {
            (&HTTP_FOLDED, format!("the line at offset {offset} continues the previous field"))
        }
        Anomaly::AmbiguousFraming { why, .. } => (&HTTP_FRAMING, (*why).to_owned()),
        Anomaly::NotHttp { offset, expected } => {
            (&HTTP_MALFORMED, format!("at offset {offset} {expected} was expected"))
        }
        Anomaly::Skipped { offset, length } => {
            (&BYTES_SKIPPED, format!("{} from offset {offset} on were skipped", bytes(*length)))
        }
        Anomaly::UnknownFields { offset, count } => (
            &http2::UNKNOWN_FIELDS,
            format!(
                "{count} field(s) of the head at offset {offset} refer to earlier ones that the capture does not contain"
            ),
        ),
        Anomaly::StreamReset { stream, code, .. } => {
            (&http2::STREAM_RESET, format!("stream {stream} was reset: {}", http2::error(*code)))
        }
        Anomaly::GoingAway { code, .. } => {
            (&http2::GOING_AWAY, format!("the connection was closed: {}", http2::error(*code)))
        }
        Anomaly::NotWebSocket { offset, expected } => (
            &http2::WEBSOCKET_MALFORMED,
            format!("at offset {offset} {expected} was expected; the next certain frame is searched"),
        ),
        Anomaly::ResponseWithoutRequest { offset } => {
            (&HTTP_UNASKED, format!("the response at offset {offset} answers no captured request"))
        }
        Anomaly::BadCoding { coding, why } => (&HTTP_CODING, format!("the body is not {coding}: {why}")),
        Anomaly::UnknownCoding { coding } => (&HTTP_UNKNOWN_CODING, format!("the body is coded as {coding}")),
        Anomaly::LimitReached { limit, offset } => {
            (&LIMIT, format!("the limit \"{limit}\" stopped decoding at offset {offset}"))
        }
        Anomaly::TlsRecordsLost { .. }
        | Anomaly::TlsNotOpened { .. }
        | Anomaly::TlsUnsupported { .. }
        | Anomaly::TlsToClearServer { .. }
        | Anomaly::ClearToTlsServer { .. } => tls::judge(anomaly),
        Anomaly::FramingNoise { pipe, offset, what } => {
            (&stdio::FRAMING_NOISE, format!("{}: {what} at offset {offset}", pipe.name()))
        }
        Anomaly::PipeLost { pipe, offset, length } => (
            &stdio::BYTES_LOST,
            format!("{} of {} from offset {offset} on were not recorded", bytes(*length), pipe.name()),
        ),
        Anomaly::Unterminated { pipe, length, .. } => {
            (&stdio::UNTERMINATED, format!("{} was closed after {} of an unfinished line", pipe.name(), bytes(*length)))
        }
        Anomaly::MessageOnStderr { line } => {
            (&stdio::JSON_ON_STDERR, format!("line {line} of stderr is a JSON-RPC message"))
        }
    }
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
