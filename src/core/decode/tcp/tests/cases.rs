//! Cases of the reassembler, each a conversation.

use super::super::fuzz::{Emitted, fuzz_tcp};
use super::super::table::TrackedConnection;
use super::super::{Flags, Tcp};
use super::conversation::{Bench, Frame, Talk, byte, bytes, conversation_lines, run, whole};
use crate::capture::{Limits, Time};
use crate::decode::Anomaly;
use crate::decode::Side::{First, Second};

/// Initial sequence numbers that make both streams pass the wrap.
pub(super) const NEAR_WRAP: [u32; 2] = [u32::MAX - 700, u32::MAX];

/// Pushes a conversation without ending the capture.
fn open(talk: &Talk) -> Bench {
    open_within(talk, Limits::default())
}

pub(super) fn open_within(talk: &Talk, limits: Limits) -> Bench {
    let mut bench = Bench::new(limits);
    talk.frames.iter().for_each(|frame| bench.push(frame));
    bench
}

pub(super) fn lines(talk: &Talk) -> Vec<String> {
    conversation_lines(&run(&talk.frames))
}

#[test]
fn bytes_in_order_are_delivered_at_once() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 1_000, 600).send(Second, 2_000, 1_460);
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened", "> 0..1000", "< 0..2000"]);
}

#[test]
fn a_response_captured_before_its_request_waits_for_it() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 50, 50);
    talk.frames.swap(3, 4);
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened", "> 0..100", "< 0..50"]);
}

#[test]
fn an_ack_alone_does_not_close_a_gap() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 300, 100).acknowledge(Second);
    let late = talk.frames.remove(4);
    let mut bench = open(&talk);
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..100"]);
    bench.push(&late);
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", "> 0..300"]);
}

#[test]
fn acknowledged_bytes_are_lost_when_the_time_is_over() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 300, 100).acknowledge(Second);
    talk.frames.remove(4);
    let acknowledged = talk.frames.last().map_or(0, |frame| frame.time);
    let limits = Limits::default();
    let check = |mut bench: Bench, due: i64, before: &[&str]| {
        bench.tcp.advance(Time(due - 1), &mut bench.checker);
        assert_eq!(conversation_lines(&bench.checker.emitted), before);
        bench.tcp.advance(Time(due), &mut bench.checker);
        assert_eq!(conversation_lines(&bench.checker.emitted), [before, &["> gap 100..200", "> 200..300"]].concat());
    };
    check(open(&talk), acknowledged + limits.loss_quiet, &["opened", "> 0..100"]);
    // Where other connections go on, a late packet would have arrived by now.
    let mut busy = open(&talk);
    let syn = Frame { time: acknowledged, ..talk.frames[0].clone() };
    (0..limits.loss_segments).for_each(|_| busy.push_on(&syn, 50_001));
    check(busy, acknowledged + limits.loss_time, &["opened", "> 0..100", "opened"]);
}

/// If packets changed places across a pause, the missing packet follows a few packets later.
#[test]
fn a_pause_alone_is_no_loss() {
    let mut talk =
        Talk::new(NEAR_WRAP).handshake().send(First, 300, 100).acknowledge(Second).wait(5_000).acknowledge(Second);
    let late = talk.frames.remove(4);
    talk.frames.push(late);
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened", "> 0..300"]);
}

#[test]
fn acknowledged_bytes_are_lost_when_enough_packets_went_by() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 300, 100).acknowledge(Second);
    talk.frames.remove(4);
    let packets = Limits::default().loss_packets as usize;
    let acks = |talk: Talk, count: usize| (0..count).fold(talk, |talk, _| talk.acknowledge(Second));
    let talk = acks(talk, packets - 1);
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened", "> 0..100"]);
    let talk = acks(talk, 1);
    assert_eq!(
        conversation_lines(&open(&talk).checker.emitted),
        ["opened", "> 0..100", "> gap 100..200", "> 200..300"]
    );
}

#[test]
fn bytes_that_nobody_acknowledged_may_still_come() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 300, 100);
    let (late, acknowledgment) = (talk.frames.remove(4), talk.frames[3].sequence.wrapping_add(100));
    let mut talk = talk.wait(60_000);
    talk.frame(Second, Flags::ACK, 0).acknowledgment = acknowledgment;
    talk.frames.push(Frame { time: 61_000_000_000, ..late });
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened", "> 0..300"]);
}

