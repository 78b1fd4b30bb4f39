//! The bounded queue between the lanes and the recorder.
//!
//! ```text
//!  lanes ─► batches in memory ───────────────────────────────► recorder
//!                  └─► relief ─► overflow on the disk ─┘  (only where the recorder is far behind)
//! ```
//!
//! The side of the lanes copies into memory that is used again and again, and makes a system call only to wake the recorder, once
//! every [`GATHER`] while there is traffic. The one lock is held for a copy or for taking a batch out, never
//! while anything is decoded, written or read.
//!
//! Peers that outrun the disk as well are slowed to its pace: a lane whose copy finds no room waits for it, after the delivery, as long as the disk takes
//! anything. Where it takes nothing for [`PATIENCE`], or is full, the copy is dropped, counted, and the record says so at that place.

use std::collections::VecDeque;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::capture::pipe::{self, Content, Exit, Pipe, Start};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::source::batch::Batch;
use crate::source::overflow::{Block, Overflow};
use crate::source::{Item, Source, now};

/// Bytes of memory that wait to be recorded at most; with it the whole program stays below 64 MB.
pub const QUEUE_LIMIT: usize = 16 << 20;

/// Queued bytes beyond which batches are moved to the disk, and below which that ends: a burst that is soon over is not moved, and whoever moves is
/// not woken for each batch.
const RELIEVED: usize = QUEUE_LIMIT / 2;
const CALM: usize = QUEUE_LIMIT / 4;

/// How long a lane waits for room while the disk takes nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Bytes of one batch: a full read of a large pipe, and small enough for a processor's cache.
const BATCH: usize = super::lane::BUFFER + (4 << 10);

/// Empty batches kept for use where there is no traffic. While there is, what a burst has taken is kept within [`QUEUE_LIMIT`]: fresh memory costs
/// several times what copying into used memory does, since the kernel clears each page.
const SPARE_AT_REST: usize = 3;

/// Queued bytes at which the recorder is woken early.
const EAGER: usize = QUEUE_LIMIT / 8;

/// How long chunks gather before the recorder takes them all: below what a person notices, and long enough that
/// waking the recorder costs nothing.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// How long traffic without a pause may keep the recorder from writing things out.
const PAUSE: Duration = Duration::from_millis(100);

/// How long an idle recorder sleeps at most before it is asked again.
const IDLE: Duration = Duration::from_secs(1);

/// What both sides share.
#[derive(Debug, Default)]
struct Queue {
    /// Those on the disk are older than those in memory, and one that is on its way there is in between.
    disk: VecDeque<Block>,
    moving: bool,
    memory: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Memory in use by all batches that the recorder has not done with.
    size: usize,
    /// The recorder sleeps until there is something.
    asleep: bool,
    /// The queue has passed [`EAGER`] and the recorder was told.
    pressed: bool,
    /// Whoever relieves the queue sleeps until it is to.
    relief: bool,
    /// A lane waits for room.
    blocked: bool,
    /// There was no room on the disk, until the recorder takes something.
    stuck: bool,
    /// One of the two sides is gone: what is queued is all there will be.
    over: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.disk.is_empty() && !self.moving
    }

    /// Nobody will take what waits.
    fn forget(&mut self) {
        self.over = true;
        self.memory.clear();
        self.disk.clear();
    }

    /// A batch's memory is free again.
    fn release(&mut self, mut batch: Batch) {
        self.size -= batch.size();
        if !batch.is_empty() && self.size + self.spare.len() * BATCH < QUEUE_LIMIT {
            batch.clear();
            self.spare.push(batch);
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the recorder.
    wake: Condvar,
    /// Wakes whoever relieves the queue.
    full: Condvar,
    /// Wakes a lane that waits for room.
    room: Condvar,
    /// Wakes the recorder where it waits for what is on its way to the disk.
    landed: Condvar,
    /// Data bytes that the recorder has taken.
    taken: AtomicU64,
}

impl Shared {
    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.wake.notify_one();
        self.full.notify_one();
        self.room.notify_one();
    }

    /// Memory was released, or never will be: tells a lane that waits, once it would not wait again soon.
    fn tell_of_room(&self, queue: &mut Queue) {
        if queue.blocked && (queue.size <= RELIEVED || queue.stuck) {
            queue.blocked = false;
            self.room.notify_one();
        }
    }
}

