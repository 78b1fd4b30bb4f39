//! Messages for tests, written as conversations: `-> {"id":1,"method":"ping"}`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::capture::Time;
use crate::decode::Direction;
use crate::decode::jsonrpc::Kind;
use crate::mcp::{Message, MessageNumber, Peers, Session, SessionNumber, Transport};

/// Nanoseconds between two messages.
pub const TICK: i64 = 1_000_000;

/// Parses one message a line, and pairs responses with requests by id, as a store does. `->` is
/// sent by the client, `<-` by the server.
pub fn read(text: &str) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut open: HashMap<(Direction, Arc<str>), usize> = HashMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (arrow, raw) = line.split_at(2);
        let direction = if arrow == "->" { Direction::ClientToServer } else { Direction::ServerToClient };
        let at = messages.len() as u64;
        let mut message = message(at + 1, Time(at as i64 * TICK), direction, raw.trim());
        match (message.kind, message.id.clone()) {
            (Kind::Request, Some(id)) => drop(open.insert((direction, id), messages.len())),
            (Kind::Response | Kind::Error, Some(id)) => {
                if let Some(request) = open.remove(&(direction.reversed(), id)) {
                    messages[request].answered_by = Some(message.number);
                    message.answers = Some(messages[request].number);
                    message.method = messages[request].method.clone();
                    message.latency = Some(message.time.since(messages[request].time));
                }
            }
            _ => {}
        }
        messages.push(message);
    }
    messages
}

/// A message on a pipe, as the tracker emits it.
pub fn message(number: u64, time: Time, direction: Direction, raw: &str) -> Message {
    Message { line: Some(number), ..Message::of_text(MessageNumber(number), time, direction, raw) }
}

/// A session on pipes with the number of these messages.
pub fn session(messages: &[Message]) -> Session {
    let peers = Peers::Process { process: 1, command: Vec::new() };
    let messages = messages.len() as u64;
    Session { messages, ..Session::opened(SessionNumber(1), Transport::Stdio, peers, Time(0)) }
}
