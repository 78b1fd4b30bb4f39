//! The invariants of `docs/architecture.md`, checked on real captures and on rewritten packets of
//! them.

mod provenance;
mod saved;
mod stored;
mod taps;
mod threads;

use std::collections::{BTreeMap, HashMap};

use mcptap_core::internal::capture::Time;
use mcptap_core::internal::decode::exchange::{Exchange, ExchangeNumber};
use mcptap_core::internal::event::Event;
use mcptap_core::internal::mcp::SessionNumber;
use mcptap_core::internal::pipeline::Input;

use crate::decoded::{
    ALL, Decoded, TextOrder, assert_same, assert_subset, between, captures, conversations, frames, name,
};
use crate::program::data;
use crate::rewrite::{self, Carriage, Frame};
use crate::support::waits::Finishes;

/// Rewritten packets of a capture, each with the name of the change.
type Rewritten = Vec<(String, Vec<Frame>)>;

/// Asserts that every conversation and its rewritten forms have the same text, made by `say`.
fn assert_law(
    say: &dyn Fn(&Decoded) -> String,
    suits: &dyn Fn(&str, &[Frame]) -> bool,
    rewrite: &dyn Fn(&[Frame]) -> Rewritten,
) {
    let mut wrong = Vec::new();
    let mut changed = 0;
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        if !suits(&name, &frames) {
            continue;
        }
        let wanted = say(&Decoded::of(&frames));
        for (how, rewritten) in rewrite(&frames) {
            changed += usize::from(rewritten != frames);
            let said = say(&Decoded::of(&rewritten));
            if wanted != said {
                wrong.push((format!("{name} {how}"), wanted.clone(), said));
            }
        }
    }
    assert!(changed >= 3, "the packets of {changed} conversations are others than before");
    if let Some((what, wanted, said)) = wrong.first() {
        let all: Vec<&String> = wrong.iter().map(|(what, ..)| what).collect();
        assert_same(&format!("{what}, first of {all:#?}"), wanted, said);
    }
}

/// The text of all events in the order of completion.
fn in_order(decoded: &Decoded) -> String {
    decoded.text(TextOrder::Capture)
}

/// The text of all events in the order of each connection.
fn by_connection(decoded: &Decoded) -> String {
    decoded.text(TextOrder::Connection)
}

fn any(_: &str, _: &[Frame]) -> bool {
    true
}

/// Whether retransmitted copies are equal. Otherwise the first copy counts, so the order
/// of packets matters.
fn has_one_truth(name: &str, _: &[Frame]) -> bool {
    name != "06_overlap_conflict"
}

/// Whether `rewrite` can change the packets. It leaves fragments and cut packets alone.
fn is_rewritten(_: &str, frames: &[Frame]) -> bool {
    !rewrite::has_fragments(frames) && frames.iter().all(|frame| frame.data.len() as u32 == frame.original_length)
}

/// Whether the first packets of all connections were captured. Otherwise the first packet counts as
/// the beginning and must stay first.
fn has_starts(name: &str, frames: &[Frame]) -> bool {
    has_one_truth(name, frames) && !["06_no_handshake", "06_midstart", "06_one_direction"].contains(&name)
}

#[test]
fn order_of_packets_changes_nothing() {
    assert_law(&by_connection, &has_starts, &|frames| {
        // Across connections only the order connects a response with its request, so the order
        // stays.
        let runs = rewrite::runs(frames);
        let within =
            |rewrite: &dyn Fn(&[Frame]) -> Vec<Frame>| runs.iter().flat_map(|run| rewrite(run)).collect::<Vec<Frame>>();
        let by_4 = within(&|run| rewrite::shuffled(run, 4, run.len() as u64));
        let by_16 = within(&|run| rewrite::shuffled_behind_handshakes(run, 16, run.len() as u64));
        // The times stay with the positions in the file, or move with the packets, as another
        // observer would have seen them.
        let times: Vec<Time> = frames.iter().map(|frame| frame.time).collect();
        vec![
            ("reversed by 3".into(), within(&|run| rewrite::reversed(run, 3))),
            ("shuffled by 4, restamped".into(), rewrite::timed(&by_4, |at, _| times[at])),
            ("shuffled by 4".into(), by_4),
            ("shuffled by 16, restamped".into(), rewrite::timed(&by_16, |at, _| times[at])),
            ("shuffled by 16".into(), by_16),
        ]
    });
}

