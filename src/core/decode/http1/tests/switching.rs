//! The end of HTTP on a connection by 101 or CONNECT.

use super::*;

const UPGRADE: &str = "GET /chat HTTP/1.1\nConnection: Upgrade\nUpgrade: x\n\n";

/// The events of requests, then those of responses, for conversations in which the order between
/// the directions does not matter.
fn by_direction(steps: &[PeerAction], size: usize) -> [Vec<String>; 2] {
    let lines = event_lines(Limits::default(), steps, size);
    ['>', '<'].map(|arrow| lines.iter().filter(|line| line.starts_with(arrow)).cloned().collect())
}

#[track_caller]
fn check_each(steps: &[PeerAction], requests: &[&str], responses: &[&str]) {
    for size in [usize::MAX, 1, 7] {
        let [told_requests, told_responses] = by_direction(steps, size);
        assert_eq!(told_requests, requests, "pieces of {size}");
        assert_eq!(told_responses, responses, "pieces of {size}");
    }
}

#[test]
fn an_upgrade() {
    check_each(
        &[
            client(UPGRADE),
            server("HTTP/1.1 101 Switching\nUpgrade: x\n\nfirst"),
            client("reply"),
            client_lost(10),
            client("more"),
            server_lost(5),
            server("HTTP/1.1 200 OK\n\n"),
            server_ends(Ending::Finished),
        ],
        &["> 0 GET /chat", "> 0 complete Finished", "> 0 switched @55", "> opaque @55 reply", "> opaque @70 more"],
        &[
            "< 0 101 Switching",
            "< 0 complete Finished",
            "< 0 switched @38",
            "< opaque @38 first",
            "< opaque @48 HTTP/1.1 200 OK\\r\\n\\r\\n",
        ],
    );
}

#[test]
fn bytes_of_the_other_protocol_may_come_before_the_answer() {
    check_each(
        &[client(UPGRADE), client("\x01early"), server("HTTP/1.1 101 Switching\n\n"), client("late")],
        &["> 0 GET /chat", "> 0 complete Finished", "> 0 switched @55", "> opaque @55 \\x01earlylate"],
        &["< 0 101 Switching", "< 0 complete Finished", "< 0 switched @26"],
    );
}

#[test]
fn an_upgrade_that_is_not_taken_up() {
    let request = "POST / HTTP/1.1\nUpgrade: h2c\nContent-Length: 2\n\nabGET /next HTTP/1.1\n\n";
    check_each(
        &[client(request), server("HTTP/1.1 200 OK\nContent-Length: 0\n\nHTTP/1.1 404 No\nContent-Length: 0\n\n")],
        &["> 0 POST /", "> 0 content @52 ab", "> 0 complete Finished", "> 1 GET /next", "> 1 complete Finished"],
        &["< 0 200 OK", "< 0 complete Finished", "< 1 404 No", "< 1 complete Finished"],
    );
}

#[test]
fn a_tunnel() {
    check_each(
        &[
            client("CONNECT a:443 HTTP/1.1\n\n"),
            client("GET / HTTP/1.1\n\n"),
            server("HTTP/1.1 200 Connected\nContent-Length: 5\n\nHTTP/1.1 404 No\n\n"),
            client("more"),
        ],
        &[
            "> 0 CONNECT a:443",
            "> 0 complete Finished",
            "> 0 switched @26",
            "> opaque @26 GET / HTTP/1.1\\r\\n\\r\\nmore",
        ],
        &["< 0 200 Connected", "< 0 complete Finished", "< 0 switched @45", "< opaque @45 HTTP/1.1 404 No\\r\\n\\r\\n"],
    );
}

#[test]
fn a_tunnel_refused() {
    check_each(
        &[
            client("CONNECT a:443 HTTP/1.1\n\n"),
            client("GET / HTTP/1.1\n\n"),
            server("HTTP/1.1 407 Log In\nContent-Length: 0\n\n"),
            server("HTTP/1.1 204 None\n\n"),
        ],
        &["> 0 CONNECT a:443", "> 0 complete Finished", "> 1 GET /", "> 1 complete Finished"],
        &["< 0 407 Log In", "< 0 complete Finished", "< 1 204 None", "< 1 complete Finished"],
    );
}

#[test]
fn a_switch_waits_for_the_end_of_the_request() {
    check_each(
        &[
            client("POST / HTTP/1.1\nUpgrade: x\nContent-Length: 4\n\nab"),
            server("HTTP/1.1 101 Switching\n\n"),
            client("cdother"),
        ],
        &["> 0 POST /", "> 0 content @50 abcd", "> 0 complete Finished", "> 0 switched @54", "> opaque @54 other"],
        &["< 0 101 Switching", "< 0 complete Finished", "< 0 switched @26"],
    );
}

#[test]
fn what_is_held_for_an_answer_is_bounded() {
    let limits = Limits { head: 40, ..Limits::default() };
    let steps = [client("CONNECT a HTTP/1.1\n\n"), client(&"x".repeat(50)), client_ends(Ending::Cut)];
    let expected = ["> 0 CONNECT a", "> 0 complete Finished", "> ! limit head @22", "> ! skipped 22+50"];
    check_with(limits, &steps, &expected);
}
