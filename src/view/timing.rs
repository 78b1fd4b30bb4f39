//! Where the time of a call went, as far as packets tell.
//!
//! ```text
//!    capture      request ██████████                                answer ██████████████
//!                        │ upload  │◄─── network ───►│◄── server ──►│    stream     │
//!                                  │◄─────────────────── latency ──────────────────►│
//! ```
//!
//! *Upload* is from the first byte of the request, its HTTP head included, to the last. *Network* is the round trip between the place of
//! the capture and the side that answers; *server* is the rest of the time to the first byte of the answer; *stream* is from there to the
//! answer's last byte. The latency of a call is the sum of the last three. On a pipe there is no network, and all times are those of the wrapper.

use std::collections::HashMap;

use anyhow::Result;

use super::latencies::Latencies;
use super::units::duration;
use crate::capture::{PacketNumber, Span, Time};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::{ConnectionId, Direction, Side};
use crate::event::ConnectionKind;
use crate::mcp::{Carrier, Message, MessageNumber};
use crate::store::{CaptureId, MessageRow, Page, RowKey, Scope, StoreReader, StoredPacket};

/// Connections whose round trips are remembered: of a server that keeps none open each call has its own.
const REMEMBERED: usize = 4_096;

/// Packets, the first ones of a connection, among which acknowledgments are looked for where its handshake was not captured.
const LOOKED_AT: usize = 256;

/// How a round trip was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// By the handshake: from SYN to SYN and ACK towards the server, from there to the ACK towards the client.
    Handshake,
    /// By the quickest acknowledgment of data that came without data of its own: it may have been delayed, but not for long.
    Acknowledgment,
}

/// The round trip between the place of the capture and one side of a connection, in nanoseconds, and how it was measured.
pub type RoundTrip = (i64, Measure);

/// The time of a call in parts, each in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The request.
    pub request: MessageNumber,
    /// The answer.
    pub answer: MessageNumber,
    /// Which way the request went.
    pub direction: Direction,
    /// From the first to the last byte of the request; `None` where its packets were not kept.
    pub upload: Option<i64>,
    /// There and back; never more than the answer took to begin. `None` where the packets do not tell, and on a pipe.
    pub network: Option<RoundTrip>,
    /// From the last byte of the request to the first of the answer, less the network.
    pub server: i64,
    /// From the first byte of the answer to its last. Of an answer in the response to its request, the first byte is that of the response's
    /// head: a stream that is opened at once and answers later is a long stream.
    pub stream: i64,
}

impl Timing {
    /// Names and nanoseconds of the parts that are known, in order of time.
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

    /// The parts as names and values, each with what it is.
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

    /// For people: `upload 12 µs, network 30.0 ms, server 4.1 ms, stream 17 µs`.
    pub fn words(&self) -> String {
        self.parts().map(|(name, time)| format!("{name} {}", duration(time))).collect::<Vec<_>>().join(", ")
    }
}

/// What timing needs of a message.
#[derive(Clone, Copy)]
struct Sent<'a> {
    number: MessageNumber,
    time: Time,
    direction: Direction,
    carrier: Carrier,
    exchange: Option<ExchangeNumber>,
    packets: &'a [PacketNumber],
    span: Span,
}

impl<'a> From<&'a Message> for Sent<'a> {
    fn from(message: &'a Message) -> Sent<'a> {
        let Message { number, time, direction, carrier, exchange, ref packets, span, .. } = *message;
        Sent { number, time, direction, carrier, exchange, packets, span }
    }
}

impl<'a> From<&'a MessageRow> for Sent<'a> {
    fn from(row: &'a MessageRow) -> Sent<'a> {
        let MessageRow { number, time, direction, carrier, exchange, ref packets, span, .. } = *row;
        Sent { number, time, direction, carrier, exchange, packets, span }
    }
}