#[test]
fn a_request_whose_response_was_lost_goes_on_after_the_gap() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 10, 10).send(Second, 500, 500).send(First, 20, 20);
    talk.frames.remove(4);
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened", "> 0..10"]);
    assert_eq!(lines(&talk), ["opened", "> 0..10", "< gap 0..500", "> 10..30", "> cut", "< cut", "closed"]);
}

#[test]
fn one_direction_alone_never_stalls() {
    let mut talk = Talk::new(NEAR_WRAP).handshake();
    for _ in 0..5 {
        talk = talk.send(First, 100, 100).send(Second, 1_000, 500).wait(2_000);
    }
    let mut talk = talk.send(First, 100, 100).goodbye();
    talk.frames.retain(|frame| frame.side == First);
    let lines = lines(&talk);
    assert_eq!(lines[..4], ["opened", "> 0..100", "< gap 0..1000", "> 100..200"]);
    assert_eq!(lines[lines.len() - 5..], ["< gap 4000..5000", "> 500..600", "> finished", "< cut", "closed"]);
}

#[test]
fn a_hole_in_the_only_direction_ends_with_time() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(Second, 500, 100).wait(1_500).send(Second, 100, 100);
    talk.frames.remove(5);
    talk.frames.retain(|frame| frame.side == Second);
    let expected = ["opened", "< 0..200", "< gap 200..300", "< 300..600"];
    assert_eq!(conversation_lines(&open_within(&talk, Limits::live()).checker.emitted), expected);
    // In a file there is no hurry: the other direction may follow this one.
    assert_eq!(conversation_lines(&open(&talk).checker.emitted), ["opened"]);
    assert_eq!(lines(&talk), [&expected[..], &["> cut", "< cut", "closed"]].concat());
}

#[test]
fn one_direction_alone_is_delivered_when_memory_runs_out() {
    let mut talk = Talk::new(NEAR_WRAP).handshake();
    for _ in 0..4 {
        talk = talk.send(First, 1_000, 500).send(Second, 100, 100).wait(2_000);
    }
    talk.frames.retain(|frame| frame.side == First);
    for limits in [
        Limits { reassembly_per_direction: 4_000, ..Limits::default() },
        Limits { reassembly_total: 4_000, ..Limits::default() },
    ] {
        let lines = conversation_lines(&open_within(&talk, limits).checker.emitted);
        assert_eq!(lines[..4], ["opened", "> 0..1000", "< gap 0..100", "> 1000..2000"]);
    }
}

#[test]
fn what_is_buffered_at_the_end_is_delivered_in_order_of_time() {
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 10, 10).send(Second, 10, 10).send(First, 10, 10);
    let client: Vec<&Frame> = talk.frames.iter().filter(|frame| frame.side == First).collect();
    let mut bench = Bench::new(Limits::default());
    // The second connection sends between the segments of the first.
    for (port, later) in [(50_001, 0), (50_002, 50_000)] {
        client.iter().for_each(|frame| bench.push_on(&Frame { time: frame.time + later, ..(*frame).clone() }, port));
    }
    let data = bench.finish().into_iter().filter_map(|event| match event {
        Emitted::Data { connection, offset, .. } => Some((connection.0, offset)),
        _ => None,
    });
    assert_eq!(data.collect::<Vec<_>>(), [(1, 0), (2, 0), (1, 10), (2, 10)]);
}

#[test]
fn a_keep_alive_probe_adds_and_changes_nothing() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).acknowledge(Second).wait(30_000);
    for garbage in [vec![], vec![0]] {
        let sequence = talk.frames[3].sequence.wrapping_add(99);
        let probe = talk.frame(First, Flags::ACK, 0);
        (probe.sequence, probe.payload) = (sequence, garbage);
        talk = talk.acknowledge(Second);
    }
    let talk = talk.send(First, 100, 100).goodbye();
    assert_eq!(lines(&talk), ["opened", "> 0..200", "> finished", "< finished", "closed"]);
    // Also where it is the first packet captured, and where it is captured before the byte it
    // repeats.
    let middle = conversation_lines(&run(&talk.frames[7..]));
    assert_eq!(middle, ["opened", "wrong bytes at 0", "> 0..100", "> finished", "< finished", "closed"]);
    let mut shuffled = talk.frames.clone();
    shuffled.swap(3, 7);
    assert_eq!(conversation_lines(&run(&shuffled)), lines(&talk));
}

