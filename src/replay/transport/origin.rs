//! Where a server may send us: to places at its own origin (RFC 6454 section 4: scheme, host and port).
//!
//! Header fields, tokens and session ids were given for one server. Whoever controls what it answers must not draw them to another: an address
//! elsewhere is refused and named, so that a person who trusts it can give it.

use ureq::Body;
use ureq::http::Response;
use ureq::http::header::LOCATION;

use crate::decode::uri;

/// Redirects that are followed for one request.
const REDIRECTS: u32 = 3;

/// A response, and where it came from.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) response: Response<Body>,
    /// The URL that answered.
    pub(super) at: String,
    /// Where later requests go at once: to where the URL moved for good. "The target resource has been assigned a new permanent URI and any future
    /// references to this resource ought to use" it (RFC 9110 section 15.4.2 of 301, 15.4.9 of 308); all others say where it is for now.
    pub(super) settled: String,
}

/// Sends a request to a URL, and to the places at its origin to which it is redirected.
///
/// "If the 307 status code is received …, the user agent MUST NOT change the request method" (RFC 9110 section 15.4.8; 15.4.9 for 308). After 301, 302
/// and 303 a POST would become a GET, which is no message: those are followed only where it `is_get`.
pub(super) fn redirected<E>(
    url: &str,
    is_get: bool,
    send: impl Fn(&str) -> Result<Response<Body>, E>,
) -> Result<Reached, Redirected<E>> {
    let (mut target, mut settled) = (url.to_owned(), url.to_owned());
    let mut is_permanent = true;
    for _ in 0..=REDIRECTS {
        let response = send(&target).map_err(Redirected::Failed)?;
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let Some(location) = location.filter(|_| matches!(status, 301..=303 | 307 | 308)) else {
            return Ok(Reached { response, at: target, settled });
        };
        let next = resolve(&target, location);
        match next {
            Some(next) if is_get || matches!(status, 307 | 308) => {
                is_permanent &= matches!(status, 301 | 308);
                if is_permanent {
                    settled.clone_from(&next);
                }
                target = next;
            }
            Some(next) => {
                return Err(Redirected::Refused(format!("HTTP {status}: it moved to {next}: replay to that")));
            }
            None => {
                return Err(Redirected::Refused(format!(
                    "HTTP {status}: it points to another origin, {location:?}, where nothing is sent unasked: replay to that if it is trusted"
                )));
            }
        }
    }
    Err(Redirected::Refused(format!("redirected more than {REDIRECTS} times, the last time to {target}")))
}

/// Why a request got no response.
#[derive(Debug)]
pub(super) enum Redirected<E> {
    /// It could not be sent.
    Failed(E),
    /// It was redirected to where it is not sent.
    Refused(String),
}

/// The address that a reference names, relative to a URL; `None` at another origin.
pub(super) fn resolve(url: &str, reference: &str) -> Option<String> {
    let (origin, base) = url.split_at(origin_end(url));
    match reference {
        absolute if uri::split_scheme(absolute).is_some() => {
            let same = absolute[..origin_end(absolute)].eq_ignore_ascii_case(origin);
            same.then(|| absolute.to_owned())
        }
        // "//host/path" has a host of its own (RFC 3986 section 4.2).
        elsewhere if elsewhere.starts_with("//") => None,
        here => Some(format!("{origin}{}", uri::resolved(base, here))),
    }
}

/// Behind the scheme, host and port of a URL.
fn origin_end(url: &str) -> usize {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_for_good_is_gone_to_at_once() {
        let hops = [("/a", 308, "/b"), ("/b", 307, "/c"), ("/c", 308, "/d")];
        let send = |url: &str| {
            let hop = hops.iter().find(|(from, ..)| url.ends_with(from));
            let (status, to) = hop.map_or((200, ""), |(_, status, to)| (*status, *to));
            let response = Response::builder().status(status).header(LOCATION, to);
            Ok::<_, ()>(response.body(Body::builder().data("")).expect("a response"))
        };
        let reached = redirected("http://x/a", false, send).expect("it is reached");
        assert_eq!((&*reached.at, &*reached.settled), ("http://x/d", "http://x/b"));
        let reached = redirected("http://x/b", false, send).expect("it is reached");
        assert_eq!((&*reached.at, &*reached.settled), ("http://x/d", "http://x/b"));
    }

    #[test]
    fn an_address_is_relative_to_the_url_and_stays_at_its_origin() {
        let url = "http://a:8/x/sse?y=1";
        let at = resolve;
        assert_eq!(at(url, "/messages?s=1").as_deref(), Some("http://a:8/messages?s=1"));
        assert_eq!(at(url, "/go?to=http://b/").as_deref(), Some("http://a:8/go?to=http://b/"));
        assert_eq!(at(url, "messages?s=1").as_deref(), Some("http://a:8/x/messages?s=1"));
        assert_eq!(at(url, "go?to=http://b/").as_deref(), Some("http://a:8/x/go?to=http://b/"));
        assert_eq!(at("http://a:8", "messages").as_deref(), Some("http://a:8/messages"));
        assert_eq!(at("http://a:8", "@b/m").as_deref(), Some("http://a:8/@b/m"));
        assert_eq!(at(url, "../messages").as_deref(), Some("http://a:8/messages"));
        assert_eq!(at(url, "?s=1").as_deref(), Some("http://a:8/x/sse?s=1"));
        assert_eq!(at(url, "HTTP://A:8/m").as_deref(), Some("HTTP://A:8/m"));
        let others = [
            "https://a:8/m",
            "http://b:8/m",
            "http://a:80/m",
            "http://a:8@b/m",
            "http://b?://a:8/",
            "//b/m",
            "//a:8/m",
        ];
        for elsewhere in others {
            assert_eq!(at(url, elsewhere), None, "{elsewhere}");
        }
    }
}
