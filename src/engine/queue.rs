//! A source on a thread of its own, behind a bounded queue: a capture must be emptied faster than the kernel fills it, whatever the decoder does.
//!
//! When the queue is full whole packets are dropped and counted; the decoder takes them for loss and resumes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::source::{Item, Source};

/// Bytes of a batch, and batches that wait: 64 MiB absorb seconds of a busy interface.
const BATCH: usize = 256 << 10;
const WAITING: usize = 256;
/// How long the decoder waits for packets before it looks at the clock.
const PATIENCE: Duration = Duration::from_millis(20);
/// How long traffic without a pause may hold up what is shown and written when nothing comes: a person who watches waits no longer.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the capture goes on, once told to stop, for what lies in the kernel's buffer. On a busy interface it never runs empty.
const REST: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    packets: Vec<Head>,
}

/// A packet whose bytes end at `end` of its batch.
#[derive(Clone, Copy, Debug)]
struct Head {
    number: PacketNumber,
    time: Time,
    link: LinkType,
    interface: u32,
    original_length: u32,
    end: usize,
}

/// What the capture thread gives back when it ends: its source, to ask for counters.
type Ended<S> = (S, Result<()>);

/// The decoder's end of the queue.
#[derive(Debug)]
pub struct Queue<S> {
    batches: Receiver<Batch>,
    thread: Option<JoinHandle<Ended<S>>>,
    dropped: Arc<AtomicU64>,
    batch: Batch,
    given: usize,
    start: usize,
    /// When it was last said that nothing comes.
    idle: Instant,
    result: Option<Ended<S>>,
}

impl<S: Source + Send + 'static> Queue<S> {
    /// Starts to empty `source` until it ends or `stop` is set.
    pub fn start(source: S, stop: Arc<AtomicBool>) -> Result<Queue<S>> {
        let (sender, batches) = bounded(WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let capture = move || capture(source, &stop, &sender, &counter);
        let thread =
            thread::Builder::new().name("capture".to_owned()).spawn(capture).context("cannot start a thread")?;
        let (batch, given, start, idle, result) = (Batch::default(), 0, 0, Instant::now(), None);
        Ok(Queue { batches, thread: Some(thread), dropped, batch, given, start, idle, result })
    }

    /// Packets dropped because the decoder did not keep up.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// The source again, once the queue has ended.
    pub fn finish(mut self) -> Result<S> {
        self.join();
        match self.result {
            Some((source, Ok(()))) => Ok(source),
            Some((_, Err(error))) => Err(error),
            None => Err(anyhow!("the thread that captures ended")),
        }
    }

    fn idle<'a>(&mut self) -> Item<'a> {
        self.idle = Instant::now();
        Item::Idle
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.result = thread.join().ok();
        }
    }
}

impl<S: Source + Send + 'static> Source for Queue<S> {
    fn next(&mut self) -> Result<Option<Item<'_>>> {
        if self.given == self.batch.packets.len() {
            if self.idle.elapsed() > PAUSE {
                return Ok(Some(self.idle()));
            }
            match self.batches.recv_timeout(PATIENCE) {
                Ok(batch) => (self.batch, self.given, self.start) = (batch, 0, 0),
                Err(RecvTimeoutError::Timeout) => return Ok(Some(self.idle())),
                Err(RecvTimeoutError::Disconnected) => {
                    self.join();
                    return Ok(None);
                }
            }
        }
        let Some(head) = self.batch.packets.get(self.given).copied() else { return Ok(Some(self.idle())) };
        let data = &self.batch.bytes[self.start..head.end];
        (self.given, self.start) = (self.given + 1, head.end);
        let Head { number, time, link, interface, original_length, .. } = head;
        Ok(Some(Item::Packet(Packet { number, time, link, interface, original_length, data })))
    }
}

fn capture<S: Source>(mut source: S, stop: &AtomicBool, sender: &Sender<Batch>, dropped: &AtomicU64) -> Ended<S> {
    let mut batch = Batch::default();
    let mut stopped: Option<Instant> = None;
    loop {
        if stop.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > REST {
            break;
        }
        let full = match source.next() {
            Ok(Some(Item::Packet(packet))) => {
                batch.bytes.extend_from_slice(packet.data);
                let Packet { number, time, link, interface, original_length, .. } = packet;
                batch.packets.push(Head { number, time, link, interface, original_length, end: batch.bytes.len() });
                batch.bytes.len() >= BATCH
            }
            // Told to stop, and nothing is left.
            Ok(Some(Item::Idle)) if stopped.is_some() => break,
            Ok(Some(Item::Idle)) => true,
            Ok(Some(Item::Secrets(_) | Item::Damage(_))) => false,
            Ok(None) => break,
            Err(error) => return (source, Err(error)),
        };
        if full && !batch.packets.is_empty() && !send(&mut batch, sender, dropped) {
            break;
        }
    }
    send(&mut batch, sender, dropped);
    (source, Ok(()))
}

/// Hands the batch over. Where the queue is full it goes on growing, and a full one's packets are dropped. False once nobody listens.
fn send(batch: &mut Batch, sender: &Sender<Batch>, dropped: &AtomicU64) -> bool {
    match sender.try_send(std::mem::take(batch)) {
        Ok(()) => true,
        Err(TrySendError::Full(small)) if small.bytes.len() < BATCH => {
            *batch = small;
            true
        }
        Err(TrySendError::Full(batch)) => {
            dropped.fetch_add(batch.packets.len() as u64, Ordering::Relaxed);
            true
        }
        Err(TrySendError::Disconnected(_)) => false,
    }
}
