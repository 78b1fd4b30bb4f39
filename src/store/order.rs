//! Positions in time order.
//!
//! Messages get their positions as they arrive. A message that waited for another one (see
//! `core/pipeline/arrivals.rs`) arrives after later ones. While a capture is recorded, positions
//! stay, so a view that follows it misses and repeats nothing. When the capture ends, the messages
//! of such a session get their positions in the order of their times, then numbers.

use std::collections::BTreeSet;

use rusqlite::Connection;

/// Sessions that may wait for their order. More are put in order at once, because the end of the
/// capture may be far away.
const WAITING: usize = 4_096;

/// The sessions (rows of the database) in which a message arrived after a later one.
#[derive(Debug, Default)]
pub(super) struct UnorderedSessions(BTreeSet<i64>);

impl UnorderedSessions {
    pub(super) fn add(&mut self, session: i64) {
        self.0.insert(session);
    }

    /// Puts the sessions in order: at the end of the capture, or if too many wait.
    pub(super) fn put_in_order(&self, db: &Connection, is_end: bool) -> rusqlite::Result<()> {
        if !is_end && self.0.len() <= WAITING {
            return Ok(());
        }
        let mut statement = db.prepare_cached(
            "UPDATE message SET position = sorted.position
             FROM (SELECT id, row_number() OVER (ORDER BY time, id) AS position FROM message WHERE session = ?) AS sorted
             WHERE message.id = sorted.id AND message.position <> sorted.position",
        )?;
        for session in &self.0 {
            statement.execute([session])?;
        }
        Ok(())
    }

    /// Forgets the sessions that were put in order, after their transaction.
    pub(super) fn written(&mut self) {
        if self.0.len() > WAITING {
            self.0.clear();
        }
    }
}