/// If packets of several connections are out of order, a response may precede its request and waits
/// for it. The first requests of a session may precede its `initialize` and join the same session.
/// Pauses make no difference.
#[test]
fn order_across_connections_loses_nothing() {
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        if has_starts(&name, &frames) {
            let wanted = Decoded::of(&frames);
            let [texts, http_pairs] = [wanted.texts(), wanted.http_pairs()];
            let by_32 = rewrite::shuffled_behind_handshakes(&frames, 32, 2);
            let by_4 = rewrite::shuffled(&frames, 4, 11);
            let by_16 = rewrite::shuffled_behind_handshakes(&frames, 16, 12);
            for (how, shuffled) in [("by 4", by_4), ("by 16", by_16), ("by 32", by_32)] {
                let said = Decoded::of(&shuffled);
                let what = format!("{name} shuffled {how}");
                assert_same(&what, &format!("{texts:#?}"), &format!("{:#?}", said.texts()));
                assert_same(&what, &format!("{http_pairs:#?}"), &format!("{:#?}", said.http_pairs()));
                assert_same(&what, &format!("{:#?}", wanted.pairs()), &format!("{:#?}", said.pairs()));
                // Nothing connects a redirected request with a copy that precedes it.
                if name != "04_redirect_slash" {
                    assert_same(
                        &what,
                        &format!("{:#?}", wanted.texts_of_sessions()),
                        &format!("{:#?}", said.texts_of_sessions()),
                    );
                }
            }
        }
    }
}

/// Asserts that no rule has more findings in `said` than in `wanted`.
fn assert_no_more_findings(what: &str, wanted: &Decoded, said: &Decoded) {
    let found = |decoded: &Decoded| {
        let mut found: BTreeMap<&str, usize> = BTreeMap::new();
        for event in &decoded.events {
            if let Event::Finding(finding) = event {
                *found.entry(finding.rule.id).or_default() += 1;
            }
        }
        found
    };
    let (wanted, said) = (found(wanted), found(said));
    let new = said.iter().filter(|(rule, count)| wanted.get(*rule).is_none_or(|wanted| wanted < *count));
    let new: Vec<_> = new.collect();
    assert!(new.is_empty(), "{what}: {new:?}");
}

/// Messages out of order cause no additional findings.
#[test]
fn order_across_connections_adds_no_findings() {
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        // Nothing connects a redirected request with a copy that precedes it.
        if !has_starts(&name, &frames) || name == "04_redirect_slash" {
            continue;
        }
        let wanted = Decoded::of(&frames);
        for (window, seed) in [(4, 1), (16, 1), (16, 3), (32, 4), (64, 2), (250, 5), (1_000, 6)] {
            let said = Decoded::of(&rewrite::shuffled(&frames, window, seed));
            assert_no_more_findings(&format!("{name} shuffled by {window}, {seed}"), &wanted, &said);
        }
    }
}

#[test]
fn copies_change_nothing() {
    assert_law(&by_connection, &any, &|frames| {
        [0, 7].map(|after| (format!("doubled after {after}"), rewrite::doubled(frames, after))).into()
    });
}

#[test]
fn segment_borders_change_nothing() {
    assert_law(&by_connection, &any, &|frames| {
        let most = if frames.len() < 400 { 1 } else { 41 };
        vec![
            (format!("split to {most}"), rewrite::split(frames, most, 3)),
            ("merged".into(), rewrite::merged(frames, 40_000)),
            ("split and merged".into(), rewrite::merged(&rewrite::split(frames, 99, 5), 5_000)),
        ]
    });
}

