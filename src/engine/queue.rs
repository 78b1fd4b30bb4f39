//! A source on a thread of its own, with a bounded queue to the decoder. A capture has to be read
//! faster than the kernel fills its buffer, however slow the decoder is.
//!
//! Packets that exceed the memory of the queue are written to the disk, see [`Overflow`]. When that
//! is full too, packets are dropped and counted. The decoder treats them as loss. Of pipe packets
//! the lengths remain, as gaps.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};

use crate::capture::pipe::{self, PipeEvent};
use crate::capture::{Dropped, LinkType};
use crate::source::batch::Batch;
use crate::source::overflow::{Overflow, SpilledBatch};
use crate::source::patience::Patience;
use crate::source::{Item, Source};

/// Bytes of a batch, and batches that wait in memory: 64 MiB, which is seconds of a busy interface.
const BATCH: usize = 256 << 10;
const BATCHES_IN_MEMORY: usize = 256;
/// The time after which traffic without a pause is interrupted by an idle item, so that output is
/// shown and written. A person who watches does not want to wait longer.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);
/// The time for which the capture continues after `stop`, to read the kernel's buffer. On a busy
/// interface the buffer never becomes empty. A source that ends by itself has the time it needs.
const STOP_TIME: Duration = Duration::from_millis(250);

/// The result of the capture thread: its source, whose counters are needed, and its error.
type FinishedCapture<S> = (S, Result<()>);

/// An item of the queue.
#[derive(Debug)]
enum QueueEntry {
    Memory(Batch),
    /// A batch on the disk, with the number of its packets.
    Disk(SpilledBatch, u64),
    Dropped(Dropped),
}

/// Counters that both ends of the queue share.
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

/// The decoder's end of the queue. It is a source too.
#[derive(Debug)]
pub struct Queue<S> {
    batches: Receiver<QueueEntry>,
    thread: Option<JoinHandle<FinishedCapture<S>>>,
    shared: Arc<Shared>,
    batch: Batch,
    delivered: usize,
    /// The time of the last idle item.
    idle: Instant,
    patience: Patience,
    result: Option<FinishedCapture<S>>,
}

/// Reads the counters of a queue from elsewhere.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Shared>);

impl Gauge {
    /// Packets that wait on the disk.
    pub fn waiting(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Packets that were dropped because the decoder was too slow.
    pub fn dropped(&self) -> Option<Dropped> {
        *self.0.dropped()
    }
}

impl<S: Source + Send + 'static> Queue<S> {
    /// Starts a thread that reads `source` until it ends or `stop` is set.
    pub fn start(source: S, stop: Arc<AtomicBool>, overflow: Overflow) -> Result<Queue<S>> {
        let (sender, batches) = unbounded();
        let shared = Arc::<Shared>::default();
        let sender = QueueSender { batches: sender, overflow, shared: Arc::clone(&shared), dropped: None };
        let capture = move || capture(source, &stop, sender);
        let thread = thread::Builder::new()
            .name("capture".to_owned())
            .spawn(capture)
            .context("cannot start the capture thread")?;
        let (batch, delivered, idle, result) = (Batch::default(), 0, Instant::now(), None);
        let patience = Patience::default();
        Ok(Queue { batches, thread: Some(thread), shared, batch, delivered, idle, patience, result })
    }

    /// A reader of its counters.
    pub fn gauge(&self) -> Gauge {
        Gauge(Arc::clone(&self.shared))
    }

