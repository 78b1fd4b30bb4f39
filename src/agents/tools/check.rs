//! `check_session`.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use rmcp::schemars::{self, JsonSchema};
use serde::{Deserialize, Serialize};

use crate::agents::answer::{MaxBytes, NOTICE, Room};
use crate::agents::recorded::Recorded;
use crate::filter::Expectation;
use crate::findings::{self, Severity};
use crate::store::{FindingRow, Scope, StoreReader};
use crate::view::expectations::{Judge, Judgement};

/// Places of one rule, and messages of one expectation, that are listed.
const PLACES: usize = 3;

/// Bytes of the text of a place.
const TEXT: usize = 400;

/// Columns of a line that explains an error in an expectation.
const WIDTH: usize = 100;

/// The description of the tool, with the grammar of expectations.
pub fn description() -> &'static str {
    "Checks a session against the rules of the protocol. Each broken rule has a count, first places, and the remedy. \
     With `expect` it also judges expectations about the traffic:\n\
     `some FILTER`, `no FILTER`, `every FILTER has FILTER`, or a quantity, a comparison and a number, optionally with \
     `where FILTER`. Quantities: count; min, mean, p50, p90, p95, p99, max or sum of latency, size or elapsed; \
     tools.count, tools.bytes, tools.tokens.\n\
     Examples: `some tool = add`, `no status = tool-error`, `no answered = false`, \
     `p95 latency < 2s where tool = add`, `count <= 3 where tool = add and kind = request`, `tools.bytes < 20KB`. \
     The description of search_messages has the grammar of filters."
}

/// The arguments of `check_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckArguments {
    /// The number of the session. Without it, the latest recording.
    #[serde(default)]
    session: Option<u32>,
    /// Expectations to judge.
    #[serde(default)]
    expect: Vec<String>,
    /// The least severity of listed findings. The default is warning.
    #[serde(default)]
    severity: LeastSeverity,
    #[serde(default)]
    max_bytes: MaxBytes,
}

/// The least severity of listed findings.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum LeastSeverity {
    Error,
    #[default]
    Warning,
    Info,
}

/// The result of a check.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckReport {
    /// A reminder about recorded text.
    notice: &'static str,
    /// The number of the session.
    session: u32,
    /// Whether there is no finding of the severity error, and all expectations hold.
    passes: bool,
    /// The expectations, in the given order.
    expectations: Vec<JudgedExpectation>,
    /// The broken rules, the worst first.
    rules: Vec<RuleRow>,
    /// What to do next.
    hint: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct JudgedExpectation {
    /// The expectation as it was given.
    expectation: String,
    /// Whether the session satisfies it.
    holds: bool,
    /// The measured fact.
    fact: String,
    /// The first messages that break it.
    messages: Vec<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct RuleRow {
    /// The id of the rule.
    rule: String,
    /// error, warning or info.
    severity: &'static str,
    /// The number of findings.
    count: u64,
    /// The rule in one line.
    title: String,
    /// What to do about it.
    remedy: &'static str,
    /// The first places.
    places: Vec<PlaceRow>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct PlaceRow {
    /// The messages, for read_message.
    messages: Vec<u64>,
    /// What is wrong there.
    text: Recorded,
}

/// Checks a session.
pub fn check(reader: &StoreReader, arguments: CheckArguments) -> Result<CheckReport> {
    let read = |text: &String| {
        Expectation::parse(text).map_err(|error| anyhow!("cannot read the expectation\n{}", error.render(WIDTH)))
    };
    let expectations = arguments.expect.iter().map(read).collect::<Result<Vec<_>>>()?;
    let (session, _) = super::session(reader, arguments.session)?;
    let scope = Scope::Session(session.number);
    let number = session.number.0;
    let sessions = [session];
    let judge = Judge { reader, sessions: &sessions, scope };
    let judgements = expectations.iter().map(|expectation| judge.judge(expectation)).collect::<Result<Vec<_>>>()?;
    let least = match arguments.severity {
        LeastSeverity::Error => Severity::Error,
        LeastSeverity::Warning => Severity::Warning,
        LeastSeverity::Info => Severity::Info,
    };
    let mut rules: BTreeMap<String, (Severity, u64, Vec<FindingRow>)> = BTreeMap::new();
    for row in reader.all_findings(scope) {
        let row = row?;
        let (worst, count, places) = rules.entry(row.rule.clone()).or_insert((row.severity, 0, Vec::new()));
        *worst = row.severity.max(*worst);
        *count += row.repeated.max(1);
        if places.len() < PLACES {
            places.push(row);
        }
    }
    let has_error = rules.values().any(|(severity, ..)| *severity == Severity::Error);
    let passes = !has_error && judgements.iter().all(|judgement| judgement.holds);
    let mut rules: Vec<_> = rules.into_values().filter(|(severity, ..)| *severity >= least).collect();
    rules.sort_by_key(|(severity, count, _)| std::cmp::Reverse((*severity, *count)));
    let all = rules.len();
    let mut room = Room::of(arguments.max_bytes);
    let expectations: Vec<JudgedExpectation> =
        judgements.iter().map(judged).take_while(|judged| room.takes(judged)).collect();
    let rules: Vec<RuleRow> = rules.iter().filter_map(rule).take_while(|rule| room.takes(rule)).collect();
    let is_cut = rules.len() < all || expectations.len() < judgements.len();
    let hint = match (is_cut, passes) {
        (true, _) => "not everything fits: pass severity error, fewer expectations, or a larger max_bytes",
        (false, true) => "nothing is broken: explain_session looks for other causes",
        (false, false) => "read_message shows a message with the rules that it breaks",
    };
    Ok(CheckReport { notice: NOTICE, session: number, passes, expectations, rules, hint })
}

fn judged(judgement: &Judgement) -> JudgedExpectation {
    JudgedExpectation {
        expectation: judgement.expectation.clone(),
        holds: judgement.holds,
        fact: judgement.sentence.clone(),
        messages: judgement.breaches.iter().take(PLACES).map(|breach| breach.message.0).collect(),
    }
}

fn rule((severity, count, places): &(Severity, u64, Vec<FindingRow>)) -> Option<RuleRow> {
    let first = places.first()?;
    let place = |row: &FindingRow| PlaceRow {
        messages: row.messages.iter().take(PLACES).map(|number| number.0).collect(),
        text: Recorded::new(&row.text, TEXT),
    };
    Some(RuleRow {
        rule: first.rule.clone(),
        severity: severity.name(),
        count: *count,
        title: first.title.clone(),
        remedy: findings::rule(&first.rule).map_or("", |rule| rule.remedy),
        places: places.iter().map(place).collect(),
    })
}
