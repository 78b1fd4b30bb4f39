//! Held texts, events and ends. They are copies that own their data, because the decoders reuse
//! their buffers.

use std::ops::Range;

use crate::capture::{Provenance, Span, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::raw::Raw;
use crate::decode::stack::{ConnectionInfo, ServerSentEvent, Text, TextCarrier};
use crate::decode::tcp::Facts;
use crate::decode::{ConnectionId, Direction, sse};
use crate::mcp::tracker::{Moment, ParsedText};

/// A held text of an HTTP exchange.
#[derive(Debug)]
pub struct HeldText {
    pub connection: ConnectionId,
    pub direction: Direction,
    carrier: Carrier,
    raw: Raw<'static>,
    span: Span,
    provenance: Provenance,
    time: Time,
    /// The ids and tokens by which its messages refer to requests. They are compared with every
    /// request, so they are extracted once.
    pub references: Vec<Box<str>>,
    pub parsed: ParsedText,
    pub connected: ConnectionInfo,
}

/// The owned form of [`TextCarrier`].
#[derive(Debug)]
enum Carrier {
    Body(ExchangeNumber),
    Event { exchange: ExchangeNumber, kind: Option<String>, id: Option<String> },
    WebSocket(ExchangeNumber),
}

impl HeldText {
    /// Copies a text. `None` for a line of a pipe, which is never held.
    pub fn new(text: &Text<'_>, parsed: ParsedText, connected: &ConnectionInfo) -> Option<HeldText> {
        let carrier = match text.carrier {
            TextCarrier::Body(exchange) => Carrier::Body(exchange),
            TextCarrier::SseEvent { exchange, kind, id } => {
                Carrier::Event { exchange, kind: kind.map(str::to_owned), id: id.map(str::to_owned) }
            }
            TextCarrier::WebSocket(exchange) => Carrier::WebSocket(exchange),
            TextCarrier::Line { .. } => return None,
        };
        Some(HeldText {
            connection: text.connection,
            direction: text.direction,
            carrier,
            raw: text.raw.clone().into_owned(),
            span: text.span,
            provenance: text.provenance.extract(text.span),
            time: text.time,
            references: parsed.request_references(&text.raw).map(|reference| reference.id_or_token().into()).collect(),
            parsed,
            connected: connected.clone(),
        })
    }

    /// The original text.
    pub fn text(&self) -> Text<'_> {
        let HeldText { connection, direction, span, time, ref provenance, .. } = *self;
        let carrier = match &self.carrier {
            Carrier::Body(exchange) => TextCarrier::Body(*exchange),
            Carrier::Event { exchange, kind, id } => {
                TextCarrier::SseEvent { exchange: *exchange, kind: kind.as_deref(), id: id.as_deref() }
            }
            Carrier::WebSocket(exchange) => TextCarrier::WebSocket(*exchange),
        };
        Text { connection, direction, raw: self.raw.borrowed(), span, provenance, time, carrier }
    }

    fn exchange(&self) -> ExchangeNumber {
        match self.carrier {
            Carrier::Body(exchange) | Carrier::Event { exchange, .. } | Carrier::WebSocket(exchange) => exchange,
        }
    }
}

/// A held server-sent event.
#[derive(Debug)]
pub struct HeldEvent {
    exchange: ExchangeNumber,
    kind: Option<String>,
    id: Option<String>,
    data: Option<Vec<u8>>,
    parts: Vec<Range<u64>>,
    start: u64,
    end: u64,
    sets_id: bool,
    retry: Option<u64>,
    comments: u32,
    is_certain: bool,
    span: Span,
    provenance: Provenance,
}

impl HeldEvent {
    /// Copies an event.
    pub fn new(sent: &ServerSentEvent<'_>) -> HeldEvent {
        let event = sent.event;
        HeldEvent {
            exchange: sent.exchange,
            kind: event.kind.map(str::to_owned),
            id: event.id.map(str::to_owned),
            data: event.data.map(<[u8]>::to_owned),
            parts: event.parts.to_vec(),
            start: event.start,
            end: event.end,
            sets_id: event.sets_id,
            retry: event.retry,
            comments: event.comments,
            is_certain: event.is_certain,
            span: sent.span,
            provenance: sent.provenance.extract(sent.span),
        }
    }

    /// Calls `take` with the original event.
    pub fn with(&self, take: impl FnOnce(ServerSentEvent<'_>)) {
        let HeldEvent {
            exchange,
            start,
            end,
            sets_id,
            retry,
            comments,
            is_certain,
            span,
            ref parts,
            ref provenance,
            ..
        } = *self;
        let (kind, id, data) = (self.kind.as_deref(), self.id.as_deref(), self.data.as_deref());
        let event = &sse::Event { start, end, kind, id, sets_id, retry, data, parts, comments, is_certain };
        take(ServerSentEvent { exchange, event, span, provenance });
    }
}

/// A held text or event of an exchange.
#[derive(Debug)]
pub enum Item {
    Text(Box<HeldText>),
    Event(Box<HeldEvent>),
}

/// A held text or event, and the moment since which it is held.
#[derive(Debug)]
pub struct HeldItem {
    pub item: Item,
    pub since: Moment,
}

impl HeldItem {
    pub fn exchange(&self) -> ExchangeNumber {
        match &self.item {
            Item::Text(text) => text.exchange(),
            Item::Event(event) => event.exchange,
        }
    }

    /// The bytes of its content.
    pub fn size(&self) -> usize {
        match &self.item {
            Item::Text(text) => text.raw.len(),
            Item::Event(event) => {
                let HeldEvent { data, kind, id, .. } = &**event;
                data.as_ref().map_or(0, Vec::len) + [kind, id].into_iter().flatten().map(String::len).sum::<usize>()
            }
        }
    }
}

/// The end of an exchange or a connection that has held texts.
#[derive(Debug)]
pub enum HeldEnd {
    /// The exchange, which is complete.
    Exchange(Box<Exchange>),
    /// The connection: its last state, and the facts of TCP.
    Connection(ConnectionId, Box<ConnectionInfo>, Option<Box<Facts>>),
}
