//! Counts which parts of a recording were used, and which requests it could not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::matching::Match;
use super::script::{Script, TurnIndex};
use crate::mcp::MessageNumber;
use crate::view::safe;

/// The most labels of unknown requests that are stored. The total counts all of them.
const MAX_KINDS: usize = 1_000;

/// The counts of all clients together.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Recorded messages that were used.
    used: BTreeSet<MessageNumber>,
    /// Number of requests by how well they matched.
    fitted: BTreeMap<Match, u64>,
    /// Requests answered without the recording, such as `ping` or an `initialize` that it
    /// does not contain.
    pub unrecorded: u64,
    /// Requests into whose responses a fault was injected.
    pub faults: u64,
    /// Requests that the recording does not contain, by label: their number and the
    /// closest recorded request.
    unknown: BTreeMap<String, (u64, Option<String>)>,
    /// The number of requests that the recording does not contain.
    pub unknown_requests: u64,
    /// Notifications that the recording does not contain: their number by method.
    unexpected: BTreeMap<String, u64>,
    /// Texts that are not JSON-RPC messages.
    pub invalid: u64,
}

impl Ledger {
    /// Counts a turn as used. The scripts of both eras have the same numbers, so
    /// they count together.
    pub fn used(&mut self, script: &Script, turn: TurnIndex, fit: Match) {
        let turn = &script.turns[turn];
        self.used.insert(turn.number);
        self.used.extend(&turn.also);
        if turn.is_request {
            *self.fitted.entry(fit).or_default() += 1;
        }
    }

    /// Counts a request that the recording does not contain.
    pub fn unknown(&mut self, label: String, closest: Option<String>) {
        self.unknown_requests += 1;
        if self.unknown.len() < MAX_KINDS || self.unknown.contains_key(&label) {
            self.unknown.entry(label).or_insert((0, closest)).0 += 1;
        }
    }

    /// Counts a notification that the recording does not contain.
    pub fn unexpected(&mut self, method: String) {
        if self.unexpected.len() < MAX_KINDS || self.unexpected.contains_key(&method) {
            *self.unexpected.entry(method).or_default() += 1;
        }
    }

    /// A summary for the user.
    pub fn text(&self, script: &Script) -> String {
        let fitted = |fit| self.fitted.get(&fit).copied().unwrap_or(0);
        let requests = self.fitted.values().sum::<u64>() + self.unrecorded + self.unknown_requests;
        let unused: Vec<TurnIndex> = (0..script.turns.len())
            .filter(|turn| script.turns[*turn].is_request && !self.used.contains(&script.turns[*turn].number))
            .collect();
        let noun = if requests == 1 { "request" } else { "requests" };
        let mut text = format!(
            "{requests} {noun}: {} exact, {} loose, {} in order, {} unknown; {} of {} recorded ones were not used\n",
            fitted(Match::Exact),
            fitted(Match::Loose),
            fitted(Match::Order),
            self.unknown_requests,
            unused.len(),
            script.turns.iter().filter(|turn| turn.is_request).count(),
        );
        if self.faults > 0 {
            line(&mut text, "faults were injected", "", self.faults);
        }
        for turn in unused {
            line(&mut text, "unused", &named(script, turn), 1);
        }
        for (label, (times, closest)) in &self.unknown {
            let closest = closest.as_ref().map(|named| format!(" (the closest is {named})")).unwrap_or_default();
            line(&mut text, "unknown", &format!("{label}{closest}"), *times);
        }
        for (method, times) in &self.unexpected {
            line(&mut text, "not in the recording", method, *times);
        }
        if self.invalid > 0 {
            line(&mut text, "not a message", "", self.invalid);
        }
        text
    }
}

fn line(text: &mut String, label: &str, name: &str, times: u64) {
    let times = if times > 1 { format!(", {times} times") } else { String::new() };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {label} {}{times}", safe::visible(name));
}

/// A recorded message as the user sees it: `#5 tools/call echo`.
pub fn named(script: &Script, turn: TurnIndex) -> String {
    let turn = &script.turns[turn];
    format!("#{} {}", turn.number.0, turn.label)
}
