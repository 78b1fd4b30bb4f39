//! Runs a source through the stages of a pipeline on several threads.
//!
//! ```text
//!  source, Connections ── batch ──► Sessions ── batch ──► Judge ── batch ──► Listener
//! ```
//!
//! Each stage takes the batches in order, one at a time. So the listener gets what it gets on one
//! thread, for any number of threads. The threads are alike: each looks for the last stage that has
//! a batch and that no other thread runs. Only [`QUEUED`] batches, and about [`QUEUED_BYTES`], wait
//! between two stages. Then the
//! earlier one pauses, and its thread helps the later ones. So memory is bounded, however unequal
//! the stages are.
//!
//! The thread that calls [`run`] is one of them. Only that one runs the listener.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Result};

use super::Listener;
use crate::event::Event;
use crate::pipeline::{Connections, Input, Judge, Observation, Pipeline, Sessions, Tracked};
use crate::source::batch::Batch as Packets;
use crate::source::{Item, Source};

/// Batches that wait between two stages. More would take memory and save no time.
const QUEUED: usize = 4;

/// Bytes of the batches that wait between two stages. A packet that inflates makes a large batch.
const QUEUED_BYTES: usize = 8 << 20;

/// The number of threads, and the size of the batches that they pass on.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// The number of threads, the caller's included.
    pub threads: usize,
    /// Packets of a batch.
    pub packets: usize,
    /// Bytes of a batch: of its packets, and of the texts in them.
    pub bytes: usize,
    /// Called on each thread before it processes a batch. Tests delay the threads.
    pub delay: fn(),
}

impl Division {
    /// Division among this many threads. A batch takes about a millisecond. That is much more than
    /// to pass it on, and what it consists of remains in the second-level cache.
    pub fn of(threads: usize) -> Division {
        Division { threads, packets: 512, bytes: 256 << 10, delay: || () }
    }
}

/// Runs a source to its end, or until `stop` is set. Then it ends the pipeline, as
/// [`run`](super::run) does. A source that pauses gets no ticks.
pub fn run(
    source: &mut (dyn Source + Send),
    pipeline: &mut Pipeline,
    listener: &mut dyn Listener,
    stop: &AtomicBool,
    division: Division,
) -> Result<()> {
    let (connections, sessions, judge) = pipeline.stages();
    let keeps_packets = connections.stores();
    let shared = ThreadPool {
        stages: Mutex::new(Stages {
            first: Some(FirstStage { source, connections, stop, division, keeps_packets }),
            sessions: Some(sessions),
            judge: Some(judge),
            observed: StageQueue::default(),
            tracked: StageQueue::default(),
            events: StageQueue::default(),
            packets: Vec::new(),
            is_over: false,
        }),
        changed: Condvar::new(),
        delay: division.delay,
    };
    thread::scope(|scope| {
        let _over = EndOnDrop(&shared);
        for _ in 1..division.threads {
            let work = || shared.work(None).map_or((), drop);
            thread::Builder::new().name("decode".into()).spawn_scoped(scope, work).context("cannot start a thread")?;
        }
        shared.work(Some(listener)).unwrap_or(Ok(()))
    })
}

/// Inputs and what a stage made of them.
struct StageBatch<T> {
    steps: Vec<Step<T>>,
    /// Bytes of traffic in it.
    bytes: usize,
    /// The packets among the inputs, if the events are for a store. Other listeners take none.
    packets: Packets,
    /// Bytes read so far, and the size of the source if it is known.
    progress: (u64, Option<u64>),
    /// In the last batch: whether the source could be read to its end.
    end: Option<Result<()>>,
}

/// A part of a batch.
enum Step<T> {
    /// The next packet of the batch begins here.
    Packet,
    Item(T),
}

impl<T> StageBatch<T> {
    /// What a stage makes of this batch. Returns also the empty list of steps.
    fn map<U>(
        mut self,
        mut steps: Vec<Step<U>>,
        mut stage: impl FnMut(T, &mut dyn FnMut(U)),
    ) -> (StageBatch<U>, Vec<Step<T>>) {
        for step in self.steps.drain(..) {
            match step {
                Step::Packet => steps.push(Step::Packet),
                Step::Item(item) => stage(item, &mut |made| steps.push(Step::Item(made))),
            }
        }
        let StageBatch { steps: empty, bytes, packets, progress, end } = self;
        (StageBatch { steps, bytes, packets, progress, end }, empty)
    }
}

