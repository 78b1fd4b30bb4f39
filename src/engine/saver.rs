//! The store writer on a thread of its own, behind a bounded queue.
//!
//! Decoding and writing run side by side. Where the store is slower, the queue fills and whoever feeds it waits: a file is read more slowly, a
//! live capture drops whole packets and counts them.

use std::mem;
use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};
use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Listener, memory};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::event::Event;
pub use crate::source::now;
use crate::store::{Counts, Summary, Writer};

/// Entries and bytes of a batch: enough that handing it over costs nothing beside what is in it.
const BATCH: (usize, usize) = (2_048, 1 << 20);
/// Batches that wait for the writer: more of them take memory and save no time.
const WAITING: usize = 4;

/// What the writer is told, in order.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Entry>,
    /// The bytes of its packets.
    bytes: Vec<u8>,
    /// Write what there is: somebody may be looking.
    commit: bool,
    /// The end.
    summary: Option<Summary>,
}

impl Batch {
    fn new() -> Batch {
        let (entries, bytes) = (Vec::with_capacity(BATCH.0), Vec::with_capacity(BATCH.1));
        Batch { entries, bytes, ..Batch::default() }
    }

    /// Empties it. What one large packet or message took is given back.
    fn recycle(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH.1);
        self.commit = false;
    }
}

#[derive(Debug)]
enum Entry {
    Packet { number: PacketNumber, time: Time, link: LinkType, interface: u32, original_length: u32, captured: usize },
    Event(Event),
}

/// A listener that saves.
#[derive(Debug)]
pub struct Saver {
    queue: Option<Sender<Batch>>,
    batch: Batch,
    /// Batches that were written, to be filled again: their memory stays on the side that needs it.
    written: Receiver<Batch>,
    thread: Option<JoinHandle<(Counts, Result<()>)>>,
    live: bool,
}

impl Saver {
    /// Saves through `writer`. A live one goes on where a commit fails, and tries again; another one stops.
    pub fn new(writer: Writer, live: bool) -> Saver {
        let (queue, batches) = bounded(WAITING);
        let (back, written) = bounded(WAITING);
        let thread =
            thread::Builder::new().name("store".to_owned()).spawn(move || write(writer, &batches, &back, live));
        // Without a thread nothing is saved, and finish() says so.
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

    /// Why the writer stopped.
    fn stopped(&mut self) -> anyhow::Error {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok((_, Err(error)))) => error,
            _ => anyhow!("the thread that saves ended"),
        }
    }

    /// The capture is over: waits until all is written. What was saved and what was not is in the counts.
    pub fn finish(mut self, summary: Summary) -> Result<Counts> {
        self.batch.summary = Some(summary);
        let sent = self.send(true);
        self.queue = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok((counts, result))) => result.map(|()| counts),
            _ => sent.and(Err(anyhow!("the thread that saves ended"))),
        }
    }
}

impl Listener for Saver {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.batch.bytes.extend_from_slice(packet.data);
        self.batch.entries.push(Entry::Packet {
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
            // A message as large as a batch must not wait for two thousand of its kind.
            self.batch.entries.push(Entry::Event(event));
            return self.send(false);
        }
        self.batch.entries.push(Entry::Event(event));
        Ok(())
    }

    fn settled(&mut self) -> Result<()> {
        self.send_full()
    }

    fn idle(&mut self) -> Result<()> {
        self.send(true)
    }
}

/// A listener that writes on the thread that it is on: that of a recorder, which nobody waits for. A commit that fails is tried again with the
/// next one; only the last one counts.
pub struct Recorder {
    writer: Writer,
    failed: Option<anyhow::Error>,
    /// Times since the last packet that there was nothing to do.
    idle: u32,
    /// It has rested before.
    rested: bool,
}

/// Times after which memory is given back: the first may be a pause in the midst of traffic, at the second the queue may still hold what a burst took.
const REST: u32 = 3;

impl Recorder {
    /// Records through `writer`.
    pub fn new(writer: Writer) -> Recorder {
        Recorder { writer, failed: None, idle: 0, rested: false }
    }

    /// The capture is over. Says what was not recorded.
    pub fn finish(mut self, summary: &Summary) -> Result<()> {
        self.writer.finish(summary)?;
        match self.writer.counts().lost {
            0 => Ok(()),
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

impl Listener for Recorder {
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
        self.writer.alive(now());
        if let Err(error) = self.writer.commit() {
            self.failed = Some(error);
        }
        self.idle = self.idle.saturating_add(1);
        if self.idle == REST {
            self.writer.rest();
            memory::give_back();
            if !mem::replace(&mut self.rested, true) {
                memory::let_go_of_start();
            }
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
                Entry::Packet { number, time, link, interface, original_length, captured } => {
                    let (data, after) = rest.split_at(captured);
                    rest = after;
                    writer.packet(&Packet { number, time, link, interface, original_length, data });
                }
                Entry::Event(event) => writer.event(event),
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
        // Where as many wait as could ever be wanted, this one is let go.
        let _ = back.try_send(batch);
    }
    (writer.counts(), result)
}
