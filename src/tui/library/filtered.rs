//! A filter's way through a session, slice by slice: the first matches are shown while the rest is searched.

use anyhow::Result;

use super::super::data::PAGE;
use crate::decode::exchange::Exchange;
use crate::filter::{Filter, Row};
use crate::mcp::{Session, SessionNumber};
use crate::store::{Key, MessageRow, Page, Reader, Scope};

/// Messages of a slice: some milliseconds of work.
const SLICE: usize = 512;

/// Positions that a filter let through, as far as it went.
pub(super) struct Matches {
    session: SessionNumber,
    text: String,
    filter: Filter,
    positions: Vec<u64>,
    /// The first position that was not looked at.
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
        let rows = reader.message_rows_at(self.session, self.next, SLICE)?;
        let Some(last) = rows.last() else {
            self.complete = true;
            return Ok(());
        };
        let session = reader.session(self.session)?;
        let mut exchange = None;
        for row in &rows {
            if self.lets_through(reader, row, session.as_ref(), &mut exchange)? {
                self.positions.push(row.position);
            }
        }
        self.next = last.position + 1;
        self.complete = rows.len() < SLICE;
        Ok(())
    }

    fn lets_through(
        &self,
        reader: &Reader,
        row: &MessageRow,
        session: Option<&Session>,
        last: &mut Option<Exchange>,
    ) -> Result<bool> {
        let page = Page::from(Key::new(row.capture, row.number.0), 1);
        let Some(message) = reader.messages(Scope::Capture(row.capture), page)?.pop() else { return Ok(false) };
        if let Some(number) = row.exchange
            && last.as_ref().is_none_or(|exchange| exchange.number != number)
        {
            *last = reader.exchange(row.capture, number)?;
        }
        let exchange = last.as_ref().filter(|exchange| Some(exchange.number) == row.exchange);
        let tool = row.subject.as_deref().filter(|_| row.method.as_deref() == Some("tools/call"));
        let answered = row.answered_by.is_some();
        Ok(self.filter.matches(&Row { message: &message, tool, answered, session, exchange, findings: &message.findings }))
    }
}
