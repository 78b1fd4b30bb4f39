//! A comparison as text for the terminal.
//!
//! ```text
//!   same       tools/list                       12.0 ms  was 11.4 ms
//! ≠ different  tools/call get_weather #9 → #7    1.2 ms  was 1.1 ms
//!     /structuredContent/temperature
//!       - 21
//!       + 19
//! ```

use std::fmt::Write;

use serde_json::Value;
use similar::{DiffOp, group_diff_ops};

use super::alignment::align;
use super::difference::{Change, Difference, LISTED, name_of};
use super::report::{Outcome, Pair, Replacement, Report};
use crate::view::paint::{Paint, Tone};
use crate::view::safe::{self, Align};
use crate::view::units::{count, duration};

/// The most lines that are shown of one difference. The JSON output has all of them.
const SHOWN: usize = 200;

/// The most replaced values that are shown, and the most places of each.
const VALUES: usize = 20;
const USES: usize = 4;

/// Unchanged lines shown before and after a change.
const CONTEXT: usize = 2;

/// Options for drawing a report.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether to use colour.
    pub paint: Paint,
    /// Width in columns.
    pub width: usize,
    /// Show old and new values side by side instead of one below the other.
    pub side_by_side: bool,
    /// Also show pairs that are the same.
    pub all: bool,
}

/// The whole report.
pub fn report(report: &Report, style: Style) -> String {
    let mut out = String::new();
    for pair in report.pairs.iter().filter(|pair| style.all || pair.outcome != Outcome::Same) {
        self::pair(&mut out, pair, style);
    }
    let paint = style.paint;
    if !report.volatile.is_empty() {
        let _ = writeln!(
            out,
            "{}",
            paint.paint(Tone::Strong, "ignored, because it varies from run to run (usable with --ignore):")
        );
        for rule in &report.volatile {
            let some = match &rule.words {
                Some(words) => format!("  ({} of the text)", count(words.len() as u64, "word")),
                None => String::new(),
            };
            let _ = writeln!(out, "  {}{some}", safe::visible(&rule.to_string()));
        }
    }
    replaced(&mut out, report, style);
    for (pair, before, now) in report.slower() {
        let line = format!("slower: {} took {}, was {}", pair.label, duration(now), duration(before));
        let _ = writeln!(out, "{}", paint.paint(Tone::Warning, &safe::visible(&line)));
    }
    for (method, before, now) in &report.unasked {
        let line = format!("{} {}: {before} before, {now} now", "unasked", safe::visible(method));
        let _ = writeln!(out, "{}", paint.paint(Tone::Dim, &line));
    }
    for note in &report.notes {
        let _ = writeln!(out, "{}", paint.paint(Tone::Warning, &safe::visible(note)));
    }
    let _ = writeln!(out, "{}", paint.paint(Tone::Strong, &summary(report)));
    out
}

/// Writes the values that a replay replaced.
fn replaced(out: &mut String, report: &Report, style: Style) {
    if report.replaced.is_empty() {
        return;
    }
    let title = "sent with the values of the new server in place of recorded ones:";
    let _ = writeln!(out, "{}", style.paint.paint(Tone::Strong, title));
    for Replacement { old, new, given_by, other, uses } in report.replaced.iter().take(VALUES) {
        let mut places: Vec<String> =
            uses.iter().take(USES).map(|(message, path)| format!("#{message} {path}")).collect();
        places.extend((uses.len() > USES).then(|| format!("{} more", uses.len() - USES)));
        let other = match other {
            Some((other, number)) => format!(" (the place of #{number} has {})", short(other)),
            None => String::new(),
        };
        let line = format!("{} → {}  from #{given_by}, in {}{other}", short(old), short(new), places.join(", "));
        let _ = writeln!(out, "  {}", safe::visible(&line));
    }
    if report.replaced.len() > VALUES {
        let _ = writeln!(
            out,
            "  … {}; --format json lists all",
            count((report.replaced.len() - VALUES) as u64, "more value")
        );
    }
}

