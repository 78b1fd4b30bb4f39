//! The exchanges of an HTTP connection: heads, bodies, and the packets that carried them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::body::Body;
use super::{Layer, Unit};
use crate::capture::{Limits, PacketNumber, Span, StreamId, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber, Field, Half};
use crate::decode::http::{self, Head, MASK, StartLine};
use crate::decode::http1::{Http1, HttpEvent, Index, Seen};
use crate::decode::http2::Http2;
use crate::decode::{Anomaly, Direction, Ending, Piece};

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
    /// RFC 9113.
    Http2,
}

impl Version {
    /// The word for [`super::Connected::protocol`].
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::Http1 => "http/1.1",
            Version::Http2 => "http/2",
        }
    }
}

/// What runs on the connection now.
#[derive(Debug)]
enum Decoder {
    Http1(Box<Http1>),
    Http2(Box<Http2>),
}

/// What is open on the connection.
#[derive(Debug)]
struct Exchanges {
    /// The stream of each direction.
    streams: [StreamId; 2],
    open: BTreeMap<Index, Open>,
    /// Up to where of each direction bytes that were passed over were said to be secrets.
    passed: [u64; 2],
    upgrade: Upgrade,
}

/// A switch of protocols (RFC 9110 section 7.8), from the 101 response on.
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
}

/// An exchange that is not over.
#[derive(Debug)]
struct Open {
    exchange: Exchange,
    bodies: [Option<Body>; 2],
    ended: [bool; 2],
}

impl HttpStack {
    pub(super) fn new(limits: Limits, streams: [StreamId; 2], version: Version) -> HttpStack {
        let decoder = match version {
            Version::Http1 => Decoder::Http1(Box::new(Http1::new(limits))),
            Version::Http2 => Decoder::Http2(Box::new(Http2::new(limits))),
        };
        let upgrade = Upgrade::default();
        HttpStack { decoder, exchanges: Exchanges { streams, open: BTreeMap::new(), passed: [0; 2], upgrade } }
    }

    /// The next piece of one direction.
    pub(super) fn push(
        &mut self,
        layer: &mut Layer<'_, '_>,
        direction: Direction,
        piece: Piece<'_>,
        seen: Seen,
        time: Time,
    ) {
        let HttpStack { decoder, exchanges } = self;
        let passed = match decoder {
            Decoder::Http1(http) => {
                http.push(direction, piece, seen, &mut |event| exchanges.event(layer, event, time));
                http.passed_over(direction)
            }
            Decoder::Http2(http) => {
                http.push(direction, piece, &mut |event| exchanges.event(layer, event, time));
                http.passed_over(direction)
            }
        };
        exchanges.pass(layer, direction, passed);
        self.switch(layer, time);
    }

    /// Hands the connection over to the protocol that it switched to.
    fn switch(&mut self, layer: &mut Layer<'_, '_>, time: Time) {
        let [Some(requests), Some(responses)] = self.exchanges.upgrade.offsets else { return };
        let Some((exchange, Protocol::Http2)) = self.exchanges.upgrade.to else { return };
        let offsets = [requests, responses];
        let mut http = Box::new(Http2::upgraded(layer.shared.limits, exchange, offsets));
        let bytes = std::mem::take(&mut self.exchanges.upgrade).bytes;
        let HttpStack { decoder, exchanges } = self;
        for (direction, bytes) in [Direction::ClientToServer, Direction::ServerToClient].into_iter().zip(bytes) {
            if !bytes.is_empty() {
                http.push(direction, Piece::Data(&bytes), &mut |event| exchanges.event(layer, event, time));
            }
        }
        *decoder = Decoder::Http2(http);
        layer.connected.protocol = Version::Http2.name();
        (layer.sink)(Unit::Connected(layer.id, layer.connected));
    }

    /// The lowest offset of this direction that may still be asked for.
    pub(super) fn low_water(&self, direction: Direction) -> u64 {
        let bodies = self.exchanges.open.values().filter_map(|open| open.bodies[direction as usize].as_ref());
        bodies.filter_map(Body::floor).min().unwrap_or(u64::MAX).min(self.cleared(direction))
    }

    /// Everything below this offset of this direction was seen for what it is: its secrets were said.
    pub(super) fn cleared(&self, direction: Direction) -> u64 {
        match &self.decoder {
            Decoder::Http1(http) => http.low_water(direction),
            Decoder::Http2(http) => http.low_water(direction),
        }
    }

    /// The connection is over.
    pub(super) fn close(&mut self, layer: &mut Layer<'_, '_>, ending: Ending) {
        for index in self.exchanges.open.keys().copied().collect::<Vec<_>>() {
            for direction in [Direction::ClientToServer, Direction::ServerToClient] {
                self.exchanges.end_body(layer, index, direction, false, ending);
            }
            self.exchanges.finish(layer, index);
        }
    }
}

