//! Pinning and deleting sessions, and giving back their space, while others read and write.
//!
//! ```text
//!  delete ─► mark: no view shows it ─► erase its rows ─► remove it ─► give_back
//!            one transaction           many steps        last step    many steps
//! ```
//!
//! A step is a short transaction. After it the database is free for as long as the step took, so
//! that a recording never waits long. Each step leaves the database consistent. If the program is
//! killed, the session stays marked and the next deletion finishes it.

mod erase;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::migrate::INCREMENTAL;
use super::record::capture;
use super::{CaptureId, DatabaseFile, migrate};
use crate::mcp::SessionNumber;
use crate::source::now;

/// The sessions that are being deleted, as a subquery. No view shows them.
pub(super) const HIDDEN: &str = "(SELECT id FROM session WHERE deleting)";

/// The time after which a step ends. A recording waits up to 5 seconds, and commits once a second.
const STEP: Duration = Duration::from_millis(10);

/// The time for which a step waits for other writers.
const BUSY: Duration = Duration::from_secs(5);

/// Bytes up to which a database of an older version is rewritten to give space back. Others cannot
/// write meanwhile. A recording that begins then waits five seconds at least.
const REWRITTEN: u64 = 256 << 20;

/// The result of a deletion for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was deleted.
    Deleted,
    /// It stays, because its capture is still being written.
    Live,
    /// It stays, because it is pinned.
    Pinned,
    /// It does not exist, or another program is deleting it.
    Missing,
}

/// The space of a database file, after a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes by which the file was shortened.
    pub given_back: u64,
    /// Bytes inside the file that new recordings will use.
    pub free: u64,
}

/// A connection that changes which sessions a database holds.
pub struct Maintenance {
    // Declared before the file, so that it is closed before a temporary file is removed.
    db: Connection,
    place: DatabaseFile,
}

impl Maintenance {
    /// Opens a database.
    pub fn open(place: impl Into<DatabaseFile>) -> anyhow::Result<Maintenance> {
        let place = place.into();
        let db = migrate::open_writer(&place, BUSY)?;
        // Rows go before those that they refer to. Some checks would read a whole table for a row.
        db.pragma_update(None, "foreign_keys", false)?;
        Ok(Maintenance { db, place })
    }

    /// Pins a session, or unpins it. Returns false if it does not exist.
    pub fn pin(&mut self, session: SessionNumber, pinned: bool) -> anyhow::Result<bool> {
        let sql = "UPDATE session SET pinned = ? WHERE id = ? AND NOT deleting";
        let changed = self.db.execute(sql, params![pinned, session.0]).with_context(|| self.refused())?;
        Ok(changed > 0)
    }

