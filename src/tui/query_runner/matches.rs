//! A filter applied to a session slice by slice. The first matches are shown while the
//! rest is searched.

use std::thread;

use anyhow::{Result, bail};

use super::super::data::PAGE;
use crate::filter::Filter;
use crate::mcp::SessionNumber;
use crate::store::{MessageRow, RowKey, Scope, StoreReader};

/// Message numbers of a slice: some milliseconds for filters on columns, some tens for
/// filters on texts.
const SLICE: u64 = 8_192;

/// The positions that a filter selects, as far as it was applied.
pub(super) struct Matches {
    session: SessionNumber,
    text: String,
    filter: Filter,
    positions: Vec<u64>,
    /// The first and the last message of the session, as far as known.
    range: Option<(RowKey, RowKey)>,
    /// The first message number that was not searched.
    next: u64,
    complete: bool,
}

impl Matches {
    pub(super) fn new(session: SessionNumber, text: &str) -> Result<Matches> {
        let filter = Filter::parse(text)?;
        Ok(Matches {
            session,
            text: text.to_owned(),
            filter,
            positions: Vec::new(),
            range: None,
            next: 1,
            complete: false,
        })
    }

    pub(super) fn is_of(&self, session: SessionNumber, text: &str) -> bool {
        self.session == session && self.text == text
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    pub(super) fn more_may_follow(&mut self) {
        self.complete = false;
    }

    /// The positions in a page.
    pub(super) fn page(&self, page: usize) -> Vec<u64> {
        self.positions.iter().skip(page * PAGE).take(PAGE).copied().collect()
    }

    /// The position of a row.
    pub(super) fn position_of(&self, row: usize) -> Option<u64> {
        self.positions.get(row).copied()
    }

    /// The row of a position.
    pub(super) fn row_of(&self, position: u64) -> Option<usize> {
        self.positions.binary_search(&position).ok()
    }

    /// Searches the next slices, one for each reader, in parallel.
    pub(super) fn search_on(&mut self, reader: &StoreReader, others: &mut [StoreReader]) -> Result<()> {
        let scope = Scope::Session(self.session);
        let is_searched = |(_, last): &(RowKey, RowKey)| self.next > last.number();
        if self.range.as_ref().is_none_or(is_searched) {
            self.range = reader.number_range(self.session)?;
        }
        let Some((first, last)) = self.range else {
            self.complete = true;
            return Ok(());
        };
        self.next = self.next.max(first.number());
        let (capture, end) = (last.capture(), last.number());
        let filter = &self.filter;
        let search = |reader: &StoreReader, first: u64| {
            let slice = (RowKey::new(capture, first), RowKey::new(capture, end.min(first + SLICE - 1)));
            reader.matching_within(filter, scope, slice)
        };
        let (own, rest) = (self.next, (1..).map(|slice| self.next + slice * SLICE));
        let found: Vec<Vec<MessageRow>> = thread::scope(|scope| {
            let search = &search;
            let others = others.iter_mut().zip(rest.take_while(|first| *first <= end));
            let others: Vec<_> = others.map(|(reader, first)| scope.spawn(move || search(reader, first))).collect();
            let own = if own <= end { search(reader, own)? } else { Vec::new() };
            let others = others.into_iter().map(|other| other.join().unwrap_or_else(|_| bail!("a search ended early")));
            std::iter::once(Ok(own)).chain(others).collect::<Result<_>>()
        })?;
        self.next = end.min(self.next + found.len() as u64 * SLICE - 1) + 1;
        self.positions.extend(found.into_iter().flatten().map(|row| row.position));
        // Numbers and positions have nearly the same order.
        if !self.positions.is_sorted() {
            self.positions.sort_unstable();
        }
        self.complete = self.next > end;
        Ok(())
    }
}
