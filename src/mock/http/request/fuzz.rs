//! The body of the fuzz target for requests as the mock server reads them.

use std::io::{self, Read, Write};

use super::{BODY, Failure, Reader, Request, is_token};

/// A client that sends these bytes, so many at a time, and is gone.
struct Client<'a>(&'a [u8], usize);

impl Read for Client<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All requests of a stream that comes in pieces of this size, and why there are no more.
pub(super) fn read(bytes: &[u8], piece: usize) -> (Vec<Request>, Failure) {
    let mut reader = Reader::new(Client(bytes, piece));
    let mut requests = Vec::new();
    loop {
        match reader.next() {
            Ok(request) => requests.push(request),
            Err(failure) => return (requests, failure),
        }
    }
}

/// Any bytes as the requests of a client, whole and cut.
///
/// Cutting changes nothing; a request has one host at most, names that are tokens and nothing in its lines that could end them; a refusal has a status
/// that says so.
///
/// # Panics
///
/// Where that is not so.
pub fn fuzz_request(data: &[u8]) {
    let (requests, end) = read(data, data.len().max(1));
    for request in &requests {
        assert!(is_token(request.method.as_bytes()) && !request.target.is_empty());
        assert!(!request.target.contains(|c: char| c.is_ascii_control() || c == ' '));
        assert!(request.fields.iter().filter(|(name, _)| name == "host").count() <= 1);
        for (name, value) in &request.fields {
            assert!(is_token(name.as_bytes()) && *name == name.to_ascii_lowercase());
            assert!(!value.contains(['\r', '\n', '\0']) && value.trim_ascii() == value);
        }
        assert!(request.body.len() <= BODY);
    }
    if let Failure::Refused(status, _) = end {
        assert!((400..600).contains(&status));
    }
    assert_eq!(read(data, 1), (requests.clone(), end), "byte by byte");
    assert_eq!(read(data, 7), (requests, end), "cut");
}
