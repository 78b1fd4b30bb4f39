//! HTTP on a connection: which version runs on it, and what it is switched to.

mod exchanges;

use self::exchanges::Exchanges;
use super::body::Body;
use super::websocket::WebSocketStack;
use super::{Layer, Unit};
use crate::capture::{Limits, StreamId, Time};
use crate::decode::exchange::Exchange;
use crate::decode::http::{Head, Index, StartLine};
use crate::decode::http1::Http1;
use crate::decode::http2::Http2;
use crate::decode::websocket::Deflate;
use crate::decode::{Direction, Ending, Piece};

#[derive(Debug)]
pub(super) struct HttpStack {
    decoder: Decoder,
    exchanges: Exchanges,
}

/// Which HTTP a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// RFC 9112.
    Http1,
    /// The same, in the middle of a response.
    Http1Midway,
    /// RFC 9113.
    Http2,
}

impl Version {
    /// The word for [`super::Connected::protocol`].
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::Http1 | Version::Http1Midway => "http/1.1",
            Version::Http2 => "http/2",
        }
    }
}

/// What runs on the connection now.
#[derive(Debug)]
enum Decoder {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
    WebSocket(Box<WebSocketStack>),
}

/// A switch of protocols (RFC 9110 section 7.8), from the 101 response on; or to a tunnel, from the 2xx response on.
#[derive(Debug, Default)]
struct Upgrade {
    /// The exchange that asked for it, and what it asked for.
    to: Option<(Index, Protocol)>,
    /// Where HTTP/1.1 ends in each direction.
    offsets: [Option<u64>; 2],
    /// The bytes of each direction behind that which came with the switch.
    bytes: [Vec<u8>; 2],
}

impl Upgrade {
    /// Bytes behind the switch. There are some before it is told of both directions only where the client did not wait; where they are too many, or
    /// not whole, nothing is made of them.
    fn opaque(&mut self, direction: Direction, offset: u64, bytes: &[u8], most: usize) {
        let held = &mut self.bytes[direction as usize];
        let follows = self.offsets[direction as usize].is_some_and(|start| start + held.len() as u64 == offset);
        match self.to {
            Some(_) if follows && held.len() + bytes.len() <= most => held.extend_from_slice(bytes),
            Some(_) => *self = Upgrade::default(),
            None => {}
        }
    }
}

/// A protocol that is switched to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// RFC 7540 section 3.2.
    Http2,
    /// RFC 6455, with the compression that was agreed upon.
    WebSocket(Option<Deflate>),
    /// Whatever goes through the tunnel that `CONNECT` asked a proxy for (RFC 9110 section 9.3.6).
    Tunnel,
}

/// A connection that is a tunnel from here on.
#[derive(Debug)]
pub(super) struct Tunnel {
    /// Where it begins in each direction.
    pub(super) offsets: [u64; 2],
    /// Its first bytes, which came with the heads that made it.
    pub(super) bytes: [Vec<u8>; 2],
}

