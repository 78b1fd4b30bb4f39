//! The last line: the totals of a capture.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::capture::Time;
use crate::export::json::{Object, write_digits};
use crate::findings::Severity;

/// The totals of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Packets that were read.
    pub packets: u64,
    /// Bytes of these packets, as captured.
    pub bytes: u64,
    /// Packets that were not decoded, by reason.
    pub skipped: BTreeMap<Cow<'static, str>, u64>,
    /// TCP connections that were captured.
    pub tcp_connections: u64,
    /// HTTP exchanges that were found.
    pub exchanges: u64,
    /// MCP sessions that were found.
    pub sessions: u64,
    /// Messages; each member of a batch counts.
    pub messages: u64,
    /// Findings by severity.
    pub findings: BTreeMap<Severity, u64>,
    /// The time of the first packet of the capture.
    pub first_time: Option<Time>,
    /// The time of the last packet.
    pub last_time: Option<Time>,
    /// Seconds that reading took.
    pub elapsed_seconds: f64,
}

/// Writes the `summary` line.
pub fn write_summary(out: &mut Vec<u8>, summary: &Summary) {
    let mut line = Object::line(out, "summary");
    line.number("packets", summary.packets);
    line.number("bytes", summary.bytes);
    line.object("skipped", |object| {
        for (reason, count) in &summary.skipped {
            object.entry(reason, |out| write_digits(out, *count));
        }
    });
    line.number("tcp_connections", summary.tcp_connections);
    line.number("exchanges", summary.exchanges);
    line.number("sessions", summary.sessions);
    line.number("messages", summary.messages);
    line.object("findings", |object| {
        for (severity, count) in summary.findings.iter().rev() {
            object.number(severity.name(), *count);
        }
    });
    line.maybe(&summary.first_time, |line, time| line.time("first_time", *time));
    line.maybe(&summary.last_time, |line, time| line.time("last_time", *time));
    line.float("elapsed_seconds", (summary.elapsed_seconds * 1e6).round() / 1e6);
    line.end_line();
}
