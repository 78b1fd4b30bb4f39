//! Two taps, one for each direction of a link.

use super::{assert_no_more_findings, has_one_truth};
use crate::decoded::{Decoded, assert_same, conversations, frames, name};
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
            let (what, said) = (format!("{name}, {how}"), Decoded::of(&frames));
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
                assert_no_more_findings(&what, &wanted, &said);
            }
        }
    }
}
