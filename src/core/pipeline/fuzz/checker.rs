//! Checks that the events of the pipeline are consistent, as [`Event`] documents.

use std::collections::{BTreeMap, BTreeSet};

use super::LIMITS;
use super::script::Observed;
use crate::capture::provenance::clip;
use crate::capture::{Origin, PacketNumber, PacketRange, Span, StreamId, StreamPart};
use crate::decode::ConnectionId;
use crate::decode::exchange::ExchangeNumber;
use crate::event::{Detail, Event, Segment, Stream};
use crate::findings::Finding;
use crate::mcp::{Carrier, Message};
use crate::pipeline::Counts;

/// The events of a connection so far.
#[derive(Debug, Default)]
struct ConnectionEvents {
    claimed: bool,
    closed: bool,
    /// The offset up to which each side was searched for secrets.
    cleared: [u64; 2],
}

/// Checks events one by one and collects them.
#[derive(Debug)]
pub struct EventChecker<'c> {
    packets: &'c [Observed],
    detail: Detail,
    /// The packet that was pushed last.
    current: PacketNumber,
    connections: BTreeMap<ConnectionId, ConnectionEvents>,
    streams: BTreeMap<StreamId, Vec<StreamPart>>,
    exchanges: BTreeMap<ExchangeNumber, ConnectionId>,
    /// The exchanges that have a session.
    assigned: BTreeSet<ExchangeNumber>,
    sessions: u32,
    messages: u64,
    events: Vec<Event>,
}

