//! HTTP on a connection: the version of HTTP, its exchanges, and switches to other protocols.

mod exchanges;
mod upgrade;
mod websocket_stream;

use self::exchanges::Exchanges;
pub(super) use self::upgrade::Tunnel;
use self::upgrade::{Protocol, Upgrade};
use super::context::{StackContext, StackOptions};
use super::websocket::{Beginning, WebSocketStack};
use crate::capture::{StreamId, Time};
use crate::decode::exchange::Exchange;
use crate::decode::http::{ExchangeIndex, Head, HttpEvent};
use crate::decode::http1::Http1;
use crate::decode::http2::Http2;
use crate::decode::{Direction, Ending, Piece};

/// Decodes HTTP on one connection.
#[derive(Debug)]
pub(super) struct HttpStack {
    decoder: ActiveDecoder,
    exchanges: Exchanges,
}

/// The version of HTTP with which a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// HTTP/1.1 (RFC 9112).
    Http1,
    /// HTTP/1.1, recognised in the middle of a response.
    Http1Midway,
    /// HTTP/2 (RFC 9113).
    Http2,
    /// HTTP/2, recognised in the middle of a stream.
    Http2Midway,
    /// HTTP/1.1 that switched to WebSocket before the capture.
    WebSocketMidway,
}

impl Version {
    /// The name for `ConnectionInfo::protocol`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::Http1 | Version::Http1Midway => "http/1.1",
            Version::Http2 | Version::Http2Midway => "http/2",
            Version::WebSocketMidway => "websocket",
        }
    }

    /// Whether the connection was recognised in the middle of a stream or response.
    pub(super) fn is_midway(self) -> bool {
        matches!(self, Version::Http1Midway | Version::Http2Midway | Version::WebSocketMidway)
    }
}

/// The decoder of the protocol that the connection carries now.
#[derive(Debug)]
enum ActiveDecoder {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    WebSocket(Box<WebSocketStack>),
}

fn http2(decoder: Http2, options: StackOptions) -> ActiveDecoder {
    let decoder = decoder.with_masks(options.mask_key, options.redaction);
    let needs_secrets = options.store && !options.keep_secrets;
    ActiveDecoder::Http2(Box::new(if needs_secrets { decoder } else { decoder.without_secrets() }))
}

