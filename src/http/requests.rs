//! Parses HTTP requests as a server must: strictly and within bounds (RFC 9112).
//!
//! The decoder for captures is lenient, because it has to show whatever was captured. A server
//! refuses every request that two parsers could understand differently.

use std::mem;
use std::ops::Range;

use super::message_reader::{self, MessageReader, Part};
use super::response;
use crate::decode::http::{Head, StartLine};
use crate::decode::{Anomaly, Direction};

/// The most bytes of a body. Arguments with a picture have a few megabytes. The decoder limits
/// heads and trailer sections to 64 KiB.
const BODY: usize = 32 << 20;

/// The reason for refusing a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status code of the response.
    pub status: u16,
    /// The reason in words.
    pub why: String,
}

impl Refusal {
    /// A refusal with this status and reason.
    pub fn new(status: u16, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    /// The refusal for an anomaly that the decoder found.
    pub fn of(anomaly: &Anomaly) -> Refusal {
        match anomaly {
            Anomaly::LimitReached { .. } => Refusal::new(431, "the head is too long"),
            Anomaly::AmbiguousFraming { why, .. } => Refusal::new(400, *why),
            Anomaly::BareLineFeed { .. } => Refusal::new(400, "a line ends with LF instead of CR LF"),
            Anomaly::FoldedHeader { .. } => Refusal::new(400, "a header field continues on the next line"),
            Anomaly::NotHttp { expected, .. } => Refusal::new(400, format!("not a valid {expected} of HTTP/1.1")),
            _ => Refusal::new(400, "this is not HTTP/1.1"),
        }
    }

    /// The response for this refusal. It closes the connection, since the start of the next
    /// request is unknown.
    pub fn response(&self, prefix: &str) -> String {
        let body = format!("{prefix}{}\n", self.why);
        let fields = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")];
        response::head(self.status, &fields, Some(body.len())) + &body
    }
}

/// Checks that every parser understands this head in the same way. Returns the range of the `Host`
/// field's value, which HTTP/1.0 may omit.
///
/// # Errors
/// The request must be neither served nor forwarded.
pub fn check(head: &Head) -> Result<Option<Range<u32>>, Refusal> {
    let (method, target) = request_line(head);
    let line = format!("{method} {target} HTTP/{}", head.version);
    let behind = head.text.strip_prefix(line.as_bytes()).unwrap_or_default();
    if !(behind.starts_with(b"\r\n") || behind.starts_with(b"\n"))
        || !target.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(Refusal::new(400, "not a valid request line of HTTP/1.1"));
    }
    for (name, value) in &head.fields {
        // "A server MUST reject, with a response status code of 400 (Bad Request), any received
        // request message that contains whitespace between a header field name and colon" (RFC 9112
        // section 5.1)
        if head.text.get(name.end as usize) != Some(&b':') {
            return Err(Refusal::new(400, "whitespace before the colon of a header field"));
        }
        if head.slice(value).iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n')) {
            return Err(Refusal::new(400, "a header field contains CR, LF or NUL"));
        }
    }
    check_framing(head)?;
    let mut hosts = head.fields.iter().filter(|(name, _)| head.slice(name).eq_ignore_ascii_case(b"host"));
    match (hosts.next(), hosts.next()) {
        (Some((_, value)), None) => Ok(Some(value.clone())),
        (None, _) if head.version == "1.0" => Ok(None),
        // "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request
        // message that lacks a Host header field and to any … that contains more than one"
        // (RFC 9112 section 3.2)
        _ => Err(Refusal::new(400, "exactly one Host field is required")),
    }
}

/// Checks that the body's length is given exactly once (RFC 9112 sections 6.3 and 11.2). Otherwise
/// two parsers could disagree about where the request ends (request smuggling).
fn check_framing(head: &Head) -> Result<(), Refusal> {
    let (mut codings, mut lengths) = (head.values("transfer-encoding"), head.values("content-length"));
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) => Err(Refusal::new(400, "both Transfer-Encoding and Content-Length")),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() => {
            if head.version == "1.1" { Ok(()) } else { Err(Refusal::new(400, "Transfer-Encoding in HTTP/1.0")) }
        }
        // "A server that receives a request message with a transfer coding it does not understand
        // SHOULD respond with 501" (section 6.1)
        (Some(_), None) => Err(Refusal::new(501, "only the transfer coding chunked is supported")),
        (None, Some(length))
            if !length.is_empty() && length.iter().all(u8::is_ascii_digit) && lengths.next().is_none() =>
        {
            Ok(())
        }
        (None, Some(_)) => Err(Refusal::new(400, "Content-Length is not a number, or is given more than once")),
    }
}

