//! Names of files: `messages/day=2026-11-24/FIRST-LAST-HOST-HASH.parquet`, with the times of the
//! first and the last row in microseconds. So nobody opens a file that cannot have a row.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The host in the name of a file with rows of several hosts.
const ALL: &str = "all";

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
    /// The parts of a name in the dataset. `None` for files of others.
    pub fn parse(name: &str) -> Option<FileName> {
        let (folder, file) = name.rsplit_once('/')?;
        let (table, day) = folder.split_once("/day=")?;
        let (stem, hash) = file.strip_suffix(".parquet")?.rsplit_once('-')?;
        let mut parts = stem.splitn(3, '-');
        let (first, last) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
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
        write!(f, "{}{first}-{last}-{host}-{hash}.parquet", folder(table, day))
    }
}

/// The folder of a day, with a slash at its end.
pub fn folder(table: &str, day: &str) -> String {
    format!("{table}/day={day}/")
}

/// The day of a time, in UTC.
pub fn day(nanoseconds: i64) -> String {
    let time = Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default();
    time.to_zoned(TimeZone::UTC).date().to_string()
}

/// A host as a part of a name: letters, digits, `.` and `_`, 64 at most.
pub fn host_part(host: Option<&str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let plain: String = host.unwrap_or("_").chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
    // Such a host is no file of all.
    if plain == ALL { format!("{plain}_") } else { plain }
}
