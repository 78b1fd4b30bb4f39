//! The body of an HTTP message. After its content coding is removed, it is JSON, server-sent
//! events, or not MCP.

mod masks;

use super::body_hash::Hash;
use super::context::{StackContext, StackOptions};
use super::secret_scan::{self, SecretScan};
use super::unit::{ServerSentEvent, TextCarrier, Unit};
use crate::capture::{Limits, Origin, Span, StreamId, Time};
use crate::decode::coding::{self, Coding};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::http::{Head, StartLine};
use crate::decode::raw::Raw;
use crate::decode::sse::{Event, Sse, SseEvent};
use crate::decode::stream::StreamKind;
use crate::decode::{Anomaly, Direction, Ending, Piece, jsonrpc, refusal};

/// The result of a body that ended.
pub(super) struct BodyEnd {
    /// Size of the decoded body in bytes.
    pub bytes: u64,
    /// SHA-256 of the decoded body, if requested.
    pub sha256: Option<[u8; 32]>,
    /// The explanation of a refusal.
    pub explanation: Option<String>,
}

/// Decodes one body.
#[derive(Debug)]
pub(super) struct Body {
    direction: Direction,
    coding: Option<Coding>,
    /// The streams of the body as sent and of the decoded body. They are the same without a coding.
    streams: Option<(StreamId, StreamId)>,
    kind: BodyKind,
    /// Whether the head was not captured. Then the content may be the end of something else, and is
    /// used only if it is certainly JSON-RPC.
    head_unseen: bool,
    hash: Option<Hash>,
    /// The first bytes of a response that refuses its request.
    refusal: Option<Vec<u8>>,
    /// For a store: the search for secrets, while it goes on.
    secret_scan: Option<Box<SecretScan>>,
    /// Size of the decoded body so far, in bytes.
    bytes: u64,
    /// Capture time of the latest byte.
    time: Time,
    /// Offset in the connection's stream of the first byte that this body still needs.
    pub(super) needed_from: Option<u64>,
}

/// The kind of content, which decides what is collected.
#[derive(Debug)]
enum BodyKind {
    /// Not MCP. The bytes are only counted.
    Ignored,
    /// To be decided by the first byte, because the content type leaves it open. It may be
    /// server-sent events if the head, or its content type, is unknown.
    Undecided { may_be_events: bool },
    /// JSON, collected until the body ends.
    Json(Vec<u8>),
    /// Server-sent events, and the stream of their data once it is open.
    Events(Box<Sse>, Option<StreamId>),
}

/// Whether an event counts. After a gap it may be only the end of an event. It counts if its data
/// is JSON-RPC, or if it is the first event of HTTP+SSE.
fn is_whole_event(event: &Event<'_>, limits: &Limits) -> bool {
    let certain = |data| jsonrpc::is_unmistakable(data, limits.json_depth, limits.batch);
    event.is_certain || event.kind == Some("endpoint") || event.data.is_some_and(certain)
}