/// The side of the lanes: where what passes is noted.
#[derive(Debug)]
pub struct Tap {
    process: u32,
    shared: Arc<Shared>,
    /// Data bytes seen.
    seen: u64,
    /// Data bytes of each pipe that were dropped since the last that were not.
    lost: [u64; 3],
    /// The recorder, and whoever relieves the queue, should be woken once there is time for it.
    wake: bool,
    relieve: bool,
}

/// What was observed of a wrapped server, in order: a [`Source`] of packets of link type [`LinkType::PIPE`].
///
/// Begins with [`Content::Start`] and ends with [`Content::Exit`]. `next` answers [`Item::Idle`] at once when the queue has run
/// empty, which is the moment to write things out, and then waits.
#[derive(Debug)]
pub struct Observations {
    shared: Arc<Shared>,
    /// What is being handed out, and how many of its chunks were.
    batch: Batch,
    given: usize,
    packets: u64,
    bytes: u64,
    /// The last answer was [`Item::Idle`], because the queue had run empty.
    idle: bool,
    /// When the last such answer was given.
    paused: Instant,
}

/// A queue for what is observed of `process`; what memory has no room for waits in `folder`.
pub fn tap(process: u32, folder: &Path) -> (Tap, Observations) {
    let shared = Arc::<Shared>::default();
    // Messages of a pipe are saved as they are: there is nothing to seal.
    let (relieved, overflow) = (Arc::clone(&shared), Overflow::new(folder, false));
    // It has the lanes' priority: the recorder, which has not, is what it makes up for. Without it the queue is as large as its memory.
    let _ = thread::Builder::new().name("overflow".into()).spawn(move || relieved.relieve(overflow));
    let tap = Tap { process, shared: Arc::clone(&shared), seen: 0, lost: [0; 3], wake: false, relieve: false };
    let (batch, paused) = (Batch::default(), Instant::now());
    (tap, Observations { shared, batch, given: 0, packets: 0, bytes: 0, idle: false, paused })
}

impl Tap {
    /// The server was started.
    pub fn start(&mut self, start: Start) {
        self.send(now(), &Content::Start(start), usize::MAX);
    }

    /// Bytes were read from a pipe's writer at this time. Waits where there is no room for them, within bounds.
    pub fn data(&mut self, time: Time, pipe: Pipe, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let before = mem::take(&mut self.lost[pipe as usize]);
        // After a loss, recording resumes once there is room for a good deal: shreds help nobody.
        if before > 0 && !self.send(time, &Content::Lost(pipe, before), QUEUE_LIMIT / 2) {
            self.lost[pipe as usize] = before + bytes.len() as u64;
            return;
        }
        if before == 0 {
            self.await_room(pipe::HEAD + bytes.len());
        }
        if !self.send(time, &Content::Data(pipe, bytes), QUEUE_LIMIT) {
            self.lost[pipe as usize] = bytes.len() as u64;
        }
    }

    /// Waits while the queue has no room for so many bytes and it still moves.
    fn await_room(&self, bytes: usize) {
        let mut queue = self.shared.lock();
        let mut before = usize::MAX;
        while queue.size + bytes > QUEUE_LIMIT && queue.size < before && !queue.stuck && !queue.over {
            before = queue.size;
            queue.blocked = true;
            self.shared.full.notify_one();
            queue = wait_while(&self.shared.room, queue, PATIENCE, |queue| queue.blocked && !queue.over);
        }
        queue.blocked = false;
    }

