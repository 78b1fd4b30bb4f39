//! The parts of a call's time, as far as packets show them.
//!
//! ```text
//!    capture      request ██████████                              response ██████████████
//!                        │ upload  │◄─── network ───►│◄── server ──►│    stream     │
//!                                  │◄─────────────────── latency ──────────────────►│
//! ```
//!
//! - *Upload*: from the first byte of the request, including its HTTP head, to the last.
//! - *Network*: the round trip between the place of the capture and the side that responds.
//! - *Server*: the rest of the time until the first byte of the response.
//! - *Stream*: from that byte to the last byte of the response.
//!
//! The latency of a call is the sum of the last three. On a pipe there is no network, and all times
//! are those of the wrapper.

use std::collections::HashMap;

use anyhow::Result;

use super::latencies::Latencies;
use super::units::duration;
use crate::capture::{PacketNumber, Span, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::{ConnectionId, Direction, Side};
use crate::event::ConnectionKind;
use crate::mcp::{Carrier, Message, MessageNumber};
use crate::store::{CaptureId, MessageRow, RowKey, StoreReader, StoredPacket};

/// Maximum number of connections whose round trips are remembered. Some servers need a new
/// connection for each call.
const REMEMBERED: usize = 4_096;

/// Number of packets, the first ones of a connection, in which acknowledgments are searched for if
/// the handshake was not captured.
const LOOKED_AT: usize = 256;

/// The method by which a round trip was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The handshake: from SYN to SYN+ACK for the server, from there to the ACK for the client.
    Handshake,
    /// The quickest acknowledgment of data that carried no data itself. It may have been delayed,
    /// but not for long.
    Acknowledgment,
}

/// The round trip between the place of the capture and one side of a connection in nanoseconds, and
/// how it was measured.
pub type RoundTrip = (i64, Measure);

/// The parts of a call's time, each in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The number of the request.
    pub request: MessageNumber,
    /// The number of the response.
    pub answer: MessageNumber,
    /// The direction of the request.
    pub direction: Direction,
    /// From the first to the last byte of the request. `None` where its packets were not stored.
    pub upload: Option<i64>,
    /// The round trip, at most as long as the response took to begin. `None` where the packets do
    /// not show it, and on a pipe.
    pub network: Option<RoundTrip>,
    /// From the last byte of the request to the first byte of the response, without the network.
    pub server: i64,
    /// From the first to the last byte of the response.
    ///
    /// If the message is in the HTTP response to its request, the first byte is that of
    /// the response's head. So a stream that opens at once and carries the message later
    /// is a long stream.
    pub stream: i64,
}

impl Timing {
    /// Names and nanoseconds of the known parts, in order of time.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, i64)> {
        let server = match self.direction {
            Direction::ClientToServer => "server",
            Direction::ServerToClient => "client",
        };
        let network = self.network.map(|(time, _)| time);
        let parts =
            [("upload", self.upload), ("network", network), (server, Some(self.server)), ("stream", Some(self.stream))];
        parts.into_iter().filter_map(|(name, time)| Some((name, time?)))
    }

    /// The parts as names and values, each with an explanation.
    pub fn fields(&self) -> Vec<(String, String)> {
        let what = |name: &str| match (name, self.network) {
            ("upload", _) => "first to last byte of the request",
            ("network", Some((_, Measure::Handshake))) => "there and back, by the handshake",
            ("network", _) => "there and back, by acknowledgments",
            ("stream", _) => "first to last byte of the answer",
            (_, Some(_)) => "to the first byte of the answer, less the network",
            (_, None) => "to the first byte of the answer",
        };
        self.parts().map(|(name, time)| (name.to_owned(), format!("{}, {}", duration(time), what(name)))).collect()
    }

    /// The parts in a line for people: `upload 12 µs, network 30.0 ms, server 4.1 ms, stream 17
    /// µs`.
    pub fn words(&self) -> String {
        self.parts().map(|(name, time)| format!("{name} {}", duration(time))).collect::<Vec<_>>().join(", ")
    }
}

/// The facts about a message that timing needs.
#[derive(Clone, Copy)]
struct TimedMessage<'a> {
    number: MessageNumber,
    time: Time,
    direction: Direction,
    carrier: Carrier,
    exchange: Option<ExchangeNumber>,
    packets: &'a [PacketNumber],
    span: Span,
}

