//! Joins the decoders, the tracker and the rules: input to events. It does no input or output and
//! reads no clock.
//!
//! Capture files, live interfaces, wrapped servers and stored sessions are the same kind of input.
//! Therefore, with the same limits, a live capture gives the events of its file, and every test is
//! a plain function call.

mod arrivals;
mod connection_state;
mod counts;
mod encrypted;
mod fuzz;
mod notes;
mod sessions;
#[cfg(test)]
mod tests;
mod unclaimed;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::capture::pipe::{self, PipeEvent};
use crate::capture::{Damage, Dropped, Limits, Packet, PacketNumber, Provenance, Time};
use crate::decode::mask::MaskKey;
use crate::decode::packet::{Decoded, Packets};
use crate::decode::quic::Quic;
use crate::decode::stack::{self, StackOptions, Stacks};
use crate::decode::tcp::{self, Delivery, Facts, SegmentFact, Tcp};
use crate::decode::{Anomaly, ConnectionId, Side};
use crate::event::{ConnectionKind, Detail, Emit, Event};
use crate::findings::{Finding, http2, transport};
use sessions::Sessions;

pub use counts::Counts;
pub use fuzz::{Observed, fuzz_packets, fuzz_schema, fuzz_stack, scripted};

/// The input of the decoder: packets, and notes of the source about them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input<'a> {
    /// The next packet of the capture.
    Packet(Packet<'a>),
    /// TLS secrets, as whole lines of a key log (the format of `SSLKEYLOGFILE`).
    Secrets(&'a [u8]),
    /// The capture file is damaged here.
    Damage(&'a Damage),
    /// Packets that were captured are missing here, because the source had no room for them.
    Dropped(Dropped),
    /// The capture time while no packet arrives. Timeouts are applied, and changed
    /// session records are emitted.
    Tick(Time),
    /// The end of the capture. Nothing may follow it.
    End,
}

/// The settings of a pipeline.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipelineConfig {
    /// The bounds on memory and waiting times.
    pub limits: Limits,
    /// The kinds of events that are emitted.
    pub detail: Detail,
    /// Whether to compute the SHA-256 of HTTP bodies.
    pub hash: bool,
    /// Whether to leave secrets in HTTP header fields unmasked.
    pub keep_secrets: bool,
    /// The key of the tags of masked secrets. Without one there are no tags.
    pub mask_key: Option<MaskKey>,
}

/// Turns packets into events.
#[derive(Debug)]
pub struct Pipeline {
    packets: Packets,
    quic: Quic,
    tcp: Tcp,
    above: AboveTcp,
}

/// The stages above TCP, which receive the output of the reassembler.
#[derive(Debug)]
struct AboveTcp {
    stacks: Stacks,
    sessions: Sessions,
    /// The connection of each wrapped process by its process id, and the process id by connection.
    /// Ids of connections count down, so the last entry is the oldest process.
    pipes: FxHashMap<u32, ConnectionId>,
    processes: BTreeMap<ConnectionId, u32>,
}

/// The first connection id of a pipe. Ids of pipes count down from here, and ids of TCP connections
/// count up from 1, so they never meet.
const FIRST_PIPE: u32 = u32::MAX - 1;

impl Pipeline {
    /// A pipeline before the first packet of a capture.
    pub fn new(options: PipelineConfig) -> Pipeline {
        let limits = options.limits;
        let store = options.detail == Detail::Store;
        let PipelineConfig { hash, keep_secrets, mask_key, .. } = options;
        let stack = StackOptions { hash, store, keep_secrets, mask_key };
        Pipeline {
            packets: Packets::new(limits),
            quic: Quic::default(),
            tcp: Tcp::new(limits, stack::is_client_start),
            above: AboveTcp {
                stacks: Stacks::new(limits, stack),
                sessions: Sessions::new(options),
                pipes: FxHashMap::default(),
                processes: BTreeMap::new(),
            },
        }
    }

    /// Takes the next input. Calls `emit` with the events that it completes, in order.
    pub fn push(&mut self, input: Input<'_>, emit: &mut Emit<'_>) {
        match input {
            Input::Packet(packet) => self.packet(&packet, emit),
            Input::Secrets(lines) => {
                let AboveTcp { stacks, sessions, .. } = &mut self.above;
                stacks.secrets(lines, &mut |unit| sessions.unit(unit, emit));
            }
            Input::Damage(damage) => {
                let finding = transport::damaged(&damage.file, damage.offset, &damage.reason);
                emit(Event::Finding(Box::new(finding)));
            }
            Input::Dropped(Dropped { packets, times }) => {
                emit(Event::Finding(Box::new(transport::dropped(packets, times))));
            }
            Input::Tick(now) => {
                self.tcp.advance(now, &mut ReassemblerSink { above: &mut self.above, emit });
                self.above.refresh(emit);
            }
            Input::End => {
                self.tcp.finish(&mut ReassemblerSink { above: &mut self.above, emit });
                self.above.finish(emit);
            }
        }
    }

    /// Retains this many of the latest stream parts that decoding needs no longer, for queries.
    pub(crate) fn retain_parts(&mut self, most: usize) {
        self.above.stacks.retain_parts(most);
    }

    /// The origins of the bytes of all streams that are stored or retained.
    pub(crate) fn provenance(&self) -> &Provenance {
        self.above.stacks.provenance()
    }

    /// Counters of the capture so far.
    pub fn counts(&self) -> &Counts {
        &self.above.sessions.counts
    }

    fn packet(&mut self, packet: &Packet<'_>, emit: &mut Emit<'_>) {
        self.above.sessions.counts.packet(packet);
        let conflicts = self.packets.fragment_conflicts();
        let mut junction = ReassemblerSink { above: &mut self.above, emit };
        self.tcp.advance(packet.time, &mut junction);
        match self.packets.push(packet) {
            Decoded::Tcp(segment) => {
                junction.above.sessions.counts.cut += u64::from(segment.missing > 0);
                self.tcp.push(&segment, &mut junction);
            }
            Decoded::Dns(message) => junction.above.sessions.dns_response(message),
            Decoded::Quic(source, destination, version) => {
                junction.above.sessions.counts.skip(packet.number, "QUIC");
                if let Some((client, server)) = self.quic.push(source, destination) {
                    let name = junction.above.sessions.host_name(server.ip());
                    let (rule, text) = http2::not_decoded(client, server, name, version);
                    let packets = vec![packet.number];
                    (junction.emit)(Event::Finding(Box::new(Finding { packets, text, ..Finding::of(rule) })));
                }
            }
            Decoded::Pipe => junction.above.pipe(packet, junction.emit),
            Decoded::Fragment => {}
            Decoded::Skipped(reason) => junction.above.sessions.counts.skip(packet.number, reason),
        }
        if self.packets.fragment_conflicts() > conflicts {
            self.above.sessions.fragments_differ(packet.number, emit);
        }
    }
}

/// Passes the output of the TCP reassembler to the stages above.
struct ReassemblerSink<'a, 'e, 'f> {
    above: &'a mut AboveTcp,
    emit: &'e mut Emit<'f>,
}

