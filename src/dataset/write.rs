//! Writes rows: those of a day into one file, without those that are there.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Context, Result, anyhow};
use tempfile::NamedTempFile;

use super::file_name::{ALL, FileName, day, folder, host_part, micros};
use super::keys;
use super::storage::Storage;
use super::tables::{STATE, TableRow};
use crate::export::parquet::{Key, ParquetError, ParquetReader, Values, Writer};

/// Numbers of rows of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Rows that were added.
    pub added: u64,
    /// Rows that were replaced by a more complete state.
    pub replaced: u64,
    /// Rows that were there.
    pub present: u64,
}

/// Writes rows of one capture point to a dataset.
pub struct Dataset {
    storage: Box<dyn Storage>,
    host: String,
    /// Files that this run wrote. Their rows need not be compared: a run gives no row twice.
    own: HashSet<String>,
    /// Numbers of rows, by table.
    pub counts: BTreeMap<&'static str, RowCounts>,
}

/// A row that is there.
struct Present {
    file: usize,
    row: usize,
    state: Option<i64>,
}

impl Dataset {
    /// The dataset in this place.
    pub fn new(storage: Box<dyn Storage>) -> Dataset {
        Dataset { storage, host: host_part(None), own: HashSet::new(), counts: BTreeMap::new() }
    }

    /// The place of the dataset.
    pub fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// Changes the capture point of the rows that follow.
    pub fn set_host(&mut self, host: Option<&str>) {
        self.host = host_part(host);
    }

    /// Writes rows. All of them are visible at the end.
    pub fn write<R: TableRow>(&mut self, rows: &mut Vec<R>) -> Result<()> {
        rows.sort_by_key(|row| (row.time(), row.key()));
        let mut rest = rows.as_slice();
        while let Some(first) = rest.first() {
            let day = day(first.time());
            let end = rest.partition_point(|row| row.time() < first.time() || self::day(row.time()) == day);
            let (of_day, later) = rest.split_at(end.max(1));
            self.write_day(&day, of_day)?;
            rest = later;
        }
        rows.clear();
        Ok(())
    }

    fn write_day<R: TableRow>(&mut self, day: &str, rows: &[R]) -> Result<()> {
        let table = R::TABLE;
        let range = (rows.first().map_or(0, |row| micros(row.time())), rows.last().map_or(0, |row| micros(row.time())));
        let mut files = Vec::new();
        for host in [self.host.as_str(), ALL] {
            let names = self.storage.list(&folder(table.name, day), &format!("{host}-"))?;
            let names = names.iter().filter_map(|(name, _)| FileName::parse(name));
            files.extend(names.filter(|name| name.may_have(&self.host, range)).map(|name| name.to_string()));
        }
        let present = self.present(&files, (rows.first().map_or(0, R::time), rows.last().map_or(0, R::time)))?;

        let mut new: Vec<&R> = Vec::new();
        let mut grown: BTreeMap<usize, Vec<(usize, &R)>> = BTreeMap::new();
        let (mut names, mut times): (Vec<u8>, Option<(i64, i64)>) = (Vec::new(), None);
        let counts = self.counts.entry(table.name).or_default();
        for row in rows {
            match present.get(&row.key()) {
                None => {
                    new.push(row);
                    names.extend(row.key().0.to_le_bytes());
                    let time = micros(row.time());
                    times = Some(times.map_or((time, time), |(first, _)| (first, time)));
                }
                Some(there) if there.state.is_some_and(|state| state_of(row) > state) => {
                    grown.entry(there.file).or_default().push((there.row, row));
                    counts.replaced += 1;
                }
                Some(_) => counts.present += 1,
            }
        }
        counts.added += new.len() as u64;
        if let Some((first, last)) = times {
            let name = FileName {
                table: table.name.to_owned(),
                day: day.to_owned(),
                first,
                last,
                host: self.host.clone(),
                hash: keys::key(&[&names]).to_string(),
            };
            self.publish::<R>(&name.to_string(), |writer| Ok(writer.group(table.columns_of(&new))?))?;
            self.own.insert(name.to_string());
        }
        for (file, rows) in grown {
            if let Some(name) = files.get(file) {
                self.replace(name, &rows)?;
            }
        }
        Ok(())
    }

