//! Expectations judged: whether a recording satisfies each, and the messages that break it.

use anyhow::Result;

use super::latencies::Latencies;
use super::text::about;
use super::transcript::packets;
use super::units::{count, duration, size};
use super::{overview, safe};
use crate::capture::PacketNumber;
use crate::filter::{Comparison, Expectation, Filter, MessageMeasure, Quantity, Requirement, Statistic, ToolsMeasure};
use crate::mcp::{MessageNumber, Session, SessionNumber};
use crate::store::{MessageRow, RowKey, Scope, StoreReader};

/// Maximum number of messages that are named for one expectation. Services cut long texts
/// in worse ways.
const NAMED: usize = 100;

/// The judgement of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The expectation as it was written.
    pub expectation: String,
    /// Whether the recording satisfies it.
    pub holds: bool,
    /// The measured fact, in one sentence.
    pub sentence: String,
    /// The messages that break it, at most 100. Empty if it holds, or if a message is missing.
    pub breaches: Vec<Breach>,
    /// The number of messages that break it but are not in the list.
    pub more: u64,
}

/// A message that breaks an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Breach {
    /// The session to which it belongs.
    pub session: SessionNumber,
    /// Its number in the capture.
    pub message: MessageNumber,
    /// The packets that carried it.
    pub packets: Vec<PacketNumber>,
    /// A summary of it, safe for a terminal.
    pub text: String,
}

impl Judgement {
    /// A line about the breaches that are not in the list, if there are any.
    pub fn rest(&self) -> Option<String> {
        (self.more > 0).then(|| format!("… {} more", self.more))
    }
}

impl Breach {
    /// The place and the summary in one line: `session 1, message 8 (packets #31): tools/call …`.
    pub fn line(&self) -> String {
        let packets = packets(&self.packets);
        let packets = if packets.is_empty() { packets } else { format!(" (packets {packets})") };
        format!("session {}, message {}{packets}: {}", self.session.0, self.message.0, self.text)
    }
}

/// Judges expectations on one recording.
pub struct Judge<'r> {
    /// The store that contains the sessions.
    pub reader: &'r StoreReader,
    /// The sessions that are judged together, in order of number.
    pub sessions: &'r [Session],
    /// The same sessions as a scope of queries.
    pub scope: Scope,
}

/// Rows to be named, and the number of those that found no room.
#[derive(Default)]
struct NamedRows {
    rows: Vec<(i64, MessageRow)>,
    others: u64,
}

impl NamedRows {
    /// Adds a row in order of finding.
    fn add(&mut self, row: MessageRow) {
        match self.rows.len() < NAMED {
            true => self.rows.push((0, row)),
            false => self.others += 1,
        }
    }

    /// Adds a row. Rows of a larger weight are preferred.
    fn add_weighted(&mut self, weight: i64, row: MessageRow) {
        self.rows.push((weight, row));
        // Sorting seldom keeps the work linear in the number of messages.
        if self.rows.len() >= 4 * NAMED {
            self.prefer();
        }
    }

    fn prefer(&mut self) {
        self.rows.sort_by_key(|(weight, row)| (std::cmp::Reverse(*weight), row.key()));
        self.others += self.rows.len().saturating_sub(NAMED) as u64;
        self.rows.truncate(NAMED);
    }
}

