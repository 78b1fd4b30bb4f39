//! The body of the fuzz target for everything between packets and events, with the properties that
//! hold for every capture.

mod checker;
mod schemas;
mod script;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::checker::EventChecker;
pub use self::schemas::fuzz_schema;
pub use self::script::Observed;
use super::{Input, Pipeline, PipelineConfig};
use crate::capture::{Limits, Packet, PacketNumber, Time};
use crate::decode::mask::MaskKey;
use crate::decode::stack::LINGERING;
use crate::event::{Detail, Event};
use crate::mcp::{Session, SessionNumber};

/// Bounds so low that a few kilobytes reach them.
const LIMITS: Limits = Limits {
    secrets_tried: 1 << 20,
    connections: 4,
    reassembly_per_direction: 2_048,
    reassembly_total: 4_096,
    loss_packets: 8,
    loss_time: 50_000_000,
    loss_segments: 4,
    loss_quiet: 150_000_000,
    unseen_time: 5_000_000_000,
    linger_time: 200_000_000,
    lingering: 4,
    answered: 4,
    connections_listed: 4,
    datagrams: 4,
    head: 512,
    pipelined: 4,
    message: 2_048,
    messages_total: 4_096,
    inflate_ratio: 64,
    json_depth: 16,
    batch: 8,
    unanswered: 8,
    event_ids: 8,
    packets_listed: 16,
    names: 4,
    sealed_per_connection: 4_096,
    sealed_total: 8_192,
    undecided: 1_024,
    retained_parts: 0,
};

/// Runs a script of packets (`script.rs`) through the whole pipeline and checks the properties of
/// [`fuzz_packets`]. Any bytes are a script.
///
/// # Panics
///
/// If a property does not hold.
pub fn fuzz_stack(data: &[u8]) {
    let (packets, secrets) = scripted(data);
    fuzz_packets(&packets, &secrets);
}

/// The packets of a script, and the TLS secrets of its connections.
pub fn scripted(data: &[u8]) -> (Vec<Observed>, Vec<u8>) {
    (script::packets(data), script::secrets())
}

/// Runs packets, and TLS secrets known from the start, through the whole pipeline.
///
/// The events have to be consistent (`checker.rs`), and ticks must not change them. A store gets
/// the same messages, exchanges and findings as a printer. Memory is bounded. Nothing is
/// open at the end.
///
/// # Panics
///
/// If a property does not hold.
pub fn fuzz_packets(packets: &[Observed], secrets: &[u8]) {
    let capture = Capture { packets, secrets };
    let stored = run(&capture, Detail::Store, false);
    assert_same(
        &without_tick_effects(&stored),
        &without_tick_effects(&run(&capture, Detail::Store, true)),
        "ticks changed something",
    );
    let shown = |event: &&Event| matches!(event, Event::Message(_) | Event::Exchange(_) | Event::Finding(_));
    let printed = run(&capture, Detail::Messages, false);
    let (stored, printed): (Vec<_>, Vec<_>) =
        (stored.iter().filter(shown).collect(), printed.iter().filter(shown).collect());
    assert_same(&stored, &printed, "a store got other events than a printer");
}

/// A whole capture.
struct Capture<'c> {
    packets: &'c [Observed],
    secrets: &'c [u8],
}

/// The events of a capture, checked one by one. With `ticks`, ticks are inserted between packets.
fn run(capture: &Capture<'_>, detail: Detail, ticks: bool) -> Vec<Event> {
    let mut pipeline = Pipeline::new(PipelineConfig {
        limits: LIMITS,
        detail,
        hash: true,
        keep_secrets: false,
        mask_key: Some(MaskKey::new([7; 16])),
        redaction: None,
    });
    let mut checker = EventChecker::new(capture.packets, detail);
    let mut latest: Option<Time> = None;
    pipeline.push(Input::Secrets(capture.secrets), &mut |event| checker.event(event));
    for (observed, number) in capture.packets.iter().zip(1..) {
        let before = latest.unwrap_or(observed.time);
        let now = before.max(observed.time);
        latest = Some(now);
        if ticks {
            // The clock runs from the latest packet to the next one.
            for tick in [before, Time(before.0.midpoint(now.0)), now] {
                pipeline.push(Input::Tick(tick), &mut |event| checker.event(event));
            }
        }
        let Observed { time, link, original_length, ref data } = *observed;
        let packet = Packet { number: PacketNumber(number), time, link, interface: 0, original_length, data };
        checker.packet(packet.number);
        pipeline.push(Input::Packet(packet), &mut |event| checker.event(event));
        assert_bounded(&pipeline);
    }
    pipeline.push(Input::End, &mut |event| checker.event(event));
    let connections = &pipeline.connections;
    assert_eq!(
        (connections.open().count(), connections.provenance().open_streams()),
        (0, 0),
        "something is still open"
    );
    assert!(!connections.has_pipes());
    checker.finish(&pipeline.counts())
}

/// Asserts that memory is bounded by the open objects, and those by the limits.
fn assert_bounded(pipeline: &Pipeline) {
    let (connections, lingering) = (pipeline.connections.open().count(), pipeline.connections.lingering());
    assert!(lingering <= LINGERING && connections <= 2 * LIMITS.connections + lingering, "{connections} connections");
    // Each connection has four streams: both directions of TCP and of TLS. Each exchange has five:
    // two bodies, as sent and as decoded, and the data of events.
    let most = connections * (4 + 5 * (LIMITS.pipelined + 2));
    let streams = pipeline.provenance().open_streams();
    assert!(streams <= most, "{streams} streams of {connections} connections");
}

/// The events without sessions and open exchanges, and the last record of each session. Ticks
/// decide how often those are emitted.
fn without_tick_effects(events: &[Event]) -> (Vec<&Event>, BTreeMap<SessionNumber, &Session>) {
    let mut sessions = BTreeMap::new();
    let mut others = Vec::new();
    for event in events {
        match event {
            Event::Session(session) => _ = sessions.insert(session.number, &**session),
            Event::Head(_) => {}
            other => others.push(other),
        }
    }
    (others, sessions)
}

/// As `assert_eq`, but shows only the lines that differ.
fn assert_same<T: PartialEq + std::fmt::Debug>(one: &T, other: &T, problem: &str) {
    if one != other {
        let (one, other) = (format!("{one:#?}"), format!("{other:#?}"));
        let differs = one.lines().zip(other.lines()).position(|(one, other)| one != other).unwrap_or_default();
        let around = |text: &str| text.lines().skip(differs.saturating_sub(9)).take(19).collect::<Vec<_>>().join("\n");
        panic!("{problem}:\n{}\n--- or ---\n{}", around(&one), around(&other));
    }
}
