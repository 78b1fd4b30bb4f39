//! Decides which requests are forwarded, and changes the addresses in heads.
//!
//! Each side sees its peer under the expected address: `Host` contains the server's own name, and a
//! redirect to the server leads to the proxy (`Location`).

use std::ops::Range;

use crate::decode::http::{Head, StartLine};
use crate::decode::uri;
use crate::http::listen::is_own_name;
use crate::http::origin::Origin;
use crate::http::requests::{self, Refusal};

/// Rewrites heads between the server and the names of the proxy.
#[derive(Clone, Debug)]
pub(super) struct HeadRewriter {
    pub(super) server: Origin,
    /// Names for the proxy that clients may use, besides `localhost` and IP addresses.
    pub(super) names: Vec<String>,
}

impl HeadRewriter {
    /// The head of a request as the server gets it, and the value that its `Host` field had.
    ///
    /// # Errors
    /// The request must not be forwarded.
    pub(super) fn request(&self, head: &Head) -> Result<(Vec<u8>, Option<String>), Refusal> {
        let host = requests::check(head)?;
        check_target(head)?;
        let Some(value) = host else { return Ok((self.with_host(head), None)) };
        let host = String::from_utf8_lossy(head.slice(&value)).into_owned();
        if !is_own_name(&host, &self.names) {
            let name = uri::host_name(&host);
            let why =
                format!("{name:?} is not a name of this proxy; start it with --allow-host NAME to allow the name");
            return Err(Refusal::new(421, why));
        }
        Ok((replaced(head, &value, &self.server.authority), Some(host)))
    }

    /// HTTP/1.0 has no `Host` field, but servers expect one.
    fn with_host(&self, head: &Head) -> Vec<u8> {
        let line = memchr::memchr(b'\n', &head.text).map_or(0, |end| end + 1);
        let (start, rest) = head.text.split_at(line);
        [start, format!("Host: {}\r\n", self.server.authority).as_bytes(), rest].concat()
    }

    /// The effect of the redirect in a response, if it is one.
    pub(super) fn redirect(&self, head: &Head, host: &str) -> Redirect {
        let StartLine::Response { status: 201 | 300..=399, .. } = head.start else { return Redirect::None };
        let location = head.fields.iter().find(|(name, _)| head.slice(name).eq_ignore_ascii_case(b"location"));
        let Some((_, value)) = location else { return Redirect::None };
        let Ok(url) = std::str::from_utf8(head.slice(value)) else { return Redirect::None };
        match self.renamed(url, host) {
            Some(here) => Redirect::Here(replaced(head, value, &here)),
            None if Origin::of(url).is_some() => Redirect::Away(url.to_owned()),
            None => Redirect::None,
        }
    }

    /// Replaces the origin of a URL at the server by the proxy's, under the name `host`. `None`
    /// for other URLs.
    pub(super) fn renamed(&self, url: &str, host: &str) -> Option<String> {
        let (server, origin) = (&self.server, Origin::of(url)?);
        let is_server = (origin.is_https, origin.port) == (server.is_https, server.port)
            && origin.host.eq_ignore_ascii_case(&server.host);
        let (_, rest) = uri::split_scheme(url).filter(|_| is_server)?;
        let path = rest.find(['/', '?', '#']).map_or("", |at| &rest[at..]);
        Some(format!("http://{host}{path}"))
    }
}

/// The target of a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// The response is no redirect, or its `Location` can stay as it is.
    None,
    /// The server itself. This is the head with the proxy's address instead.
    Here(Vec<u8>),
    /// Another origin, past the proxy, at this URL.
    Away(String),
}

/// The text of a head in which one value is replaced.
fn replaced(head: &Head, value: &Range<u32>, by: &str) -> Vec<u8> {
    [&head.text[..value.start as usize], by.as_bytes(), &head.text[value.end as usize..]].concat()
}

/// A full URL or an authority as the target is meant for proxies that the client chose (RFC 9112
/// section 3.2). It could name another server, so it is refused.
fn check_target(head: &Head) -> Result<(), Refusal> {
    match &head.start {
        StartLine::Request { target, .. } if target.starts_with('/') || target == "*" => Ok(()),
        _ => Err(Refusal::new(400, "this proxy forwards to one server only; the request target must begin with /")),
    }
}
