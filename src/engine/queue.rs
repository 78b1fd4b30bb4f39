//! A source on a thread of its own, behind a bounded queue: a capture must be emptied faster than the kernel fills it, whatever the decoder does.
//!
//! What the queue has no room for waits on the disk, see [`Overflow`]. When that is full too, whole packets are dropped and counted; the decoder
//! takes them for loss and resumes.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use crate::capture::Time;
use crate::source::batch::Batch;
use crate::source::overflow::Overflow;
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

/// What the capture thread gives back when it ends: its source, to ask for counters.
type Ended<S> = (S, Result<()>);

/// What both ends share.
#[derive(Debug)]
struct Shared {
    /// Batches younger than all in the channel. Locked while a batch is put into either, so that none overtakes another.
    overflow: Mutex<Overflow>,
    /// Packets that wait in the overflow.
    waiting: AtomicU64,
    dropped: Mutex<Dropped>,
}

/// Packets that neither memory nor disk had room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// How many.
    pub packets: u64,
    /// When the first and the last of them were captured.
    pub times: Option<(Time, Time)>,
}

impl Shared {
    fn overflow(&self) -> MutexGuard<'_, Overflow> {
        self.overflow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dropped(&self) -> MutexGuard<'_, Dropped> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop(&self, batch: &Batch) {
        let mut dropped = self.dropped();
        dropped.packets += batch.len() as u64;
        let ends = [batch.get(0), batch.len().checked_sub(1).and_then(|last| batch.get(last))]
            .map(|packet| packet.map(|packet| packet.time));
        if let [Some(first), Some(last)] = ends {
            dropped.times = Some((dropped.times.map_or(first, |(first, _)| first), last));
        }
    }
}

/// The decoder's end of the queue.
#[derive(Debug)]
pub struct Queue<S> {
    batches: Receiver<Batch>,
    thread: Option<JoinHandle<Ended<S>>>,
    shared: Arc<Shared>,
    batch: Batch,
    given: usize,
    /// When it was last said that nothing comes.
    idle: Instant,
    result: Option<Ended<S>>,
}

/// The counters of a queue, for whoever does not hold it.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Shared>);

impl Gauge {
    /// Packets that wait on the disk.
    pub fn waiting(&self) -> u64 {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Packets dropped because the decoder did not keep up.
    pub fn dropped(&self) -> Dropped {
        *self.0.dropped()
    }
}

impl<S: Source + Send + 'static> Queue<S> {
    /// Starts to empty `source` until it ends or `stop` is set.
    pub fn start(source: S, stop: Arc<AtomicBool>, overflow: Overflow) -> Result<Queue<S>> {
        let (sender, batches) = bounded(WAITING);
        let (waiting, dropped) = Default::default();
        let shared = Arc::new(Shared { overflow: Mutex::new(overflow), waiting, dropped });
        let capturing = Arc::clone(&shared);
        let capture = move || capture(source, &stop, &sender, &capturing);
        let thread =
            thread::Builder::new().name("capture".to_owned()).spawn(capture).context("cannot start a thread")?;
        let (batch, given, idle, result) = (Batch::default(), 0, Instant::now(), None);
        Ok(Queue { batches, thread: Some(thread), shared, batch, given, idle, result })
    }

    /// Its counters.
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::clone(&self.shared))
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

    /// The oldest batch that waits, if there is one.
    fn waiting(&self) -> Result<Option<Batch>> {
        let mut overflow = self.shared.overflow();
        if let Ok(batch) = self.batches.try_recv() {
            return Ok(Some(batch));
        }
        let batch = overflow.pop()?;
        let packets = batch.as_ref().map_or(0, Batch::len);
        self.shared.waiting.fetch_sub(packets as u64, Ordering::Relaxed);
        Ok(batch)
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.result = thread.join().ok();
        }
    }
}

impl<S: Source + Send + 'static> Source for Queue<S> {
    fn next(&mut self) -> Result<Option<Item<'_>>> {
        if self.given == self.batch.len() {
            if self.idle.elapsed() > PAUSE {
                return Ok(Some(self.idle()));
            }
            self.given = 0;
            self.batch = match self.waiting()? {
                Some(batch) => batch,
                None => match self.batches.recv_timeout(PATIENCE) {
                    Ok(batch) => batch,
                    Err(RecvTimeoutError::Timeout) => Batch::default(),
                    // It may have put something into the overflow since that was looked at.
                    Err(RecvTimeoutError::Disconnected) => match self.waiting()? {
                        Some(batch) => batch,
                        None => {
                            self.join();
                            return Ok(None);
                        }
                    },
                },
            };
        }
        if self.batch.is_empty() {
            return Ok(Some(self.idle()));
        }
        self.given += 1;
        Ok(self.batch.get(self.given - 1).map(Item::Packet))
    }
}

