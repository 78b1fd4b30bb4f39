//! The one file that joins a source to the pipeline and to those who listen.

pub mod fuzz;
mod memory;
pub mod queue;
pub mod saver;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;

use crate::capture::{Packet, Time};
use crate::event::Event;
use crate::pipeline::{Input, Pipeline};
use crate::source::{Item, Source};

/// Who listens. An error ends the run.
pub trait Listener {
    /// A packet, before the events it causes.
    fn packet(&mut self, _packet: &Packet<'_>) -> Result<()> {
        Ok(())
    }

    /// An event.
    fn event(&mut self, event: Event) -> Result<()>;

    /// An event that another listener is to have: for whoever needs no copy of it.
    fn hear(&mut self, event: &Event) -> Result<()> {
        self.event(event.clone())
    }

    /// The events of an input are all said.
    fn settled(&mut self) -> Result<()> {
        Ok(())
    }

    /// Nothing comes for the moment: what is held back should be shown or written.
    fn idle(&mut self) -> Result<()> {
        Ok(())
    }

    /// Called now and then with the bytes read, and those there are.
    fn progress(&mut self, _read: u64, _total: Option<u64>) {}

    /// No more is wanted.
    fn is_satisfied(&self) -> bool {
        false
    }
}

/// Packets between two looks at progress and at whether to stop.
const LOOK: u64 = 4_096;

/// Runs a source to its end, or until `stop`, and finishes the pipeline: what is open is completed as far as it goes.
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
                if packets.is_multiple_of(LOOK) && stop.load(Ordering::Relaxed) {
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
        pipeline.push(input, &mut |event| note(&mut failed, listener.event(event)));
        if matches!(item, Item::Idle) {
            listener.idle()?;
            continue;
        }
        listener.settled()?;
        if packets.is_multiple_of(LOOK) {
            let (read, total) = source.progress();
            listener.progress(read, total);
        }
    }
    if failed.is_none() {
        pipeline.push(Input::End, &mut |event| note(&mut failed, listener.event(event)));
    }
    failed.map_or(Ok(()), Err)
}

/// Two listeners: both hear everything. The second one gets the events themselves.
#[derive(Debug)]
pub struct Both<A, B>(pub A, pub B);

impl<A: Listener, B: Listener> Listener for Both<A, B> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        self.0.packet(packet)?;
        self.1.packet(packet)
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.0.hear(&event)?;
        self.1.event(event)
    }

    fn hear(&mut self, event: &Event) -> Result<()> {
        self.0.hear(event)?;
        self.1.hear(event)
    }

    fn settled(&mut self) -> Result<()> {
        self.0.settled()?;
        self.1.settled()
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

    fn hear(&mut self, event: &Event) -> Result<()> {
        self.as_mut().map_or(Ok(()), |listener| listener.hear(event))
    }

    fn settled(&mut self) -> Result<()> {
        self.as_mut().map_or(Ok(()), Listener::settled)
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

fn note(failed: &mut Option<anyhow::Error>, result: Result<()>) {
    if let (Err(error), None) = (result, &failed) {
        *failed = Some(error);
    }
}

/// Capture time while nothing is captured: that of the last packet, and what has gone since.
#[derive(Debug, Default)]
struct Clock {
    last: Option<(Time, Option<Instant>)>,
}

impl Clock {
    fn set(&mut self, time: Time) {
        self.last = Some((time, None));
    }

    /// Counts from the first time that it is asked after a packet: asking the system at every packet would cost more than decoding some.
    fn now(&mut self) -> Time {
        let Some((time, since)) = &mut self.last else { return Time(i64::MIN) };
        let since = since.get_or_insert_with(Instant::now);
        time.plus(i64::try_from(since.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }
}