    /// A pipe was closed by its writer.
    pub fn end_of_file(&mut self, pipe: Pipe) {
        self.admit_loss(pipe);
        self.send(now(), &Content::EndOfFile(pipe), usize::MAX);
    }

    /// The server ended: the last word.
    pub fn exit(&mut self, exit: Exit) {
        for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
            self.admit_loss(pipe);
        }
        self.send(now(), &Content::Exit(exit), usize::MAX);
        self.shared.lock().over = true;
        self.shared.notify();
    }

    /// Lets go of what the recorder has not taken yet, so that it can come to its end.
    pub fn cut(&mut self) {
        let mut queue = self.shared.lock();
        queue.forget();
        drop(queue);
        self.shared.notify();
    }

    /// Wakes the recorder if it sleeps and there is something for it, or far too much.
    pub fn nudge(&mut self) {
        if mem::take(&mut self.wake) {
            self.shared.wake.notify_one();
        }
        if mem::take(&mut self.relieve) {
            self.shared.full.notify_one();
        }
    }

    /// Data bytes that were seen and that the recorder did not take.
    pub fn unrecorded(&self) -> u64 {
        self.seen.saturating_sub(self.shared.taken.load(Ordering::Relaxed))
    }

    fn admit_loss(&mut self, pipe: Pipe) {
        match mem::take(&mut self.lost[pipe as usize]) {
            0 => true,
            lost => self.send(now(), &Content::Lost(pipe, lost), usize::MAX),
        };
    }

    /// Queues one chunk, unless the queue would grow beyond `limit` or nobody would ever take it.
    fn send(&mut self, time: Time, content: &Content<'_>, limit: usize) -> bool {
        let data = if let Content::Data(_, bytes) = content { bytes.len() } else { 0 };
        let mut queue = self.shared.lock();
        if queue.over || queue.size + pipe::HEAD + data > limit {
            return false;
        }
        let mut batch = match queue.memory.pop_back() {
            Some(last) if last.bytes().len() + pipe::HEAD + data <= BATCH => last,
            full => {
                // Behind a full one the next may become as large; the first of a quiet server stays small.
                let expected = if full.is_some() { BATCH } else { 0 };
                queue.memory.extend(full);
                queue.spare.pop().unwrap_or_else(|| Batch::with_capacity(expected))
            }
        };
        let before = batch.size();
        batch.write(PacketNumber(0), time, LinkType::PIPE, |bytes| pipe::encode(self.process, content, bytes));
        queue.size += batch.size() - before;
        queue.memory.push_back(batch);
        let pressed = queue.size > EAGER;
        self.wake |= mem::take(&mut queue.asleep) || (pressed && !queue.pressed);
        queue.pressed = pressed;
        self.relieve |= queue.size > RELIEVED && mem::take(&mut queue.relief);
        true
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.notify();
    }
}

impl Observations {
    /// Sleeps so long, unless the server ends sooner.
    pub(super) fn hold_off(&self, time: Duration) {
        drop(wait_while(&self.shared.wake, self.shared.lock(), time, |queue| !queue.over));
    }

    /// Sleeps until there is something, then lets more of it gather.
    fn rest(&self) {
        let mut queue = self.shared.lock();
        queue.asleep = true;
        let empty = |queue: &mut Queue| queue.is_empty() && !queue.over;
        queue = wait_while(&self.shared.wake, queue, IDLE, empty);
        queue.asleep = false;
        if queue.is_empty() {
            queue.spare.truncate(SPARE_AT_REST);
        } else {
            let calm = |queue: &mut Queue| queue.size < EAGER && !queue.over;
            drop(wait_while(&self.shared.wake, queue, GATHER, calm));
        }
    }

