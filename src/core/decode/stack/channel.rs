//! A channel: the bytes of both directions of a TCP connection, or of decrypted TLS. Finds the
//! protocol on it and the client.

use std::borrow::Cow;

use super::context::StackContext;
use super::first_answer::{FirstAnswer, Opening};
use super::http::{HttpStack, Tunnel, Version};
use super::tls::TlsStack;
use super::unit::Unit;
use crate::capture::{Span, StreamId, Time};
use crate::decode::exchange::Exchange;
use crate::decode::http1;
use crate::decode::http2;
use crate::decode::mask::Mask;
use crate::decode::stream::StreamKind;
use crate::decode::tls::{self, Arrival};
use crate::decode::websocket;
use crate::decode::{Direction, Ending, Piece, Side};

/// The most bytes that are needed to recognise a protocol at the start of a side: the beginning of
/// a WebSocket frame, inside a frame of HTTP/2.
const SNIFFED: usize = 32 + 9;

/// The most tunnels inside each other. A client passes few proxies, and each tunnel
/// needs another decoder.
const TUNNELS: u8 = 4;

/// A carrier of bytes in both directions, with the decoder of the protocol on it.
#[derive(Debug)]
pub(super) struct Channel {
    /// The streams of both sides. They are opened with their first bytes.
    streams: [Option<StreamId>; 2],
    kind: fn(Side) -> StreamKind,
    protocol: Protocol,
    /// Number of times that the channel became a tunnel.
    tunnels: u8,
    /// The first bytes of the server, while they can show that it expects another protocol.
    first_answer: Option<Box<FirstAnswer>>,
}

/// The protocol on a channel, with its decoder.
#[derive(Debug)]
enum Protocol {
    /// No protocol was recognised yet.
    Unrecognised([Unrecognised; 2]),
    Http(Box<HttpStack>),
    Tls(Box<TlsStack>),
}

/// One side of a channel without a recognised protocol.
#[derive(Debug, Default)]
struct Unrecognised {
    /// Offset at which the side begins: 0, or the end of the head that opened a tunnel.
    begin: u64,
    /// Offset of the first byte that is not skipped. No known protocol begins before it.
    passed_to: u64,
    /// Bytes after the skipped ones, too few to recognise a protocol: fewer than [`SNIFFED`].
    undecided: Vec<u8>,
    /// Capture time of the first undecided byte.
    undecided_since: Time,
}

impl Unrecognised {
    fn pass(&mut self, length: u64) {
        self.passed_to += self.undecided.len() as u64 + length;
        self.undecided.clear();
    }
}

impl Channel {
    /// A channel whose streams are of this kind.
    pub(super) fn new(kind: fn(Side) -> StreamKind) -> Channel {
        let protocol = Protocol::Unrecognised(Default::default());
        Channel { streams: [None; 2], kind, protocol, tunnels: 0, first_answer: None }
    }

    /// The stream of one side. It is opened at the first call.
    pub(super) fn stream(&mut self, context: &mut StackContext<'_>, side: Side) -> StreamId {
        *self.streams[side.index()].get_or_insert_with(|| context.open((self.kind)(side)))
    }

    /// The stream of one side, if it is open.
    pub(super) fn opened_stream(&self, side: Side) -> Option<StreamId> {
        self.streams[side.index()]
    }

