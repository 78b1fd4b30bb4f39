//! Compaction: merges the small files of days that are over.
//!
//! Files are read in the order of their first rows, and rows are written in the order of time. Held
//! are the rows from the time that all files before have passed. When too many are held, the
//! earlier half is written.
//!
//! Storage has no change of several files at once. So a note names the merged files and their
//! sources. The merged files are published next, and then the sources are removed. Between the two
//! the rows of a day are there twice. If a program ends there, the next compaction finds the note
//! and goes on (decision 44).

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use super::file_name::{FileName, TABLES, micros};
use super::keys;
use super::storage::{OWN, Storage};
use crate::export::parquet::{BYTES, ParquetReader, ROWS, SchemaType, Values, Writer};

/// Size from which a file is left as it is, and at which a merged file ends.
const SMALL: u64 = 64 << 20;
const LARGE: usize = 192 << 20;

/// Bytes of text that are held.
const HELD_BYTES: usize = 2 * BYTES;

/// The folder of the notes.
const NOTES: &str = "compacted/";

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    pub files: usize,
    pub into: usize,
}

/// Merges the small files of each table and day before `today`.
pub fn compact(storage: &dyn Storage, today: &str) -> Result<Compacted> {
    finish_earlier(storage)?;
    let mut done = Compacted::default();
    let mut has_tables = false;
    for table in TABLES {
        let listed = storage.list(&format!("{table}/"), "")?;
        has_tables |= !listed.is_empty();
        let mut names: Vec<FileName> =
            listed.iter().filter(|(_, size)| *size < SMALL).filter_map(|(name, _)| FileName::parse(name)).collect();
        names.sort_by(|a, b| (&a.day, a.first, &a.hash).cmp(&(&b.day, b.first, &b.hash)));
        for small in names.chunk_by(|a, b| a.day == b.day) {
            if small.first().is_none_or(|name| *name.day >= *today) {
                continue;
            }
            if small.len() > 1 {
                let into = merge(storage, small)?;
                done.files += small.len();
                done.into += into;
            }
        }
    }
    ensure!(has_tables, "{} holds no dataset", storage.name());
    Ok(done)
}

/// Merges files of one table and day. Returns the number of new files.
fn merge(storage: &dyn Storage, names: &[FileName]) -> Result<usize> {
    let mut merged = Merged { storage, names, schema: None, out: None, published: Vec::new(), held: Vec::new() };
    let mut sources = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let place = name.to_string();
        let unreadable = || format!("cannot read {}/{place}", storage.name());
        let Some(file) = storage.open(&place)? else { continue };
        let reader = ParquetReader::new(file).with_context(unreadable)?;
        // Files of another version stay as they are.
        if *merged.schema.get_or_insert_with(|| reader.schema()) != reader.schema() {
            continue;
        }
        for group in 0..reader.groups() {
            merged.hold(&reader, group).with_context(unreadable)?;
            if merged.held_bytes() > HELD_BYTES || merged.rows() > 2 * ROWS {
                let half = merged.rows() / 2;
                merged.write(half)?;
            }
        }
        sources.push(place);
        // No later file has an earlier row.
        if let Some(next) = names.get(index + 1) {
            let ready = merged.before(next.first);
            if ready >= ROWS {
                merged.write(ready)?;
            }
        }
    }
    let rest = merged.rows();
    merged.write(rest)?;
    merged.end_file()?;
    let files = merged.publish(&sources)?;
    finish_earlier(storage)?;
    Ok(files)
}

struct Merged<'s> {
    storage: &'s dyn Storage,
    names: &'s [FileName],
    schema: Option<Arc<SchemaType>>,
    out: Option<Open>,
    /// Files that are whole and have no name yet.
    published: Vec<(FileName, NamedTempFile)>,
    /// Rows in the order of time, column by column.
    held: Vec<Values>,
}

/// A file that is being written.
struct Open {
    writer: Writer<NamedTempFile>,
    first: i64,
    last: i64,
    keys: Vec<u8>,
}

