//! Reads one HTTP message as its bytes arrive, with the decoder for captures.

use crate::capture::Limits;
use crate::decode::http::{Head, HttpEvent, StartLine};
use crate::decode::http1::Http1;
use crate::decode::{Anomaly, Direction, Ending, Piece};

/// One part of a message.
#[derive(Debug)]
pub enum Part {
    /// The start line and the header fields.
    Head(Box<Head>),
    /// Some bytes of the body, without framing.
    Content(Vec<u8>),
    /// A violation of the standard.
    Anomaly(Anomaly),
    /// The message is over: complete, or incomplete for this reason.
    End(Result<(), String>),
}

/// Reads one request or one response. Interim responses (1xx) are skipped.
#[derive(Debug)]
pub struct MessageReader {
    http: Http1,
    direction: Direction,
    /// Bytes pushed so far.
    pushed: u64,
    /// Offset of the first byte after the message, if the decoder has already read past it.
    next: Option<u64>,
    has_head: bool,
    /// Whether the head allows another message on the connection.
    persists: bool,
    is_over: bool,
}

impl MessageReader {
    /// A reader for a message in this direction.
    pub fn new(direction: Direction) -> MessageReader {
        let http = Http1::new(Limits::default());
        MessageReader { http, direction, pushed: 0, next: None, has_head: false, persists: false, is_over: false }
    }

    /// Takes the next bytes of the connection. An empty slice means that the connection ended.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Part> {
        let piece = if bytes.is_empty() { Piece::End(Ending::Finished) } else { Piece::Data(bytes) };
        self.pushed += bytes.len() as u64;
        let mut parts = Vec::new();
        let MessageReader { http, next, has_head, persists, is_over, .. } = self;
        http.push(self.direction, piece, 0, &mut |event| match event {
            _ if *is_over => *next = next.or(start(&event)),
            HttpEvent::Head { head, .. } if is_interim(&head) => {}
            HttpEvent::Head { head, .. } => {
                *has_head = true;
                *persists = keeps_alive(&head);
                parts.push(Part::Head(head));
            }
            HttpEvent::Content { bytes, .. } => parts.push(Part::Content(bytes.to_vec())),
            HttpEvent::Anomaly { anomaly, .. } => parts.push(Part::Anomaly(anomaly)),
            HttpEvent::End { complete, .. } => {
                *is_over = true;
                let end = match (*has_head, complete) {
                    (true, true) => Ok(()),
                    (true, false) => Err("the connection closed before the end of the message"),
                    // Status 101 changes the protocol, which this client never requests.
                    (false, _) => Err("the connection switched to another protocol"),
                };
                parts.push(Part::End(end.map_err(str::to_owned)));
            }
            _ => {}
        });
        // A closed connection cannot be used again.
        self.persists &= !bytes.is_empty();
        if !self.is_over {
            let no_http = !self.http.passed_over(self.direction).is_empty();
            let why = if no_http { Some("the peer does not send HTTP") } else { None };
            if let Some(why) = why.or(bytes.is_empty().then_some("the peer closed the connection")) {
                self.is_over = true;
                parts.push(Part::End(Err(why.to_owned())));
            }
        }
        parts
    }

    /// Whether any byte has arrived.
    pub fn is_begun(&self) -> bool {
        self.pushed > 0
    }

    /// The number of bytes at the end of the last push that follow the message. Valid once the
    /// message is over.
    pub fn bytes_after(&self) -> usize {
        (self.pushed - self.next.unwrap_or_else(|| self.http.low_water(self.direction))) as usize
    }

    /// Whether the connection can be used for another message. It cannot if extra bytes arrived.
    pub fn leaves_open(&self) -> bool {
        self.is_over && self.persists && self.bytes_after() == 0
    }
}

/// The offset of an event that follows the end of the message.
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

/// Whether a response is interim. "A client MUST be able to parse one or more 1xx responses
/// received prior to a final response" (RFC 9110 section 15.2).
fn is_interim(head: &Head) -> bool {
    matches!(head.start, StartLine::Response { status: 100..=199, .. })
}

/// Whether the connection stays open after a message with this head (RFC 9112 section 9.3).
/// HTTP/1.1 keeps it open unless the head contains `close`, HTTP/1.0 only with `keep-alive`.
pub fn keeps_alive(head: &Head) -> bool {
    let is_old = head.version == "1.0";
    let wanted = if is_old { "keep-alive" } else { "close" };
    let options = head.list("connection").unwrap_or_default();
    options.split(',').any(|option| option.trim().eq_ignore_ascii_case(wanted)) == is_old
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts that are read from these pieces, and whether the connection can be used again.
    fn read(pieces: &[&str]) -> (Vec<String>, bool) {
        let mut reader = MessageReader::new(Direction::ServerToClient);
        let parts: Vec<Part> = pieces.iter().flat_map(|piece| reader.push(piece.as_bytes())).collect();
        let mut parts_read: Vec<String> = Vec::new();
        for part in parts {
            match part {
                Part::Head(head) => parts_read.extend([format!("{:?}", head.start), String::new()]),
                Part::Content(bytes) => *parts_read.last_mut().unwrap() += &String::from_utf8(bytes).unwrap(),
                Part::Anomaly(_) => {}
                Part::End(end) => parts_read.push(format!("{end:?}")),
            }
        }
        (parts_read, reader.leaves_open())
    }

    #[test]
    fn cutting_a_response_changes_nothing() {
        let ok = r#"Response { status: 200, reason: "OK" }"#;
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
        let closing = "HTTP/1.1 200 OK\r\nconnection: x, Close\r\nContent-Length: 5\r\n\r\nabcde";
        let old = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nabcde";
        let junk = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcdeHT";
        for (text, open) in [(chunked, true), (interim, true), (closing, false), (old, false), (junk, false)] {
            for cut in 1..text.len() {
                let (parts_read, leaves_open) = read(&[&text[..cut], &text[cut..]]);
                assert_eq!(parts_read, [ok, "abcde", "Ok(())"], "{text:?} cut at {cut}");
                // Extra bytes in a later read are noticed then, before the next request.
                assert!(leaves_open == open || cut == text.len() - 2 && text == junk, "{text:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn an_incomplete_message_has_a_reason() {
        let end = |pieces: &[&str]| read(pieces).0.pop().unwrap();
        assert_eq!(end(&["HTTP/1.1 200 OK\r\n\r\nabc", ""]), "Ok(())", "with the connection its content ends");
        assert!(
            end(&["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", ""]).contains("before the end of the message")
        );
        assert!(
            end(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", ""])
                .contains("before the end of the message")
        );
        assert!(end(&["HTTP/1.1 200", ""]).contains("closed the connection"));
        assert!(end(&[""]).contains("closed the connection"));
        assert!(end(&["220 mail.example.org ESMTP\r\n"]).contains("not send HTTP"));
        assert!(end(&["HTTP/1.1 101 Yes\r\nUpgrade: x\r\n\r\nabc"]).contains("another protocol"));
    }
}
