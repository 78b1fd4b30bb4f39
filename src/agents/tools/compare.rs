//! `compare_sessions`.

use std::hash::RandomState;

use anyhow::Result;
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use crate::agents::answer::{MaxBytes, NOTICE, Room};
use crate::agents::recorded::{Recorded, milliseconds, name};
use crate::compare::{Change, Difference, Pair, Rules, pairing};
use crate::replay::ComparedSession;
use crate::store::StoreReader;
use crate::view::secrets;

pub const DESCRIPTION: &str = "Compares two recorded sessions of the same conversation, such as one that worked and \
    one that does not: the requests whose responses differ, are missing or are new, with the differences, and the \
    requests that take longer now.";

/// Differences of one pair that are listed.
const DIFFERENCES: usize = 8;

/// Bytes of one value in a difference.
const VALUE: usize = 200;

/// The arguments of `compare_sessions`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareArguments {
    /// The number of the session that worked.
    old: u32,
    /// The number of the session to compare with it.
    new: u32,
    #[serde(default)]
    max_bytes: MaxBytes,
}

/// The result of a comparison.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionComparison {
    /// A reminder about recorded text.
    notice: &'static str,
    /// Whether no response differs.
    same: bool,
    /// The number of compared requests.
    requests: usize,
    /// The requests whose responses differ, in order.
    different: Vec<DifferentPair>,
    /// The requests whose responses took noticeably longer.
    slower: Vec<SlowerPair>,
    /// Facts about the comparison as a whole.
    notes: Vec<Recorded>,
    /// What to do next.
    hint: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct DifferentPair {
    /// The method and the tool, prompt or resource.
    request: String,
    /// different, missing, extra, error (instead of a result), result (instead of an error) or
    /// tool-error.
    outcome: &'static str,
    /// The number of the request in the old session.
    #[serde(skip_serializing_if = "Option::is_none")]
    old_message: Option<u64>,
    /// The number of the request in the new session.
    #[serde(skip_serializing_if = "Option::is_none")]
    new_message: Option<u64>,
    /// The first differences, as a JSON Pointer and the change of the value.
    differences: Vec<Recorded>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct SlowerPair {
    /// The method and the tool, prompt or resource.
    request: String,
    /// Milliseconds in the old session.
    old_ms: f64,
    /// Milliseconds in the new session.
    new_ms: f64,
}

/// Compares two sessions.
pub fn compare(reader: &StoreReader, arguments: CompareArguments) -> Result<SessionComparison> {
    let hashes = RandomState::new();
    let read = |number| ComparedSession::read(reader, super::session(reader, Some(number))?.0, &hashes);
    let (mut old, mut new) = (read(arguments.old)?, read(arguments.new)?);
    let mut answer = |side, number| if side == 0 { old.texts.answer(number) } else { new.texts.answer(number) };
    let report = pairing::compare([&old.side, &new.side], &mut answer, &Rules::default())?;
    let mut room = Room::of(arguments.max_bytes);
    let differing: Vec<&Pair> = report.pairs.iter().filter(|pair| pair.outcome.differs()).collect();
    let different: Vec<DifferentPair> =
        differing.iter().map(|pair| different(pair)).take_while(|pair| room.takes(pair)).collect();
    let slower = report.slower().map(|(pair, old, new)| SlowerPair {
        request: request(pair),
        old_ms: milliseconds(old),
        new_ms: milliseconds(new),
    });
    let slower: Vec<SlowerPair> = slower.take_while(|pair| room.takes(pair)).collect();
    let notes = report.notes.iter().map(|note| Recorded::new(note, VALUE)).take_while(|note| room.takes(note));
    let notes = notes.collect();
    let hint = match (different.len() < differing.len(), differing.is_empty()) {
        (true, _) => "not all differences fit: pass a larger max_bytes",
        (false, true) => "no response differs: tool_statistics compares latencies",
        (false, false) => "read_message shows a message of either session whole",
    };
    let (same, requests) = (report.is_same(), report.pairs.len());
    Ok(SessionComparison { notice: NOTICE, same, requests, different, slower, notes, hint })
}

fn request(pair: &Pair) -> String {
    name(&pair.label.to_string())
}

fn different(pair: &Pair) -> DifferentPair {
    let reason = pair.why.iter().map(|why| Recorded::new(why, VALUE));
    let differences = pair.differences.iter().take(DIFFERENCES).map(difference);
    DifferentPair {
        request: request(pair),
        outcome: pair.outcome.name(),
        old_message: pair.old.map(|old| old.number),
        new_message: pair.new.map(|new| new.number),
        differences: reason.chain(differences).collect(),
    }
}

fn difference(difference: &Difference) -> Recorded {
    let short = |value: &serde_json::Value| {
        // Masked before it is cut: a part of a token is not recognised.
        let text = value.to_string();
        let text = secrets::masked_text(&text);
        match text.len() > VALUE {
            true => format!("{}…", &text[..text.floor_char_boundary(VALUE)]),
            false => text.into_owned(),
        }
    };
    let change = match &difference.change {
        Change::Changed(old, new) => format!("{} became {}", short(old), short(new)),
        Change::Removed(old) => format!("{} is gone", short(old)),
        Change::Added(new) => format!("{} is new", short(new)),
    };
    Recorded::new(&format!("{}: {change}", difference.path), 3 * VALUE)
}
