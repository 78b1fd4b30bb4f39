//! The bodies of exchanges, read again from the stored packets or from the stored plaintext of TLS.
//! Nothing else in the store has them whole.

use std::borrow::Cow;
use std::collections::VecDeque;

use anyhow::Result;

use super::exchange_map::ExchangeMap;
use crate::capture::{Limits, Origin, PacketNumber, Span, StreamId};
use crate::decode::coding::{self, Coding};
use crate::decode::exchange::{Exchange, Fields, Half};
use crate::decode::http::HttpEvent;
use crate::decode::http1::Http1;
use crate::decode::{ConnectionId, Direction, Piece, Side};
use crate::store::{StoreReader, StoredPacket};

/// Bytes of a stream that are looked up at once.
const LOOKUP_BYTES: u64 = 1 << 20;

/// Bytes of chunk framing that are read behind a body at a time, until its end is found.
const FRAMING: u64 = 4 << 10;

/// Number of packets read at once. The store unpacks a whole chunk of packets even for
/// a single one.
const WINDOW: usize = 64;

/// Number of windows in memory, for connections whose exchanges alternate.
const WINDOWS: usize = 8;

const NOT_CAPTURED: &str = "not all of the body was captured";
const TOO_LONG: &str = "the body was cut after 128 MiB";
const UNDECODABLE: &str = "the body could not be decoded";

/// A body without its codings.
#[derive(Debug, Default)]
pub(super) struct DecodedBody {
    /// The bytes, with transfer coding and content coding removed.
    pub(super) bytes: Vec<u8>,
    /// The number of bytes as sent, where it is known.
    pub(super) sent: Option<u64>,
    /// The reason why the body is not complete.
    pub(super) note: Option<&'static str>,
}

impl DecodedBody {
    fn not_stored() -> DecodedBody {
        DecodedBody { note: Some("the body was not stored"), ..DecodedBody::default() }
    }
}

/// Reads the bodies of one capture.
pub(super) struct Bodies<'a> {
    exchanges: &'a ExchangeMap,
    packets: Packets<'a>,
}

impl<'a> Bodies<'a> {
    pub(super) fn new(reader: &'a StoreReader, exchanges: &'a ExchangeMap) -> Bodies<'a> {
        Bodies { exchanges, packets: Packets { reader, exchanges, windows: VecDeque::new() } }
    }

    /// Reads the body that `side` sent.
    pub(super) fn read(&mut self, exchange: &Exchange, direction: Direction, side: Side) -> Result<DecodedBody> {
        let half = if direction == Direction::ClientToServer { &exchange.request } else { &exchange.response };
        if half.body_bytes == 0 {
            return Ok(DecodedBody { sent: half.complete.then_some(0), ..DecodedBody::default() });
        }
        let mut content = match self.exchanges.body(exchange.number, direction) {
            Some(stream) => self.stream(exchange.connection, stream, &half.fields)?,
            None => self.behind_head(exchange, direction, half, side)?,
        };
        let is_all = half.complete && content.bytes.len() as u64 >= half.body_bytes;
        content.note = content.note.or((!is_all).then_some(NOT_CAPTURED));
        content.sent = content.sent.filter(|_| is_all);
        Ok(content)
    }

    /// Reads a whole stream.
    fn stream(&mut self, connection: ConnectionId, stream: StreamId, fields: &Fields) -> Result<DecodedBody> {
        let mut decoding = Decoding::new(fields);
        for start in (0..).step_by(LOOKUP_BYTES as usize) {
            let span = Span { stream, start, end: start + LOOKUP_BYTES };
            let reached = self.packets.walk(connection, span, &mut |piece| decoding.push(piece))?;
            if reached < span.end || decoding.is_full() {
                break;
            }
        }
        Ok(decoding.content)
    }

    /// Reads a body without a stream of its own: the decoder looked for nothing in it. HTTP/1 is
    /// parsed again from the head on.
    fn behind_head(
        &mut self,
        exchange: &Exchange,
        direction: Direction,
        half: &Half,
        side: Side,
    ) -> Result<DecodedBody> {
        let channel = self.exchanges.channel(exchange.connection, side).filter(|_| exchange.h2_stream.is_none());
        let Some(stream) = channel else { return Ok(DecodedBody::not_stored()) };
        let mut message = BodyParser::new(direction, &half.fields);
        // A body that is not chunked ends here.
        let whole = half.head_end.saturating_add(half.body_bytes);
        let mut start = half.head_start;
        loop {
            let end = if start < whole { whole.min(start + LOOKUP_BYTES) } else { start + FRAMING };
            let span = Span { stream, start, end };
            let reached = self.packets.walk(exchange.connection, span, &mut |piece| message.push(piece))?;
            if message.is_over || reached < end || message.decoding.is_full() {
                break;
            }
            start = end;
        }
        // Through a tunnel a connection has several such streams. The right one has a body of the
        // right length behind its head.
        let length = message.decoding.content.bytes.len() as u64;
        let has_right_length = length == half.body_bytes || message.decoding.is_full();
        Ok(if has_right_length { message.decoding.content } else { DecodedBody::not_stored() })
    }
}

