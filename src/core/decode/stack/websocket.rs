//! The messages of a WebSocket. Each is a text that may be JSON-RPC.

use super::context::StackContext;
use super::unit::TextCarrier;
use crate::capture::{Limits, Origin, Span, StreamId, Time};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::raw::Raw;
use crate::decode::stream::StreamKind;
use crate::decode::websocket::{Deflate, WebSocket, WebSocketEvent};
use crate::decode::{Anomaly, Direction, Piece};

/// Whether the upgrade to a WebSocket was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// It was, and this compression was negotiated.
    Captured(Option<Deflate>),
    /// It was not. The capture begins inside the WebSocket.
    NotCaptured,
}

/// Decodes one WebSocket.
#[derive(Debug)]
pub(super) struct WebSocketStack {
    decoder: WebSocket,
    messages: Messages,
}

/// Emits messages as texts.
#[derive(Debug)]
struct Messages {
    exchange: ExchangeNumber,
    /// For each direction, the stream that carries the frames: of the connection, or the content of
    /// an HTTP/2 stream.
    frame_streams: [StreamId; 2],
    message_streams: [StreamId; 2],
}

impl WebSocketStack {
    /// A decoder for the WebSocket that `exchange` opened. It starts at `offsets` of the streams
    /// that carry its frames.
    pub(super) fn new(
        context: &mut StackContext<'_>,
        exchange: ExchangeNumber,
        frame_streams: [StreamId; 2],
        offsets: [u64; 2],
        beginning: Beginning,
    ) -> WebSocketStack {
        let message_streams = [Direction::ClientToServer, Direction::ServerToClient]
            .map(|direction| context.open(StreamKind::WebSocket(exchange, direction)));
        let limits = context.shared.limits;
        let decoder = match beginning {
            Beginning::Captured(deflate) => WebSocket::new(limits, offsets, deflate),
            Beginning::NotCaptured => WebSocket::midway(limits, offsets),
        };
        WebSocketStack { decoder, messages: Messages { exchange, frame_streams, message_streams } }
    }

    /// Decodes the next piece of one direction.
    pub(super) fn push(&mut self, context: &mut StackContext<'_>, direction: Direction, piece: Piece<'_>, time: Time) {
        let WebSocketStack { decoder, messages } = self;
        let before = decoder.buffered_bytes();
        decoder.push(direction, piece, &mut |event| messages.event(context, event, time));
        context.shared.collected = context.shared.collected - before + decoder.buffered_bytes();
        let Limits { messages_total, .. } = context.shared.limits;
        if context.shared.collected > messages_total && decoder.buffered_bytes() > 0 {
            let offset = decoder.low_water(direction);
            self.give_up(context);
            let anomaly = Anomaly::LimitReached { limit: "messages_total", offset };
            context.anomaly(Some(direction), Some(self.messages.exchange), None, anomaly);
        }
        let stream = self.messages.message_streams[direction as usize];
        let end = context.shared.provenance.length(stream);
        context.forget(stream, end);
    }

    /// Searches the next frame of this direction, because an unknown number of bytes is missing.
    pub(super) fn lose_framing(&mut self, context: &mut StackContext<'_>, direction: Direction) {
        let before = self.decoder.buffered_bytes();
        self.decoder.lose_framing(direction);
        context.shared.collected = context.shared.collected - before + self.decoder.buffered_bytes();
    }

    /// The offset of the first byte of this direction that the decoder still needs.
    pub(super) fn low_water(&self, direction: Direction) -> u64 {
        self.decoder.low_water(direction)
    }

    /// Discards incomplete messages at the end of the connection.
    pub(super) fn close(&mut self, context: &mut StackContext<'_>) {
        self.give_up(context);
        self.messages.message_streams.into_iter().for_each(|stream| context.close(stream));
    }

    /// Discards the incomplete messages.
    fn give_up(&mut self, context: &mut StackContext<'_>) {
        context.shared.collected -= self.decoder.buffered_bytes();
        self.decoder.give_up();
    }
}

impl Messages {
    fn event(&self, context: &mut StackContext<'_>, event: WebSocketEvent<'_>, time: Time) {
        match event {
            WebSocketEvent::Message { direction, bytes, payloads } => {
                let (stream, frames) =
                    (self.message_streams[direction as usize], self.frame_streams[direction as usize]);
                let start = context.shared.provenance.length(stream);
                for payload in payloads {
                    let (start, end) = (payload.range.start, payload.range.end);
                    let origin = match payload.is_copied {
                        true => Origin::Copied { stream: frames, offset: start },
                        false => Origin::Derived(Span { stream: frames, start, end }),
                    };
                    context.shared.provenance.append(stream, payload.length, origin);
                }
                if bytes.is_empty() {
                    return;
                }
                let span = Span { stream, start, end: start + bytes.len() as u64 };
                let carrier = TextCarrier::WebSocket(self.exchange);
                context.text(direction, Raw::from(bytes).into_owned(), span, time, carrier);
            }
            WebSocketEvent::Anomaly { direction, anomaly } => {
                let stream = self.frame_streams[direction as usize];
                let span = |start: u64, length: u64| Some(Span { stream, start, end: start + length });
                let span = match anomaly {
                    Anomaly::NotWebSocket { offset, .. } | Anomaly::LimitReached { offset, .. } => span(offset, 1),
                    Anomaly::Skipped { offset, length } => span(offset, length),
                    _ => None,
                };
                context.anomaly(Some(direction), Some(self.exchange), span, anomaly);
            }
        }
    }
}