    /// Decodes the next piece of one side. The stream has the origin of its bytes already.
    pub(super) fn push(&mut self, context: &mut StackContext<'_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        if matches!(self.protocol, Protocol::Unrecognised(_)) {
            self.recognise(context, side, piece, arrival);
        } else {
            self.decode(context, side, piece, arrival);
        }
        let stream = self.stream(context, side);
        let low = self.low_water(context, side);
        context.forget(stream, low);
    }

    /// The decoder of TLS, if the channel carries TLS.
    pub(super) fn tls(&mut self) -> Option<&mut TlsStack> {
        if let Protocol::Tls(tls) = &mut self.protocol { Some(tls) } else { None }
    }

    /// Calls `show` with each open exchange that got a head since the last call.
    pub(super) fn show_new_heads(&mut self, show: &mut dyn FnMut(&Exchange)) {
        match &mut self.protocol {
            Protocol::Http(http) => http.show_new_heads(show),
            Protocol::Tls(tls) => tls.show_new_heads(show),
            Protocol::Unrecognised(_) => {}
        }
    }

    /// Offset of the first byte of this side whose origin may still be queried.
    fn low_water(&self, context: &StackContext<'_>, side: Side) -> u64 {
        let length = self.streams[side.index()].map_or(0, |stream| context.shared.provenance.length(stream));
        match &self.protocol {
            Protocol::Http(http) => http.low_water(direction(context, side)),
            Protocol::Tls(tls) => tls.low_water(context, side).min(length),
            Protocol::Unrecognised(_) => length,
        }
    }

    /// Offset of the first byte of this side that is not decoded yet, or that belongs to something
    /// open. A carrier below must retain the bytes from here on.
    pub(super) fn needed_from(&self, context: &StackContext<'_>, side: Side) -> u64 {
        match &self.protocol {
            Protocol::Unrecognised(sides) => sides[side.index()].passed_to,
            _ => self.low_water(context, side),
        }
    }

    /// Whether no protocol was recognised yet.
    pub(super) fn is_unrecognised(&self) -> bool {
        matches!(self.protocol, Protocol::Unrecognised(_))
    }

    /// Offset up to which this side was searched for secrets. All secrets below it were emitted.
    pub(super) fn cleared(&self, context: &StackContext<'_>, side: Side) -> u64 {
        match &self.protocol {
            Protocol::Http(http) => http.cleared(direction(context, side)),
            // A head that is too short to be recognised may contain secrets.
            Protocol::Unrecognised(sides) => sides[side.index()].passed_to,
            // Encrypted bytes contain no readable secrets.
            Protocol::Tls(_) => self.streams[side.index()].map_or(0, |stream| context.shared.provenance.length(stream)),
        }
    }

    /// Looks for a protocol at the start of a piece.
    ///
    /// A capture may begin in the middle of a body. So HTTP, server-sent events and TLS application
    /// data are looked for in every piece. Other TLS records are looked for only at the start of a
    /// side. Decrypted TLS is not searched for TLS, as no protocol nests them.
    fn recognise(&mut self, context: &mut StackContext<'_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        let within_tls = matches!((self.kind)(side), StreamKind::Plaintext(_));
        let Protocol::Unrecognised(sides) = &mut self.protocol else { return };
        let unrecognised = &mut sides[side.index()];
        let bytes = match piece {
            Piece::Data(bytes) => bytes,
            Piece::Gap(length) => return unrecognised.pass(length),
            Piece::End(_) => return,
        };
        let sniffed = if unrecognised.undecided.is_empty() {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned([unrecognised.undecided.as_slice(), bytes].concat())
        };
        let is_tls = match unrecognised.passed_to {
            _ if within_tls => Some(false),
            passed_to if passed_to == unrecognised.begin => tls::sniff(&sniffed),
            _ => Some(tls::sniff_application_data(&sniffed)),
        };
        let (http1, http2) = (http1::sniff(&sniffed), http2::sniff(&sniffed));
        let data = http2::sniff_data(&sniffed).and_then(sniff_stream);
        let events = http1::sniff_events(&sniffed);
        let frame = websocket::sniff(&sniffed);
        let begins = unrecognised.passed_to == unrecognised.begin && !within_tls;
        match (http1.or(http2).or(data), is_tls) {
            (Some(Some(direction)), _) => {
                if begins && http1 == Some(Some(Direction::ClientToServer)) {
                    self.expect_answer(side, Opening::Http);
                }
                let client = match direction {
                    Direction::ClientToServer => side,
                    Direction::ServerToClient => side.other(),
                };
                let version = match (http1, http2) {
                    (Some(_), _) => Version::Http1,
                    (_, Some(_)) => Version::Http2,
                    _ => Version::Http2Midway,
                };
                self.begin_http(context, client, version, arrival.time);
            }
            _ if events == Some(true) => self.begin_http(context, side.other(), Version::Http1Midway, arrival.time),
            _ if let Some(Some(direction)) = frame => {
                let client = if direction == Direction::ClientToServer { side } else { side.other() };
                self.begin_http(context, client, Version::WebSocketMidway, arrival.time);
            }
            (_, Some(true)) => {
                if begins && tls::is_client_hello(&sniffed) {
                    self.expect_answer(side, Opening::Tls);
                }
                // In the middle of a connection, the side that opened it is taken for the client.
                let server = sniffed.first() == Some(&22) && !tls::is_client_hello(&sniffed);
                let client = match (tls::is_client_hello(&sniffed), server) {
                    (true, _) => side,
                    (_, true) => side.other(),
                    _ => context.connection.client.unwrap_or(Side::First),
                };
                self.begin_tls(context, client, sniffed.first() != Some(&22));
            }
            (http, is_tls)
                if sniffed.len() < SNIFFED
                    && (http == Some(None) || is_tls.is_none() || events.is_none() || frame == Some(None)) =>
            {
                if unrecognised.undecided.is_empty() {
                    unrecognised.undecided_since = arrival.time;
                }
                return unrecognised.undecided.extend_from_slice(bytes);
            }
            _ => return unrecognised.pass(bytes.len() as u64),
        }
        self.decode(context, side, piece, arrival);
    }

    /// Examines the first bytes of the server, if it sent none before its client.
    fn expect_answer(&mut self, client: Side, opening: Opening) {
        if let Protocol::Unrecognised(sides) = &self.protocol
            && let Unrecognised { begin, passed_to, undecided, .. } = &sides[client.other().index()]
            && passed_to == begin
            && undecided.is_empty()
        {
            self.first_answer = Some(Box::new(FirstAnswer::new(opening, *begin)));
        }
    }

    /// Examines the next piece of the server.
    fn examine_answer(&mut self, context: &mut StackContext<'_>, side: Side, piece: Piece<'_>) {
        let Some(first_answer) = &mut self.first_answer else { return };
        match piece {
            Piece::Data(bytes) => {
                if first_answer.is_empty()
                    && let Some(stream) = self.streams[side.index()]
                {
                    let start = first_answer.offset;
                    first_answer.packets = context.shared.provenance.packets(Span { stream, start, end: start + 1 });
                }
                if !first_answer.push(bytes) {
                    self.first_answer = None;
                }
            }
            Piece::Gap(_) if first_answer.is_empty() => self.first_answer = None,
            // What was captured before the gap may be enough.
            Piece::Gap(_) | Piece::End(_) => self.report_answer(context),
        }
    }

    /// Reports that the server answered in another protocol than that of the client, if it did.
    fn report_answer(&mut self, context: &mut StackContext<'_>) {
        let server = context.connection.sender(Direction::ServerToClient);
        if let (Some(first_answer), Some(endpoints)) = (self.first_answer.take(), context.connection.endpoints)
            && let (Some(anomaly), Some(stream)) =
                (first_answer.anomaly(endpoints[server.index()]), self.streams[server.index()])
        {
            let FirstAnswer { offset: start, packets, .. } = *first_answer;
            let (span, direction) = (Some(Span { stream, start, end: start + 1 }), Some(Direction::ServerToClient));
            let (connection, exchange) = (context.id, None);
            (context.sink)(Unit::Anomaly { connection, exchange, packets, span, direction, anomaly });
        }
    }

    fn decode(&mut self, context: &mut StackContext<'_>, side: Side, piece: Piece<'_>, arrival: Arrival<'_>) {
        let direction = direction(context, side);
        let mut piece = piece;
        if direction == Direction::ServerToClient {
            self.examine_answer(context, side, piece);
            // The decoder of HTTP would report the alert once more.
            if let (Piece::Data(bytes), Some(first_answer)) = (piece, &self.first_answer)
                && first_answer.is_no_http()
            {
                piece = Piece::Gap(bytes.len() as u64);
            }
        }
        match &mut self.protocol {
            Protocol::Http(http) => {
                let seen = arrival.acknowledged;
                http.push(context, direction, piece, seen, arrival.time);
                if self.tunnels < TUNNELS
                    && let Some(tunnel) = http.tunnel()
                {
                    self.tunnels += 1;
                    http.close(context, Ending::Cut);
                    self.begin_tunnel(context, tunnel, arrival.time);
                }
            }
            Protocol::Tls(tls) => tls.push(context, direction, piece, arrival),
            Protocol::Unrecognised(_) => {}
        }
    }

    /// Restarts recognition with the bytes of a tunnel, as if its connection began there.
    fn begin_tunnel(&mut self, context: &mut StackContext<'_>, tunnel: Tunnel, time: Time) {
        let begin = |side: Side| tunnel.offsets[direction(context, side) as usize];
        let [first, second] = [Side::First, Side::Second].map(begin);
        let unrecognised =
            |begin: u64| Unrecognised { begin, passed_to: begin, undecided: Vec::new(), undecided_since: time };
        self.protocol = Protocol::Unrecognised([unrecognised(first), unrecognised(second)]);
        for (of, bytes) in [Direction::ClientToServer, Direction::ServerToClient].into_iter().zip(&tunnel.bytes) {
            let (side, start) = (context.connection.sender(of), tunnel.offsets[of as usize]);
            if !bytes.is_empty() {
                let stream = self.stream(context, side);
                let packets =
                    context.shared.provenance.packet_ranges(Span { stream, start, end: start + bytes.len() as u64 });
                self.push(context, side, Piece::Data(bytes), Arrival { packets: &packets, time, acknowledged: 0 });
            }
        }
    }

    fn begin_http(&mut self, context: &mut StackContext<'_>, client: Side, version: Version, time: Time) {
        let connection = context.connection_mut();
        connection.client = Some(client);
        connection.is_midway = version.is_midway();
        connection.protocol = version.name();
        context.connection_changed();
        let streams = self.streams_by_direction(context);
        let begin_offsets = self.begin_offsets(context);
        let mut http = Box::new(HttpStack::new(context, streams, version, begin_offsets, time));
        if let Protocol::Unrecognised(sides) = &self.protocol {
            for (side, unrecognised) in [Side::First, Side::Second].into_iter().zip(sides) {
                catch_up(&mut http, context, side, unrecognised);
            }
        }
        self.protocol = Protocol::Http(http);
    }

    fn begin_tls(&mut self, context: &mut StackContext<'_>, client: Side, is_midway: bool) {
        let connection = context.connection_mut();
        connection.client = Some(client);
        connection.protocol = "tls";
        context.connection_changed();
        let streams = self.streams_by_direction(context);
        let mut tls = Box::new(TlsStack::new(context, streams, self.begin_offsets(context)));
        if let Protocol::Unrecognised(sides) = &self.protocol {
            for (side, unrecognised) in [Side::First, Side::Second].into_iter().zip(sides) {
                let direction = direction(context, side);
                let Unrecognised { begin, passed_to, undecided, .. } = unrecognised;
                // If the capture begins in the middle of a connection, the first byte of a side may
                // be inside a record.
                if passed_to > begin || is_midway {
                    tls.push(context, direction, Piece::Gap(passed_to - begin), Arrival::default());
                }
                if !undecided.is_empty() {
                    let (start, end) = (*passed_to, passed_to + undecided.len() as u64);
                    let span = Span { stream: streams[direction as usize], start, end };
                    let packets = &context.shared.provenance.packet_ranges(span);
                    tls.push(context, direction, Piece::Data(undecided), Arrival { packets, ..Arrival::default() });
                }
            }
        }
        self.protocol = Protocol::Tls(tls);
    }

    /// The offset at which each direction begins.
    fn begin_offsets(&self, context: &StackContext<'_>) -> [u64; 2] {
        let Protocol::Unrecognised(sides) = &self.protocol else { return [0; 2] };
        [Direction::ClientToServer, Direction::ServerToClient]
            .map(|of| sides[context.connection.sender(of).index()].begin)
    }

    /// The streams of both sides, indexed by direction.
    fn streams_by_direction(&mut self, context: &mut StackContext<'_>) -> [StreamId; 2] {
        let mut streams = [StreamId::default(); 2];
        for side in [Side::First, Side::Second] {
            streams[direction(context, side) as usize] = self.stream(context, side);
        }
        streams
    }

    /// Ends everything that is open on the channel.
    pub(super) fn close(&mut self, context: &mut StackContext<'_>) {
        self.report_answer(context);
        match &mut self.protocol {
            Protocol::Http(http) => http.close(context, Ending::Cut),
            Protocol::Tls(tls) => tls.close(context),
            Protocol::Unrecognised(_) => {}
        }
        for stream in self.streams.iter().flatten() {
            context.close(*stream);
        }
    }
}

