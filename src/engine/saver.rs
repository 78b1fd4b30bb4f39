//! Listeners that write to the store: on a thread of their own, or on the thread of the run.
//!
//! With a thread, decoding and writing run in parallel behind a bounded queue. If the store is
//! slower, the queue fills and the run waits: a file is read more slowly, and a live capture drops
//! packets and counts them.

use std::mem;
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};
use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Listener, memory};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::event::Event;
use crate::pipeline;
pub use crate::source::now;
use crate::store::{Counts, Saved, Summary, Writer};

/// The summary that a store saves at the end of a capture, now.
pub fn summary(counts: &pipeline::Counts) -> Summary {
    let skipped = counts.skipped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
    Summary { ended: now(), skipped, damage: Vec::new() }
}

/// Entries and bytes of a batch. They are so many that sending a batch costs little
/// beside its content.
const BATCH: (usize, usize) = (2_048, 1 << 20);
/// Batches that wait for the writer. More would take memory and save no time.
const QUEUED_BATCHES: usize = 4;

/// A batch of packets and events for the writer, in order.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<WriterInput>,
    /// The bytes of its packets.
    bytes: Vec<u8>,
    /// Whether to commit after this batch, because somebody may be reading the store.
    commit: bool,
    /// The summary of the capture, in the last batch.
    summary: Option<Summary>,
}

impl Batch {
    fn new() -> Batch {
        let (entries, bytes) = (Vec::with_capacity(BATCH.0), Vec::with_capacity(BATCH.1));
        Batch { entries, bytes, ..Batch::default() }
    }

    /// Empties the batch for reuse. Memory that one large packet or message took is freed.
    fn recycle(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH.1);
        self.commit = false;
    }
}

#[derive(Debug)]
enum WriterInput {
    Packet { number: PacketNumber, time: Time, link: LinkType, interface: u32, original_length: u32, captured: usize },
    Event(Event),
}

/// A listener that writes to the store on a thread of its own.
#[derive(Debug)]
pub struct Saver {
    queue: Option<Sender<Batch>>,
    batch: Batch,
    /// Written batches, to be filled again. The allocator then need not pass memory
    /// between the threads.
    written: Receiver<Batch>,
    thread: Option<JoinHandle<(Counts, Result<()>)>>,
    live: bool,
}

impl Saver {
    /// Starts the writing thread. After a failed commit a live capture continues and tries again;
    /// otherwise saving ends with the error.
    pub fn new(writer: Writer, live: bool) -> Saver {
        let (queue, batches) = bounded(QUEUED_BATCHES);
        let (back, written) = bounded(QUEUED_BATCHES);
        let thread =
            thread::Builder::new().name("store".to_owned()).spawn(move || write(writer, &batches, &back, live));
        // If the thread cannot start, nothing is saved and finish() returns the error.
        Saver { queue: Some(queue), batch: Batch::new(), written, thread: thread.ok(), live }
    }

    fn send(&mut self, commit: bool) -> Result<()> {
        let empty = self.written.try_recv().unwrap_or_else(|_| Batch::new());
        let batch = Batch { commit, ..mem::replace(&mut self.batch, empty) };
        match self.queue.as_ref().map(|queue| queue.send(batch)) {
            Some(Ok(())) => Ok(()),
            _ if self.live => Ok(()),
            _ => Err(self.stopped()),
        }
    }

    fn send_full(&mut self) -> Result<()> {
        if self.batch.entries.len() >= BATCH.0 || self.batch.bytes.len() >= BATCH.1 { self.send(false) } else { Ok(()) }
    }

    /// The error with which the writer stopped.
    fn stopped(&mut self) -> anyhow::Error {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok((_, Err(error)))) => error,
            _ => anyhow!("the thread that writes the store ended unexpectedly"),
        }
    }

    /// Ends the capture and waits until all is written. The counts show how many records were saved
    /// and how many were lost.
    pub fn finish(mut self, summary: Summary) -> Result<Counts> {
        self.batch.summary = Some(summary);
        let sent = self.send(true);
        self.queue = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok((counts, result))) => result.map(|()| counts),
            _ => sent.and(Err(anyhow!("the thread that writes the store ended unexpectedly"))),
        }
    }
}

