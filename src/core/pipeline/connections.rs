//! The first stage: from packets to observations about connections. It depends on nothing that the
//! later stages find out.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::holes::Holes;
use super::observation::{Observation, ObservationSink};
use super::order::Order;
use super::{BLANKED, Counts, Input, PipelineConfig};
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{Dropped, Packet, PacketNumber, Provenance};
use crate::decode::packet::{Decoded, Packets};
use crate::decode::quic::Quic;
use crate::decode::stack::{self, ByteCounts, StackOptions, Stacks, Unit};
use crate::decode::tcp::{self, ClockDifference, Delivery, Facts, Flags, SegmentFact, Tcp};
use crate::decode::{Anomaly, ConnectionId, Piece, Side, dns};
use crate::event::{ConnectionKind, Detail, Event, Segment};
use crate::findings::{ProcessChange, transport};

/// Turns packets into observations about connections.
#[derive(Debug)]
pub struct Connections {
    packets: Packets,
    quic: Quic,
    tcp: Tcp,
    above: AboveTcp,
}

/// The decoders above TCP, and what packets of pipes need.
#[derive(Debug)]
struct AboveTcp {
    stacks: Stacks,
    /// Whether events for a store are wanted.
    stores: bool,
    /// The most processes at once.
    most: usize,
    counts: Counts,
    holes: Holes,
    order: Order,
    /// The connections whose directions were captured with different clocks.
    clocks: FxHashMap<ConnectionId, ClockDifference>,
    /// The connection of each wrapped process by its process id, and the process by connection. Ids
    /// of connections count down, so the last entry is the oldest process.
    pipes: FxHashMap<u32, ConnectionId>,
    processes: BTreeMap<ConnectionId, OpenProcess>,
    /// The number of pipe connections so far.
    opened_pipes: u32,
}

/// A wrapped process whose pipes are open.
#[derive(Debug)]
struct OpenProcess {
    process: u32,
    /// The next offset in each of its three streams. TCP streams have the reassembler for that.
    offsets: [u64; 3],
}

/// The first connection id of a pipe. Ids of pipes count down from here, and ids of TCP connections
/// count up from 1, so they never meet.
const FIRST_PIPE: u32 = u32::MAX - 1;

impl Connections {
    /// The stage before the first packet of a capture.
    pub fn new(options: PipelineConfig) -> Connections {
        let limits = options.limits;
        let store = options.detail == Detail::Store;
        let PipelineConfig { hash, keep_secrets, mask_key, redaction, .. } = options;
        Connections {
            packets: Packets::new(limits),
            quic: Quic::default(),
            tcp: Tcp::new(limits, stack::is_client_start),
            above: AboveTcp {
                stacks: Stacks::new(limits, StackOptions { hash, store, keep_secrets, mask_key, redaction }),
                stores: store,
                most: limits.connections.max(1),
                counts: Counts::default(),
                holes: Holes::default(),
                order: Order::default(),
                clocks: FxHashMap::default(),
                pipes: FxHashMap::default(),
                processes: BTreeMap::new(),
                opened_pipes: 0,
            },
        }
    }

    /// Takes the next input. Calls `sink` with what it shows, in order.
    pub fn push(&mut self, input: Input<'_>, sink: &mut ObservationSink<'_>) {
        match input {
            Input::Packet(packet) => self.packet(&packet, sink),
            Input::Secrets(lines) => {
                let AboveTcp { stacks, counts, .. } = &mut self.above;
                stacks.secrets(lines, &mut |unit| observe(counts, unit, sink));
            }
            Input::Damage(damage) => {
                let finding = transport::damaged(&damage.file, damage.offset, &damage.reason);
                sink(Observation::Event(Event::Finding(Box::new(finding))));
            }
            Input::Dropped(Dropped { packets, times }) => {
                sink(Observation::Event(Event::Finding(Box::new(transport::dropped(packets, times)))));
            }
            Input::Tick(now) => self.tcp.advance(now, &mut ReassemblerSink { above: &mut self.above, sink }),
            Input::End => {
                self.tcp.finish(&mut ReassemblerSink { above: &mut self.above, sink });
                self.above.finish(sink);
                let AboveTcp { stacks, counts, .. } = &mut self.above;
                if stacks.blanked() > 0 {
                    counts.skipped.insert(BLANKED, stacks.blanked());
                }
            }
        }
    }

    /// Whether the events are for a store.
    pub fn stores(&self) -> bool {
        self.above.stores
    }

