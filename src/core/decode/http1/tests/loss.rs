//! Gaps, and captures that begin or end within a message.

use super::*;

const GET: &str = "GET / HTTP/1.1\n\n";

/// Checks the events after the request, for a response to one GET with a gap.
#[track_caller]
fn response(before: &str, lost: u64, after: &str, expected: &[&str]) {
    let steps = [client(GET), server(before), server_lost(lost), server_raw(after), server_ends(Ending::Finished)];
    check(&steps, &[&["> 0 GET /", "> 0 complete Finished"], expected].concat());
}

#[test]
fn a_gap_in_content_of_known_length() {
    let head = "HTTP/1.1 200 OK\nContent-Length: 10\n\n";
    response(
        &format!("{head}ab"),
        3,
        "fghij",
        &["< 0 200 OK", "< 0 content @39 ab", "< 0 gap 3", "< 0 content @44 fghij", "< 0 incomplete Finished"],
    );
    response(head, 10, "", &["< 0 200 OK", "< 0 gap 10", "< 0 incomplete Finished"]);
    // The gap may reach into another message.
    response(
        head,
        11,
        "rest\r\nHTTP/1.1 200 OK\r\n\r\n",
        &[
            "< 0 200 OK",
            "< 0 gap 10",
            "< 0 incomplete Finished",
            "< ! skipped 50+6",
            "< 1 200 OK",
            "< ! not asked for",
            "< 1 complete Finished",
        ],
    );
}

#[test]
fn a_gap_in_content_up_to_the_close() {
    response(
        "HTTP/1.1 200 OK\n\nab",
        3,
        "fg",
        &["< 0 200 OK", "< 0 content @19 ab", "< 0 gap 3", "< 0 content @24 fg", "< 0 incomplete Finished"],
    );
}

#[test]
fn a_gap_inside_a_chunk_leaves_the_framing_whole() {
    let head = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n";
    response(
        &format!("{head}A\n01"),
        3,
        "56789\r\n1\r\nx\r\n0\r\n\r\n",
        &[
            "< 0 200 OK",
            "< 0 content @50 01",
            "< 0 gap 3",
            "< 0 content @55 56789",
            "< 0 content @65 x",
            "< 0 incomplete Finished",
        ],
    );
    response(
        &format!("{head}A\n01"),
        8,
        "\r\n0\r\n\r\n",
        &["< 0 200 OK", "< 0 content @50 01", "< 0 gap 8", "< 0 incomplete Finished"],
    );
}

#[test]
fn a_stream_of_chunks_goes_on_where_a_chunk_is_certain_to_begin() {
    let stream = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\na\n";
    response(
        stream,
        20,
        "2\r\nbc\r\n0\r\n\r\n",
        &["< 0 200 OK", "< 0 content @50 a", "< 0 gap ?", "< 0 content @76 bc", "< 0 incomplete Finished"],
    );
    // No line end after the data; no size; sizes too large to await the proof.
    for after in ["2\r\nbcd", "data: 1\r\n\r\n", "fffffffff\r\nx", "ffffffffffffffffff\r\n", &"0".repeat(100)] {
        let skipped = format!("< ! skipped 73+{}", after.len());
        let expected = ["< 0 200 OK", "< 0 content @50 a", "< 0 gap ?", &skipped, "< 0 incomplete Finished"];
        response(stream, 20, after, &expected);
    }
    let expected = ["< 0 200 OK", "< 0 content @50 a", "< 0 gap ?", "< ! skipped 73+4", "< 0 incomplete Finished"];
    response(stream, 20, "2\r\nb", &expected);
}

