//! Writing: one writer per capture.

use std::collections::BTreeMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rusqlite::{Connection, TransactionBehavior};

use super::packets::Packets;
use super::pending::{Pending, WrittenRows};
use super::record::capture::{self, CaptureInfo, Counts, Summary};
use super::record::message::DerivedColumns;
use super::spill::{self, Spill};
use super::text::{Packer, Text};
use super::{CaptureId, DatabaseFile, migrate};
use crate::capture::{Limits, Packet, Time};
use crate::decode::ConnectionId;
use crate::decode::mask::MaskKey;
use crate::decode::redact::Redaction;
use crate::event::Event;
use crate::findings::{Finding, transport};
use crate::mcp::SessionNumber;

/// Rows, and bytes, at which waiting records are written without a commit call. Larger transactions
/// are not faster (measured), and delay other writers.
const BATCH: (usize, usize) = (8_192, 8 << 20);

/// Kibibytes of the file that are cached in memory. Rows come in ascending order, so only few pages
/// change at a time, however large the file is.
const CACHE: u32 = 8 << 10;

/// Bytes of a spill file that are moved to the database before the end of the recording, for which
/// a host may wait. This takes some hundred milliseconds.
const MOVED_AT_END: u64 = 16 << 20;

/// Settings of a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// Write packets unchanged, secrets included.
    pub keep_secrets: bool,
    /// The key of the tags of masked secrets. Without one there are no tags.
    pub mask_key: Option<MaskKey>,
    /// The user's rules for values that nobody may record. The decoder has the same.
    pub redaction: Option<&'static Redaction>,
    /// Bounds on the memory for packets that wait.
    pub limits: Limits,
    /// The time for which a transaction waits for other writers. A writer of live traffic locks the
    /// database for milliseconds.
    pub busy_timeout: Duration,
    /// Whether to write to a file beside the database while it is locked for longer.
    pub may_spill: bool,
    /// Bytes of packets without a session that are stored too: of other connections, and
    /// of other protocols.
    pub other_packets: u64,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            keep_secrets: false,
            mask_key: None,
            redaction: None,
            limits: Limits::default(),
            busy_timeout: Duration::from_secs(5),
            may_spill: false,
            other_packets: 0,
        }
    }
}

/// The place of a finished recording.
#[derive(Debug, PartialEq, Eq)]
pub enum Saved {
    /// The database, as these sessions.
    As(Vec<SessionNumber>),
    /// A file beside the database, which holds what could not be written there yet.
    Beside(PathBuf),
}

/// Writes one capture.
///
/// If it is dropped without [`Writer::finish`], committed data stays, and the
/// capture stays unfinished.
pub struct Writer {
    // Declared before the file, so that it is closed before a temporary file is removed.
    db: Connection,
    place: DatabaseFile,
    /// The file that is open, even if its name has gone.
    identity: Option<(u64, u64)>,
    capture: CaptureId,
    info: CaptureInfo,
    options: WriteOptions,
    /// The file that is written instead, because another program has the database locked.
    spill: Option<Spill>,
    pending: Pending,
    written: WrittenRows,
    packets: Packets,
    /// Packets of connections of sessions, and their bytes, that were discarded and not reported.
    discarded: BTreeMap<ConnectionId, (u64, u64)>,
    packer: Packer,
    counts: Counts,
    alive: Time,
    /// The counts and the sign of life that the row of the capture holds.
    saved: (Counts, Time),
    /// The multiple of [`BATCH`] at which the next write without a commit call is attempted. It
    /// grows while writing fails.
    batches: usize,
}

