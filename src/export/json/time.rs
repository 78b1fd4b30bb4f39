//! Moments as RFC 3339.

use crate::capture::Time;

const NANOSECONDS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Writes a moment in UTC, with nanoseconds: `2026-11-20T07:14:13.123456789Z`.
///
/// The clock of a capture counts 64 bits of nanoseconds: years 1677 to 2262, four digits always.
pub(in crate::export) fn write_time(out: &mut Vec<u8>, time: Time) {
    let seconds = time.0.div_euclid(NANOSECONDS);
    let nanosecond = time.0.rem_euclid(NANOSECONDS);
    let (year, month, day) = civil(seconds.div_euclid(DAY));
    let second = seconds.rem_euclid(DAY);
    let mut text = *b"0000-00-00T00:00:00.000000000Z";
    put(&mut text[0..4], year);
    put(&mut text[5..7], month);
    put(&mut text[8..10], day);
    put(&mut text[11..13], second / 3600);
    put(&mut text[14..16], second / 60 % 60);
    put(&mut text[17..19], second % 60);
    put(&mut text[20..29], nanosecond);
    out.extend_from_slice(&text);
}

fn put(digits: &mut [u8], mut number: i64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a day counted from 1970-01-01 (Howard Hinnant's `civil_from_days`).
///
/// Years are taken to begin in March, so that the odd day comes last, and run in eras of 400 years, after which the Gregorian
/// calendar repeats.
fn civil(day: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let day = day + 719_468; // from 0000-03-01
    let era = day.div_euclid(ERA);
    let day_of_era = day.rem_euclid(ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153; // 0 is March
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let january_or_february = i64::from(month >= 10);
    (era * 400 + year_of_era + january_or_february, (month + 2) % 12 + 1, day_of_month)
}
