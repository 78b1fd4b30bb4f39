//! Names of files: `messages/day=2026-11-24/HOST-FIRST-LAST-HASH.parquet`, with the times of the
//! first and the last row in microseconds. So nobody opens a file that cannot have a row, and the
//! files of one host are listed without those of the others.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The names of the tables. Each has a folder.
pub const TABLES: [&str; 4] = ["sessions", "messages", "exchanges", "findings"];

/// The host in the name of a file with rows of several hosts.
pub const ALL: &str = "all";

/// The host in the name of a file whose rows have none.
const UNKNOWN: &str = "unknown";

/// The parts of a file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    pub table: String,
    pub day: String,
    /// Microseconds since 1970.
    pub first: i64,
    pub last: i64,
    pub host: String,
    pub hash: String,
}

impl FileName {
    /// The parts of a name in the dataset. `None` for other files. The name may come from a note
    /// that another program wrote, so it must not lead out of the dataset.
    pub fn parse(name: &str) -> Option<FileName> {
        let (folder, file) = name.rsplit_once('/')?;
        let (table, day) = folder.split_once("/day=")?;
        let is_date = day.chars().all(|c| c.is_ascii_digit() || c == '-');
        if !TABLES.contains(&table) || !is_date {
            return None;
        }
        let mut parts = file.strip_suffix(".parquet")?.rsplitn(4, '-');
        let hash = parts.next()?;
        let (last, first) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let [table, day, host, hash] = [table, day, parts.next()?, hash].map(str::to_owned);
        Some(FileName { table, day, first, last, host, hash })
    }

    /// Whether it can have rows of this host and between these times.
    pub fn may_have(&self, host: &str, (first, last): (i64, i64)) -> bool {
        (self.host == host || self.host == ALL) && self.first <= last && self.last >= first
    }

    /// The file that holds rows of several hosts.
    pub fn of_all(self) -> FileName {
        FileName { host: ALL.to_owned(), ..self }
    }
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let FileName { table, day, first, last, host, hash } = self;
        write!(f, "{}{host}-{first}-{last}-{hash}.parquet", folder(table, day))
    }
}

/// The folder of a day, with a slash at its end.
pub fn folder(table: &str, day: &str) -> String {
    format!("{table}/day={day}/")
}

/// The time of a row in the name of its file, which has no sign.
pub fn micros(nanoseconds: i64) -> i64 {
    nanoseconds.div_euclid(1_000).max(0)
}

/// The day of a time, in UTC.
pub fn day(nanoseconds: i64) -> String {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
    time.to_zoned(TimeZone::UTC).date().to_string()
}

/// A host as a part of a name: letters, digits, `.`, `-` and `_`, 65 at most. Engines skip names
/// that begin with another sign than a letter or a digit.
pub fn host_part(host: Option<&str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let plain: String = host.unwrap_or(UNKNOWN).chars().take(64).map(|c| if is_plain(c) { c } else { '_' }).collect();
    // Two dots would be the folder above.
    let plain = plain.replace("..", "__");
    match plain.chars().next() {
        // Such a host is not all hosts.
        _ if plain == ALL => format!("{plain}_"),
        Some(first) if first.is_ascii_alphanumeric() => plain,
        _ => format!("h{plain}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_read_as_they_were_written(host in any::<Option<String>>(), times in any::<(i64, i64)>(), nanoseconds in any::<i64>()) {
            let name = FileName {
                table: "messages".to_owned(),
                day: day(nanoseconds),
                first: micros(times.0),
                last: micros(times.1),
                host: host_part(host.as_deref()),
                hash: "0123456789abcdef".to_owned(),
            };
            let text = name.to_string();
            let file = text.rsplit('/').next().expect("a file");
            prop_assert!(file.starts_with(|c: char| c.is_ascii_alphanumeric()) && !text.contains(".."), "{}", text);
            prop_assert_eq!(FileName::parse(&text), Some(name));
        }
    }

    #[test]
    fn a_file_of_all_hosts_may_have_rows_of_each() {
        let name = FileName::parse("messages/day=2026-11-24/web-1.example-10-20-00ff.parquet").expect("a name");
        assert_eq!((name.host.as_str(), name.first, name.last), ("web-1.example", 10, 20));
        assert!(name.may_have("web-1.example", (20, 30)) && !name.may_have("web-1.example", (21, 30)));
        assert!(!name.may_have("web-2", (10, 20)) && name.of_all().may_have("web-2", (10, 20)));
        assert_eq!(host_part(Some("all")), "all_");
        for other in [
            "_mcptap/exported-web-1-00ff.json",
            "/etc/day=2026-11-24/web-1-10-20-00ff.parquet",
            "../messages/day=2026-11-24/web-1-10-20-00ff.parquet",
            "messages/day=../../web-1-10-20-00ff.parquet",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
