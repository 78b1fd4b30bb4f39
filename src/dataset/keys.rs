//! Stable names of rows: hashes of the place at which they were captured.
//!
//! - A message: the capture point, the two ends of the connection, the direction, the time at
//!   which its last byte was captured, its offset in the stream of its body, its place in a batch.
//! - A session: the place of its first message.
//! - An exchange: the capture point, the two ends, the time of its first byte, its HTTP/2 stream.
//! - A finding: the rule, the keys of its messages, its session, and the offset of its bytes.
//!
//! Several rows can have one place: one packet can have pipelined requests, or several streams of
//! HTTP/2. Such rows are numbered ([`Keys`]).
//!
//! None of them depends on the name of a file, on numbers of a run, or on what was captured before.
//! So a file of a rotation gives the same keys alone and together with the others.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ring::digest::{Context, SHA256};

use super::tables::FindingRow;
use crate::decode::exchange::Exchange;
use crate::event::{Connection, ConnectionKind};
use crate::export::parquet::Key;
use crate::mcp::Message;

/// Rows among which equal places are told apart. They are of the same packet or message, so they
/// are close to each other.
const RECENT: usize = 1 << 16;

/// The hash of some parts. Each part is preceded by its length, so that no two lists are alike.
pub fn key(parts: &[&[u8]]) -> Key {
    let mut hash = Context::new(&SHA256);
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let hash = hash.finish();
    Key(hash.as_ref().iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte)))
}

/// The capture point and the two ends of a connection.
pub fn ends(host: Option<&str>, connection: &Connection) -> Arc<[u8]> {
    let ends = match &connection.kind {
        ConnectionKind::Tcp(facts) => {
            let mut ends = facts.endpoints.map(|end| end.to_string());
            // Which end opened it is unknown in the middle of a connection.
            ends.sort();
            ends.join(" ")
        }
        ConnectionKind::Pipe { process, .. } => format!("process {process}"),
    };
    format!("{}\n{ends}", host.unwrap_or_default()).into_bytes().into()
}

/// The place of an exchange.
pub fn of_exchange(ends: &[u8], exchange: &Exchange) -> Key {
    let started = exchange.request.started.or(exchange.response.started).unwrap_or_default();
    let stream = exchange.h2_stream.map_or(u64::MAX, u64::from);
    key(&[b"exchange", ends, &started.0.to_le_bytes(), &stream.to_le_bytes()])
}

/// The place of a finding. `start` is the offset of its bytes.
pub fn of_finding(row: &FindingRow, start: u64) -> Key {
    let messages: Vec<u8> = row.messages.iter().flat_map(|key| key.0.to_le_bytes()).collect();
    let session = row.session.as_ref().map_or(0, |facts| facts.key.0);
    let text = if row.messages.is_empty() { row.finding.text.as_bytes() } else { b"" };
    let host = row.place.host.as_deref().unwrap_or_default().as_bytes();
    let rule = row.finding.rule.id.as_bytes();
    key(&[b"finding", host, rule, &messages, &session.to_le_bytes(), &start.to_le_bytes(), text])
}

/// Gives keys to rows by their places.
#[derive(Debug, Default)]
pub struct Keys {
    /// How many rows had the same place.
    places: HashMap<Key, u64>,
    order: VecDeque<Key>,
}

impl Keys {
    /// The key of the next row with this place.
    pub fn of(&mut self, place: Key) -> Key {
        let count = self.places.entry(place).or_insert(0);
        *count += 1;
        let key = match *count {
            1 => place,
            count => key(&[b"another", &place.0.to_le_bytes(), &count.to_le_bytes()]),
        };
        if *count == 1 {
            self.order.push_back(place);
        }
        if self.order.len() > RECENT
            && let Some(old) = self.order.pop_front()
        {
            self.places.remove(&old);
        }
        key
    }
}

/// The key of a session whose first message this is.
pub fn of_session(ends: &[u8], first: &Message) -> Key {
    key(&[b"session", &of_message(ends, first).0.to_le_bytes()])
}

/// The place of a message.
pub fn of_message(ends: &[u8], message: &Message) -> Key {
    let index = message.batch.map_or(u64::MAX, |(_, index)| index.into());
    key(&[
        b"message",
        ends,
        message.direction.name().as_bytes(),
        &message.time.0.to_le_bytes(),
        &message.span.start.to_le_bytes(),
        &index.to_le_bytes(),
    ])
}
