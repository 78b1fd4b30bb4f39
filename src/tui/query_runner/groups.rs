//! Groups of rows: the members of a batch, or the messages of an operation. The first row
//! represents the group when it is folded.

use std::collections::BTreeMap;

use anyhow::Result;

use super::QueryRunner;
use crate::mcp::SessionNumber;
use crate::store::{MessageRow, Scope};

/// Limit of the groups that are folded at once, and of the members of one.
const MOST: usize = 100_000;

/// Messages that are read at once.
const SLICE: usize = 1_024;

impl QueryRunner {
    /// The group of a row; empty if the row belongs to none.
    pub(super) fn group(&mut self, session: SessionNumber, filter: &str, row: usize) -> Result<Vec<Vec<usize>>> {
        let Some(position) = self.position(session, filter, row)? else { return Ok(Vec::new()) };
        let Some(own) = self.reader.message_rows_at(session, position, 1)?.pop() else { return Ok(Vec::new()) };
        let Some((batch, index)) = own.batch else {
            let Some(operation) = own.operation else { return Ok(Vec::new()) };
            let positions = self.operations(session, &format!("operation = {}", operation.0))?;
            return self.listed(session, filter, positions.into_values());
        };
        // Members of a batch are neighbours: they come from one text.
        let first = position.saturating_sub(index as u64).max(1);
        let mut members = Vec::new();
        let mut next = first;
        'batch: loop {
            let rows = self.reader.message_rows_at(session, next, SLICE)?;
            let Some(last) = rows.last() else { break };
            next = last.position + 1;
            for member in &rows {
                match member.batch {
                    Some((other, _)) if other == batch => members.push(member.position),
                    // A member before this one may belong to another session.
                    _ if member.position < position => members.clear(),
                    _ => break 'batch,
                }
            }
        }
        self.listed(session, filter, [members])
    }

    /// All groups of a list.
    pub(super) fn groups(&mut self, session: SessionNumber, filter: &str) -> Result<Vec<Vec<usize>>> {
        let batches = crate::filter::Filter::parse("batch")?;
        let mut groups: Vec<(u64, Vec<u64>)> = Vec::new();
        for row in self.reader.all_matching(&batches, Scope::Session(session)) {
            let MessageRow { position, batch: Some((batch, _)), .. } = row? else { continue };
            let is_full = groups.len() == MOST;
            match groups.last_mut() {
                Some((own, positions)) if *own == batch => positions.push(position),
                _ if is_full => break,
                _ => groups.push((batch, vec![position])),
            }
        }
        let operations = self.operations(session, "operation and not batch")?;
        self.listed(session, filter, groups.into_iter().map(|(_, positions)| positions).chain(operations.into_values()))
    }

    /// The positions of the messages that a filter selects, by their operation.
    fn operations(&mut self, session: SessionNumber, which: &str) -> Result<BTreeMap<u64, Vec<u64>>> {
        let which = crate::filter::Filter::parse(which)?;
        let mut operations: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for row in self.reader.all_matching(&which, Scope::Session(session)).take(MOST) {
            let row = row?;
            if let Some(operation) = row.operation {
                operations.entry(operation.0).or_default().push(row.position);
            }
        }
        Ok(operations)
    }

    /// The rows of groups. A group with fewer than two rows in the list is left out.
    fn listed(
        &mut self,
        session: SessionNumber,
        filter: &str,
        groups: impl IntoIterator<Item = Vec<u64>>,
    ) -> Result<Vec<Vec<usize>>> {
        let mut listed = Vec::new();
        for positions in groups {
            let rows = self.rows(session, filter, positions)?;
            if rows.len() > 1 {
                listed.push(rows);
            }
        }
        Ok(listed)
    }

    /// The position of the message in a row of a list.
    pub(super) fn position(&mut self, session: SessionNumber, filter: &str, row: usize) -> Result<Option<u64>> {
        if filter.is_empty() {
            return Ok(Some(row as u64 + 1));
        }
        Ok(self.matches(session, filter)?.position_of(row))
    }

    /// The rows of positions. Positions outside of the list are left out.
    pub(super) fn rows(&mut self, session: SessionNumber, filter: &str, positions: Vec<u64>) -> Result<Vec<usize>> {
        if filter.is_empty() {
            return Ok(positions.into_iter().map(|position| position as usize - 1).collect());
        }
        let matches = self.matches(session, filter)?;
        Ok(positions.into_iter().filter_map(|position| matches.row_of(position)).collect())
    }
}