impl Writer {
    /// Opens or creates the database and inserts a new capture.
    ///
    /// # Errors
    /// The file cannot be created or opened, is not a database of this program, or belongs to a
    /// newer version. Or it is locked for longer than the timeout.
    pub fn create(place: impl Into<DatabaseFile>, info: &CaptureInfo, options: WriteOptions) -> anyhow::Result<Writer> {
        let place = place.into();
        let (db, capture, spill) = match begin(&place, info, options.busy_timeout) {
            Ok((db, capture)) => (db, capture, None),
            Err(error) if options.may_spill && migrate::may_pass(&error) => match Spill::create(&place, info) {
                Ok((spill, db, capture)) => (db, capture, Some(spill)),
                Err(no_spill) => return Err(without_spill(error, &no_spill)),
            },
            Err(error) => return Err(error),
        };
        let packets = Packets::new(&options, &place.folder())?;
        let identity = place.identity();
        Ok(Writer {
            db,
            place,
            identity,
            capture,
            info: info.clone(),
            options,
            spill,
            pending: Pending::default(),
            written: WrittenRows::default(),
            packets,
            discarded: BTreeMap::new(),
            packer: Packer::new()?,
            counts: Counts::default(),
            alive: info.started,
            saved: (Counts::default(), info.started),
            batches: 1,
        })
    }

    /// The file that is written.
    pub fn place(&self) -> &DatabaseFile {
        &self.place
    }

    /// Whether the file was deleted or replaced, so that nobody will ever read what is written.
    pub fn is_deleted(&self) -> bool {
        self.spill.is_none() && self.place.identity() != self.identity
    }

    /// The file beside the database that is written, because another program has it locked.
    pub fn spill_file(&self) -> Option<&Path> {
        self.spill.as_ref().map(|spill| spill.place.path())
    }

    /// Goes on in a new database in the place of a [deleted](Writer::is_deleted) one, as a new
    /// capture. Records that wait are written there. `begun` are records that were written before
    /// and that later ones refer to.
    ///
    /// # Errors
    /// As for [`Writer::create`]. Records wait, and the call may be repeated.
    pub fn recreate(
        &mut self,
        info: &CaptureInfo,
        options: WriteOptions,
        begun: impl Iterator<Item = Event>,
    ) -> anyhow::Result<()> {
        // Closed first, because SQLite finds the files beside a database by their names.
        self.db = Connection::open_in_memory()?;
        (self.db, self.capture) = begin(&self.place, info, options.busy_timeout)?;
        self.info = info.clone();
        self.identity = self.place.identity();
        self.written = WrittenRows::default();
        self.pending.forget_order();
        // On their own, because the row of a new stream takes waiting parts as those of its start.
        let waiting = mem::take(&mut self.pending);
        begun.for_each(|event| self.record(event));
        let result = self.write(None);
        self.pending = waiting;
        result
    }

    /// The place of what was written.
    pub fn saved(&self) -> anyhow::Result<Saved> {
        if let Some(file) = self.spill_file() {
            return Ok(Saved::Beside(file.to_owned()));
        }
        let mut select = self.db.prepare("SELECT id FROM session WHERE capture = ? ORDER BY id")?;
        let numbers = select.query_map([self.capture.0], |row| Ok(SessionNumber(row.get(0)?)))?;
        Ok(Saved::As(numbers.collect::<rusqlite::Result<_>>()?))
    }

    /// The number of the capture in the database.
    pub fn capture(&self) -> CaptureId {
        self.capture
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let lost = self.counts.lost + self.pending.lost;
        Counts { packet_counts: self.packets.counts(), lost, ..self.counts }
    }

