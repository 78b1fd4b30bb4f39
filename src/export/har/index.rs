//! What belongs to an exchange, over a whole capture: found out in one pass over each list, some 20 bytes for each message and body.

use std::collections::{HashMap, HashSet};

use anyhow::Result;

use crate::capture::StreamId;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::stream::StreamKind;
use crate::decode::{ConnectionId, Direction, Side};
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{CaptureId, StoreReader};

/// A message that an exchange carried, and its session.
pub(super) type Carried = (ExchangeNumber, MessageNumber, SessionNumber);

/// The messages and streams of a capture, by exchange.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) capture: CaptureId,
    /// mcptap itself spoke HTTPS, and recorded what stood inside TLS.
    pub(super) spoke_https: bool,
    /// In order.
    carried: Vec<Carried>,
    /// The streams of contents as sent, in order.
    bodies: Vec<(ExchangeNumber, bool, StreamId)>,
    /// The stream that heads stand in: of TCP, or of what TLS carried.
    channels: HashMap<(ConnectionId, usize), StreamId>,
    plaintext: HashSet<StreamId>,
}

impl Index {
    pub(super) fn read(reader: &StoreReader, capture: CaptureId) -> Result<Index> {
        let mut carried = Vec::new();
        reader.visit_carriers(capture, |exchange, session, message| carried.push((exchange, message, session)))?;
        carried.sort_unstable();
        let (mut bodies, mut channels, mut plaintext) = (Vec::new(), HashMap::new(), HashSet::new());
        reader.streams(capture, |stream| match stream.kind {
            StreamKind::Body(exchange, direction) => bodies.push((exchange, is_response(direction), stream.id)),
            StreamKind::Tcp(side) => drop(channels.insert((stream.connection, side.index()), stream.id)),
            StreamKind::Plaintext(side) => {
                channels.insert((stream.connection, side.index()), stream.id);
                plaintext.insert(stream.id);
            }
            StreamKind::Pipe(_) | StreamKind::Decoded(..) | StreamKind::EventData(_) | StreamKind::WebSocket(..) => {}
        })?;
        bodies.sort_unstable();
        let info = reader.capture(capture)?.map(|capture| capture.info);
        let spoke_https = info.is_some_and(|info| info.kind.is_made_up() && info.source.starts_with("https://"));
        Ok(Index { capture, spoke_https, carried, bodies, channels, plaintext })
    }

    /// The messages that an exchange carried, in order.
    pub(super) fn messages(&self, exchange: ExchangeNumber) -> &[Carried] {
        let start = self.carried.partition_point(|(number, ..)| *number < exchange);
        let length = self.carried[start..].partition_point(|(number, ..)| *number == exchange);
        &self.carried[start..start + length]
    }

    /// The stream of a content, transfer coding taken off.
    pub(super) fn body(&self, exchange: ExchangeNumber, direction: Direction) -> Option<StreamId> {
        let wanted = (exchange, is_response(direction));
        let at = self.bodies.partition_point(|(number, response, _)| (*number, *response) < wanted);
        let (number, response, stream) = *self.bodies.get(at)?;
        ((number, response) == wanted).then_some(stream)
    }

    /// The stream that the heads of a side stand in.
    pub(super) fn channel(&self, connection: ConnectionId, side: Side) -> Option<StreamId> {
        self.channels.get(&(connection, side.index())).copied()
    }

    /// Whether TLS carried a stream.
    pub(super) fn is_plaintext(&self, stream: StreamId) -> bool {
        self.plaintext.contains(&stream)
    }
}

fn is_response(direction: Direction) -> bool {
    direction == Direction::ServerToClient
}