impl Listener for Saver {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.batch.bytes.extend_from_slice(packet.data);
        self.batch.entries.push(WriterInput::Packet {
            number: packet.number,
            time: packet.time,
            link: packet.link,
            interface: packet.interface,
            original_length: packet.original_length,
            captured: packet.data.len(),
        });
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        if let Event::Message(message) = &event
            && message.raw.len() > BATCH.1
        {
            // A message as large as a batch is sent at once, so that no two thousand of them wait.
            self.batch.entries.push(WriterInput::Event(event));
            return self.send(false);
        }
        self.batch.entries.push(WriterInput::Event(event));
        Ok(())
    }

    fn after_input(&mut self) -> Result<()> {
        self.send_full()
    }

    fn idle(&mut self) -> Result<()> {
        self.send(true)
    }
}

/// A listener that writes to the store on the thread of the run. Recorders of wrapped servers and
/// proxies use it, because nobody waits for them. After a failed commit the next
/// commit tries again.
pub struct DirectSaver {
    writer: Writer,
    failed: Option<anyhow::Error>,
    /// The last commit succeeded.
    saved: bool,
    /// Idle items since the last packet.
    idle: u32,
}

/// Idle items after which memory is released. The first may be a pause within traffic. At the
/// second the queue may still hold the memory of a burst. Later each note that the writer lives
/// needs pages of files again for a moment.
const IDLE_ITEMS: u32 = 3;

impl DirectSaver {
    /// Records through `writer`.
    pub fn new(writer: Writer) -> DirectSaver {
        DirectSaver { writer, failed: None, saved: false, idle: 0 }
    }

    /// The writer, for what concerns its file.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Whether the database holds everything that was taken before the last call of `idle`.
    pub fn is_saved(&self) -> bool {
        self.saved && self.writer.counts().lost == 0
    }

    /// Ends the capture. An error reports the records that could not be written at all.
    pub fn finish(mut self, summary: &Summary) -> Result<Saved> {
        self.writer.finish(summary)?;
        match self.writer.counts().lost {
            0 => self.writer.saved(),
            lost => Err(anyhow!(
                "{lost} records could not be written{}",
                match self.failed {
                    Some(error) => format!(": {error:#}"),
                    None => String::new(),
                }
            )),
        }
    }
}

impl Listener for DirectSaver {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.idle = 0;
        self.writer.packet(packet);
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.writer.event(event);
        Ok(())
    }

    fn idle(&mut self) -> Result<()> {
        let is_noted = self.writer.alive(now());
        let committed = self.writer.commit();
        self.saved = committed.is_ok();
        if let Err(error) = committed {
            self.failed = Some(error);
        }
        self.idle = self.idle.saturating_add(1);
        if self.idle == IDLE_ITEMS {
            self.writer.rest();
            memory::return_free_memory();
        }
        if self.idle == IDLE_ITEMS || self.idle > IDLE_ITEMS && is_noted {
            memory::release_file_pages();
        }
        Ok(())
    }
}