impl Body {
    /// A decoder for the body after `head`. An unknown coding is an anomaly, and the body is then
    /// counted as sent.
    pub(super) fn new(
        direction: Direction,
        head: &Head,
        limits: Limits,
        options: StackOptions,
    ) -> (Body, Option<Anomaly>) {
        let (coding, anomaly) =
            match coding::names(head.list("content-encoding"), head.list("transfer-encoding").as_deref())
                .map(|names| Coding::new(&names, limits))
            {
                None => (None, None),
                Some(Ok(coding)) => (coding, None),
                Some(Err(anomaly)) => (None, Some(anomaly)),
            };
        let media_type = head.media_type();
        let kind = match media_type.as_deref() {
            _ if anomaly.is_some() => BodyKind::Ignored,
            Some("text/event-stream") if direction == Direction::ServerToClient => {
                BodyKind::Events(Box::new(Sse::new(limits)), None)
            }
            Some(json) if json == "application/json" || json.ends_with("+json") => BodyKind::Json(Vec::new()),
            None | Some("text/plain" | "application/x-www-form-urlencoded" | "application/octet-stream") => {
                BodyKind::Undecided { may_be_events: head.is_unseen() || head.version == "2" && media_type.is_none() }
            }
            Some(_) => BodyKind::Ignored,
        };
        let head_unseen = head.is_unseen();
        let hash = options.hash.then(Hash::default);
        let masks = options.store && !options.keep_secrets;
        // A page may contain a token too.
        let is_page = media_type.is_some_and(|kind| kind.starts_with("text/") || kind.ends_with("xml"));
        let is_text = match kind {
            BodyKind::Json(_) | BodyKind::Undecided { .. } => true,
            BodyKind::Ignored => is_page,
            BodyKind::Events(..) => false,
        };
        let secret_scan = (masks && is_text).then(|| Box::new(SecretScan::new(coding.is_some())));
        let is_refusal = matches!(head.start, StartLine::Response { status: 400.., .. });
        let body = Body {
            direction,
            coding,
            streams: None,
            kind,
            head_unseen,
            hash,
            refusal: is_refusal.then(Vec::new),
            secret_scan,
            bytes: 0,
            time: Time::default(),
            needed_from: None,
        };
        (body, anomaly)
    }

    /// Offset in the connection's stream from which on bytes may be secrets that were
    /// not reported yet.
    pub(super) fn secret_scan_start(&self) -> Option<u64> {
        self.secret_scan.as_ref().and_then(|secret_scan| secret_scan.start())
    }

    /// Decodes the next bytes of the content. `below` is their position in the connection's stream.
    pub(super) fn content(
        &mut self,
        context: &mut StackContext<'_>,
        number: ExchangeNumber,
        below: Span,
        bytes: &[u8],
        time: Time,
    ) {
        self.time = self.time.max(time);
        if let (&BodyKind::Undecided { may_be_events }, Some(first)) =
            (&self.kind, bytes.iter().find(|byte| !byte.is_ascii_whitespace()))
        {
            let is_first = self.bytes == 0 && bytes.first() == Some(first);
            self.kind = match first {
                // The first byte of a coded body is unknown, but coded bodies have a content
                // type in practice.
                _ if self.coding.is_some() => BodyKind::Ignored,
                b'{' | b'[' => BodyKind::Json(Vec::new()),
                // The start of a comment, or of one of the fields `data`, `event`,
                // `id` and `retry`.
                b':' | b'd' | b'e' | b'i' | b'r'
                    if may_be_events && is_first && self.direction == Direction::ServerToClient =>
                {
                    let new = if self.head_unseen { Sse::mid_stream } else { Sse::new };
                    BodyKind::Events(Box::new(new(context.shared.limits)), None)
                }
                _ => BodyKind::Ignored,
            };
        }
        if self.coding.is_some() || matches!(self.kind, BodyKind::Ignored) {
            let is_first = self.coding.is_some() && self.streams.is_none();
            context.shared.blanked += u64::from(is_first && context.shared.options.redaction.is_some());
            context.mask_content(self.direction, below.start..below.end);
        }
        if let Some(secret_scan) = &mut self.secret_scan {
            let before = secret_scan.memory_bytes();
            secret_scan.sent(below.start..below.end);
            if self.coding.is_none() {
                secret_scan.decoded(bytes);
            }
            context.shared.scanned_bytes = context.shared.scanned_bytes + secret_scan.memory_bytes() - before;
        }
        self.decode(context, number, below, bytes);
        let is_stream = matches!(self.kind, BodyKind::Events(..));
        let is_much = context.shared.scanned_bytes > secret_scan::MAX_TOTAL;
        if self.secret_scan.as_ref().is_some_and(|secret_scan| is_stream || is_much || secret_scan.is_too_much()) {
            self.finish_secret_scan(context);
        }
    }