    /// Finishes deletions that were interrupted. Returns the number of their sessions.
    pub fn resume(&mut self) -> anyhow::Result<u64> {
        let mut finished = 0;
        let next = "SELECT capture, count(*) FROM session WHERE deleting AND capture > ? GROUP BY capture LIMIT 1";
        let mut last = 0;
        loop {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?));
            let Some((capture, sessions)) = self.db.query_row(next, [last], row).optional()? else {
                return Ok(finished);
            };
            erase::erase(&self.db, CaptureId(capture)).with_context(|| self.refused())?;
            (last, finished) = (capture, finished + sessions as u64);
        }
    }

    /// Deletes sessions, capture by capture, and reports the fate of each.
    pub fn delete(
        &mut self,
        sessions: &[SessionNumber],
        mut report: impl FnMut(SessionNumber, Fate),
    ) -> anyhow::Result<()> {
        let mut captures: BTreeMap<CaptureId, Vec<SessionNumber>> = BTreeMap::new();
        for session in sessions {
            let capture = "SELECT capture FROM session WHERE id = ?";
            match self.db.query_row(capture, [session.0], |row| row.get(0)).optional()? {
                Some(capture) => captures.entry(CaptureId(capture)).or_default().push(*session),
                None => report(*session, Fate::Missing),
            }
        }
        for (capture, sessions) in captures {
            let fates = self.mark(capture, &sessions).with_context(|| self.refused())?;
            if fates.contains(&Fate::Deleted) {
                erase::erase(&self.db, capture).with_context(|| self.refused())?;
            }
            sessions.into_iter().zip(fates).for_each(|(session, fate)| report(session, fate));
        }
        Ok(())
    }

    /// Marks the sessions of a capture that may be deleted.
    fn mark(&mut self, capture: CaptureId, sessions: &[SessionNumber]) -> anyhow::Result<Vec<Fate>> {
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = format!("SELECT {} FROM capture WHERE id = ?", capture::COLUMNS);
        let row = transaction.prepare_cached(&sql)?.query_and_then([capture.0], capture::read)?.next().transpose()?;
        let is_live = row.is_some_and(|capture| capture.is_live(now()));
        let mut fates = Vec::with_capacity(sessions.len());
        for session in sessions {
            let pinned = transaction
                .prepare_cached("SELECT pinned FROM session WHERE id = ? AND NOT deleting")?
                .query_row([session.0], |row| row.get::<_, bool>(0))
                .optional()?;
            fates.push(match pinned {
                None => Fate::Missing,
                Some(true) => Fate::Pinned,
                Some(false) if is_live => Fate::Live,
                Some(false) => {
                    transaction.prepare_cached("UPDATE session SET deleting = 1 WHERE id = ?")?.execute([session.0])?;
                    Fate::Deleted
                }
            });
        }
        transaction.commit()?;
        Ok(fates)
    }

    /// Gives the free space of the file back to the disk.
    pub fn give_back(&mut self) -> anyhow::Result<Space> {
        let before = self.pages("page_count")?;
        let mut given_back = 0;
        if self.db.pragma_query_value(None, "auto_vacuum", |row| row.get::<_, i64>(0))? == INCREMENTAL {
            let mut steps = Steps::new(&self.db);
            steps.run(|db| {
                let before: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
                // It frees a page for each row that is read.
                let mut vacuum = db.prepare_cached("PRAGMA incremental_vacuum(16)")?;
                let mut rows = vacuum.query([])?;
                while rows.next()?.is_some() {}
                let after: i64 = db.pragma_query_value(None, "page_count", |row| row.get(0))?;
                given_back += u64::try_from(before - after).unwrap_or_default();
                Ok(usize::try_from(before - after).unwrap_or_default())
            })?;
            steps.finish()?;
        } else if self.may_be_rewritten()? {
            self.rewrite()?;
            given_back = before.saturating_sub(self.pages("page_count")?);
        }
        // The file gets shorter when all changes are copied into it. This waits for nobody: if
        // others still read old pages, a later commit does it.
        self.db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
        let page_size = self.pages("page_size")?;
        Ok(Space { given_back: given_back * page_size, free: self.pages("freelist_count")? * page_size })
    }

    /// Whether this is the only program that has the file open, and its content is small.
    fn may_be_rewritten(&mut self) -> anyhow::Result<bool> {
        let used = self.pages("page_count")?.saturating_sub(self.pages("freelist_count")?);
        if used * self.pages("page_size")? > REWRITTEN {
            return Ok(false);
        }
        // Only the last user of a database can end its journal mode.
        self.db.busy_timeout(Duration::ZERO)?;
        let is_alone = self.db.pragma_update(None, "journal_mode", "DELETE").is_ok();
        self.db.busy_timeout(BUSY)?;
        migrate::use_wal(&self.db, BUSY)?;
        Ok(is_alone)
    }

    /// Rewrites the file. From then on it can be shortened in small steps.
    fn rewrite(&mut self) -> anyhow::Result<()> {
        self.db.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
        let rewritten = self.db.execute_batch("VACUUM").map_err(anyhow::Error::from);
        // If another program writes by now, free pages are used again.
        rewritten.or_else(|error| if migrate::may_pass(&error) { Ok(()) } else { Err(error) })
    }

    fn pages(&self, pragma: &str) -> rusqlite::Result<u64> {
        self.db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map(|pages| pages as u64)
    }

    fn refused(&self) -> String {
        format!("cannot change the database {}", self.place.path().display())
    }
}

/// Short transactions with pauses.
struct Steps<'db> {
    db: &'db Connection,
    open: Option<(Transaction<'db>, Instant)>,
}

impl<'db> Steps<'db> {
    fn new(db: &'db Connection) -> Steps<'db> {
        Steps { db, open: None }
    }

    /// Calls `change` until it returns 0, the number of rows that it changed.
    fn run(&mut self, mut change: impl FnMut(&Connection) -> anyhow::Result<usize>) -> anyhow::Result<()> {
        loop {
            let (transaction, begun) = match self.open.take() {
                Some(open) => open,
                None => (Transaction::new_unchecked(self.db, TransactionBehavior::Immediate)?, Instant::now()),
            };
            let changed = change(&transaction)?;
            if begun.elapsed() < STEP {
                self.open = Some((transaction, begun));
            } else {
                transaction.commit()?;
                // Writers that were kept waiting try again after up to 100 ms. In as much time as
                // this step took, one of two attempts succeeds.
                thread::sleep(begun.elapsed());
            }
            if changed == 0 {
                return Ok(());
            }
        }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.open.take().map_or(Ok(()), |(transaction, _)| Ok(transaction.commit()?))
    }
}
