//! Where a server may send us: to places at its own origin (RFC 6454 section 4: scheme, host and port).
//!
//! Header fields, tokens and session ids were given for one server. Whoever controls what it answers must not draw them to another: an address
//! elsewhere is refused and named, so that a person who trusts it can give it.

use crate::decode::uri;

/// Redirects that are followed for one request.
const REDIRECTS: u32 = 3;

/// Who answers at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether TLS is spoken.
    pub is_https: bool,
    /// Host and port as the URL has them: the `Host` field (RFC 9110 section 7.2).
    pub authority: String,
    /// The host alone.
    pub host: String,
    /// The port, also where the URL leaves it out.
    pub port: u16,
    /// What stands before the host: a name and a password.
    pub user: Option<String>,
}

impl Origin {
    /// That of a URL; `None` for what is none of HTTP.
    pub fn of(url: &str) -> Option<Origin> {
        let (scheme, rest) = uri::split_scheme(url)?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        let (_, authority) = uri::authority(url)?;
        let host = uri::host_name(authority);
        let user = rest.split(['/', '?', '#']).next()?.strip_suffix(authority)?.strip_suffix('@');
        let port = authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map(|(_, port)| port);
        let port = match port.filter(|port| !port.is_empty()) {
            Some(port) => port.parse().ok()?,
            None if is_https => 443,
            None => 80,
        };
        let is_http = is_https || scheme.eq_ignore_ascii_case("http");
        let is_host = !host.is_empty() && authority.bytes().all(|byte| byte.is_ascii_graphic());
        (is_http && is_host).then(|| Origin {
            is_https,
            authority: authority.to_owned(),
            host: host.to_owned(),
            port,
            user: user.map(str::to_owned),
        })
    }
}

/// Where a request goes: to a URL, and to the places at its origin to which it is redirected.
#[derive(Clone, Debug)]
pub struct Hops {
    /// Where it is sent.
    pub at: String,
    /// Where later requests go at once: to where the URL moved for good. "The target resource has been assigned a new permanent URI and any future
    /// references to this resource ought to use" it (RFC 9110 section 15.4.2 of 301, 15.4.9 of 308); all others say where it is for now.
    pub settled: Option<String>,
    is_permanent: bool,
    followed: u32,
}

impl Hops {
    /// A request to a URL.
    pub fn to(url: &str) -> Hops {
        Hops { at: url.to_owned(), settled: None, is_permanent: true, followed: 0 }
    }

    /// Goes where a response of this status and `Location` sends it.
    ///
    /// "If the 307 status code is received …, the user agent MUST NOT change the request method" (RFC 9110 section 15.4.8; 15.4.9 for 308). After 301, 302
    /// and 303 a POST would become a GET, which is no message: those are followed only where it `is_get`.
    ///
    /// # Errors
    /// The request is not sent there, for this reason.
    pub fn follow(&mut self, status: u16, location: &str, is_get: bool) -> Result<(), String> {
        let Some(next) = resolve(&self.at, location) else {
            return Err(format!(
                "HTTP {status}: it points to another origin, {location:?}, where nothing is sent unasked: replay to that if it is trusted"
            ));
        };
        if !is_get && !matches!(status, 307 | 308) {
            return Err(format!("HTTP {status}: it moved to {next}: replay to that"));
        }
        self.is_permanent &= matches!(status, 301 | 308);
        if self.is_permanent {
            self.settled = Some(next.clone());
        }
        self.at = next;
        self.followed += 1;
        if self.followed > REDIRECTS {
            return Err(format!("redirected more than {REDIRECTS} times, the last time to {}", self.at));
        }
        Ok(())
    }
}

/// Path and query of a URL as a request has them: what cannot stand in a request line is coded (RFC 3986 section 2.1), and a fragment stays here.
pub fn request_target(url: &str) -> String {
    let target = uri::origin_form(url).split('#').next().unwrap_or_default();
    let coded = |byte: u8| if byte.is_ascii_graphic() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    target.bytes().map(coded).collect()
}

/// The address that a reference names, relative to a URL; `None` at another origin.
pub fn resolve(url: &str, reference: &str) -> Option<String> {
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
        let table = [("/a", 308, "/b"), ("/b", 307, "/c"), ("/c", 308, "/d")];
        let reached = |url: &str| {
            let mut hops = Hops::to(url);
            while let Some((_, status, to)) = table.iter().find(|(from, ..)| hops.at.ends_with(from)) {
                hops.follow(*status, to, false).expect("it is followed");
            }
            (hops.at, hops.settled)
        };
        assert_eq!(reached("http://x/a"), ("http://x/d".to_owned(), Some("http://x/b".to_owned())));
        assert_eq!(reached("http://x/b"), ("http://x/d".to_owned(), None));
    }

    #[test]
    fn what_is_not_followed_says_why() {
        let follow = |status, to, is_get| Hops::to("http://x/a").follow(status, to, is_get);
        assert!(follow(302, "/b", true).is_ok());
        assert!(follow(302, "/b", false).is_err_and(|why| why.contains("moved to http://x/b")));
        assert!(follow(307, "http://y/b", false).is_err_and(|why| why.contains("another origin")));
        let mut hops = Hops::to("http://x/a");
        let around: Vec<bool> = (0..=REDIRECTS).map(|_| hops.follow(307, "/a", false).is_ok()).collect();
        assert_eq!(around, [true, true, true, false]);
    }

    #[test]
    fn a_url_says_whom_to_ask_and_what_for() {
        let of = |url: &str| {
            Origin::of(url).map(|origin| (origin.is_https, origin.authority, origin.host, origin.port, origin.user))
        };
        let known = |is_https, authority: &str, host: &str, port, user: Option<&str>| {
            Some((is_https, authority.to_owned(), host.to_owned(), port, user.map(str::to_owned)))
        };
        assert_eq!(of("http://a/mcp"), known(false, "a", "a", 80, None));
        assert_eq!(of("HTTPS://u:p@a.example:8443?x"), known(true, "a.example:8443", "a.example", 8443, Some("u:p")));
        assert_eq!(of("https://[::1]/"), known(true, "[::1]", "::1", 443, None));
        assert_eq!(of("http://[::1]:80/@"), known(false, "[::1]:80", "::1", 80, None));
        for other in ["ftp://a/", "http://", "http:///x", "http://a:x/", "http://a:99999/", "/mcp", "http://a b/"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(request_target("http://a/b c?d=\u{e9}\r\n#e"), "/b%20c?d=%C3%A9%0D%0A");
        assert_eq!(request_target("http://a"), "/");
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
