//! A source on a thread of its own, behind a bounded queue: a capture must be emptied faster than the kernel fills it, whatever the decoder does.
//!
//! What memory has no room for waits on the disk, see [`Overflow`]. When that is full too, whole packets are dropped and counted; the decoder
//! takes them for loss and resumes.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::capture::Dropped;
use crate::source::batch::Batch;
use crate::source::overflow::{Overflow, SpilledBatch};
use crate::source::patience::Patience;
use crate::source::{Item, Source};

/// Bytes of a batch, and batches that wait in memory: 64 MiB absorb seconds of a busy interface.
const BATCH: usize = 256 << 10;
const WAITING: usize = 256;
/// How long traffic without a pause may hold up what is shown and written when nothing comes: a person who watches waits no longer.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the capture goes on, once told to stop, for what lies in the kernel's buffer. On a busy interface it never runs empty.
const REST: Duration = Duration::from_millis(250);

/// What the capture thread gives back when it ends: its source, to ask for counters.
type Ended<S> = (S, Result<()>);

/// What waits.
#[derive(Debug)]
enum Waiting {
    Memory(Batch),
    /// And the number of packets in it.
    Disk(SpilledBatch, u64),
    Dropped(Dropped),
}

/// What both ends share.
#[derive(Debug, Default)]
struct Shared {
    /// Batches that wait in memory.
    batches: AtomicUsize,
    /// Packets that wait on the disk.
    packets: AtomicU64,
    dropped: Mutex<Option<Dropped>>,
}

impl Shared {
    fn dropped(&self) -> MutexGuard<'_, Option<Dropped>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The decoder's end of the queue.
#[derive(Debug)]
pub struct Queue<S> {
    batches: Receiver<Waiting>,
    thread: Option<JoinHandle<Ended<S>>>,
    shared: Arc<Shared>,
    batch: Batch,
    given: usize,
    /// When it was last said that nothing comes, and how long the decoder waits for packets before that is said again.
    idle: Instant,
    patience: Patience,
    result: Option<Ended<S>>,
}

/// The counters of a queue, for whoever does not hold it.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Shared>);

impl Gauge {
    /// Packets that wait on the disk.
    pub fn waiting(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Packets dropped because the decoder did not keep up.
    pub fn dropped(&self) -> Option<Dropped> {
        *self.0.dropped()
    }
}

impl<S: Source + Send + 'static> Queue<S> {
    /// Starts to empty `source` until it ends or `stop` is set.
    pub fn start(source: S, stop: Arc<AtomicBool>, overflow: Overflow) -> Result<Queue<S>> {
        let (sender, batches) = unbounded();
        let shared = Arc::<Shared>::default();
        let outlet = Outlet { batches: sender, overflow, shared: Arc::clone(&shared), dropped: None };
        let capture = move || capture(source, &stop, outlet);
        let thread =
            thread::Builder::new().name("capture".to_owned()).spawn(capture).context("cannot start a thread")?;
        let (batch, given, idle, result) = (Batch::default(), 0, Instant::now(), None);
        let patience = Patience::default();
        Ok(Queue { batches, thread: Some(thread), shared, batch, given, idle, patience, result })
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
            let waiting = self.batches.recv_timeout(self.patience.wait());
            if waiting.is_ok() {
                self.patience.reset();
            }
            match waiting {
                Ok(Waiting::Dropped(dropped)) => return Ok(Some(Item::Dropped(dropped))),
                Ok(Waiting::Memory(batch)) => {
                    self.shared.batches.fetch_sub(1, Ordering::Relaxed);
                    (self.batch, self.given) = (batch, 0);
                }
                Ok(Waiting::Disk(block, packets)) => {
                    self.shared.packets.fetch_sub(packets, Ordering::Relaxed);
                    (self.batch, self.given) = (block.read(mem::take(&mut self.batch))?, 0);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Some(self.idle())),
                Err(RecvTimeoutError::Disconnected) => {
                    self.join();
                    return Ok(None);
                }
            }
        }
        self.given += 1;
        Ok(self.batch.get(self.given - 1).map(Item::Packet))
    }
}