#[test]
fn other_bytes_for_delivered_ones_are_a_conflict_and_the_first_stay() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).acknowledge(Second);
    let mut again = talk.frames[3].clone();
    again.payload[40..44].copy_from_slice(&[0, 1, 2, 3].map(|at| !byte(First, 40 + at)));
    talk.frames.push(again);
    let talk = talk.goodbye();
    let conflict = format!("> {:?}", Anomaly::OverlapConflict { offset: 40, length: 4 });
    assert_eq!(lines(&talk), ["opened", "> 0..100", &conflict, "> finished", "< finished", "closed"]);
}

#[test]
fn other_bytes_for_what_the_peer_has_long_had_are_a_conflict_too() {
    let mut talk = Talk::new(NEAR_WRAP).handshake();
    for _ in 0..3 {
        talk = talk.send(First, 100, 100).acknowledge(Second);
    }
    let mut again = talk.frames[3].clone();
    again.payload[7] ^= 1;
    talk.frames.push(again);
    let conflict = format!("> {:?}", Anomaly::OverlapConflict { offset: 7, length: 1 });
    assert!(lines(&talk.goodbye()).contains(&conflict));
}

#[test]
fn other_bytes_for_held_ones_are_a_conflict_and_the_first_stay() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 300, 100);
    let mut again = talk.frames[5].clone();
    again.payload[0] ^= 1;
    let missing = talk.frames.remove(3);
    talk.frames.extend([again, missing]);
    let conflict = format!("> {:?}", Anomaly::OverlapConflict { offset: 200, length: 1 });
    assert_eq!(lines(&talk), ["opened", &conflict, "> 0..300", "> cut", "< cut", "closed"]);
}

#[test]
fn bytes_cut_by_the_snap_length_are_a_gap_unless_they_come_again() {
    let cut = |talk: &mut Talk| {
        talk.frames[3].payload.truncate(60);
        talk.frames[3].missing = 40;
    };
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 200, 100).acknowledge(Second);
    cut(&mut talk);
    let again = talk.frames[3].clone();
    assert_eq!(lines(&talk), ["opened", "> 0..60", "> gap 60..100", "> 100..200", "> cut", "< cut", "closed"]);
    let mut whole = Talk::new(NEAR_WRAP).handshake().send(First, 200, 100);
    let original = whole.frames[3].clone();
    cut(&mut whole);
    whole.frames.extend([again, original]);
    assert_eq!(lines(&whole), ["opened", "> 0..200", "> cut", "< cut", "closed"]);
    // The last bytes of the stream.
    let mut tail = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100);
    cut(&mut tail);
    assert_eq!(lines(&tail), ["opened", "> 0..60", "> gap 60..100", "> cut", "< cut", "closed"]);
}

#[test]
fn data_in_syn_and_fin_is_data() {
    let mut talk = Talk::new(NEAR_WRAP).handshake();
    talk.frames[0].payload = bytes(First, 0, 30);
    let mut rest = Talk::new([NEAR_WRAP[0].wrapping_add(30), NEAR_WRAP[1]]).send(Second, 70, 70);
    rest.frame(First, Flags::FIN | Flags::ACK, 0).payload = bytes(First, 30, 20);
    talk.frames.extend(rest.frames);
    assert_eq!(lines(&talk), ["opened", "> 0..30", "< 0..70", "> 30..50", "> finished", "< cut", "closed"]);
    talk.frames.reverse();
    assert_eq!(lines(&talk), ["opened", "> 0..30", "< 0..70", "> 30..50", "> finished", "< cut", "closed"]);
}

#[test]
fn half_closed_the_other_side_goes_on() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 10, 10);
    talk.fin(First);
    let mut talk = talk.wait(3_600_000).send(Second, 500, 100);
    talk.fin(Second);
    assert_eq!(lines(&talk), ["opened", "> 0..10", "> finished", "< 0..500", "< finished", "closed"]);
}

#[test]
fn after_a_reset_what_comes_late_still_counts() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 200, 100);
    let late = talk.frames.remove(5);
    talk.frame(First, Flags::RST, 0);
    talk.frames.push(late);
    let lines = lines(&talk);
    assert_eq!(lines, ["opened", "> 0..100", "< 0..200", "> reset", "< reset", "closed"]);
}