    /// Takes a packet. Its events follow.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        self.counts.packets += 1;
        self.counts.bytes += packet.data.len() as u64;
        let (first, last) = self.counts.times.unwrap_or((packet.time, packet.time));
        self.counts.times = Some((first.min(packet.time), last.max(packet.time)));
        self.packets.observe(packet);
    }

    /// Takes an event of the pipeline. Never fails: a record that cannot be written
    /// waits, see [`Writer::commit`].
    pub fn event(&mut self, event: Event) {
        let packets = &mut self.packets;
        let taken = match event {
            Event::Claimed(connection) => {
                packets.keep(connection);
                return self.restore(connection);
            }
            Event::Closed(connection) => packets.closed(connection),
            Event::Segment(segment) => packets.segment(segment),
            Event::Secret { connection, side, start, end, mask } => {
                packets.secret(connection, side, start..end, mask);
                Ok(())
            }
            Event::Cleared { connection, side, offset } => packets.cleared(connection, side, offset),
            record => {
                self.record(record);
                Ok(())
            }
        };
        if taken.is_err() {
            self.counts.lost += 1;
        }
        self.gather_chunks();
        self.write_batch();
    }

    /// Writes the packets of a connection that waited until a session claimed it.
    fn restore(&mut self, connection: ConnectionId) {
        loop {
            let restored = self.packets.restore(connection);
            self.gather_chunks();
            self.write_batch();
            if restored.is_err() {
                self.counts.lost += 1;
            }
            if !matches!(restored, Ok(true)) {
                break;
            }
        }
        if let Some(discarded) = self.packets.take_discarded(connection) {
            self.discarded.insert(connection, discarded);
        }
    }

    /// Writes what waits if it is enough for a transaction.
    fn write_batch(&mut self) {
        let (rows, bytes) = self.pending.size();
        if rows >= BATCH.0 * self.batches || bytes >= BATCH.1 * self.batches {
            // The next commit tries again and reports the failure. Reporting it here would cost the
            // timeout for every event.
            self.batches = if self.write(None).is_ok() { 1 } else { self.batches + 1 };
        }
    }

    fn record(&mut self, event: Event) {
        match event {
            Event::Session(session) => {
                let discarded = &mut self.discarded;
                for (connection, (packets, bytes)) in
                    discarded.extract_if(.., |connection, _| session.connections.contains(connection))
                {
                    let finding = transport::not_kept(connection, packets, bytes);
                    self.pending.add(Event::Finding(Box::new(Finding { session: Some(session.number), ..finding })));
                }
                self.pending.add(Event::Session(session));
            }
            Event::Message(mut message) => {
                let derived = DerivedColumns::of(&message);
                let frames = self.packets.text(&message);
                let raw = mem::take(&mut message.raw).into_bytes();
                let text = match frames {
                    Some(frames) => Text::smaller(raw, frames),
                    None => self.packer.text(raw),
                };
                self.pending.message(*message, derived, text);
            }
            Event::Plaintext(stream, start, bytes) => match self.packer.frame(&bytes) {
                Ok(frame) => self.pending.add(Event::Plaintext(stream, start, frame)),
                Err(_) => self.counts.lost += 1,
            },
            record => self.pending.add(record),
        }
    }

    /// Notes that the writer lives at this time of the system clock. It is stored with the next
    /// commit. Returns whether it is noted: while little time passed since the last note, a commit
    /// without new records has nothing to write.
    pub fn alive(&mut self, now: Time) -> bool {
        let is_due = now.since(self.alive).unsigned_abs() >= capture::SIGN_OF_LIFE;
        if is_due {
            self.alive = now;
        }
        is_due
    }

    /// Writes everything that may be written, in one transaction. Does nothing if there
    /// is nothing new.
    ///
    /// # Errors
    /// The database is locked for longer than the timeout, or cannot be written. Nothing is lost:
    /// the next commit tries again. Only when more than 64 MiB wait are records discarded and
    /// counted, see [`Counts::lost`].
    pub fn commit(&mut self) -> anyhow::Result<()> {
        self.close_chunks();
        let is_spilled = self.spill.is_some();
        let result = self.write(None);
        if is_spilled {
            self.return_from_spill();
        }
        // The next pause may be far away, and few records wait after a pause.
        self.pending.rest();
        result
    }

    /// Nothing will come for a while: frees memory that was retained to be used again.
    pub fn rest(&mut self) {
        // If this fails, the only cost is some memory.
        let _ = self.db.release_memory();
        self.packer.rest();
        self.packets.rest();
    }

    /// The capture has ended: writes the rest and the summary. May be called again if that failed.
    pub fn finish(&mut self, summary: &Summary) -> anyhow::Result<()> {
        if self.packets.finish().is_err() {
            self.counts.lost += 1;
        }
        self.gather_chunks();
        let is_small = self.spill.as_ref().is_some_and(|spill| spill.size() <= MOVED_AT_END);
        let result = self.write(Some(summary));
        if is_small {
            self.return_from_spill();
        }
        result
    }

    fn close_chunks(&mut self) {
        if self.packets.close_chunks().is_err() {
            self.counts.lost += 1;
        }
        self.gather_chunks();
    }

    fn gather_chunks(&mut self) {
        for chunk in self.packets.take_ready() {
            self.pending.chunk(chunk);
        }
    }

    fn write(&mut self, summary: Option<&Summary>) -> anyhow::Result<()> {
        let now = (self.counts(), self.alive);
        if self.pending.is_empty() && summary.is_none() && now == self.saved {
            return Ok(());
        }
        let mut result = self.transact(now, summary);
        if let Err(error) = &result
            && self.options.may_spill
            && self.spill.is_none()
            && migrate::may_pass(error)
        {
            result = match Spill::create(&self.place, &self.info) {
                Ok((spill, db, capture)) => {
                    (self.spill, self.db, self.capture) = (Some(spill), db, capture);
                    self.written = WrittenRows::default();
                    self.transact(now, summary)
                }
                Err(no_spill) => result.map_err(|error| without_spill(error, &no_spill)),
            };
        }
        match &result {
            Ok(()) => {
                self.saved = now;
                self.batches = 1;
                self.pending.clear();
            }
            Err(_) => self.written = WrittenRows::default(),
        }
        result.with_context(|| {
            let (path, (rows, _)) = (self.place.path().display(), self.pending.size());
            format!("cannot write to the database {path}: {rows} records wait")
        })
    }

    /// Moves what was written to a spill file to the database, and goes on there. If the database
    /// is still locked, the next commit tries again.
    fn return_from_spill(&mut self) {
        let Some(spill) = self.spill.take() else { return };
        let returned = match spill::bring_in(&self.db, &self.place, self.options.busy_timeout) {
            Ok(Some(capture)) => open(&self.place, self.options.busy_timeout).map(|db| (db, capture)),
            Ok(None) => Err(anyhow::anyhow!("the spill file has no capture")),
            Err(error) => Err(error),
        };
        match returned {
            Ok((db, capture)) => {
                (self.db, self.capture) = (db, capture);
                self.identity = self.place.identity();
                self.written = WrittenRows::default();
                spill.remove();
            }
            Err(_) => self.spill = Some(spill),
        }
    }

    fn transact(&mut self, (counts, alive): (Counts, Time), summary: Option<&Summary>) -> anyhow::Result<()> {
        // Immediate: a transaction that begins with a read cannot wait for another writer when it
        // comes to write.
        let transaction = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.pending.write(&transaction, self.capture, &mut self.written, summary.is_some())?;
        capture::update(&transaction, self.capture, &counts, alive)?;
        if let Some(summary) = summary {
            capture::finish(&transaction, self.capture, summary)?;
        }
        Ok(transaction.commit()?)
    }
}

/// Opens or creates the database and inserts a new capture.
fn begin(place: &DatabaseFile, info: &CaptureInfo, busy_timeout: Duration) -> anyhow::Result<(Connection, CaptureId)> {
    let db = open(place, busy_timeout)?;
    spill::bring_in_all(place);
    let capture = capture::insert(&db, info)
        .with_context(|| format!("cannot begin a capture in the database {}", place.path().display()))?;
    Ok((db, capture))
}

/// Opens or creates the database.
fn open(place: &DatabaseFile, busy_timeout: Duration) -> anyhow::Result<Connection> {
    let db = migrate::open_writer(place, busy_timeout)?;
    // A negative value counts kibibytes.
    db.pragma_update(None, "cache_size", -i64::from(CACHE))?;
    Ok(db)
}

/// The database is locked, and no other file can be written instead.
fn without_spill(error: anyhow::Error, no_spill: &anyhow::Error) -> anyhow::Error {
    error.context(format!("nor can a file beside it be written ({no_spill:#})"))
}
