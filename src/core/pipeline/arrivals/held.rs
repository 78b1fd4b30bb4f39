//! What is held, as copies that own what they need: the pieces of the capture that the decoders lent are gone when it is taken.

use std::ops::Range;

use crate::capture::{Provenance, Span, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::raw::Raw;
use crate::decode::stack::{ConnectionInfo, ServerSentEvent, Text, TextCarrier};
use crate::decode::tcp::Facts;
use crate::decode::{ConnectionId, Direction, sse};
use crate::mcp::tracker::{Moment, Reading};

/// A text of an HTTP exchange.
#[derive(Debug)]
pub struct HeldText {
    pub connection: ConnectionId,
    pub direction: Direction,
    carrier: Carrier,
    raw: Raw<'static>,
    span: Span,
    provenance: Provenance,
    time: Time,
    /// The ids and tokens by which its messages name a request. They are looked at for every request, so they are found once.
    pub names: Vec<Box<str>>,
    pub reading: Reading,
    pub connected: ConnectionInfo,
}

/// What carried it.
#[derive(Debug)]
enum Carrier {
    Body(ExchangeNumber),
    Event { exchange: ExchangeNumber, kind: Option<String>, id: Option<String> },
    WebSocket(ExchangeNumber),
}

impl HeldText {
    /// A copy of a text; `None` where it belongs to no exchange.
    pub fn new(text: &Text<'_>, reading: Reading, connected: &ConnectionInfo) -> Option<HeldText> {
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
            names: reading.following(&text.raw).map(|follows| follows.name().into()).collect(),
            reading,
            connected: connected.clone(),
        })
    }

    /// The text as it came.
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

/// A server-sent event behind a text that is held.
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
    /// A copy of an event.
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

    /// Hands the event on as it came.
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

/// Something of an exchange whose session is not known, or whose request is waited for.
#[derive(Debug)]
pub enum Item {
    Text(Box<HeldText>),
    Event(Box<HeldEvent>),
}

/// An item, and since when it is held.
#[derive(Debug)]
pub struct Held {
    pub item: Item,
    pub since: Moment,
}

impl Held {
    /// Its exchange.
    pub fn exchange(&self) -> ExchangeNumber {
        match &self.item {
            Item::Text(text) => text.exchange(),
            Item::Event(event) => event.exchange,
        }
    }

    /// Bytes that it takes, beside what each takes.
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

/// The end of something of which items are held.
#[derive(Debug)]
pub enum Ended {
    /// An exchange is over.
    Exchange(Box<Exchange>),
    /// A connection is over: what is known of it.
    Connection(ConnectionId, Box<ConnectionInfo>, Option<Box<Facts>>),
}
