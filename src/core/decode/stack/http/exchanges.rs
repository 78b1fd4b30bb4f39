//! The exchanges of an HTTP connection: heads, bodies, and the packets that carried them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::upgrade::{Protocol, Upgrade, is_switch, upgraded};
use super::websocket_stream::{WebSocketStream, accepts_websocket};
use crate::capture::steps::step;
use crate::capture::{PacketNumber, Span, StreamId, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber, Fields, Half};
use crate::decode::http::{ExchangeIndex, Head, HttpEvent, StartLine};
use crate::decode::mask::Mask;
use crate::decode::stack::body::Body;
use crate::decode::stack::context::{StackContext, StackOptions};
use crate::decode::stack::unit::Unit;
use crate::decode::{Anomaly, Direction, Ending, websocket};

/// The open exchanges of a connection.
#[derive(Debug)]
pub(super) struct Exchanges {
    /// The connection's stream of each direction.
    pub(super) streams: [StreamId; 2],
    pub(super) open: BTreeMap<ExchangeIndex, Box<OpenExchange>>,
    /// For each direction, the offset up to which skipped bytes were reported as secrets.
    masked_to: [u64; 2],
    arrivals: [ArrivalTimes; 2],
    /// For each direction, the bytes that open exchanges still need.
    pub(super) needed: [NeededBytes; 2],
    pub(super) upgrade: Upgrade,
}

/// Open exchanges that are examined for each piece, to find which bytes are still needed. A client
/// has few open. If a hostile one has thousands, they are examined after so many more pieces.
const EXAMINED: usize = 16;

/// The bytes of one direction that are still needed. The offsets only grow, so earlier ones are
/// right too, only later than they could be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeededBytes {
    /// Offset of the first byte whose origin may still be queried.
    pub(super) from: u64,
    /// Offset up to which the direction was searched for secrets.
    pub(super) cleared: u64,
    /// Pieces to pass until the open exchanges are examined again.
    pieces: usize,
}

/// The capture times of a direction's bytes. They date a head by its first byte: the head is
/// decoded with its last byte, maybe many packets later.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalTimes {
    /// Offset after the bytes that arrived, including the current piece.
    end: u64,
    /// Offset and capture time of the current piece.
    piece: (u64, Time),
    /// Capture time of the first byte that the decoder still needs.
    pending_since: Time,
}

/// An exchange that has not ended.
#[derive(Debug)]
pub(super) struct OpenExchange {
    /// Shared with the units about its heads, while somebody reads them.
    pub(super) exchange: Arc<Exchange>,
    pub(super) bodies: [Option<Body>; 2],
    /// The WebSocket on the exchange's stream of HTTP/2, instead of bodies.
    websocket: Option<Box<WebSocketStream>>,
    ended: [bool; 2],
    /// For each direction, whether it was reported that more packets carried it than are listed.
    unlisted_reported: [bool; 2],
    /// Whether a head arrived since the last call of [`OpenExchange::take_new_head`].
    has_new_head: bool,
}

impl OpenExchange {
    /// The exchange, if a head of it arrived since the last call.
    pub(super) fn take_new_head(&mut self) -> Option<&Exchange> {
        std::mem::take(&mut self.has_new_head).then_some(&self.exchange)
    }

    /// Whether this may be a WebSocket on a stream of HTTP/2 whose request was not captured.
    fn may_be_websocket(&self) -> bool {
        self.websocket.is_none() && self.exchange.method.is_none() && self.exchange.h2_stream.is_some()
    }

    /// Offset in the connection's stream of the first byte that is still needed in this direction.
    pub(super) fn needed_from(&self, direction: Direction) -> Option<u64> {
        let body = self.bodies[direction as usize].as_ref().and_then(|body| body.needed_from);
        body.or_else(|| self.websocket.as_ref()?.needed_from[direction as usize])
    }
}

impl Exchanges {
    pub(super) fn new(streams: [StreamId; 2]) -> Exchanges {
        Exchanges {
            streams,
            open: BTreeMap::new(),
            masked_to: [0; 2],
            arrivals: Default::default(),
            needed: Default::default(),
            upgrade: Upgrade::default(),
        }
    }

    /// Records that the next piece arrives. The decoder does not need bytes below
    /// `decoded_to` any more.
    pub(super) fn note_piece(&mut self, direction: Direction, length: u64, decoded_to: u64, time: Time) {
        let arrivals = &mut self.arrivals[direction as usize];
        if decoded_to >= arrivals.end {
            arrivals.pending_since = time;
        }
        arrivals.piece = (arrivals.end, time);
        arrivals.end += length;
    }