impl tcp::Sink for ReassemblerSink<'_, '_, '_> {
    fn opened(&mut self, connection: ConnectionId, facts: &Facts) {
        self.above.stacks.opened(connection, facts);
        self.above.sessions.opened(connection, ConnectionKind::Tcp(*facts), self.emit);
    }

    fn segment(&mut self, fact: &SegmentFact<'_>) {
        self.above.sessions.segment(fact, self.emit);
    }

    fn delivered(&mut self, delivery: Delivery<'_>) {
        let AboveTcp { stacks, sessions, .. } = self.above;
        sessions.arrivals.delivered(&delivery);
        stacks.delivered(&delivery, &mut |unit| sessions.unit(unit, self.emit));
    }

    fn anomaly(&mut self, connection: ConnectionId, _: Side, packet: PacketNumber, anomaly: Anomaly) {
        self.above.sessions.anomaly(connection, vec![packet], None, &anomaly, self.emit);
    }

    fn closed(&mut self, connection: ConnectionId, facts: &Facts) {
        let AboveTcp { stacks, sessions, .. } = self.above;
        stacks.closed(connection, Some(*facts), &mut |unit| sessions.unit(unit, self.emit));
    }
}

impl AboveTcp {
    /// Takes a pipe packet.
    fn pipe(&mut self, packet: &Packet<'_>, emit: &mut Emit<'_>) {
        let Some((process, content)) = pipe::decode(packet.data) else { return };
        let open = self.pipes.get(&process).copied();
        let id = match (&content, open) {
            // The operating system used the process id again.
            (PipeEvent::Start(_), Some(old)) => {
                self.pipe_closed(old, emit);
                self.pipe_opened(process, packet, emit)
            }
            (_, Some(id)) => id,
            (_, None) => self.pipe_opened(process, packet, emit),
        };
        self.sessions.pipe_packet(id, &content, packet, emit);
        let sessions = &mut self.sessions;
        self.stacks
            .pipe_packet(id, process, &content, (packet.number, packet.time), &mut |unit| sessions.unit(unit, emit));
    }

    /// Opens the connection of a new process. Above the limit, the oldest process is closed.
    fn pipe_opened(&mut self, process: u32, packet: &Packet<'_>, emit: &mut Emit<'_>) -> ConnectionId {
        if let Some((oldest, _)) = self.processes.last_key_value()
            && self.processes.len() >= self.sessions.options.limits.connections.max(1)
        {
            let oldest = *oldest;
            let anomaly = Anomaly::LimitReached { limit: "connections", offset: 0 };
            self.sessions.anomaly(oldest, vec![packet.number], None, &anomaly, emit);
            self.pipe_closed(oldest, emit);
        }
        let id = ConnectionId(FIRST_PIPE - self.sessions.pipes);
        self.sessions.pipes += 1;
        self.pipes.insert(process, id);
        self.processes.insert(id, process);
        self.sessions.opened(id, ConnectionKind::Pipe { process, opened: packet.time }, emit);
        id
    }

    fn pipe_closed(&mut self, id: ConnectionId, emit: &mut Emit<'_>) {
        if let Some(process) = self.processes.remove(&id) {
            self.pipes.remove(&process);
            let sessions = &mut self.sessions;
            self.stacks.closed(id, None, &mut |unit| sessions.unit(unit, emit));
        }
    }

    /// Emits records that changed since the last call.
    fn refresh(&mut self, emit: &mut Emit<'_>) {
        for (connection, connected) in self.stacks.open() {
            self.sessions.count_bytes(connection, connected);
        }
        let sessions = &mut self.sessions;
        self.stacks
            .show_new_heads(|id| sessions.is_stored(id), &mut |exchange| emit(Event::Head(Box::new(exchange.clone()))));
        sessions.refresh(emit);
    }

    fn finish(&mut self, emit: &mut Emit<'_>) {
        while let Some((id, _)) = self.processes.last_key_value() {
            self.pipe_closed(*id, emit);
        }
        let sessions = &mut self.sessions;
        self.stacks.finish(&mut |unit| sessions.unit(unit, emit));
        sessions.finish(emit);
    }
}