impl Judge<'_> {
    /// Judges an expectation.
    pub fn judge(&self, expectation: &Expectation) -> Result<Judgement> {
        let mut named = NamedRows::default();
        let (holds, sentence) = match &expectation.requirement {
            Requirement::Some(filter) => match self.rows(filter).next().transpose()? {
                Some(row) => (true, format!("message {} passes", row.number.0)),
                None => (false, "no message passes".to_owned()),
            },
            Requirement::No(filter) => {
                let passes = self.collect(filter, &mut named)?;
                (
                    passes == 0,
                    if passes == 1 { "1 message passes".to_owned() } else { format!("{passes} messages pass") },
                )
            }
            Requirement::Every { selected, broken } => {
                let broken = self.collect(broken, &mut named)?;
                let all = self.collect(selected, &mut NamedRows::default())?;
                let sentence = match broken {
                    0 => format!("{} selected", count(all, "message")),
                    _ => format!("broken by {broken} of {}", count(all, "selected message")),
                };
                (broken == 0, sentence)
            }
            Requirement::Quantity { quantity, comparison, bound, selected } => {
                let (comparison, bound) = (*comparison, *bound);
                match *quantity {
                    Quantity::Count => self.count(selected, comparison, bound, &mut named)?,
                    Quantity::Statistic(statistic, measure) => {
                        self.statistic((statistic, measure), selected, (comparison, bound), &mut named)?
                    }
                    Quantity::Tools(measure) => self.tools(measure, comparison, bound, &mut named)?,
                }
            }
        };
        let named = if holds { NamedRows::default() } else { named };
        let breaches = named.rows.iter().map(|(_, row)| self.breach(row)).collect::<Result<_>>()?;
        Ok(Judgement { expectation: expectation.to_string(), holds, sentence, breaches, more: named.others })
    }

    fn rows(&self, filter: &Filter) -> impl Iterator<Item = Result<MessageRow>> {
        self.reader.all_matching(filter, self.scope)
    }

    /// Counts the messages that pass, and names them. A repeated delivery of a message
    /// is no other message.
    fn collect(&self, filter: &Filter, named: &mut NamedRows) -> Result<u64> {
        let mut passes = 0;
        for row in self.rows(filter) {
            let row = row?;
            if !row.is_repeated() {
                passes += 1;
                named.add(row);
            }
        }
        Ok(passes)
    }

    fn count(
        &self,
        filter: &Filter,
        comparison: Comparison,
        bound: i64,
        named: &mut NamedRows,
    ) -> Result<(bool, String)> {
        let mut passes = 0;
        for row in self.rows(filter) {
            let row = row?;
            if row.is_repeated() {
                continue;
            }
            passes += 1;
            // The message that exceeds the bound, and those after it.
            if comparison.is_upper() && !comparison.holds(passes, bound) && passes >= bound {
                named.add(row);
            }
        }
        Ok((comparison.holds(passes, bound), format!("count is {passes}")))
    }

    fn statistic(
        &self,
        (statistic, measure): (Statistic, MessageMeasure),
        filter: &Filter,
        (comparison, bound): (Comparison, i64),
        named: &mut NamedRows,
    ) -> Result<(bool, String)> {
        let (mut values, mut sum, mut number) = (Latencies::default(), 0_i128, 0_u64);
        let mut extremes = (i64::MAX, i64::MIN);
        let (mut below, mut equal) = (0_u64, 0_u64);
        for row in self.rows(filter) {
            let row = row?;
            let Some(value) = self.value(measure, &row).filter(|_| !row.is_repeated()) else { continue };
            values.add(value);
            sum += i128::from(value);
            number += 1;
            extremes = (extremes.0.min(value), extremes.1.max(value));
            below += u64::from(value < bound);
            equal += u64::from(value == bound);
            if statistic == Statistic::Sum || !comparison.holds(value, bound) {
                named.add_weighted(if comparison.is_upper() { value } else { value.saturating_neg() }, row);
            }
        }
        named.prefer();
        let words = format!("{} {}", statistic.name(), measure.name());
        if number == 0 {
            return Ok((false, format!("no message has a {}", measure.name())));
        }
        let value = match statistic {
            Statistic::Percentile(0) => extremes.0,
            Statistic::Percentile(100) => extremes.1,
            Statistic::Percentile(percent) => values.percentile(percent.into()).unwrap_or_default(),
            Statistic::Mean => i64::try_from(sum / i128::from(number)).unwrap_or(i64::MAX),
            Statistic::Sum => i64::try_from(sum).unwrap_or(i64::MAX),
        };
        let shown = if measure.is_duration() { duration(value) } else { size(value.unsigned_abs()) };
        // The value is that of a sample if there are very many. So it is counted which side of the
        // bound the percentile is on.
        let holds = match statistic {
            Statistic::Percentile(percent) => {
                let rank = (u128::from(number) * u128::from(percent)).div_ceil(100).max(1);
                match (rank <= u128::from(below), rank <= u128::from(below + equal)) {
                    (true, _) => comparison.holds(-1, 0),
                    (false, true) => comparison.holds(0, 0),
                    (false, false) => comparison.holds(1, 0),
                }
            }
            Statistic::Mean | Statistic::Sum => comparison.holds(value, bound),
        };
        Ok((holds, format!("{words} is {shown}, of {}", count(number, "message"))))
    }

    fn value(&self, measure: MessageMeasure, row: &MessageRow) -> Option<i64> {
        match measure {
            MessageMeasure::Latency => row.latency,
            MessageMeasure::Size => i64::try_from(row.size).ok(),
            MessageMeasure::Elapsed => {
                let at = self.sessions.binary_search_by_key(&row.session, |session| session.number).ok()?;
                Some(row.time.since(self.sessions[at].started))
            }
        }
    }

    /// Judges the latest list of tools of each session. The worst one is reported.
    fn tools(
        &self,
        measure: ToolsMeasure,
        comparison: Comparison,
        bound: i64,
        named: &mut NamedRows,
    ) -> Result<(bool, String)> {
        let mut worst: Option<(bool, i64, String)> = None;
        for session in self.sessions {
            let overview = overview::read(self.reader, session)?;
            let Some(listed) = overview.lists.get("tools") else { continue };
            let (value, words) = match measure {
                ToolsMeasure::Count => (listed.items, format!("tools.count is {}", listed.items)),
                ToolsMeasure::Bytes => (listed.bytes, format!("tools.bytes is {}", listed.bytes)),
                ToolsMeasure::Tokens => {
                    (listed.tokens(), format!("tools.tokens is about {} (estimated)", listed.tokens()))
                }
            };
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            let holds = comparison.holds(value, bound);
            if !holds && let Some(capture) = self.reader.capture_of(session.number)? {
                let row = self.reader.message_row(RowKey::new(capture, listed.message.0))?;
                row.into_iter().for_each(|row| named.add(row));
            }
            let weight = if comparison.is_upper() { value } else { value.saturating_neg() };
            if worst.as_ref().is_none_or(|(known, other, _)| (!holds, weight) > (!known, *other)) {
                worst = Some((holds, weight, format!("{words} in session {}", session.number.0)));
            }
        }
        Ok(worst.map_or((false, "no session lists its tools".to_owned()), |(holds, _, words)| (holds, words)))
    }

    fn breach(&self, row: &MessageRow) -> Result<Breach> {
        let message = self.reader.message(row.key())?;
        let text = message.map(|message| about(&message)).unwrap_or_default();
        let method = safe::fit(row.method.as_deref().unwrap_or_default(), 48);
        let latency = row.latency.filter(|_| row.answers.is_some()).map(duration).unwrap_or_default();
        let words = [method, text, latency];
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        Ok(Breach { session: row.session, message: row.number, packets: row.packets.clone(), text: words.join("  ") })
    }
}