/// A value cut to a width that leaves room for others in its line.
fn short(value: &str) -> String {
    safe::fit(value, 48)
}

/// The last line of a report: `12 requests: 10 same, 1 different, 1 missing`.
pub fn summary(report: &Report) -> String {
    let counts: Vec<String> =
        report.counts().into_iter().map(|(outcome, count)| format!("{count} {}", words(outcome))).collect();
    let requests = count(report.pairs.len() as u64, "request");
    if counts.is_empty() {
        format!("{requests}: nothing to compare")
    } else {
        format!("{requests}: {}", counts.join(", "))
    }
}

/// The outcome as it follows a count: `2 different`.
pub fn words(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Error => "error instead of a result",
        Outcome::Result => "result instead of an error",
        Outcome::ToolError => "tool error",
        other => other.name(),
    }
}

/// Writes one pair with its differences.
pub fn pair(out: &mut String, pair: &Pair, style: Style) {
    let paint = style.paint;
    let (mark, tone) = match pair.outcome {
        Outcome::Same => (" ", Tone::Good),
        Outcome::Skipped => ("·", Tone::Dim),
        Outcome::Different | Outcome::Extra => ("≠", Tone::Warning),
        Outcome::Missing | Outcome::Error | Outcome::Result | Outcome::ToolError => ("✗", Tone::Error),
    };
    let numbers = match (pair.old, pair.new) {
        (Some(old), Some(new)) => format!("#{} → #{}", old.number, new.number),
        (Some(old), None) => format!("#{}", old.number),
        (None, Some(new)) => format!("→ #{}", new.number),
        (None, None) => String::new(),
    };
    let latency = match (pair.new.and_then(|new| new.latency), pair.old.and_then(|old| old.latency)) {
        (Some(new), Some(old)) => format!("{}  was {}", duration(new), duration(old)),
        (Some(new), None) => duration(new),
        (None, Some(old)) => format!("was {}", duration(old)),
        (None, None) => String::new(),
    };
    let label = safe::pad(&pair.label.to_string(), style.width.saturating_sub(60).clamp(24, 60), Align::Left);
    let line = format!(
        "{mark} {} {label} {} {}",
        paint.paint(tone, &safe::pad(pair.outcome.name(), 10, Align::Left)),
        paint.paint(Tone::Dim, &safe::pad(&numbers, 14, Align::Left)),
        paint.paint(Tone::Dim, &latency)
    );
    let _ = writeln!(out, "{}", line.trim_end());
    if let Some(why) = &pair.why {
        let _ = writeln!(out, "    {}", safe::fit(why, style.width.saturating_sub(4).max(40)));
    }
    for difference in &pair.differences {
        self::difference(out, difference, style);
    }
    if pair.differences.len() == LISTED {
        let _ = writeln!(out, "    … and maybe more: {LISTED} are listed");
    }
}

/// Writes one difference: its path, then both values below or beside each other.
fn difference(out: &mut String, difference: &Difference, style: Style) {
    let path = if difference.path.is_empty() { "(the whole answer)" } else { &difference.path };
    let path = style.paint.paint(Tone::Strong, &safe::visible(path));
    // The index of a removed or added element explains little, so its name is shown.
    match &difference.change {
        Change::Removed(value) | Change::Added(value) if name_of(value).is_some() => {
            let name = safe::visible(name_of(value).unwrap_or_default());
            let _ = writeln!(out, "    {path}  {}", style.paint.paint(Tone::Dim, &name));
        }
        _ => drop(writeln!(out, "    {path}")),
    }
    let (old, new) = match &difference.change {
        // When one side is a text of several lines, both are shown as plain text.
        Change::Changed(Value::String(old), Value::String(new)) if old.contains('\n') || new.contains('\n') => {
            (Some(old.clone()), Some(new.clone()))
        }
        Change::Changed(old, new) => (Some(lines(old)), Some(lines(new))),
        Change::Removed(old) => (Some(lines(old)), None),
        Change::Added(new) => (None, Some(lines(new))),
    };
    match (old, new) {
        (Some(old), Some(new)) if style.side_by_side => side_by_side(out, &old, &new, style),
        (Some(old), Some(new)) => unified(out, &old, &new, style),
        (old, new) => {
            old.iter().for_each(|old| one_sided(out, old, '-', style));
            new.iter().for_each(|new| one_sided(out, new, '+', style));
        }
    }
}