/// Times the calls of one capture.
pub struct Clock<'r> {
    reader: &'r StoreReader,
    capture: CaptureId,
    /// The capture saw a network; unknown until that is asked.
    has_network: Option<bool>,
    /// Round trips from the place of the capture, by connection: to the client, to the server.
    round_trips: HashMap<ConnectionId, [Option<RoundTrip>; 2]>,
}

impl<'r> Clock<'r> {
    /// For this capture.
    pub fn new(reader: &'r StoreReader, capture: CaptureId) -> Clock<'r> {
        Clock { reader, capture, has_network: None, round_trips: HashMap::new() }
    }

    /// The timing of the call that a message is the request or the answer of; `None` where the other was not captured.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged; so for all that follow.
    pub fn of_message(&mut self, message: &Message) -> Result<Option<Timing>> {
        let (own, Some(other)) = (Sent::from(message), message.answers.or(message.answered_by)) else {
            return Ok(None);
        };
        let Some(other) = self.row(other)? else { return Ok(None) };
        let other = Sent::from(&other);
        if message.answers.is_some() { self.of(other, own) } else { self.of(own, other) }.map(Some)
    }

    /// The timing of the call that a request begins.
    pub fn of_request(&mut self, request: &MessageRow) -> Result<Option<Timing>> {
        let Some(answer) = request.answered_by else { return Ok(None) };
        let Some(answer) = self.row(answer)? else { return Ok(None) };
        self.of(request.into(), (&answer).into()).map(Some)
    }

    fn of(&mut self, request: Sent<'_>, answer: Sent<'_>) -> Result<Timing> {
        let asked = self.exchange(request)?;
        let same = asked.is_some() && request.exchange == answer.exchange;
        let answered = if same { None } else { self.exchange(answer)? };
        let began = match request.carrier {
            Carrier::RequestBody => asked.as_ref().and_then(|exchange| exchange.request.started),
            _ => self.first_packet(request)?,
        };
        let answered_from = match (same, answer.carrier) {
            (true, Carrier::ResponseBody | Carrier::SseEvent) => {
                asked.as_ref().and_then(|asked| asked.response.started)
            }
            (_, Carrier::RequestBody) => answered.and_then(|exchange| exchange.request.started),
            _ => self.first_packet(answer)?,
        };
        // A server may begin to answer before it has read the whole request.
        let first = answered_from.unwrap_or(answer.time).max(request.time).min(answer.time.max(request.time));
        let waited = first.since(request.time);
        let connection = asked.map(|exchange| exchange.connection);
        let network = match connection {
            Some(connection) if self.has_network()? => self.round_trip(connection, request.direction)?,
            _ => None,
        };
        // The path may have become quicker since the handshake.
        let network = network.map(|(time, measure)| (time.min(waited), measure));
        Ok(Timing {
            request: request.number,
            answer: answer.number,
            direction: request.direction,
            upload: began.map(|began| request.time.since(began).max(0)),
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
        let page = Page::from(RowKey::new(self.capture, number.0), 1);
        let row = self.reader.message_rows(Scope::Capture(self.capture), page)?.pop();
        Ok(row.filter(|row| row.number == number))
    }

    fn exchange(&self, sent: Sent<'_>) -> Result<Option<Exchange>> {
        Ok(sent.exchange.map(|number| self.reader.exchange(self.capture, number)).transpose()?.flatten())
    }

    /// When the first packet came that carried a message.
    fn first_packet(&self, sent: Sent<'_>) -> Result<Option<Time>> {
        let mut packets = sent.packets.first().copied().zip(sent.packets.last().copied());
        if sent.carrier == Carrier::Line {
            // The chunks that a wrapper read are not listed with the message.
            let chunks = self.reader.packet_ranges(self.capture, sent.span)?;
            packets = chunks.first().zip(chunks.last()).map(|(first, last)| (first.packet, last.packet));
        }
        match packets {
            None => Ok(None),
            Some((first, last)) if first == last => Ok(Some(sent.time)),
            Some((first, _)) => Ok(self.reader.packet(self.capture, first)?.map(|packet| packet.time)),
        }
    }

    /// The round trip from the place of the capture to the side that a message in this direction goes to.
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
            // Whoever opens a connection is the client.
            return Ok([round_trip(acknowledged.time.since(accepted.time)), round_trip(accepted.time.since(syn.time))]);
        }
        let packets = self.reader.packets(self.capture, id, PacketNumber(0), LOOKED_AT)?;
        let client = connection.client.unwrap_or(Side::First);
        let measure = |side| quickest_acknowledgment(&packets, side).map(|time| (time, Measure::Acknowledgment));
        Ok([measure(client), measure(client.other())])
    }
}

/// The least time from data to its acknowledgment by `side`. Data that is sent again tells nothing ("RTT samples MUST NOT be made using
/// segments that were retransmitted", RFC 6298 section 3), and an acknowledgment that waited for data to travel with tells how long that took.
fn quickest_acknowledgment(packets: &[StoredPacket], side: Side) -> Option<i64> {
    let mut quickest: Option<i64> = None;
    // The last segment with data towards the side: where it ends, and when it came.
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

/// The parts of many calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    parts: [Latencies; 4],
}

/// Medians of the parts, in nanoseconds; `None` where no call has the part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Medians {
    /// Of the upload.
    pub upload: Option<i64>,
    /// Of the network.
    pub network: Option<i64>,
    /// Of the server.
    pub server: Option<i64>,
    /// Of the stream.
    pub stream: Option<i64>,
}