#[test]
fn tiny_segments_in_any_order_change_nothing() {
    assert_law(&by_connection, &has_starts, &|frames| {
        let split = rewrite::split(frames, 150, 6);
        let runs = rewrite::runs(&split);
        vec![("split to 150, shuffled by 8".into(), {
            runs.iter().flat_map(|run| rewrite::shuffled(run, 8, run.len() as u64)).collect()
        })]
    });
}

#[test]
fn sequence_numbers_that_wrap_change_nothing() {
    assert_law(&in_order, &is_rewritten, &|frames| {
        let first = [u32::MAX, u32::MAX - 300, (1 << 31) - 300, 0];
        first.map(|first| (format!("from {first}"), rewrite::renumbered(frames, first))).into()
    });
}

/// Whether both directions were captured. A single direction is emitted at the end, in
/// order of time.
fn has_both_directions(name: &str, frames: &[Frame]) -> bool {
    is_rewritten(name, frames) && name != "06_one_direction"
}

#[test]
fn time_changes_nothing() {
    assert_law(&in_order, &has_both_directions, &|frames| {
        let start = frames.first().map_or(Time(0), |frame| frame.time);
        let step = |at: usize| at as i64 * 1_000_000;
        vec![
            ("all at once".into(), rewrite::timed(frames, |_, _| start)),
            ("backwards".into(), rewrite::timed(frames, |at, _| start.plus(-step(at)))),
            ("before 1970".into(), rewrite::timed(frames, |_, time| Time(time.since(start) - i64::MAX / 2))),
            ("years back and forth".into(), {
                rewrite::timed(
                    frames,
                    |at, time| if at % 50 == 20 { time.plus(-300_000_000_000_000_000) } else { time },
                )
            }),
        ]
    });
}

#[test]
fn lower_layers_change_nothing() {
    assert_law(&in_order, &any, &|frames| {
        let carriages = [
            Carriage::Ethernet(&[]),
            Carriage::Ethernet(&[100]),
            Carriage::Ethernet(&[7, 8]),
            Carriage::Raw,
            Carriage::Cooked,
            Carriage::Gre,
            Carriage::Vxlan,
        ];
        let mut all: Vec<_> =
            carriages.iter().map(|carriage| (format!("{carriage:?}"), rewrite::carried(frames, *carriage))).collect();
        for backwards in [false, true] {
            all.push((format!("fragments {backwards}"), rewrite::fragmented(frames, 400, backwards)));
        }
        let tunnel = rewrite::carried(&rewrite::fragmented(frames, 1_000, false), Carriage::Gre);
        all.push(("fragments in GRE".into(), tunnel));
        all.push(("interfaces swapped".into(), {
            let last = frames.iter().map(|frame| frame.interface).max().unwrap_or(0);
            frames.iter().map(|frame| Frame { interface: last - frame.interface, ..frame.clone() }).collect()
        }));
        all
    });
}

/// Lost packets remove messages. They add none, and no response moves to another request.
#[test]
fn loss_invents_nothing() {
    for path in captures().iter().filter(|path| has_one_truth(&name(path), &[])) {
        let frames = frames(path);
        let whole = Decoded::of(&frames);
        let (texts, pairs, http_pairs) = (whole.texts(), whole.pairs(), whole.http_pairs());
        for (seed, per_mille) in [(1, 5), (2, 20), (3, 80), (4, 300)] {
            let what = format!("{} without {per_mille} of 1000", name(path));
            let rest = Decoded::of(&rewrite::thinned(&frames, per_mille, seed));
            assert_subset(&what, &texts, &rest.texts());
            assert_subset(&what, &pairs, &rest.pairs());
            // In HTTP/2 a head has another text if the fields that it refers to were lost.
            if name(path) != "05_h2c" {
                assert_subset(&what, &http_pairs, &rest.http_pairs());
            }
        }
    }
}

