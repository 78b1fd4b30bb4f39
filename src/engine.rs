//! Runs a source through a pipeline and passes the events to listeners.

pub mod fuzz;
mod memory;
pub mod queue;
pub mod saver;
pub mod threads;

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::capture::{Packet, Time};
use crate::event::Event;
use crate::pipeline::{Input, Pipeline};
use crate::source::{Item, Source};

/// Receives the packets and events of a run. An error ends the run.
pub trait Listener {
    /// Takes a packet, before the events that it causes. On several threads only if the events are
    /// for a store.
    fn packet(&mut self, _packet: &Packet<'_>) -> Result<()> {
        Ok(())
    }

    /// Takes an event.
    fn event(&mut self, event: Event) -> Result<()>;

    /// Takes a borrowed event; ownership goes to a later listener. A listener that needs
    /// no copy implements it.
    fn event_ref(&mut self, event: &Event) -> Result<()> {
        self.event(event.clone())
    }

    /// All events of one input, or of several, were delivered.
    fn after_input(&mut self) -> Result<()> {
        Ok(())
    }

    /// No input arrives at the moment. Buffered output should be shown or written.
    fn idle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Takes the bytes read so far, and the size of the source if it is known. Called after every
    /// 4,096 packets.
    fn progress(&mut self, _read: u64, _total: Option<u64>) {}

    /// Whether the listener needs no more events. Then the run ends.
    fn is_satisfied(&self) -> bool {
        false
    }
}

/// Packets between two checks of `stop` and two reports of progress.
const CHECK_INTERVAL: u64 = 4_096;

/// Runs a source to its end, or until `stop` is set. Then it ends the pipeline, which completes
/// open exchanges and sessions as far as they were captured.
pub fn run(
    source: &mut dyn Source,
    pipeline: &mut Pipeline,
    listener: &mut dyn Listener,
    stop: &AtomicBool,
) -> Result<()> {
    let mut failed = None;
    let mut clock = Clock::default();
    let mut packets = 0u64;
    while failed.is_none() && !listener.is_satisfied() {
        let Some(item) = source.next()? else { break };
        let input = match &item {
            Item::Packet(packet) => {
                packets += 1;
                if packets.is_multiple_of(CHECK_INTERVAL) && stop.load(Ordering::Relaxed) {
                    break;
                }
                clock.set(packet.time);
                listener.packet(packet)?;
                Input::Packet(*packet)
            }
            Item::Secrets(secrets) => Input::Secrets(secrets),
            Item::Damage(damage) => Input::Damage(damage),
            Item::Dropped(dropped) => Input::Dropped(*dropped),
            Item::Idle if stop.load(Ordering::Relaxed) => break,
            Item::Idle => Input::Tick(clock.now()),
        };
        pipeline.push(input, &mut |event| keep_first_error(&mut failed, listener.event(event)));
        if matches!(item, Item::Idle) {
            listener.idle()?;
            continue;
        }
        listener.after_input()?;
        if packets.is_multiple_of(CHECK_INTERVAL) {
            let (read, total) = source.progress();
            listener.progress(read, total);
        }
    }
    if failed.is_none() {
        pipeline.push(Input::End, &mut |event| keep_first_error(&mut failed, listener.event(event)));
    }
    failed.map_or(Ok(()), Err)
}

/// The number of threads that keep all cores busy: one more than there are cores, because a thread
/// may wait for a batch. On one core, one thread.
pub fn default_threads() -> usize {
    match thread::available_parallelism().map_or(1, NonZero::get) {
        1 => 1,
        cores => cores + 1,
    }
}

/// Runs a source as [`run`] does, on several threads. The events are the same. A source that pauses
/// gets no ticks, and the listener cannot end the run by being satisfied.
pub fn run_on(
    threads: usize,
    source: &mut (dyn Source + Send),
    pipeline: &mut Pipeline,
    listener: &mut dyn Listener,
    stop: &AtomicBool,
) -> Result<()> {
    match threads {
        0 | 1 => run(source, pipeline, listener, stop),
        threads => threads::run(source, pipeline, listener, stop, threads::Division::of(threads)),
    }
}

/// Two listeners that both get everything. The second one gets ownership of the events.
#[derive(Debug)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Listener, B: Listener> Listener for Both<A, B> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.0.packet(packet)?;
        self.1.packet(packet)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.0.event_ref(&event)?;
        self.1.event(event)
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        self.0.event_ref(event)?;
        self.1.event_ref(event)
    }

    fn after_input(&mut self) -> Result<()> {
        self.0.after_input()?;
        self.1.after_input()
    }

    fn idle(&mut self) -> Result<()> {
        self.0.idle()?;
        self.1.idle()
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.0.progress(read, total);
        self.1.progress(read, total);
    }

    fn is_satisfied(&self) -> bool {
        self.0.is_satisfied() || self.1.is_satisfied()
    }
}

/// A listener that may be absent.
impl<L: Listener> Listener for Option<L> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.as_mut().map_or(Ok(()), |listener| listener.packet(packet))
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.as_mut().map_or(Ok(()), |listener| listener.event(event))
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        self.as_mut().map_or(Ok(()), |listener| listener.event_ref(event))
    }

    fn after_input(&mut self) -> Result<()> {
        self.as_mut().map_or(Ok(()), Listener::after_input)
    }

    fn idle(&mut self) -> Result<()> {
        self.as_mut().map_or(Ok(()), Listener::idle)
    }

    fn progress(&mut self, read: u64, total: Option<u64>) {
        self.iter_mut().for_each(|listener| listener.progress(read, total));
    }

    fn is_satisfied(&self) -> bool {
        self.as_ref().is_some_and(Listener::is_satisfied)
    }
}

fn keep_first_error(failed: &mut Option<anyhow::Error>, result: Result<()>) {
    if let (Err(error), None) = (result, &failed) {
        *failed = Some(error);
    }
}

/// The capture time while no packet arrives: the time of the last packet plus the
/// time elapsed since.
#[derive(Debug, Default)]
struct Clock {
    last: Option<(Time, Option<Instant>)>,
}

impl Clock {
    fn set(&mut self, time: Time) {
        self.last = Some((time, None));
    }

    /// The time elapses from the first call after a packet. To ask the system at every packet would
    /// take longer than to decode some packets.
    fn now(&mut self) -> Time {
        let Some((time, since)) = &mut self.last else { return Time(i64::MIN) };
        let since = since.get_or_insert_with(Instant::now);
        time.plus(i64::try_from(since.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }
}