    /// Removes the coding of the next bytes and passes them on.
    fn decode(&mut self, context: &mut StackContext<'_>, number: ExchangeNumber, below: Span, bytes: &[u8]) {
        if matches!(self.kind, BodyKind::Ignored) && self.coding.is_none() {
            return self.count(bytes);
        }
        let (sent, decoded) = self.open_streams(context, number);
        let from = context.shared.provenance.append(
            sent,
            below.len(),
            Origin::Copied { stream: below.stream, offset: below.start },
        );
        if self.needed_from.is_none() {
            self.needed_from = Some(below.start);
        }
        match self.coding.take() {
            None => self.push_decoded(context, number, decoded, Piece::Data(bytes)),
            Some(mut coding) => {
                let result = coding.push(bytes, &mut |bytes| {
                    self.scan_decoded(context, bytes);
                    context.shared.provenance.append(decoded, bytes.len() as u64, Origin::Derived(from));
                    self.push_decoded(context, number, decoded, Piece::Data(bytes));
                });
                match result {
                    Ok(()) => self.coding = Some(coding),
                    Err(anomaly) => {
                        context.anomaly(Some(self.direction), Some(number), Some(from), anomaly);
                        self.take_as_sent(context, number, from, [coding.undecoded(), bytes]);
                    }
                }
            }
        }
        self.forget_unneeded(context);
    }

    /// Handles a body that is not in its coding. If nothing of it was decoded yet, the whole body
    /// is used as sent. Otherwise the rest is only counted.
    fn take_as_sent(&mut self, context: &mut StackContext<'_>, number: ExchangeNumber, from: Span, pieces: [&[u8]; 2]) {
        if self.bytes == 0 && pieces[0].len() as u64 == from.start {
            if let Some((sent, decoded)) = self.streams {
                context.close(decoded);
                self.streams = Some((sent, sent));
            }
            for bytes in pieces {
                self.scan_decoded(context, bytes);
                self.push_decoded(context, number, from.stream, Piece::Data(bytes));
            }
        } else {
            self.scan_decoded(context, pieces[1]);
            self.ignore(context);
            self.count(pieces[1]);
        }
    }

    /// Handles content that is missing from the capture.
    pub(super) fn gap(
        &mut self,
        context: &mut StackContext<'_>,
        number: ExchangeNumber,
        length: Option<u64>,
        time: Time,
    ) {
        self.time = self.time.max(time);
        if let Some(secret_scan) = &mut self.secret_scan {
            secret_scan.mark_torn();
        }
        // A gap of unknown length is recorded as one byte, so that the bytes around it
        // are not joined.
        let length = length.unwrap_or(1);
        if matches!(self.kind, BodyKind::Ignored) {
            return;
        }
        let (sent, decoded) = self.open_streams(context, number);
        context.shared.provenance.append(sent, length, Origin::Missing);
        if self.coding.take().is_some() {
            // After a gap, the coding cannot be decoded.
            return self.ignore(context);
        }
        match &self.kind {
            BodyKind::Events(..) => self.push_decoded(context, number, decoded, Piece::Gap(length)),
            _ => self.ignore(context),
        }
        self.forget_unneeded(context);
    }

