//! Streams of server-sent events, and what may be resumed of them (2025-03-26 to 2025-11-25, basic/transports "Resumability and
//! Redelivery").

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::fingerprint::content_hash;
use crate::capture::Time;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::sse;
use crate::findings::mcp_exchange::is_event_stream;

/// Event ids remembered. Beyond, all are forgotten at once, and rules about unknown ones stay silent.
const EVENTS: usize = 16_384;

/// Streams remembered, the latest.
const STREAMS: usize = 1_024;

/// An event that was sent under an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IssuedEvent {
    /// The exchange that opened the stream it was first sent on.
    pub stream: ExchangeNumber,
    /// A fingerprint of its data.
    pub data: u64,
}

/// A stream over all exchanges that carried it, named by the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventStream {
    /// When the request that opened it was answered.
    pub answered: Option<Time>,
    /// The last `retry`, in milliseconds.
    pub retry: Option<u64>,
    /// When the server closed the last exchange of it.
    pub closed: Option<Time>,
}

/// The streams of a session.
#[derive(Debug, Default)]
pub struct EventStreams {
    issued: FxHashMap<u64, IssuedEvent>,
    /// Whether event ids were forgotten.
    pub has_forgotten: bool,
    streams: BTreeMap<ExchangeNumber, EventStream>,
    /// Responses that are such streams and do not keep proxies from buffering.
    pub buffered: u64,
}

impl EventStreams {
    /// The event that was sent under this id.
    pub fn issued(&self, id: &str) -> Option<&IssuedEvent> {
        self.issued.get(&content_hash(id))
    }

    /// What is known of the stream that this exchange opened.
    pub fn get(&self, opened_by: ExchangeNumber) -> Option<&EventStream> {
        self.streams.get(&opened_by)
    }

    /// The stream that an exchange carries: that of the event it resumes behind; `None` where that event is not known.
    pub fn carried_by(&self, exchange: ExchangeNumber, last_event_id: Option<&str>) -> Option<ExchangeNumber> {
        match last_event_id {
            None => Some(exchange),
            Some(id) => self.issued(id).map(|issued| issued.stream),
        }
    }

    /// A response has its head.
    pub(super) fn responded(&mut self, exchange: &Exchange) {
        let is_stream = is_event_stream(exchange);
        let is_buffered = exchange.response.fields.get("x-accel-buffering") != Some("no");
        self.buffered += u64::from(is_stream && is_buffered);
    }

    /// An event of an exchange.
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
                self.has_forgotten = true;
            }
            let data = content_hash(event.data.unwrap_or_default());
            self.issued.entry(content_hash(id)).or_insert(IssuedEvent { stream, data });
        }
        if event.retry.is_some() {
            self.stream(stream).retry = event.retry;
        }
    }

    /// The request of this exchange was answered on a stream.
    pub(super) fn answered(&mut self, exchange: ExchangeNumber, time: Time) {
        self.stream(exchange).answered.get_or_insert(time);
    }

    /// An exchange is over.
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