impl<'c> EventChecker<'c> {
    /// A checker before the first of `packets`.
    pub fn new(packets: &'c [Observed], detail: Detail) -> EventChecker<'c> {
        EventChecker {
            packets,
            detail,
            current: PacketNumber(0),
            connections: BTreeMap::new(),
            streams: BTreeMap::new(),
            exchanges: BTreeMap::new(),
            assigned: BTreeSet::new(),
            sessions: 0,
            messages: 0,
            events: Vec::new(),
        }
    }

    /// Sets the packet that was pushed last.
    pub fn packet(&mut self, number: PacketNumber) {
        self.current = number;
    }

    /// Checks one event.
    pub fn event(&mut self, event: Event) {
        match &event {
            Event::Session(session) => {
                assert!((1..=self.sessions + 1).contains(&session.number.0), "sessions are numbered as they appear");
                self.sessions = self.sessions.max(session.number.0);
            }
            Event::Message(message) => self.message(message),
            Event::Exchange(exchange) | Event::Head(exchange) => {
                assert!(matches!(event, Event::Exchange(_)) || self.detail == Detail::Store, "over already? {event:?}");
                let connection = *self.exchanges.entry(exchange.number).or_insert(exchange.connection);
                assert_eq!(connection, exchange.connection, "an exchange stays on its connection");
                for half in [&exchange.request, &exchange.response] {
                    assert!(half.packets.len() <= LIMITS.packets_listed, "packets listed");
                    half.packets.iter().for_each(|packet| self.assert_pushed(*packet));
                    assert!(half.head_start <= half.head_end);
                }
            }
            Event::Finding(finding) => self.finding(finding),
            Event::Note(note) => {
                assert!(note.session.is_none_or(|session| session.0 <= self.sessions), "of a session so far: {note:?}");
                note.packets.iter().for_each(|packet| self.assert_pushed(*packet));
            }
            Event::Ended(_) => {}
            Event::Linked(_, message, link) => {
                assert!(link.operation <= link.previous && link.previous < *message, "{event:?}");
                assert!(message.0 <= self.messages, "{event:?}");
            }
            _ => {
                assert_eq!(self.detail, Detail::Store, "a printer did not ask for {event:?}");
                self.store_event(&event);
            }
        }
        self.events.push(event);
    }

    fn store_event(&mut self, event: &Event) {
        match event {
            Event::Connection(connection) => {
                let state = self.connections.entry(connection.id).or_default();
                assert!(!state.closed, "an event of a closed connection: {connection:?}");
            }
            Event::Belongs(exchange, session) => {
                assert!(session.0 <= self.sessions, "the record of a session precedes its exchanges");
                assert!(self.assigned.insert(*exchange), "an exchange has one session: {event:?}");
            }
            Event::Claimed(connection) => {
                let state = self.open(*connection);
                assert!(!std::mem::replace(&mut state.claimed, true), "claimed twice");
            }
            Event::Closed(connection) => self.open(*connection).closed = true,
            Event::Segment(segment) => self.segment(segment),
            Event::Secret { connection, side, start, end, .. } => {
                assert!(start <= end);
                let state = self.open(*connection);
                // Packets of a connection that is not stored are buffered or discarded, so they can
                // still be masked.
                assert!(
                    !state.claimed || state.cleared[side.index()] <= *start,
                    "{event:?} may have been written: {state:?}"
                );
            }
            Event::Cleared { connection, side, offset } => {
                let cleared = &mut self.open(*connection).cleared[side.index()];
                assert!(*cleared <= *offset, "cleared to {cleared} before: {event:?}");
                *cleared = *offset;
            }
            Event::Stream(Stream { id, connection, .. }) => {
                assert!(self.open(*connection).claimed, "a stream of an unclaimed connection: {event:?}");
                assert!(self.streams.insert(*id, Vec::new()).is_none(), "emitted twice: {event:?}");
            }
            Event::Part(stream, part) => self.part(*stream, *part),
            Event::Plaintext(stream, start, bytes) => {
                assert!(self.streams.contains_key(stream), "bytes of a stream that was not emitted: {event:?}");
                assert!(start.checked_add(bytes.len() as u64).is_some());
            }
            Event::Keys(connection, _) => assert!(self.open(*connection).claimed),
            _ => {}
        }
    }

    /// A connection that was emitted and is not closed.
    fn open(&mut self, connection: ConnectionId) -> &mut ConnectionEvents {
        let state =
            self.connections.get_mut(&connection).expect("the record of a connection precedes its other events");
        assert!(!state.closed, "an event of the closed connection {connection}");
        state
    }

    fn assert_pushed(&self, packet: PacketNumber) {
        assert!((1..=self.current.0).contains(&packet.0), "packet {packet} of {}", self.current);
    }

    fn captured(&self, range: PacketRange) -> &'c [u8] {
        self.assert_pushed(range.packet);
        let packet = &self.packets[range.packet.0 as usize - 1].data;
        packet.get(range.start as usize..range.end as usize).expect("a range lies in its packet")
    }

    fn message(&mut self, message: &Message) {
        self.messages += 1;
        assert_eq!(message.number.0, self.messages, "messages are numbered as they are complete");
        assert!((1..=self.sessions).contains(&message.session.0), "the record of a session precedes its messages");
        assert_eq!(message.span.len(), message.raw.len() as u64, "{message:?}");
        assert!(message.raw.len() <= LIMITS.message);
        assert!(message.answers.is_none_or(|request| request < message.number), "an answer comes after its request");
        message.packets.iter().for_each(|packet| self.assert_pushed(*packet));
    }

    fn finding(&self, finding: &Finding) {
        finding.packets.iter().for_each(|packet| self.assert_pushed(*packet));
        assert!(finding.messages.iter().all(|message| (1..=self.messages).contains(&message.0)));
        assert!(finding.session.is_none_or(|session| (1..=self.sessions).contains(&session.0)));
        assert!(finding.span.is_none_or(|span| span.start <= span.end));
    }

    fn segment(&mut self, segment: &Segment) {
        self.open(segment.connection);
        assert_eq!(segment.packet, self.current, "a segment is of the packet just pushed");
        let captured: usize = segment.origin.iter().map(|range| self.captured(*range).len()).sum();
        assert!(captured <= segment.length as usize, "{segment:?}");
    }

