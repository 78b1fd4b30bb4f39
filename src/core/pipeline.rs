//! Joins the decoders, the tracker and the rules: input to events. It does no input or output and
//! reads no clock.
//!
//! ```text
//!  Input ─► Connections ── Observation ─► Sessions ── Tracked ─► Judge ─► Event
//!            packets, TCP,                 arrivals,            rules
//!            decoders                      tracker
//! ```
//!
//! No stage asks a later one, and what they pass on owns its data. So [`Pipeline`] runs the three
//! on one thread, and the program runs them on several ([`Connections`], [`Sessions`], [`Judge`]).
//!
//! Capture files, live interfaces, wrapped servers and stored sessions are the same kind of input.
//! Therefore, with the same limits, a live capture gives the events of its file, and every test is
//! a plain function call.

mod arrivals;
mod connection_state;
mod connections;
mod counts;
mod encrypted;
mod fuzz;
mod holes;
mod judge;
mod notes;
mod observation;
mod order;
mod sessions;
#[cfg(test)]
mod tests;
mod tracked;
mod unclaimed;

use crate::capture::{Damage, Dropped, Limits, Packet, Provenance, Time};
use crate::decode::mask::MaskKey;
use crate::decode::redact::Redaction;
use crate::event::{Detail, Emit, Event};

pub use connections::Connections;
pub use counts::{BLANKED, Counts};
pub use fuzz::{Observed, fuzz_packets, fuzz_schema, fuzz_stack, scripted};
pub use judge::Judge;
pub use observation::Observation;
pub use sessions::Sessions;
pub use tracked::Tracked;

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
    /// The user's rules for values in messages that nobody may record or see.
    pub redaction: Option<&'static Redaction>,
}

/// Turns packets into events.
#[derive(Debug)]
pub struct Pipeline {
    connections: Connections,
    sessions: Sessions,
    judge: Judge,
}

impl Pipeline {
    /// A pipeline before the first packet of a capture.
    pub fn new(options: PipelineConfig) -> Pipeline {
        Pipeline {
            connections: Connections::new(options),
            sessions: Sessions::new(options),
            judge: Judge::new(options.limits),
        }
    }

    /// The stages, to run them on several threads. They take packets, secrets, reports of the
    /// source, and the end. Only [`Pipeline::push`] takes ticks.
    pub fn stages(&mut self) -> (&mut Connections, &mut Sessions, &mut Judge) {
        (&mut self.connections, &mut self.sessions, &mut self.judge)
    }

    /// Takes the next input. Calls `emit` with the events that it completes, in order.
    pub fn push(&mut self, input: Input<'_>, emit: &mut Emit<'_>) {
        let Pipeline { connections, sessions, judge } = self;
        let is_tick = matches!(input, Input::Tick(_));
        connections.push(input, &mut |observation| {
            sessions.take(observation, &mut |tracked| judge.take(tracked, emit));
        });
        if is_tick {
            self.refresh(emit);
        }
    }

    /// Retains this many of the latest stream parts that decoding needs no longer, for queries.
    pub(crate) fn retain_parts(&mut self, most: usize) {
        self.connections.stacks().retain_parts(most);
    }

    /// The origins of the bytes of all streams that are stored or retained.
    pub(crate) fn provenance(&self) -> &Provenance {
        self.connections.provenance()
    }

    /// Counters of the capture so far.
    pub fn counts(&self) -> Counts {
        self.sessions.counts().joined(self.connections.counts())
    }

    /// Emits records that changed since the last call.
    fn refresh(&mut self, emit: &mut Emit<'_>) {
        let Pipeline { connections, sessions, judge } = self;
        for (connection, bytes) in connections.open() {
            sessions.count_bytes(connection, bytes);
        }
        connections
            .stacks()
            .show_new_heads(|id| sessions.is_stored(id), &mut |exchange| emit(Event::Head(Box::new(exchange.clone()))));
        sessions.refresh(&mut |tracked| judge.take(tracked, emit));
    }
}
