//! Origins of URLs, and redirects, which are followed only within one origin (RFC 6454 section 4:
//! scheme, host and port).
//!
//! Header fields, tokens and session ids belong to one server. A response must not make a client
//! send them to another origin. Such a redirect is refused with a message that names the address,
//! so that a user who trusts it can give it.

use crate::decode::uri;

/// The most redirects that are followed for one request.
const REDIRECTS: u32 = 3;

/// The origin of a URL: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// Host and port as the URL writes them, for the `Host` field (RFC 9110 section 7.2).
    pub authority: String,
    /// The host without the port.
    pub host: String,
    /// The port, or the default port of the scheme.
    pub port: u16,
    /// The user information before the host: name and password.
    pub user: Option<String>,
}

impl Origin {
    /// The origin of a URL. `None` if it is not a valid URL with the scheme `http` or `https`.
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

/// The URL of a request, and how it changes through redirects within the origin.
#[derive(Clone, Debug)]
pub struct Hops {
    /// The current URL.
    pub at: String,
    /// The URL for later requests, after permanent redirects only (301, 308). "The target resource
    /// has been assigned a new permanent URI and any future references to this resource ought to
    /// use" it (RFC 9110 sections 15.4.2 and 15.4.9). All other redirects are temporary.
    pub settled: Option<String>,
    is_permanent: bool,
    followed: u32,
}

impl Hops {
    /// A request to this URL, before any redirect.
    pub fn to(url: &str) -> Hops {
        Hops { at: url.to_owned(), settled: None, is_permanent: true, followed: 0 }
    }

    /// Follows a redirect with this status and `Location`.
    ///
    /// "If the 307 status code is received …, the user agent MUST NOT change the request method"
    /// (RFC 9110 section 15.4.8; 15.4.9 for 308). After 301, 302 and 303 a POST would become a GET,
    /// which carries no message. So these are followed only if `is_get`.
    pub fn follow(&mut self, status: u16, location: &str, is_get: bool) -> Result<(), String> {
        let Some(next) = resolve(&self.at, location) else {
            return Err(format!(
                "HTTP {status}: the server redirects to another origin, {location:?}, which is not followed; if you trust it, replay to that URL"
            ));
        };
        if !is_get && !matches!(status, 307 | 308) {
            return Err(format!("HTTP {status}: the server redirects to {next}; replay to that URL"));
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

/// The request target of a URL: path and query. Characters that are not allowed there are
/// percent-encoded (RFC 3986 section 2.1), and the fragment is dropped.
pub fn request_target(url: &str) -> String {
    let target = uri::origin_form(url).split('#').next().unwrap_or_default();
    let coded = |byte: u8| if byte.is_ascii_graphic() { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    target.bytes().map(coded).collect()
}

/// Resolves a reference relative to a URL. `None` if it leads to another origin.
pub fn resolve(url: &str, reference: &str) -> Option<String> {
    let (origin, base) = url.split_at(origin_end(url));
    match reference {
        absolute if uri::split_scheme(absolute).is_some() => {
            let same = absolute[..origin_end(absolute)].eq_ignore_ascii_case(origin);
            same.then(|| absolute.to_owned())
        }
        // "//host/path" has its own host (RFC 3986 section 4.2).
        elsewhere if elsewhere.starts_with("//") => None,
        here => Some(format!("{origin}{}", uri::resolved(base, here))),
    }
}

/// The length of scheme, host and port at the start of a URL.
fn origin_end(url: &str) -> usize {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_permanent_redirects_are_remembered() {
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
    fn a_refused_redirect_has_a_reason() {
        let follow = |status, to, is_get| Hops::to("http://x/a").follow(status, to, is_get);
        assert!(follow(302, "/b", true).is_ok());
        assert!(follow(302, "/b", false).is_err_and(|why| why.contains("redirects to http://x/b")));
        assert!(follow(307, "http://y/b", false).is_err_and(|why| why.contains("another origin")));
        let mut hops = Hops::to("http://x/a");
        let around: Vec<bool> = (0..=REDIRECTS).map(|_| hops.follow(307, "/a", false).is_ok()).collect();
        assert_eq!(around, [true, true, true, false]);
    }

    #[test]
    fn a_url_has_an_origin_and_a_target() {
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
    fn references_resolve_within_the_origin_only() {
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