impl<'a> From<&'a Message> for TimedMessage<'a> {
    fn from(message: &'a Message) -> TimedMessage<'a> {
        let Message { number, time, direction, carrier, exchange, ref packets, span, .. } = *message;
        TimedMessage { number, time, direction, carrier, exchange, packets, span }
    }
}

impl<'a> From<&'a MessageRow> for TimedMessage<'a> {
    fn from(row: &'a MessageRow) -> TimedMessage<'a> {
        let MessageRow { number, time, direction, carrier, exchange, ref packets, span, .. } = *row;
        TimedMessage { number, time, direction, carrier, exchange, packets, span }
    }
}

/// Measures the calls of one capture.
pub struct Clock<'r> {
    reader: &'r StoreReader,
    capture: CaptureId,
    /// Whether the capture saw a network. `None` until it is needed.
    has_network: Option<bool>,
    /// Round trips from the place of the capture, by connection: to the client, and to the server.
    round_trips: HashMap<ConnectionId, [Option<RoundTrip>; 2]>,
}

impl<'r> Clock<'r> {
    /// Makes a clock for a capture.
    pub fn new(reader: &'r StoreReader, capture: CaptureId) -> Clock<'r> {
        Clock { reader, capture, has_network: None, round_trips: HashMap::new() }
    }

    /// The timing of the call that a message begins or responds to. `None` where the other message
    /// was not captured, or where two clocks make it wrong: then the call has no latency.
    pub fn of_message(&mut self, message: &Message) -> Result<Option<Timing>> {
        let (own, Some(other)) = (TimedMessage::from(message), message.answers.or(message.answered_by)) else {
            return Ok(None);
        };
        if message.latency.is_none() {
            return Ok(None);
        }
        let Some(other) = self.row(other)? else { return Ok(None) };
        let other = TimedMessage::from(&other);
        if message.answers.is_some() { self.of(other, own) } else { self.of(own, other) }.map(Some)
    }

    /// The timing of the call that a request begins.
    pub fn of_request(&mut self, request: &MessageRow) -> Result<Option<Timing>> {
        let (Some(answer), Some(_)) = (request.answered_by, request.latency) else { return Ok(None) };
        let Some(answer) = self.row(answer)? else { return Ok(None) };
        self.of(request.into(), (&answer).into()).map(Some)
    }

    fn of(&mut self, request: TimedMessage<'_>, answer: TimedMessage<'_>) -> Result<Timing> {
        let request_exchange = self.exchange(request)?;
        let same = request_exchange.is_some() && request.exchange == answer.exchange;
        let response_exchange = if same { None } else { self.exchange(answer)? };
        let request_start = match request.carrier {
            Carrier::RequestBody => request_exchange.as_ref().and_then(|exchange| exchange.request.started),
            _ => self.first_packet(request)?,
        };
        let response_start = match (same, answer.carrier) {
            (true, Carrier::ResponseBody | Carrier::SseEvent) => {
                request_exchange.as_ref().and_then(|exchange| exchange.response.started)
            }
            (_, Carrier::RequestBody) => response_exchange.and_then(|exchange| exchange.request.started),
            _ => self.first_packet(answer)?,
        };
        // A server may begin its response before it has read the whole request.
        let first = response_start.unwrap_or(answer.time).max(request.time).min(answer.time.max(request.time));
        let waited = first.since(request.time);
        let connection = request_exchange.map(|exchange| exchange.connection);
        let network = match connection {
            Some(connection) if self.has_network()? => self.round_trip(connection, request.direction)?,
            _ => None,
        };
        // The path may have become faster since the handshake.
        let network = network.map(|(time, measure)| (time.min(waited), measure));
        Ok(Timing {
            request: request.number,
            answer: answer.number,
            direction: request.direction,
            upload: request_start.map(|start| request.time.since(start).max(0)),
            network,
            server: waited - network.map_or(0, |(time, _)| time),
            stream: answer.time.since(first).max(0),
        })
    }

    fn has_network(&mut self) -> Result<bool> {
        let known = match self.has_network {
            Some(known) => known,
            None => !self.reader.is_made_up(self.capture)?,
        };
        self.has_network = Some(known);
        Ok(known)
    }

    fn row(&self, number: MessageNumber) -> Result<Option<MessageRow>> {
        self.reader.message_row(RowKey::new(self.capture, number.0))
    }

    fn exchange(&self, sent: TimedMessage<'_>) -> Result<Option<Exchange>> {
        Ok(sent.exchange.map(|number| self.reader.exchange(self.capture, number)).transpose()?.flatten())
    }

    /// The time of the first packet that carried a message.
    fn first_packet(&self, sent: TimedMessage<'_>) -> Result<Option<Time>> {
        let mut packets = sent.packets.first().copied().zip(sent.packets.last().copied());
        if sent.carrier == Carrier::Line {
            // The chunks that the wrapper read are not listed with the message.
            let chunks = self.reader.packet_ranges(self.capture, sent.span)?;
            packets = chunks.first().zip(chunks.last()).map(|(first, last)| (first.packet, last.packet));
        }
        match packets {
            None => Ok(None),
            Some((first, last)) if first == last => Ok(Some(sent.time)),
            Some((first, _)) => Ok(self.reader.packet(self.capture, first)?.map(|packet| packet.time)),
        }
    }

    /// The round trip from the place of the capture to the receiver of a message in this direction.
    fn round_trip(&mut self, id: ConnectionId, towards: Direction) -> Result<Option<RoundTrip>> {
        let side = match towards {
            Direction::ServerToClient => 0,
            Direction::ClientToServer => 1,
        };
        if let Some(known) = self.round_trips.get(&id) {
            return Ok(known[side]);
        }
        if self.round_trips.len() >= REMEMBERED {
            self.round_trips.clear();
        }
        let measured = self.measure(id)?;
        self.round_trips.insert(id, measured);
        Ok(measured[side])
    }

    fn measure(&self, id: ConnectionId) -> Result<[Option<RoundTrip>; 2]> {
        let Some(connection) = self.reader.connection(self.capture, id)? else { return Ok([None; 2]) };
        let ConnectionKind::Tcp(facts) = &connection.kind else { return Ok([None; 2]) };
        if let [Some(syn), Some(accepted), Some(acknowledged)] = facts.handshake {
            let round_trip = |time: i64| Some((time.max(0), Measure::Handshake));
            // The side that opens a connection is the client.
            return Ok([round_trip(acknowledged.time.since(accepted.time)), round_trip(accepted.time.since(syn.time))]);
        }
        let packets = self.reader.packets(self.capture, id, PacketNumber(0), LOOKED_AT)?;
        let client = connection.client.unwrap_or(Side::First);
        let measure = |side| quickest_acknowledgment(&packets, side).map(|time| (time, Measure::Acknowledgment));
        Ok([measure(client), measure(client.other())])
    }
}

/// The shortest time from data to its acknowledgment by `side`.
///
/// Retransmitted data measures nothing: "RTT samples MUST NOT be made using segments that were
/// retransmitted" (RFC 6298 section 3). An acknowledgment with data may have waited for that data,
/// so it measures nothing either.
fn quickest_acknowledgment(packets: &[StoredPacket], side: Side) -> Option<i64> {
    let mut quickest: Option<i64> = None;
    // The last segment with data towards the side: its end, and its time.
    let mut sent: Option<(u64, Time)> = None;
    let mut furthest = 0;
    for packet in packets {
        let Some(segment) = &packet.segment else { continue };
        if segment.side != side {
            let end = segment.offset.saturating_add(segment.length.into());
            if segment.length > 0 {
                sent = (end > furthest).then_some((end, packet.time));
                furthest = furthest.max(end);
            }
        } else if let (Some((end, time)), Some(acknowledged)) = (sent, segment.acknowledged)
            && acknowledged >= end
        {
            if segment.length == 0 {
                let took = packet.time.since(time).max(0);
                quickest = Some(quickest.map_or(took, |known| known.min(took)));
            }
            sent = None;
        }
    }
    quickest
}

/// The parts of the time of many calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    parts: [Latencies; 4],
}