impl Merged<'_> {
    fn column(&self, name: &str) -> Option<&Values> {
        let fields = self.schema.as_ref()?.get_fields();
        self.held.get(fields.iter().position(|field| field.name() == name)?)
    }

    fn rows(&self) -> usize {
        self.held.first().map_or(0, Values::rows)
    }

    fn held_bytes(&self) -> usize {
        self.held.iter().map(Values::size).sum()
    }

    fn time(&self, row: usize) -> i64 {
        self.column("time_ns").and_then(|times| times.number(row)).unwrap_or_default()
    }

    /// Adds the rows of a group, and sorts.
    fn hold(&mut self, reader: &ParquetReader, group: usize) -> Result<()> {
        let more = reader.all(group)?;
        if self.held.is_empty() {
            self.held = more;
        } else {
            self.held.iter_mut().zip(more).for_each(|(values, more)| values.append(more));
        }
        let mut order: Vec<usize> = (0..self.rows()).collect();
        order.sort_by_key(|row| self.time(*row));
        self.held = self.held.iter().map(|values| values.select(&order)).collect();
        Ok(())
    }

    /// The number of rows before a time in microseconds.
    fn before(&self, time: i64) -> usize {
        let rows: Vec<usize> = (0..self.rows()).collect();
        rows.partition_point(|row| micros(self.time(*row)) < time)
    }

    /// Writes the first rows that are held.
    fn write(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let rows = count.min(ROWS);
            let (head, rest): (Vec<usize>, Vec<usize>) = ((0..rows).collect(), (rows..self.rows()).collect());
            let (first, last) = (micros(self.time(0)), micros(self.time(rows - 1)));
            let keys: Vec<u8> = self
                .column("key")
                .map(|keys| head.iter().filter_map(|row| keys.text(*row)).flatten().copied().collect())
                .unwrap_or_default();
            let group: Vec<Values> = self.held.iter().map(|values| values.select(&head)).collect();
            let open = match self.out.take() {
                Some(open) => open,
                None => {
                    let (Some(name), Some(schema)) = (self.names.first(), &self.schema) else { return Ok(()) };
                    let writer = Writer::new(self.storage.create()?, &name.table, schema.clone())?;
                    Open { writer, first, last, keys: Vec::new() }
                }
            };
            let open = self.out.insert(open);
            open.writer.group(&group).with_context(|| format!("cannot write to {}", self.storage.name()))?;
            (open.first, open.last) = (open.first.min(first), open.last.max(last));
            // The hash of the keys so far, so that a file's name follows from all of them.
            open.keys.extend(keys);
            open.keys = keys::key(&[&open.keys]).0.to_le_bytes().to_vec();
            let is_full = open.writer.bytes() >= LARGE;
            self.held = self.held.iter().map(|values| values.select(&rest)).collect();
            count -= rows;
            if is_full {
                self.end_file()?;
            }
        }
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        let (Some(open), Some(name)) = (self.out.take(), self.names.first()) else { return Ok(()) };
        let hash = keys::key(&[&open.keys]).to_string();
        let mut name = FileName { first: open.first, last: open.last, hash, ..name.clone() };
        if self.names.iter().any(|other| other.host != name.host) {
            name = name.of_all();
        }
        let file = open.writer.finish().with_context(|| format!("cannot write to {}", self.storage.name()))?;
        self.published.push((name, file));
        Ok(())
    }

    /// Gives the merged files their names. A note says what they replace.
    fn publish(self, sources: &[String]) -> Result<usize> {
        let files: Vec<String> = self.published.iter().map(|(name, _)| name.to_string()).collect();
        let sources = sources.iter().filter(|source| !files.contains(source)).cloned().collect();
        let hash = keys::key(&[files.join("\n").as_bytes()]);
        let mut note = self.storage.create()?;
        let replacement = serde_json::to_vec(&Replacement { files, sources })?;
        note.write_all(&replacement).context("cannot write a temporary file")?;
        self.storage.publish(&format!("{OWN}{NOTES}{hash}.json"), note)?;
        let count = self.published.len();
        for (name, file) in self.published {
            self.storage.publish(&name.to_string(), file)?;
        }
        Ok(count)
    }
}

/// The note about files that replace others.
#[derive(Serialize, Deserialize)]
struct Replacement {
    files: Vec<String>,
    sources: Vec<String>,
}

/// Ends replacements that have a note: if all new files are there, their sources are removed, else
/// the new files.
fn finish_earlier(storage: &dyn Storage) -> Result<()> {
    for (note, _) in storage.list(&format!("{OWN}{NOTES}"), "")? {
        let unreadable = || format!("cannot read {}/{note}", storage.name());
        let Some(mut file) = storage.open(&note)? else { continue };
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(unreadable)?;
        let Replacement { files, sources } = serde_json::from_str(&text).with_context(unreadable)?;
        let is_there = |name: &String| {
            let (folder, file) = name.rsplit_once('/').unwrap_or_default();
            Ok::<_, anyhow::Error>(!storage.list(&format!("{folder}/"), file)?.is_empty())
        };
        let mut is_whole = true;
        for name in &files {
            is_whole = is_whole && is_there(name)?;
        }
        // Only files of tables: a note that somebody else wrote removes nothing else.
        let gone = if is_whole { sources } else { files };
        for name in gone.iter().filter(|name| FileName::parse(name).is_some()) {
            storage.remove(name)?;
        }
        storage.remove(&note)?;
    }
    Ok(())
}
