//! A filter's way through a session, slice by slice: the first matches are shown while the rest is searched.

use anyhow::Result;

use super::super::data::PAGE;
use crate::filter::Filter;
use crate::mcp::{MessageNumber, SessionNumber};
use crate::store::{Key, Page, Reader, Scope};

/// Message numbers of a slice: some milliseconds of work where a filter asks for columns, some tens where it reads texts.
const SLICE: u64 = 8_192;

/// Positions that a filter let through, as far as it went.
pub(super) struct Matches {
    session: SessionNumber,
    text: String,
    filter: Filter,
    positions: Vec<u64>,
    /// The first number that was not looked at.
    next: u64,
    complete: bool,
}

impl Matches {
    pub(super) fn new(session: SessionNumber, text: &str) -> Result<Matches> {
        let filter = Filter::parse(text)?;
        Ok(Matches { session, text: text.to_owned(), filter, positions: Vec::new(), next: 1, complete: false })
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

    /// The positions of a page.
    pub(super) fn page(&self, page: usize) -> Vec<u64> {
        self.page_from(page * PAGE)
    }

    /// The positions of a page that begins at this row.
    pub(super) fn page_from(&self, row: usize) -> Vec<u64> {
        self.positions.iter().skip(row).take(PAGE).copied().collect()
    }

    /// The row of a position.
    pub(super) fn row_of(&self, position: u64) -> Option<usize> {
        self.positions.binary_search(&position).ok()
    }

    /// The next slice.
    pub(super) fn search_on(&mut self, reader: &Reader) -> Result<()> {
        let scope = Scope::Session(self.session);
        let Some(last) = reader.message_rows(scope, Page::last(1))?.pop() else {
            self.complete = true;
            return Ok(());
        };
        if self.next == 1 {
            let first = reader.message_rows(scope, Page::first(1))?.pop();
            self.next = first.map_or(1, |first| first.number.0);
        }
        let MessageNumber(end) = last.number;
        let to = end.min(self.next + SLICE - 1);
        if self.next <= end {
            let slice = (Key::new(last.capture, self.next), Key::new(last.capture, to));
            let found = reader.matching_within(&self.filter, scope, slice)?;
            self.positions.extend(found.into_iter().map(|row| row.position));
            self.next = to + 1;
        }
        self.complete = self.next > end;
        Ok(())
    }
}
