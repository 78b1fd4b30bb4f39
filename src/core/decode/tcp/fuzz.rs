//! The rules that hold for any segments: the body of the fuzz target, and the sink that checks
//! them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rustc_hash::FxHashMap;

use super::{Delivery, Facts, Flags, Piece, Segment, SegmentFact, Sink, Tcp};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};
use crate::decode::{Anomaly, ConnectionId, Ending, Side};

/// Bytes before the payload in the packets of tests.
pub(super) const HEAD: u32 = 4;

/// The body of the fuzz target `tcp`: parses `data` as segments and gives them to the reassembler,
/// once with ticks between them and once without.
///
/// # Panics
///
/// When a rule of [`Sink`] or [`Delivery`] is broken, when memory exceeds the limits, or when ticks
/// change the emitted events.
pub fn fuzz_tcp(data: &[u8]) {
    let limits = Limits {
        connections: 3,
        reassembly_per_direction: 4_096,
        reassembly_total: 10_000,
        loss_packets: 6,
        loss_time: 50,
        loss_segments: 4,
        loss_quiet: 150,
        unseen_time: data.first().map_or(0, |first| i64::from(*first)),
        linger_time: 200,
        ..Limits::default()
    };
    let steps: Vec<FuzzSegment> = data.chunks(12).filter_map(FuzzSegment::read).collect();
    let run = |ticks: bool| {
        let mut checker = PromiseChecker::default();
        let mut tcp = Tcp::new(limits, |_| true);
        let mut latest = 0;
        for (step, number) in steps.iter().zip(1..) {
            latest = latest.max(step.time);
            if ticks {
                for time in latest.saturating_sub(100)..latest {
                    tcp.advance(Time(time), &mut checker);
                }
            }
            step.push(PacketNumber(number), &mut tcp, &mut checker);
            assert!(tcp.held <= limits.reassembly_total, "{} bytes held", tcp.held);
            assert!(tcp.table.len() <= limits.connections, "{} connections", tcp.table.len());
        }
        tcp.finish(&mut checker);
        assert_eq!(tcp.held, 0, "something is still held");
        assert!(tcp.table.len() == 0 && checker.streams.is_empty(), "a connection was not closed");
        checker.emitted
    };
    // Ticks may come up to the time of the next packet. They only cause the same events earlier.
    assert_eq!(run(false), run(true), "ticks changed something");
}

/// A segment as encoded by the fuzzer. The numbers are small, so that segments meet.
struct FuzzSegment {
    time: i64,
    flow: u16,
    back: bool,
    flags: u16,
    sequence: u32,
    acknowledgment: u32,
    payload: Vec<u8>,
    missing: u32,
}

impl FuzzSegment {
    fn read(bytes: &[u8]) -> Option<FuzzSegment> {
        let [time, flow, flags, seq, seq_low, ack, ack_low, length, fill, missing, ..] = *bytes else { return None };
        let near_wrap = |high: u8, low: u8| {
            let number = u32::from(u16::from_be_bytes([high & 0x0f, low]));
            // The high bits choose between numbers near the wrap and numbers far away.
            number.wrapping_sub(1_000).wrapping_add(if high & 0xf0 == 0xf0 { 1 << 30 } else { 0 })
        };
        Some(FuzzSegment {
            time: i64::from(time) * if flags & 0x80 != 0 { 7 } else { 1 },
            flow: u16::from(flow) % 5,
            back: flow & 0x80 != 0,
            flags: u16::from(flags & 0x3f),
            sequence: near_wrap(seq, seq_low),
            acknowledgment: near_wrap(ack, ack_low),
            payload: (0..u32::from(length % 90)).map(|at| (at as u8).wrapping_mul(fill | 1)).collect(),
            missing: u32::from(missing & 0x80 != 0) * u32::from(missing),
        })
    }

    fn push(&self, packet: PacketNumber, tcp: &mut Tcp, checker: &mut PromiseChecker) {
        let address = |host: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), host);
        let (client, server) = (address(1_000 + self.flow), address(80));
        let (source, destination) = if self.back { (server, client) } else { (client, server) };
        let origin = checker.add_packet(packet, &self.payload);
        tcp.push(
            &Segment {
                time: Time(self.time),
                packet,
                source,
                destination,
                sequence: self.sequence,
                acknowledgment: self.acknowledgment,
                flags: Flags(self.flags),
                window: 1_000,
                options: &[],
                payload: &self.payload,
                missing: self.missing,
                origin: &[origin],
            },
            checker,
        );
    }
}

