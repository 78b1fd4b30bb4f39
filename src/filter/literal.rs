//! Values as people write them: `200ms`, `4KB`, `2025-11-25T14:03:20Z`, `-32602`, `"text"`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

use super::ast::{Scalar, Value};
use super::error;
use super::fields::{Field, FieldId, Type};
use super::print::{SECOND, quote};
use crate::decode::json::is_json;

/// A value in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// The content, without quotes and escapes.
    pub text: String,
    /// Whether the value was in quotes.
    pub quoted: bool,
}

/// The reason why a literal is not a value of a field's type.
pub(super) struct Mismatch {
    /// The error in a few words.
    pub message: String,
    /// The words or forms that would be correct.
    pub expected: Vec<String>,
}

/// Reads a literal as a value of the field's type.
pub(super) fn read(field: &Field, literal: &Literal) -> Result<Value, Mismatch> {
    let text = literal.text.as_str();
    let wrong = |expected: &str| Mismatch {
        message: format!("{} is not a {}, the type of {field}", quote(text), field.kind().name()),
        expected: vec![expected.to_owned()],
    };
    let integer = |value: Option<i64>, expected: &str| value.map(Value::Integer).ok_or_else(|| wrong(expected));
    match field.kind() {
        Type::Text => Ok(Value::Text(text.to_owned())),
        Type::Number => integer(text.parse().ok(), "a whole number such as 12"),
        Type::Size => integer(size(text), "a size such as 512, 4KB or 1.5MiB"),
        Type::Duration => integer(duration(text), "a duration such as 200ms, 1.5s, 30us or 2m"),
        Type::Time => {
            integer(time(text), "a time such as 2025-11-25T14:03:20Z; for seconds since the start use elapsed")
        }
        Type::Flag => match text {
            "true" | "yes" | "1" => Ok(Value::Flag(true)),
            "false" | "no" | "0" => Ok(Value::Flag(false)),
            _ => Err(wrong("true or false")),
        },
        Type::Word => word(field, text),
        Type::Id | Type::Json => {
            Ok(Value::Json(if literal.quoted { Scalar::Text(text.to_owned()) } else { scalar(text) }))
        }
    }
}

fn word(field: &Field, text: &str) -> Result<Value, Mismatch> {
    let text = match (field, text) {
        (Field::Known(definition), "c2s" | "→") if definition.key == FieldId::Direction => "client-to-server",
        (Field::Known(definition), "s2c" | "←") if definition.key == FieldId::Direction => "server-to-client",
        _ => text,
    };
    if field.values().contains(&text) {
        return Ok(Value::Text(text.to_owned()));
    }
    let near = error::nearest(text, field.values().iter().copied());
    let expected = if near.is_empty() { field.values().iter().map(|&word| word.to_owned()).collect() } else { near };
    Err(Mismatch { message: format!("{field} has no value {}", quote(text)), expected })
}

/// The JSON value of a bare word: a JSON number, `true`, `false` or `null`. Any other word
/// is a string.
fn scalar(text: &str) -> Scalar {
    match text {
        "null" => Scalar::Null,
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        number if number.starts_with(|c: char| c == '-' || c.is_ascii_digit()) && is_json(number) => {
            Scalar::Number(number.to_owned())
        }
        text => Scalar::Text(text.to_owned()),
    }
}

/// Reads a decimal number and multiplies it by `scale`. Digits beyond the smallest unit are cut
/// off. `None` where the result does not fit.
fn decimal(number: &str, scale: i64) -> Option<i64> {
    let (negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str, most| (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole, 19) || !digits(fraction, 18) {
        return None;
    }
    let (scale, unit) = (i128::from(scale), 10_i128.pow(fraction.len() as u32));
    let value = whole.parse::<i128>().ok()? * scale + fraction.parse::<i128>().ok()? * scale / unit;
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Splits `1.5MiB` into the number and the unit.
fn unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-')).unwrap_or(text.len());
    text.split_at(end)
}

/// Reads a number of bytes: `512`, `4KB`, `500M`, `1.5GiB`.
pub fn size(text: &str) -> Option<i64> {
    let (number, unit) = unit(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "t" | "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    decimal(number, scale)
}

/// Reads a number of nanoseconds: `200ms`, `1.5h`, `30d`, `2w`.
pub fn duration(text: &str) -> Option<i64> {
    let (number, unit) = unit(text);
    let scale = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" | "min" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        "d" => 24 * 3_600 * SECOND,
        "w" => 7 * 24 * 3_600 * SECOND,
        // Zero is the same in every unit. For any other number without a unit, the unit would
        // be a guess.
        "" if decimal(number, 1) == Some(0) => 1,
        _ => return None,
    };
    decimal(number, scale)
}

/// Reads a time in RFC 3339. A date alone means midnight. Without an offset it is UTC, as in
/// the JSON lines.
fn time(text: &str) -> Option<i64> {
    let moment = text.parse::<Timestamp>().ok().or_else(|| {
        let civil = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0))).ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })?;
    i64::try_from(moment.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::super::print::print_time;
    use super::*;
    use crate::capture::Time;

    #[test]
    fn units() {
        assert_eq!(duration("200ms"), Some(200_000_000));
        assert_eq!(duration("1.5s"), Some(1_500_000_000));
        assert_eq!(duration("3µs"), Some(3_000));
        assert_eq!(duration("2m"), Some(120 * SECOND));
        assert_eq!(duration("-1ns"), Some(-1));
        assert_eq!(duration("2w"), duration("14d"));
        assert_eq!(duration("0"), Some(0));
        assert_eq!(duration("5"), None);
        assert_eq!(duration("9999999999999999h"), None);
        assert_eq!(size("4KB"), Some(4_000));
        assert_eq!(size("1.5MiB"), Some(3 << 19));
        assert_eq!((size("500M"), size("1G")), (Some(500_000_000), size("1gb")));
        assert_eq!(size("..5"), None);
        assert_eq!(time("1970-01-01T00:00:01.5+00:00"), Some(1_500_000_000));
        assert_eq!(time("1970-01-02"), Some(86_400 * SECOND));
        assert_eq!(time("1970-01-01T00:00:01"), Some(SECOND));
        assert_eq!(time("9000-01-01"), None);
        assert_eq!(print_time(Time(1_500_000_000)), "1970-01-01T00:00:01.5Z");
    }

    #[test]
    fn bare_values_are_what_json_calls_them() {
        assert_eq!(scalar("-32602"), Scalar::Number("-32602".into()));
        assert_eq!(scalar("1.0e3"), Scalar::Number("1.0e3".into()));
        for text in ["007", "1.", "+1", ".5", "1a", "abc", ""] {
            assert_eq!(scalar(text), Scalar::Text(text.into()));
        }
    }
}