/// The method and the target of a request.
fn request_line(head: &Head) -> (&str, &str) {
    match &head.start {
        StartLine::Request { method, target } => (method, target),
        StartLine::Response { .. } => ("", ""),
    }
}

/// A complete request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    head: Box<Head>,
    /// The content without framing.
    pub body: Vec<u8>,
}

impl Request {
    /// The method of the request.
    pub fn method(&self) -> &str {
        request_line(&self.head).0
    }

    /// The request target as sent.
    pub fn target(&self) -> &str {
        request_line(&self.head).1
    }

    /// Whether it is HTTP/1.1. Only that version has chunked bodies.
    pub fn is_1_1(&self) -> bool {
        self.head.version == "1.1"
    }

    /// The first value of a header field. A value that is not UTF-8 becomes "\u{fffd}", so that no
    /// check treats the field as absent.
    pub fn field(&self, name: &str) -> Option<&str> {
        let value = self.head.fields().find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))?.1;
        Some(std::str::from_utf8(value).unwrap_or("\u{fffd}"))
    }

    /// Whether the client wants to reuse the connection.
    pub fn keeps_alive(&self) -> bool {
        message_reader::keeps_alive(&self.head)
    }
}

/// Parses the requests of one connection.
#[derive(Debug)]
pub struct Requests {
    /// Bytes that are not parsed yet.
    unparsed: Vec<u8>,
    /// Reads the current request.
    reader: MessageReader,
    head: Option<Box<Head>>,
    body: Vec<u8>,
    /// Whether the client waits for "100 Continue" before it sends the body.
    expects_continue: bool,
}

impl Default for Requests {
    fn default() -> Requests {
        let reader = MessageReader::new(Direction::ClientToServer);
        Requests { unparsed: Vec::new(), reader, head: None, body: Vec::new(), expects_continue: false }
    }
}

impl Requests {
    /// Adds bytes from the client.
    pub fn push(&mut self, bytes: &[u8]) {
        self.unparsed.extend_from_slice(bytes);
    }

    /// The next request, once it is complete.
    ///
    /// # Errors
    /// The request is refused. Nothing after it can be read.
    pub fn take(&mut self) -> Result<Option<Request>, Refusal> {
        if self.unparsed.is_empty() {
            return Ok(None);
        }
        let mut piece = mem::take(&mut self.unparsed);
        for part in self.reader.push(&piece) {
            match part {
                Part::Head(mut head) => {
                    check(&head)?;
                    // The offset depends on how the stream was cut, so it must not be part of the
                    // request.
                    head.offset = 0;
                    let length = head.value("content-length").map_or(Ok(0), str::parse);
                    if !length.is_ok_and(|length: usize| length <= BODY) {
                        return Err(Refusal::new(413, "the body is too long"));
                    }
                    self.expects_continue =
                        head.value("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue"));
                    self.head = Some(head);
                }
                Part::Content(bytes) => {
                    self.expects_continue = false;
                    self.body.extend(bytes);
                    if self.body.len() > BODY {
                        return Err(Refusal::new(413, "the body is too long"));
                    }
                }
                // "a recipient MAY recognize a single LF as a line terminator" (RFC 9112 section
                // 2.2). People who type requests by hand send that.
                Part::Anomaly(Anomaly::BareLineFeed { .. }) => {}
                Part::Anomaly(anomaly) => return Err(Refusal::of(&anomaly)),
                Part::End(end) => {
                    end.map_err(|why| Refusal::new(400, why))?;
                    let unparsed = piece.split_off(piece.len() - self.reader.bytes_after());
                    let Requests { head, body, .. } = mem::replace(self, Requests { unparsed, ..Requests::default() });
                    return Ok(head.map(|head| Request { head, body }));
                }
            }
        }
        Ok(None)
    }

    /// Whether a part of a request has arrived.
    pub fn is_begun(&self) -> bool {
        !self.unparsed.is_empty() || self.reader.is_begun()
    }

    /// Whether the client waits for "100 Continue". Returns true at most once per request.
    pub fn awaits_continue(&mut self) -> bool {
        mem::take(&mut self.expects_continue)
    }
}

