//! OTLP/JSON: requests with their responses as spans. The OpenTelemetry collector's file exporter
//! writes this format, and its file receiver reads it
//! (<https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/>): one `TracesData` a line.
//!
//! Names and attributes are those of the semantic conventions for MCP, from the view of the side
//! that sends the request. Attributes without a name there begin with `mcptap.`. Ids are hashes of
//! captured facts, so a session has the same ids in every export.
//!
//! ```text
//!    session                    the trace: a whole session, unless a request names its own trace
//!    ├─ initialize
//!    └─ tools/call get_weather  a request and its response; progress and cancellation are events
//! ```
//!
//! ```text
//!  messages ─► calls ─► spans ─► proto ─┬─► json      this export
//!                                       └─► Protobuf  telemetry, while traffic is recorded
//! ```

mod attributes;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "telemetry uses the rest"))]
pub(crate) mod calls;
mod json;
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "telemetry uses the rest"))]
pub(crate) mod proto;
pub(crate) mod spans;

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::Result;

use self::calls::{Call, CallResponse, End, OpenRequests, Request};
use self::spans::{Trace, resource};
use super::json::Object;
use crate::decode::Direction;
use crate::mcp::{MessageNumber, Session};
use crate::store::{CaptureId, Page, RowKey, StoreReader};

/// Bytes of spans after which a line is written.
const LINE: usize = 256 << 10;

/// Writes the spans of a session: of all requests, or of the `wanted` ones.
pub fn write_session(
    reader: &StoreReader,
    session: &Session,
    wanted: Option<&BTreeSet<MessageNumber>>,
    out: &mut dyn Write,
) -> Result<()> {
    let Some(capture) = reader.capture_of(session.number)? else { return Ok(()) };
    let http = reader.exchanges(session.number, Page::first(1))?.first().map(|exchange| exchange.http_version);
    let lines = [Direction::ClientToServer, Direction::ServerToClient].map(|side| Line::new(session, side));
    let mut writer = SpanWriter { session, trace: Trace::of(session, http), lines, out };
    let mut open = OpenRequests::new(false);
    for message in reader.numbered_messages(session.number)? {
        let message = message?;
        let is_wanted = || wanted.is_none_or(|wanted| wanted.contains(&message.number));
        if let Some(call) = open.message(&message, is_wanted) {
            writer.call(&call)?;
        }
        while let Some(request) = open.excess() {
            let (number, end) = stored_end(request, reader, capture)?;
            open.end(number, end).map_or(Ok(()), |call| writer.call(&call))?;
        }
    }
    while let Some(request) = open.oldest() {
        let (number, end) = stored_end(request, reader, capture)?;
        open.end(number, end).map_or(Ok(()), |call| writer.call(&call))?;
    }
    writer.finish()
}

/// The end of a call that is written early, with its response if the store has one.
fn stored_end(request: &Request, reader: &StoreReader, capture: CaptureId) -> Result<(MessageNumber, End)> {
    let answer = request.answered_by.map(|number| reader.message(RowKey::new(capture, number.0))).transpose()?;
    let end = answer.flatten().map_or(End::Unanswered(None), |answer| End::Answered(CallResponse::of(&answer, false)));
    Ok((request.number, end))
}

/// Writes the spans of a session in the order in which they end.
struct SpanWriter<'a> {
    session: &'a Session,
    trace: Trace,
    /// The spans of the client and those of the server.
    lines: [Line; 2],
    out: &'a mut dyn Write,
}

impl SpanWriter<'_> {
    fn call(&mut self, call: &Call) -> Result<()> {
        let span = self.trace.call(self.session, call);
        self.lines[call.request.sender as usize].span(self.out, &span)
    }

    fn finish(mut self) -> Result<()> {
        self.lines[0].span(self.out, &self.trace.session(self.session))?;
        self.lines.iter_mut().try_for_each(|line| line.flush(self.out))
    }
}

/// Collects the spans of one side until they fill a line.
struct Line {
    /// The beginning of the line, up to its spans.
    head: Vec<u8>,
    spans: Vec<u8>,
}

impl Line {
    fn new(session: &Session, side: Direction) -> Line {
        let mut head = br#"{"resourceSpans":[{"resource":"#.to_vec();
        let mut object = Object::inside(&mut head);
        json::write_attributes(&mut object, &resource(session, side));
        object.end();
        let version = env!("CARGO_PKG_VERSION");
        let scope = format!(r#","scopeSpans":[{{"scope":{{"name":"mcptap","version":"{version}"}},"spans":["#);
        head.extend_from_slice(scope.as_bytes());
        Line { head, spans: Vec::new() }
    }

    /// Adds a span.
    fn span(&mut self, out: &mut dyn Write, span: &proto::Span) -> Result<()> {
        if !self.spans.is_empty() {
            self.spans.push(b',');
        }
        let mut object = Object::inside(&mut self.spans);
        json::write_span(&mut object, span);
        object.end();
        if self.spans.len() > LINE { self.flush(out) } else { Ok(()) }
    }

    /// Writes the collected spans as a line.
    fn flush(&mut self, out: &mut dyn Write) -> Result<()> {
        if !self.spans.is_empty() {
            out.write_all(&self.head)?;
            out.write_all(&self.spans)?;
            out.write_all(b"]}]}]}\n")?;
            self.spans.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
