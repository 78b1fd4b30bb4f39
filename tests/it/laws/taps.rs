//! Two taps, one for each direction of a link.

use std::net::SocketAddr;

use mcptap::source::file::Files;
use mcptap::source::{Item, Source};
use mcptap_core::internal::event::Event;

use super::{assert_no_more_findings, has_one_truth};
use crate::decoded::{Decoded, assert_same, captures, conversations, frame_of, frames, name};
use crate::program::data;
use crate::rewrite::{self, Frame};

/// The capture of two taps: the clock of one is late, or each wrote a file of its own.
fn two_taps(frames: &[Frame]) -> Vec<(String, Vec<Frame>)> {
    let [clients, servers] = rewrite::directions(frames);
    let mut two_taps = Vec::new();
    for (first, second, whose) in [(&clients, &servers, "servers"), (&servers, &clients, "clients")] {
        for late in [300, 60_000] {
            let late_ones = rewrite::timed(second, |_, time| time.plus(late * 1_000_000));
            let mut merged = [first.clone(), late_ones].concat();
            merged.sort_by_key(|frame| frame.time);
            two_taps.push((format!("{whose} {late} ms late"), merged));
        }
        two_taps.push((format!("{whose} in the second file"), [&first[..], second].concat()));
    }
    two_taps
}

#[test]
fn clocks_that_differ_lose_nothing_and_add_no_findings() {
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        // Fragments have no ports.
        if rewrite::has_fragments(&frames) {
            continue;
        }
        let wanted = Decoded::of(&frames);
        for (how, frames) in two_taps(&frames) {
            let (what, mut said) = (format!("{name}, {how}"), Decoded::of(&frames));
            assert_same(&what, &format!("{:#?}", wanted.texts()), &format!("{:#?}", said.texts()));
            assert_same(&what, &format!("{:#?}", wanted.http_pairs()), &format!("{:#?}", said.http_pairs()));
            assert_same(&what, &format!("{:#?}", wanted.pairs()), &format!("{:#?}", said.pairs()));
            assert_same(
                &what,
                &format!("{:#?}", wanted.texts_of_sessions()),
                &format!("{:#?}", said.texts_of_sessions()),
            );
            // Retransmitted copies are compared with the bytes delivered last, which are others
            // here.
            if has_one_truth(&name, &frames) {
                said.events.retain(|event| clock_difference(event).is_none());
                assert_no_more_findings(&what, &wanted, &said);
            }
        }
    }
}

/// The bounds that a finding gives, in milliseconds: how far the clock for the server is ahead.
fn clock_difference(event: &Event) -> Option<(f64, f64)> {
    let Event::Finding(finding) = event else { return None };
    if finding.rule.id != "capture-clocks-differ" {
        return None;
    }
    let words: Vec<&str> = finding.text.split([' ', ';']).collect();
    let port = |at: usize| words[at].parse::<SocketAddr>().expect("an address").port();
    let number = |at: usize| words[at].parse::<f64>().expect("a number");
    let (ahead, least, most, behind) = (port(5), number(7), number(9), port(15));
    Some(if ahead < behind { (least, most) } else { (-most, -least) })
}

/// A difference is measured where one direction has another clock, whether or not the packets are
/// sorted by time. Then no call has a latency, as it would be wrong.
#[test]
fn the_difference_of_two_clocks_is_measured() {
    let mut measured = 0;
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        if rewrite::has_fragments(&frames) {
            continue;
        }
        for milliseconds in [-3_600_000, -250, -2, 20, 250] {
            let shifted: Vec<Frame> = frames
                .iter()
                .map(|frame| match rewrite::is_of_server(frame) {
                    true => Frame { time: frame.time.plus(milliseconds * 1_000_000), ..frame.clone() },
                    false => frame.clone(),
                })
                .collect();
            let mut sorted = shifted.clone();
            sorted.sort_by_key(|frame| frame.time);
            for frames in [shifted, sorted] {
                let decoded = Decoded::of(&frames);
                let mut found = decoded.events.iter().filter_map(clock_difference).peekable();
                let any = found.peek().is_some();
                measured += usize::from(any);
                for (least, most) in found {
                    let shift = milliseconds as f64;
                    assert!(least <= shift && shift <= most, "{name}: {least} to {most}, not {shift}");
                }
                let timed = decoded.messages().filter(|message| message.latency.is_some()).count();
                assert_eq!(timed, 0, "{name}, {milliseconds} ms");
            }
        }
    }
    assert!(measured > 300, "{measured} captures with two clocks were recognised");
}

/// No capture that was made with one clock has the finding, whatever was lost or reordered in it.
#[test]
fn one_clock_does_not_differ_from_itself() {
    let mut paths = captures();
    for folder in std::fs::read_dir(data("captures-public")).expect("readable") {
        let Ok(files) = std::fs::read_dir(folder.expect("readable").path()) else { continue };
        paths.extend(files.map(|entry| entry.expect("readable").path()));
    }
    let mut read = 0;
    for path in paths {
        let Ok(mut source) = Files::open(std::slice::from_ref(&path), false) else { continue };
        let mut frames = Vec::new();
        // Some are broken on purpose.
        while let Ok(Some(item)) = source.next() {
            if let Item::Packet(packet) = item {
                frames.push(frame_of(&packet));
            }
        }
        let decoded = Decoded::of(&frames);
        assert_eq!(decoded.events.iter().find_map(clock_difference), None, "{}", path.display());
        read += 1;
    }
    assert!(read > 150, "{read} captures were read");
}
