//! Input to events: the decoders, the sessions and the findings, joined. It does no input or output and reads no clock.
//!
//! A file, a live interface, a wrapped server and a saved session are the same thing to it, so live gives exactly what offline gives, and every
//! test is a plain function call.

mod arrivals;
mod counts;
mod encrypted;
mod fuzz;
mod known;
mod sessions;
#[cfg(test)]
mod tests;
mod unclaimed;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::capture::pipe::{self, Content};
use crate::capture::{Damage, Dropped, Limits, Packet, PacketNumber, Provenance, Time};
use crate::decode::packet::{Decoded, Packets};
use crate::decode::quic::Quic;
use crate::decode::stack::{self, Options as StackOptions, Stacks};
use crate::decode::tcp::{self, Delivery, Facts, SegmentFact, Tcp};
use crate::decode::{Anomaly, ConnectionId, Side};
use crate::event::{ConnectionKind, Detail, Emit, Event};
use crate::findings::{Finding, http2, transport};
use sessions::Sessions;

pub use counts::Counts;
pub use fuzz::{Observed, fuzz_packets, fuzz_stack};

/// What is decoded: packets, and what else is known of a capture.
#[derive(Debug)]
#[non_exhaustive]
pub enum Input<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// TLS secrets, as whole lines of a key log.
    Secrets(&'a [u8]),
    /// The capture is broken here.
    Damage(&'a Damage),
    /// Packets that were captured are missing here.
    Dropped(Dropped),
    /// The clock, where no packet tells it: what is due is done, and changed records are said.
    Tick(Time),
    /// The capture is over.
    End,
}

/// How the pipeline works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Bounds.
    pub limits: Limits,
    /// How much it says.
    pub detail: Detail,
    /// Hash bodies.
    pub hash: bool,
    /// Leave secrets as they are.
    pub keep_secrets: bool,
}

/// The whole way from packets to events.
#[derive(Debug)]
pub struct Pipeline {
    packets: Packets,
    quic: Quic,
    tcp: Tcp,
    above: Above,
}

/// Everything above TCP: what the reassembler tells its news to.
#[derive(Debug)]
struct Above {
    stacks: Stacks,
    sessions: Sessions,
    /// Connections of wrapped processes, by process id, and the other way round: in order of appearance, latest first.
    pipes: FxHashMap<u32, ConnectionId>,
    processes: BTreeMap<ConnectionId, u32>,
}

/// Ids of pipes count down from the top, so that they never meet those of TCP connections.
const FIRST_PIPE: u32 = u32::MAX - 1;

impl Pipeline {
    /// At the first packet of a capture.
    pub fn new(options: Options) -> Pipeline {
        let limits = options.limits;
        let store = options.detail == Detail::Store;
        let stack = StackOptions { hash: options.hash, store, keep_secrets: options.keep_secrets };
        Pipeline {
            packets: Packets::new(limits),
            quic: Quic::default(),
            tcp: Tcp::new(limits, stack::opens),
            above: Above {
                stacks: Stacks::new(limits, stack),
                sessions: Sessions::new(options),
                pipes: FxHashMap::default(),
                processes: BTreeMap::new(),
            },
        }
    }

    /// The next input; events go to `emit` in order.
    pub fn push(&mut self, input: Input<'_>, emit: &mut Emit<'_>) {
        match input {
            Input::Packet(packet) => self.packet(&packet, emit),
            Input::Secrets(lines) => {
                let Above { stacks, sessions, .. } = &mut self.above;
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
                self.tcp.advance(now, &mut Junction { above: &mut self.above, emit });
                self.above.refresh(emit);
            }
            Input::End => {
                self.tcp.finish(&mut Junction { above: &mut self.above, emit });
                self.above.finish(emit);
            }
        }
    }

    /// Retains this many of the latest parts of streams that decoding needs no longer, for queries.
    pub(crate) fn retain_parts(&mut self, most: usize) {
        self.above.stacks.retain_parts(most);
    }

    /// Where bytes of streams came from, as far as is known.
    pub(crate) fn provenance(&self) -> &Provenance {
        self.above.stacks.provenance()
    }

