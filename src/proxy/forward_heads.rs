//! Heads of requests to a forward proxy, which name their server (RFC 9112 sections 3.2.2 and
//! 3.2.3).

use crate::decode::http::{Head, StartLine};
use crate::decode::uri;
use crate::http::origin::Origin;
use crate::http::requests::{self, Refusal};

/// Fields for the proxy alone. They are not forwarded.
const OWN_FIELDS: [&[u8]; 2] = [b"proxy-connection", b"proxy-authorization"];

/// A request to a forward proxy.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Forwarded {
    /// A request in the clear, and its head as the server gets it.
    Request(Origin, Vec<u8>),
    /// The client wants a tunnel to this host and port.
    Tunnel(String),
}

/// Reads the head of a request.
///
/// # Errors
/// The request must not be forwarded.
pub(super) fn request(head: &Head) -> Result<Forwarded, Refusal> {
    let host = requests::check(head)?;
    let StartLine::Request { method, target } = &head.start else {
        return Err(Refusal::new(400, "this is not a request"));
    };
    if method == "CONNECT" {
        return Ok(Forwarded::Tunnel(target.clone()));
    }
    let origin = Origin::of(target).filter(|origin| !origin.is_https && origin.user.is_none());
    let Some(origin) = origin else {
        let why = "this is a forward proxy: it takes CONNECT, and requests whose target is a URL with http://";
        return Err(Refusal::new(400, why));
    };
    let mut text = format!("{method} {} HTTP/{}\r\n", uri::origin_form(target), head.version).into_bytes();
    // "the proxy MUST ignore the received Host header field (if any) and instead replace it with
    // the host information of the request-target" (RFC 9112 section 3.2.2)
    if host.is_none() {
        text.extend_from_slice(format!("Host: {}\r\n", origin.authority).as_bytes());
    }
    for (name, value) in &head.fields {
        let (name, is_host) = (head.slice(name), Some(value) == host.as_ref());
        if OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        let value = if is_host { origin.authority.as_bytes() } else { head.slice(value) };
        text.extend([name, b": ", value, b"\r\n"].concat());
    }
    text.extend_from_slice(b"\r\n");
    Ok(Forwarded::Request(origin, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Direction;
    use crate::http::message_reader::{MessageReader, Part};

    fn forwarded(text: &str) -> Result<Forwarded, u16> {
        let parts = MessageReader::new(Direction::ClientToServer).push(text.as_bytes());
        let head = parts.into_iter().find_map(|part| if let Part::Head(head) = part { Some(head) } else { None });
        request(&head.expect("a head")).map_err(|refusal| refusal.status)
    }

    #[test]
    fn a_full_url_becomes_a_path_and_its_host_counts() {
        let sent = "GET http://a.test:80/x?y HTTP/1.1\r\nhost: other\r\nProxy-Connection: keep-alive\r\nX:  1\r\n\r\n";
        let Ok(Forwarded::Request(origin, text)) = forwarded(sent) else { panic!("it is forwarded") };
        assert_eq!((origin.host.as_str(), origin.port), ("a.test", 80));
        assert_eq!(String::from_utf8(text).unwrap(), "GET /x?y HTTP/1.1\r\nhost: a.test:80\r\nX: 1\r\n\r\n");
        let Ok(Forwarded::Request(_, text)) = forwarded("GET http://a.test HTTP/1.0\r\n\r\n") else {
            panic!("it is forwarded")
        };
        assert_eq!(String::from_utf8(text).unwrap(), "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    }

    #[test]
    fn tunnels_are_asked_for_and_everything_else_is_refused() {
        let connect = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n";
        assert_eq!(forwarded(connect), Ok(Forwarded::Tunnel("a.test:443".to_owned())));
        for target in ["/", "*", "https://a.test/", "http://me@a.test/", "ftp://a.test/", "http://"] {
            assert_eq!(forwarded(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")), Err(400), "{target}");
        }
    }
}