/// Header fields of HTTP/2 refer to earlier ones. If those are lost, the type of a response is
/// unknown, and its text shows that it is JSON-RPC.
#[test]
fn a_head_lost_in_http2_costs_no_later_answer() {
    let frames = frames(&data("captures/05_h2c/capture.pcap"));
    let texts = Decoded::of(&frames).texts();
    let all: usize = texts.values().sum();
    let mut lost = 0;
    for at in (frames.len() / 5..frames.len() / 2).step_by(7) {
        let rest: Vec<Frame> = [&frames[..at], &frames[at + 1..]].concat();
        let said = Decoded::of(&rest).texts();
        assert_subset(&format!("without packet {}", at + 1), &texts, &said);
        let missing = all - said.values().sum::<usize>();
        // A response may carry more than ten messages, which are lost with its head.
        assert!(missing <= 12, "without packet {}: {missing} of {all} messages are missing", at + 1);
        lost += usize::from(missing > 0);
    }
    assert!(lost > 3, "packets that matter were left out");
}

/// The events except session records, which are emitted at every change, and the last
/// record of each session.
fn events(decoded: Decoded) -> (Vec<Event>, BTreeMap<SessionNumber, String>) {
    let sessions = decoded.sessions().into_iter().map(|(number, session)| (number, format!("{session:?}"))).collect();
    // The record of an open exchange contains what was captured before the tick.
    let of_a_moment = |event: &Event| matches!(event, Event::Session(_) | Event::Head(_));
    let rest = decoded.events.into_iter().filter(|event| !of_a_moment(event)).collect();
    (rest, sessions)
}

fn assert_same_events(what: &str, wanted: Decoded, said: Decoded) {
    let ((wanted, wanted_sessions), (said, said_sessions)) = (events(wanted), events(said));
    for (at, (wanted, said)) in wanted.iter().zip(&said).enumerate() {
        assert_eq!(wanted, said, "{what}: event {at}");
    }
    assert_eq!(wanted.len(), said.len(), "{what}: as many events");
    assert_eq!(wanted_sessions, said_sessions, "{what}: the sessions");
}

/// Asserts that the records of an open exchange are the beginning of its final record.
fn assert_heads_are_of_exchanges(what: &str, events: &[Event]) {
    let mut open: HashMap<ExchangeNumber, Vec<&Exchange>> = HashMap::new();
    for event in events {
        match event {
            Event::Head(exchange) => open.entry(exchange.number).or_default().push(exchange),
            Event::Exchange(over) => {
                for head in open.remove(&over.number).unwrap_or_default() {
                    assert_eq!((&head.method, &head.target), (&over.method, &over.target), "{what}");
                    assert!(head.status.is_none() || head.status == over.status, "{what}: {head:?}, then {over:?}");
                    let (before, after) = (&head.response.packets, &over.response.packets);
                    assert!(after.starts_with(before), "{what}: {before:?}, then {after:?}");
                }
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "{what}: exchanges that never ended: {open:?}");
}

#[test]
fn live_equals_offline() {
    for path in captures() {
        let frames = frames(&path);
        let mut inputs = Vec::new();
        let mut clock = Time(i64::MIN);
        for (frame, number) in frames.iter().zip(1..) {
            // The clock of a live capture never precedes the next packet.
            inputs.push(Input::Tick(if clock < frame.time {
                between(clock.max(frame.time.plus(-1 << 40)), frame.time)
            } else {
                clock
            }));
            clock = clock.max(frame.time);
            inputs.push(Input::Packet(frame.packet(number)));
            inputs.push(Input::Tick(clock));
        }
        let live = Decoded::from(&mut inputs.into_iter(), ALL());
        assert_heads_are_of_exchanges(&name(&path), &live.events);
        assert_same_events(&name(&path), Decoded::of(&frames), live);
    }
}

#[test]
fn the_same_input_gives_the_same_output() {
    for path in conversations() {
        let read = || {
            let done = crate::program::mcptap().args(["read", "--json"]).arg(&path).finished();
            let lines = String::from_utf8(done.stdout).expect("JSON lines are UTF-8");
            // Only the duration is not part of the input.
            lines
                .lines()
                .map(|line| line.split(",\"elapsed_seconds\"").next().unwrap_or(line).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(read(), read(), "{}", name(&path));
    }
}
