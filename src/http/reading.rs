//! One message as it arrives, read by the decoder that reads captures.

use crate::capture::Limits;
use crate::decode::http::{Head, HttpEvent, StartLine};
use crate::decode::http1::Http1;
use crate::decode::{Anomaly, Direction, Ending, Piece};

/// A part of a message.
#[derive(Debug)]
pub enum Part {
    /// Start line and fields.
    Head(Box<Head>),
    /// Some of the content.
    Content(Vec<u8>),
    /// Something that is not as the standard has it.
    Odd(Anomaly),
    /// Nothing more follows: it is whole, or this is why it is not.
    End(Result<(), String>),
}

/// A request or a response. Interim responses are passed over.
#[derive(Debug)]
pub struct Reading {
    http: Http1,
    direction: Direction,
    /// Bytes that were taken.
    taken: u64,
    /// Offset of the first byte behind the message, where the decoder has read on.
    next: Option<u64>,
    has_head: bool,
    /// Whether the head leaves the connection open behind this message.
    persists: bool,
    is_over: bool,
}

impl Reading {
    /// A message that flows in this direction.
    pub fn new(direction: Direction) -> Reading {
        let http = Http1::new(Limits::default());
        Reading { http, direction, taken: 0, next: None, has_head: false, persists: false, is_over: false }
    }

    /// The next bytes of the connection; none at its end.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        let piece = if bytes.is_empty() { Piece::End(Ending::Finished) } else { Piece::Data(bytes) };
        self.taken += bytes.len() as u64;
        let mut parts = Vec::new();
        let Reading { http, next, has_head, persists, is_over, .. } = self;
        http.push(self.direction, piece, 0, &mut |event| match event {
            _ if *is_over => *next = next.or(start(&event)),
            HttpEvent::Head { head, .. } if is_interim(&head) => {}
            HttpEvent::Head { head, .. } => {
                *has_head = true;
                *persists = keeps_alive(&head);
                parts.push(Part::Head(head));
            }
            HttpEvent::Content { bytes, .. } => parts.push(Part::Content(bytes.to_vec())),
            HttpEvent::Anomaly { anomaly, .. } => parts.push(Part::Odd(anomaly)),
            HttpEvent::End { complete, .. } => {
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
            let no_http = !self.http.passed_over(self.direction).is_empty();
            let why = if no_http { Some("what it sends is no HTTP") } else { None };
            if let Some(why) = why.or(bytes.is_empty().then_some("it closed the connection")) {
                self.is_over = true;
                parts.push(Part::End(Err(why.to_owned())));
            }
        }
        parts
    }

    /// Whether any byte was taken.
    pub fn is_begun(&self) -> bool {
        self.taken > 0
    }

    /// How many of the last bytes stand behind the message, once it is over.
    pub fn rest(&self) -> usize {
        (self.taken - self.next.unwrap_or_else(|| self.http.low_water(self.direction))) as usize
    }

    /// Whether another request can be sent behind this message: nothing came that nobody asked for.
    pub fn leaves_open(&self) -> bool {
        self.is_over && self.persists && self.rest() == 0
    }
}

/// Where something begins that stands behind a message.
fn start(event: &HttpEvent<'_>) -> Option<u64> {
    match event {
        HttpEvent::Head { head, .. } => Some(head.offset),
        HttpEvent::Opaque { offset, .. }
        | HttpEvent::Anomaly {
            anomaly: Anomaly::NotHttp { offset, .. } | Anomaly::LimitReached { offset, .. }, ..
        } => Some(*offset),
        _ => None,
    }
}

/// "A client MUST be able to parse one or more 1xx responses received prior to a final response" (RFC 9110 section 15.2).
fn is_interim(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 100..=199, .. })
}

/// Whether the connection lasts behind a message with this head (RFC 9112 section 9.3): in HTTP/1.1 unless it says `close`, in HTTP/1.0 where it says
/// `keep-alive`.
pub fn keeps_alive(head: &Head) -> bool {
    let is_old = head.version == "1.0";
    let wanted = if is_old { "keep-alive" } else { "close" };
    let options = head.list("connection").unwrap_or_default();
    options.split(',').any(|option| option.trim().eq_ignore_ascii_case(wanted)) == is_old
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of these pieces, in words, and whether the connection can be used again.
    fn read(pieces: &[&str]) -> (Vec<String>, bool) {
        let mut reading = Reading::new(Direction::ServerToClient);
        let parts: Vec<Part> = pieces.iter().flat_map(|piece| reading.push(piece.as_bytes())).collect();
        let mut said: Vec<String> = Vec::new();
        for part in parts {
            match part {
                Part::Head(head) => said.extend([format!("{:?}", head.start), String::new()]),
                Part::Content(bytes) => *said.last_mut().unwrap() += &String::from_utf8(bytes).unwrap(),
                Part::Odd(_) => {}
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