    /// Checks that the parts of a stream come in order, without holes, and refer to streams below.
    /// The first parts may be missing: they can be discarded before a session
    /// claims the connection.
    fn part(&mut self, stream: StreamId, part: StreamPart) {
        assert!(part.start < part.end, "an empty part");
        match part.origin {
            Origin::Packet { packet, offset } => {
                let end = offset + u32::try_from(part.end - part.start).expect("a part of a packet is short");
                self.captured(PacketRange { packet, start: offset, end });
            }
            Origin::Copied { stream: below, .. } | Origin::Derived(Span { stream: below, .. }) => {
                assert!(below < stream && self.streams.contains_key(&below), "{below:?} is not below {stream:?}");
            }
            Origin::Missing => {}
        }
        let parts = self.streams.get_mut(&stream).expect("a stream precedes its parts");
        assert!(parts.last().is_none_or(|last| last.end == part.start), "parts follow each other: {parts:?}, {part:?}");
        parts.push(part);
    }

    /// Checks the end of the capture. Returns all events.
    pub fn finish(self, counts: &Counts) -> Vec<Event> {
        assert_eq!(counts.messages, self.messages);
        assert_eq!(counts.packets, self.packets.len() as u64);
        let exchanges: Vec<u64> = self.exchanges.keys().map(|number| number.0).collect();
        assert!(self.assigned.iter().all(|number| self.exchanges.contains_key(number)));
        assert_eq!(exchanges, (1..=counts.exchanges).collect::<Vec<_>>(), "every exchange is emitted in the end");
        if self.detail == Detail::Store {
            assert!(self.connections.values().all(|state| state.closed), "a connection was not closed");
            for event in &self.events {
                if let Event::Message(message) = event {
                    self.check_provenance(message);
                }
            }
        }
        self.events
    }

    /// Checks the provenance of a message: if no step is derived, the original bytes are the bytes
    /// of the message.
    fn check_provenance(&self, message: &Message) {
        let Some((mut bytes, packets)) = self.bytes(message.span) else { return };
        if message.carrier == Carrier::SseEvent {
            // A line end inside the data of an event is LF, whatever was transmitted.
            bytes.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
        }
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&message.raw), "{:?}", message.span);
        if message.carrier != Carrier::Line {
            assert_eq!(packets, message.packets, "the packets of a message are those of its bytes");
        }
    }

    /// The bytes of a span and the packets that carried them, found by following the stream parts
    /// down. `None` if bytes were derived.
    fn bytes(&self, span: Span) -> Option<(Vec<u8>, Vec<PacketNumber>)> {
        let (mut bytes, mut packets) = (Vec::new(), Vec::new());
        let mut open = vec![span];
        while let Some(span) = open.pop() {
            let parts = self.streams.get(&span.stream).expect("the streams of a message are emitted");
            let first = parts.partition_point(|part| part.end <= span.start);
            let parts = parts[first..].iter().take_while(|part| part.start < span.end);
            let parts: Vec<StreamPart> = parts.map(|part| clip(*part, span.start, span.end)).collect();
            assert_eq!(parts.iter().map(|part| part.end - part.start).sum::<u64>(), span.len(), "{span:?} has a hole");
            let mut below = Vec::new();
            for part in parts {
                let length = part.end - part.start;
                match part.origin {
                    Origin::Packet { packet, offset } => {
                        let range = PacketRange { packet, start: offset, end: offset + length as u32 };
                        bytes.extend_from_slice(self.captured(range));
                        if !packets.contains(&packet) {
                            packets.push(packet);
                        }
                    }
                    Origin::Copied { stream, offset } => {
                        below.push(Span { stream, start: offset, end: offset + length });
                    }
                    Origin::Derived(_) => return None,
                    Origin::Missing => panic!("a message was made of bytes that nobody saw: {span:?}"),
                }
            }
            open.extend(below.into_iter().rev());
        }
        Some((bytes, packets))
    }
}
