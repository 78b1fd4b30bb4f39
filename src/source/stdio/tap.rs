//! The bounded queue between the lanes and the recorder.
//!
//! ```text
//!  lanes ─► batches in memory ───────────────────────────────► recorder
//!                  └─► relief ─► overflow on the disk ─┘  (only where the recorder is far behind)
//! ```
//!
//! The side of the lanes copies into memory that is used again and again, and makes a system call only to wake the recorder, once
//! every [`GATHER`] while there is traffic. The one lock is held for a copy or for taking a batch out, never
//! while anything is decoded or written.

use std::collections::VecDeque;
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::capture::pipe::{self, Content, Exit, Pipe, Start};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::source::batch::Batch;
use crate::source::overflow::Overflow;
use crate::source::{Item, Source};

/// Bytes of memory that wait to be recorded at most; with it the whole program stays below 64 MB.
pub const QUEUE_LIMIT: usize = 32 << 20;

/// Queued bytes beyond which batches are moved to the disk: a burst that is soon over is not.
const RELIEVED: usize = QUEUE_LIMIT / 2;

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
    batches: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// Memory in use by all batches that the recorder has not done with.
    size: usize,
    /// Batches on the disk or on their way there: older than those above.
    moved: usize,
    /// The recorder sleeps until there is something.
    asleep: bool,
    /// The queue has passed [`EAGER`] and the recorder was told.
    pressed: bool,
    /// Whoever relieves the queue sleeps until it is to.
    relief: bool,
    /// There was no room on the disk, until the recorder takes something.
    stuck: bool,
    /// One of the two sides is gone: what is queued is all there will be.
    over: bool,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.moved == 0
    }

    /// Nobody will take what waits.
    fn forget(&mut self) {
        self.over = true;
        self.batches.clear();
        self.moved = 0;
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
    /// What the queue is relieved into. Locked before the queue where both are: what is on its way there is seen by nobody.
    overflow: Mutex<Option<Overflow>>,
    /// Data bytes that the recorder has taken.
    taken: AtomicU64,
}

impl Shared {
    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn overflow(&self) -> MutexGuard<'_, Option<Overflow>> {
        self.overflow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.wake.notify_one();
        self.full.notify_one();
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

/// A queue for what is observed of `process`.
pub fn tap(process: u32) -> (Tap, Observations) {
    let shared = Arc::<Shared>::default();
    let relieved = Arc::clone(&shared);
    // It has the lanes' priority: the recorder, which has not, is what it makes up for. Without it the queue is as large as its memory.
    let _ = thread::Builder::new().name("overflow".into()).spawn(move || relieved.relieve());
    let tap = Tap { process, shared: Arc::clone(&shared), seen: 0, lost: [0; 3], wake: false, relieve: false };
    let (batch, paused) = (Batch::default(), Instant::now());
    (tap, Observations { shared, batch, given: 0, packets: 0, bytes: 0, idle: false, paused })
}

impl Tap {
    /// The server was started.
    pub fn start(&mut self, start: Start) {
        self.send(&Content::Start(start), usize::MAX);
    }

    /// Bytes were read from a pipe's writer.
    pub fn data(&mut self, pipe: Pipe, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let lost = mem::take(&mut self.lost[pipe as usize]);
        // After a loss, recording resumes once there is room for a good deal: shreds help nobody.
        let resumed = lost == 0 || self.send(&Content::Lost(pipe, lost), QUEUE_LIMIT / 2);
        if !resumed || !self.send(&Content::Data(pipe, bytes), QUEUE_LIMIT) {
            self.lost[pipe as usize] = if resumed { 0 } else { lost } + bytes.len() as u64;
        }
    }

    /// A pipe was closed by its writer.
    pub fn end_of_file(&mut self, pipe: Pipe) {
        self.admit_loss(pipe);
        self.send(&Content::EndOfFile(pipe), usize::MAX);
    }