    /// Records that the decoder has read the piece. It does not need bytes below
    /// `decoded_to` any more.
    pub(super) fn note_decoded(&mut self, direction: Direction, decoded_to: u64) {
        let arrivals = &mut self.arrivals[direction as usize];
        if decoded_to > arrivals.piece.0 {
            arrivals.pending_since = arrivals.piece.1;
        }
    }

    /// Continues counting bytes at `offset`, where another protocol begins.
    pub(super) fn restart_at(&mut self, direction: Direction, offset: u64) {
        self.arrivals[direction as usize].end = offset;
    }

    /// Handles an event of the HTTP decoder.
    pub(super) fn event(&mut self, context: &mut StackContext<'_>, event: HttpEvent<'_>, time: Time) {
        match event {
            HttpEvent::Head { exchange, direction, stream, head } => {
                self.head(context, exchange, direction, stream, *head, time);
            }
            HttpEvent::Content { exchange, direction, offset, bytes } => {
                let stream = self.streams[direction as usize];
                let span = Span { stream, start: offset, end: offset + bytes.len() as u64 };
                let Some(open) = self.open.get_mut(&exchange) else { return };
                let number = open.exchange.number;
                let half = half(Arc::make_mut(&mut open.exchange), direction);
                half.ended = half.ended.max(Some(time));
                let (packets, limit) = (&mut half.packets, context.shared.limits.packets_listed);
                let mut all = true;
                context
                    .shared
                    .provenance
                    .each_packet_range(span, &mut |range| all &= list_packet(packets, range.packet, limit));
                if !all && !std::mem::replace(&mut open.unlisted_reported[direction as usize], true) {
                    let anomaly = Anomaly::LimitReached { limit: "packets_listed", offset };
                    context.anomaly(Some(direction), Some(number), Some(span), anomaly);
                }
                if open.may_be_websocket() && websocket::sniff(bytes) == Some(Some(direction)) {
                    open.websocket = Some(Box::new(WebSocketStream::midway(context, number)));
                }
                if let Some(websocket) = &mut open.websocket {
                    websocket.content(context, direction, span, bytes, time);
                } else if let Some(body) = &mut open.bodies[direction as usize] {
                    body.content(context, number, span, bytes, time);
                }
            }
            HttpEvent::ContentGap { exchange, direction, length } => {
                let Some(open) = self.open.get_mut(&exchange) else { return };
                let number = open.exchange.number;
                if let Some(websocket) = &mut open.websocket {
                    websocket.gap(context, direction, length, time);
                } else if let Some(body) = &mut open.bodies[direction as usize] {
                    body.gap(context, number, length, time);
                }
            }
            // An upgraded exchange continues: in HTTP/2 its response is on stream 1, and a
            // WebSocket lasts as long as its connection.
            HttpEvent::End { exchange, direction: Direction::ServerToClient, complete: true, .. }
                if self.upgrade.to.is_some_and(|(upgraded, to)| upgraded == exchange && to != Protocol::Tunnel) => {}
            HttpEvent::End { exchange, direction, complete, ending } => {
                self.end_body(context, exchange, direction, complete, ending);
                let over = self.open.get(&exchange).is_some_and(|open| {
                    let [request, response] = open.ended;
                    response && (request || open.exchange.method.is_none())
                });
                if over {
                    self.finish(context, exchange);
                }
            }
            HttpEvent::Switched { direction, offset, .. } => self.upgrade.offsets[direction as usize] = Some(offset),
            HttpEvent::Opaque { direction, offset, bytes } => {
                self.upgrade.opaque(direction, offset, bytes, context.shared.limits.head);
            }
            HttpEvent::Secret { direction, range, mask } => {
                context.secret(context.connection.sender(direction), range, mask);
            }
            HttpEvent::Anomaly { direction, exchange, anomaly } => self.anomaly(context, direction, exchange, anomaly),
        }
    }