/// The state of one stream of a connection.
#[derive(Debug, Default)]
struct CheckedStream {
    offset: u64,
    ended: bool,
}

/// A sink that checks the rules of the reassembler and records what it emits.
#[derive(Debug, Default)]
pub(super) struct PromiseChecker {
    streams: FxHashMap<ConnectionId, [CheckedStream; 2]>,
    packets: FxHashMap<PacketNumber, Vec<u8>>,
    last_opened: u32,
    /// All emitted events, in order.
    pub emitted: Vec<Emitted>,
}

/// An event of the reassembler.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Emitted {
    Opened(ConnectionId, Facts),
    Data { connection: ConnectionId, side: Side, offset: u64, bytes: Vec<u8>, time: Time, acknowledged: u64 },
    Gap { connection: ConnectionId, side: Side, offset: u64, length: u64, time: Time },
    End { connection: ConnectionId, side: Side, offset: u64, ending: Ending, time: Time },
    Odd(ConnectionId, Side, Anomaly),
    Closed(ConnectionId, Facts),
}

impl PromiseChecker {
    /// Makes a packet that carries `payload`. Returns the payload's range in it.
    pub fn add_packet(&mut self, packet: PacketNumber, payload: &[u8]) -> PacketRange {
        let mut data = vec![0xee; HEAD as usize];
        data.extend_from_slice(payload);
        let end = data.len() as u32;
        self.packets.insert(packet, data);
        PacketRange { packet, start: HEAD, end }
    }
}

impl Sink for PromiseChecker {
    fn opened(&mut self, connection: ConnectionId, facts: &Facts) {
        self.last_opened += 1;
        assert_eq!(connection.0, self.last_opened, "ids count up from 1");
        self.streams.insert(connection, Default::default());
        self.emitted.push(Emitted::Opened(connection, *facts));
    }

    fn segment(&mut self, fact: &SegmentFact<'_>) {
        assert!(self.streams.contains_key(&fact.connection), "a segment of a connection that is not open");
    }

    fn delivered(&mut self, delivery: Delivery<'_>) {
        let Delivery { connection, side, offset, piece, origin, time, acknowledged } = delivery;
        let streams = self.streams.get_mut(&connection).expect("a delivery of a connection that is not open");
        assert!(
            acknowledged <= streams[side.other().index()].offset,
            "what it acknowledges was not delivered: {delivery:?}"
        );
        let own = &mut streams[side.index()];
        assert_eq!(offset, own.offset, "the stream has no holes: {delivery:?}");
        assert!(!own.ended, "something after the end: {delivery:?}");
        let event = match piece {
            Piece::Data(bytes) => {
                assert!(!bytes.is_empty(), "an empty piece");
                let of_packets = origin
                    .iter()
                    .flat_map(|range| &self.packets[&range.packet][range.start as usize..range.end as usize]);
                assert!(of_packets.eq(bytes), "the origin does not hold the bytes: {delivery:?}");
                own.offset += bytes.len() as u64;
                Emitted::Data { connection, side, offset, bytes: bytes.to_vec(), time, acknowledged }
            }
            Piece::Gap(length) => {
                assert!(length > 0 && origin.is_empty(), "an empty gap, or one with an origin");
                own.offset += length;
                Emitted::Gap { connection, side, offset, length, time }
            }
            Piece::End(ending) => {
                own.ended = true;
                Emitted::End { connection, side, offset, ending, time }
            }
        };
        self.emitted.push(event);
    }

    fn anomaly(&mut self, connection: ConnectionId, side: Side, packet: PacketNumber, anomaly: Anomaly) {
        assert!(self.streams.contains_key(&connection), "an anomaly of a connection that is not open");
        assert!(packet.0 > 0, "an anomaly without packet");
        self.emitted.push(Emitted::Odd(connection, side, anomaly));
    }

    fn closed(&mut self, connection: ConnectionId, facts: &Facts) {
        let streams = self.streams.remove(&connection).expect("closed twice");
        for (stream, end) in streams.iter().zip(facts.ends) {
            assert!(stream.ended, "closed before both streams ended");
            assert_eq!(stream.offset, end.bytes + end.lost, "the counters miss something");
        }
        self.emitted.push(Emitted::Closed(connection, *facts));
    }
}
