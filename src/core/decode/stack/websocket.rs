//! The messages of a WebSocket: each is a text that may be JSON-RPC.

use super::context::StackContext;
use super::unit::{Text, TextCarrier, Unit};
use crate::capture::{Limits, Origin, Span, StreamId, Time};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::stream::StreamKind;
use crate::decode::websocket::{Deflate, WebSocket, WebSocketEvent};
use crate::decode::{Anomaly, Direction, Piece};

#[derive(Debug)]
pub(super) struct WebSocketStack {
    decoder: WebSocket,
    messages: Messages,
}

/// Where messages go.
#[derive(Debug)]
struct Messages {
    exchange: ExchangeNumber,
    /// The connection's stream of each direction, and that of its messages.
    below: [StreamId; 2],
    streams: [StreamId; 2],
}

impl WebSocketStack {
    /// Behind the upgrade that this exchange asked for, at these offsets of the connection's streams.
    pub(super) fn new(
        context: &mut StackContext<'_, '_>,
        exchange: ExchangeNumber,
        below: [StreamId; 2],
        offsets: [u64; 2],
        deflate: Option<Deflate>,
    ) -> WebSocketStack {
        let streams = [Direction::ClientToServer, Direction::ServerToClient]
            .map(|direction| context.open(StreamKind::WebSocket(exchange, direction)));
        let decoder = WebSocket::new(context.shared.limits, offsets, deflate);
        WebSocketStack { decoder, messages: Messages { exchange, below, streams } }
    }

    /// The next piece of one direction.
    pub(super) fn push(
        &mut self,
        context: &mut StackContext<'_, '_>,
        direction: Direction,
        piece: Piece<'_>,
        time: Time,
    ) {
        let WebSocketStack { decoder, messages } = self;
        let before = decoder.held();
        decoder.push(direction, piece, &mut |event| messages.event(context, event, time));
        context.shared.collected = context.shared.collected - before + decoder.held();
        let Limits { messages_total, .. } = context.shared.limits;
        if context.shared.collected > messages_total && decoder.held() > 0 {
            let offset = decoder.low_water(direction);
            self.give_up(context);
            let anomaly = Anomaly::LimitReached { limit: "messages_total", offset };
            context.anomaly(Some(direction), Some(self.messages.exchange), None, anomaly);
        }
        let stream = self.messages.streams[direction as usize];
        let end = context.shared.provenance.length(stream);
        context.forget(stream, end);
    }

    /// The lowest offset of this direction that a message may still come from.
    pub(super) fn low_water(&self, direction: Direction) -> u64 {
        self.decoder.low_water(direction)
    }

    /// The connection is over.
    pub(super) fn close(&mut self, context: &mut StackContext<'_, '_>) {
        self.give_up(context);
        self.messages.streams.into_iter().for_each(|stream| context.close(stream));
    }

    /// Nothing more is collected of the messages that are open.
    fn give_up(&mut self, context: &mut StackContext<'_, '_>) {
        context.shared.collected -= self.decoder.held();
        self.decoder.give_up();
    }
}

impl Messages {
    fn event(&self, context: &mut StackContext<'_, '_>, event: WebSocketEvent<'_>, time: Time) {
        match event {
            WebSocketEvent::Message { direction, bytes, payloads } => {
                let (stream, below) = (self.streams[direction as usize], self.below[direction as usize]);
                let start = context.shared.provenance.length(stream);
                for payload in payloads {
                    let (start, end) = (payload.range.start, payload.range.end);
                    let origin = match payload.is_copied {
                        true => Origin::Copied { stream: below, offset: start },
                        false => Origin::Derived(Span { stream: below, start, end }),
                    };
                    context.shared.provenance.append(stream, payload.length, origin);
                }
                if bytes.is_empty() {
                    return;
                }
                let span = Span { stream, start, end: start + bytes.len() as u64 };
                let carrier = TextCarrier::WebSocket(self.exchange);
                let (connection, provenance) = (context.id, &context.shared.provenance);
                let text = Text { connection, direction, raw: bytes.into(), span, provenance, time, carrier };
                (context.sink)(Unit::Text(text, context.connected));
            }
            WebSocketEvent::Anomaly { direction, anomaly } => {
                let span = match anomaly {
                    Anomaly::NotWebSocket { offset, .. } | Anomaly::LimitReached { offset, .. } => {
                        Some(Span { stream: self.below[direction as usize], start: offset, end: offset + 1 })
                    }
                    _ => None,
                };
                context.anomaly(Some(direction), Some(self.exchange), span, anomaly);
            }
        }
    }
}
