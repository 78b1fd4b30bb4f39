//! A pair of byte streams, those of a TCP connection or what TLS carried: which protocol runs on it, and who is the client.

use std::borrow::Cow;

use super::http::{HttpStack, Tunnel, Version};
use super::tls::TlsStack;
use super::{Layer, Unit};
use crate::capture::{Span, StreamId, Time};
use crate::decode::exchange::Exchange;
use crate::decode::http::MASK;
use crate::decode::http1;
use crate::decode::http2;
use crate::decode::stream::StreamKind;
use crate::decode::tls::{self, Arrival};
use crate::decode::{Direction, Ending, Piece, Side};

/// Bytes looked at, at most, to recognise a protocol at the start of a side: the longest method and a target's first bytes.
const SNIFFED: usize = 32;

/// Tunnels within tunnels that are followed: a client passes few proxies, and each costs a part of the stack.
const TUNNELS: u8 = 4;

#[derive(Debug)]
pub(super) struct Channel {
    /// The streams of both sides; opened with the first byte.
    streams: [Option<StreamId>; 2],
    kind: fn(Side) -> StreamKind,
    protocol: Protocol,
    /// How often it became a tunnel.
    tunnels: u8,
}

#[derive(Debug)]
enum Protocol {
    /// Not recognised yet.
    Unknown([Unknown; 2]),
    Http(Box<HttpStack>),
    Tls(Box<TlsStack>),
}

/// One side of a connection on which nothing was recognised yet.
#[derive(Debug, Default)]
struct Unknown {
    /// Where it begins: 0, or behind what made the connection a tunnel.
    begin: u64,
    /// Bytes passed over: nothing known begins in them.
    at: u64,
    /// Bytes behind them that are too few to tell; fewer than [`SNIFFED`].
    held: Vec<u8>,
    /// When the first of those came.
    since: Time,
}

impl Unknown {
    fn pass(&mut self, length: u64) {
        self.at += self.held.len() as u64 + length;
        self.held.clear();
    }
}

impl Channel {
    /// `kind` says what its streams are.
    pub(super) fn new(kind: fn(Side) -> StreamKind) -> Channel {
        Channel { streams: [None; 2], kind, protocol: Protocol::Unknown(Default::default()), tunnels: 0 }
    }

    /// The stream of one side, opened when first asked for.
    pub(super) fn stream(&mut self, layer: &mut Layer<'_, '_>, side: Side) -> StreamId {
        *self.streams[side.index()].get_or_insert_with(|| layer.open((self.kind)(side)))
    }

    /// The stream of one side, where it was opened.
    pub(super) fn known_stream(&self, side: Side) -> Option<StreamId> {
        self.streams[side.index()]
    }

    /// The next piece of one side. Where its bytes came from stands in the stream already.
    pub(super) fn push(&mut self, layer: &mut Layer<'_, '_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        if matches!(self.protocol, Protocol::Unknown(_)) {
            self.recognise(layer, side, piece, arrival);
        } else {
            self.feed(layer, side, piece, arrival);
        }
        let stream = self.stream(layer, side);
        let low = self.low_water(layer, side);
        layer.forget(stream, low);
    }

    /// TLS secrets came.
    pub(super) fn retry(&mut self, layer: &mut Layer<'_, '_>) {
        if let Protocol::Tls(tls) = &mut self.protocol {
            tls.retry(layer);
        }
    }

    /// Whether records wait for TLS secrets that may still come.
    pub(super) fn waits(&self) -> bool {
        matches!(&self.protocol, Protocol::Tls(tls) if tls.waits())
    }

    /// Memory is needed elsewhere: records that wait for TLS secrets are given up.
    pub(super) fn give_up(&mut self, layer: &mut Layer<'_, '_>) {
        if let Protocol::Tls(tls) = &mut self.protocol {
            tls.give_up(layer);
        }
    }

    /// Shows the open exchanges of which a head came since this was last asked.
    pub(super) fn headed(&mut self, show: &mut dyn FnMut(&Exchange)) {
        match &mut self.protocol {
            Protocol::Http(http) => http.headed(show),
            Protocol::Tls(tls) => tls.headed(show),
            Protocol::Unknown(_) => {}
        }
    }

    /// The lowest offset of this side that may still be asked for.
    fn low_water(&self, layer: &Layer<'_, '_>, side: Side) -> u64 {
        let length = self.streams[side.index()].map_or(0, |stream| layer.shared.provenance.length(stream));
        match &self.protocol {
            Protocol::Http(http) => http.low_water(direction(layer, side)),
            Protocol::Tls(tls) => tls.low_water(layer, side).min(length),
            Protocol::Unknown(_) => length,
        }
    }