/// The value as lines: a text of several lines as it is, all else as indented JSON.
fn lines(value: &Value) -> String {
    match value {
        Value::String(text) if text.contains('\n') => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    }
}

fn one_sided(out: &mut String, text: &str, sign: char, style: Style) {
    let mut lines = text.lines();
    lines.by_ref().take(SHOWN).for_each(|text| line(out, sign, text, style));
    let rest = lines.count();
    if rest > 0 {
        let _ = writeln!(out, "      … {}", count(rest as u64, "more line"));
    }
}

fn unified(out: &mut String, old: &str, new: &str, style: Style) {
    if old.lines().count().max(new.lines().count()) > SHOWN * 10 {
        one_sided(out, old, '-', style);
        return one_sided(out, new, '+', style);
    }
    let (old, new) = (with_ends(old), with_ends(new));
    for (index, group) in group_diff_ops(align(&old, &new, None), CONTEXT).iter().enumerate() {
        if index > 0 {
            let _ = writeln!(out, "      ⋮");
        }
        for operation in group {
            let (removed, added) = (&old[operation.old_range()], &new[operation.new_range()]);
            let signed: &[(char, &[&str])] = match operation {
                DiffOp::Equal { .. } => &[(' ', added)],
                _ => &[('-', removed), ('+', added)],
            };
            for (sign, lines) in signed {
                lines.iter().for_each(|text| line(out, *sign, without_end(text), style));
            }
        }
    }
}