impl StageBatch<Event> {
    /// Passes the events on. Returns the result of the run if this was the last batch.
    fn listen(&mut self, listener: &mut dyn Listener) -> Option<Result<()>> {
        let mut delivered = 0;
        let mut deliver = |step| match step {
            Step::Packet => {
                delivered += 1;
                listener.after_input()?;
                self.packets.get(delivered - 1).map_or(Ok(()), |packet| listener.packet(&packet))
            }
            Step::Item(event) => listener.event(event),
        };
        let result = self.steps.drain(..).try_for_each(&mut deliver).and_then(|()| listener.after_input());
        let (read, total) = self.progress;
        listener.progress(read, total);
        if result.is_err() { Some(result) } else { self.end.take() }
    }
}

/// Batches that wait for a stage, and empty lists of steps for later batches.
struct StageQueue<T> {
    waiting: VecDeque<StageBatch<T>>,
    empty: Vec<Vec<Step<T>>>,
}

impl<T> Default for StageQueue<T> {
    fn default() -> Self {
        StageQueue { waiting: VecDeque::new(), empty: Vec::new() }
    }
}

impl<T> StageQueue<T> {
    fn has_room(&self) -> bool {
        let bytes = self.waiting.iter().map(|batch| batch.bytes).sum::<usize>();
        self.waiting.len() < QUEUED && bytes < QUEUED_BYTES
    }

    fn has_batch(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn empty(&mut self) -> Vec<Step<T>> {
        self.empty.pop().unwrap_or_default()
    }
}

/// The first stage, with its source.
struct FirstStage<'r> {
    source: &'r mut (dyn Source + Send),
    connections: &'r mut Connections,
    stop: &'r AtomicBool,
    division: Division,
    keeps_packets: bool,
}

impl FirstStage<'_> {
    /// Reads the next batch.
    fn read(&mut self, mut steps: Vec<Step<Observation>>, mut packets: Packets) -> StageBatch<Observation> {
        let FirstStage { source, connections, stop, division, keeps_packets } = self;
        let (mut count, mut bytes) = (0, 0);
        let mut end = None;
        while end.is_none() && count < division.packets && bytes < division.bytes {
            let item = if stop.load(Ordering::Relaxed) { Ok(None) } else { source.next() };
            let input = match &item {
                Err(_) => {
                    end = item.err().map(Err);
                    break;
                }
                Ok(None) => {
                    end = Some(Ok(()));
                    Input::End
                }
                Ok(Some(Item::Packet(packet))) => {
                    (count, bytes) = (count + 1, bytes + packet.data.len());
                    if *keeps_packets {
                        packets.push(packet);
                        steps.push(Step::Packet);
                    }
                    Input::Packet(*packet)
                }
                Ok(Some(Item::Secrets(secrets))) => Input::Secrets(secrets),
                Ok(Some(Item::Damage(damage))) => Input::Damage(damage),
                Ok(Some(Item::Dropped(dropped))) => Input::Dropped(*dropped),
                // What there is so far is shown.
                Ok(Some(Item::Idle)) => break,
            };
            connections.push(input, &mut |observation| {
                bytes += observation.size();
                steps.push(Step::Item(observation));
            });
        }
        StageBatch { steps, bytes, packets, progress: self.source.progress(), end }
    }
}

/// The stages that no thread runs at the moment, and the batches between them.
struct Stages<'r> {
    /// `None` also after the end of the source.
    first: Option<FirstStage<'r>>,
    sessions: Option<&'r mut Sessions>,
    judge: Option<&'r mut Judge>,
    observed: StageQueue<Observation>,
    tracked: StageQueue<Tracked>,
    events: StageQueue<Event>,
    /// Empty memory for packets.
    packets: Vec<Packets>,
    is_over: bool,
}

