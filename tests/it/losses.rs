//! A packet that the capture lost becomes nobody's error.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mcptap_core::internal::event::Event;
use mcptap_core::internal::findings::Severity;

use crate::decoded::{Decoded, conversations, frames, name};
use crate::rewrite::{Frame, directions};

/// Positions of each capture, and pairs of positions, at which packets are left out. All of them
/// with the environment variable `MCPTAP_TEST_LOSSES=all`.
const POSITIONS: usize = 40;

/// How often each rule is broken with severity error.
type Errors = BTreeMap<&'static str, u64>;

fn errors(frames: &[Frame]) -> Errors {
    let mut errors = Errors::new();
    for event in Decoded::of(frames).events {
        if let Event::Finding(finding) = event
            && finding.severity == Severity::Error
        {
            *errors.entry(finding.rule.id).or_default() += finding.repeated.max(1);
        }
    }
    errors
}

/// What remains of a capture that lost something, and what it lost.
fn remains(frames: &[Frame]) -> Vec<(String, Vec<Frame>)> {
    let count = frames.len();
    let positions = match std::env::var("MCPTAP_TEST_LOSSES").as_deref() {
        Ok("all") => count,
        _ => count.min(POSITIONS),
    };
    let without = |lost: &[usize]| -> Vec<Frame> {
        let rest = frames.iter().enumerate().filter(|(at, _)| !lost.contains(at));
        rest.map(|(_, frame)| frame.clone()).collect()
    };
    let mut remains = Vec::new();
    for at in (0..positions).map(|part| part * count / positions) {
        // The second packet of a pair is another at each position, the same in each run.
        let other = (at * 7_919 + 13) % count;
        remains.push((format!("without packet {}", at + 1), without(&[at])));
        remains.push((format!("without packets {} and {}", at + 1, other + 1), without(&[at, other])));
        remains.push((format!("from packet {} on", at + 1), frames[at..].to_vec()));
        remains.push((format!("up to packet {at}"), frames[..at].to_vec()));
    }
    remains.extend(directions(frames).into_iter().map(|rest| ("one direction".to_owned(), rest)));
    remains
}

/// The errors of a capture from which packets are missing are those of the whole capture. What
/// looks like an error only because something is missing says so, and is a warning at most.
#[test]
fn a_loss_becomes_nobodys_error() {
    // Of copies that differ the first counts. Where it is lost, the other one does.
    let captures: Vec<PathBuf> =
        conversations().into_iter().filter(|path| name(path) != "06_overlap_conflict").collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(path) = captures.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (name, frames) = (name(path), frames(path));
            let whole = errors(&frames);
            for (how, rest) in remains(&frames) {
                let invented = errors(&rest).into_iter().filter(|(rule, n)| whole.get(rule).is_none_or(|all| n > all));
                let mut wrong = wrong.lock().expect("no thread failed");
                wrong.extend(invented.map(|(rule, _)| format!("{name} {how}: {rule}")));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, Into::into) {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no thread failed");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