/// Medians of the parts in nanoseconds; `None` where no call has the part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Medians {
    /// The median of the uploads.
    pub upload: Option<i64>,
    /// The median of the network's share.
    pub network: Option<i64>,
    /// The median of the server's share.
    pub server: Option<i64>,
    /// The median of the streams.
    pub stream: Option<i64>,
}

impl Shares {
    /// Adds a call.
    pub fn add(&mut self, timing: &Timing) {
        let network = timing.network.map(|(time, _)| time);
        let parts = [timing.upload, network, Some(timing.server), Some(timing.stream)];
        for (latencies, time) in self.parts.iter_mut().zip(parts) {
            if let Some(time) = time {
                latencies.add(time);
            }
        }
    }

    /// The medians of the calls added.
    pub fn medians(&mut self) -> Medians {
        let [upload, network, server, stream] = &mut self.parts;
        let [upload, network, server, stream] = [upload, network, server, stream].map(|part| part.percentile(50));
        Medians { upload, network, server, stream }
    }
}

/// Maximum number of calls of a session that are timed. Each takes some look-ups, and medians
/// settle long before.
const TIMED: u64 = 2_000;

/// Selects the requests of a session that are timed: all, or [`TIMED`] that are evenly spread.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    step: u64,
    requests: u64,
}

