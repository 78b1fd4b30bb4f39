//! The layers of HTTP, WebSocket and server-sent events that carried a message.

use anyhow::Result;

use super::{At, Field, Layer, StoredSession, below, half, span_as_sent};
use crate::capture::{Span, StreamId};
use crate::decode::exchange::Exchange;
use crate::decode::stream::StreamKind;
use crate::mcp::{Carrier, Message};
use crate::view::units::{count, duration, size};

/// The head of the request or response that carried the message.
pub(super) fn head(stored: &StoredSession<'_>, exchange: &Exchange, message: &Message) -> Result<Layer> {
    let is_request = message.carrier == Carrier::RequestBody;
    let half = half(exchange, message);
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "?".to_owned());
    let request_line = format!("{} {}", text(&exchange.method), text(&exchange.target));
    let status_line = exchange
        .status
        .map(|status| format!("{status} {}", exchange.reason.as_deref().unwrap_or_default()).trim_end().to_owned());
    let line = if is_request { request_line.clone() } else { status_line.clone().unwrap_or_default() };
    let mut fields = vec![
        Field::new("exchange", exchange.number.0),
        Field::new(if is_request { "request" } else { "response" }, &line),
    ];
    match (is_request, status_line) {
        (true, status_line) => fields.extend(status_line.map(|status_line| Field::new("answered", status_line))),
        (false, _) => fields.push(Field::new("answers", request_line)),
    }
    fields.extend(half.fields.iter().map(|(name, value)| Field::new(name, value).at(At::Head)));
    fields.push(Field::new("body", size(half.body_bytes)));
    if let (Some(started), Some(ended)) = (half.started, half.ended) {
        fields.push(Field::new("took", duration(ended.since(started))));
    }
    if !half.complete {
        fields.push(Field::new("incomplete", "not all of it was captured").odd());
    }
    let media = half.fields.get("content-type").unwrap_or_default();
    let stream = exchange.h2_stream.map(|stream| format!("  stream {stream}")).unwrap_or_default();
    Ok(Layer {
        summary: format!("{line}  {media}{stream}").trim_end().to_owned(),
        fields,
        stream: connection_stream(stored, message)?,
        range: Some((half.head_start, half.head_end)),
        packets: half.head_packets.clone(),
        ..Layer::new("http", format!("HTTP/{}", exchange.http_version))
    })
}

/// The frames that carried a message: of its HTTP/2 stream, or of a WebSocket. `None` for HTTP/1.
pub(super) fn frames(stored: &StoredSession<'_>, exchange: &Exchange, message: &Message) -> Result<Option<Layer>> {
    /// Maximum number of frames that are listed one by one.
    const LISTED: usize = 16;
    let protocol = match exchange.h2_stream {
        _ if message.carrier == Carrier::WebSocket => "WebSocket",
        Some(_) => "HTTP/2 DATA",
        None => return Ok(None),
    };
    // Frames contain the body, or the text of a WebSocket message.
    let mut span = message.span;
    while let Some(stream) = stored.reader.stream(stored.capture, span.stream)? {
        let parts = below(stored, span)?;
        let Some((first, last)) = parts.first().zip(parts.last()) else { break };
        if let StreamKind::Body(..) | StreamKind::WebSocket(..) = stream.kind {
            let mut fields = Vec::new();
            if let Some(stream) = exchange.h2_stream {
                fields.push(Field::new("stream", stream));
            }
            fields.push(Field::new("frames", parts.len()));
            for (index, part) in parts.iter().take(LISTED).enumerate() {
                let bytes = format!("{} of its payload, bytes {}..{}", size(part.len()), part.start, part.end);
                fields.push(Field::new(format!("frame {}", index + 1), bytes).at(At::Stream(*part)));
            }
            return Ok(Some(Layer {
                summary: count(parts.len() as u64, "frame"),
                fields,
                stream: Some(first.stream),
                range: Some((first.start, last.end)),
                packets: message.packets.clone(),
                ..Layer::new("http", protocol)
            }));
        }
        span = Span { stream: first.stream, start: first.start, end: last.end };
    }
    Ok(None)
}

/// The stream of the connection that carried a message: of TCP, of decrypted TLS, or of a pipe.
fn connection_stream(stored: &StoredSession<'_>, message: &Message) -> Result<Option<StreamId>> {
    let mut span = message.span;
    while let Some(stream) = stored.reader.stream(stored.capture, span.stream)? {
        if matches!(stream.kind, StreamKind::Tcp(_) | StreamKind::Plaintext(_) | StreamKind::Pipe(_)) {
            return Ok(Some(stream.id));
        }
        match below(stored, span)?.first() {
            Some(next) if next.stream < span.stream => span = *next,
            _ => break,
        }
    }
    Ok(None)
}

/// The server-sent event that carried the message.
pub(super) fn event(stored: &StoredSession<'_>, message: &Message) -> Result<Layer> {
    let body = below(stored, span_as_sent(stored, message)?)?;
    let range = body.first().zip(body.last()).map(|(first, last)| (first.start, last.end));
    let length = size(message.span.len());
    let mut fields = vec![Field::new("data", format!("{length} in {}", count(body.len().max(1) as u64, "line")))];
    fields.extend(message.sse_id.as_ref().map(|id| Field::new("id", id)));
    if message.redelivered {
        fields.push(Field::new("redelivered", "the event was delivered before").odd());
    }
    let id = message.sse_id.as_deref().map(|id| format!("id {id}  ")).unwrap_or_default();
    Ok(Layer {
        summary: format!("{id}{length}"),
        fields,
        stream: body.first().map(|span| span.stream),
        range,
        packets: message.packets.clone(),
        ..Layer::new("sse", "server-sent event")
    })
}
