//! Requests of HTTP/1.1 as a server has to read them: strictly, and within bounds (RFC 9112).

mod fuzz;

use std::io::{Read, Write};

pub use fuzz::fuzz_request;

/// Bytes of a head, and of the trailer section. Servers refuse between 8 and 64 KiB.
const HEAD: usize = 64 << 10;

/// Bytes of a body: arguments with a picture have a few megabytes.
const BODY: usize = 32 << 20;

/// Bytes read at once.
const PIECE: usize = 16 << 10;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// The target as sent.
    pub(super) target: String,
    /// Whether it is HTTP/1.1, which knows chunks.
    pub(super) is_1_1: bool,
    /// Names in lower case, values without blanks around them.
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// The first value of this field, whose name is in lower case.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the client keeps the connection for more (RFC 9112 section 9.3).
    pub(super) fn keeps_alive(&self) -> bool {
        let says = |what: &str| {
            let values = self.fields.iter().filter(|(name, _)| name == "connection").map(|(_, value)| value);
            values.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case(what))
        };
        if self.is_1_1 { !says("close") } else { says("keep-alive") }
    }
}

/// Why there is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It is answered with this status, and the connection closed: where the next request begins is not known.
    Refused(u16, &'static str),
    /// The client is gone, or was silent for too long.
    Gone,
}

/// Reads requests, one after the other.
#[derive(Debug)]
pub(super) struct Reader<S> {
    pub(super) stream: S,
    held: Vec<u8>,
    /// How much of it is read.
    at: usize,
}