fn write(mut writer: Writer, batches: &Receiver<Batch>, back: &Sender<Batch>, live: bool) -> (Counts, Result<()>) {
    let mut result = Ok(());
    for mut batch in batches {
        let mut rest = batch.bytes.as_slice();
        for entry in batch.entries.drain(..) {
            match entry {
                WriterInput::Packet { number, time, link, interface, original_length, captured } => {
                    let (data, after) = rest.split_at(captured);
                    rest = after;
                    writer.packet(&Packet { number, time, link, interface, original_length, data });
                }
                WriterInput::Event(event) => writer.event(event),
            }
        }
        if batch.commit {
            writer.alive(now());
            result = writer.commit();
        }
        if let Some(summary) = batch.summary.take() {
            result = writer.finish(&summary);
        }
        if result.is_err() && !live {
            break;
        }
        batch.recycle();
        // If enough batches wait for reuse, this one is freed.
        let _ = back.try_send(batch);
    }
    (writer.counts(), result)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::event::Detail;
    use crate::pipeline::{Input, Pipeline, PipelineConfig};
    use crate::source::file::Files;
    use crate::source::{Item, Source};
    use crate::store::testing::{Locker, forget_figures, rows};
    use crate::store::{CaptureInfo, CaptureKind, Page, StoreReader, WriteOptions};

    /// Records a capture with a commit after every few packets. While `is_locked` says so, another
    /// program has the database locked.
    fn record(capture: &Path, db: &Path, is_locked: impl Fn(u64) -> bool) -> usize {
        let started = Time(7);
        let info = CaptureInfo {
            kind: CaptureKind::Import,
            source: "capture".into(),
            process: 1,
            started,
            ..CaptureInfo::default()
        };
        let options =
            WriteOptions { busy_timeout: std::time::Duration::ZERO, may_spill: true, ..WriteOptions::default() };
        let mut saver = DirectSaver::new(Writer::create(db, &info, options).unwrap());
        let mut pipeline = Pipeline::new(PipelineConfig { detail: Detail::Store, ..PipelineConfig::default() });
        let mut source = Files::open(&[capture.to_owned()], false).unwrap();
        let other = Locker::new(db);
        let (mut number, mut spills) = (0, 0);
        while let Some(item) = source.next().unwrap() {
            let Item::Packet(packet) = item else { continue };
            number += 1;
            saver.packet(&packet).unwrap();
            pipeline.push(Input::Packet(packet), &mut |event| saver.event(event).unwrap());
            if number % 5 == 0 {
                if is_locked(number) {
                    other.lock();
                }
                saver.idle().unwrap();
                assert!(saver.is_saved());
                spills += usize::from(saver.writer().spill_file().is_some());
                if is_locked(number) {
                    other.unlock();
                }
            }
        }
        pipeline.push(Input::End, &mut |event| saver.event(event).unwrap());
        assert!(matches!(saver.finish(&Summary::default()), Ok(Saved::As(_))), "all of it is in the database");
        spills
    }

    #[test]
    fn locks_change_nothing_that_is_recorded() {
        let folder = tempfile::tempdir().unwrap();
        for sample in ["weather/capture.pcapng", "helpdesk/capture.pcapng", "helpdesk/stdio.pcapng"] {
            let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(sample);
            let path = |name: &str| folder.path().join(format!("{}-{name}.db", sample.replace('/', "-")));
            assert_eq!(record(&capture, &path("free"), |_| false), 0);
            let expected = rows(&path("free"));
            assert!(expected.iter().any(|(table, rows)| table == "message" && rows.len() > 5));
            for (name, length) in [("short", 10), ("long", 40), ("longest", 100_000)] {
                let spills = record(&capture, &path(name), |packet| packet / length % 2 == 0);
                assert!(spills > 0, "{sample}, {name}");
                for ((table, rows), (_, expected)) in rows(&path(name)).iter().zip(&expected) {
                    let other = rows.iter().zip(expected).find(|(row, expected)| row != expected);
                    assert!(rows == expected, "{sample}, {name}, {table}: {other:?}");
                }
            }
        }
    }

    #[test]
    fn sessions_of_an_earlier_version_have_the_same_figures() {
        let folder = tempfile::tempdir().unwrap();
        for sample in ["weather/capture.pcapng", "helpdesk/capture.pcapng", "helpdesk/stdio.pcapng"] {
            let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples").join(sample);
            let db = folder.path().join(format!("{}.db", sample.replace('/', "-")));
            record(&capture, &db, |_| false);
            let figures = || {
                let reader = StoreReader::open(&*db).unwrap();
                let listed = reader.listed_sessions(None, Page::first(9)).unwrap();
                let facts = listed.iter().map(|listed| {
                    let (session, number) = (&listed.session, listed.session.number);
                    let stderr = reader.pipes(number).unwrap().map(|pipes| reader.last_stderr(pipes, 3).unwrap());
                    (reader.slowest_request(session).unwrap(), reader.tool_calls(number).unwrap(), stderr)
                });
                let facts: Vec<_> = facts.collect();
                (listed, facts)
            };
            let new = figures();
            assert!(new.0.iter().any(|listed| listed.latency.is_some()) && new.1.iter().any(|facts| facts.1 > 0));
            forget_figures(&db);
            assert_eq!(figures(), new, "{sample}");
        }
    }

    #[test]
    fn records_wait_where_no_spill_file_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let db = folder.path().join("captures.db");
        let info = CaptureInfo {
            kind: CaptureKind::Wrap,
            source: "server".into(),
            process: 1,
            started: Time(7),
            ..CaptureInfo::default()
        };
        let options =
            WriteOptions { busy_timeout: std::time::Duration::ZERO, may_spill: true, ..WriteOptions::default() };
        let mut writer = Writer::create(&*db, &info, options).unwrap();
        std::fs::create_dir(folder.path().join("captures.db-spill-1-7")).unwrap();
        let other = Locker::new(&db);
        other.lock();
        writer.alive(Time(8_000_000_000));
        let error = format!("{:#}", writer.commit().unwrap_err());
        assert!(error.contains("nor can a file beside it be written") && error.contains("locked"), "{error}");
        other.unlock();
        writer.finish(&Summary::default()).unwrap();
    }
}