/// Removes the coding of a body while its bytes arrive.
struct Decoding {
    coding: Option<Coding>,
    content: DecodedBody,
    /// Maximum number of decoded bytes. Compressed data can expand a thousandfold.
    most: usize,
}

impl Decoding {
    fn new(fields: &Fields) -> Decoding {
        let list = |name| list(fields, name);
        let names = coding::names(list("content-encoding"), list("transfer-encoding").as_deref());
        // A body with an unknown coding stays as it was sent. Its head names the coding.
        let coding = names.and_then(|names| Coding::new(&names, Limits::default()).ok().flatten());
        Decoding {
            coding,
            content: DecodedBody { sent: Some(0), ..DecodedBody::default() },
            most: Limits::default().message,
        }
    }

    fn push(&mut self, piece: &[u8]) {
        self.content.sent = self.content.sent.map(|sent| sent + piece.len() as u64);
        let Some(mut coding) = self.coding.take() else { return self.take(piece) };
        let decoded = coding.push(piece, &mut |decoded| self.take(decoded));
        if decoded.is_err() && self.content.bytes.is_empty() {
            // Data that cannot be decoded from its beginning on is taken as sent. Behind damage
            // nothing more can be decoded.
            self.take(coding.undecoded());
            self.take(piece);
        } else {
            self.coding = Some(coding);
        }
        if decoded.is_err() {
            self.content.note = Some(UNDECODABLE);
        }
    }

    /// Appends as much as there is room for.
    fn take(&mut self, decoded: &[u8]) {
        let DecodedBody { bytes, note, .. } = &mut self.content;
        let room = self.most - bytes.len();
        if decoded.len() > room {
            *note = Some(TOO_LONG);
        }
        bytes.extend_from_slice(&decoded[..decoded.len().min(room)]);
    }

    /// Whether a part was left out.
    fn is_full(&self) -> bool {
        self.content.note == Some(TOO_LONG)
    }
}

/// Parses an HTTP/1 message again for its body.
struct BodyParser {
    http: Http1,
    direction: Direction,
    decoding: Decoding,
    is_over: bool,
}

impl BodyParser {
    fn new(direction: Direction, fields: &Fields) -> BodyParser {
        BodyParser { http: Http1::new(Limits::default()), direction, decoding: Decoding::new(fields), is_over: false }
    }

    fn push(&mut self, piece: &[u8]) {
        let BodyParser { decoding, is_over, .. } = self;
        self.http.push(self.direction, Piece::Data(piece), 0, &mut |event| match event {
            HttpEvent::Content { bytes, .. } if !*is_over => decoding.push(bytes),
            HttpEvent::End { .. } => *is_over = true,
            _ => {}
        });
    }
}

/// All values of a header field, joined.
fn list<'f>(fields: &'f Fields, name: &str) -> Option<Cow<'f, str>> {
    let values: Vec<&str> =
        fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect();
    match values.as_slice() {
        [] => None,
        [one] => Some(Cow::Borrowed(one)),
        several => Some(Cow::Owned(several.join(", "))),
    }
}

/// The packets of a capture, read in windows.
struct Packets<'a> {
    reader: &'a StoreReader,
    exchanges: &'a ExchangeMap,
    /// The windows, the one used last first.
    windows: VecDeque<(ConnectionId, Vec<StoredPacket>)>,
}

