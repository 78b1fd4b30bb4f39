//! The full-text index: it tells where a word cannot be, so that a search reads few texts.
//!
//! ```text
//!  texts, in order of their keys: │ block │ block │ ... │ 8 KiB of text each, whole messages
//!  section: up to 2,048 blocks, and for each trigram the blocks that have it
//!
//!  word ─► trigrams ─► blocks that have all of them ─► their texts are searched as without index
//! ```
//!
//! The index only excludes, so it cannot change which messages match. Messages outside of all
//! sections are searched one by one: those of a recording that goes on, the latest ones, and all
//! of a database that was never indexed.
//!
//! A section covers a range of keys in which no message can appear later. Messages come in order of
//! their keys within a capture, so all messages of a capture so far are such a range. Other
//! captures may follow in the section only if it is complete.
//!
//! [`TextIndexer`] makes sections in short steps. No recorder calls it. Deleting a session removes
//! the sections that overlap its capture. They are made again later. Masking changes no text of a
//! message, so the index stays.

mod build;
mod section;
#[cfg(test)]
mod tests;
mod trigrams;

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};

use super::{CaptureId, RowKey};
use crate::filter::{Expr, Filter};
pub use build::TextIndexer;
use section::{BlockSet, Blocks};

/// Ranges of keys, both ends included, in order.
pub(super) type KeyRanges = Vec<(i64, i64)>;

/// The ranges that may contain matches of the last filter that was asked for.
#[derive(Debug, Default)]
pub(super) struct CandidateCache(RefCell<Option<(String, IndexState, Arc<KeyRanges>)>>);

/// The number of sections and the last of them. As long as it is the same, ranges that were found
/// before are as small as they can be.
type IndexState = (i64, i64);

impl CandidateCache {
    /// The ranges of keys that may contain matches. `None`: the index does not help this filter.
    pub(super) fn candidates(&self, db: &Connection, filter: &Filter) -> Result<Option<Arc<KeyRanges>>> {
        let trigrams = needed_trigrams(filter.expression());
        if trigrams.is_empty() {
            return Ok(None);
        }
        let state = "SELECT count(*), coalesce(max(first), 0) FROM text_section";
        let state: IndexState = db.prepare_cached(state)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let text = filter.to_string();
        if state.0 == 0 {
            return Ok(None);
        }
        if let Some((known, then, ranges)) = &*self.0.borrow()
            && *known == text
            && *then == state
        {
            return Ok(Some(Arc::clone(ranges)));
        }
        let ranges = Arc::new(candidates(db, &trigrams)?);
        *self.0.borrow_mut() = Some((text, state, Arc::clone(&ranges)));
        Ok(Some(ranges))
    }
}

/// The trigrams that every text has which matches the expression.
fn needed_trigrams(expression: &Expr) -> Vec<u32> {
    let mut all = match expression {
        Expr::Text(search) => trigrams::of_word(search.word()),
        Expr::All(terms) => terms.iter().flat_map(needed_trigrams).collect(),
        _ => Vec::new(),
    };
    all.sort_unstable();
    all.dedup();
    all
}

fn candidates(db: &Connection, trigrams: &[u32]) -> Result<KeyRanges> {
    // In one transaction: a section and its postings belong together.
    let transaction = db.unchecked_transaction()?;
    let mut ranges = KeyRanges::new();
    let mut next = 0;
    let mut sections = transaction.prepare_cached("SELECT first, last, blocks FROM text_section ORDER BY first")?;
    let mut rows = sections.query([])?;
    while let Some(row) = rows.next()? {
        let (first, last): (i64, i64) = (row.get(0)?, row.get(1)?);
        let blocks = Blocks::read(row.get_ref(2)?.as_blob()?, first)?;
        add(&mut ranges, (next, first.saturating_sub(1)));
        let mut found = BlockSet::all(blocks.len());
        for trigram in trigrams {
            let row = postings_row(&transaction, first, *trigram)?;
            found.retain(row.as_ref().map(|(start, row)| (*start, row.as_slice())), *trigram)?;
            if found.is_empty() {
                break;
            }
        }
        blocks.ranges(&found).for_each(|range| add(&mut ranges, range));
        next = last.saturating_add(1);
    }
    add(&mut ranges, (next, i64::MAX));
    Ok(ranges)
}

/// Adds a range, and joins it with the last one if nothing is between them.
fn add(ranges: &mut KeyRanges, (first, last): (i64, i64)) {
    match ranges.last_mut() {
        Some((_, end)) if end.saturating_add(1) >= first => *end = last.max(*end),
        _ if first <= last => ranges.push((first, last)),
        _ => {}
    }
}

/// The row of a section that has the postings of a trigram, and the first trigram in it.
fn postings_row(db: &Connection, section: i64, trigram: u32) -> Result<Option<(u32, Vec<u8>)>> {
    let sql = "SELECT trigram, postings FROM text_posting WHERE section = ? AND trigram <= ?
        ORDER BY trigram DESC LIMIT 1";
    let mut select = db.prepare_cached(sql)?;
    Ok(select.query_row(params![section, trigram], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// The parts of ranges that are inside of `(first, last)`.
pub(super) fn inside(ranges: &[(i64, i64)], (first, last): (i64, i64)) -> impl DoubleEndedIterator<Item = (i64, i64)> {
    let from = ranges.partition_point(|range| range.1 < first);
    let to = ranges.partition_point(|range| range.0 <= last);
    let inside = ranges.get(from..to).unwrap_or_default();
    inside.iter().map(move |range| (range.0.max(first), range.1.min(last)))
}

/// Removes a section that overlaps a capture. Returns the number of removed sections.
pub(super) fn forget_one(db: &Connection, capture: CaptureId) -> Result<usize> {
    let (first, last) = RowKey::all(capture);
    let sql = "SELECT first FROM text_section WHERE first <= ? AND last >= ? LIMIT 1";
    let Some(section) = db.prepare_cached(sql)?.query_row([last, first], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(0);
    };
    db.prepare_cached("DELETE FROM text_posting WHERE section = ?")?.execute([section])?;
    Ok(db.prepare_cached("DELETE FROM text_section WHERE first = ?")?.execute([section])?)
}