    /// The server ended: the last word.
    pub fn exit(&mut self, exit: Exit) {
        for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
            self.admit_loss(pipe);
        }
        self.send(&Content::Exit(exit), usize::MAX);
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
            lost => self.send(&Content::Lost(pipe, lost), usize::MAX),
        };
    }

    /// Queues one chunk, unless the queue would grow beyond `limit` or nobody would ever take it.
    fn send(&mut self, content: &Content<'_>, limit: usize) -> bool {
        let data = if let Content::Data(_, bytes) = content { bytes.len() } else { 0 };
        let time = now();
        let mut queue = self.shared.lock();
        if queue.over || queue.size + pipe::HEAD + data > limit {
            return false;
        }
        let mut batch = match queue.batches.pop_back() {
            Some(last) if last.bytes().len() + pipe::HEAD + data <= BATCH => last,
            full => {
                // Behind a full one the next may become as large; the first of a quiet server stays small.
                let expected = if full.is_some() { BATCH } else { 0 };
                queue.batches.extend(full);
                queue.spare.pop().unwrap_or_else(|| Batch::with_capacity(expected))
            }
        };
        let before = batch.size();
        batch.write(PacketNumber(0), time, LinkType::PIPE, |bytes| pipe::encode(self.process, content, bytes));
        queue.size += batch.size() - before;
        queue.batches.push_back(batch);
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
    /// What memory has no room for shall wait in a file in `folder`.
    pub fn overflow_into(&self, folder: &Path) {
        // Messages of a pipe are saved as they are: there is nothing to seal.
        *self.shared.overflow() = Some(Overflow::new(folder, false));
    }

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
        let mut queue = self.shared.lock();
        queue.release(mem::take(&mut self.batch));
        if mem::take(&mut queue.stuck) {
            self.shared.full.notify_one();
        }
        while queue.moved > 0 {
            drop(queue);
            let mut overflow = self.shared.overflow();
            let oldest = overflow.as_mut().map_or(Ok(None), Overflow::pop)?;
            queue = self.shared.lock();
            if let Some(oldest) = oldest {
                queue.moved = queue.moved.saturating_sub(1);
                queue.size += oldest.size();
                self.batch = oldest;
                return Ok(false);
            }
        }
        self.batch = queue.batches.pop_front().unwrap_or_default();
        Ok(queue.over && queue.batches.is_empty())
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
    fn relieve(&self) {
        let mut queue = self.lock();
        loop {
            queue.relief = true;
            while (queue.size <= RELIEVED || queue.stuck) && !queue.over {
                queue = self.full.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.relief = false;
            if queue.over {
                return;
            }
            drop(queue);
            let moved = self.move_oldest();
            queue = self.lock();
            queue.stuck = !moved;
        }
    }

    /// Moves the oldest batch to the disk; says whether that could be done.
    fn move_oldest(&self) -> bool {
        let mut overflow = self.overflow();
        let mut queue = self.lock();
        let Some(batch) = queue.batches.pop_front() else { return false };
        queue.moved += 1;
        drop(queue);
        let moved = overflow.as_mut().is_some_and(|overflow| overflow.push(&batch));
        let mut queue = self.lock();
        if moved {
            queue.release(batch);
        } else {
            queue.moved = queue.moved.saturating_sub(1);
            queue.batches.push_front(batch);
        }
        moved
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

/// The wall clock, which a record needs to be compared with other logs.
fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 64 << 10;

    /// Everything that is still to be recorded: pieces begin with their number.
    fn record(mut observations: Observations) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(item) = observations.next().expect("the disk can be read") {
            let Item::Packet(packet) = item else { continue };
            if let Some((_, Content::Data(Pipe::Stdout, bytes))) = pipe::decode(packet.data) {
                assert_eq!(bytes.len(), PIECE);
                numbers.push(u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")));
            }
        }
        numbers
    }

    fn pass(tap: &mut Tap, numbers: std::ops::Range<u64>) {
        let mut piece = vec![0; PIECE];
        for number in numbers {
            piece[..8].copy_from_slice(&number.to_le_bytes());
            tap.data(Pipe::Stdout, &piece);
            tap.nudge();
            // Whoever relieves the queue may be slow to begin on a busy machine: this test is not about that.
            while tap.shared.lock().size > RELIEVED + (1 << 20) && !tap.shared.lock().stuck {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn what_memory_has_no_room_for_waits_on_the_disk_in_order() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (mut tap, mut observations) = tap(1);
        observations.overflow_into(folder.path());
        let all = (2 * QUEUE_LIMIT / PIECE) as u64;
        pass(&mut tap, 0..all);
        assert!(tap.shared.lock().moved > 0);
        // Recording goes on meanwhile, and what comes then is behind what waits.
        while tap.shared.taken.load(Ordering::Relaxed) < 10 * PIECE as u64 {
            observations.next().expect("the disk can be read");
        }
        pass(&mut tap, all..all + 100);
        tap.exit(Exit::default());
        assert_eq!(record(observations), (10..all + 100).collect::<Vec<_>>());
        assert_eq!(tap.unrecorded(), 0);
    }

    #[test]
    fn where_there_is_no_disk_memory_is_all_there_is() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (mut tap, observations) = tap(1);
        observations.overflow_into(&folder.path().join("missing"));
        let all = (2 * QUEUE_LIMIT / PIECE) as u64;
        pass(&mut tap, 0..all);
        tap.exit(Exit::default());
        let recorded = record(observations);
        assert!(recorded.len() as u64 >= all / 2 - 10 && recorded.is_sorted(), "{}", recorded.len());
        assert_eq!(tap.unrecorded(), (all - recorded.len() as u64) * PIECE as u64);
    }
}
