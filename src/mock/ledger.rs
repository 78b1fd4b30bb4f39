//! What of a recording was used, and what was asked that it does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::matching::Match;
use super::script::{Script, TurnIndex};
use crate::mcp::MessageNumber;
use crate::view::safe;

/// Kinds of unknown requests that are kept; those beyond are counted.
const MAX_KINDS: usize = 1_000;

/// Over all clients.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The recorded messages that were used.
    used: BTreeSet<MessageNumber>,
    /// Requests by how well they fitted.
    fitted: BTreeMap<Match, u64>,
    /// Answered without the recording: `ping`, a handshake that is not in it.
    pub unrecorded: u64,
    /// Requests that are not in the recording, by label, with the closest one.
    unknown: BTreeMap<String, (u64, Option<String>)>,
    unknown_count: u64,
    /// Notifications that are not in the recording, by method.
    unexpected: BTreeMap<String, u64>,
    /// What was no message.
    pub invalid: u64,
}

impl Ledger {
    /// A turn was used. Scripts of one recording count together.
    pub fn used(&mut self, script: &Script, turn: TurnIndex, fit: Match) {
        let turn = &script.turns[turn];
        self.used.insert(turn.number);
        self.used.extend(&turn.also);
        if turn.is_request {
            *self.fitted.entry(fit).or_default() += 1;
        }
    }

    /// A request was not found.
    pub fn unknown(&mut self, label: String, closest: Option<String>) {
        self.unknown_count += 1;
        if self.unknown.len() < MAX_KINDS || self.unknown.contains_key(&label) {
            self.unknown.entry(label).or_insert((0, closest)).0 += 1;
        }
    }

    /// A notification was not found.
    pub fn unexpected(&mut self, method: String) {
        if self.unexpected.len() < MAX_KINDS || self.unexpected.contains_key(&method) {
            *self.unexpected.entry(method).or_default() += 1;
        }
    }

    /// Requests that were not found.
    pub fn unknown_requests(&self) -> u64 {
        self.unknown_count
    }

    /// For people.
    pub fn text(&self, script: &Script) -> String {
        let fitted = |fit| self.fitted.get(&fit).copied().unwrap_or(0);
        let requests = self.fitted.values().sum::<u64>() + self.unrecorded + self.unknown_count;
        let unused: Vec<TurnIndex> = (0..script.turns.len())
            .filter(|turn| script.turns[*turn].is_request && !self.used.contains(&script.turns[*turn].number))
            .collect();
        let mut text = format!(
            "{requests} requests: {} exact, {} loose, {} in order, {} unknown; {} of {} recorded ones unused\n",
            fitted(Match::Exact),
            fitted(Match::Loose),
            fitted(Match::Order),
            self.unknown_count,
            unused.len(),
            script.turns.iter().filter(|turn| turn.is_request).count(),
        );
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
            line(&mut text, "no message", "", self.invalid);
        }
        text
    }
}

fn line(text: &mut String, label: &str, name: &str, times: u64) {
    let times = if times > 1 { format!(", {times} times") } else { String::new() };
    // Writing into a text cannot fail.
    let _ = writeln!(text, "  {label} {}{times}", safe::visible(name));
}

/// A recorded message for people: `#5 tools/call echo`.
pub fn named(script: &Script, turn: TurnIndex) -> String {
    let turn = &script.turns[turn];
    format!("#{} {}", turn.number.0, turn.label)
}
