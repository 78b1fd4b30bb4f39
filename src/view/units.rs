//! Numbers with their units, in few characters.

use crate::capture::Time;

/// Nanoseconds for people: `340 ns`, `17 µs`, `5.7 ms`, `1.24 s`, `3 min 05 s`, `2 h 07 min`.
pub fn duration(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let n = nanoseconds.unsigned_abs();
    let scaled = |unit: u64| n as f64 / unit as f64;
    let text = match n {
        0..=999 => format!("{n} ns"),
        1_000..=99_949 => format!("{:.1} µs", scaled(1_000)),
        99_950..=999_499 => format!("{:.0} µs", scaled(1_000)),
        999_500..=99_949_999 => format!("{:.1} ms", scaled(1_000_000)),
        99_950_000..=999_499_999 => format!("{:.0} ms", scaled(1_000_000)),
        999_500_000..=59_999_999_999 => format!("{:.2} s", scaled(1_000_000_000)),
        _ => {
            let seconds = n / 1_000_000_000;
            match seconds {
                0..=3_599 => format!("{} min {:02} s", seconds / 60, seconds % 60),
                _ => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
            }
        }
    };
    format!("{sign}{text}")
}

/// Bytes for people: `417 B`, `12.3 KB`, `5.0 GB` (powers of ten).
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KB", "MB", "GB", "TB", "PB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 99.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// A count with its noun: `1 message`, `3 messages`.
pub fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A share from 0 to 1 in percent, with one digit: `100.0` only where nothing at all is missing.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    format!("{:.1} %", if percent < 100.0 { percent.min(99.9) } else { percent })
}

/// Seconds since a start: `12.004310`.
pub fn relative(time: Time, start: Time) -> String {
    let nanoseconds = time.since(start);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let micros = nanoseconds.unsigned_abs() / 1_000;
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// A time in the local time zone: `2026-11-20 07:14:13`.
pub fn clock(time: Time) -> String {
    let zone = jiff::tz::TimeZone::system();
    match jiff::Timestamp::from_nanosecond(time.0.into()) {
        Ok(timestamp) => timestamp.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => "beyond the calendar".to_owned(),
    }
}

/// A time near `now` in the local time zone, in eight columns: `07:14:13` on the same day,
/// `20 Nov` in the same year, else `Nov 2025`.
pub fn short_clock(time: Time, now: Time) -> String {
    let zone = jiff::tz::TimeZone::system();
    let local = |time: Time| {
        jiff::Timestamp::from_nanosecond(time.0.into()).ok().map(|timestamp| timestamp.to_zoned(zone.clone()))
    };
    let (Some(time), Some(now)) = (local(time), local(now)) else { return String::new() };
    let format = match (time.date() == now.date(), time.year() == now.year()) {
        (true, _) => "%H:%M:%S",
        (false, true) => "%-d %b",
        (false, false) => "%b %Y",
    };
    time.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_digits() {
        let shown =
            [0, 999, 1_000, 17_049, 250_000, 5_700_000, 240_000_000, 1_240_000_000, 185_000_000_000, 7_620_000_000_000];
        let shown: Vec<String> = shown.into_iter().map(duration).collect();
        let wanted =
            ["0 ns", "999 ns", "1.0 µs", "17.0 µs", "250 µs", "5.7 ms", "240 ms", "1.24 s", "3 min 05 s", "2 h 07 min"];
        assert_eq!(shown, wanted);
        assert_eq!(duration(-1_500), "-1.5 µs");
        assert_eq!(duration(i64::MIN).chars().next(), Some('-'));
    }

    #[test]
    fn sizes_never_show_four_digits() {
        let shown = [0, 999, 1_000, 12_345, 999_600, 5_000_000_000].map(size);
        assert_eq!(shown, ["0 B", "999 B", "1.0 KB", "12.3 KB", "1.0 MB", "5.0 GB"]);
        assert_eq!(size(u64::MAX), "18447 PB");
    }

    #[test]
    fn time_before_the_beginning_is_negative() {
        assert_eq!(relative(Time(1_500_000), Time(0)), "0.001500");
        assert_eq!(relative(Time(0), Time(2_000_001_000)), "-2.000001");
    }
}