/// The lines of a text with their ends, since a missing end is a difference.
fn with_ends(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

/// Writes `old` to the left of `new`. Equal lines share a row.
fn side_by_side(out: &mut String, old: &str, new: &str, style: Style) {
    let columns = (style.width.saturating_sub(9) / 2).clamp(20, 120);
    let (old, new) = (with_ends(old), with_ends(new));
    let mut rows: Vec<(Option<&str>, Option<&str>)> = Vec::new();
    for operation in align(&old, &new, None) {
        let (old, new) = (&old[operation.old_range()], &new[operation.new_range()]);
        let length = old.len().max(new.len());
        rows.extend(
            (0..length).map(|at| (old.get(at).copied().map(without_end), new.get(at).copied().map(without_end))),
        );
    }
    for (old, new) in rows.iter().take(SHOWN) {
        let mark = match (old, new) {
            (Some(_), None) => '<',
            (None, Some(_)) => '>',
            (old, new) if old == new => ' ',
            _ => '|',
        };
        let tone = |tone| if mark == ' ' { Tone::Dim } else { tone };
        let left = safe::pad(&safe::fit(old.unwrap_or_default(), columns), columns, Align::Left);
        let right = safe::fit(new.unwrap_or_default(), columns);
        let row = format!(
            "      {} {mark} {}",
            style.paint.paint(tone(Tone::Error), &left),
            style.paint.paint(tone(Tone::Good), &right)
        );
        let _ = writeln!(out, "{}", row.trim_end());
    }
    if rows.len() > SHOWN {
        let _ = writeln!(out, "      … {}", count((rows.len() - SHOWN) as u64, "more line"));
    }
}

fn line(out: &mut String, sign: char, text: &str, style: Style) {
    let tone = match sign {
        '-' => Tone::Error,
        '+' => Tone::Good,
        _ => Tone::Dim,
    };
    let text = format!("{sign} {}", safe::fit(text, style.width.saturating_sub(8).max(72)));
    let _ = writeln!(out, "      {}", style.paint.paint(tone, text.trim_end()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compare::{Label, Party, Rule};

    fn drawn(side_by_side: bool) -> String {
        let label = Label { method: "tools/call".into(), subject: Some("get_weather".into()) };
        let party = |number| Some(Party { number, latency: Some(1_200_000) });
        let text = |word: &str| json!(format!("Quito\n{word}\nwind 3"));
        let differences = vec![
            Difference { path: "/a/t".into(), change: Change::Changed(json!(21), json!("\u{1b}[31m19")) },
            Difference { path: "/content/0/text".into(), change: Change::Changed(text("sunny"), text("rain")) },
            Difference { path: "/b/0".into(), change: Change::Removed(json!({"name": "x"})) },
        ];
        let pair = |outcome, differences| Pair {
            label: label.clone().into(),
            old: party(9),
            new: party(7),
            outcome,
            differences,
            why: None,
        };
        let pairs = vec![pair(Outcome::Same, Vec::new()), pair(Outcome::Different, differences)];
        let volatile = vec![Rule::at(&label, "/at", None)];
        let report = Report { pairs, volatile, ..Report::default() };
        super::report(&report, Style { paint: Paint { on: false }, width: 84, side_by_side, all: false })
    }

    #[test]
    fn values_are_shown_below_each_other() {
        insta::assert_snapshot!(drawn(false), @r#"
        ≠ different  tools/call get_weather   #9 → #7        1.2 ms  was 1.2 ms
            /a/t
              - 21
              + "\u001b[31m19"
            /content/0/text
                Quito
              - sunny
              + rain
                wind 3
            /b/0  x
              - {
              -   "name": "x"
              - }
        ignored, because it varies from run to run (usable with --ignore):
          get_weather:/at
        2 requests: 1 same, 1 different
        "#);
    }

    #[test]
    fn replaced_values_are_listed_up_to_a_number() {
        let value = |at: usize| Replacement {
            old: format!("old-{at}\u{1b}"),
            new: "n".repeat(60),
            given_by: 4,
            other: (at == 0).then(|| ("other".to_owned(), 9)),
            uses: (0..6 - at.min(4) as u64).map(|use_of| (7 + use_of, "/arguments/id".to_owned())).collect(),
        };
        let replaced = (0..VALUES + 2).map(value).collect();
        let style = Style { paint: Paint { on: false }, width: 84, side_by_side: false, all: false };
        let shown = super::report(&Report { replaced, ..Report::default() }, style);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), VALUES + 3);
        insta::assert_snapshot!([&lines[..3], &lines[VALUES + 1..]].concat().join("\n"), @r"
        sent with the values of the new server in place of recorded ones:
          old-0␛ → nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…  from #4, in #7 /arguments/id, #8 /arguments/id, #9 /arguments/id, #10 /arguments/id, 2 more (the place of #9 has other)
          old-1␛ → nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn…  from #4, in #7 /arguments/id, #8 /arguments/id, #9 /arguments/id, #10 /arguments/id, 1 more
          … 2 more values; --format json lists all
        0 requests: nothing to compare
        ");
    }

    #[test]
    fn values_are_shown_side_by_side() {
        insta::assert_snapshot!(drawn(true), @r#"
        ≠ different  tools/call get_weather   #9 → #7        1.2 ms  was 1.2 ms
            /a/t
              21                                    | "\u001b[31m19"
            /content/0/text
              Quito                                   Quito
              sunny                                 | rain
              wind 3                                  wind 3
            /b/0  x
              - {
              -   "name": "x"
              - }
        ignored, because it varies from run to run (usable with --ignore):
          get_weather:/at
        2 requests: 1 same, 1 different
        "#);
    }
}
