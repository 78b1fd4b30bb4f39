//! The bodies of exchanges: read again from the packets that carried them, or from what TLS carried. Nothing else keeps them whole.

use std::borrow::Cow;
use std::collections::VecDeque;

use anyhow::Result;

use super::index::Index;
use crate::capture::{Limits, Origin, PacketNumber, Span, StreamId};
use crate::decode::coding::{self, Coding};
use crate::decode::exchange::{Exchange, Fields, Half};
use crate::decode::http::HttpEvent;
use crate::decode::http1::{Http1, Seen};
use crate::decode::{ConnectionId, Direction, Piece, Side};
use crate::store::{StoreReader, StoredPacket};

/// Bytes of a stream that are looked up at once.
const STEP: u64 = 1 << 20;

/// Bytes that are read behind a body that is in chunks, until its end is found.
const FRAMING: u64 = 4 << 10;

/// Packets that are read at once: a chunk of them is unpacked for each, however few are wanted.
const WINDOW: usize = 64;

/// Windows that are kept: those of connections that take turns.
const WINDOWS: usize = 8;

const NOT_KEPT: &str = "the body was not kept";
const NOT_CAPTURED: &str = "not all of the body was captured";
const TOO_LONG: &str = "the body goes on: what is above 128 MiB is left out";
const BAD_CODING: &str = "the coding of the body could not be taken off";

/// A body.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// As decoded, transfer and content codings taken off.
    pub(super) bytes: Vec<u8>,
    /// Bytes as sent, where known.
    pub(super) sent: Option<u64>,
    /// Why it is not all.
    pub(super) note: Option<&'static str>,
}

/// Reads bodies of one capture.
pub(super) struct Bodies<'a> {
    index: &'a Index,
    packets: Packets<'a>,
}

impl<'a> Bodies<'a> {
    pub(super) fn new(reader: &'a StoreReader, index: &'a Index) -> Bodies<'a> {
        Bodies { index, packets: Packets { reader, index, windows: VecDeque::new() } }
    }

    /// The body that `side` sent.
    pub(super) fn read(&mut self, exchange: &Exchange, direction: Direction, side: Side) -> Result<Content> {
        let half = if direction == Direction::ClientToServer { &exchange.request } else { &exchange.response };
        if half.body_bytes == 0 {
            return Ok(Content { sent: half.complete.then_some(0), ..Content::default() });
        }
        let mut content = match self.index.body(exchange.number, direction) {
            Some(stream) => self.stream(exchange.connection, stream, &half.fields)?,
            None => self.behind_head(exchange, direction, half, side)?,
        };
        let is_all = half.complete && content.bytes.len() as u64 >= half.body_bytes;
        content.note = content.note.or((!is_all).then_some(NOT_CAPTURED));
        content.sent = content.sent.filter(|_| is_all);
        Ok(content)
    }

    /// All of a stream.
    fn stream(&mut self, connection: ConnectionId, stream: StreamId, fields: &Fields) -> Result<Content> {
        let mut decoding = Decoding::new(fields);
        for start in (0..).step_by(STEP as usize) {
            let span = Span { stream, start, end: start + STEP };
            let reached = self.packets.walk(connection, span, &mut |piece| decoding.push(piece))?;
            if reached < span.end || decoding.is_full() {
                break;
            }
        }
        Ok(decoding.content)
    }

    /// A body in which nothing was looked for, so that no stream of its own was kept: HTTP/1 is read again from its head on.
    fn behind_head(&mut self, exchange: &Exchange, direction: Direction, half: &Half, side: Side) -> Result<Content> {
        let channel = self.index.channel(exchange.connection, side).filter(|_| exchange.h2_stream.is_none());
        let Some(stream) = channel else { return Ok(Content { note: Some(NOT_KEPT), ..Content::default() }) };
        let mut message = Message::new(direction, &half.fields);
        // Without chunks it ends there.
        let whole = half.head_end.saturating_add(half.body_bytes);
        let mut start = half.head_start;
        loop {
            let end = if start < whole { whole.min(start + STEP) } else { start + FRAMING };
            let span = Span { stream, start, end };
            let reached = self.packets.walk(exchange.connection, span, &mut |piece| message.push(piece))?;
            if message.is_over || reached < end || message.decoding.is_full() {
                break;
            }
            start = end;
        }
        // Through a tunnel a connection has several such streams: the body is where the head is.
        let length = message.decoding.content.bytes.len() as u64;
        let is_it = length == half.body_bytes || message.decoding.is_full();
        Ok(if is_it { message.decoding.content } else { Content { note: Some(NOT_KEPT), ..Content::default() } })
    }
}

