//! The bytes of one channel in order, with gaps of known length.
//!
//! The kernel gives each call of a process its offset in the channel, then copies the bytes into
//! the ring. Two threads that write to one pipe at the same time may copy in the other order, and
//! what the ring has no room for is missing. Both look alike at first: an event begins beyond the
//! expected offset. So it waits until the ring was empty. What is still missing then is lost.
//!
//! ```text
//!   expected ─┐
//!   ... data ─┤   missing   ├─ held ─┤
//! ```

use std::collections::BTreeMap;

/// The most bytes that wait for earlier ones. Threads overtake each other by one call each.
const HELD: usize = 4 << 20;

/// A run of a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChannelRun<'a> {
    /// Bytes, with the time of the call that carried them.
    Bytes(u64, &'a [u8]),
    /// So many bytes were lost.
    Lost(u64),
}

/// Restores the order of one channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// The offset of the next byte.
    expected: u64,
    /// Later bytes by offset, with their time.
    held: BTreeMap<u64, (u64, Vec<u8>)>,
    /// The number of bytes in `held`.
    held_bytes: usize,
    /// The total at the last look, while nothing was in the ring.
    total_before: Option<u64>,
}

impl Channel {
    /// Takes the bytes at an offset.
    pub(super) fn push(&mut self, time: u64, offset: u64, bytes: &[u8], out: &mut impl FnMut(ChannelRun<'_>)) {
        self.total_before = None;
        if offset > self.expected {
            self.held_bytes += bytes.len();
            self.held.insert(offset, (time, bytes.to_vec()));
            if self.held_bytes > HELD {
                self.give_up(out);
            }
            return;
        }
        // Bytes that were declared lost before do not count twice.
        let known = (self.expected - offset).min(bytes.len() as u64) as usize;
        if known < bytes.len() {
            self.expected += (bytes.len() - known) as u64;
            out(ChannelRun::Bytes(time, &bytes[known..]));
        }
        self.release(out);
    }

    /// The ring is empty. `total` is the number of bytes that passed so far. What is missing is
    /// lost if the ring is empty again with the same total. Before that, a call may have been
    /// counted and not copied.
    pub(super) fn settle(&mut self, total: u64, out: &mut impl FnMut(ChannelRun<'_>)) {
        if self.total_before.replace(total) == Some(total) {
            self.finish(total, out);
        }
    }

    /// The channel has ended, and the ring is empty.
    pub(super) fn finish(&mut self, total: u64, out: &mut impl FnMut(ChannelRun<'_>)) {
        self.give_up(out);
        if total > self.expected {
            out(ChannelRun::Lost(total - self.expected));
            self.expected = total;
        }
    }

    /// Emits held bytes that follow without a gap.
    fn release(&mut self, out: &mut impl FnMut(ChannelRun<'_>)) {
        while let Some(entry) = self.held.first_entry().filter(|entry| *entry.key() <= self.expected) {
            let (offset, (time, bytes)) = entry.remove_entry();
            self.held_bytes -= bytes.len();
            let known = (self.expected - offset).min(bytes.len() as u64) as usize;
            if known < bytes.len() {
                self.expected += (bytes.len() - known) as u64;
                out(ChannelRun::Bytes(time, &bytes[known..]));
            }
        }
    }

    /// Emits all held bytes, and the gaps between them.
    fn give_up(&mut self, out: &mut impl FnMut(ChannelRun<'_>)) {
        while let Some(offset) = self.held.first_key_value().map(|(offset, _)| *offset) {
            if offset > self.expected {
                out(ChannelRun::Lost(offset - self.expected));
                self.expected = offset;
            }
            self.release(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The runs joined: bytes as they are, a lost byte as `None`.
    fn joined(run: ChannelRun<'_>, to: &mut Vec<Option<u8>>) {
        match run {
            ChannelRun::Bytes(_, bytes) => to.extend(bytes.iter().copied().map(Some)),
            ChannelRun::Lost(length) => to.extend(std::iter::repeat_n(None, length as usize)),
        }
    }

    #[test]
    fn the_end_counts_as_lost_only_when_the_total_stays() {
        let (mut channel, mut seen) = (Channel::default(), Vec::new());
        let mut out = |run: ChannelRun<'_>| joined(run, &mut seen);
        channel.push(1, 0, b"ab", &mut out);
        channel.settle(5, &mut out);
        // The kernel had counted the call, and not copied it yet.
        channel.push(2, 2, b"cde", &mut out);
        channel.settle(5, &mut out);
        channel.settle(7, &mut out);
        channel.settle(7, &mut out);
        assert_eq!(seen, [Some(b'a'), Some(b'b'), Some(b'c'), Some(b'd'), Some(b'e'), None, None]);
    }

    proptest! {
        /// Whatever is lost and whoever overtakes: every byte is at its place, once, or a gap is.
        #[test]
        fn seen_and_lost_are_what_was_sent(
            calls in prop::collection::vec((1usize..50, any::<bool>(), any::<bool>()), 0..60),
            swaps in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut sent = Vec::new();
            let mut events = Vec::new();
            for (length, is_lost, settles) in calls {
                let offset = sent.len();
                sent.extend((0..length).map(|at| Some((offset + at) as u8)));
                if is_lost {
                    sent[offset..].fill(None);
                } else {
                    events.push((offset, length, settles));
                }
            }
            // Neighbours change places, unless the ring was empty between them.
            for swap in swaps {
                if events.len() > 1 {
                    let at = swap.index(events.len() - 1);
                    if !events[at].2 && !events[at + 1].2 {
                        events.swap(at, at + 1);
                    }
                }
            }
            let (mut channel, mut seen) = (Channel::default(), Vec::new());
            for (offset, length, settles) in events {
                let bytes: Vec<u8> = (0..length).map(|at| (offset + at) as u8).collect();
                channel.push(0, offset as u64, &bytes, &mut |run| joined(run, &mut seen));
                if settles {
                    channel.settle(0, &mut |run| joined(run, &mut seen));
                }
            }
            channel.finish(sent.len() as u64, &mut |run| joined(run, &mut seen));
            prop_assert_eq!(seen, sent);
        }
    }
}
