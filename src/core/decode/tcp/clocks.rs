//! Compares the clocks of two taps that captured one direction of a connection each.
//!
//! A side acknowledges bytes after they were sent. So the time from a segment to the ACK of its
//! last byte is a delay, which cannot be negative. If the clock for the acknowledging side is ahead
//! by `d`, the measured times are longer by `d`. In the other direction they are shorter:
//!
//! ```text
//!  measured(First ► Second)  =  delay + d       so   d <=  the smallest of these
//!  measured(Second ► First)  =  delay - d       so   d >= -the smallest of those
//! ```
//!
//! With one clock, 0 lies between the bounds. A few packets that changed places put one bound on
//! the wrong side of 0. Most often they also put it beyond the other one, so no `d` explains them.

use std::collections::VecDeque;

use super::analysis::after;
use super::segment::{Flags, Segment};
use super::{Anomaly, Endpoints, Side};
use crate::capture::{PacketNumber, Time};

/// Differences up to this are ignored: 1 ms. One machine may stamp the packets of two queues of a
/// network card in another order, but not by that much.
const IGNORED: i64 = 1_000_000;

/// Delays that each direction needs for a finding, of which as many are negative in one direction.
/// A packet that changed its place makes one.
const NEEDED: u32 = 2;

/// Segments and ACKs of a direction that wait for each other. More are not compared.
const WAITING: usize = 32;

/// Whether the directions of a connection were captured with different clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClockDifference {
    /// Nothing shows a difference.
    #[default]
    None,
    /// The delays show a difference, but there are too few of them.
    Likely,
    /// The delays of both directions show the same difference.
    Certain,
}

/// Compares the times of both directions of a connection.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// For each sender, the delays of the ACKs of its bytes.
    delays: [Delays; 2],
}

/// The delays of the ACKs of one side's bytes.
#[derive(Debug, Default)]
struct Delays {
    /// The sequence numbers after segments that were not acknowledged so far, oldest first.
    sent: VecDeque<(u32, Time)>,
    /// Acknowledgment numbers whose segments were not captured so far.
    acknowledged: VecDeque<(u32, Time)>,
    highest_sent: Option<u32>,
    highest_acknowledged: Option<u32>,
    /// The smallest delay in nanoseconds, and the packet that completed it.
    least: Option<(i64, PacketNumber)>,
    count: u32,
    negative: u32,
}

impl Clocks {
    /// Takes a segment of `side`, in order of capture.
    pub fn add(&mut self, side: Side, segment: &Segment<'_>) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        let positions =
            segment.length() + u32::from(segment.flags.has(Flags::SYN)) + u32::from(segment.flags.has(Flags::FIN));
        if positions > 0 {
            let Delays { sent, acknowledged, highest_sent, .. } = &mut self.delays[side.index()];
            let end = segment.sequence.wrapping_add(positions);
            if advance(highest_sent, end) {
                let delay = partner(acknowledged, sent, end, segment.time).map(|time| time.since(segment.time));
                self.delays[side.index()].note(delay, segment.packet);
            }
        }
        if segment.flags.has(Flags::ACK) {
            let Delays { sent, acknowledged, highest_acknowledged, .. } = &mut self.delays[side.other().index()];
            if advance(highest_acknowledged, segment.acknowledgment) {
                let sent_at = partner(sent, acknowledged, segment.acknowledgment, segment.time);
                let delay = sent_at.map(|time| segment.time.since(time));
                self.delays[side.other().index()].note(delay, segment.packet);
            }
        }
    }

    /// Whether the delays so far show two clocks: one direction's bytes were acknowledged before
    /// they were sent, and the delays of the other direction are as much longer.
    pub fn difference(&self) -> ClockDifference {
        let [Some((first, _)), Some((second, _))] = [0, 1].map(|side| self.delays[side].least) else {
            return ClockDifference::None;
        };
        let (early, late) = if first < second { (0, 1) } else { (1, 0) };
        match () {
            () if first.min(second) >= -IGNORED || first.saturating_add(second) < 0 => ClockDifference::None,
            () if self.delays[early].negative < NEEDED || self.delays[late].count < NEEDED => ClockDifference::Likely,
            () => ClockDifference::Certain,
        }
    }

    /// The anomaly and a packet that shows it, if the clocks certainly differ.
    pub fn anomaly(&self, endpoints: &Endpoints) -> Option<(PacketNumber, Anomaly)> {
        let [(first, first_packet), (second, second_packet)] = [self.delays[0].least?, self.delays[1].least?];
        if self.difference() != ClockDifference::Certain {
            return None;
        }
        // Bytes that seem to be acknowledged too early were captured with the clock that is ahead.
        let [one, other] = *endpoints;
        let (ahead, behind, packet) =
            if first < second { (one, other, first_packet) } else { (other, one, second_packet) };
        let nanoseconds = (-first.min(second), first.max(second));
        Some((packet, Anomaly::ClocksDiffer { ahead, behind, nanoseconds }))
    }
}

impl Delays {
    fn note(&mut self, delay: Option<i64>, packet: PacketNumber) {
        let Some(delay) = delay else { return };
        self.count = self.count.saturating_add(1);
        self.negative = self.negative.saturating_add(u32::from(delay < -IGNORED));
        if self.least.is_none_or(|(least, _)| delay < least) {
            self.least = Some((delay, packet));
        }
    }
}

/// Whether `number` is beyond all before it. Retransmissions and repeated ACKs are not: they say
/// nothing about the first segment, which the capture may lack.
fn advance(highest: &mut Option<u32>, number: u32) -> bool {
    let is_new = highest.is_none_or(|highest| after(number, highest));
    if is_new {
        *highest = Some(number);
    }
    is_new
}

/// The time of the entry with this number, which is removed with all before it. If there is none,
/// the number is added to `own` and waits.
fn partner(
    others: &mut VecDeque<(u32, Time)>,
    own: &mut VecDeque<(u32, Time)>,
    number: u32,
    time: Time,
) -> Option<Time> {
    if let Some(index) = others.iter().position(|(other, _)| *other == number) {
        let found = others[index].1;
        others.drain(..=index);
        return Some(found);
    }
    // One direction may be captured as a whole before the other. So the oldest entries stay, and
    // the newest as well.
    if own.len() == WAITING {
        own.remove(WAITING / 2);
    }
    own.push_back((number, time));
    None
}