    /// Handles a head, which may open an exchange.
    fn head(
        &mut self,
        context: &mut StackContext<'_>,
        index: ExchangeIndex,
        direction: Direction,
        h2_stream: Option<u32>,
        mut head: Head,
        time: Time,
    ) {
        let stream = self.streams[direction as usize];
        let keep_secrets = context.shared.options.keep_secrets;
        let (id, shared) = (context.id, &mut *context.shared);
        let open = self.open.entry(index).or_insert_with(|| {
            shared.exchanges += 1;
            let number = ExchangeNumber(shared.exchanges);
            let exchange =
                Exchange { number, connection: id, h2_stream, http_version: head.version, ..Exchange::default() };
            Box::new(OpenExchange {
                exchange: Arc::new(exchange),
                bodies: [None, None],
                websocket: None,
                ended: [false; 2],
                unlisted_reported: [false; 2],
                has_new_head: false,
            })
        });
        if !keep_secrets {
            let (side, offset) = (context.connection.sender(direction), head.offset);
            // In HTTP/2 secrets are coded, and the decoder reports their positions.
            let is_plain = h2_stream.is_none();
            let mut plain_fields = std::mem::take(&mut context.shared.plain_fields);
            let StackOptions { mask_key, redaction, .. } = context.shared.options;
            head.mask(mask_key, redaction, &mut plain_fields, |value, mask| {
                if is_plain {
                    context.secret(side, offset + u64::from(value.start)..offset + u64::from(value.end), mask);
                }
            });
            context.shared.plain_fields = plain_fields;
        }
        let packets = context.shared.provenance.packets(Span { stream, start: head.offset, end: head.end() });
        let arrivals = self.arrivals[direction as usize];
        let started = if head.offset >= arrivals.piece.0 { arrivals.piece.1 } else { arrivals.pending_since };
        let exchange = Arc::make_mut(&mut open.exchange);
        exchange.h2_stream = exchange.h2_stream.or(h2_stream);
        let connects = h2_stream.is_none() && exchange.method.as_deref() == Some("CONNECT");
        if h2_stream.is_some() && accepts_websocket(exchange, &head) {
            open.websocket = Some(Box::new(WebSocketStream::accepted(context, exchange.number, &head)));
        }
        let half = half(exchange, direction);
        half.started = half.started.or(Some(started));
        half.ended = half.ended.max(Some(time));
        for packet in &packets {
            list_packet(&mut half.packets, *packet, context.shared.limits.packets_listed);
        }
        let to = if is_switch(&head) { upgraded(&head) } else { None };
        // RFC 9110 section 9.3.6: "Any 2xx (Successful) response indicates that the sender
        // (and all inbound proxies) will switch to tunnel mode immediately after the
        // response header section".
        let tunnels = connects && matches!(head.start, StartLine::Response { status: 200..=299, .. });
        let to = to.or(tunnels.then_some(Protocol::Tunnel));
        if let Some(to) = to {
            self.upgrade.to = Some((index, to));
        }
        if matches!(head.start, StartLine::Response { status: 100..=199, .. })
            && (!is_switch(&head) || to == Some(Protocol::Http2))
        {
            // RFC 9110 section 15.2: "A client MUST be able to parse one or more 1xx responses
            // received prior to a final response". The exchange records the final one.
            return;
        }
        let (body, anomaly) = Body::new(direction, &head, context.shared.limits, context.shared.options);
        let span = Span { stream, start: head.offset, end: head.end() };
        half.started = Some(started);
        half.head_packets = packets;
        (half.head_start, half.head_end) = (span.start, span.end);
        half.fields = Fields::new(head.text, head.fields);
        match head.start {
            StartLine::Request { method, target } => {
                exchange.method = Some(method).filter(|method| !method.is_empty());
                exchange.target = Some(target).filter(|target| !target.is_empty());
            }
            StartLine::Response { status, reason } => {
                exchange.status = Some(status).filter(|status| *status > 0);
                exchange.reason = Some(reason);
            }
        }
        open.bodies[direction as usize] = Some(body);
        open.has_new_head = true;
        if context.shared.options.store {
            context.shared.new_heads.insert(context.id);
        }
        let number = exchange.number;
        (context.sink)(Unit::Head(Arc::clone(&open.exchange), direction, Arc::clone(context.connection)));
        if let Some(anomaly) = anomaly {
            context.anomaly(Some(direction), Some(number), Some(span), anomaly);
        }
        if direction == Direction::ClientToServer {
            self.end_unanswered(context);
        }
    }

