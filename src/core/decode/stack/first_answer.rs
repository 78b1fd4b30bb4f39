//! The first bytes with which a server answers. They show that one side speaks TLS and the other
//! does not.
//!
//! | the client begins with | such an answer |
//! |---|---|
//! | a ClientHello | HTTP/1, or a page of HTML without a head (HTTP/0.9) |
//! | a request of HTTP/1 | a TLS alert, or status 400 with a text about https |
//!
//! A server may also close the connection without an answer. Then nothing is certain.

use std::net::SocketAddr;

use memchr::memmem;

use crate::capture::PacketNumber;
use crate::decode::Anomaly;

/// The bytes with which all decisions can be made, except for the text about https.
const HEAD: usize = 16;

/// The bytes that are searched for the text about https. Responses of common servers have 600.
const SEARCHED: usize = 1 << 10;

/// Texts of servers that expect TLS: of nginx, of Go and of Apache.
const TEXTS: [&[u8]; 3] = [
    b"HTTP request was sent to HTTPS port",
    b"sent an HTTP request to an HTTPS server",
    b"speaking plain HTTP to an SSL-enabled server port",
];

/// The protocol with which a client begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// HTTP/1 without TLS.
    Http,
    /// TLS, with a ClientHello.
    Tls,
}

/// The first bytes of a server.
#[derive(Debug)]
pub(super) struct FirstAnswer {
    opening: Opening,
    /// Offset of the first byte in the stream of the server.
    pub(super) offset: u64,
    /// The packets that carried the first byte.
    pub(super) packets: Vec<PacketNumber>,
    bytes: Vec<u8>,
}

impl FirstAnswer {
    /// An answer to a client that begins with this protocol. It begins at `offset`.
    pub(super) fn new(opening: Opening, offset: u64) -> FirstAnswer {
        FirstAnswer { opening, offset, packets: Vec::new(), bytes: Vec::new() }
    }

    /// Whether no byte was added so far.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds the next bytes. Returns whether the answer can still show a difference.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        // Only of a refusal more bytes are stored, and the first ones show whether it is one.
        let mut rest = bytes;
        for most in [HEAD, SEARCHED] {
            if most == HEAD || self.is_refusal() {
                let (taken, behind) = rest.split_at(rest.len().min(most.saturating_sub(self.bytes.len())));
                self.bytes.extend_from_slice(taken);
                rest = behind;
            }
        }
        self.bytes.len() < HEAD || self.is_refusal() || self.shows_difference() || self.is_no_http()
    }

    /// Whether the answer to a request of HTTP begins like a TLS alert. No HTTP does.
    pub(super) fn is_no_http(&self) -> bool {
        self.opening == Opening::Http && self.bytes.first() == Some(&21)
    }

    fn is_refusal(&self) -> bool {
        self.opening == Opening::Http && self.status() == Some(400)
    }

    /// The status, if the answer is HTTP/1.
    fn status(&self) -> Option<u16> {
        let rest = self.bytes.strip_prefix(b"HTTP/1.")?;
        std::str::from_utf8(rest.get(2..5)?).ok()?.parse().ok()
    }

    /// Whether the answer is a TLS record with an alert that is not encrypted.
    fn is_alert(&self) -> bool {
        matches!(self.bytes[..], [21, 3, 0..=4, 0, 2, 1 | 2, ..])
    }

    /// Whether the answer is a page of HTML without a head.
    fn is_html(&self) -> bool {
        let begins = |tag: &[u8]| self.bytes.get(..tag.len()).is_some_and(|bytes| bytes.eq_ignore_ascii_case(tag));
        begins(b"<!doctype html") || begins(b"<html")
    }

    fn shows_difference(&self) -> bool {
        match self.opening {
            Opening::Tls => self.status().is_some() || self.is_html(),
            Opening::Http => {
                let names_https = || TEXTS.iter().any(|text| memmem::find(&self.bytes, text).is_some());
                self.is_alert() || self.is_refusal() && names_https()
            }
        }
    }

    /// The anomaly that the answer of `server` shows, if any.
    pub(super) fn anomaly(&self, server: SocketAddr) -> Option<Anomaly> {
        let offset = self.offset;
        match self.opening {
            Opening::Tls if self.shows_difference() => {
                Some(Anomaly::TlsToClearServer { offset, server, status: self.status() })
            }
            Opening::Http if self.shows_difference() => {
                Some(Anomaly::ClearToTlsServer { offset, server, status: self.status() })
            }
            _ => self.is_no_http().then_some(Anomaly::NotHttp { offset, expected: "status line" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status that each opening shows for this answer, if it shows a difference. Every cut of
    /// the answer gives the same.
    fn shown(answer: &[u8]) -> [Option<Option<u16>>; 2] {
        let server = SocketAddr::from(([10, 0, 0, 2], 80));
        [Opening::Http, Opening::Tls].map(|opening| {
            let run = |size: usize| {
                let mut first = FirstAnswer::new(opening, 7);
                let goes_on = answer.chunks(size).all(|bytes| first.push(bytes));
                goes_on.then(|| first.anomaly(server)).flatten()
            };
            let whole = run(answer.len());
            (1..40).for_each(|size| assert_eq!(run(size), whole, "{opening:?} in pieces of {size}"));
            whole.filter(|anomaly| !matches!(anomaly, Anomaly::NotHttp { .. })).map(|anomaly| match anomaly {
                Anomaly::TlsToClearServer { offset: 7, status, .. } => status,
                Anomaly::ClearToTlsServer { offset: 7, status, .. } => status,
                other => panic!("{other:?}"),
            })
        })
    }

    #[test]
    fn answers_in_the_other_protocol_are_recognised() {
        let refusal = |text: &str| format!("HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n{text}");
        let hint = refusal("<title>400 The plain HTTP request was sent to HTTPS port</title>");
        for (answer, by_http, by_tls) in [
            (&b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"[..], None, Some(Some(400))),
            (b"HTTP/1.1 200 OK\r\n\r\nwas sent to HTTPS port", None, Some(Some(200))),
            (hint.as_bytes(), Some(Some(400)), Some(Some(400))),
            (b"<!DOCTYPE HTML>\n<html lang=\"en\">", None, Some(None)),
            (b"<HTML>", None, Some(None)),
            (b"<xml>", None, None),
            (b"\x15\x03\x03\0\x02\x02\x0a", Some(None), None),
            (b"\x15\x03\x03\0\x1a\0\0\0\0\0\0\0\0", None, None),
            (b"\x16\x03\x03\0\x7a\x02\0\0\x76\x03\x03", None, None),
            (b"SSH-2.0-OpenSSH_9.2p1", None, None),
            (b"HTTP/1.", None, None),
        ] {
            assert_eq!(shown(answer), [by_http, by_tls], "{:?}", String::from_utf8_lossy(answer));
        }
    }

    #[test]
    fn little_of_an_answer_is_stored() {
        let mut first = FirstAnswer::new(Opening::Http, 0);
        assert!(first.push(b"HTTP/1.1 400 Bad Request\r\n"));
        (0..100).for_each(|_| assert!(first.push(&[b'x'; 1_000])));
        assert_eq!(first.bytes.len(), SEARCHED);
        let mut first = FirstAnswer::new(Opening::Http, 0);
        assert!(!first.push(&[b"HTTP/1.1 200 OK\r\n", &[b'x'; 1_000][..]].concat()));
        assert_eq!(first.bytes.len(), HEAD);
    }
}