    /// The lowest offset of this side that may be asked for, from outside: of the bytes that are not looked at yet, or belong to what
    /// is open.
    pub(super) fn floor(&self, layer: &Layer<'_, '_>, side: Side) -> u64 {
        match &self.protocol {
            Protocol::Unknown(sides) => sides[side.index()].at,
            _ => self.low_water(layer, side),
        }
    }

    /// Whether nothing was recognised so far.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.protocol, Protocol::Unknown(_))
    }

    /// Everything below this offset of this side was seen for what it is: its secrets were said.
    pub(super) fn cleared(&self, layer: &Layer<'_, '_>, side: Side) -> u64 {
        match &self.protocol {
            Protocol::Http(http) => http.cleared(direction(layer, side)),
            // A head that is too short to be recognised may still turn out to hold secrets.
            Protocol::Unknown(sides) => sides[side.index()].at,
            // What is encrypted is no secret.
            Protocol::Tls(_) => self.streams[side.index()].map_or(0, |stream| layer.shared.provenance.length(stream)),
        }
    }

    /// Tries to recognise a protocol at the beginning of this piece. HTTP is looked for again at every piece, since a capture may
    /// begin in the middle of a body, and so are server-sent events and records of TLS's application data; other records only at the start of a side. What TLS carried
    /// is not looked at for TLS: no protocol puts one into the other.
    fn recognise(&mut self, layer: &mut Layer<'_, '_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        let within_tls = matches!((self.kind)(side), StreamKind::Plaintext(_));
        let Protocol::Unknown(sides) = &mut self.protocol else { return };
        let unknown = &mut sides[side.index()];
        let bytes = match piece {
            Piece::Data(bytes) => bytes,
            Piece::Gap(length) => return unknown.pass(length),
            Piece::End(_) => return,
        };
        let looked = if unknown.held.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned([unknown.held.as_slice(), bytes].concat())
        };
        let is_tls = match unknown.at {
            _ if within_tls => Some(false),
            at if at == unknown.begin => tls::sniff(&looked),
            _ => Some(tls::sniff_application_data(&looked)),
        };
        let (http1, http2) = (http1::sniff(&looked), http2::sniff(&looked));
        let events = http1::sniff_events(&looked);
        match (http1.or(http2), is_tls) {
            (Some(Some(direction)), _) => {
                let client = match direction {
                    Direction::ClientToServer => side,
                    Direction::ServerToClient => side.other(),
                };
                self.begin_http(layer, client, if http1.is_some() { Version::Http1 } else { Version::Http2 });
            }
            _ if events == Some(true) => self.begin_http(layer, side.other(), Version::Http1Midway),
            (_, Some(true)) => {
                // In the middle of a connection nothing tells who is who but who opened it.
                let server = looked.first() == Some(&22) && !tls::is_client_hello(&looked);
                let client = match (tls::is_client_hello(&looked), server) {
                    (true, _) => side,
                    (_, true) => side.other(),
                    _ => layer.connected.client.unwrap_or(Side::First),
                };
                self.begin_tls(layer, client, looked.first() != Some(&22));
            }
            (http, is_tls)
                if looked.len() < SNIFFED && (http == Some(None) || is_tls.is_none() || events.is_none()) =>
            {
                if unknown.held.is_empty() {
                    unknown.since = arrival.time;
                }
                return unknown.held.extend_from_slice(bytes);
            }
            _ => return unknown.pass(bytes.len() as u64),
        }
        self.feed(layer, side, piece, arrival);
    }

    fn feed(&mut self, layer: &mut Layer<'_, '_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        let direction = direction(layer, side);
        match &mut self.protocol {
            Protocol::Http(http) => {
                http.push(layer, direction, piece, arrival.acknowledged, arrival.time);
                if self.tunnels < TUNNELS
                    && let Some(tunnel) = http.tunnel()
                {
                    self.tunnels += 1;
                    http.close(layer, Ending::Cut);
                    self.begin_tunnel(layer, tunnel, arrival.time);
                }
            }
            Protocol::Tls(tls) => tls.push(layer, direction, piece, arrival),
            Protocol::Unknown(_) => {}
        }
    }

    /// What goes through a tunnel is looked at as if its connection began there.
    fn begin_tunnel(&mut self, layer: &mut Layer<'_, '_>, tunnel: Tunnel, time: Time) {
        let begin = |side: Side| tunnel.offsets[direction(layer, side) as usize];
        let [first, second] = [Side::First, Side::Second].map(begin);
        let unknown = |begin: u64| Unknown { begin, at: begin, held: Vec::new(), since: time };
        self.protocol = Protocol::Unknown([unknown(first), unknown(second)]);
        for (of, bytes) in [Direction::ClientToServer, Direction::ServerToClient].into_iter().zip(&tunnel.bytes) {
            let (side, start) = (layer.connected.sender(of), tunnel.offsets[of as usize]);
            if !bytes.is_empty() {
                let stream = self.stream(layer, side);
                let packets =
                    layer.shared.provenance.packet_ranges(Span { stream, start, end: start + bytes.len() as u64 });
                self.push(layer, side, Piece::Data(bytes), Arrival { packets: &packets, time, acknowledged: 0 });
            }
        }
    }

    fn begin_http(&mut self, layer: &mut Layer<'_, '_>, client: Side, version: Version) {
        layer.connected.client = Some(client);
        layer.connected.is_midway = version == Version::Http1Midway;
        layer.connected.protocol = version.name();
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
        let streams = self.by_direction(layer);
        let begins = self.begins(layer);
        let mut http = Box::new(HttpStack::new(layer.shared.limits, streams, version, begins));
        if let Protocol::Unknown(sides) = &self.protocol {
            for (side, unknown) in [Side::First, Side::Second].into_iter().zip(sides) {
                catch_up(&mut http, layer, side, unknown);
            }
        }
        self.protocol = Protocol::Http(http);
    }

    fn begin_tls(&mut self, layer: &mut Layer<'_, '_>, client: Side, late: bool) {
        layer.connected.client = Some(client);
        layer.connected.protocol = "tls";
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
        let streams = self.by_direction(layer);
        let mut tls = Box::new(TlsStack::new(layer, streams, self.begins(layer)));
        if let Protocol::Unknown(sides) = &self.protocol {
            for (side, unknown) in [Side::First, Side::Second].into_iter().zip(sides) {
                let direction = direction(layer, side);
                // Where the capture begins in the middle of a connection, the first byte of a side may stand in the middle of a record.
                if unknown.at > unknown.begin || late {
                    tls.push(layer, direction, Piece::Gap(unknown.at - unknown.begin), Arrival::default());
                }
                if !unknown.held.is_empty() {
                    let (start, end) = (unknown.at, unknown.at + unknown.held.len() as u64);
                    let span = Span { stream: streams[direction as usize], start, end };
                    let packets = &layer.shared.provenance.packet_ranges(span);
                    tls.push(layer, direction, Piece::Data(&unknown.held), Arrival { packets, ..Arrival::default() });
                }
            }
        }
        self.protocol = Protocol::Tls(tls);
    }

    /// Where both directions begin.
    fn begins(&self, layer: &Layer<'_, '_>) -> [u64; 2] {
        let Protocol::Unknown(sides) = &self.protocol else { return [0; 2] };
        [Direction::ClientToServer, Direction::ServerToClient].map(|of| sides[layer.connected.sender(of).index()].begin)
    }

    /// The streams of both sides, by direction.
    fn by_direction(&mut self, layer: &mut Layer<'_, '_>) -> [StreamId; 2] {
        let mut streams = [StreamId::default(); 2];
        for side in [Side::First, Side::Second] {
            streams[direction(layer, side) as usize] = self.stream(layer, side);
        }
        streams
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>) {
        match &mut self.protocol {
            Protocol::Http(http) => http.close(layer, Ending::Cut),
            Protocol::Tls(tls) => tls.close(layer),
            Protocol::Unknown(_) => {}
        }
        for stream in self.streams.iter().flatten() {
            layer.close(*stream);
        }
    }
}

/// Brings a side to where the protocol was recognised: what was passed over counts as unseen by the decoder, and as a secret, since
/// a head may have begun in it.
fn catch_up(http: &mut HttpStack, layer: &mut Layer<'_, '_>, side: Side, unknown: &Unknown) {
    let direction = direction(layer, side);
    if unknown.at > unknown.begin {
        if layer.shared.options.store && !layer.shared.options.keep_secrets {
            (layer.sink)(Unit::Secret(layer.id, side, unknown.begin..unknown.at, MASK));
        }
        let passed = Piece::Gap(unknown.at - unknown.begin);
        http.push(layer, direction, passed, 0, Time::default());
    }
    if !unknown.held.is_empty() {
        http.push(layer, direction, Piece::Data(&unknown.held), 0, unknown.since);
    }
}

/// Which way a side's bytes flow. Before the client is known, the side that opened the connection is taken for it.
pub(super) fn direction(layer: &Layer<'_, '_>, side: Side) -> Direction {
    if layer.connected.sender(Direction::ClientToServer) == side {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    }
}