/// An event in a chunk of its own.
fn event(data: &str) -> String {
    let event = format!("event: message\r\ndata: {data}\r\n\r\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}

#[test]
fn events_are_found_whose_head_was_lost() {
    let events = ["{\"a\":1}", "{\"b\":2}"].map(event).concat();
    let end = "0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    response(
        "",
        20,
        &format!("rest of one\r\n\r\n\r\n{events}{end}"),
        &[
            "< ! skipped 20+21",
            "< 0 0",
            "< 0 content @41 event: message\\r\\ndata: {\\\"a\\\":1}\\r\\n\\r\\n\\r\\n",
            "< 0 content @80 event: message\\r\\ndata: {\\\"b\\\":2}\\r\\n\\r\\n",
            "< 0 incomplete Finished",
            "< 1 204 No Content",
            "< ! not asked for",
            "< 1 complete Finished",
        ],
    );
    // Events without chunks end with the stream, or where another response begins.
    response(
        "",
        20,
        "id: 1\nid: 2\ndata: [1]\n\n: a\n\nab\ndata: 2\n\nHTTP/1.1 204 No Content\r\n\r\n",
        &[
            "< 0 0",
            "< 0 content @20 id: 1\\nid: 2\\ndata: [1]\\n\\n: a\\n\\nab\\ndata: 2\\n\\n",
            "< 0 incomplete Cut",
            "< 1 204 No Content",
            "< ! not asked for",
            "< 1 complete Finished",
        ],
    );
    // Lines that only resemble events.
    for other in ["datum: {}\n", "data: x\n", "event: message\n", "x data: {}\n", "id: 1\nHTTP\ndata: x\n"] {
        response("", 20, other, &[&format!("< ! skipped 20+{}", other.len())]);
    }
}

#[test]
fn the_first_event_of_http_sse_is_found_whose_head_was_lost() {
    response(
        "",
        20,
        "event: endpoint\ndata: /m?s=1\n\n",
        &["< 0 0", "< 0 content @20 event: endpoint\\ndata: /m?s=1\\n\\n", "< 0 incomplete Finished"],
    );
}

#[test]
fn events_go_on_behind_a_hole_that_ends_within_one() {
    let head = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\na\n";
    let rest = format!("rest\r\n\r\n\r\n{}", event("{}"));
    response(
        head,
        20,
        &rest,
        &[
            "< 0 200 OK",
            "< 0 content @50 a",
            "< 0 gap ?",
            "< ! skipped 73+14",
            "< 0 gap ?",
            "< 0 content @87 event: message\\r\\ndata: {}\\r\\n\\r\\n\\r\\n",
            "< 0 incomplete Finished",
        ],
    );
    // Another request may have been answered since, so the events belong to its response.
    let server_goes_on = [server(head), client("GET /2 HTTP/1.1\n\n"), server_lost(20), server_raw(&rest)];
    check(
        &[&[client(GET)][..], &server_goes_on, &[server_ends(Ending::Finished)]].concat(),
        &[
            "> 0 GET /",
            "> 0 complete Finished",
            "< 0 200 OK",
            "< 0 content @50 a",
            "> 1 GET /2",
            "> 1 complete Finished",
            "< 0 gap ?",
            "< 0 incomplete Cut",
            "< ! skipped 73+14",
            "< 2 0",
            "< 2 content @87 event: message\\r\\ndata: {}\\r\\n\\r\\n\\r\\n",
            "< 2 incomplete Finished",
        ],
    );
}

#[test]
fn a_stream_of_chunks_does_not_go_on_where_another_response_may_have_begun() {
    check(
        &[
            client(GET),
            server("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\na\n"),
            client("GET /2 HTTP/1.1\n\n"),
            server_lost(20),
            server("2\nbc\n0\n\n"),
            server_ends(Ending::Finished),
        ],
        &[
            "> 0 GET /",
            "> 0 complete Finished",
            "< 0 200 OK",
            "< 0 content @50 a",
            "> 1 GET /2",
            "> 1 complete Finished",
            "< 0 gap ?",
            "< 0 incomplete Cut",
            "< ! skipped 73+12",
        ],
    );
}

#[test]
fn a_gap_in_an_upload() {
    check(
        &[
            client("POST / HTTP/1.1\nContent-Length: 10\n\nab"),
            client_lost(8),
            client("POST /2 HTTP/1.1\nTransfer-Encoding: chunked\n\n"),
            client_lost(8),
            client("chunk\n0\n\n"),
            client("GET /3 HTTP/1.1\n\n"),
        ],
        &[
            "> 0 POST /",
            "> 0 content @39 ab",
            "> 0 gap 8",
            "> 0 incomplete Finished",
            "> 1 POST /2",
            "> 1 gap ?",
            "> 1 incomplete Cut",
            "> ! skipped 105+12",
            "> 2 GET /3",
            "> 2 complete Finished",
        ],
    );
}

#[test]
fn a_gap_in_a_head() {
    check(
        &[client("GET / HTTP/1.1\nHost"), client_lost(8), client("\n\nGET /2 HTTP/1.1\n\n"), client("GET /3")],
        &["> ! skipped 0+20", "> ! skipped 28+4", "> 0 GET /2", "> 0 complete Finished"],
    );
}

#[test]
fn a_capture_that_begins_in_the_middle() {
    check(
        &[
            server("}]}HTTP/1.1 200 OK\nContent-Length: 2\n\n{}"),
            client("half a line\nPOST / HTTP/1.1\nContent-Length: 0\n\n"),
            server("HTTP/1.1 202 Accepted\n\n"),
        ],
        &[
            "< ! no status line @0",
            "< ! skipped 0+3",
            "< 0 200 OK",
            "< ! not asked for",
            "< 0 content @41 {}",
            "< 0 complete Finished",
            "> ! no request line @0",
            "> ! skipped 0+13",
            "> 1 POST /",
            "> 1 complete Finished",
            "< 1 202 Accepted",
        ],
    );
}

#[test]
fn text_that_speaks_of_http_is_not_taken_for_it() {
    check(
        &[
            server_lost(1),
            server("see HTTP/1.1 200 OK\nHTTP/1.1 200 OK\nno field\nHTTP/1.1 404 No\nA: b\n\n"),
            server_ends(Ending::Cut),
        ],
        &["< ! skipped 1+48", "< 0 404 No", "< ! not asked for", "< 0 incomplete Cut"],
    );
}

#[test]
fn a_search_is_bounded_and_finds_what_follows_a_long_line() {
    let limits = Limits { head: 64, ..Limits::default() };
    let long = "x".repeat(1000);
    check_with(
        limits,
        &[server_lost(5), server(&format!("{long}HTTP/1.1 204 No\n\n")), server(&long), server_ends(Ending::Reset)],
        &[
            "< ! skipped 5+1000",
            "< 0 204 No",
            "< ! not asked for",
            "< 0 complete Finished",
            "< ! no status line @1024",
            "< ! skipped 1024+1000",
        ],
    );
}

#[test]
fn gaps_beyond_all_measure() {
    check(
        &[
            client("POST / HTTP/1.1\nContent-Length: 18446744073709551615\n\n"),
            client_lost(u64::MAX - 1),
            client_lost(u64::MAX),
            client("x\n"),
            client_lost(u64::MAX),
            server_lost(u64::MAX),
            server("x\n"),
        ],
        &[
            "> 0 POST /",
            "> 0 gap 18446744073709551614",
            "> 0 gap 1",
            "> 0 incomplete Finished",
            "> ! skipped 4611686018427387904+3",
        ],
    );
}

#[test]
fn a_body_of_json_rpc_whose_head_was_lost_is_emitted() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{"text":"a\"}\\"}}"#;
    let length = body.len();
    // The gap ends after the head, within it, or before the size of a chunk. Another head or the
    // end of a chunk follows.
    for (before, behind) in
        [("", ""), ("", "\r\n0\r\n\r\n"), ("gth: 51\r\nX: y\r\n\r\n", ""), ("33\r\n", "\r\n0\r\n\r\n")]
    {
        let (start, skipped) = (before.len(), behind.len());
        let mut expected = vec!["> 0 GET /".to_owned(), "> 0 complete Finished".to_owned()];
        if start > 0 {
            expected.push(format!("< ! skipped 9+{start}"));
        }
        expected.push("< 0 0".to_owned());
        expected.push(format!("< 0 content @{} {}", 9 + start, body.escape_debug()));
        expected.push("< 0 complete Finished".to_owned());
        if skipped > 0 {
            expected.push(format!("< ! skipped {}+{skipped}", 9 + start + length));
        }
        expected.extend(["< 1 200 OK".to_owned(), "< ! not asked for".to_owned(), "< 1 complete Finished".to_owned()]);
        let after = format!("{before}{body}{behind}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let steps = [client(GET), server_lost(9), server_raw(&after), server_ends(Ending::Finished)];
        check(&steps, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
