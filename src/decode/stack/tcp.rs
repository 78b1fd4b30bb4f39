//! A TCP connection: which protocol runs on it, and who is the client.

use std::borrow::Cow;

use super::http::{HttpStack, Version};
use super::{Layer, Unit};
use crate::capture::{Origin, StreamId, Time};
use crate::decode::http::MASK;
use crate::decode::http1::{self, Seen};
use crate::decode::http2;
use crate::decode::stream::StreamKind;
use crate::decode::tcp::Delivery;
use crate::decode::tls::{self, Tls};
use crate::decode::{Direction, Ending, Piece, Side};

/// Bytes looked at, at most, to recognise a protocol at the start of a side: the longest method and a target's first bytes.
const SNIFFED: usize = 32;

#[derive(Debug)]
pub(super) struct TcpStack {
    /// The streams of both sides; opened with the first byte.
    streams: [Option<StreamId>; 2],
    protocol: Protocol,
}

#[derive(Debug)]
enum Protocol {
    /// Not recognised yet.
    Unknown([Unknown; 2]),
    Http(Box<HttpStack>),
    Tls(Box<Tls>),
}

/// One side of a connection on which nothing was recognised yet.
#[derive(Debug, Default)]
struct Unknown {
    /// Bytes passed over: nothing known begins in them.
    at: u64,
    /// Bytes behind them that are too few to tell; fewer than [`SNIFFED`].
    held: Vec<u8>,
}

impl Unknown {
    fn pass(&mut self, length: u64) {
        self.at += self.held.len() as u64 + length;
        self.held.clear();
    }
}

impl TcpStack {
    pub(super) fn new() -> TcpStack {
        TcpStack { streams: [None; 2], protocol: Protocol::Unknown(Default::default()) }
    }

    /// The next piece of one side.
    pub(super) fn push(&mut self, layer: &mut Layer<'_, '_>, delivery: &Delivery<'_>) {
        let side = delivery.side;
        let stream = self.stream(layer, side);
        match delivery.piece {
            Piece::Data(bytes) => {
                layer.connected.seen[side.index()] += bytes.len() as u64;
                for range in delivery.origin {
                    let origin = Origin::Packet { packet: range.packet, offset: range.start };
                    layer.shared.provenance.append(stream, u64::from(range.len()), origin);
                }
            }
            Piece::Gap(length) => {
                layer.connected.lost[side.index()] += length;
                layer.shared.provenance.append(stream, length, Origin::Missing);
            }
            Piece::End(_) => {}
        }
        if matches!(self.protocol, Protocol::Unknown(_)) {
            self.recognise(layer, delivery);
        } else {
            self.feed(layer, delivery.side, delivery.piece, delivery);
        }
        let offset = match &self.protocol {
            Protocol::Http(http) => http.low_water(direction(layer, side)),
            _ => layer.shared.provenance.length(stream),
        };
        layer.forget(stream, offset);
        if layer.shared.options.store {
            let cleared = match &self.protocol {
                Protocol::Http(http) => http.cleared(direction(layer, side)),
                // A head that is too short to be recognised may still turn out to hold secrets.
                Protocol::Unknown(sides) => sides[side.index()].at,
                Protocol::Tls(_) => offset,
            };
            (layer.sink)(Unit::Cleared(layer.id, side, cleared));
        }
    }