    /// Ends the exchange that has waited longest for its response, if too many are open. Its
    /// response was lost, or the decoder no longer waits for it.
    fn end_unanswered(&mut self, context: &mut StackContext<'_>) {
        if self.open.len() <= context.shared.limits.pipelined {
            return;
        }
        let is_unanswered = |open: &OpenExchange| {
            open.ended[Direction::ClientToServer as usize] && open.bodies[Direction::ServerToClient as usize].is_none()
        };
        if let Some(longest) =
            self.open.iter().inspect(|_| step()).find(|(_, open)| is_unanswered(open)).map(|(index, _)| *index)
        {
            self.finish(context, longest);
        }
    }

    /// Ends the body of one direction.
    pub(super) fn end_body(
        &mut self,
        context: &mut StackContext<'_>,
        index: ExchangeIndex,
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
        let end = body.finish(context, number, complete, ending);
        let exchange = Arc::make_mut(&mut open.exchange);
        let half = half(exchange, direction);
        half.body_bytes = end.bytes;
        half.complete = complete && half.head_end > half.head_start;
        half.body_sha256 = end.sha256.filter(|_| half.complete);
        if direction == Direction::ServerToClient {
            exchange.explanation = end.explanation;
        }
    }

    /// Finds which bytes of a direction are still needed, after a piece of it was decoded. The
    /// decoder does not need bytes below `decoded_to` any more. If many exchanges are open, only
    /// some pieces are examined; the end of the direction always is.
    ///
    /// If values are redacted, a text counts as searched at its end.
    pub(super) fn update_needed(&mut self, direction: Direction, decoded_to: u64, is_end: bool, redacts: bool) {
        let needed = &mut self.needed[direction as usize];
        if let Some(pieces) = needed.pieces.checked_sub(1).filter(|_| !is_end) {
            needed.pieces = pieces;
            return;
        }
        let (mut from, mut cleared) = (decoded_to, decoded_to);
        for open in self.open.values() {
            step();
            from = from.min(open.needed_from(direction).unwrap_or(u64::MAX));
            let body = open.bodies[direction as usize].as_ref();
            cleared = cleared.min(body.and_then(Body::secret_scan_start).unwrap_or(u64::MAX));
        }
        if redacts {
            cleared = cleared.min(from);
        }
        *needed = NeededBytes { from, cleared, pieces: self.open.len() / EXAMINED };
    }

    /// Ends an exchange and emits it.
    pub(super) fn finish(&mut self, context: &mut StackContext<'_>, index: ExchangeIndex) {
        if let Some(mut open) = self.open.remove(&index) {
            if let Some(websocket) = open.websocket.take() {
                websocket.close(context);
            }
            (context.sink)(Unit::Exchange(Box::new(Arc::unwrap_or_clone(open.exchange))));
        }
    }

    /// Reports skipped bytes as a secret, because the rest of an incomplete head may be in them.
    ///
    /// They are reported as they arrive, before they count as searched. The anomaly about them
    /// follows later, when their end is known.
    pub(super) fn mask_skipped(&mut self, context: &mut StackContext<'_>, direction: Direction, range: Range<u64>) {
        let masked_to = &mut self.masked_to[direction as usize];
        let start = range.start.max(*masked_to);
        if start < range.end {
            *masked_to = range.end;
            context.secret(context.connection.sender(direction), start..range.end, Mask::PLAIN);
        }
    }

    /// Emits an anomaly of the decoder, with the bytes that it concerns.
    fn anomaly(
        &mut self,
        context: &mut StackContext<'_>,
        direction: Direction,
        index: Option<ExchangeIndex>,
        anomaly: Anomaly,
    ) {
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
                self.mask_skipped(context, direction, *offset..offset + length);
                (*offset, *length)
            }
            _ => return context.anomaly(Some(direction), number, None, anomaly),
        };
        context.anomaly(Some(direction), number, Some(Span { stream, start, end: start + length }), anomaly);
    }
}

fn half(exchange: &mut Exchange, direction: Direction) -> &mut Half {
    match direction {
        Direction::ClientToServer => &mut exchange.request,
        Direction::ServerToClient => &mut exchange.response,
    }
}

/// Adds a packet to a list unless it is listed already or the list is full. Returns whether
/// it is listed.
fn list_packet(listed: &mut Vec<PacketNumber>, packet: PacketNumber, limit: usize) -> bool {
    // Streams are in order, so a listed packet is nearly always among the latest.
    let known = listed.iter().rev().take(8).any(|known| *known == packet);
    if !known && listed.len() < limit {
        listed.push(packet);
        return true;
    }
    known
}
