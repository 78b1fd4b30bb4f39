//! Texts and values as a filter writes them.

use jiff::Timestamp;

use crate::capture::Time;

/// Nanoseconds of a second.
pub(super) const SECOND: i64 = 1_000_000_000;

/// A text in double quotes, which the parser reads as the same text.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.extend(c.escape_unicode()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A duration in the largest unit that is exact.
pub(super) fn print_duration(nanoseconds: i64) -> String {
    [(SECOND, "s"), (1_000_000, "ms"), (1_000, "us")]
        .iter()
        .find(|(scale, _)| nanoseconds % scale == 0)
        .map_or_else(|| format!("{nanoseconds}ns"), |(scale, unit)| format!("{}{unit}", nanoseconds / scale))
}

/// A point in time as RFC 3339 in UTC.
pub(super) fn print_time(time: Time) -> String {
    // 64-bit nanoseconds end in the year 2262, well inside the range of `Timestamp`.
    Timestamp::from_nanosecond(i128::from(time.0)).map_or_else(|_| time.0.to_string(), |moment| moment.to_string())
}