impl Exchanges {
    fn event(&mut self, layer: &mut Layer<'_, '_>, event: HttpEvent<'_>, time: Time) {
        match event {
            HttpEvent::Head { exchange, direction, stream, head } => {
                self.head(layer, exchange, direction, stream, &head, time);
            }
            HttpEvent::Content { exchange, direction, offset, bytes } => {
                let stream = self.streams[direction as usize];
                let span = Span { stream, start: offset, end: offset + bytes.len() as u64 };
                let Some(open) = self.open.get_mut(&exchange) else { return };
                let number = open.exchange.number;
                let half = half(&mut open.exchange, direction);
                list(&mut half.packets, layer.shared.provenance.packets(span), layer.shared.limits.packets_listed);
                half.ended = half.ended.max(Some(time));
                if let Some(body) = &mut open.bodies[direction as usize] {
                    body.content(layer, number, span, bytes, time);
                }
            }
            HttpEvent::ContentGap { exchange, direction, length } => {
                let Some(open) = self.open.get_mut(&exchange) else { return };
                let number = open.exchange.number;
                if let Some(body) = &mut open.bodies[direction as usize] {
                    body.gap(layer, number, length, time);
                }
            }
            // The response to an upgrade to HTTP/2 comes on its stream 1.
            HttpEvent::End { exchange, direction: Direction::ServerToClient, complete: true, .. }
                if self.upgrade.to == Some((exchange, Protocol::Http2)) => {}
            HttpEvent::End { exchange, direction, complete, ending } => {
                self.end_body(layer, exchange, direction, complete, ending);
                let over = self.open.get(&exchange).is_some_and(|open| {
                    let [request, response] = open.ended;
                    response && (request || open.exchange.method.is_none())
                });
                if over {
                    self.finish(layer, exchange);
                }
            }
            HttpEvent::Switched { direction, offset, .. } => self.upgrade.offsets[direction as usize] = Some(offset),
            HttpEvent::Opaque { direction, offset, bytes } => {
                self.upgrade.opaque(direction, offset, bytes, layer.shared.limits.head);
            }
            HttpEvent::Secret { direction, range, mask } => {
                if layer.shared.options.store && !layer.shared.options.keep_secrets {
                    (layer.sink)(Unit::Secret(layer.id, layer.connected.sender(direction), range, mask));
                }
            }
            HttpEvent::Anomaly { direction, exchange, anomaly } => self.anomaly(layer, direction, exchange, anomaly),
        }
    }

    fn head(
        &mut self,
        layer: &mut Layer<'_, '_>,
        index: Index,
        direction: Direction,
        h2_stream: Option<u32>,
        head: &Head,
        time: Time,
    ) {
        let stream = self.streams[direction as usize];
        let keep_secrets = layer.shared.options.keep_secrets;
        let (id, shared) = (layer.id, &mut *layer.shared);
        let open = self.open.entry(index).or_insert_with(|| {
            shared.exchanges += 1;
            let number = ExchangeNumber(shared.exchanges);
            let exchange =
                Exchange { number, connection: id, h2_stream, http_version: head.version, ..Exchange::default() };
            Open { exchange, bodies: [None, None], ended: [false; 2] }
        });
        // Those of HTTP/2 are coded: its decoder says where.
        if layer.shared.options.store && !keep_secrets && h2_stream.is_none() {
            let side = layer.connected.sender(direction);
            for (name, value) in &head.fields {
                if http::is_secret(&head.text[name.start as usize..name.end as usize]) {
                    let at = |offset: u32| head.offset + u64::from(offset);
                    (layer.sink)(Unit::Secret(layer.id, side, at(value.start)..at(value.end), MASK));
                }
            }
        }
        let packets = layer.shared.provenance.packets(Span { stream, start: head.offset, end: head.end() });
        let exchange = &mut open.exchange;
        exchange.h2_stream = exchange.h2_stream.or(h2_stream);
        let half = half(exchange, direction);
        half.started = half.started.or(Some(time));
        half.ended = half.ended.max(Some(time));
        list(&mut half.packets, packets.clone(), layer.shared.limits.packets_listed);
        let to = if is_switch(head) { upgraded(head) } else { None };
        if let Some(to) = to {
            self.upgrade.to = Some((index, to));
        }
        if matches!(head.start, StartLine::Response { status: 100..=199, .. })
            && (!is_switch(head) || to == Some(Protocol::Http2))
        {
            // "A client MUST be able to parse one or more 1xx responses received prior to a final response" (RFC 9110, 15.2): the
            // exchange shows the final one.
            return;
        }
        half.head_packets = packets;
        half.head_start = head.offset;
        half.head_end = head.end();
        half.fields = fields(head, keep_secrets);
        match &head.start {
            StartLine::Request { method, target } => {
                exchange.method = Some(method.clone()).filter(|method| !method.is_empty());
                exchange.target = Some(target.clone()).filter(|target| !target.is_empty());
            }
            StartLine::Response { status, reason } => {
                exchange.status = Some(*status).filter(|status| *status > 0);
                exchange.reason = Some(reason.clone());
            }
        }
        let (body, anomaly) = Body::new(direction, head, layer.shared.limits, layer.shared.options.hash);
        open.bodies[direction as usize] = Some(body);
        (layer.sink)(Unit::Head(exchange, direction, layer.connected));
        if let Some(anomaly) = anomaly {
            let span = Span { stream, start: head.offset, end: head.end() };
            layer.anomaly(Some(direction), Some(exchange.number), Some(span), anomaly);
        }
    }