    /// Waits for the end of the capture thread and returns the source.
    pub fn finish(mut self) -> Result<S> {
        self.join();
        match self.result {
            Some((source, Ok(()))) => Ok(source),
            Some((_, Err(error))) => Err(error),
            None => Err(anyhow!("the capture thread ended unexpectedly")),
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
        if self.delivered == self.batch.len() {
            if self.idle.elapsed() > IDLE_INTERVAL {
                return Ok(Some(self.idle()));
            }
            let received = self.batches.recv_timeout(self.patience.wait());
            if received.is_ok() {
                self.patience.reset();
            }
            match received {
                Ok(QueueEntry::Dropped(dropped)) => return Ok(Some(Item::Dropped(dropped))),
                Ok(QueueEntry::Memory(batch)) => {
                    self.shared.batches.fetch_sub(1, Ordering::Relaxed);
                    (self.batch, self.delivered) = (batch, 0);
                }
                Ok(QueueEntry::Disk(block, packets)) => {
                    self.shared.packets.fetch_sub(packets, Ordering::Relaxed);
                    (self.batch, self.delivered) = (block.read(mem::take(&mut self.batch))?, 0);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Some(self.idle())),
                Err(RecvTimeoutError::Disconnected) => {
                    self.join();
                    return Ok(None);
                }
            }
        }
        self.delivered += 1;
        Ok(self.batch.get(self.delivered - 1).map(Item::Packet))
    }
}

fn capture<S: Source>(mut source: S, stop: &AtomicBool, mut sender: QueueSender) -> FinishedCapture<S> {
    let mut batch = Batch::default();
    let (mut stopped, mut ends_itself) = (None::<Instant>, false);
    loop {
        if stop.load(Ordering::Relaxed) && stopped.is_none() {
            ends_itself = source.stop();
            stopped = Some(Instant::now());
        }
        if !ends_itself && stopped.is_some_and(|stopped| stopped.elapsed() > STOP_TIME) {
            break;
        }
        let full = match source.next() {
            Ok(Some(Item::Packet(packet))) => {
                batch.push(&packet);
                batch.bytes().len() >= BATCH
            }
            // The capture was stopped, and the kernel's buffer is empty.
            Ok(Some(Item::Idle)) if stopped.is_some() && !ends_itself => break,
            Ok(Some(Item::Idle)) => true,
            Ok(Some(Item::Secrets(_) | Item::Damage(_) | Item::Dropped(_))) => false,
            Ok(None) => break,
            Err(error) => {
                sender.send(&mut batch, true);
                return (source, Err(error));
            }
        };
        if full && !sender.send(&mut batch, false) {
            break;
        }
    }
    sender.send(&mut batch, true);
    (source, Ok(()))
}

/// The capture thread's end of the queue.
struct QueueSender {
    batches: Sender<QueueEntry>,
    overflow: Overflow,
    shared: Arc<Shared>,
    /// Packets that were dropped since the last batch was sent.
    dropped: Option<Dropped>,
}

impl QueueSender {
    /// Sends a batch. If memory is full, a batch that is not full and not the `last` grows on, and
    /// a full one is written to the disk.
    ///
    /// Returns false once the decoder has gone.
    fn send(&mut self, batch: &mut Batch, last: bool) -> bool {
        if batch.is_empty() {
            return !last || self.send_dropped();
        }
        let entry = if self.shared.batches.load(Ordering::Relaxed) < BATCHES_IN_MEMORY {
            self.shared.batches.fetch_add(1, Ordering::Relaxed);
            QueueEntry::Memory(mem::take(batch))
        } else if batch.bytes().len() < BATCH && !last {
            return true;
        } else {
            let (packets, written) = (batch.len() as u64, self.overflow.write(batch));
            let Ok(block) = written else {
                self.drop_batch(batch);
                return !last || self.send_dropped() && self.send_lengths(batch);
            };
            batch.clear();
            self.shared.packets.fetch_add(packets, Ordering::Relaxed);
            QueueEntry::Disk(block, packets)
        };
        self.send_dropped() && self.batches.send(entry).is_ok()
    }

    /// Sends what is left of dropped pipe packets. It is small, so it needs no room.
    fn send_lengths(&mut self, batch: &mut Batch) -> bool {
        if batch.is_empty() {
            return true;
        }
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        self.batches.send(QueueEntry::Memory(mem::take(batch))).is_ok()
    }

    /// Sends the number of packets that were dropped before this point.
    fn send_dropped(&mut self) -> bool {
        self.dropped.take().is_none_or(|dropped| self.batches.send(QueueEntry::Dropped(dropped)).is_ok())
    }

    /// Drops a batch. Of pipe packets the lengths are kept: there a loss is a gap.
    fn drop_batch(&mut self, batch: &mut Batch) {
        let (mut pipes, mut others) = (Batch::default(), 0);
        for packet in (0..batch.len()).filter_map(|index| batch.get(index)) {
            match packet.link {
                LinkType::PIPE => pipes.push(&packet),
                _ => others += 1,
            }
        }
        if let (Some(first), Some(last), 1..) = (batch.get(0), batch.last(), others) {
            let these = Dropped { packets: others, times: (first.time, last.time) };
            for dropped in [&mut self.dropped, &mut *self.shared.dropped()] {
                *dropped = Some(dropped.map_or(these, |before| before.and(these)));
            }
        }
        *batch = lengths_of(&pipes);
    }
}

/// The events of a batch of pipe packets, with each run of data replaced by its length.
fn lengths_of(batch: &Batch) -> Batch {
    let (mut small, mut lost) = (Batch::default(), BTreeMap::new());
    let write_lost = |small: &mut Batch, lost: &mut BTreeMap<_, _>| {
        let mut runs: Vec<_> = mem::take(lost).into_iter().collect();
        // A store needs the packets in order of number.
        runs.sort_by_key(|(_, (place, _))| *place);
        for ((process, pipe), ((number, time), bytes)) in runs {
            let event = PipeEvent::Lost(pipe, bytes);
            small.write(number, time, LinkType::PIPE, |out| pipe::encode(process, &event, out));
        }
    };
    for packet in (0..batch.len()).filter_map(|index| batch.get(index)) {
        let (key, bytes) = match pipe::decode(packet.data) {
            Some((process, PipeEvent::Data(pipe, bytes))) => ((process, pipe), bytes.len() as u64),
            Some((process, PipeEvent::Lost(pipe, bytes))) => ((process, pipe), bytes),
            _ => {
                write_lost(&mut small, &mut lost);
                small.push(&packet);
                continue;
            }
        };
        lost.entry(key).or_insert(((packet.number, packet.time), 0)).1 += bytes;
    }
    write_lost(&mut small, &mut lost);
    small
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::capture::pipe::Pipe;
    use crate::capture::{Packet, PacketNumber, Time};

    /// A source that delivers packets of 64 KiB as fast as they are taken.
    struct Flood(u64);

    const ALL: u64 = 3 * (BATCHES_IN_MEMORY * (BATCH >> 16)) as u64;

    impl Source for Flood {
        fn next(&mut self) -> Result<Option<Item<'_>>> {
            static DATA: [u8; 64 << 10] = [7; 64 << 10];
            self.0 += 1;
            let (number, time, link) = (PacketNumber(self.0), Time(self.0 as i64), LinkType::ETHERNET);
            let packet = Packet { number, time, link, interface: 0, original_length: 1, data: &DATA };
            Ok((self.0 <= ALL).then_some(Item::Packet(packet)))
        }
    }

