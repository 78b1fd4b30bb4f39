//! The lines that a wrapped server wrote to stderr, page by page.
//!
//! Lines are spread over all packets of the pipes. The index stores where each page begins and
//! where the last scan ended. So a live session is scanned once, and a page is found at once.

use anyhow::Result;

use super::super::data::{PAGE, Rows};
use crate::mcp::SessionNumber;
use crate::store::{LinePosition, SessionPipes, StderrLine, StoreReader};

/// An index of the lines of a session.
pub(super) struct StderrIndex {
    session: SessionNumber,
    pipes: SessionPipes,
    /// The position at which each page begins.
    pages: Vec<LinePosition>,
    /// The number of complete lines.
    total: usize,
    /// The position after the last complete line.
    end: LinePosition,
}

impl StderrIndex {
    /// The index of a session; `None` if it has no pipes.
    pub(super) fn new(reader: &StoreReader, session: SessionNumber) -> Result<Option<StderrIndex>> {
        let start = LinePosition::default();
        Ok(reader.pipes(session)?.map(|pipes| StderrIndex { session, pipes, pages: vec![start], total: 0, end: start }))
    }

    pub(super) fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// A page of lines. The last line may be incomplete.
    pub(super) fn page(&mut self, reader: &StoreReader, page: usize) -> Result<Rows<StderrLine>> {
        let unfinished = self.scan_new_packets(reader)?;
        let mut rows = Vec::new();
        if let Some(from_position) = self.pages.get(page) {
            reader.visit_stderr(self.pipes, *from_position, &mut |line, _| {
                rows.push(line);
                rows.len() < PAGE
            })?;
        }
        Ok(Rows { rows, total: self.total + usize::from(unfinished), complete: true })
    }

    /// Scans new packets for lines. Returns whether the last line is incomplete.
    fn scan_new_packets(&mut self, reader: &StoreReader) -> Result<bool> {
        let mut unfinished = false;
        reader.visit_stderr(self.pipes, self.end, &mut |_, next_line| {
            match next_line {
                Some(next_line) => {
                    self.total += 1;
                    self.end = next_line;
                    if self.total.is_multiple_of(PAGE) {
                        self.pages.push(next_line);
                    }
                }
                None => unfinished = true,
            }
            true
        })?;
        Ok(unfinished)
    }
}