impl Packets<'_> {
    /// Passes the bytes of a span to `take`, up to the first missing one. Returns the offset
    /// that it reached.
    fn walk(&mut self, connection: ConnectionId, span: Span, take: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let capture = self.exchanges.capture;
        let mut at = span.start;
        if self.exchanges.is_plaintext(span.stream) {
            for (start, piece) in self.reader.plaintext(capture, span)? {
                if start != at {
                    break;
                }
                take(&piece);
                at += piece.len() as u64;
            }
            return Ok(at);
        }
        for part in self.reader.parts(capture, span)? {
            if part.start != at {
                break;
            }
            let length = part.end - part.start;
            at += match part.origin {
                Origin::Packet { packet, offset } => {
                    let place = offset as usize..offset as usize + length as usize;
                    match self.packet(connection, packet)?.and_then(|packet| packet.data.get(place)) {
                        Some(bytes) => {
                            take(bytes);
                            length
                        }
                        None => 0,
                    }
                }
                // A stream is made only of streams with smaller ids. A damaged store may break this
                // rule, and the walk might never end.
                Origin::Copied { stream, offset } if stream < span.stream => {
                    let below = Span { stream, start: offset, end: offset + length };
                    self.walk(connection, below, take)? - below.start
                }
                Origin::Copied { .. } | Origin::Derived(_) | Origin::Missing => 0,
            };
            if at < part.end {
                break;
            }
        }
        Ok(at)
    }

    fn packet(&mut self, connection: ConnectionId, number: PacketNumber) -> Result<Option<&StoredPacket>> {
        let place = |packets: &[StoredPacket]| packets.binary_search_by_key(&number, |packet| packet.number).ok();
        let known = self.windows.iter().position(|(of, packets)| *of == connection && place(packets).is_some());
        let window = match known.and_then(|known| self.windows.remove(known)) {
            Some(window) => window,
            None => {
                self.windows.truncate(WINDOWS - 1);
                (connection, self.reader.packets(self.exchanges.capture, connection, number, WINDOW)?)
            }
        };
        self.windows.push_front(window);
        Ok(self.windows.front().and_then(|(_, packets)| packets.get(place(packets)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn long_decoded_bodies_are_cut_with_a_note() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&[b'x'; 100_000]).unwrap();
        let packed = packed.finish().unwrap();
        let plain = [b'x'; 100_000];
        for (fields, sent) in [(&[("Content-Encoding", "gzip")][..], &packed[..]), (&[], &plain)] {
            for (most, note) in [(999, Some(TOO_LONG)), (100_000, None)] {
                let mut decoding = Decoding { most, ..Decoding::new(&fields.iter().copied().collect()) };
                sent.chunks(70).for_each(|piece| decoding.push(piece));
                assert_eq!((decoding.content.bytes.len(), decoding.content.note), (most, note));
                assert_eq!((decoding.is_full(), decoding.content.sent), (note.is_some(), Some(sent.len() as u64)));
            }
        }
    }

    fn decoded(fields: &[(&str, &str)], pieces: &[&[u8]]) -> DecodedBody {
        let mut decoding = Decoding::new(&fields.iter().copied().collect());
        pieces.iter().for_each(|piece| decoding.push(piece));
        decoding.content
    }

    #[test]
    fn codings_are_removed_and_undecodable_bodies_stay_as_sent() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(b"text").unwrap();
        let packed = packed.finish().unwrap();
        let gzip = [("Content-Encoding", "gzip")];
        let (head, rest) = packed.split_at(12);
        for fields in [&gzip[..], &[("Transfer-Encoding", "gzip, chunked")]] {
            let content = decoded(fields, &[head, rest]);
            assert_eq!((content.bytes.as_slice(), content.note), (&b"text"[..], None));
            assert_eq!(content.sent, Some(packed.len() as u64));
        }
        let content = decoded(&gzip, &[b"no ", b"gzip"]);
        assert_eq!((content.bytes.as_slice(), content.note), (&b"no gzip"[..], Some(UNDECODABLE)));
        let content = decoded(&[("Content-Encoding", "rot13")], &[b"grkg"]);
        assert_eq!((content.bytes.as_slice(), content.note), (&b"grkg"[..], None));
    }
}