/// Parses a stream in pieces of at most `size` bytes. Returns its requests and the refusal
/// that ended it.
fn read(bytes: &[u8], size: usize) -> (Vec<Request>, Option<Refusal>) {
    let (mut requests, mut found) = (Requests::default(), Vec::new());
    for piece in bytes.chunks(size) {
        requests.push(piece);
        loop {
            match requests.take() {
                Ok(Some(request)) => found.push(request),
                Ok(None) => break,
                Err(refusal) => return (found, Some(refusal)),
            }
        }
    }
    (found, None)
}

/// Body of the fuzz target for the parser of requests: any bytes, whole and in pieces.
///
/// It asserts that cutting changes nothing, that each request parses alone as it does in the
/// stream, that bodies stay within their limit, and that refusals have an error status.
///
/// # Panics
///
/// One of these assertions fails.
pub fn fuzz_requests(data: &[u8]) {
    let (requests, refusal) = read(data, data.len().max(1));
    for request in &requests {
        let (before, behind) = match (request.field("transfer-encoding"), request.body.len()) {
            (None, _) => (String::new(), ""),
            (Some(_), 0) => (String::new(), "0\r\n\r\n"),
            (Some(_), length) => (format!("{length:x}\r\n"), "\r\n0\r\n\r\n"),
        };
        let alone = [&request.head.text, before.as_bytes(), &request.body, behind.as_bytes()].concat();
        assert_eq!(read(&alone, alone.len()), (vec![request.clone()], None), "alone");
        assert!(request.body.len() <= BODY);
    }
    assert!(refusal.iter().all(|refusal| (400..600).contains(&refusal.status)));
    for size in [1, 7] {
        assert_eq!(read(data, size), (requests.clone(), refusal.clone()), "in pieces of {size}");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TWO: &[u8] = b"\r\nPOST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}\
        POST /mcp HTTP/1.1\nHOST:  b \nTransfer-Encoding: chunked\nExpect: 100-continue\n\n3;x=y\r\nabc\r\n0\r\nt: 1\r\n\r\n\
        GET /x HTTP/1.0\r\nUpgrade: h2c\r\n\r\n\r\nDELETE / HTTP/1.1\r\nhost: c\r\n\r\n";

    #[test]
    fn requests_are_read_whole_and_in_pieces() {
        let (whole, refusal) = read(TWO, TWO.len());
        assert_eq!(refusal, None);
        let bodies: Vec<_> = whole.iter().map(|request| request.body.as_slice()).collect();
        assert_eq!(bodies, [&b"{}"[..], b"abc", b"", b""]);
        for size in 1..TWO.len() {
            assert_eq!(read(TWO, size), (whole.clone(), None), "{size}");
        }
        for cut in 0..TWO.len() {
            assert!(whole.starts_with(&read(&TWO[..cut], 7).0), "{cut}");
        }
    }

    #[test]
    fn awaits_continue_is_true_once() {
        let mut requests = Requests::default();
        requests.push(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n");
        assert!(requests.take().unwrap().is_none());
        assert!(requests.awaits_continue() && !requests.awaits_continue());
        requests.push(b"{}GET");
        let request = requests.take().unwrap().unwrap();
        assert_eq!((request.method(), request.target(), request.field("HOST")), ("POST", "/", Some("a")));
        assert!(requests.is_begun() && !requests.awaits_continue());
    }

    #[test]
    fn malformed_requests_have_a_status() {
        let status = |head: &str| read(format!("{head}\r\n\r\n").as_bytes(), 64).1.map_or(0, |refusal| refusal.status);
        for (head, wanted) in [
            ("nonsense", 400),
            ("GET  / HTTP/1.1\r\nHost: a", 400),
            ("GET / HTTP/2.0\r\nHost: a", 400),
            ("GET / HTTP/1.1", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400),
            ("GET / HTTP/1.1\r\nHost : a", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nnonsense", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked", 501),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999", 413),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 33554433", 413),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+1", 400),
            ("GET / HTTP/1.0", 0),
        ] {
            assert_eq!(status(head), wanted, "{head}");
        }
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(65 << 10))), 431);
    }

    #[test]
    fn a_chunked_body_is_limited() {
        let mut requests = Requests::default();
        requests.push(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
        let refused = (0..64).find_map(|count| {
            requests.push(&chunk);
            requests.take().err().map(|refusal| (count, refusal.status))
        });
        assert_eq!(refused, Some((BODY >> 20, 413)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            fuzz_requests(&bytes);
        }

        #[test]
        fn changed_requests_are_read_within_bounds(cut in 0..TWO.len(), byte in any::<u8>()) {
            let mut bytes = TWO.to_vec();
            bytes[cut] = byte;
            fuzz_requests(&bytes);
        }
    }
}
