//! The beginning of connections: with and without SYNs, joined midway, again on the same ports.

use super::super::{Flags, Tcp};
use super::cases::{NEAR_WRAP, lines, open_within};
use super::conversation::{Bench, Frame, Talk, conversation_lines, run};
use crate::capture::{Limits, Time};
use crate::decode::Side::{First, Second};

#[test]
fn a_capture_that_starts_in_the_middle_finds_an_earlier_start() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 900, 300).send(Second, 400, 200);
    let mut frames = talk.frames[3..].to_vec();
    frames.swap(0, 2);
    assert_eq!(conversation_lines(&run(&frames)), ["opened", "> 0..900", "< 0..400", "> cut", "< cut", "closed"]);
}

#[test]
fn a_capture_that_starts_in_the_middle_is_live_after_a_second() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(Second, 900, 300).acknowledge(First);
    let mut bench = Bench::new(Limits::live());
    talk.frames[3..].iter().for_each(|frame| bench.push(frame));
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened"]);
    // The time counts from the moment when both sides were captured.
    let start = talk.frames[6].time;
    bench.tcp.advance(Time(start + Limits::default().loss_time), &mut bench.checker);
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "< 0..900"]);
}

#[test]
fn a_live_clock_that_is_set_back_delays_nothing_by_more_than_a_second() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 300, 100).acknowledge(Second);
    talk.frames.remove(4);
    let hour = 3_600_000_000_000;
    talk.frames[..3].iter_mut().for_each(|frame| frame.time += hour);
    let limits = Limits::live();
    let mut bench = open_within(&talk, limits);
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..100"]);
    let due = talk.frames[2].time + limits.loss_quiet + limits.unseen_time;
    bench.tcp.advance(Time(due), &mut bench.checker);
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..100", "> gap 100..200", "> 200..300"]);
}

#[test]
fn a_handshake_without_its_syns_is_live_at_once() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 300, 100);
    let mut bench = Bench::new(Limits::default());
    talk.frames[2..].iter().for_each(|frame| bench.push(frame));
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..100", "< 0..300"]);
}

/// After packets changed places, those of another connection may be seconds older
/// than those before.
#[test]
fn a_syn_behind_a_pause_still_begins_its_connection() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 50, 50);
    let mut reset = talk.clone();
    reset.frame(First, Flags::RST, 0);
    for talk in [talk, reset] {
        let (syn, behind) = talk.frames.split_first().expect("a handshake");
        let mut bench = Bench::new(Limits::default());
        behind.iter().rev().for_each(|frame| bench.push(frame));
        let last = behind.last().expect("more than a SYN");
        bench.push_on(&Frame { time: syn.time + 9_000_000_000, ..last.clone() }, 50_001);
        assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "opened"]);
        bench.push(syn);
        assert_eq!(conversation_lines(&bench.checker.emitted)[..4], ["opened", "opened", "> 0..100", "< 0..50"]);
    }
}

/// A client's second request after an ACK looks like the end of a handshake.
#[test]
fn an_ack_and_a_request_alone_are_no_handshake() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 50, 50);
    let talk = talk.acknowledge(First).send(First, 60, 60).send(Second, 40, 40);
    let mut bench = Bench::new(Limits::default());
    [5, 6, 3, 4, 7, 1, 2, 0].into_iter().for_each(|at: usize| bench.push(&talk.frames[at]));
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..100", "< 0..50", "> 100..160", "< 50..90"]);
}

#[test]
fn an_answer_behind_its_ack_is_no_handshake_whose_syns_are_missing() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).acknowledge(Second).send(Second, 50, 50);
    let mut bench = Bench::new(Limits::default());
    bench.tcp = Tcp::new(Limits::default(), |_| false);
    [4, 5, 2, 3, 1, 0].into_iter().for_each(|at: usize| bench.push(&talk.frames[at]));
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..100", "< 0..50"]);
}

#[test]
fn another_syn_on_the_same_ports_is_another_connection() {
    let first = Talk::new([1, 2]).handshake().send(First, 100, 100);
    let mut second = Talk::new([900_000, 800_000]).handshake().send(First, 50, 50);
    second.frames.insert(1, second.frames[0].clone());
    let frames: Vec<_> = first.frames.iter().chain(&second.frames).cloned().collect();
    let lines = conversation_lines(&run(&frames));
    let expected = ["opened", "> 0..100", "> cut", "< cut", "closed", "opened", "> 0..50", "> cut", "< cut", "closed"];
    assert_eq!(lines, expected);
}

#[test]
fn simultaneous_and_split_handshakes_are_one_connection() {
    for flags in [[Flags::SYN, Flags::SYN | Flags::ACK], [Flags::SYN, Flags::ACK]] {
        let mut talk = Talk::new(NEAR_WRAP);
        talk.frame(First, Flags::SYN, 0).sequence = NEAR_WRAP[0];
        talk.frame(Second, flags[0], 0).sequence = NEAR_WRAP[1];
        let again = talk.frame(First, flags[1], 0);
        if flags[1] & Flags::SYN != 0 {
            again.sequence = NEAR_WRAP[0];
        }
        let talk = talk.send(First, 10, 10).send(Second, 20, 20).goodbye();
        assert_eq!(lines(&talk), ["opened", "> 0..10", "< 0..20", "> finished", "< finished", "closed"]);
    }
}
