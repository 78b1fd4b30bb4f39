//! Properties of the reassembler over generated conversations.

use proptest::prelude::*;

use super::super::Flags;
use super::super::fuzz::{Emitted, fuzz_tcp};
use super::conversation::{Bench, Frame, Talk, bytes, conversation_lines, run, whole};
use crate::capture::{Limits, Time};
use crate::decode::Side::{self, First, Second};

fn turns() -> impl Strategy<Value = Vec<(Side, usize)>> {
    prop::collection::vec((prop_oneof![Just(First), Just(Second)], 1..1_500usize), 1..8)
}

fn initial() -> impl Strategy<Value = [u32; 2]> {
    let number = prop_oneof![any::<u32>(), (0..2_000u32).prop_map(|below| 0u32.wrapping_sub(below))];
    [number.clone(), number]
}

fn talk() -> impl Strategy<Value = (Vec<(Side, usize)>, Talk)> {
    (turns(), initial(), 20..1_500usize).prop_map(|(turns, initial, segment)| {
        let talk = Talk::whole(initial, &turns, segment);
        (turns, talk)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_cutting_into_segments_gives_the_same_streams(turns in turns(), initial in initial(), segment in 1..3_000usize) {
        prop_assert_eq!(conversation_lines(&run(&Talk::whole(initial, &turns, segment).frames)), whole(&turns));
    }

    /// For any order of packets, handshake and FINs included, with times that fit the order
    /// or do not.
    #[test]
    fn any_permutation_of_a_lossless_capture_gives_the_same_conversation(
        ((turns, frames), restamped) in (talk().prop_flat_map(|(turns, talk)| (Just(turns), Just(talk.frames).prop_shuffle())), any::<bool>())
    ) {
        let mut frames = frames;
        // More packets than `loss_packets` could mean that a start was not captured.
        prop_assume!(frames.len() < 250);
        if restamped {
            for (frame, time) in frames.iter_mut().zip(1..) {
                frame.time = time;
            }
        }
        prop_assert_eq!(conversation_lines(&run(&frames)), whole(&turns));
    }

    /// One direction was captured with a clock of its own or into a file of its own. A tap may also
    /// have reordered its packets.
    #[test]
    fn a_direction_behind_the_other_is_waited_for(
        (turns, talk) in talk(),
        late in prop_oneof![Just(First), Just(Second)],
        (slow, by) in (1..3_000i64, 0..200_000i64),
        // Less than `loss_time` in total.
        window in 1..30usize,
        in_files in any::<bool>(),
        places in prop::collection::vec(any::<u8>(), 61),
    ) {
        let mut frames: Vec<Frame> = talk.frames;
        for frame in &mut frames {
            frame.time = frame.time * slow.min(9_000 / window as i64) + if frame.side == late { by * 1_000_000 } else { 0 };
        }
        frames.sort_by_key(|frame| if in_files { i64::from(frame.side == late) } else { frame.time });
        let mut placed: Vec<(&u8, &Frame)> = places.iter().cycle().zip(&frames).collect();
        placed.chunks_mut(window).for_each(|window| window.sort_by_key(|(place, _)| **place));
        prop_assert_eq!(conversation_lines(&run(placed.into_iter().map(|(_, frame)| frame))), whole(&turns));
    }

    #[test]
    fn duplicates_and_overlaps_change_nothing(
        (turns, talk) in talk(),
        again in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..900u64, 0..900usize), 0..40),
    ) {
        let mut frames = talk.frames.clone();
        for (which, place, before, length) in again {
            // A copy of bytes that were sent by then, with other borders, sent again with its first
            // ACK.
            let mut copy = which.get(&talk.frames).clone();
            let place = place.index(frames.len());
            let Some(original) = frames.iter().position(|frame| *frame == copy) else { continue };
            if !copy.payload.is_empty() {
                let initial = frames.iter().find(|frame| frame.side == copy.side).map_or(0, |frame| frame.sequence);
                let offset = u64::from(copy.sequence.wrapping_sub(initial.wrapping_add(1)));
                let sent = offset + copy.payload.len() as u64;
                let start = offset.saturating_sub(before);
                let length = length.clamp(2, (sent - start).max(2) as usize).min((sent - start) as usize);
                copy.sequence = initial.wrapping_add(1).wrapping_add(start as u32);
                copy.payload = bytes(copy.side, start, length);
            }
            frames.insert(place.max(original + 1).min(frames.len()), copy);
        }
        prop_assert_eq!(conversation_lines(&run(&frames)), whole(&turns));
    }

    /// Retransmissions with other borders acknowledge everything received since. They are captured
    /// before or after the first sending.
    #[test]
    fn copies_that_know_more_in_any_order_change_nothing(
        ((turns, talk), again) in (talk(), prop::collection::vec((any::<prop::sample::Index>(), 0..900usize, 2..900usize), 1..12)),
        places in prop::collection::vec(any::<prop::sample::Index>(), 250),
    ) {
        let mut frames = talk.frames.clone();
        let handshake = 3;
        for (which, before, length) in again {
            // A copy of bytes up to the end of this frame and of some bytes before it. It is sent
            // at the end of the conversation.
            let of = which.get(&talk.frames[handshake..]);
            let last = talk.frames.iter().rev().find(|frame| frame.side == of.side && frame.flags & Flags::FIN == 0);
            let Some(last) = last.filter(|_| !of.payload.is_empty()) else { continue };
            let initial = talk.frames.iter().find(|frame| frame.side == of.side).map_or(0, |frame| frame.sequence);
            let first = initial.wrapping_add(1);
            let end = of.sequence.wrapping_sub(first) as usize + of.payload.len();
            let end = end - before.min(of.payload.len() - 1);
            let start = end.saturating_sub(length);
            frames.push(Frame {
                sequence: first.wrapping_add(start as u32),
                payload: bytes(of.side, start as u64, end - start),
                acknowledgment: last.acknowledgment,
                flags: Flags::ACK | Flags::PSH,
                time: talk.frames.last().map_or(0, |frame| frame.time),
                ..of.clone()
            });
        }
        prop_assume!(frames.len() < 250);
        for at in (handshake + 1..frames.len()).rev() {
            frames.swap(at, handshake + places[at].index(at + 1 - handshake));
        }
        prop_assert_eq!(conversation_lines(&run(&frames)), whole(&turns));
    }

    #[test]
    fn what_is_lost_is_a_gap_of_its_size_at_its_place(
        (_, talk) in talk(),
        dropped in prop::collection::vec(any::<bool>(), 200),
        window in 1..6usize,
    ) {
        let is_data = |frame: &Frame| !frame.payload.is_empty();
        let mut kept: Vec<Frame> = talk.frames.iter().zip(dropped.iter().chain(std::iter::repeat(&false)))
            .filter(|(frame, dropped)| !(**dropped && is_data(frame))).map(|(frame, _)| frame.clone()).collect();
        // After the handshake, packets are reordered within small windows.
        kept[3..].chunks_mut(window).for_each(<[Frame]>::reverse);
        let events = run(&kept);
        for side in [First, Second] {
            let sent: u64 = talk.frames.iter().filter(|frame| frame.side == side).map(|frame| frame.payload.len() as u64).sum();
            let mut seen = vec![false; sent as usize];
            let initial = talk.frames.iter().find(|frame| frame.side == side).map_or(0, |frame| frame.sequence);
            for frame in kept.iter().filter(|frame| frame.side == side && is_data(frame)) {
                let start = frame.sequence.wrapping_sub(initial.wrapping_add(1)) as usize;
                seen[start..start + frame.payload.len()].fill(true);
            }
            let mut delivered = Vec::new();
            for event in &events {
                match event {
                    Emitted::Data { side: of, offset, bytes: data, .. } if *of == side => {
                        prop_assert_eq!(data, &bytes(side, *offset, data.len()));
                        delivered.extend(data.iter().map(|_| true));
                    }
                    Emitted::Gap { side: of, length, .. } if *of == side => delivered.extend((0..*length).map(|_| false)),
                    _ => {}
                }
            }
            prop_assert_eq!(delivered, seen, "{:?}", side);
        }
    }

    #[test]
    fn ticks_change_nothing((_, talk) in talk(), dropped in prop::collection::vec(any::<bool>(), 60), slow in 1..60i64) {
        let frames: Vec<Frame> = talk.frames.iter().zip(dropped.iter().chain(std::iter::repeat(&true)))
            .filter(|(_, kept)| **kept)
            .map(|(frame, _)| Frame { time: frame.time * slow * 100, ..frame.clone() })
            .collect();
        let mut ticked = Bench::new(Limits::default());
        let mut before = 0;
        for frame in &frames {
            for part in 1..=7 {
                ticked.tcp.advance(Time(before + (frame.time - before) * part / 7), &mut ticked.checker);
            }
            before = frame.time;
            ticked.push(frame);
        }
        prop_assert_eq!(ticked.finish(), run(&frames));
    }

    #[test]
    fn no_input_breaks_a_promise(data in prop::collection::vec(any::<u8>(), 0..1_500)) {
        fuzz_tcp(&data);
    }
}
