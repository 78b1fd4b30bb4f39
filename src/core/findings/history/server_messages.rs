//! The latest requests and notifications of a server over HTTP, to recognise one that
//! is sent twice.

use std::collections::VecDeque;

use super::fingerprint::content_hash;
use crate::capture::Time;
use crate::decode::{Direction, ExchangeNumber, Kind};
use crate::findings::mcp_exchange::McpExchange;
use crate::mcp::{Carrier, Message, MessageNumber};

/// Limit of remembered messages. A message for all streams is sent on all of them at once.
const REMEMBERED: usize = 64;

/// A request or notification of the server on a stream.
#[derive(Clone, Copy, Debug)]
pub struct ServerMessage {
    pub number: MessageNumber,
    /// The exchange of the stream.
    pub exchange: ExchangeNumber,
    /// Whether it is the stream of a GET, which belongs to no request.
    pub is_get: bool,
    pub time: Time,
    text: u64,
}

/// The latest messages, oldest first.
#[derive(Debug, Default)]
pub struct ServerMessages(VecDeque<ServerMessage>);

impl ServerMessages {
    /// The latest message with the same text on another stream.
    pub fn same_on_other_stream(&self, message: &Message) -> Option<&ServerMessage> {
        let text = content_hash(&message.raw);
        self.0.iter().rev().find(|earlier| earlier.text == text && Some(earlier.exchange) != message.exchange)
    }

    pub(in crate::findings) fn observe(&mut self, message: &Message, mcp: &McpExchange) {
        let Some(exchange) = message.exchange else { return };
        let asks = matches!(message.kind, Kind::Request | Kind::Notification);
        let is_streamed = message.carrier == Carrier::SseEvent && message.direction == Direction::ServerToClient;
        if asks && is_streamed && !mcp.resumes {
            if self.0.len() >= REMEMBERED {
                self.0.pop_front();
            }
            let (number, is_get, time) = (message.number, mcp.is_get, message.time);
            self.0.push_back(ServerMessage { number, exchange, is_get, time, text: content_hash(&message.raw) });
        }
    }
}
