//! The bounded queue between the lanes and the recorder.
//!
//! The side of the lanes copies into memory that is used again and again, and makes a system call only to wake the recorder, once
//! every [`GATHER`] while there is traffic. The one lock is held for a copy or for taking a segment out, never
//! while anything is decoded or written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::capture::pipe::{self, Content, Exit, Pipe, Start};
use crate::capture::{LinkType, Packet, PacketNumber, Time};
use crate::source::{Item, Source};

/// Bytes of memory that wait to be recorded at most. A second's worth for a disk that writes 32 MB/s; with it the whole
/// program stays below 64 MB.
pub const QUEUE_LIMIT: usize = 32 << 20;

/// Bytes of one segment: some full reads, and small enough for a processor's cache.
const SEGMENT: usize = 256 << 10;

/// Empty segments kept for use. More are in turn only when the recorder lags.
const SPARE: usize = 3;

/// Queued bytes at which the recorder is woken early.
const EAGER: usize = QUEUE_LIMIT / 8;

/// How long chunks gather before the recorder takes them all: below what a person notices, and long enough that
/// waking the recorder costs nothing.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// How long traffic without a pause may keep the recorder from writing things out.
const PAUSE: Duration = Duration::from_millis(100);

/// How long an idle recorder sleeps at most before it is asked again.
const IDLE: Duration = Duration::from_secs(1);

/// Chunks, one behind the other, as packets in the form of [`crate::capture::pipe`].
#[derive(Debug, Default)]
struct Segment {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
}

/// When a chunk was read, and where its packet ends.
#[derive(Clone, Copy, Debug)]
struct Mark {
    time: Time,
    end: usize,
}

impl Segment {
    /// Memory in use.
    fn size(&self) -> usize {
        self.bytes.len() + self.marks.len() * size_of::<Mark>()
    }
}

/// What both sides share.
#[derive(Debug, Default)]
struct Queue {
    segments: VecDeque<Segment>,
    spare: Vec<Segment>,
    /// Memory in use by all segments that the recorder has not done with.
    size: usize,
    /// The recorder sleeps until there is something.
    asleep: bool,
    /// The queue has passed [`EAGER`] and the recorder was told.
    pressed: bool,
    /// One of the two sides is gone: what is queued is all there will be.
    over: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Data bytes that the recorder has taken.
    taken: AtomicU64,
}

impl Shared {
    /// No code that can panic runs under the lock.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// The recorder should be woken once there is time for it.
    wake: bool,
}

/// What was observed of a wrapped server, in order: a [`Source`] of packets of link type [`LinkType::PIPE`].
///
/// Begins with [`Content::Start`] and ends with [`Content::Exit`]. `next` answers [`Item::Idle`] at once when the queue has run
/// empty, which is the moment to write things out, and then waits.
#[derive(Debug)]
pub struct Observations {
    shared: Arc<Shared>,
    /// What is being handed out, how many of its chunks were, and where the last of them ended.
    segment: Segment,
    given: usize,
    start: usize,
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
    let tap = Tap { process, shared: Arc::clone(&shared), seen: 0, lost: [0; 3], wake: false };
    let segment = Segment::default();
    let paused = Instant::now();
    (tap, Observations { shared, segment, given: 0, start: 0, packets: 0, bytes: 0, idle: false, paused })
}

impl Tap {
    /// The server was started.
    pub fn start(&mut self, start: Start) {
        self.send(&Content::Start(start), usize::MAX);
    }

    /// Bytes were read from a pipe's writer.
    pub fn data(&mut self, pipe: Pipe, bytes: &[u8]) {
        self.seen += bytes.len() as u64;
        let lost = std::mem::take(&mut self.lost[pipe as usize]);
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
        self.shared.wake.notify_one();
    }