    /// The numbers of the packets that a decoder gets if it begins after the whole capture, and the
    /// packets that were dropped.
    fn numbers(overflow: Overflow) -> (Vec<u64>, Option<Dropped>) {
        let mut queue = Queue::start(Flood(0), Arc::default(), overflow).unwrap();
        let gauge = queue.gauge();
        while !queue.thread.as_ref().unwrap().is_finished() {
            thread::yield_now();
        }
        let (mut numbers, mut dropped) = (Vec::new(), None);
        while let Some(item) = queue.next().unwrap() {
            match item {
                Item::Packet(packet) => numbers.push(packet.number.0),
                Item::Dropped(these) => {
                    assert_eq!(numbers.last(), Some(&(these.times.0.0 as u64 - 1)), "reported in its place");
                    dropped = Some(dropped.map_or(these, |before: Dropped| before.and(these)));
                }
                _ => {}
            }
        }
        assert_eq!(gauge.waiting(), 0);
        assert_eq!(dropped, gauge.dropped());
        assert_eq!(queue.finish().unwrap().0, ALL + 1);
        (numbers, gauge.dropped())
    }

    #[test]
    fn a_slow_decoder_gets_everything_in_order() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(numbers(Overflow::new(folder.path(), true)), ((1..=ALL).collect(), None));
    }

    /// A source of pipe packets, 64 KiB each, from one server in both directions.
    struct Pipes(u64);

    impl Source for Pipes {
        fn next(&mut self) -> Result<Option<Item<'_>>> {
            static PACKET: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
            let packets = PACKET.get_or_init(|| {
                [Pipe::Stdin, Pipe::Stdout].map(|pipe| {
                    let mut packet = Vec::new();
                    pipe::encode(7, &PipeEvent::Data(pipe, &[b'x'; 64 << 10]), &mut packet);
                    packet
                })
            });
            self.0 += 1;
            let (number, time, link) = (PacketNumber(self.0), Time(self.0 as i64), LinkType::PIPE);
            let data = &packets[self.0 as usize % 2];
            let packet = Packet { number, time, link, interface: 0, original_length: 1, data };
            Ok((self.0 <= ALL).then_some(Item::Packet(packet)))
        }
    }

    #[test]
    fn what_is_dropped_of_pipes_is_a_gap_of_known_length() {
        let folder = tempfile::tempdir().unwrap();
        let overflow = Overflow::new(&folder.path().join("missing"), false);
        let mut queue = Queue::start(Pipes(0), Arc::default(), overflow).unwrap();
        while !queue.thread.as_ref().unwrap().is_finished() {
            thread::yield_now();
        }
        let (mut seen, mut lost, mut last) = ([0; 2], [0; 2], PacketNumber(0));
        while let Some(item) = queue.next().unwrap() {
            let Item::Packet(packet) = item else { continue };
            assert!(packet.number > last, "{:?} after {last:?}", packet.number);
            last = packet.number;
            match pipe::decode(packet.data).unwrap().1 {
                PipeEvent::Data(pipe, bytes) => seen[pipe as usize] += bytes.len() as u64,
                PipeEvent::Lost(pipe, bytes) => lost[pipe as usize] += bytes,
                other => panic!("{other:?}"),
            }
        }
        assert!(lost.iter().all(|bytes| *bytes > 0));
        assert_eq!([seen[0] + lost[0], seen[1] + lost[1]], [ALL / 2 * (64 << 10); 2]);
    }

    #[test]
    fn packets_beyond_memory_and_disk_are_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (numbers, dropped) = numbers(Overflow::new(&folder.path().join("missing"), true));
        let Dropped { packets, times: (first, last) } = dropped.unwrap();
        assert!(numbers.is_sorted() && packets > 0);
        assert_eq!(numbers.len() as u64 + packets, ALL);
        assert!(!numbers.contains(&(first.0 as u64)) && first <= last, "{first:?} {last:?}");
    }
}