fn capture<S: Source>(mut source: S, stop: &AtomicBool, sender: &Sender<Batch>, shared: &Shared) -> Ended<S> {
    let mut batch = Batch::default();
    let mut stopped: Option<Instant> = None;
    loop {
        if stop.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > REST {
            break;
        }
        let full = match source.next() {
            Ok(Some(Item::Packet(packet))) => {
                batch.push(&packet);
                batch.bytes().len() >= BATCH
            }
            // Told to stop, and nothing is left.
            Ok(Some(Item::Idle)) if stopped.is_some() => break,
            Ok(Some(Item::Idle)) => true,
            Ok(Some(Item::Secrets(_) | Item::Damage(_))) => false,
            Ok(None) => break,
            Err(error) => {
                send(&mut batch, sender, shared, true);
                return (source, Err(error));
            }
        };
        if full && !batch.is_empty() && !send(&mut batch, sender, shared, false) {
            break;
        }
    }
    send(&mut batch, sender, shared, true);
    (source, Ok(()))
}

/// Hands the batch over. Where the channel is full it goes on growing, unless it is the `last`; a full one goes into the overflow.
/// False once nobody listens.
fn send(batch: &mut Batch, sender: &Sender<Batch>, shared: &Shared, last: bool) -> bool {
    let mut overflow = shared.overflow();
    let full = match overflow.is_empty() {
        true => match sender.try_send(mem::take(batch)) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(full)) => full,
        },
        false => mem::take(batch),
    };
    let packets = full.len() as u64;
    if full.bytes().len() < BATCH && !last {
        *batch = full;
    } else if overflow.push(&full) {
        shared.waiting.fetch_add(packets, Ordering::Relaxed);
    } else {
        shared.drop(&full);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, Packet, PacketNumber};

    /// Packets of 64 KiB, as fast as they are taken.
    struct Flood(u64);

    const ALL: u64 = 3 * (WAITING * (BATCH >> 16)) as u64;

    impl Source for Flood {
        fn next(&mut self) -> Result<Option<Item<'_>>> {
            static DATA: [u8; 64 << 10] = [7; 64 << 10];
            self.0 += 1;
            let (number, time, link) = (PacketNumber(self.0), Time(self.0 as i64), LinkType::ETHERNET);
            let packet = Packet { number, time, link, interface: 0, original_length: 1, data: &DATA };
            Ok((self.0 <= ALL).then_some(Item::Packet(packet)))
        }
    }

    /// The numbers of the packets that a decoder gets which begins once all were captured, and how many were dropped.
    fn numbers(overflow: Overflow) -> (Vec<u64>, Dropped) {
        let mut queue = Queue::start(Flood(0), Arc::default(), overflow).unwrap();
        let gauge = queue.gauge();
        while !queue.thread.as_ref().unwrap().is_finished() {
            thread::yield_now();
        }
        let mut numbers = Vec::new();
        while let Some(item) = queue.next().unwrap() {
            if let Item::Packet(packet) = item {
                numbers.push(packet.number.0);
            }
        }
        assert_eq!(gauge.waiting(), 0);
        assert_eq!(queue.finish().unwrap().0, ALL + 1);
        (numbers, gauge.dropped())
    }

    #[test]
    fn a_slow_decoder_gets_everything_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(numbers(Overflow::new(folder.path(), true)), ((1..=ALL).collect(), Dropped::default()));
    }

    #[test]
    fn what_neither_memory_nor_disk_hold_is_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (numbers, dropped) = numbers(Overflow::new(&folder.path().join("missing"), true));
        assert!(numbers.is_sorted() && dropped.packets > 0);
        assert_eq!(numbers.len() as u64 + dropped.packets, ALL);
        let (first, last) = dropped.times.unwrap();
        assert!(!numbers.contains(&(first.0 as u64)) && first <= last, "{first:?} {last:?}");
    }
}