    /// Tries to recognise a protocol at the beginning of this piece. HTTP is looked for again at every piece, since a capture may
    /// begin in the middle of a body; TLS only at the start of a side.
    fn recognise(&mut self, layer: &mut Layer<'_, '_>, delivery: &Delivery<'_>) {
        let Protocol::Unknown(sides) = &mut self.protocol else { return };
        let side = delivery.side;
        let unknown = &mut sides[side.index()];
        let bytes = match delivery.piece {
            Piece::Data(bytes) => bytes,
            Piece::Gap(length) => return unknown.pass(length),
            Piece::End(_) => return,
        };
        let looked = if unknown.held.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned([unknown.held.as_slice(), bytes].concat())
        };
        let is_tls = if unknown.at == 0 { tls::sniff(&looked) } else { Some(false) };
        let (http1, http2) = (http1::sniff(&looked), http2::sniff(&looked));
        match (http1.or(http2), is_tls) {
            (Some(Some(direction)), _) => {
                let client = match direction {
                    Direction::ClientToServer => side,
                    Direction::ServerToClient => side.other(),
                };
                self.begin_http(layer, client, if http1.is_some() { Version::Http1 } else { Version::Http2 });
            }
            (_, Some(true)) => {
                let client = if tls::is_client_hello(&looked) { side } else { side.other() };
                self.begin_tls(layer, client);
            }
            (Some(None), _) | (_, None) if looked.len() < SNIFFED => {
                return unknown.held.extend_from_slice(bytes);
            }
            _ => return unknown.pass(bytes.len() as u64),
        }
        self.feed(layer, side, delivery.piece, delivery);
    }

    fn feed(&mut self, layer: &mut Layer<'_, '_>, side: Side, piece: Piece<'_>, delivery: &Delivery<'_>) {
        let direction = direction(layer, side);
        match &mut self.protocol {
            Protocol::Http(http) => {
                let seen = Seen { acknowledged: delivery.acknowledged };
                http.push(layer, direction, piece, seen, delivery.time);
            }
            Protocol::Tls(tls) => {
                tls.push(direction, piece, delivery.origin, delivery.time);
                let steps = tls.steps().len();
                if layer.connected.server_name.as_deref() != tls.server_name() || steps != layer.connected.tls.len() {
                    layer.connected.server_name = tls.server_name().map(str::to_owned);
                    layer.connected.tls = tls.steps().to_vec();
                    (layer.sink)(Unit::Connected(layer.id, layer.connected));
                }
            }
            Protocol::Unknown(_) => {}
        }
    }

    fn begin_http(&mut self, layer: &mut Layer<'_, '_>, client: Side, version: Version) {
        layer.connected.client = Some(client);
        layer.connected.protocol = version.name();
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
        let mut streams = [StreamId::default(); 2];
        for side in [Side::First, Side::Second] {
            streams[direction(layer, side) as usize] = self.stream(layer, side);
        }
        let mut http = Box::new(HttpStack::new(layer.shared.limits, streams, version));
        if let Protocol::Unknown(sides) = &self.protocol {
            for (side, unknown) in [Side::First, Side::Second].into_iter().zip(sides) {
                catch_up(&mut http, layer, side, unknown);
            }
        }
        self.protocol = Protocol::Http(http);
    }

    fn begin_tls(&mut self, layer: &mut Layer<'_, '_>, client: Side) {
        layer.connected.client = Some(client);
        layer.connected.protocol = "tls";
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
        let mut tls = Box::new(Tls::new(layer.shared.limits));
        if let Protocol::Unknown(sides) = &self.protocol {
            for (side, unknown) in [Side::First, Side::Second].into_iter().zip(sides) {
                if !unknown.held.is_empty() {
                    tls.push(direction(layer, side), Piece::Data(&unknown.held), &[], Time::default());
                }
            }
        }
        self.protocol = Protocol::Tls(tls);
    }

    /// The stream of one side, opened when first asked for.
    fn stream(&mut self, layer: &mut Layer<'_, '_>, side: Side) -> StreamId {
        *self.streams[side.index()].get_or_insert_with(|| layer.open(StreamKind::Tcp(side)))
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>) {
        match &mut self.protocol {
            Protocol::Http(http) => http.close(layer, Ending::Cut),
            Protocol::Tls(tls) => layer.connected.tls = tls.steps().to_vec(),
            Protocol::Unknown(_) => {}
        }
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
        for stream in self.streams.iter().flatten() {
            layer.close(*stream);
        }
    }
}

/// Brings a side to where the protocol was recognised: what was passed over counts as unseen by the decoder, and as a secret, since
/// a head may have begun in it.
fn catch_up(http: &mut HttpStack, layer: &mut Layer<'_, '_>, side: Side, unknown: &Unknown) {
    let direction = direction(layer, side);
    if unknown.at > 0 {
        if layer.shared.options.store && !layer.shared.options.keep_secrets {
            (layer.sink)(Unit::Secret(layer.id, side, 0..unknown.at, MASK));
        }
        http.push(layer, direction, Piece::Gap(unknown.at), Seen::default(), Time::default());
    }
    if !unknown.held.is_empty() {
        http.push(layer, direction, Piece::Data(&unknown.held), Seen::default(), Time::default());
    }
}

/// Which way a side's bytes flow. Before the client is known, the side that opened the connection is taken for it.
fn direction(layer: &Layer<'_, '_>, side: Side) -> Direction {
    if layer.connected.sender(Direction::ClientToServer) == side {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    }
}
