//! The exchanges of an HTTP connection: heads, bodies, and the packets that carried them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::upgrade::{Protocol, Upgrade, is_switch, upgraded};
use crate::capture::{PacketNumber, Span, StreamId, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber, Fields, Half};
use crate::decode::http::{ExchangeIndex, Head, HttpEvent, MASK, StartLine};
use crate::decode::stack::body::Body;
use crate::decode::stack::context::StackContext;
use crate::decode::stack::unit::Unit;
use crate::decode::{Anomaly, Direction, Ending};

/// What is open on the connection.
#[derive(Debug)]
pub(super) struct Exchanges {
    /// The stream of each direction.
    pub(super) streams: [StreamId; 2],
    pub(super) open: BTreeMap<ExchangeIndex, Box<OpenExchange>>,
    /// Up to where of each direction bytes that were passed over were said to be secrets.
    masked_to: [u64; 2],
    arrivals: [ArrivalTimes; 2],
    pub(super) upgrade: Upgrade,
}

/// When the bytes of a direction came. A head is known when its last byte is there, and may have begun many packets before.
#[derive(Clone, Copy, Debug, Default)]
struct ArrivalTimes {
    /// Bytes so far, those of the piece at hand too.
    end: u64,
    /// Where the piece at hand starts, and when it came.
    piece: (u64, Time),
    /// When the first byte came that the decoder has not done with.
    pending_since: Time,
}

/// An exchange that is not over.
#[derive(Debug)]
pub(super) struct OpenExchange {
    pub(super) exchange: Exchange,
    pub(super) bodies: [Option<Body>; 2],
    ended: [bool; 2],
    /// Whether it was said that not all packets of a direction are listed.
    unlisted_reported: [bool; 2],
    /// A head came since that was last asked.
    has_new_head: bool,
}

impl OpenExchange {
    /// The exchange, where a head of it came since this was last asked.
    pub(super) fn take_new_head(&mut self) -> Option<&Exchange> {
        std::mem::take(&mut self.has_new_head).then_some(&self.exchange)
    }
}

impl Exchanges {
    pub(super) fn new(streams: [StreamId; 2]) -> Exchanges {
        Exchanges {
            streams,
            open: BTreeMap::new(),
            masked_to: [0; 2],
            arrivals: Default::default(),
            upgrade: Upgrade::default(),
        }
    }

    /// The next piece of a direction, of so many bytes, comes to a decoder that has done with everything below `done`.
    pub(super) fn note_piece(&mut self, direction: Direction, length: u64, decoded_to: u64, time: Time) {
        let arrivals = &mut self.arrivals[direction as usize];
        if decoded_to >= arrivals.end {
            arrivals.pending_since = time;
        }
        arrivals.piece = (arrivals.end, time);
        arrivals.end += length;
    }

    /// The decoder has read the piece, and has done with everything below `done`.
    pub(super) fn note_decoded(&mut self, direction: Direction, decoded_to: u64) {
        let arrivals = &mut self.arrivals[direction as usize];
        if decoded_to > arrivals.piece.0 {
            arrivals.pending_since = arrivals.piece.1;
        }
    }

    /// The bytes of a direction are counted from here on: what was switched to begins here.
    pub(super) fn restart_at(&mut self, direction: Direction, offset: u64) {
        self.arrivals[direction as usize].end = offset;
    }