    fn end_body(
        &mut self,
        layer: &mut Layer<'_, '_>,
        index: Index,
        direction: Direction,
        complete: bool,
        ending: Ending,
    ) {
        let Some(open) = self.open.get_mut(&index) else { return };
        if std::mem::replace(&mut open.ended[direction as usize], true) {
            return;
        }
        let Some(body) = open.bodies[direction as usize].take() else { return };
        let number = open.exchange.number;
        let end = body.finish(layer, number, complete, ending);
        let half = half(&mut open.exchange, direction);
        half.body_bytes = end.bytes;
        half.body_sha256 = end.sha256.filter(|_| complete);
        half.complete = complete;
    }

    /// The exchange is over.
    fn finish(&mut self, layer: &mut Layer<'_, '_>, index: Index) {
        if let Some(open) = self.open.remove(&index) {
            (layer.sink)(Unit::Exchange(Box::new(open.exchange)));
        }
    }

    /// Bytes were passed over: a head whose beginning was lost may stand in them. They are said to be a secret as they come,
    /// before they count as cleared: the anomaly follows only when it is known where they end.
    fn pass(&mut self, layer: &mut Layer<'_, '_>, direction: Direction, range: Range<u64>) {
        let passed = &mut self.passed[direction as usize];
        let start = range.start.max(*passed);
        if start < range.end && layer.shared.options.store && !layer.shared.options.keep_secrets {
            *passed = range.end;
            let side = layer.connected.sender(direction);
            (layer.sink)(Unit::Secret(layer.id, side, start..range.end, MASK));
        }
    }

    fn anomaly(&mut self, layer: &mut Layer<'_, '_>, direction: Direction, index: Option<Index>, anomaly: Anomaly) {
        let stream = self.streams[direction as usize];
        let number = index.and_then(|index| self.open.get(&index)).map(|open| open.exchange.number);
        let (start, length) = match &anomaly {
            Anomaly::BareLineFeed { offset } | Anomaly::FoldedHeader { offset } => (*offset, 1),
            Anomaly::AmbiguousFraming { offset, .. }
            | Anomaly::NotHttp { offset, .. }
            | Anomaly::ResponseWithoutRequest { offset }
            | Anomaly::UnknownFields { offset, .. }
            | Anomaly::StreamReset { offset, .. }
            | Anomaly::GoingAway { offset, .. }
            | Anomaly::LimitReached { offset, .. } => (*offset, 1),
            Anomaly::Skipped { offset, length } => {
                self.pass(layer, direction, *offset..offset + length);
                (*offset, *length)
            }
            _ => return layer.anomaly(Some(direction), number, None, anomaly),
        };
        layer.anomaly(Some(direction), number, Some(Span { stream, start, end: start + length }), anomaly);
    }
}

fn half(exchange: &mut Exchange, direction: Direction) -> &mut Half {
    match direction {
        Direction::ClientToServer => &mut exchange.request,
        Direction::ServerToClient => &mut exchange.response,
    }
}

fn is_switch(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 101, .. })
}

/// What a 101 response switches to, of what is known.
fn upgraded(head: &Head) -> Option<Protocol> {
    let named = head.value("upgrade")?;
    named.eq_ignore_ascii_case("h2c").then_some(Protocol::Http2)
}

/// Adds the packets that are not listed yet, up to the limit.
fn list(listed: &mut Vec<PacketNumber>, packets: Vec<PacketNumber>, limit: usize) {
    for packet in packets {
        // Streams are in order, so a packet that was listed was nearly always listed last.
        let known = listed.iter().rev().take(8).any(|known| *known == packet);
        if !known && listed.len() < limit {
            listed.push(packet);
        }
    }
}

fn fields(head: &Head, keep_secrets: bool) -> Vec<Field> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    head.fields()
        .map(|(name, value)| {
            let masked = !keep_secrets && http::is_secret(name);
            let value = if masked { "*".repeat(value.len()) } else { text(value) };
            Field { name: text(name), value }
        })
        .collect()
}