impl HttpStack {
    /// A decoder for these streams. Each direction begins at its offset in `offsets`.
    pub(super) fn new(
        context: &mut StackContext<'_>,
        streams: [StreamId; 2],
        version: Version,
        offsets: [u64; 2],
        time: Time,
    ) -> HttpStack {
        let (limits, options) = (context.shared.limits, context.shared.options);
        let mut exchanges = Exchanges::new(streams);
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            exchanges.restart_at(direction, offsets[direction as usize]);
        }
        let decoder = match version {
            Version::Http1 => ActiveDecoder::Http1(Box::new(Http1::at_offsets(limits, offsets))),
            Version::Http1Midway => ActiveDecoder::Http1(Box::new(Http1::midway(limits, offsets))),
            Version::Http2 => http2(Http2::at_offsets(limits, offsets), options),
            Version::Http2Midway => http2(Http2::midway(limits, offsets), options),
            Version::WebSocketMidway => {
                let (index, direction) = (ExchangeIndex(0), Direction::ServerToClient);
                let offset = offsets[direction as usize];
                exchanges.note_piece(direction, 0, offset, time);
                let head = Box::new(Head::unseen(direction, offset, "1.1"));
                exchanges.event(context, HttpEvent::Head { exchange: index, direction, stream: None, head }, time);
                let exchange = exchanges.open.get(&index).map(|open| open.exchange.number).unwrap_or_default();
                let messages = WebSocketStack::new(context, exchange, streams, offsets, Beginning::NotCaptured);
                ActiveDecoder::WebSocket(Box::new(messages))
            }
        };
        HttpStack { decoder, exchanges }
    }

    /// Decodes the next piece of one direction. Its sender had acknowledged the other direction up
    /// to `acknowledged`.
    pub(super) fn push(
        &mut self,
        context: &mut StackContext<'_>,
        direction: Direction,
        piece: Piece<'_>,
        acknowledged: u64,
        time: Time,
    ) {
        let is_end = matches!(piece, Piece::End(_));
        let redacts = context.shared.options.redaction.is_some();
        let length = match piece {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Gap(length) => length,
            Piece::End(_) => 0,
        };
        let decoded_to = self.decoded_to(direction);
        self.exchanges.note_piece(direction, length, decoded_to, time);
        let HttpStack { decoder, exchanges } = self;
        let skipped = match decoder {
            ActiveDecoder::Http1(http) => {
                http.push(direction, piece, acknowledged, &mut |event| exchanges.event(context, event, time));
                http.passed_over(direction)
            }
            ActiveDecoder::Http2(http) => {
                http.note_acknowledged(direction, acknowledged);
                http.push(direction, piece, &mut |event| exchanges.event(context, event, time));
                http.passed_over(direction)
            }
            ActiveDecoder::WebSocket(messages) => {
                messages.push(context, direction, piece, time);
                let decoded_to = self.decoded_to(direction);
                return self.exchanges.update_needed(direction, decoded_to, is_end, redacts);
            }
        };
        exchanges.mask_skipped(context, direction, skipped);
        let decoded_to = self.decoded_to(direction);
        self.exchanges.note_decoded(direction, decoded_to);
        self.switch(context, time);
        let decoded_to = self.decoded_to(direction);
        self.exchanges.update_needed(direction, decoded_to, is_end, redacts);
    }

    /// The tunnel, if the connection became one.
    pub(super) fn tunnel(&mut self) -> Option<Tunnel> {
        let upgrade = &mut self.exchanges.upgrade;
        let (Some((_, Protocol::Tunnel)), [Some(requests), Some(responses)]) = (upgrade.to, upgrade.offsets) else {
            return None;
        };
        Some(Tunnel { offsets: [requests, responses], bytes: std::mem::take(upgrade).bytes })
    }

    /// Continues with the decoder of the protocol that the connection switched to.
    fn switch(&mut self, context: &mut StackContext<'_>, time: Time) {
        let [Some(requests), Some(responses)] = self.exchanges.upgrade.offsets else { return };
        let Some((index, to)) = self.exchanges.upgrade.to else { return };
        let Some(exchange) = self.exchanges.open.get(&index).map(|open| open.exchange.number) else { return };
        let (offsets, streams) = ([requests, responses], self.exchanges.streams);
        let (decoder, protocol) = match to {
            Protocol::Http2 => {
                let decoder = Http2::upgraded(context.shared.limits, index, offsets);
                (http2(decoder, context.shared.options), Version::Http2.name())
            }
            Protocol::WebSocket(deflate) => {
                let messages = WebSocketStack::new(context, exchange, streams, offsets, Beginning::Captured(deflate));
                (ActiveDecoder::WebSocket(Box::new(messages)), "websocket")
            }
            Protocol::Tunnel => return,
        };
        let Upgrade { bytes, .. } = std::mem::take(&mut self.exchanges.upgrade);
        self.decoder = decoder;
        context.connection_mut().protocol = protocol;
        context.connection_changed();
        for (direction, bytes) in [Direction::ClientToServer, Direction::ServerToClient].into_iter().zip(bytes) {
            self.exchanges.restart_at(direction, offsets[direction as usize]);
            if !bytes.is_empty() {
                self.push(context, direction, Piece::Data(&bytes), 0, time);
            }
        }
    }

    /// Calls `show` with each open exchange that got a head since the last call.
    pub(super) fn show_new_heads(&mut self, show: &mut dyn FnMut(&Exchange)) {
        self.exchanges.open.values_mut().filter_map(|open| open.take_new_head()).for_each(show);
    }

    /// Offset of the first byte of this direction whose origin may still be queried.
    pub(super) fn low_water(&self, direction: Direction) -> u64 {
        self.exchanges.needed[direction as usize].from
    }

    /// Offset up to which this direction was searched for secrets. All secrets below
    /// it were emitted.
    pub(super) fn cleared(&self, direction: Direction) -> u64 {
        self.exchanges.needed[direction as usize].cleared
    }

    /// Offset of the first byte of this direction that the decoder still needs.
    fn decoded_to(&self, direction: Direction) -> u64 {
        match &self.decoder {
            ActiveDecoder::Http1(http) => http.low_water(direction),
            ActiveDecoder::Http2(http) => http.low_water(direction),
            ActiveDecoder::WebSocket(messages) => messages.low_water(direction),
        }
    }

    /// Ends all open exchanges.
    pub(super) fn close(&mut self, context: &mut StackContext<'_>, ending: Ending) {
        if let ActiveDecoder::WebSocket(messages) = &mut self.decoder {
            messages.close(context);
        }
        for index in self.exchanges.open.keys().copied().collect::<Vec<_>>() {
            for direction in [Direction::ClientToServer, Direction::ServerToClient] {
                self.exchanges.end_body(context, index, direction, false, ending);
            }
            self.exchanges.finish(context, index);
        }
    }
}
