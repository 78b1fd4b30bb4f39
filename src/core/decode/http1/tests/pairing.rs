//! The request that a response answers.

use super::*;

fn get(target: u32) -> PeerAction {
    client(&format!("GET /{target} HTTP/1.1\n\n"))
}

fn ok(reason: u32) -> PeerAction {
    server(&format!("HTTP/1.1 200 {reason}\nContent-Length: 0\n\n"))
}

const OK: u64 = 37;
const GET: u64 = 19;

/// Pairs of target and reason of the exchanges in order; `-` where one of the two is missing.
fn pairs(limits: Limits, steps: &[PeerAction]) -> Vec<String> {
    let lines = event_lines(limits, steps, usize::MAX);
    assert_eq!(lines, super::event_lines(limits, steps, 1), "byte by byte");
    let word = |arrow: &str, index: usize, before: &str| {
        let begin = format!("{arrow} {index} {before}");
        lines.iter().find_map(|line| line.strip_prefix(&begin)).unwrap_or("-")
    };
    (0..steps.len())
        .map(|index| format!("{} {}", word(">", index, "GET /"), word("<", index, "200 ")))
        .take_while(|pair| pair != "- -")
        .collect()
}

#[track_caller]
fn check_pairs(steps: &[PeerAction], expected: &[&str]) {
    assert_eq!(pairs(Limits::default(), steps), expected);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    check_pairs(&[get(1), get(2), get(3), ok(1), ok(2), ok(3)], &["1 1", "2 2", "3 3"]);
    check_pairs(&[get(1), get(2), ok(1), get(3), ok(2), ok(3)], &["1 1", "2 2", "3 3"]);
}

#[test]
fn more_responses_than_requests() {
    // As in a capture of a server that answers one request three times. Bytes that the client had
    // received before its request do not answer it.
    check_pairs(&[get(1), ok(1), ok(9), ok(9), get(2), ok(2)], &["1 1", "- 9", "- 9", "2 2"]);
    let steps = [get(1), ok(1), ok(9)];
    assert!(event_lines(Limits::default(), &steps, 7).contains(&"< ! not asked for".to_owned()));
}

#[test]
fn an_interim_response_that_nobody_asked_for_is_of_one_exchange_with_its_final_one() {
    check(
        &[
            server("HTTP/1.1 103 Hints\n\nHTTP/1.1 204 No\n\n"),
            client("GET / HTTP/1.1\n\n"),
            server("HTTP/1.1 204 No\n\n"),
        ],
        &[
            "< 0 103 Hints",
            "< ! not asked for",
            "< 0 204 No",
            "< ! not asked for",
            "< 0 complete Finished",
            "> 1 GET /",
            "> 1 complete Finished",
            "< 1 204 No",
            "< 1 complete Finished",
        ],
    );
}

#[test]
fn one_lost_response_of_many_does_not_shift_the_others() {
    check_pairs(&[get(1), server_lost(OK), get(2), ok(2), get(3), ok(3)], &["1 -", "2 2", "3 3"]);
    check_pairs(
        &[get(1), ok(1), get(2), server_lost(OK), get(3), server_lost(OK), get(4), ok(4)],
        &["1 1", "2 -", "3 -", "4 4"],
    );
    // The rest of a response, which began before the later request.
    let part = server("body of an answer\nHTTP/1.1 200 2\nContent-Length: 0\n\n");
    check_pairs(&[get(1), server_lost(30), get(2), part, get(3), ok(3)], &["1 -", "2 2", "3 3"]);
}

#[test]
fn with_one_candidate_a_response_behind_a_gap_is_certain() {
    check_pairs(&[get(1), server_lost(10), ok(1)], &["1 1"]);
    check_pairs(&[get(1), get(2), ok(1), server_lost(10), ok(2), get(3), ok(3)], &["1 1", "2 2", "3 3"]);
}

#[test]
fn with_several_candidates_nothing_is_guessed() {
    // The last of these could only answer the third, but it is not known to be the last when it
    // arrives.
    check_pairs(&[get(1), get(2), get(3), server_lost(OK), ok(2), ok(3)], &["1 -", "2 -", "3 -", "- 2", "- 3"]);
    // As many responses as requests have arrived, so the count is certain again.
    check_pairs(&[get(1), get(2), server_lost(10), ok(1), ok(2), get(3), ok(3)], &["1 -", "2 2", "- 1", "3 3"]);
}

#[test]
fn a_gap_in_content_of_known_length_leaves_the_count_certain() {
    let long = server("HTTP/1.1 200 1\nContent-Length: 9\n\nab");
    check_pairs(&[get(1), get(2), get(3), long, server_lost(7), ok(2), ok(3)], &["1 1", "2 2", "3 3"]);
}

#[test]
fn lost_requests() {
    check_pairs(&[get(1), ok(1), client_lost(GET), ok(2), get(3), ok(3)], &["1 1", "- 2", "3 3"]);
    check_pairs(&[get(1), client_lost(GET), get(3), ok(1), ok(2), ok(3)], &["1 1", "3 -", "- 2", "- 3"]);
    // The response to the first request is lost, and the second request.
    check_pairs(&[get(1), server_lost(OK), client_lost(GET), ok(2), get(3), ok(3)], &["1 -", "- 2", "3 3"]);
}

#[test]
fn behind_a_request_that_may_hide_another_nothing_is_guessed() {
    let smuggler =
        client("GET /1 HTTP/1.1\nContent-Length: 30\nTransfer-Encoding: chunked\n\n0\n\nGET /666 HTTP/1.1\n\n");
    check_pairs(&[smuggler, ok(1), get(2), ok(2)], &["1 1", "666 -", "2 -", "- 2"]);
}

#[test]
fn forgotten_requests_are_still_counted() {
    let limits = Limits { pipelined: 3, ..Limits::default() };
    let steps = [get(1), get(2), get(3), get(4), get(5), ok(1), ok(2), ok(3), ok(4), ok(5)];
    let lines = event_lines(limits, &steps, 7);
    assert_eq!(lines.iter().filter(|line| line.starts_with("> ! limit pipelined")).count(), 1);
    let expected = ["1 -", "2 -", "3 -", "4 -", "5 -", "- 1", "- 2", "- 3", "- 4", "- 5"];
    assert_eq!(pairs(limits, &steps), expected);
}