fn capture<S: Source>(mut source: S, stop: &AtomicBool, mut outlet: Outlet) -> Ended<S> {
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
            Ok(Some(Item::Secrets(_) | Item::Damage(_) | Item::Dropped(_))) => false,
            Ok(None) => break,
            Err(error) => {
                outlet.send(&mut batch, true);
                return (source, Err(error));
            }
        };
        if full && !outlet.send(&mut batch, false) {
            break;
        }
    }
    outlet.send(&mut batch, true);
    (source, Ok(()))
}

/// The capture's end of the queue.
struct Outlet {
    batches: Sender<Waiting>,
    overflow: Overflow,
    shared: Arc<Shared>,
    /// What was dropped since something was handed over.
    dropped: Option<Dropped>,
}

impl Outlet {
    /// Hands the batch over. Where memory is full it goes on growing, unless it is the `last`; a full one goes to the disk.
    /// False once nobody listens.
    fn send(&mut self, batch: &mut Batch, last: bool) -> bool {
        if batch.is_empty() {
            return !last || self.admit();
        }
        let waiting = if self.shared.batches.load(Ordering::Relaxed) < WAITING {
            self.shared.batches.fetch_add(1, Ordering::Relaxed);
            Waiting::Memory(mem::take(batch))
        } else if batch.bytes().len() < BATCH && !last {
            return true;
        } else {
            let (packets, written) = (batch.len() as u64, self.overflow.write(batch));
            let Ok(block) = written else {
                self.give_up(batch);
                return !last || self.admit();
            };
            batch.clear();
            self.shared.packets.fetch_add(packets, Ordering::Relaxed);
            Waiting::Disk(block, packets)
        };
        self.admit() && self.batches.send(waiting).is_ok()
    }

    /// Says at this place what was dropped before it.
    fn admit(&mut self) -> bool {
        self.dropped.take().is_none_or(|dropped| self.batches.send(Waiting::Dropped(dropped)).is_ok())
    }

    fn give_up(&mut self, batch: &mut Batch) {
        if let (Some(first), Some(last)) = (batch.get(0), batch.last()) {
            let these = Dropped { packets: batch.len() as u64, times: (first.time, last.time) };
            for dropped in [&mut self.dropped, &mut *self.shared.dropped()] {
                *dropped = Some(dropped.map_or(these, |before| before.and(these)));
            }
        }
        batch.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{LinkType, Packet, PacketNumber, Time};

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

    /// The numbers of the packets that a decoder gets which begins once all were captured, and what was dropped.
    fn numbers(overflow: Overflow) -> (Vec<u64>, Option<Dropped>) {
        let mut queue = Queue::start(Flood(0), Arc::default(), overflow).unwrap();
        let gauge = queue.gauge();
        while !queue.thread.as_ref().unwrap().is_finished() {
            thread::yield_now();
        }
        let (mut numbers, mut told) = (Vec::new(), None);
        while let Some(item) = queue.next().unwrap() {
            match item {
                Item::Packet(packet) => numbers.push(packet.number.0),
                Item::Dropped(these) => {
                    assert_eq!(numbers.last(), Some(&(these.times.0.0 as u64 - 1)), "said in its place");
                    told = Some(told.map_or(these, |before: Dropped| before.and(these)));
                }
                _ => {}
            }
        }
        assert_eq!(gauge.waiting(), 0);
        assert_eq!(told, gauge.dropped());
        assert_eq!(queue.finish().unwrap().0, ALL + 1);
        (numbers, gauge.dropped())
    }

    #[test]
    fn a_slow_decoder_gets_everything_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(numbers(Overflow::new(folder.path(), true)), ((1..=ALL).collect(), None));
    }

    #[test]
    fn what_neither_memory_nor_disk_hold_is_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (numbers, dropped) = numbers(Overflow::new(&folder.path().join("missing"), true));
        let Dropped { packets, times: (first, last) } = dropped.unwrap();
        assert!(numbers.is_sorted() && packets > 0);
        assert_eq!(numbers.len() as u64 + packets, ALL);
        assert!(!numbers.contains(&(first.0 as u64)) && first <= last, "{first:?} {last:?}");
    }
}