/// A stage with a batch, taken by one thread.
enum Work<'r> {
    Read(FirstStage<'r>, Vec<Step<Observation>>, Packets),
    Track(&'r mut Sessions, StageBatch<Observation>, Vec<Step<Tracked>>),
    Judge(&'r mut Judge, StageBatch<Tracked>, Vec<Step<Event>>),
    Listen(StageBatch<Event>),
}

impl<'r> Stages<'r> {
    /// Takes a stage that can run. Threads without the listener prefer the later stages, so that
    /// the earlier ones find room. The thread of the listener prefers the first stage. So each
    /// stage mostly remains on one core, which has its state in the cache.
    fn take(&mut self, may_listen: bool) -> Option<Work<'r>> {
        if may_listen {
            let listen = self.events.waiting.pop_front().map(Work::Listen);
            return listen.or_else(|| self.read()).or_else(|| self.track()).or_else(|| self.judge());
        }
        self.judge().or_else(|| self.track()).or_else(|| self.read())
    }

    fn read(&mut self) -> Option<Work<'r>> {
        let first = self.first.take_if(|_| self.observed.has_room())?;
        Some(Work::Read(first, self.observed.empty(), self.packets.pop().unwrap_or_default()))
    }

    fn track(&mut self) -> Option<Work<'r>> {
        let can_run = self.tracked.has_room() && self.observed.has_batch();
        let sessions = self.sessions.take_if(|_| can_run)?;
        Some(Work::Track(sessions, self.observed.waiting.pop_front()?, self.tracked.empty()))
    }

    fn judge(&mut self) -> Option<Work<'r>> {
        let can_run = self.events.has_room() && self.tracked.has_batch();
        let judge = self.judge.take_if(|_| can_run)?;
        Some(Work::Judge(judge, self.tracked.waiting.pop_front()?, self.events.empty()))
    }
}

/// What the threads share.
struct ThreadPool<'r> {
    stages: Mutex<Stages<'r>>,
    /// A stage or a batch became available, or the run is over.
    changed: Condvar,
    delay: fn(),
}

impl<'r> ThreadPool<'r> {
    fn stages(&self) -> MutexGuard<'_, Stages<'r>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work. `None` if the run is over.
    fn next(&self, may_listen: bool) -> Option<Work<'r>> {
        let mut stages = self.stages();
        loop {
            if stages.is_over {
                return None;
            }
            if let Some(work) = stages.take(may_listen) {
                return Some(work);
            }
            stages = self.changed.wait(stages).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Works until the run is over. Returns its result on the thread of the listener.
    fn work(&self, mut listener: Option<&mut dyn Listener>) -> Option<Result<()>> {
        // If this thread panics, the others do not wait for it.
        let _over = EndOnDrop(self);
        while let Some(work) = self.next(listener.is_some()) {
            (self.delay)();
            match work {
                Work::Read(mut first, steps, packets) => {
                    let batch = first.read(steps, packets);
                    let mut stages = self.stages();
                    stages.first = batch.end.is_none().then_some(first);
                    stages.observed.waiting.push_back(batch);
                }
                Work::Track(sessions, batch, steps) => {
                    let (batch, empty) = batch.map(steps, |observation, sink| sessions.take(observation, sink));
                    let mut stages = self.stages();
                    stages.sessions = Some(sessions);
                    stages.observed.empty.push(empty);
                    stages.tracked.waiting.push_back(batch);
                }
                Work::Judge(judge, batch, steps) => {
                    let (batch, empty) = batch.map(steps, |tracked, emit| judge.take(tracked, emit));
                    let mut stages = self.stages();
                    stages.judge = Some(judge);
                    stages.tracked.empty.push(empty);
                    stages.events.waiting.push_back(batch);
                }
                Work::Listen(mut batch) => {
                    let result = listener.as_mut().and_then(|listener| batch.listen(*listener));
                    if result.is_some() {
                        return result;
                    }
                    batch.packets.clear();
                    let mut stages = self.stages();
                    stages.events.empty.push(mem::take(&mut batch.steps));
                    stages.packets.push(mem::take(&mut batch.packets));
                }
            }
            self.changed.notify_all();
        }
        None
    }
}

/// Ends the run when it is dropped.
struct EndOnDrop<'s, 'r>(&'s ThreadPool<'r>);

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.stages().is_over = true;
        self.0.changed.notify_all();
    }
}