impl<S: Read + Write> Reader<S> {
    pub(super) fn new(stream: S) -> Reader<S> {
        Reader { stream, held: Vec::new(), at: 0 }
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Result<Request, Failure> {
        self.held.drain(..self.at);
        self.at = 0;
        let mut left = HEAD;
        let mut start = self.line(&mut left)?;
        // "a server that is expecting to receive and parse a request-line SHOULD ignore at least one empty line (CRLF) received prior to
        // the request-line" (RFC 9112 section 2.2)
        if start.is_empty() {
            start = self.line(&mut left)?;
        }
        let (method, target, is_1_1) = request_line(&start)?;
        let mut fields = Vec::new();
        loop {
            let line = self.line(&mut left)?;
            if line.is_empty() {
                break;
            }
            fields.push(field(&line)?);
        }
        let mut request = Request { method, target, is_1_1, fields, body: Vec::new() };
        let hosts = request.fields.iter().filter(|(name, _)| name == "host").count();
        // "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that lacks a Host header field and to any
        // request message that contains more than one Host header field line" (RFC 9112 section 3.2)
        if hosts > 1 || (hosts == 0 && is_1_1) {
            return Err(Failure::Refused(400, "one Host field is needed"));
        }
        let framing = framing(&request)?;
        if !matches!(framing, Framing::Length(0))
            && request.field("expect").is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue"))
        {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(|_| Failure::Gone)?;
        }
        request.body = match framing {
            Framing::Length(length) => self.take(length)?,
            Framing::Chunks => self.chunks()?,
        };
        Ok(request)
    }

    /// Whether bytes of another request are there already.
    pub(super) fn has_more(&self) -> bool {
        self.at < self.held.len()
    }

    fn more(&mut self) -> Result<(), Failure> {
        let length = self.held.len();
        self.held.resize(length + PIECE, 0);
        let read = loop {
            match self.stream.read(&mut self.held[length..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let count = read.as_ref().copied().unwrap_or(0);
        self.held.truncate(length + count);
        if count == 0 { Err(Failure::Gone) } else { Ok(()) }
    }

    /// A line without its end. "a recipient MAY recognize a single LF as a line terminator" (RFC 9112 section 2.2).
    fn line(&mut self, left: &mut usize) -> Result<Vec<u8>, Failure> {
        let mut searched = self.at;
        let end = loop {
            if let Some(found) = memchr::memchr(b'\n', &self.held[searched..]) {
                break searched + found;
            }
            searched = self.held.len();
            if searched - self.at > *left {
                return Err(Failure::Refused(431, "the head is too long"));
            }
            self.more()?;
        };
        *left = left.checked_sub(end + 1 - self.at).ok_or(Failure::Refused(431, "the head is too long"))?;
        let line = &self.held[self.at..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.at = end + 1;
        Ok(line)
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, Failure> {
        while self.held.len() - self.at < length {
            self.more()?;
        }
        let bytes = self.held[self.at..self.at + length].to_vec();
        self.at += length;
        Ok(bytes)
    }

    /// A body in chunks (RFC 9112 section 7.1).
    fn chunks(&mut self) -> Result<Vec<u8>, Failure> {
        let bad = Failure::Refused(400, "the chunks of the body cannot be read");
        let mut body = Vec::new();
        loop {
            // What was read of them is let go of: extensions can be many times what they extend.
            if self.at > PIECE {
                self.held.drain(..self.at);
                self.at = 0;
            }
            let line = self.line(&mut { HEAD })?;
            let size = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let size = std::str::from_utf8(size).map_err(|_| bad)?;
            // A sign is no digit, though the standard library takes one.
            if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(bad);
            }
            let size = usize::from_str_radix(size, 16).unwrap_or(usize::MAX);
            if size > BODY - body.len() {
                return Err(Failure::Refused(413, "the body is too long"));
            }
            if size == 0 {
                break;
            }
            body.extend(self.take(size)?);
            if !self.line(&mut 2)?.is_empty() {
                return Err(bad);
            }
        }
        let mut left = HEAD;
        while !self.line(&mut left)?.is_empty() {}
        Ok(body)
    }
}

fn is_token(bytes: &[u8]) -> bool {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(is_inside)
}

fn request_line(line: &[u8]) -> Result<(String, String, bool), Failure> {
    let bad = Failure::Refused(400, "no request line of HTTP/1.1");
    let line = std::str::from_utf8(line).map_err(|_| bad)?;
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad);
    };
    if !is_token(method.as_bytes()) || target.is_empty() || target.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(bad);
    }
    match version.strip_prefix("HTTP/") {
        Some("1.1") => Ok((method.to_owned(), target.to_owned(), true)),
        Some("1.0") => Ok((method.to_owned(), target.to_owned(), false)),
        Some(_) => Err(Failure::Refused(505, "HTTP/1.1 is spoken here")),
        None => Err(bad),
    }
}

fn field(line: &[u8]) -> Result<(String, String), Failure> {
    // "No whitespace is allowed between the field name and colon. … A server MUST reject, with a response status code of 400 (Bad Request), any
    // received request message that contains whitespace between a header field name and colon" (RFC 9112 section 5.1); a line that begins
    // with a blank is the folding of section 5.2, which a server may refuse likewise.
    let bad = Failure::Refused(400, "a header field cannot be read");
    let colon = memchr::memchr(b':', line).ok_or(bad)?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if !is_token(name) || value.iter().any(|byte| matches!(byte, 0 | b'\r')) {
        return Err(bad);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(name).to_ascii_lowercase(), text(value)))
}

enum Framing {
    Length(usize),
    Chunks,
}

/// How long the body is (RFC 9112 section 6.3).
fn framing(request: &Request) -> Result<Framing, Failure> {
    let of = |name: &'static str| request.fields.iter().filter(move |(known, _)| known == name).map(|(_, value)| value);
    let codings: Vec<&String> = of("transfer-encoding").collect();
    let mut lengths = of("content-length");
    let length = lengths.next();
    match (codings.as_slice(), length) {
        ([], None) => Ok(Framing::Length(0)),
        ([coding], None) if coding.eq_ignore_ascii_case("chunked") && request.is_1_1 => Ok(Framing::Chunks),
        // "A server that receives a request message with a transfer coding it does not understand SHOULD respond with 501" (section 6.1)
        ([_, ..], None) => Err(Failure::Refused(501, "only the transfer coding chunked is known")),
        // "If a message is received with both … such a message might indicate an attempt to perform request smuggling … and ought to be
        // handled as an error" (section 6.3)
        ([_, ..], Some(_)) => Err(Failure::Refused(400, "the length of the body is said in two ways")),
        ([], Some(length)) => {
            if lengths.any(|other| other != length) || !length.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Failure::Refused(400, "Content-Length cannot be read"));
            }
            match length.parse::<usize>() {
                Ok(length) if length <= BODY => Ok(Framing::Length(length)),
                Err(_) if length.is_empty() => Err(Failure::Refused(400, "Content-Length cannot be read")),
                _ => Err(Failure::Refused(413, "the body is too long")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fuzz::read;
    use super::*;

    const TWO: &[u8] = b"\r\nPOST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}\
        POST /mcp HTTP/1.1\nHOST:  b \nTransfer-Encoding: chunked\nExpect: 100-continue\n\n3;x=y\r\nabc\r\n0\r\nt: 1\r\n\r\n";

    #[test]
    fn requests_are_read_whole_and_in_pieces() {
        let (whole, end) = read(TWO, TWO.len());
        assert_eq!(end, Failure::Gone);
        let said: Vec<_> = whole.iter().map(|request| (request.field("host"), &*request.body)).collect();
        assert_eq!(said, [(Some("a"), &b"{}"[..]), (Some("b"), b"abc")]);
        for piece in 1..TWO.len() {
            assert_eq!(read(TWO, piece), (whole.clone(), end), "{piece}");
        }
        for cut in 0..TWO.len() {
            assert!(whole.starts_with(&read(&TWO[..cut], 7).0), "{cut}");
        }
    }

    #[test]
    fn what_is_malformed_has_a_status() {
        let status = |head: &str| match read(format!("{head}\r\n\r\n").as_bytes(), 64).1 {
            Failure::Refused(status, _) => status,
            Failure::Gone => 0,
        };
        for (head, wanted) in [
            ("nonsense", 400),
            ("GET  / HTTP/1.1\r\nHost: a", 400),
            ("GET / HTTP/2.0\r\nHost: a", 505),
            ("GET / HTTP/1.1", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b", 400),
            ("GET / HTTP/1.1\r\nHost : a", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\n folded", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked", 501),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999", 413),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff", 413),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+1", 400),
            ("GET / HTTP/1.0", 0),
        ] {
            assert_eq!(status(head), wanted, "{head}");
        }
        assert_eq!(status(&"x".repeat(HEAD + 1)), 431);
    }

    /// A client that never comes to an end of its chunks, which have long extensions.
    struct Endless(usize);

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let text = match self.0 {
                0 => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(),
                1..1_000 => format!("1;{}\r\nx\r\n", "y".repeat(8_000)),
                _ => return Ok(0),
            };
            self.0 += 1;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    impl Write for Endless {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn extensions_of_chunks_are_not_held() {
        let mut reader = Reader::new(Endless(0));
        assert_eq!(reader.next(), Err(Failure::Gone));
        assert!(reader.held.len() < 4 * PIECE, "{}", reader.held.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_bounds(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            fuzz_request(&bytes);
        }

        #[test]
        fn what_is_nearly_a_request_too(cut in 0..TWO.len(), byte in any::<u8>()) {
            let mut bytes = TWO.to_vec();
            bytes[cut] = byte;
            fuzz_request(&bytes);
        }
    }
}
