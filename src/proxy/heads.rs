//! What becomes of heads on their way: which requests are passed on, and the names of places that change.
//!
//! Each side sees the other where it believes it to be: the server is asked by its own name (`Host`), and a redirect to the server leads to the proxy
//! (`Location`).

use std::ops::Range;

use crate::decode::http::{Head, StartLine};
use crate::decode::{Anomaly, uri};
use crate::listen::is_own_name;
use crate::replay::transport::http::Origin;

/// Why a request is not passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) why: String,
}

impl Refusal {
    fn new(status: u16, why: impl Into<String>) -> Refusal {
        Refusal { status, why: why.into() }
    }

    /// For what the decoder could not read without a guess.
    pub(super) fn of(anomaly: &Anomaly) -> Refusal {
        match anomaly {
            Anomaly::LimitReached { .. } => Refusal::new(431, "the head is too long"),
            Anomaly::AmbiguousFraming { why, .. } => Refusal::new(400, *why),
            Anomaly::BareLineFeed { .. } => Refusal::new(400, "a line ends in a line feed alone"),
            Anomaly::FoldedHeader { .. } => Refusal::new(400, "a header field goes on in the next line"),
            Anomaly::NotHttp { expected, .. } => Refusal::new(400, format!("no {expected} of HTTP/1.1")),
            _ => Refusal::new(400, "this is no HTTP/1.1"),
        }
    }
}

/// The server, and who the proxy is.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) server: Origin,
    /// Names by which clients may call the proxy, besides `localhost` and addresses.
    pub(super) names: Vec<String>,
}

impl Places {
    /// The head of a request as the server is to have it, and the `Host` that it had.
    ///
    /// # Errors
    /// It may not be passed on.
    pub(super) fn request(&self, head: &Head) -> Result<(Vec<u8>, Option<String>), Refusal> {
        check_start(head)?;
        for (name, value) in &head.fields {
            // "A server MUST reject, with a response status code of 400 (Bad Request), any received request message that contains whitespace between
            // a header field name and colon" (RFC 9112 section 5.1)
            if head.text.get(name.end as usize) != Some(&b':') {
                return Err(Refusal::new(400, "a blank before the colon of a header field"));
            }
            if head.slice(value).iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n')) {
                return Err(Refusal::new(400, "a header field holds what ends lines or texts"));
            }
        }
        check_framing(head)?;
        let is_host = |name: &Range<u32>| head.slice(name).eq_ignore_ascii_case(b"host");
        let mut hosts = head.fields.iter().filter(|(name, _)| is_host(name));
        match (hosts.next(), hosts.next()) {
            (Some((_, value)), None) => {
                let host = String::from_utf8_lossy(head.slice(value)).into_owned();
                if !is_own_name(&host, &self.names) {
                    let name = uri::host_name(&host);
                    let why = format!("this proxy does not go by the name {name:?}: --allow-host NAME lets it");
                    return Err(Refusal::new(421, why));
                }
                Ok((replaced(head, value, &self.server.authority), Some(host)))
            }
            (None, _) if head.version == "1.0" => Ok((self.with_host(head), None)),
            // "A server MUST respond with a 400 (Bad Request) status code to any HTTP/1.1 request message that lacks a Host header field and to
            // any request message that contains more than one Host header field line" (RFC 9112 section 3.2)
            _ => Err(Refusal::new(400, "one Host field is needed")),
        }
    }

    /// HTTP/1.0 knows no `Host`; servers want one.
    fn with_host(&self, head: &Head) -> Vec<u8> {
        let line = memchr::memchr(b'\n', &head.text).map_or(0, |end| end + 1);
        let (start, rest) = head.text.split_at(line);
        [start, format!("Host: {}\r\n", self.server.authority).as_bytes(), rest].concat()
    }

    /// What becomes of the place to which a response redirects.
    pub(super) fn redirect(&self, head: &Head, host: &str) -> Redirect {
        let StartLine::Response { status: 201 | 300..=399, .. } = head.start else { return Redirect::None };
        let location = head.fields.iter().find(|(name, _)| head.slice(name).eq_ignore_ascii_case(b"location"));
        let Some((_, value)) = location else { return Redirect::None };
        let Ok(place) = std::str::from_utf8(head.slice(value)) else { return Redirect::None };
        match self.renamed(place, host) {
            Some(here) => Redirect::Here(replaced(head, value, &here)),
            None if Origin::of(place).is_some() => Redirect::Away(place.to_owned()),
            None => Redirect::None,
        }
    }

    /// A URL at the server, as one at the proxy that was called `host`; `None` for all else.
    pub(super) fn renamed(&self, url: &str, host: &str) -> Option<String> {
        let (server, origin) = (&self.server, Origin::of(url)?);
        let is_server = (origin.is_https, origin.port) == (server.is_https, server.port)
            && origin.host.eq_ignore_ascii_case(&server.host);
        let (_, rest) = uri::split_scheme(url).filter(|_| is_server)?;
        let path = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
        Some(format!("http://{host}{path}"))
    }
}

/// Where a response leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Nowhere else.
    None,
    /// To the server: the head that leads to the proxy in its place.
    Here(Vec<u8>),
    /// To this place, past the proxy.
    Away(String),
}

/// The text of a head with another value in place of this one.
fn replaced(head: &Head, value: &Range<u32>, by: &str) -> Vec<u8> {
    [&head.text[..value.start as usize], by.as_bytes(), &head.text[value.end as usize..]].concat()
}

/// The decoder reads start lines leniently. What is passed on has to mean the same to everybody.
fn check_start(head: &Head) -> Result<(), Refusal> {
    let StartLine::Request { method, target } = &head.start else {
        return Err(Refusal::new(400, "no request line of HTTP/1.1"));
    };
    let line = format!("{method} {target} HTTP/{}\r\n", head.version);
    if !head.text.starts_with(line.as_bytes()) || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Refusal::new(400, "no request line of HTTP/1.1"));
    }
    // The forms for proxies that a client chooses for itself (RFC 9112 section 3.2) name a server of their own.
    if target.starts_with('/') || target == "*" {
        Ok(())
    } else {
        Err(Refusal::new(400, "this stands for one server, and takes no requests for others: a target begins with /"))
    }
}

/// How long the body is must be said once, so that nobody can read it otherwise (RFC 9112 sections 6.3 and 11.2).
fn check_framing(head: &Head) -> Result<(), Refusal> {
    let (mut codings, mut lengths) = (head.values("transfer-encoding"), head.values("content-length"));
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(()),
        (Some(_), Some(_)) => Err(Refusal::new(400, "both Transfer-Encoding and Content-Length")),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() => {
            if head.version == "1.1" { Ok(()) } else { Err(Refusal::new(400, "Transfer-Encoding in HTTP/1.0")) }
        }
        // "A server that receives a request message with a transfer coding it does not understand SHOULD respond with 501" (section 6.1)
        (Some(_), None) => Err(Refusal::new(501, "only the transfer coding chunked is known")),
        (None, Some(length)) if length.iter().all(u8::is_ascii_digit) && lengths.next().is_none() => Ok(()),
        (None, Some(_)) => Err(Refusal::new(400, "Content-Length is no number, or said more than once")),
    }
}
