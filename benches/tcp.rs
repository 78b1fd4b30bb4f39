//! The speed of the reassembler, in segments a second: `cargo bench --bench tcp`.

use std::net::SocketAddr;

use divan::counter::{BytesCount, ItemsCount};
use mcptap_core::internal::capture::{Limits, PacketNumber, PacketRange, Time};
use mcptap_core::internal::decode::tcp::{Delivery, Facts, Flags, Segment, SegmentFact, Sink, Tcp};
use mcptap_core::internal::decode::{Anomaly, ConnectionId, Piece, Side};

/// Counts bytes, so that the compiler cannot remove the work.
#[derive(Default)]
struct Counter(u64);

impl Sink for Counter {
    fn opened(&mut self, _: ConnectionId, _: &Facts) {}
    fn segment(&mut self, fact: &SegmentFact<'_>) {
        self.0 += fact.offset & 1;
    }
    fn delivered(&mut self, delivery: Delivery<'_>) {
        if let Piece::Data(bytes) = delivery.piece {
            self.0 += bytes.len() as u64;
        }
    }
    fn anomaly(&mut self, _: ConnectionId, _: Side, _: PacketNumber, _: Anomaly) {}
    fn closed(&mut self, _: ConnectionId, _: &Facts) {}
}

/// The order of segments.
#[derive(Clone, Copy)]
struct Traffic {
    connections: u32,
    payload: usize,
    /// The number of data segments between two that are swapped.
    swapped: usize,
}

const ROUNDS: u32 = 200_000;

/// Handshakes, then data segments with their ACKs, in turn over the connections.
fn run(traffic: Traffic, payload: &[u8]) -> u64 {
    let mut tcp = Tcp::new(Limits::default(), |_| true);
    let mut counter = Counter::default();
    let mut number = 0;
    let mut push = |connection: u32, back: bool, flags: u16, sequence: u32, acknowledgment: u32, payload: &[u8]| {
        number += 1;
        let client = SocketAddr::from(([10, 0, (connection >> 8) as u8, connection as u8], 40_000));
        let server = SocketAddr::from(([10, 9, 9, 9], 80));
        let (source, destination) = if back { (server, client) } else { (client, server) };
        let packet = PacketNumber(number);
        let segment = Segment {
            time: Time(number as i64 * 1_000),
            packet,
            source,
            destination,
            sequence,
            acknowledgment,
            flags: Flags(flags),
            window: 64_000,
            options: &[],
            payload,
            missing: 0,
            origin: &[PacketRange { packet, start: 54, end: 54 + payload.len() as u32 }],
        };
        tcp.push(&segment, &mut counter);
    };
    for connection in 0..traffic.connections {
        push(connection, false, Flags::SYN, 0, 0, &[]);
        push(connection, true, Flags::SYN | Flags::ACK, 0, 1, &[]);
        push(connection, false, Flags::ACK, 1, 1, &[]);
    }
    let length = payload.len() as u32;
    for round in 0..ROUNDS {
        let connection = round % traffic.connections;
        let mut turn = round / traffic.connections;
        let swap = traffic.swapped > 0 && turn as usize % traffic.swapped < 2;
        if swap {
            turn ^= 1;
        }
        let sequence = 1u32.wrapping_add(turn.wrapping_mul(length));
        push(connection, false, Flags::ACK | Flags::PSH, sequence, 1, payload);
        push(connection, true, Flags::ACK, 1, sequence.wrapping_add(length), &[]);
    }
    tcp.finish(&mut counter);
    counter.0
}

fn bench(bencher: divan::Bencher<'_, '_>, traffic: Traffic) {
    let payload: Vec<u8> = (0..traffic.payload).map(|at| at as u8).collect();
    let segments = 2 * ROUNDS as usize;
    bencher
        .counter(ItemsCount::new(segments))
        .counter(BytesCount::new(ROUNDS as usize * traffic.payload))
        .bench(|| run(traffic, divan::black_box(&payload)));
}

#[divan::bench(args = [64, 512, 1_448])]
fn one_connection(bencher: divan::Bencher<'_, '_>, payload: usize) {
    bench(bencher, Traffic { connections: 1, payload, swapped: 0 });
}

#[divan::bench(args = [100, 1_000, 10_000])]
fn connections_in_turn(bencher: divan::Bencher<'_, '_>, connections: u32) {
    bench(bencher, Traffic { connections, payload: 512, swapped: 0 });
}

#[divan::bench]
fn one_in_five_out_of_order(bencher: divan::Bencher<'_, '_>) {
    bench(bencher, Traffic { connections: 1, payload: 512, swapped: 10 });
}

fn main() {
    divan::main();
}
