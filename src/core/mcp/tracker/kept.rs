//! A text of an HTTP exchange that cannot be read yet, with all that reading it takes.

use super::early::Since;
use crate::capture::{Provenance, Span, Time};
use crate::decode::exchange::ExchangeNumber;
use crate::decode::raw::Raw;
use crate::decode::stack::{Connected, Text, TextCarrier};
use crate::decode::{ConnectionId, Direction};

#[derive(Debug)]
pub(super) struct Kept {
    pub exchange: ExchangeNumber,
    pub connection: ConnectionId,
    pub direction: Direction,
    /// Of a server-sent event, its kind and its id.
    event: Option<[Option<String>; 2]>,
    raw: Raw<'static>,
    span: Span,
    provenance: Provenance,
    time: Time,
    pub connected: Connected,
    pub since: Since,
}

impl Kept {
    /// A copy of a text; `None` where it is of no exchange.
    pub fn new(text: &Text<'_>, connected: &Connected, since: Since) -> Option<Kept> {
        let (exchange, event) = match text.carrier {
            TextCarrier::SseEvent { exchange, kind, id } => {
                (exchange, Some([kind, id].map(|field| field.map(str::to_owned))))
            }
            TextCarrier::Body(exchange) => (exchange, None),
            TextCarrier::WebSocket(_) | TextCarrier::Line { .. } => return None,
        };
        Some(Kept {
            exchange,
            connection: text.connection,
            direction: text.direction,
            event,
            raw: text.raw.clone().into_owned(),
            span: text.span,
            provenance: text.provenance.extract(text.span),
            time: text.time,
            connected: connected.clone(),
            since,
        })
    }

    /// Bytes of the text.
    pub fn size(&self) -> usize {
        self.raw.len()
    }

    /// The text as it came.
    pub fn text(&self) -> Text<'_> {
        let Kept { exchange, connection, direction, span, time, ref provenance, .. } = *self;
        let carrier = match &self.event {
            Some([kind, id]) => TextCarrier::SseEvent { exchange, kind: kind.as_deref(), id: id.as_deref() },
            None => TextCarrier::Body(exchange),
        };
        Text { connection, direction, raw: self.raw.borrowed(), span, provenance, time, carrier }
    }
}