    /// Takes the next batch, an empty one when there is none, in place of the one that is used up. True when nothing can follow it.
    fn turn(&mut self) -> anyhow::Result<bool> {
        self.given = 0;
        let shared = &*self.shared;
        let mut queue = shared.lock();
        if mem::take(&mut queue.stuck) {
            shared.full.notify_one();
        }
        let on_its_way = |queue: &mut Queue| queue.moving && queue.disk.is_empty();
        queue = shared.landed.wait_while(queue, on_its_way).unwrap_or_else(PoisonError::into_inner);
        let used = mem::take(&mut self.batch);
        if let Some(oldest) = queue.disk.pop_front() {
            queue.size -= used.size();
            if queue.disk.is_empty() {
                // Its file can be closed.
                shared.full.notify_one();
            }
            drop(queue);
            self.batch = oldest.read(used)?;
            queue = shared.lock();
            queue.size += self.batch.size();
        } else {
            queue.release(used);
            self.batch = queue.memory.pop_front().unwrap_or_default();
        }
        shared.tell_of_room(&mut queue);
        Ok(queue.over && queue.is_empty())
    }
}

impl Source for Observations {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if mem::take(&mut self.idle) {
            self.rest();
        }
        if self.given == self.batch.len() {
            if self.paused.elapsed() > PAUSE {
                self.paused = Instant::now();
                return Ok(Some(Item::Idle));
            }
            let last = self.turn()?;
            if self.batch.is_empty() {
                self.idle = !last;
                self.paused = Instant::now();
                return Ok(self.idle.then_some(Item::Idle));
            }
        }
        self.given += 1;
        self.packets += 1;
        let Some(packet) = self.batch.get(self.given - 1) else { return Ok(Some(Item::Idle)) };
        self.bytes += packet.data.len() as u64;
        if let Some((_, Content::Data(_, bytes))) = pipe::decode(packet.data) {
            self.shared.taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(Some(Item::Packet(Packet { number: PacketNumber(self.packets), ..packet })))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes, None)
    }
}

impl Drop for Observations {
    fn drop(&mut self) {
        self.shared.lock().forget();
        self.shared.notify();
    }
}