    /// Ends the body and emits its text if it is JSON.
    pub(super) fn finish(
        mut self,
        context: &mut StackContext<'_>,
        number: ExchangeNumber,
        complete: bool,
        ending: Ending,
    ) -> BodyEnd {
        if let (Some(mut coding), Some((sent, _))) = (self.coding.take(), self.streams) {
            let end = context.shared.provenance.length(sent);
            let from = Span { stream: sent, start: end.saturating_sub(1), end };
            if let (Err(anomaly), true) = (coding.finish(), complete) {
                context.anomaly(Some(self.direction), Some(number), Some(from), anomaly);
            }
        }
        self.finish_secret_scan(context);
        if let BodyKind::Events(..) = self.kind {
            self.mask_rest(context);
        }
        let limits = context.shared.limits;
        let certain = |text: &[u8]| jsonrpc::is_unmistakable(text, limits.json_depth, limits.batch);
        if let Some((_, decoded)) = self.streams {
            match &mut self.kind {
                BodyKind::Events(..) => self.push_decoded(context, number, decoded, Piece::End(ending)),
                BodyKind::Json(text) if complete && !text.is_empty() && self.head_unseen && !certain(text) => {}
                BodyKind::Json(text) if complete && !text.is_empty() => {
                    let bytes = std::mem::take(text);
                    context.shared.collected -= bytes.len();
                    let span = Span { stream: decoded, start: 0, end: bytes.len() as u64 };
                    let carrier = TextCarrier::Body(number);
                    context.text(self.direction, bytes.into(), span, self.time, carrier);
                }
                _ => {}
            }
        }
        self.ignore(context);
        if let Some((sent, decoded)) = self.streams {
            context.close(decoded);
            if sent != decoded {
                context.close(sent);
            }
        }
        let sha256 = self.hash.map(Hash::finish);
        let sha256 = sha256.filter(|_| context.shared.options.redaction.is_none());
        let mut explanation = self.refusal.and_then(|start| refusal::explanation(&start));
        if let (Some(redaction), Some(text)) = (context.shared.options.redaction, &mut explanation) {
            *text = redaction.masked(text).into_owned();
        }
        BodyEnd { bytes: self.bytes, sha256, explanation }
    }

    /// Passes decoded bytes, a gap or the end to the collector of this kind of content.
    fn push_decoded(
        &mut self,
        context: &mut StackContext<'_>,
        number: ExchangeNumber,
        stream: StreamId,
        piece: Piece<'_>,
    ) {
        if let Piece::Data(bytes) = piece {
            self.count(bytes);
        }
        match (&mut self.kind, piece) {
            (BodyKind::Json(text), Piece::Data(bytes)) => {
                let collected = context.shared.collected + bytes.len();
                let limit = match text.len() + bytes.len() {
                    length if length > context.shared.limits.message => Some("message"),
                    _ if collected > context.shared.limits.messages_total => Some("messages_total"),
                    _ => None,
                };
                if let Some(limit) = limit {
                    return self.give_up(context, number, stream, limit);
                }
                context.shared.collected = collected;
                text.extend_from_slice(bytes);
            }
            (BodyKind::Events(sse, events), piece) => {
                let events = *events.get_or_insert_with(|| context.open(StreamKind::EventData(number)));
                let (direction, time) = (self.direction, self.time);
                let mut anomalies = Vec::new();
                let mut unused = Vec::new();
                let held = sse.buffered_bytes();
                let limits = context.shared.limits;
                sse.push(piece, &mut |event| match event {
                    SseEvent::Event(event) if !is_whole_event(&event, &limits) => {
                        unused.push(event.start..event.end);
                        anomalies.push(Anomaly::Skipped { offset: event.start, length: event.end - event.start });
                    }
                    SseEvent::Event(event) => {
                        let text = event.data.filter(|data| !data.is_empty()).map(|data| {
                            let start = context.shared.provenance.length(events);
                            for part in event.parts {
                                let origin = Origin::Copied { stream, offset: part.start };
                                context.shared.provenance.append(events, part.end - part.start, origin);
                            }
                            let span = Span { stream: events, start, end: start + data.len() as u64 };
                            context.redacted(direction, Raw::from(data).into_owned(), span)
                        });
                        let span = Span { stream, start: event.start, end: event.end };
                        let packets = context.shared.provenance.packets(span);
                        let data = text.as_ref().map_or(event.data, |(raw, _)| Some(&**raw));
                        let event = Event { data, ..event };
                        let sent = ServerSentEvent::new(number, &event, span, packets);
                        let carrier = TextCarrier::event(number, &event);
                        if let Some((raw, span)) = text {
                            context.redacted_text(direction, raw, span, time, carrier);
                        }
                        (context.sink)(Unit::Event(Box::new(sent)));
                    }
                    SseEvent::Anomaly(anomaly) => anomalies.push(anomaly),
                });
                for range in unused {
                    context.mask_redacted(direction, Span { stream, start: range.start, end: range.end });
                }
                context.shared.collected = context.shared.collected - held + sse.buffered_bytes();
                let is_too_much = context.shared.collected > context.shared.limits.messages_total;
                for anomaly in anomalies {
                    let span = match anomaly {
                        Anomaly::Skipped { offset, length } => {
                            Some(Span { stream, start: offset, end: offset + length })
                        }
                        _ => None,
                    };
                    context.anomaly(Some(direction), Some(number), span, anomaly);
                }
                if is_too_much {
                    self.give_up(context, number, stream, "messages_total");
                }
            }
            _ => {}
        }
    }

