//! A response as it comes, read by the decoder that reads captures.

use crate::capture::Limits;
use crate::decode::http::{Head, HttpEvent, StartLine};
use crate::decode::http1::{Http1, Seen};
use crate::decode::{Direction, Ending, Piece};

/// What came of a response.
#[derive(Debug)]
pub(super) enum Part {
    /// Status and fields.
    Head(Box<Head>),
    /// Some of the content.
    Content(Vec<u8>),
    /// Nothing more follows: it is whole, or this is why it is not.
    End(Result<(), String>),
}

/// One response.
#[derive(Debug)]
pub(super) struct Reading {
    http: Http1,
    /// Bytes that were taken.
    taken: u64,
    has_head: bool,
    /// What the head says of the connection behind this response.
    persists: bool,
    is_over: bool,
}

impl Reading {
    pub(super) fn new() -> Reading {
        Reading { http: Http1::new(Limits::default()), taken: 0, has_head: false, persists: false, is_over: false }
    }

    /// The next bytes of the connection; none at its end.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        let piece = if bytes.is_empty() { Piece::End(Ending::Finished) } else { Piece::Data(bytes) };
        self.taken += bytes.len() as u64;
        let mut parts = Vec::new();
        let Reading { http, has_head, persists, is_over, .. } = self;
        http.push(Direction::ServerToClient, piece, Seen::default(), &mut |event| match event {
            // What nobody asked for may be anything: the connection is not used again.
            HttpEvent::Head { .. } | HttpEvent::Opaque { .. } if *is_over => *persists = false,
            HttpEvent::Head { head, .. } if is_interim(&head) => {}
            HttpEvent::Head { head, .. } => {
                *has_head = true;
                *persists = head.version == "1.1" && !closes(&head);
                parts.push(Part::Head(head));
            }
            HttpEvent::Content { bytes, .. } if !*is_over => parts.push(Part::Content(bytes.to_vec())),
            HttpEvent::End { complete, .. } if !*is_over => {
                *is_over = true;
                let end = match (*has_head, complete) {
                    (true, true) => Ok(()),
                    (true, false) => Err("it ended before its time"),
                    // 101, which nobody asked for.
                    (false, _) => Err("it goes on in another protocol"),
                };
                parts.push(Part::End(end.map_err(str::to_owned)));
            }
            _ => {}
        });
        // Behind the end of the connection nothing is sent.
        self.persists &= !bytes.is_empty();
        if !self.is_over {
            let no_http = !self.http.passed_over(Direction::ServerToClient).is_empty();
            let why = if no_http { Some("what it sends is no HTTP") } else { None };
            if let Some(why) = why.or(bytes.is_empty().then_some("it closed the connection")) {
                self.is_over = true;
                parts.push(Part::End(Err(why.to_owned())));
            }
        }
        parts
    }

    /// Whether another request can be sent behind this one.
    pub(super) fn leaves_open(&self) -> bool {
        // Nothing is held that came behind the response.
        self.is_over && self.persists && self.http.low_water(Direction::ServerToClient) == self.taken
    }
}

/// "A client MUST be able to parse one or more 1xx responses received prior to a final response" (RFC 9110 section 15.2).
fn is_interim(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 100..=199, .. })
}

/// RFC 9112 section 9.6: "The 'close' connection option is defined as a signal that the sender will close this connection".
fn closes(head: &Head) -> bool {
    head.list("connection")
        .is_some_and(|options| options.split(',').any(|option| option.trim().eq_ignore_ascii_case("close")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of these pieces, in words, and whether the connection can be used again.
    fn read(pieces: &[&str]) -> (Vec<String>, bool) {
        let mut reading = Reading::new();
        let parts: Vec<Part> = pieces.iter().flat_map(|piece| reading.push(piece.as_bytes())).collect();
        let mut said: Vec<String> = Vec::new();
        for part in parts {
            match part {
                Part::Head(head) => said.extend([format!("{:?}", head.start), String::new()]),
                Part::Content(bytes) => *said.last_mut().unwrap() += &String::from_utf8(bytes).unwrap(),
                Part::End(end) => said.push(format!("{end:?}")),
            }
        }
        (said, reading.leaves_open())
    }

    #[test]
    fn however_a_response_is_cut_it_says_the_same() {
        let ok = r#"Response { status: 200, reason: "OK" }"#;
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
        let closing = "HTTP/1.1 200 OK\r\nconnection: x, Close\r\nContent-Length: 5\r\n\r\nabcde";
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
        let junk = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcdeHT";
        for (text, open) in [(chunked, true), (interim, true), (closing, false), (old, false), (junk, false)] {
            for cut in 1..text.len() {
                let (said, leaves_open) = read(&[&text[..cut], &text[cut..]]);
                assert_eq!(said, [ok, "abcde", "Ok(())"], "{text:?} cut at {cut}");
                // What nobody asked for is also seen where it comes later: then before the next request.
                assert!(leaves_open == open || cut == text.len() - 2 && text == junk, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn what_is_not_whole_says_so() {
        let end = |pieces: &[&str]| read(pieces).0.pop().unwrap();
        assert_eq!(end(&["HTTP/1.1 200 OK\r\n\r\nabc", ""]), "Ok(())", "with the connection its content ends");
        assert!(end(&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", ""]).contains("before its time"));
        assert!(end(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", ""]).contains("before its time"));
        assert!(end(&["HTTP/1.1 200", ""]).contains("closed the connection"));
        assert!(end(&[""]).contains("closed the connection"));
        assert!(end(&["220 mail.example.org ESMTP\r\n"]).contains("no HTTP"));
        assert!(end(&["HTTP/1.1 101 Yes\r\nUpgrade: x\r\n\r\nabc"]).contains("another protocol"));
    }
}
