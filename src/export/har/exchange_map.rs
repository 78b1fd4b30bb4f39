//! The messages, bodies and streams of each exchange of a capture. They are read in one pass over
//! each list and take about 20 bytes for each message and body.

use std::collections::{HashMap, HashSet};

use anyhow::Result;

use crate::capture::StreamId;
use crate::decode::exchange::ExchangeNumber;
use crate::decode::stream::StreamKind;
use crate::decode::{ConnectionId, Direction, Side};
use crate::mcp::MessageNumber;
use crate::store::{CaptureId, StoreReader};

/// A message that an exchange carried.
pub(super) type ExchangeMessage = (ExchangeNumber, MessageNumber);

/// The messages and streams of a capture, by exchange.
#[derive(Debug)]
pub(super) struct ExchangeMap {
    pub(super) capture: CaptureId,
    /// Whether mcptap itself spoke HTTPS and recorded above TLS.
    pub(super) recorded_https: bool,
    /// Messages in the order of their exchanges.
    carried: Vec<ExchangeMessage>,
    /// Streams of bodies with their content coding, sorted. The flag marks a response.
    bodies: Vec<(ExchangeNumber, bool, StreamId)>,
    /// Streams that contain heads, by connection and side: of TCP, or of decrypted TLS.
    channels: HashMap<(ConnectionId, usize), StreamId>,
    plaintext: HashSet<StreamId>,
}

impl ExchangeMap {
    pub(super) fn read(reader: &StoreReader, capture: CaptureId) -> Result<ExchangeMap> {
        let mut carried = Vec::new();
        reader.visit_carriers(capture, |exchange, message| carried.push((exchange, message)))?;
        carried.sort_unstable();
        let (mut bodies, mut channels, mut plaintext) = (Vec::new(), HashMap::new(), HashSet::new());
        reader.streams(capture, |stream| match stream.kind {
            StreamKind::Body(exchange, direction) => bodies.push((exchange, is_response(direction), stream.id)),
            StreamKind::Tcp(side) => drop(channels.insert((stream.connection, side.index()), stream.id)),
            StreamKind::Plaintext(side) => {
                channels.insert((stream.connection, side.index()), stream.id);
                plaintext.insert(stream.id);
            }
            StreamKind::Pipe(_)
            | StreamKind::Decoded(..)
            | StreamKind::EventData(_)
            | StreamKind::WebSocket(..)
            | StreamKind::Redacted(_) => {}
        })?;
        bodies.sort_unstable();
        let info = reader.capture(capture)?.map(|capture| capture.info);
        let recorded_https = info.is_some_and(|info| info.kind.is_made_up() && info.source.starts_with("https://"));
        Ok(ExchangeMap { capture, recorded_https, carried, bodies, channels, plaintext })
    }

    /// The messages that an exchange carried, in order.
    pub(super) fn messages(&self, exchange: ExchangeNumber) -> &[ExchangeMessage] {
        let start = self.carried.partition_point(|(number, _)| *number < exchange);
        let length = self.carried[start..].partition_point(|(number, _)| *number == exchange);
        &self.carried[start..start + length]
    }

    /// The stream of a body without its transfer coding.
    pub(super) fn body(&self, exchange: ExchangeNumber, direction: Direction) -> Option<StreamId> {
        let wanted = (exchange, is_response(direction));
        let at = self.bodies.partition_point(|(number, response, _)| (*number, *response) < wanted);
        let (number, response, stream) = *self.bodies.get(at)?;
        ((number, response) == wanted).then_some(stream)
    }

    /// The stream that contains the heads that a side sent.
    pub(super) fn channel(&self, connection: ConnectionId, side: Side) -> Option<StreamId> {
        self.channels.get(&(connection, side.index())).copied()
    }

    /// Whether a stream is decrypted TLS.
    pub(super) fn is_plaintext(&self, stream: StreamId) -> bool {
        self.plaintext.contains(&stream)
    }
}

fn is_response(direction: Direction) -> bool {
    direction == Direction::ServerToClient
}
