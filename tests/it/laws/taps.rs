//! Two taps, one for each direction of a link.

use super::{assert_accuses_no_more, has_one_truth};
use crate::decoded::{Decoded, assert_same, conversations, frames, name};
use crate::rewrite::{self, Frame};

/// What two taps make of a capture: the clock of one is late, or each wrote a file of its own.
fn apart(frames: &[Frame]) -> Vec<(String, Vec<Frame>)> {
    let [clients, servers] = rewrite::directions(frames);
    let mut apart = Vec::new();
    for (first, second, whose) in [(&clients, &servers, "servers"), (&servers, &clients, "clients")] {
        for late in [300, 60_000] {
            let late_ones = rewrite::timed(second, |_, time| time.plus(late * 1_000_000));
            let mut merged = [first.clone(), late_ones].concat();
            merged.sort_by_key(|frame| frame.time);
            apart.push((format!("{whose} {late} ms late"), merged));
        }
        apart.push((format!("{whose} in the second file"), [&first[..], second].concat()));
    }
    apart
}

#[test]
fn clocks_that_differ_lose_nothing_and_accuse_nobody() {
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        // The fragments of a datagram name no ports.
        if rewrite::has_fragments(&frames) {
            continue;
        }
        let wanted = Decoded::of(&frames);
        for (how, frames) in apart(&frames) {
            let (what, said) = (format!("{name}, {how}"), Decoded::of(&frames));
            assert_same(&what, &format!("{:#?}", wanted.texts()), &format!("{:#?}", said.texts()));
            assert_same(&what, &format!("{:#?}", wanted.http_pairs()), &format!("{:#?}", said.http_pairs()));
            assert_same(&what, &format!("{:#?}", wanted.pairs()), &format!("{:#?}", said.pairs()));
            assert_same(&what, &format!("{:#?}", wanted.homes()), &format!("{:#?}", said.homes()));
            // What was delivered last is compared with copies, and here that is something else.
            if has_one_truth(&name, &frames) {
                assert_accuses_no_more(&what, &wanted, &said);
            }
        }
    }
}
