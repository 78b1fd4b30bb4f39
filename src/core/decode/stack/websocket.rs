//! The messages of a WebSocket: each is a text that may be JSON-RPC.

use super::layer::Layer;
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
        layer: &mut Layer<'_, '_>,
        exchange: ExchangeNumber,
        below: [StreamId; 2],
        offsets: [u64; 2],
        deflate: Option<Deflate>,
    ) -> WebSocketStack {
        let streams = [Direction::ClientToServer, Direction::ServerToClient]
            .map(|direction| layer.open(StreamKind::WebSocket(exchange, direction)));
        let decoder = WebSocket::new(layer.shared.limits, offsets, deflate);
        WebSocketStack { decoder, messages: Messages { exchange, below, streams } }
    }

    /// The next piece of one direction.
    pub(super) fn push(&mut self, layer: &mut Layer<'_, '_>, direction: Direction, piece: Piece<'_>, time: Time) {
        let WebSocketStack { decoder, messages } = self;
        let before = decoder.held();
        decoder.push(direction, piece, &mut |event| messages.event(layer, event, time));
        layer.shared.collected = layer.shared.collected - before + decoder.held();
        let Limits { messages_total, .. } = layer.shared.limits;
        if layer.shared.collected > messages_total && decoder.held() > 0 {
            let offset = decoder.low_water(direction);
            self.give_up(layer);
            let anomaly = Anomaly::LimitReached { limit: "messages_total", offset };
            layer.anomaly(Some(direction), Some(self.messages.exchange), None, anomaly);
        }
        let stream = self.messages.streams[direction as usize];
        let end = layer.shared.provenance.length(stream);
        layer.forget(stream, end);
    }

    /// The lowest offset of this direction that a message may still come from.
    pub(super) fn low_water(&self, direction: Direction) -> u64 {
        self.decoder.low_water(direction)
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>) {
        self.give_up(layer);
        self.messages.streams.into_iter().for_each(|stream| layer.close(stream));
    }

    /// Nothing more is collected of the messages that are open.
    fn give_up(&mut self, layer: &mut Layer<'_, '_>) {
        layer.shared.collected -= self.decoder.held();
        self.decoder.give_up();
    }
}

impl Messages {
    fn event(&self, layer: &mut Layer<'_, '_>, event: WebSocketEvent<'_>, time: Time) {
        match event {
            WebSocketEvent::Message { direction, bytes, places } => {
                let (stream, below) = (self.streams[direction as usize], self.below[direction as usize]);
                let start = layer.shared.provenance.length(stream);
                for place in places {
                    let (start, end) = (place.range.start, place.range.end);
                    let origin = match place.plain {
                        true => Origin::Copied { stream: below, offset: start },
                        false => Origin::Derived(Span { stream: below, start, end }),
                    };
                    layer.shared.provenance.append(stream, place.length, origin);
                }
                if bytes.is_empty() {
                    return;
                }
                let span = Span { stream, start, end: start + bytes.len() as u64 };
                let carrier = TextCarrier::WebSocket(self.exchange);
                let (connection, provenance) = (layer.id, &layer.shared.provenance);
                let text = Text { connection, direction, raw: bytes.into(), span, provenance, time, carrier };
                (layer.sink)(Unit::Text(text, layer.connected));
            }
            WebSocketEvent::Anomaly { direction, anomaly } => {
                let span = match anomaly {
                    Anomaly::NotWebSocket { offset, .. } | Anomaly::LimitReached { offset, .. } => {
                        Some(Span { stream: self.below[direction as usize], start: offset, end: offset + 1 })
                    }
                    _ => None,
                };
                layer.anomaly(Some(direction), Some(self.exchange), span, anomaly);
            }
        }
    }
}