/// Whether the content of an HTTP/2 stream shows what it is from its middle, and its direction:
/// server-sent events, or a WebSocket. `Some(None)`: more bytes are needed.
fn sniff_stream(content: &[u8]) -> Option<Option<Direction>> {
    match (http1::sniff_events(content), websocket::sniff(content)) {
        (Some(true), _) => Some(Some(Direction::ServerToClient)),
        (None, _) => Some(None),
        (_, frame) => frame,
    }
}

/// Feeds a decoder the bytes of one side from before its protocol was recognised. Skipped bytes are
/// a gap for the decoder. They are reported as a secret, because a head may have begun in them.
fn catch_up(http: &mut HttpStack, context: &mut StackContext<'_>, side: Side, unrecognised: &Unrecognised) {
    let direction = direction(context, side);
    let Unrecognised { begin, passed_to, undecided, undecided_since } = unrecognised;
    if passed_to > begin {
        context.secret(side, *begin..*passed_to, Mask::PLAIN);
        http.push(context, direction, Piece::Gap(passed_to - begin), 0, Time::default());
    }
    if !undecided.is_empty() {
        http.push(context, direction, Piece::Data(undecided), 0, *undecided_since);
    }
}

/// The direction of a side's bytes. Before the client is known, the side that opened the connection
/// counts as the client.
pub(super) fn direction(context: &StackContext<'_>, side: Side) -> Direction {
    if context.connection.sender(Direction::ClientToServer) == side {
        Direction::ClientToServer
    } else {
        Direction::ServerToClient
    }
}