impl Shares {
    /// One more call.
    pub fn add(&mut self, timing: &Timing) {
        let network = timing.network.map(|(time, _)| time);
        let parts = [timing.upload, network, Some(timing.server), Some(timing.stream)];
        for (latencies, time) in self.parts.iter_mut().zip(parts) {
            if let Some(time) = time {
                latencies.add(time);
            }
        }
    }

    /// The medians of what was added.
    pub fn medians(&mut self) -> Medians {
        let [upload, network, server, stream] = &mut self.parts;
        let [upload, network, server, stream] = [upload, network, server, stream].map(|part| part.percentile(50));
        Medians { upload, network, server, stream }
    }
}

/// Calls whose parts stand for those of a session: each takes some look-ups, and medians settle long before.
const TIMED: u64 = 2_000;

/// Which requests of a session are timed: all, or of a long one so many, evenly spread.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    step: u64,
    seen: u64,
}

impl Sample {
    /// Of so many requests.
    pub fn of(requests: u64) -> Sample {
        Sample { step: requests / TIMED + 1, seen: 0 }
    }

    /// Whether the next request is one of them.
    pub fn takes(&mut self) -> bool {
        self.seen += 1;
        (self.seen - 1).is_multiple_of(self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::LinkType;
    use crate::event::Segment;

    /// A packet at a time in milliseconds: who sent it, the stream offset and length of its data, what it acknowledges.
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
    fn only_bare_acknowledgments_of_what_was_sent_once_measure() {
        let (client, server) = (Side::First, Side::Second);
        let asked = packet(1, 0, client, (0, 100), 0);
        // The answer acknowledges, after 50 ms of work.
        assert_eq!(quickest_acknowledgment(&[asked.clone(), packet(2, 50, server, (0, 10), 100)], server), None);
        let bare = packet(3, 9, server, (0, 0), 100);
        assert_eq!(quickest_acknowledgment(&[asked.clone(), bare.clone()], server), Some(9_000_000));
        // Sent again: which copy is acknowledged?
        assert_eq!(quickest_acknowledgment(&[asked.clone(), packet(2, 8, client, (0, 100), 0), bare], server), None);
        let part = packet(4, 9, server, (0, 0), 60);
        assert_eq!(quickest_acknowledgment(&[asked, part], server), None, "part of it is not it");
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