    /// The decoders above TCP.
    pub(super) fn stacks(&mut self) -> &mut Stacks {
        &mut self.above.stacks
    }

    /// The origins of the bytes of all streams that are stored or retained.
    pub(super) fn provenance(&self) -> &Provenance {
        self.above.stacks.provenance()
    }

    /// The open connections, with their bytes so far.
    pub(super) fn open(&self) -> impl Iterator<Item = (ConnectionId, ByteCounts)> {
        self.above.stacks.open().map(|(id, _, bytes)| (id, bytes))
    }

    /// Whether the pipes of a process are open.
    pub(super) fn has_pipes(&self) -> bool {
        !self.above.pipes.is_empty()
    }

    /// Number of ended connections that wait for TLS secrets.
    pub(super) fn lingering(&self) -> usize {
        self.above.stacks.lingering()
    }

    /// The counters of this stage.
    pub(super) fn counts(&self) -> &Counts {
        &self.above.counts
    }

    fn packet(&mut self, packet: &Packet<'_>, sink: &mut ObservationSink<'_>) {
        self.above.counts.packet(packet);
        let conflicts = self.packets.fragment_conflicts();
        let mut junction = ReassemblerSink { above: &mut self.above, sink };
        self.tcp.advance(packet.time, &mut junction);
        match self.packets.push(packet) {
            Decoded::Tcp(segment) => {
                junction.above.counts.cut += u64::from(segment.missing > 0);
                self.tcp.push(&segment, &mut junction);
            }
            Decoded::Dns(message) => (junction.sink)(Observation::Names(dns::names(message))),
            Decoded::Quic(source, destination, version) => {
                junction.above.counts.skip(packet.number, "QUIC");
                if let Some((client, server)) = self.quic.push(source, destination) {
                    (junction.sink)(Observation::Quic { client, server, version, packet: packet.number });
                }
            }
            Decoded::Pipe => junction.above.pipe(packet, junction.sink),
            Decoded::Fragment => {}
            Decoded::Skipped(reason) => junction.above.counts.skip(packet.number, reason),
        }
        if self.packets.fragment_conflicts() > conflicts {
            sink(Observation::FragmentsDiffer(packet.number));
        }
    }
}

/// Passes a unit on. The second stage dates some by the latest packet.
fn observe(counts: &Counts, unit: Unit, sink: &mut ObservationSink<'_>) {
    if let (Unit::ConnectionChanged(..), Some(last)) = (&unit, counts.last) {
        sink(Observation::Now(last));
    }
    sink(Observation::Unit(unit));
}

/// An anomaly of a transport.
fn anomaly(connection: ConnectionId, packet: PacketNumber, anomaly: Anomaly) -> Observation {
    let packets = vec![packet];
    Observation::Unit(Unit::Anomaly { connection, exchange: None, packets, span: None, direction: None, anomaly })
}

/// Passes the output of the TCP reassembler to the decoders above.
struct ReassemblerSink<'a, 'e, 'f> {
    above: &'a mut AboveTcp,
    sink: &'e mut ObservationSink<'f>,
}

impl tcp::Sink for ReassemblerSink<'_, '_, '_> {
    fn opened(&mut self, connection: ConnectionId, facts: &Facts) {
        self.above.counts.tcp_connections += 1;
        self.above.stacks.opened(connection, facts);
        (self.sink)(Observation::Opened(connection, Box::new(ConnectionKind::Tcp(*facts))));
    }

    fn segment(&mut self, fact: &SegmentFact<'_>) {
        let AboveTcp { holes, order, clocks, .. } = self.above;
        if let Some(change) = holes.segment(fact) {
            (self.sink)(change);
        }
        if let Some(change) = order.segment(fact) {
            (self.sink)(change);
        }
        if fact.flags.has(Flags::SYN) {
            (self.sink)(Observation::Beginning(fact.connection));
        }
        if fact.clocks != clocks.get(&fact.connection).copied().unwrap_or(ClockDifference::None) {
            clocks.insert(fact.connection, fact.clocks);
            (self.sink)(Observation::Clocks(fact.connection, fact.clocks));
        }
        if self.above.stores {
            (self.sink)(Observation::Event(Event::Segment(Segment::of(fact))));
        }
    }

    fn delivered(&mut self, delivery: Delivery<'_>) {
        let end = match delivery.piece {
            Piece::Data(bytes) => delivery.offset.saturating_add(bytes.len() as u64),
            Piece::Gap(length) => delivery.offset.saturating_add(length),
            Piece::End(_) => u64::MAX,
        };
        if let Some(change) = self.above.holes.delivered(delivery.connection, delivery.side, end) {
            (self.sink)(change);
        }
        let AboveTcp { stacks, counts, .. } = self.above;
        stacks.delivered(&delivery, &mut |unit| observe(counts, unit, self.sink));
    }

    fn anomaly(&mut self, connection: ConnectionId, _: Side, packet: PacketNumber, found: Anomaly) {
        (self.sink)(anomaly(connection, packet, found));
    }

    fn closed(&mut self, connection: ConnectionId, facts: &Facts) {
        let AboveTcp { stacks, counts, holes, clocks, .. } = self.above;
        holes.closed(connection);
        clocks.remove(&connection);
        stacks.closed(connection, Some(*facts), &mut |unit| observe(counts, unit, self.sink));
    }
}