    /// Discards the origins that no open event needs.
    fn forget_unneeded(&mut self, context: &mut StackContext<'_>) {
        let Some((sent, decoded)) = self.streams else { return };
        let (low, events) = match &self.kind {
            BodyKind::Events(sse, events) => (sse.low_water(), *events),
            // The origin of a byte is never queried if the body is only counted.
            BodyKind::Ignored => {
                self.needed_from = None;
                context.forget(decoded, u64::MAX);
                return context.forget(sent, u64::MAX);
            }
            BodyKind::Undecided { .. } | BodyKind::Json(_) => return,
        };
        if let Some(events) = events {
            let end = context.shared.provenance.length(events);
            context.forget(events, end);
        }
        // The connection's stream is still needed from the start of the open event.
        let open = context.shared.provenance.parents(Span { stream: decoded, start: low, end: low + 1 }).next();
        self.needed_from = match open.map(|part| part.origin) {
            Some(Origin::Copied { offset, .. }) => Some(offset),
            Some(Origin::Derived(from)) => {
                let below = context.shared.provenance.parents(from).next();
                below.and_then(|part| if let Origin::Copied { offset, .. } = part.origin { Some(offset) } else { None })
            }
            _ => None,
        };
        let sent_low = match open.map(|part| part.origin) {
            Some(Origin::Derived(from)) => from.start,
            _ => context.shared.provenance.length(sent),
        };
        context.forget(decoded, low);
        if sent != decoded {
            context.forget(sent, sent_low);
        }
    }

    /// Stops collecting this body because a limit is reached.
    fn give_up(
        &mut self,
        context: &mut StackContext<'_>,
        number: ExchangeNumber,
        stream: StreamId,
        limit: &'static str,
    ) {
        let offset = context.shared.provenance.length(stream);
        self.ignore(context);
        let anomaly = Anomaly::LimitReached { limit, offset };
        context.anomaly(Some(self.direction), Some(number), None, anomaly);
    }

    /// Releases what was collected. From now on the body is only counted.
    fn ignore(&mut self, context: &mut StackContext<'_>) {
        self.mask_rest(context);
        match std::mem::replace(&mut self.kind, BodyKind::Ignored) {
            BodyKind::Json(text) => context.shared.collected -= text.len(),
            BodyKind::Events(sse, events) => {
                context.shared.collected -= sse.buffered_bytes();
                events.into_iter().for_each(|events| context.close(events));
            }
            BodyKind::Ignored | BodyKind::Undecided { .. } => {}
        }
        self.needed_from = None;
    }

    fn count(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        if let Some(refusal) = &mut self.refusal {
            let room = refusal::READ.saturating_sub(refusal.len());
            refusal.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The streams of this body. They are opened with its first byte.
    fn open_streams(&mut self, context: &mut StackContext<'_>, number: ExchangeNumber) -> (StreamId, StreamId) {
        *self.streams.get_or_insert_with(|| {
            let sent = context.open(StreamKind::Body(number, self.direction));
            let decoded = match self.coding {
                Some(_) => context.open(StreamKind::Decoded(number, self.direction)),
                None => sent,
            };
            (sent, decoded)
        })
    }
}