#[test]
fn a_reset_outside_the_window_is_ignored() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).acknowledge(Second);
    for forged in [talk.frames[3].sequence, talk.frames[3].sequence.wrapping_add(1 << 30)] {
        talk.frame(First, Flags::RST, 0).sequence = forged;
    }
    let talk = talk.send(First, 10, 10).goodbye();
    assert_eq!(lines(&talk), ["opened", "> 0..110", "> finished", "< finished", "closed"]);
}

#[test]
fn a_refused_connection_is_reset() {
    let mut talk = Talk::new(NEAR_WRAP);
    talk.frame(First, Flags::SYN, 0).sequence = NEAR_WRAP[0];
    talk.frame(Second, Flags::RST | Flags::ACK, 0).sequence = 0;
    assert_eq!(lines(&talk), ["opened", "> reset", "< reset", "closed"]);
}

#[test]
fn closed_connections_linger_for_late_segments_and_are_then_forgotten() {
    let talk = Talk::whole(NEAR_WRAP, &[(First, 100), (Second, 100)], 100);
    let mut bench = open(&talk);
    let end = talk.frames.last().map_or(0, |frame| frame.time);
    bench.push(&Frame { time: end + 5_000_000_000, ..talk.frames[4].clone() });
    bench.tcp.advance(Time(end + 14_999_999_999), &mut bench.checker);
    assert_eq!(conversation_lines(&bench.checker.emitted).last().map(String::as_str), Some("< finished"));
    bench.tcp.advance(Time(end + 15_000_000_000), &mut bench.checker);
    assert_eq!(conversation_lines(&bench.checker.emitted).last().map(String::as_str), Some("closed"));
}

#[test]
fn a_request_captured_only_when_sent_again_still_precedes_its_response() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 50, 50);
    let mut again = talk.frames.remove(3);
    again.acknowledgment = again.acknowledgment.wrapping_add(50);
    again.time = talk.frames.last().map_or(0, |frame| frame.time) + 1;
    talk.frames.push(again);
    assert_eq!(lines(&talk), ["opened", "> 0..100", "< 0..50", "> cut", "< cut", "closed"]);
}

#[test]
fn an_ack_of_what_was_never_sent_costs_nothing() {
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 100, 100).send(Second, 100, 100);
    talk.frame(First, Flags::ACK, 50).acknowledgment = 1 << 29;
    let talk = talk.send(First, 50, 50).send(Second, 100, 100).wait(2_000).goodbye();
    // The client's next segment shows how much it had received.
    let lines = lines(&talk);
    let expected = ["opened", "> 0..100", "< 0..100", "> 100..200", "< 100..200", "> finished", "< finished", "closed"];
    assert_eq!(lines, expected);
}

#[test]
fn streams_pass_four_gibibytes() {
    let mut bench = Bench::new(Limits::default());
    let mut talk = Talk::new(NEAR_WRAP).handshake();
    talk.frames.iter().for_each(|frame| bench.push(frame));
    // Four jumps of 1.5 GiB, each acknowledged. Only the last bytes of each were captured.
    let mut sequence = talk.frames[2].sequence;
    for step in 1..=4i64 {
        sequence = sequence.wrapping_add(3 << 29);
        let frame = talk.frame(First, Flags::ACK, 10);
        (frame.sequence, frame.time) = (sequence, step * 100_000_000_000);
        bench.push(frame);
        let ack = talk.frame(Second, Flags::ACK, 0);
        (ack.acknowledgment, ack.time) = (sequence.wrapping_add(10), step * 100_000_000_000 + 1);
        bench.push(ack);
    }
    let offsets = bench.finish().into_iter().filter_map(|event| match event {
        Emitted::Data { offset, .. } => Some(offset),
        _ => None,
    });
    assert_eq!(offsets.collect::<Vec<_>>(), [1, 2, 3, 4].map(|step| step * (3 << 29)));
}

#[test]
fn a_clock_gone_mad_loses_nothing() {
    let mut talk = Talk::whole(NEAR_WRAP, &[(First, 1_000), (Second, 1_000), (First, 500)], 100);
    for (frame, time) in talk.frames.iter_mut().zip([0, i64::MAX, i64::MIN, -1, 1 << 60, 5].into_iter().cycle()) {
        frame.time = time;
    }
    assert_eq!(lines(&talk), whole(&[(First, 1_000), (Second, 1_000), (First, 500)]));
}

