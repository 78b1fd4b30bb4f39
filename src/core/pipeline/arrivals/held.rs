//! Held texts, events and ends.

use crate::decode::ConnectionId;
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::stack::{ByteCounts, ServerSentEvent, Text};
use crate::decode::tcp::Facts;
use crate::mcp::tracker::Moment;

/// A held text or event of an exchange.
#[derive(Debug)]
pub enum Item {
    Text(Box<Text>),
    Event(Box<ServerSentEvent>),
}

/// A held text or event, and the moment since which it is held.
#[derive(Debug)]
pub struct HeldItem {
    pub item: Item,
    pub since: Moment,
    pub exchange: ExchangeNumber,
    /// The ids and tokens by which the messages of a text refer to requests. They are compared with
    /// every request, so they are extracted once.
    pub references: Vec<Box<str>>,
}

impl HeldItem {
    /// Holds an item. `None` for a line of a pipe, which is never held.
    pub fn new(item: Item, since: Moment) -> Option<HeldItem> {
        let (exchange, references) = match &item {
            Item::Text(text) => {
                let references = text.parsed.request_references(&text.raw);
                (text.exchange()?, references.map(|reference| reference.id_or_token().into()).collect())
            }
            Item::Event(event) => (event.exchange, Vec::new()),
        };
        Some(HeldItem { item, since, exchange, references })
    }

    /// The bytes of its content.
    pub fn size(&self) -> usize {
        match &self.item {
            Item::Text(text) => text.raw.len(),
            Item::Event(event) => event.size(),
        }
    }
}

/// The end of an exchange or a connection that has held texts.
#[derive(Debug)]
pub enum HeldEnd {
    /// The exchange, which is complete.
    Exchange(Box<Exchange>),
    /// The connection: its bytes, and the facts of TCP.
    Connection(ConnectionId, ByteCounts, Option<Box<Facts>>),
}
