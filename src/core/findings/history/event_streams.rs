//! Streams of server-sent events, and the event ids by which they can be resumed (2025-03-26 to
//! 2025-11-25, basic/transports "Resumability and Redelivery").

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::fingerprint::content_hash;
use crate::capture::Time;
use crate::decode::{Exchange, ExchangeNumber, sse};
use crate::findings::mcp_exchange::is_event_stream;

/// Limit of remembered event ids. Beyond it all are discarded, and rules about unknown
/// ids stay silent.
const EVENTS: usize = 16_384;

/// Limit of remembered streams. The oldest is evicted.
const STREAMS: usize = 1_024;

/// An event that was sent with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedEvent {
    /// The exchange that opened the stream on which the event was first sent.
    pub stream: ExchangeNumber,
    /// A hash of its data.
    pub data: u64,
}

/// A logical stream. It may continue in later exchanges and is identified by the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventStream {
    /// When the response to the request that opened it was sent.
    pub answered: Option<Time>,
    /// The latest `retry`, in milliseconds.
    pub retry: Option<u64>,
    /// When the server closed the latest exchange of the stream.
    pub closed: Option<Time>,
}

/// The streams of a session.
#[derive(Debug, Default)]
pub struct EventStreams {
    issued: FxHashMap<u64, IssuedEvent>,
    /// Whether event ids were discarded.
    pub has_discarded: bool,
    streams: BTreeMap<ExchangeNumber, EventStream>,
    /// Number of stream responses without `X-Accel-Buffering: no`.
    pub buffered: u64,
}

impl EventStreams {
    /// The event that was sent with this id.
    pub fn issued(&self, id: &str) -> Option<&IssuedEvent> {
        self.issued.get(&content_hash(id))
    }

    /// The stream that this exchange opened.
    pub fn get(&self, opened_by: ExchangeNumber) -> Option<&EventStream> {
        self.streams.get(&opened_by)
    }

    /// The exchange that opened the stream which this exchange carries. For a resumed stream it is
    /// that of the event `last_event_id`. `None` if that event is unknown.
    pub fn carried_by(&self, exchange: ExchangeNumber, last_event_id: Option<&str>) -> Option<ExchangeNumber> {
        match last_event_id {
            None => Some(exchange),
            Some(id) => self.issued(id).map(|issued| issued.stream),
        }
    }

    /// Records the head of a response.
    pub(super) fn record_response_head(&mut self, exchange: &Exchange) {
        let is_stream = is_event_stream(exchange);
        let is_buffered = exchange.response.fields.get("x-accel-buffering") != Some("no");
        self.buffered += u64::from(is_stream && is_buffered);
    }

    /// Records an event of an exchange.
    pub(in crate::findings) fn record_event(
        &mut self,
        exchange: ExchangeNumber,
        last_event_id: Option<&str>,
        event: &sse::Event<'_>,
    ) {
        let id = event.id.filter(|id| event.sets_id && !id.is_empty());
        if id.is_none() && event.retry.is_none() {
            return;
        }
        let Some(stream) = self.carried_by(exchange, last_event_id) else { return };
        if let Some(id) = id {
            if self.issued.len() >= EVENTS {
                self.issued.clear();
                self.has_discarded = true;
            }
            let data = content_hash(event.data.unwrap_or_default());
            self.issued.entry(content_hash(id)).or_insert(IssuedEvent { stream, data });
        }
        if event.retry.is_some() {
            self.stream(stream).retry = event.retry;
        }
    }

    /// Records that the request of this exchange was answered on its stream.
    pub(super) fn record_answer(&mut self, exchange: ExchangeNumber, time: Time) {
        self.stream(exchange).answered.get_or_insert(time);
    }

    /// Records the end of an exchange.
    pub(super) fn exchange_ended(&mut self, exchange: &Exchange, last_event_id: Option<&str>) {
        let is_stream = is_event_stream(exchange);
        if is_stream && exchange.response.complete {
            let closed = exchange.response.ended;
            if let Some(stream) = self.carried_by(exchange.number, last_event_id) {
                self.stream(stream).closed = closed;
            }
        }
    }

    fn stream(&mut self, opened_by: ExchangeNumber) -> &mut EventStream {
        if self.streams.len() >= STREAMS && !self.streams.contains_key(&opened_by) {
            self.streams.pop_first();
        }
        self.streams.entry(opened_by).or_default()
    }
}
