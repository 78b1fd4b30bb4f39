//! Making sections, a step at a time, beside recordings.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::section::{FinishedSection, MOST_BLOCKS, SectionBuilder};
use crate::source::now;
use crate::store::record::capture;
use crate::store::spill::spill_files;
use crate::store::text::Text;
use crate::store::{CaptureId, DatabaseFile, RowKey, migrate};

/// The time for which a step waits for other writers.
const BUSY: Duration = Duration::from_secs(5);

/// The time after which new texts are looked for.
const PAUSE: Duration = Duration::from_secs(60);

/// The time between two looks at whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// Sizes of blocks and sections.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionSizes {
    /// Bytes of text in a block. Measured with texts of 2 KB: in blocks of 8 KiB a word selects
    /// 2 to 3 percent of the blocks without it. Smaller blocks take more space.
    pub(super) block: usize,
    /// A block with more trigrams than one for so many bytes is not indexed: its texts are no
    /// language, and would have postings as large as they are.
    pub(super) bytes_a_trigram: usize,
    /// Bytes of text in a section. A section takes 40 MB of memory while it is made.
    pub(super) most: usize,
    /// Fewer bytes of text are not worth a section. They are searched within 10 ms.
    pub(super) least: usize,
}

const SIZES: SectionSizes = SectionSizes { block: 8 << 10, bytes_a_trigram: 3, most: 16 << 20, least: 4 << 20 };

/// Makes the full-text index of a database.
///
/// Each step reads some megabytes of texts, without a lock, and writes one section in a short
/// transaction. Several programs may do this at once.
pub struct TextIndexer {
    // Declared before the file, so that it is closed before a temporary file is removed.
    db: Connection,
    place: DatabaseFile,
    sizes: SectionSizes,
    builder: SectionBuilder,
    /// The key from which on texts have to be looked at.
    next: i64,
}

/// A part of the key range without a section, both ends included.
type KeyGap = (i64, i64);

impl TextIndexer {
    /// Opens a database.
    pub fn open(place: impl Into<DatabaseFile>) -> Result<TextIndexer> {
        TextIndexer::with_sizes(place.into(), SIZES)
    }

    pub(super) fn with_sizes(place: DatabaseFile, sizes: SectionSizes) -> Result<TextIndexer> {
        let db = migrate::open_writer(&place, BUSY)?;
        Ok(TextIndexer { db, place, sizes, builder: SectionBuilder::new(sizes.block, sizes.bytes_a_trigram), next: 0 })
    }

    /// Makes sections until `stop` is set, and looks for new texts once a minute. It works half of
    /// the time, so that it takes no more than half a core and recorders can write between steps.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let pause = if self.step()?.is_some() { begun.elapsed() } else { PAUSE };
            let end = Instant::now() + pause;
            while Instant::now() < end && !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
            }
        }
        Ok(())
    }

    /// Makes the next section. Returns the bytes of its texts; `None` if nothing is left that is
    /// worth a section. Texts that are recorded later are the work of later steps.
    pub fn step(&mut self) -> Result<Option<u64>> {
        while let Some(gap) = self.next_gap()? {
            let sessions = self.sessions()?;
            let end = self.fill(gap)?;
            let bytes = self.builder.bytes;
            let section = self.builder.finish().filter(|_| bytes >= self.sizes.least);
            self.next = end;
            if let Some(section) = section
                && self.write(&section, sessions)?
            {
                return Ok(Some(bytes as u64));
            }
        }
        // The next step begins again: a deletion may have made a gap.
        self.next = 0;
        Ok(None)
    }

    /// The first part without a section in which there are texts.
    fn next_gap(&self) -> Result<Option<KeyGap>> {
        let mut first = self.next;
        let mut sections =
            self.db.prepare_cached("SELECT first, last FROM text_section WHERE last >= ? ORDER BY first")?;
        let mut rows = sections.query([first])?;
        let mut text =
            self.db.prepare_cached("SELECT id FROM message_text WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1")?;
        loop {
            let section = rows.next()?.map(|row| Ok::<_, rusqlite::Error>((row.get(0)?, row.get(1)?))).transpose()?;
            let (start, after) = section.unwrap_or((i64::MAX, i64::MAX));
            let last: i64 = if section.is_some() { start.saturating_sub(1) } else { i64::MAX };
            if let Some(key) = text.query_row([first, last], |row| row.get(0)).optional()? {
                return Ok(Some((key, last)));
            }
            if section.is_none() {
                return Ok(None);
            }
            first = first.max(after.saturating_add(1));
        }
    }

    /// The largest session and the number of sessions. The end of a deletion changes the number.
    fn sessions(&self) -> Result<(i64, i64)> {
        let sql = "SELECT coalesce(max(id), 0), count(*) FROM session";
        Ok(self.db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
    }

    /// Reads texts from the beginning of a gap until a section is full, the gap ends, or a capture
    /// ends that may get further messages. Returns the key from which on texts are left.
    fn fill(&mut self, (first, last): KeyGap) -> Result<i64> {
        let mut texts = self.db.prepare("SELECT id, text FROM message_text WHERE id BETWEEN ? AND ? ORDER BY id")?;
        let mut rows = texts.query([first, last])?;
        let mut capture = RowKey(first).capture();
        while let Some(row) = rows.next()? {
            let key = RowKey(row.get(0)?);
            let is_full = self.builder.bytes >= self.sizes.most || self.builder.blocks() >= MOST_BLOCKS;
            if is_full || (key.capture() != capture && !self.are_complete(capture, key.capture())?) {
                return Ok(key.0);
            }
            capture = key.capture();
            self.builder.add(key.0, &Text::read(row.get_ref(1)?)?);
        }
        Ok(last.saturating_add(1).max(first))
    }

    /// Whether no further messages can be written to the captures from `first` up to `end`, without
    /// `end`. One that has no messages yet counts too. The spill file of a recorder that was killed
    /// may hold some.
    fn are_complete(&self, first: CaptureId, end: CaptureId) -> Result<bool> {
        let sql = format!("SELECT {} FROM capture WHERE id >= ? AND id < ?", capture::COLUMNS);
        let mut select = self.db.prepare_cached(&sql)?;
        for capture in select.query_and_then([first.0, end.0], capture::read)? {
            let capture = capture?;
            if capture.summary.is_none() && (capture.is_live(now()) || !spill_files(&self.place).is_empty()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes a section, unless a session was deleted meanwhile or another program wrote one. Then
    /// nothing is written.
    fn write(&self, section: &FinishedSection, (session, count): (i64, i64)) -> Result<bool> {
        let transaction = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?;
        let is_valid: bool = transaction.query_row(
            "SELECT (SELECT count(*) FROM session WHERE id <= ?1) = ?2
                 AND NOT EXISTS (SELECT 1 FROM text_section WHERE first <= ?4 AND last >= ?3)",
            params![session, count, section.first, section.last],
            |row| row.get(0),
        )?;
        if !is_valid {
            return Ok(false);
        }
        transaction
            .prepare_cached("INSERT INTO text_section (first, last, blocks) VALUES (?, ?, ?)")?
            .execute(params![section.first, section.last, section.blocks])?;
        let mut insert =
            transaction.prepare_cached("INSERT INTO text_posting (section, trigram, postings) VALUES (?, ?, ?)")?;
        for (trigram, postings) in &section.rows {
            insert.execute(params![section.first, trigram, postings])?;
        }
        drop(insert);
        transaction.commit()?;
        Ok(true)
    }
}
