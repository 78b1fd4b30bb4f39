//! Packets for a writer in tests, with the events that the pipeline emits about them.

use crate::capture::{LinkType, Packet, PacketNumber, PacketRange, Time};
use crate::decode::ConnectionId;
use crate::decode::Side;
use crate::decode::mask::Mask;
use crate::decode::tcp::{Analysis, Flags};
use crate::event::{Event, Segment};
use crate::store::Writer;

/// The bytes before the payload of every packet here.
pub(super) const HEAD: &[u8] = b"[head]";

/// Passes packets and the events about them to a writer, as the pipeline does.
pub(super) struct PacketFeeder<'a> {
    pub(super) writer: &'a mut Writer,
    number: u64,
}

impl PacketFeeder<'_> {
    pub(super) fn new(writer: &mut Writer) -> PacketFeeder<'_> {
        PacketFeeder { writer, number: 0 }
    }

    pub(super) fn packet(&mut self, link: LinkType, data: &[u8]) -> PacketNumber {
        self.number += 1;
        let (number, time) = (PacketNumber(self.number), Time(self.number as i64 * 1_000));
        let original_length = data.len() as u32;
        self.writer.packet(&Packet { number, time, link, interface: 0, original_length, data });
        number
    }

    /// A packet of connection `connection` that carries `payload` at `offset`.
    pub(super) fn sent(&mut self, connection: u32, side: Side, offset: u64, payload: &[u8]) {
        let packet = self.packet(LinkType::ETHERNET, &[HEAD, payload].concat());
        let end = (HEAD.len() + payload.len()) as u32;
        self.segment(connection, side, offset, vec![PacketRange { packet, start: HEAD.len() as u32, end }]);
    }

    pub(super) fn segment(&mut self, connection: u32, side: Side, offset: u64, origin: Vec<PacketRange>) {
        self.writer.event(Event::Segment(Segment {
            connection: ConnectionId(connection),
            side,
            packet: PacketNumber(self.number),
            offset,
            length: origin.iter().map(PacketRange::len).sum(),
            acknowledged: None,
            window: 1_024,
            flags: Flags(Flags::ACK),
            analysis: Analysis(0),
            origin: origin.as_slice().into(),
        }));
    }

    pub(super) fn keep(&mut self, connection: u32) {
        self.writer.event(Event::Claimed(ConnectionId(connection)));
    }

    pub(super) fn secret(&mut self, side: Side, range: std::ops::Range<u64>) {
        let (start, end) = (range.start, range.end);
        self.writer.event(Event::Secret { connection: ConnectionId(1), side, start, end, mask: Mask::PLAIN });
    }

    pub(super) fn cleared(&mut self, side: Side, offset: u64) {
        self.writer.event(Event::Cleared { connection: ConnectionId(1), side, offset });
    }

    pub(super) fn closed(&mut self, connection: u32) {
        self.writer.event(Event::Closed(ConnectionId(connection)));
    }
}
