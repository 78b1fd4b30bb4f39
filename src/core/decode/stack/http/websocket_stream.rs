//! A WebSocket on one stream of HTTP/2 (RFC 8441). The frames of the WebSocket are the content of
//! the stream.

use crate::capture::{Origin, Span, StreamId, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::http::{Head, StartLine};
use crate::decode::stack::context::StackContext;
use crate::decode::stack::websocket::{Beginning, WebSocketStack};
use crate::decode::stream::StreamKind;
use crate::decode::websocket::Deflate;
use crate::decode::{Direction, Piece};

/// Decodes the WebSocket of one exchange.
#[derive(Debug)]
pub(super) struct WebSocketStream {
    messages: WebSocketStack,
    /// For each direction, the stream of the content.
    streams: [StreamId; 2],
    /// For each direction, the offset in the connection's stream of the first byte that an
    /// incomplete message needs.
    pub(super) needed_from: [Option<u64>; 2],
}

/// Whether this response opens a WebSocket. RFC 8441 section 4: the method is CONNECT, and
/// `:protocol` names the protocol. Section 5: "a 2xx series status code" accepts it.
pub(super) fn accepts_websocket(exchange: &Exchange, response: &Head) -> bool {
    exchange.method.as_deref() == Some("CONNECT")
        && exchange.request.fields.get(":protocol") == Some("websocket")
        && matches!(response.start, StartLine::Response { status: 200..=299, .. })
}

impl WebSocketStream {
    /// The WebSocket that the response with this head opens.
    pub(super) fn accepted(context: &mut StackContext<'_>, exchange: ExchangeNumber, head: &Head) -> WebSocketStream {
        let deflate = head.list("sec-websocket-extensions").and_then(|list| Deflate::agreed(&list));
        WebSocketStream::new(context, exchange, Beginning::Captured(deflate))
    }

    /// A WebSocket that was opened before the capture.
    pub(super) fn midway(context: &mut StackContext<'_>, exchange: ExchangeNumber) -> WebSocketStream {
        WebSocketStream::new(context, exchange, Beginning::NotCaptured)
    }

    fn new(context: &mut StackContext<'_>, exchange: ExchangeNumber, beginning: Beginning) -> WebSocketStream {
        let streams = [Direction::ClientToServer, Direction::ServerToClient]
            .map(|direction| context.open(StreamKind::Body(exchange, direction)));
        let messages = WebSocketStack::new(context, exchange, streams, [0; 2], beginning);
        WebSocketStream { messages, streams, needed_from: [None; 2] }
    }

    /// Decodes the next content of one direction. `below` is its place in the connection's stream.
    pub(super) fn content(
        &mut self,
        context: &mut StackContext<'_>,
        direction: Direction,
        below: Span,
        bytes: &[u8],
        time: Time,
    ) {
        let origin = Origin::Copied { stream: below.stream, offset: below.start };
        context.shared.provenance.append(self.streams[direction as usize], below.len(), origin);
        self.push(context, direction, Piece::Data(bytes), time);
    }

    /// Handles missing content. If its length is unknown, frames are searched after it.
    pub(super) fn gap(
        &mut self,
        context: &mut StackContext<'_>,
        direction: Direction,
        length: Option<u64>,
        time: Time,
    ) {
        context.shared.provenance.append(self.streams[direction as usize], length.unwrap_or(1), Origin::Missing);
        if length.is_none() {
            self.messages.lose_framing(context, direction);
        }
        self.push(context, direction, Piece::Gap(length.unwrap_or(1)), time);
    }

    fn push(&mut self, context: &mut StackContext<'_>, direction: Direction, piece: Piece<'_>, time: Time) {
        self.messages.push(context, direction, piece, time);
        let (stream, low) = (self.streams[direction as usize], self.messages.low_water(direction));
        let first = context.shared.provenance.parents(Span { stream, start: low, end: u64::MAX }).next();
        self.needed_from[direction as usize] =
            first.and_then(|part| if let Origin::Copied { offset, .. } = part.origin { Some(offset) } else { None });
        context.forget(stream, low);
    }

    /// Ends the WebSocket.
    pub(super) fn close(mut self, context: &mut StackContext<'_>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            self.messages.push(context, direction, Piece::End(crate::decode::Ending::Cut), Time::default());
        }
        self.messages.close(context);
        self.streams.into_iter().for_each(|stream| context.close(stream));
    }
}