impl AboveTcp {
    /// Takes a pipe packet.
    fn pipe(&mut self, packet: &Packet<'_>, sink: &mut ObservationSink<'_>) {
        let Some((process, content)) = pipe::decode(packet.data) else { return };
        let open = self.pipes.get(&process).copied();
        let id = match (&content, open) {
            // The operating system used the process id again.
            (PipeEvent::Start(_), Some(old)) => {
                self.pipe_closed(old, sink);
                self.pipe_opened(process, packet, sink)
            }
            (_, Some(id)) => id,
            (_, None) => self.pipe_opened(process, packet, sink),
        };
        sink(Observation::Process(id, ProcessChange::of(&content), packet.time));
        let (pipe, length) = self.advance(id, &content);
        if let (true, Some(open)) = (self.stores, self.processes.get(&id)) {
            let end = open.offsets[pipe as usize];
            let is_captured = matches!(content, PipeEvent::Data(..));
            let segment = Segment::of_pipe(id, pipe, packet, end - length..end, is_captured);
            sink(Observation::Event(Event::Segment(segment)));
        }
        let AboveTcp { stacks, counts, .. } = self;
        let at = (packet.number, packet.time);
        stacks.pipe_packet(id, process, &content, at, &mut |unit| observe(counts, unit, sink));
    }

    /// Counts the bytes of a pipe packet. Returns its pipe and their number.
    fn advance(&mut self, id: ConnectionId, content: &PipeEvent<'_>) -> (Pipe, u64) {
        let Some(open) = self.processes.get_mut(&id) else { return (Pipe::Stdin, 0) };
        let (pipe, length) = match content {
            PipeEvent::Data(pipe, bytes) => (*pipe, bytes.len() as u64),
            PipeEvent::Lost(pipe, bytes) => (*pipe, pipe::gap(open.offsets[*pipe as usize], *bytes)),
            _ => (Pipe::Stdin, 0),
        };
        open.offsets[pipe as usize] += length;
        (pipe, length)
    }

    /// Opens the connection of a new process. Above the limit, the oldest process is closed.
    fn pipe_opened(&mut self, process: u32, packet: &Packet<'_>, sink: &mut ObservationSink<'_>) -> ConnectionId {
        if let Some((oldest, _)) = self.processes.last_key_value()
            && self.processes.len() >= self.most
        {
            let oldest = *oldest;
            sink(anomaly(oldest, packet.number, Anomaly::LimitReached { limit: "connections", offset: 0 }));
            self.pipe_closed(oldest, sink);
        }
        let id = ConnectionId(FIRST_PIPE - self.opened_pipes);
        self.opened_pipes += 1;
        self.pipes.insert(process, id);
        self.processes.insert(id, OpenProcess { process, offsets: [0; 3] });
        sink(Observation::Opened(id, Box::new(ConnectionKind::Pipe { process, opened: packet.time })));
        id
    }

    fn pipe_closed(&mut self, id: ConnectionId, sink: &mut ObservationSink<'_>) {
        if let Some(open) = self.processes.remove(&id) {
            self.pipes.remove(&open.process);
            let AboveTcp { stacks, counts, .. } = self;
            stacks.closed(id, None, &mut |unit| observe(counts, unit, sink));
        }
    }

    fn finish(&mut self, sink: &mut ObservationSink<'_>) {
        while let Some((id, _)) = self.processes.last_key_value() {
            self.pipe_closed(*id, sink);
        }
        let AboveTcp { stacks, counts, .. } = self;
        stacks.finish(&mut |unit| observe(counts, unit, sink));
        sink(Observation::End(Box::new(self.counts.clone())));
    }
}