impl HttpStack {
    /// On streams of which each begins at one of `offsets`.
    pub(super) fn new(limits: Limits, streams: [StreamId; 2], version: Version, offsets: [u64; 2]) -> HttpStack {
        let decoder = match version {
            Version::Http1 => Decoder::Http1(Box::new(Http1::at_offsets(limits, offsets))),
            Version::Http1Midway => Decoder::Http1(Box::new(Http1::midway(limits, offsets))),
            Version::Http2 => Decoder::Http2(Box::new(Http2::at_offsets(limits, offsets))),
        };
        let mut exchanges = Exchanges::new(streams);
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            exchanges.begins(direction, offsets[direction as usize]);
        }
        HttpStack { decoder, exchanges }
    }

    /// The next piece of one direction.
    pub(super) fn push(
        &mut self,
        layer: &mut Layer<'_, '_>,
        direction: Direction,
        piece: Piece<'_>,
        acknowledged: u64,
        time: Time,
    ) {
        let length = match piece {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Gap(length) => length,
            Piece::End(_) => 0,
        };
        let done = self.done(direction);
        self.exchanges.comes(direction, length, done, time);
        let HttpStack { decoder, exchanges } = self;
        let passed = match decoder {
            Decoder::Http1(http) => {
                http.push(direction, piece, acknowledged, &mut |event| exchanges.event(layer, event, time));
                http.passed_over(direction)
            }
            Decoder::Http2(http) => {
                http.note_acknowledged(direction, acknowledged);
                http.push(direction, piece, &mut |event| exchanges.event(layer, event, time));
                http.passed_over(direction)
            }
            Decoder::WebSocket(messages) => return messages.push(layer, direction, piece, time),
        };
        exchanges.pass(layer, direction, passed);
        let done = self.done(direction);
        self.exchanges.read(direction, done);
        self.switch(layer, time);
    }

    /// The tunnel that the connection became.
    pub(super) fn tunnel(&mut self) -> Option<Tunnel> {
        let upgrade = &mut self.exchanges.upgrade;
        let (Some((_, Protocol::Tunnel)), [Some(requests), Some(responses)]) = (upgrade.to, upgrade.offsets) else {
            return None;
        };
        Some(Tunnel { offsets: [requests, responses], bytes: std::mem::take(upgrade).bytes })
    }

    /// Hands the connection over to the protocol that it switched to.
    fn switch(&mut self, layer: &mut Layer<'_, '_>, time: Time) {
        let [Some(requests), Some(responses)] = self.exchanges.upgrade.offsets else { return };
        let Some((index, to)) = self.exchanges.upgrade.to else { return };
        let Some(exchange) = self.exchanges.open.get(&index).map(|open| open.exchange.number) else { return };
        let (offsets, streams) = ([requests, responses], self.exchanges.streams);
        let (decoder, protocol) = match to {
            Protocol::Http2 => {
                let http2 = Http2::upgraded(layer.shared.limits, index, offsets);
                (Decoder::Http2(Box::new(http2)), Version::Http2.name())
            }
            Protocol::WebSocket(deflate) => {
                let messages = WebSocketStack::new(layer, exchange, streams, offsets, deflate);
                (Decoder::WebSocket(Box::new(messages)), "websocket")
            }
            Protocol::Tunnel => return,
        };
        let Upgrade { bytes, .. } = std::mem::take(&mut self.exchanges.upgrade);
        self.decoder = decoder;
        layer.connected.protocol = protocol;
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
        for (direction, bytes) in [Direction::ClientToServer, Direction::ServerToClient].into_iter().zip(bytes) {
            self.exchanges.begins(direction, offsets[direction as usize]);
            if !bytes.is_empty() {
                self.push(layer, direction, Piece::Data(&bytes), 0, time);
            }
        }
    }

    /// Shows the open exchanges of which a head came since this was last asked.
    pub(super) fn headed(&mut self, show: &mut dyn FnMut(&Exchange)) {
        self.exchanges.open.values_mut().filter_map(|open| open.headed()).for_each(show);
    }

    /// The lowest offset of this direction that may still be asked for.
    pub(super) fn low_water(&self, direction: Direction) -> u64 {
        let bodies = self.exchanges.open.values().filter_map(|open| open.bodies[direction as usize].as_ref());
        bodies.filter_map(Body::floor).min().unwrap_or(u64::MAX).min(self.done(direction))
    }

    /// Everything below this offset of this direction was seen for what it is: its secrets were said.
    pub(super) fn cleared(&self, direction: Direction) -> u64 {
        let done = self.done(direction);
        self.exchanges.suspected(direction).map_or(done, |suspected| suspected.min(done))
    }

    /// The decoder has done with everything below this offset of this direction.
    fn done(&self, direction: Direction) -> u64 {
        match &self.decoder {
            Decoder::Http1(http) => http.low_water(direction),
            Decoder::Http2(http) => http.low_water(direction),
            Decoder::WebSocket(messages) => messages.low_water(direction),
        }
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>, ending: Ending) {
        if let Decoder::WebSocket(messages) = &mut self.decoder {
            messages.close(layer);
        }
        for index in self.exchanges.open.keys().copied().collect::<Vec<_>>() {
            for direction in [Direction::ClientToServer, Direction::ServerToClient] {
                self.exchanges.end_body(layer, index, direction, false, ending);
            }
            self.exchanges.finish(layer, index);
        }
    }
}

fn is_switch(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 101, .. })
}

/// What a 101 response switches to, of what is known.
fn upgraded(head: &Head) -> Option<Protocol> {
    let named = head.value("upgrade")?;
    match () {
        () if named.eq_ignore_ascii_case("h2c") => Some(Protocol::Http2),
        () if named.eq_ignore_ascii_case("websocket") => {
            let deflate = head.list("sec-websocket-extensions").and_then(|list| Deflate::agreed(&list));
            Some(Protocol::WebSocket(deflate))
        }
        () => None,
    }
}