    pub(super) fn event(&mut self, context: &mut StackContext<'_, '_>, event: HttpEvent<'_>, time: Time) {
        match event {
            HttpEvent::Head { exchange, direction, stream, head } => {
                self.head(context, exchange, direction, stream, *head, time);
            }
            HttpEvent::Content { exchange, direction, offset, bytes } => {
                let stream = self.streams[direction as usize];
                let span = Span { stream, start: offset, end: offset + bytes.len() as u64 };
                let Some(open) = self.open.get_mut(&exchange) else { return };
                let number = open.exchange.number;
                let half = half(&mut open.exchange, direction);
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
                if let Some(body) = &mut open.bodies[direction as usize] {
                    body.content(context, number, span, bytes, time);
                }
            }
            HttpEvent::ContentGap { exchange, direction, length } => {
                let Some(open) = self.open.get_mut(&exchange) else { return };
                let number = open.exchange.number;
                if let Some(body) = &mut open.bodies[direction as usize] {
                    body.gap(context, number, length, time);
                }
            }
            // What was upgraded goes on: in HTTP/2 the response comes on stream 1, a WebSocket is open until its connection is over.
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
                if context.shared.options.store && !context.shared.options.keep_secrets {
                    (context.sink)(Unit::Secret(context.id, context.connected.sender(direction), range, mask));
                }
            }
            HttpEvent::Anomaly { direction, exchange, anomaly } => self.anomaly(context, direction, exchange, anomaly),
        }
    }

    fn head(
        &mut self,
        context: &mut StackContext<'_, '_>,
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
                exchange,
                bodies: [None, None],
                ended: [false; 2],
                unlisted_reported: [false; 2],
                has_new_head: false,
            })
        });
        if !keep_secrets {
            let (side, offset) = (context.connected.sender(direction), head.offset);
            // Those of HTTP/2 are coded: its decoder says where they stand.
            let store = context.shared.options.store && h2_stream.is_none();
            head.mask(|value| {
                if store {
                    let at = |place: u32| offset + u64::from(place);
                    (context.sink)(Unit::Secret(context.id, side, at(value.start)..at(value.end), MASK));
                }
            });
        }
        let packets = context.shared.provenance.packets(Span { stream, start: head.offset, end: head.end() });
        let arrivals = self.arrivals[direction as usize];
        let started = if head.offset >= arrivals.piece.0 { arrivals.piece.1 } else { arrivals.pending_since };
        let exchange = &mut open.exchange;
        exchange.h2_stream = exchange.h2_stream.or(h2_stream);
        let connects = h2_stream.is_none() && exchange.method.as_deref() == Some("CONNECT");
        let half = half(exchange, direction);
        half.started = half.started.or(Some(started));
        half.ended = half.ended.max(Some(time));
        for packet in &packets {
            list_packet(&mut half.packets, *packet, context.shared.limits.packets_listed);
        }
        let to = if is_switch(&head) { upgraded(&head) } else { None };
        // "Any 2xx (Successful) response indicates that the sender (and all inbound proxies) will switch to tunnel mode immediately after the
        // response header section" (RFC 9110 section 9.3.6).
        let tunnels = connects && matches!(head.start, StartLine::Response { status: 200..=299, .. });
        let to = to.or(tunnels.then_some(Protocol::Tunnel));
        if let Some(to) = to {
            self.upgrade.to = Some((index, to));
        }
        if matches!(head.start, StartLine::Response { status: 100..=199, .. })
            && (!is_switch(&head) || to == Some(Protocol::Http2))
        {
            // "A client MUST be able to parse one or more 1xx responses received prior to a final response" (RFC 9110, 15.2): the
            // exchange shows the final one.
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
        (context.sink)(Unit::Head(exchange, direction, context.connected));
        if let Some(anomaly) = anomaly {
            context.anomaly(Some(direction), Some(exchange.number), Some(span), anomaly);
        }
        if direction == Direction::ClientToServer {
            self.end_unanswered(context);
        }
    }

    /// Where too many exchanges are open, the one is over that has waited for its response for longest: that was lost, or its request was forgotten.
    fn end_unanswered(&mut self, context: &mut StackContext<'_, '_>) {
        if self.open.len() <= context.shared.limits.pipelined {
            return;
        }
        let pending_since = |open: &OpenExchange| {
            open.ended[Direction::ClientToServer as usize] && open.bodies[Direction::ServerToClient as usize].is_none()
        };
        if let Some(longest) = self.open.iter().find(|(_, open)| pending_since(open)).map(|(index, _)| *index) {
            self.finish(context, longest);
        }
    }

    pub(super) fn end_body(
        &mut self,
        context: &mut StackContext<'_, '_>,
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
        let half = half(&mut open.exchange, direction);
        half.body_bytes = end.bytes;
        half.complete = complete && half.head_end > half.head_start;
        half.body_sha256 = end.sha256.filter(|_| half.complete);
    }

    /// Where the first body of a direction begins in which secrets may still be found.
    pub(super) fn scanned_bytes(&self, direction: Direction) -> Option<u64> {
        let bodies = self.open.values().filter_map(|open| open.bodies[direction as usize].as_ref());
        bodies.filter_map(Body::scanned_bytes).min()
    }

    /// The exchange is over.
    pub(super) fn finish(&mut self, context: &mut StackContext<'_, '_>, index: ExchangeIndex) {
        if let Some(open) = self.open.remove(&index) {
            (context.sink)(Unit::Exchange(Box::new(open.exchange)));
        }
    }

    /// Bytes were passed over: a head whose beginning was lost may stand in them. They are said to be a secret as they come,
    /// before they count as cleared: the anomaly follows only when it is known where they end.
    pub(super) fn mask_skipped(&mut self, context: &mut StackContext<'_, '_>, direction: Direction, range: Range<u64>) {
        let masked_to = &mut self.masked_to[direction as usize];
        let start = range.start.max(*masked_to);
        if start < range.end && context.shared.options.store && !context.shared.options.keep_secrets {
            *masked_to = range.end;
            let side = context.connected.sender(direction);
            (context.sink)(Unit::Secret(context.id, side, start..range.end, MASK));
        }
    }

    fn anomaly(
        &mut self,
        context: &mut StackContext<'_, '_>,
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

/// Adds a packet that is not listed yet, up to the limit. Says whether it is listed.
fn list_packet(listed: &mut Vec<PacketNumber>, packet: PacketNumber, limit: usize) -> bool {
    // Streams are in order, so a packet that was listed was nearly always listed last.
    let known = listed.iter().rev().take(8).any(|known| *known == packet);
    if !known && listed.len() < limit {
        listed.push(packet);
        return true;
    }
    known
}