    /// The rows of these files between two times in nanoseconds.
    fn present(&self, files: &[String], (first, last): (i64, i64)) -> Result<HashMap<Key, Present>> {
        let mut present = HashMap::new();
        for (file, name) in files.iter().enumerate().filter(|(_, name)| !self.own.contains(*name)) {
            let unreadable = || format!("cannot read {}/{name}", self.storage.name());
            // Compaction can have replaced it.
            let Some(content) = self.storage.open(name)? else { continue };
            let reader = ParquetReader::new(content).with_context(unreadable)?;
            let mut before = 0;
            for group in 0..reader.groups() {
                let covers = |(low, high): (i64, i64)| low <= last && high >= first;
                let rows = reader.rows(group);
                if reader.range(group, "time_ns").is_none_or(covers)
                    && let Some(keys) = reader.column(group, "key").with_context(unreadable)?
                {
                    let states = reader.column(group, STATE).with_context(unreadable)?;
                    for row in 0..rows {
                        let state = states.as_ref().and_then(|states| states.number(row));
                        let key = keys.text(row).and_then(|key| std::str::from_utf8(key).ok());
                        if let Some(Ok(key)) = key.map(|key| u64::from_str_radix(key, 16)) {
                            present.insert(Key(key), Present { file, row: before + row, state });
                        }
                    }
                }
                before += rows;
            }
        }
        Ok(present)
    }

    /// Replaces rows of a file by a more complete state.
    fn replace<R: TableRow>(&self, name: &str, rows: &[(usize, &R)]) -> Result<()> {
        let unreadable = || format!("cannot read {}/{name}", self.storage.name());
        let Some(content) = self.storage.open(name)? else { return Ok(()) };
        let reader = ParquetReader::new(content).with_context(unreadable)?;
        self.publish::<R>(name, |writer| {
            let mut before = 0;
            for group in 0..reader.groups() {
                let mut columns = reader.all(group).with_context(unreadable)?;
                let count = columns.first().map_or(0, Values::rows);
                let of_group: Vec<_> = rows.iter().filter(|(row, _)| (before..before + count).contains(row)).collect();
                let gone: HashSet<usize> = of_group.iter().map(|(row, _)| row - before).collect();
                let kept: Vec<usize> = (0..count).filter(|row| !gone.contains(row)).collect();
                columns = columns.iter().map(|values| values.select(&kept)).collect();
                let mut new = R::TABLE.values();
                of_group.iter().for_each(|(_, row)| R::TABLE.push(&mut new, row));
                columns.iter_mut().zip(new).for_each(|(values, new)| values.append(new));
                writer.group(&columns)?;
                before += count;
            }
            Ok(())
        })
    }

    /// Writes a file and makes it visible.
    fn publish<R: TableRow>(
        &self,
        name: &str,
        write: impl FnOnce(&mut Writer<NamedTempFile>) -> Result<()>,
    ) -> Result<()> {
        let failed = || format!("cannot write {}/{name}", self.storage.name());
        let file = self.storage.create()?;
        let schema = R::TABLE.schema().with_context(failed)?;
        let mut writer = Writer::new(file, R::TABLE.name, schema).with_context(failed)?;
        write(&mut writer).map_err(plain).with_context(failed)?;
        self.storage.publish(name, writer.finish().map_err(|error| plain(error.into())).with_context(failed)?)
    }
}

/// The error of the output itself: that of Parquet around it says the same again.
fn plain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(ParquetError::External(output)) => anyhow!("{output}"),
        Ok(other) => other.into(),
        Err(error) => error,
    }
}

/// How complete a row is.
fn state_of<R: TableRow>(row: &R) -> i64 {
    let mut columns = R::TABLE.values();
    R::TABLE.push(&mut columns, row);
    R::TABLE.position(STATE).and_then(|index| columns.get(index)?.number(0)).unwrap_or_default()
}