    /// Lets go of what the recorder has not taken yet, so that it can come to its end.
    pub fn cut(&mut self) {
        let mut queue = self.shared.lock();
        queue.over = true;
        queue.segments.clear();
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Wakes the recorder if it sleeps and there is something for it, or far too much.
    pub fn nudge(&mut self) {
        if std::mem::take(&mut self.wake) {
            self.shared.wake.notify_one();
        }
    }

    /// Data bytes that were seen and that the recorder did not take.
    pub fn unrecorded(&self) -> u64 {
        self.seen.saturating_sub(self.shared.taken.load(Ordering::Relaxed))
    }

    fn admit_loss(&mut self, pipe: Pipe) {
        match std::mem::take(&mut self.lost[pipe as usize]) {
            0 => true,
            lost => self.send(&Content::Lost(pipe, lost), usize::MAX),
        };
    }

    /// Queues one chunk, unless the queue would grow beyond `limit` or nobody would ever take it.
    fn send(&mut self, content: &Content<'_>, limit: usize) -> bool {
        let data = if let Content::Data(_, bytes) = content { bytes.len() } else { 0 };
        let time = now();
        let mut queue = self.shared.lock();
        if queue.over || queue.size + pipe::HEAD + data + size_of::<Mark>() > limit {
            return false;
        }
        let mut segment = match queue.segments.pop_back() {
            Some(last) if last.bytes.len() + pipe::HEAD + data <= SEGMENT => last,
            full => {
                queue.segments.extend(full);
                queue.spare.pop().unwrap_or_default()
            }
        };
        let before = segment.size();
        pipe::encode(self.process, content, &mut segment.bytes);
        segment.marks.push(Mark { time, end: segment.bytes.len() });
        queue.size += segment.size() - before;
        queue.segments.push_back(segment);
        let pressed = queue.size > EAGER;
        self.wake |= std::mem::take(&mut queue.asleep) || (pressed && !queue.pressed);
        queue.pressed = pressed;
        true
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.wake.notify_one();
    }
}

impl Observations {
    /// Sleeps until there is something, then lets more of it gather.
    fn rest(&self) {
        let mut queue = self.shared.lock();
        queue.asleep = true;
        let empty = |queue: &mut Queue| queue.segments.is_empty() && !queue.over;
        queue = wait_while(&self.shared.wake, queue, IDLE, empty);
        queue.asleep = false;
        let calm = |queue: &mut Queue| queue.size < EAGER && !queue.over;
        if !queue.segments.is_empty() {
            drop(wait_while(&self.shared.wake, queue, GATHER, calm));
        }
    }

    /// Takes the next segment, an empty one when there is none, in place of the one that is used up. True when nothing can follow it.
    fn turn(&mut self) -> bool {
        let mut queue = self.shared.lock();
        queue.size -= self.segment.size();
        self.segment.bytes.clear();
        self.segment.marks.clear();
        (self.given, self.start) = (0, 0);
        if let Some(next) = queue.segments.pop_front() {
            let used = std::mem::replace(&mut self.segment, next);
            if queue.spare.len() < SPARE {
                queue.spare.push(used);
            }
        }
        queue.over && queue.segments.is_empty()
    }
}

impl Source for Observations {
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>> {
        if std::mem::take(&mut self.idle) {
            self.rest();
        }
        if self.given == self.segment.marks.len() {
            if self.paused.elapsed() > PAUSE {
                self.paused = Instant::now();
                return Ok(Some(Item::Idle));
            }
            let last = self.turn();
            if self.segment.marks.is_empty() {
                self.idle = !last;
                self.paused = Instant::now();
                return Ok(self.idle.then_some(Item::Idle));
            }
        }
        let Mark { time, end } = self.segment.marks[self.given];
        let data = &self.segment.bytes[self.start..end];
        (self.given, self.start) = (self.given + 1, end);
        self.packets += 1;
        self.bytes += data.len() as u64;
        if let Some((_, Content::Data(_, bytes))) = pipe::decode(data) {
            self.shared.taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(Some(Item::Packet(Packet {
            number: PacketNumber(self.packets),
            time,
            link: LinkType::PIPE,
            interface: 0,
            original_length: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data,
        })))
    }

    fn progress(&self) -> (u64, Option<u64>) {
        (self.bytes, None)
    }
}

impl Drop for Observations {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.over = true;
        queue.segments.clear();
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