impl Shared {
    /// Moves batches to the disk while too many wait, until nothing more comes.
    fn relieve(&self, mut overflow: Overflow) {
        let mut queue = self.lock();
        loop {
            while (queue.size <= RELIEVED || queue.memory.is_empty() || queue.stuck) && !queue.over {
                if queue.disk.is_empty() {
                    overflow.rest();
                }
                queue.relief = true;
                queue = self.full.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.relief = false;
            while queue.size > CALM && !queue.stuck && !queue.over {
                let Some(batch) = queue.memory.pop_front() else { break };
                queue.moving = true;
                drop(queue);
                let block = overflow.write(&batch);
                queue = self.lock();
                queue.moving = false;
                match block {
                    Ok(block) => {
                        queue.disk.push_back(block);
                        queue.release(batch);
                    }
                    Err(_) => {
                        queue.memory.push_front(batch);
                        queue.stuck = true;
                    }
                }
                self.landed.notify_one();
                self.tell_of_room(&mut queue);
            }
            if queue.over {
                return;
            }
        }
    }
}

fn wait_while<'a>(
    wake: &Condvar,
    queue: MutexGuard<'a, Queue>,
    most: Duration,
    condition: impl FnMut(&mut Queue) -> bool,
) -> MutexGuard<'a, Queue> {
    wake.wait_timeout_while(queue, most, condition).unwrap_or_else(PoisonError::into_inner).0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PIECE: usize = 64 << 10;

    /// What a recorder got: the numbers that pieces of stdout begin with, and the bytes that it was told are missing.
    #[derive(Debug, Default, PartialEq)]
    struct Record {
        numbers: Vec<u64>,
        bytes: u64,
        lost: u64,
        ended: bool,
    }

    impl Record {
        /// Takes the next item; false at the end.
        fn take(&mut self, observations: &mut Observations) -> bool {
            let Some(item) = observations.next().expect("the disk can be read") else { return false };
            let Item::Packet(packet) = item else { return true };
            match pipe::decode(packet.data).expect("a packet of a pipe").1 {
                Content::Data(_, bytes) => {
                    self.numbers.push(u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")));
                    self.bytes += bytes.len() as u64;
                }
                Content::Lost(_, bytes) => self.lost += bytes,
                Content::Exit(_) => self.ended = true,
                _ => {}
            }
            true
        }

        fn take_all(mut self, observations: &mut Observations) -> Record {
            while self.take(observations) {}
            self
        }
    }

    fn pass(tap: &mut Tap, number: u64, length: usize) {
        let mut piece = vec![0; length];
        piece[..8].copy_from_slice(&number.to_le_bytes());
        tap.data(now(), Pipe::Stdout, &piece);
        tap.nudge();
    }

    #[test]
    fn what_memory_has_no_room_for_waits_on_the_disk_in_order() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (mut tap, mut observations) = tap(1, folder.path());
        let all = (4 * QUEUE_LIMIT / PIECE) as u64;
        (0..all).for_each(|number| pass(&mut tap, number, PIECE));
        assert!(!tap.shared.lock().disk.is_empty());
        // Recording goes on meanwhile, and what comes then is behind what waits.
        let mut record = Record::default();
        while record.numbers.len() < 10 {
            record.take(&mut observations);
        }
        (all..all + 100).for_each(|number| pass(&mut tap, number, PIECE));
        tap.exit(Exit::default());
        let record = record.take_all(&mut observations);
        assert_eq!(record.numbers, (0..all + 100).collect::<Vec<_>>());
        assert_eq!((tap.unrecorded(), record.lost), (0, 0));
    }

    #[test]
    fn where_there_is_no_disk_memory_is_all_there_is() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (mut tap, mut observations) = tap(1, &folder.path().join("missing"));
        let all = (2 * QUEUE_LIMIT / PIECE) as u64;
        (0..all).for_each(|number| pass(&mut tap, number, PIECE));
        tap.exit(Exit::default());
        let record = Record::default().take_all(&mut observations);
        assert!(record.numbers.len() as u64 >= all / 2 - 10 && record.numbers.is_sorted(), "{}", record.numbers.len());
        assert_eq!(tap.unrecorded(), (all - record.numbers.len() as u64) * PIECE as u64);
        assert_eq!(tap.unrecorded(), record.lost);
    }

    /// A lane that waits for room is not waited for when nobody will ever make any.
    #[test]
    fn a_lane_does_not_wait_for_a_recorder_that_is_gone() {
        let (mut tap, observations) = tap(1, Path::new("/nowhere"));
        drop(observations);
        (0..1_000).for_each(|number| pass(&mut tap, number, PIECE));
        assert_eq!(tap.unrecorded(), 1_000 * PIECE as u64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn everything_comes_out_in_order_or_is_counted(
            bursts in prop::collection::vec((1u64..200, 8..super::super::lane::BUFFER, 0usize..400), 1..8), disk: bool,
        ) {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let place = if disk { folder.path().to_owned() } else { folder.path().join("missing") };
            let (mut tap, mut observations) = tap(1, &place);
            let (mut record, mut number) = (Record::default(), 0);
            for (pieces, length, taken) in bursts {
                for _ in 0..pieces {
                    pass(&mut tap, number, length);
                    number += 1;
                    // What the recorder is at is out of the queue, and may come from the disk.
                    prop_assert!(tap.shared.lock().size <= QUEUE_LIMIT + 2 * BATCH);
                }
                let wanted = record.numbers.len() + taken.min((number as usize).saturating_sub(record.numbers.len()) / 2);
                while record.numbers.len() < wanted && !tap.shared.lock().is_empty() {
                    record.take(&mut observations);
                }
            }
            tap.exit(Exit::default());
            let record = record.take_all(&mut observations);
            prop_assert!(record.ended && record.numbers.is_sorted_by(|before, after| before < after));
            prop_assert_eq!(tap.unrecorded(), record.lost);
            prop_assert_eq!(record.bytes + record.lost, tap.seen);
            if disk {
                prop_assert_eq!(record.numbers, (0..number).collect::<Vec<_>>());
            }
        }
    }
}
