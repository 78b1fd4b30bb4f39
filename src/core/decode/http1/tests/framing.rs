//! Unusual heads and framing.

use super::*;

/// Checks the events after a request's head, for these fields and the bytes after the head.
#[track_caller]
fn request(fields: &str, body: &str, expected: &[&str]) {
    let text = format!("POST / HTTP/1.1\n{fields}\n{body}");
    check(&[client(&text)], &[&["> 0 POST /"], expected].concat());
}

/// Checks the events after a response's head. The request is a GET, and the connection is closed
/// at the end.
#[track_caller]
fn response(start: &str, body: &str, expected: &[&str]) {
    let steps = [client("GET / HTTP/1.1\n\n"), server(&format!("{start}\n\n{body}")), server_ends(Ending::Finished)];
    let lines = event_lines(Limits::default(), &steps, usize::MAX);
    check(&steps, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(lines[3..], *expected, "{lines:?}");
}

#[test]
fn content_length() {
    request("Content-Length: 3\n", "abcGET", &["> 0 content @38 abc", "> 0 complete Finished"]);
    request("Content-Length: 2, 2\nContent-Length: 2\n", "ab", &["> 0 content @60 ab", "> 0 complete Finished"]);
    request("Content-Length: 18446744073709551615\n", "ab", &["> 0 content @57 ab"]);
    request("", "", &["> 0 complete Finished"]);
    for (value, why) in [
        ("5, 6", "Content-Length gives two lengths"),
        ("5\nContent-Length: 6", "Content-Length gives two lengths"),
        ("-1", "Content-Length is not a number of 64 bits"),
        ("+1", "Content-Length is not a number of 64 bits"),
        ("", "Content-Length is not a number of 64 bits"),
        ("1,", "Content-Length is not a number of 64 bits"),
        ("0x10", "Content-Length is not a number of 64 bits"),
        ("18446744073709551616", "Content-Length is not a number of 64 bits"),
        ("99999999999999999999999999999999", "Content-Length is not a number of 64 bits"),
    ] {
        request(
            &format!("Content-Length: {value}\n"),
            "ab\n",
            &[&format!("> ! ambiguous: {why}"), "> 0 incomplete Cut"],
        );
    }
}

#[test]
fn transfer_encoding() {
    request("Transfer-Encoding: chunked\n", "1\na\n0\n\n", &["> 0 content @50 a", "> 0 complete Finished"]);
    request("Transfer-Encoding: identity, CHUNKED\n", "0\n\n", &["> 0 complete Finished"]);
    let both = "> ! ambiguous: both Transfer-Encoding and Content-Length";
    request("Content-Length: 9\nTransfer-Encoding: chunked\n", "0\n\n", &[both, "> 0 complete Finished"]);
    request("Content-Length: -9\nTransfer-Encoding: chunked\n", "0\n\n", &[both, "> 0 complete Finished"]);
    let unchunked = "> ! ambiguous: the last transfer coding is not chunked";
    request("Transfer-Encoding: chunked, gzip\n", "", &[unchunked, "> 0 incomplete Cut"]);
    request("Transfer-Encoding: gzip, chunked\n", "0\n\n", &["> 0 complete Finished"]);
    let twice = "> ! ambiguous: chunked more than once";
    request("Transfer-Encoding: chunked, chunked\n", "0\n\n", &[twice, "> 0 complete Finished"]);
    let blank = "> ! ambiguous: whitespace before the colon of a framing field";
    request("Transfer-Encoding : chunked\n", "0\n\n", &[blank, "> 0 complete Finished"]);
    let text = "POST / HTTP/1.0\nTransfer-Encoding: chunked\n\n0\n\n";
    check(&[client(text)], &["> 0 POST /", "> ! ambiguous: Transfer-Encoding in HTTP/1.0", "> 0 complete Finished"]);
}

#[test]
fn chunks() {
    let chunked = |body: &str, expected: &[&str]| request("Transfer-Encoding: chunked\n", body, expected);
    chunked(
        "00000000000000000000000A ;a=b;c=\"d\"\n0123456789\n0;x\nTrailer: x\n folded\n\n",
        &["> 0 content @84 0123456789", "> 0 complete Finished"],
    );
    chunked("3\nabc\n3\ndef\n0\n\n", &["> 0 content @50 abc", "> 0 content @58 def", "> 0 complete Finished"]);
    let bad = |body: &str, what: &str| chunked(body, &[&format!("> ! {what}"), "> 0 incomplete Cut"]);
    bad("10000000000000000\n\n", "ambiguous: chunk size above 64 bits");
    bad("-1\n", "no chunk size @47");
    bad("\n", "no chunk size @47");
    bad("0x5\n", "no chunk size @47");
    bad("5 junk\n", "no chunk size @47");
    bad("0\nno trailer\n", "no trailer field @50");
    chunked("ffffffffffffffff\nab", &["> 0 content @65 ab"]);
    chunked("1\nab", &["> 0 content @50 a", "> ! no line end behind a chunk @51", "> 0 incomplete Cut"]);
    // The line that broke the framing may be the next message.
    chunked(
        "GET /next HTTP/1.1\n\n",
        &["> ! no chunk size @47", "> 0 incomplete Cut", "> 1 GET /next", "> 1 complete Finished"],
    );
    let bare = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\na\n0\n\n";
    check(&[client_raw(bare)], &["> 0 POST /", "> ! bare line feed @48", "> 0 content @49 a", "> 0 complete Finished"]);
}

#[test]
fn responses_end_as_their_kind_says() {
    response("HTTP/1.1 200 OK", "to the end", &["< 0 content @19 to the end", "< 0 complete Finished"]);
    response("HTTP/1.0 200\nContent-Length: 2", "ab", &["< 0 content @35 ab", "< 0 complete Finished"]);
    response("HTTP/1.1 204 No Content\nContent-Length: 5", "", &["< 0 complete Finished"]);
    response("HTTP/1.1 304 Not Modified\nTransfer-Encoding: chunked", "", &["< 0 complete Finished"]);
    response(
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked, gzip",
        "ab",
        &["< ! ambiguous: the last transfer coding is not chunked", "< 0 content @53 ab", "< 0 complete Finished"],
    );
    response("HTTP/1.1 200 OK\nContent-Length: 9", "short", &["< 0 content @38 short", "< 0 incomplete Finished"]);
    response(
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked",
        "5\nab",
        &["< 0 content @50 ab", "< 0 incomplete Finished"],
    );
    response(
        "HTTP/1.1 100 Continue\n\nHTTP/1.1 102 Processing\n\nHTTP/1.1 200 OK\nContent-Length: 0",
        "",
        &["< 0 102 Processing", "< 0 200 OK", "< 0 complete Finished"],
    );
    check(
        &[client("GET / HTTP/1.1\n\n"), server("HTTP/1.1 200 OK\n\nab"), server_ends(Ending::Reset)],
        &["> 0 GET /", "> 0 complete Finished", "< 0 200 OK", "< 0 content @19 ab", "< 0 incomplete Reset"],
    );
}

#[test]
fn a_response_to_head_has_no_body() {
    check(
        &[
            client("HEAD / HTTP/1.1\n\n"),
            server("HTTP/1.1 200 OK\nContent-Length: 100\n\n"),
            client("GET / HTTP/1.1\n\n"),
            server("HTTP/1.1 200 OK\nContent-Length: 2\n\nab"),
        ],
        &[
            "> 0 HEAD /",
            "> 0 complete Finished",
            "< 0 200 OK",
            "< 0 complete Finished",
            "> 1 GET /",
            "> 1 complete Finished",
            "< 1 200 OK",
            "< 1 content @78 ab",
            "< 1 complete Finished",
        ],
    );
}

#[test]
fn an_upload_that_waits_for_100_and_one_refused_before_it_is_whole() {
    check(
        &[
            client("POST / HTTP/1.1\nExpect: 100-continue\nContent-Length: 2\n\n"),
            server("HTTP/1.1 100 Continue\n\n"),
            client("ab"),
            server("HTTP/1.1 202 Accepted\nContent-Length: 0\n\n"),
            client("POST / HTTP/1.1\nContent-Length: 99\n\nabc"),
            server("HTTP/1.1 413 Too Large\nContent-Length: 0\n\n"),
            client_ends(Ending::Reset),
        ],
        &[
            "> 0 POST /",
            "< 0 100 Continue",
            "> 0 content @60 ab",
            "> 0 complete Finished",
            "< 0 202 Accepted",
            "< 0 complete Finished",
            "> 1 POST /",
            "> 1 content @101 abc",
            "< 1 413 Too Large",
            "< 1 complete Finished",
            "> 1 incomplete Reset",
        ],
    );
}

#[test]
fn odd_heads_are_read_and_reported() {
    let head = |text: &str, expected: &[&str]| check(&[client_raw(text)], expected);
    head("GET / HTTP/1.1\nA: b\r\n\n", &["> 0 GET /", "> ! bare line feed @14", "> 0 complete Finished"]);
    head("GET / HTTP/1.1\r\nA: b\r\n  c\r\n\r\n", &["> 0 GET /", "> ! folded @22", "> 0 complete Finished"]);
    head("GET / HTTP/1.1\r\n A: b\r\n\r\n", &["> 0 GET /", "> ! folded @16", "> 0 complete Finished"]);
    head(
        "GET / HTTP/1.1\r\nno field\r\nA:\x01\r\n\r\n",
        &["> 0 GET /", "> ! no header field @16", "> 0 complete Finished"],
    );
    head("\r\n\r\n\nGET /a b HTTP/1.7 \r\n\r\n", &["> 0 GET /a b", "> 0 complete Finished"]);
    head("M-SEARCH * HTTP/1.1\r\nA: x\ry\r\n\r\n", &["> 0 M-SEARCH *", "> 0 complete Finished"]);
    head("GET /\x1b[31m\u{fffd} HTTP/1.1\r\n\r\n", &["> 0 GET /\x1b[31m\u{fffd}", "> 0 complete Finished"]);
}

#[test]
fn the_value_of_a_folded_field_spans_its_lines() {
    let text = b"GET / HTTP/1.1\r\nA: b\r\n c\r\nB:\r\n d\r\nnone\r\n e\r\n\r\n";
    Http1::new(Limits::default()).push(Direction::ClientToServer, Piece::Data(text), 0, &mut |event| {
        if let HttpEvent::Head { head, .. } = event {
            let fields: Vec<_> = head.fields().collect();
            assert_eq!(fields, [(&b"A"[..], &b"b\r\n c"[..]), (b"B", b"d")]);
        }
    });
}

#[test]
fn what_is_not_http_is_passed_over() {
    check(
        &[client("GET / HTTP/1.1\n\nT / HTTP\n\n"), client("GET /2 HTTP/1.1\n\n"), client_ends(Ending::Finished)],
        &[
            "> 0 GET /",
            "> 0 complete Finished",
            "> ! no request line @18",
            "> ! skipped 18+12",
            "> 1 GET /2",
            "> 1 complete Finished",
        ],
    );
    check(&[server("\x16\x03\x01garbage"), server_ends(Ending::Cut)], &["< ! no status line @0", "< ! skipped 0+10"]);
    check(&[client("GET / HTTP"), client_ends(Ending::Cut)], &["> ! skipped 0+10"]);
    check(&[client("GET / HTTP/2.0\n\n"), client_ends(Ending::Cut)], &["> ! no request line @0", "> ! skipped 0+18"]);
}

#[test]
fn a_head_over_the_limit_is_passed_over() {
    let limits = Limits { head: 40, ..Limits::default() };
    let long = "GET /long HTTP/1.1\nA: b\nA: b\nA: b\nA: b\n\n";
    check_with(
        limits,
        &[client(long), client("GET /short HTTP/1.1\n\n")],
        &["> ! limit head @0", "> ! skipped 0+46", "> 0 GET /short", "> 0 complete Finished"],
    );
    let exact = "GET / HTTP/1.1\nA: 012345678901234567\n\n";
    check_with(limits, &[client(exact)], &["> ! limit head @0"]);
    let exact = "GET / HTTP/1.1\nA: 0123456789012345\n\n";
    check_with(limits, &[client(exact)], &["> 0 GET /", "> 0 complete Finished"]);
}