/// A body whose coding is taken off as it comes.
struct Decoding {
    coding: Option<Coding>,
    content: Content,
    /// Bytes that are taken at most: what is coded may stand for a thousand times as much.
    most: usize,
}

impl Decoding {
    fn new(fields: &Fields) -> Decoding {
        let list = |name| list(fields, name);
        let names = coding::names(list("content-encoding"), list("transfer-encoding").as_deref());
        // What has an unknown coding stays as it was sent: the head says which.
        let coding = names.and_then(|names| Coding::new(&names, Limits::default()).ok().flatten());
        Decoding { coding, content: Content { sent: Some(0), ..Content::default() }, most: Limits::default().message }
    }

    fn push(&mut self, piece: &[u8]) {
        self.content.sent = self.content.sent.map(|sent| sent + piece.len() as u64);
        let Some(mut coding) = self.coding.take() else { return self.take(piece) };
        let decoded = coding.push(piece, &mut |decoded| self.take(decoded));
        if decoded.is_err() && self.content.bytes.is_empty() {
            // Where nothing could be decoded it is kept as sent; behind damage there is nothing to be had.
            self.take(coding.undecoded());
            self.take(piece);
        } else {
            self.coding = Some(coding);
        }
        if decoded.is_err() {
            self.content.note = Some(BAD_CODING);
        }
    }

    /// Takes as much as there is room for.
    fn take(&mut self, decoded: &[u8]) {
        let Content { bytes, note, .. } = &mut self.content;
        let room = self.most - bytes.len();
        if decoded.len() > room {
            *note = Some(TOO_LONG);
        }
        bytes.extend_from_slice(&decoded[..decoded.len().min(room)]);
    }

    /// Whether something was left out.
    fn is_full(&self) -> bool {
        self.content.note == Some(TOO_LONG)
    }
}

/// A message of HTTP/1 that is read again.
struct Message {
    http: Http1,
    direction: Direction,
    decoding: Decoding,
    is_over: bool,
}

impl Message {
    fn new(direction: Direction, fields: &Fields) -> Message {
        Message { http: Http1::new(Limits::default()), direction, decoding: Decoding::new(fields), is_over: false }
    }

    fn push(&mut self, piece: &[u8]) {
        let Message { decoding, is_over, .. } = self;
        self.http.push(self.direction, Piece::Data(piece), Seen::default(), &mut |event| match event {
            HttpEvent::Content { bytes, .. } if !*is_over => decoding.push(bytes),
            HttpEvent::End { .. } => *is_over = true,
            _ => {}
        });
    }
}

/// All values of a field.
fn list<'f>(fields: &'f Fields, name: &str) -> Option<Cow<'f, str>> {
    let values: Vec<&str> =
        fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect();
    match values.as_slice() {
        [] => None,
        [one] => Some(Cow::Borrowed(one)),
        several => Some(Cow::Owned(several.join(", "))),
    }
}

/// Packets of a capture, read in windows.
struct Packets<'a> {
    reader: &'a StoreReader,
    index: &'a Index,
    /// The one used last first.
    windows: VecDeque<(ConnectionId, Vec<StoredPacket>)>,
}

impl Packets<'_> {
    /// Gives the bytes of a span to `take`, up to the first that is not there: its offset.
    fn walk(&mut self, connection: ConnectionId, span: Span, take: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let capture = self.index.capture;
        let mut at = span.start;
        if self.index.is_plaintext(span.stream) {
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
                // A stream is made of streams that were there before it: what says otherwise is damaged, and might never end.
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
                (connection, self.reader.packets(self.index.capture, connection, number, WINDOW)?)
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
    fn what_stands_for_more_than_is_taken_is_cut_and_said() {
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

    fn decoded(fields: &[(&str, &str)], pieces: &[&[u8]]) -> Content {
        let mut decoding = Decoding::new(&fields.iter().copied().collect());
        pieces.iter().for_each(|piece| decoding.push(piece));
        decoding.content
    }

    #[test]
    fn codings_are_taken_off_and_what_is_none_is_kept_as_sent() {
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
        assert_eq!((content.bytes.as_slice(), content.note), (&b"no gzip"[..], Some(BAD_CODING)));
        let content = decoded(&[("Content-Encoding", "rot13")], &[b"grkg"]);
        assert_eq!((content.bytes.as_slice(), content.note), (&b"grkg"[..], None));
    }
}
