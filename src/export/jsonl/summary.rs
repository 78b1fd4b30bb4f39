//! The last line: what a capture held altogether.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::capture::Time;
use crate::export::json::{Object, write_digits};
use crate::findings::Severity;

/// Counts over a whole capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Packets read.
    pub packets: u64,
    /// Bytes of them as captured.
    pub bytes: u64,
    /// Packets not looked into, by reason.
    pub skipped: BTreeMap<Cow<'static, str>, u64>,
    /// TCP connections seen.
    pub tcp_connections: u64,
    /// HTTP exchanges.
    pub exchanges: u64,
    /// MCP sessions.
    pub sessions: u64,
    /// Messages, members of batches counted each.
    pub messages: u64,
    /// Findings by severity.
    pub findings: BTreeMap<Severity, u64>,
    /// Time of the first packet in the capture.
    pub first_time: Option<Time>,
    /// Time of the last packet.
    pub last_time: Option<Time>,
    /// What reading took, by the clock, in seconds.
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