    /// Figures of the capture so far.
    pub fn counts(&self) -> &Counts {
        &self.above.sessions.counts
    }

    fn packet(&mut self, packet: &Packet<'_>, emit: &mut Emit<'_>) {
        self.above.sessions.counts.packet(packet);
        let mut junction = Junction { above: &mut self.above, emit };
        self.tcp.advance(packet.time, &mut junction);
        match self.packets.push(packet) {
            Decoded::Tcp(segment) => {
                junction.above.sessions.counts.cut += u64::from(segment.missing > 0);
                self.tcp.push(&segment, &mut junction);
            }
            Decoded::Dns(message) => junction.above.sessions.names(message),
            Decoded::Quic(source, destination, version) => {
                *junction.above.sessions.counts.skipped.entry("QUIC").or_default() += 1;
                if let Some((client, server)) = self.quic.push(source, destination) {
                    let name = junction.above.sessions.name_of(server.ip());
                    let (rule, text) = http2::not_decoded(client, server, name, version);
                    let packets = vec![packet.number];
                    (junction.emit)(Event::Finding(Box::new(Finding { packets, text, ..Finding::of(rule) })));
                }
            }
            Decoded::Pipe => junction.above.pipe(packet, junction.emit),
            Decoded::Fragment => {}
            Decoded::Skipped(reason) => *junction.above.sessions.counts.skipped.entry(reason).or_default() += 1,
        }
    }
}

/// The reassembler's way to everything above it.
struct Junction<'a, 'e, 'f> {
    above: &'a mut Above,
    emit: &'e mut Emit<'f>,
}

impl tcp::Sink for Junction<'_, '_, '_> {
    fn opened(&mut self, connection: ConnectionId, facts: &Facts) {
        self.above.stacks.opened(connection, facts);
        self.above.sessions.opened(connection, ConnectionKind::Tcp(*facts), self.emit);
    }

    fn segment(&mut self, fact: &SegmentFact<'_>) {
        self.above.sessions.segment(fact, self.emit);
    }

    fn delivered(&mut self, delivery: Delivery<'_>) {
        let Above { stacks, sessions, .. } = self.above;
        sessions.arrivals.delivered(&delivery);
        stacks.delivered(&delivery, &mut |unit| sessions.unit(unit, self.emit));
    }

    fn anomaly(&mut self, connection: ConnectionId, _: Side, packet: PacketNumber, anomaly: Anomaly) {
        self.above.sessions.anomaly(connection, vec![packet], None, &anomaly, self.emit);
    }

    fn closed(&mut self, connection: ConnectionId, facts: &Facts) {
        let Above { stacks, sessions, .. } = self.above;
        stacks.closed(connection, Some(*facts), &mut |unit| sessions.unit(unit, self.emit));
    }
}

impl Above {
    /// A chunk of a pipe.
    fn pipe(&mut self, packet: &Packet<'_>, emit: &mut Emit<'_>) {
        let Some((process, content)) = pipe::decode(packet.data) else { return };
        let known = self.pipes.get(&process).copied();
        let id = match (&content, known) {
            // A process id that starts again is another process.
            (Content::Start(_), Some(old)) => {
                self.pipe_closed(old, emit);
                self.pipe_opened(process, packet, emit)
            }
            (_, Some(id)) => id,
            (_, None) => self.pipe_opened(process, packet, emit),
        };
        self.sessions.piped(id, &content, packet, emit);
        let sessions = &mut self.sessions;
        self.stacks.piped(id, process, &content, (packet.number, packet.time), &mut |unit| sessions.unit(unit, emit));
    }

    /// A process that was not seen before. Beyond the limit, the one that appeared first is given up for it.
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

    /// Says what changed since it was last said.
    fn refresh(&mut self, emit: &mut Emit<'_>) {
        for (connection, connected) in self.stacks.open() {
            self.sessions.account(connection, connected);
        }
        let sessions = &mut self.sessions;
        self.stacks.headed(|id| sessions.is_kept(id), &mut |exchange| emit(Event::Head(Box::new(exchange.clone()))));
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