impl Sample {
    /// Makes a sample of so many requests.
    pub fn of(requests: u64) -> Sample {
        Sample { step: requests / TIMED + 1, requests: 0 }
    }

    /// Whether the next request is in the sample.
    pub fn takes(&mut self) -> bool {
        self.requests += 1;
        (self.requests - 1).is_multiple_of(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;
    use crate::event::Segment;

    /// A packet at a time in milliseconds: its sender, the stream offset and length of its data,
    /// and the offset that it acknowledges.
    fn packet(number: u64, at: i64, side: Side, (offset, length): (u64, u32), acknowledged: u64) -> StoredPacket {
        let segment = Segment {
            connection: ConnectionId(1),
            side,
            packet: PacketNumber(number),
            offset,
            length,
            acknowledged: Some(acknowledged),
            window: 1_000,
            flags: Default::default(),
            analysis: Default::default(),
            origin: Default::default(),
        };
        StoredPacket {
            number: PacketNumber(number),
            time: Time(at * 1_000_000),
            link: LinkType::ETHERNET,
            interface: 0,
            original_length: length,
            data: Vec::new(),
            masked: false,
            connection: ConnectionId(1),
            segment: Some(segment),
        }
    }

    #[test]
    fn only_acknowledgments_without_data_of_data_sent_once_are_measured() {
        let (client, server) = (Side::First, Side::Second);
        let request = packet(1, 0, client, (0, 100), 0);
        // The response acknowledges, after 50 ms of work.
        assert_eq!(quickest_acknowledgment(&[request.clone(), packet(2, 50, server, (0, 10), 100)], server), None);
        let bare = packet(3, 9, server, (0, 0), 100);
        assert_eq!(quickest_acknowledgment(&[request.clone(), bare.clone()], server), Some(9_000_000));
        // Retransmitted: it is not known which copy was acknowledged.
        assert_eq!(quickest_acknowledgment(&[request.clone(), packet(2, 8, client, (0, 100), 0), bare], server), None);
        let part = packet(4, 9, server, (0, 0), 60);
        assert_eq!(quickest_acknowledgment(&[request, part], server), None, "part of it is not it");
    }

    #[test]
    fn a_sample_is_spread_over_the_session() {
        let taken = |requests: u64| {
            let mut sample = Sample::of(requests);
            (0..requests).filter(|_| sample.takes()).collect::<Vec<_>>()
        };
        assert_eq!(taken(3), [0, 1, 2]);
        let many = taken(1_000_000);
        assert!(many.len() as u64 <= TIMED && many.last() > Some(&999_000), "{}", many.len());
    }

    #[test]
    fn medians_are_of_the_calls_that_have_the_part() {
        let timing = |network: Option<i64>, server| Timing {
            request: MessageNumber(1),
            answer: MessageNumber(2),
            direction: Direction::ClientToServer,
            upload: Some(1),
            network: network.map(|time| (time, Measure::Handshake)),
            server,
            stream: 0,
        };
        let mut shares = Shares::default();
        assert_eq!(shares.medians(), Medians::default());
        [timing(None, 1), timing(Some(40), 5), timing(None, 9)].iter().for_each(|timing| shares.add(timing));
        let medians = shares.medians();
        assert_eq!((medians.network, medians.server, medians.stream), (Some(40), Some(5), Some(0)));
        assert_eq!(timing(Some(40), 5_000).words(), "upload 1 ns, network 40 ns, server 5.0 µs, stream 0 ns");
    }
}