#[test]
fn a_full_buffer_gives_up_the_hole() {
    let limits = Limits { reassembly_per_direction: 4_000, ..Limits::default() };
    let mut talk = Talk::new(NEAR_WRAP).handshake().send(First, 6_000, 1_000);
    talk.frames.remove(3);
    let mut bench = Bench::new(limits);
    talk.frames.iter().for_each(|frame| bench.push(frame));
    let reached = format!("> {:?}", Anomaly::LimitReached { limit: "reassembly_per_direction", offset: 0 });
    assert_eq!(conversation_lines(&bench.checker.emitted), ["opened", &reached, "> gap 0..1000", "> 1000..6000"]);
}

#[test]
fn the_connection_idle_longest_goes_when_there_are_too_many() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let talk = Talk::new(NEAR_WRAP).handshake();
    let mut bench = Bench::new(limits);
    for port in [50_001, 50_002, 50_001, 50_003] {
        bench.push_on(&talk.frames[0], port);
    }
    let closed = bench.checker.emitted.iter().filter_map(|event| match event {
        Emitted::Closed(id, _) => Some(id.0),
        _ => None,
    });
    assert_eq!(closed.collect::<Vec<_>>(), [2]);
}

#[test]
fn a_flood_of_syns_discards_few_connections_in_use() {
    let limits = Limits { connections: 16, ..Limits::default() };
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 10, 10);
    // A table with room to spare loses none of them, and a full one an eighth and one that makes
    // room.
    for (used, lost) in [(1, 0), (13, 0), (16, 3)] {
        let mut bench = Bench::new(limits);
        for port in 50_001..=50_000 + used {
            talk.frames.iter().for_each(|frame| bench.push_on(frame, port));
        }
        for port in 2_000..6_000 {
            bench.push_on(&talk.frames[0], port);
            assert!(bench.tcp.table.len() <= 16);
        }
        let is_used = |event: &&Emitted| matches!(event, Emitted::Closed(id, _) if id.0 <= u32::from(used));
        assert_eq!(bench.checker.emitted.iter().filter(is_used).count(), lost, "of {used}");
    }
}

#[test]
fn a_flood_leaves_no_deadlines_behind() {
    let limits = Limits { connections: 16, ..Limits::default() };
    let talk = Talk::new(NEAR_WRAP).handshake().send(First, 10, 10);
    let mut bench = Bench::new(limits);
    for port in 2_000..6_000 {
        bench.push_on(&talk.frames[3], port);
    }
    assert!(bench.tcp.deadlines.len() <= 2 * 16 + 64 + 1);
    let Tcp { held, .. } = bench.tcp;
    assert!(held < 16 * 1_000);
}

#[test]
fn the_fuzz_body_runs_over_seeds() {
    fuzz_tcp(&[]);
    // A handshake, data out of order, a RST and a FIN in the fuzzer's encoding.
    let step = |time, flow, flags, sequence: u16, ack: u16, length| {
        let ([seq, seq_low], [ack, ack_low]) = (sequence.to_be_bytes(), ack.to_be_bytes());
        [time, flow, flags, seq, seq_low, ack, ack_low, length, 3, 0, 0, 0]
    };
    let seed: Vec<u8> = [
        step(1, 0, 2, 900, 0, 0),
        step(2, 0x80, 18, 500, 901, 0),
        step(3, 0, 24, 951, 501, 50),
        step(4, 0, 24, 901, 501, 50),
        step(5, 0x80, 25, 501, 1_001, 80),
        step(90, 0, 4, 1_001, 0, 0),
        step(91, 0, 2, 2_900, 0, 9),
    ]
    .concat();
    fuzz_tcp(&seed);
    for at in 0..seed.len() {
        fuzz_tcp(&seed[..at]);
        for flip in [1, 0x10, 0x80] {
            let mut mutated = seed.clone();
            mutated[at] ^= flip;
            fuzz_tcp(&mutated);
        }
    }
}

#[test]
fn an_idle_connection_is_small() {
    assert!(size_of::<TrackedConnection>() <= 960, "{} bytes", size_of::<TrackedConnection>());
}
