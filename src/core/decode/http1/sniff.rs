//! Recognises HTTP/1: at the start of a stream, and where a message may begin after a loss.

use memchr::{memchr, memmem};

use super::grammar::{content, is_blank, is_token, start_line};
use crate::decode::Direction;

/// Methods of the IANA registry that are in use. Any other token counts as a method where its line
/// ends in a version of HTTP/1.
const METHODS: [&[u8]; 26] = [
    b"GET",
    b"POST",
    b"PUT",
    b"DELETE",
    b"HEAD",
    b"OPTIONS",
    b"PATCH",
    b"TRACE",
    b"CONNECT",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"MKCALENDAR",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"REPORT",
    b"SEARCH",
    b"QUERY",
    b"LINK",
    b"UNLINK",
    b"BIND",
    b"UNBIND",
    b"PURGE",
    b"NOTIFY",
];

/// The longest method that is accepted before the end of its line. The longest registered one,
/// UPDATEREDIRECTREF, has 17 letters.
pub(super) const METHOD: usize = 32;

/// The length up to which the end of a request line is awaited. RFC 9112 section 3: "It is
/// RECOMMENDED that all HTTP senders and recipients support, at a minimum, request-line lengths of
/// 8000 octets."
const REQUEST_LINE: usize = 8 << 10;

/// Whether the first bytes of a direction look like HTTP/1, and of which message: a request flows
/// from client to server. `None`: not HTTP/1. `Some(None)`: too few bytes to decide.
pub fn sniff(bytes: &[u8]) -> Option<Option<Direction>> {
    // RFC 9112 section 2.2: empty lines "received prior to the request-line" are ignored.
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
    let bytes = &bytes[begin..];
    if bytes.is_empty() {
        return Some(None);
    }
    if plausible(Direction::ServerToClient, bytes) {
        return Some((bytes.len() >= b"HTTP/1.".len()).then_some(Direction::ServerToClient));
    }
    if !plausible(Direction::ClientToServer, bytes) {
        return None;
    }
    match memchr(b'\n', bytes) {
        Some(end) => match start_line(Direction::ClientToServer, content(&bytes[..end])) {
            Ok(_) => Some(Some(Direction::ClientToServer)),
            Err(_) => None,
        },
        None => {
            let known =
                METHODS.iter().any(|method| bytes.strip_prefix(*method).is_some_and(|rest| rest.starts_with(b" /")));
            match known {
                true => Some(Some(Direction::ClientToServer)),
                false => (bytes.len() <= REQUEST_LINE).then_some(None),
            }
        }
    }
}

/// Whether these bytes of a server look like server-sent events of a stream that began before: a
/// field of an event, possibly after the size of a chunk. `None`: too few bytes to decide. The
/// search for events proves whether they are.
pub fn sniff_events(bytes: &[u8]) -> Option<bool> {
    const FIELDS: [&[u8]; 5] = [b"event: ", b"data: {", b"data:{", b"id: ", b"retry: "];
    const COMMENT: &[u8] = b": ";
    let digits = bytes.iter().take(8).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let begins = |line: &[u8], field: &[u8]| field.starts_with(&line[..line.len().min(field.len())]);
    let size = bytes[digits..].strip_prefix(b"\r\n").filter(|_| digits > 0);
    let line = size.unwrap_or(bytes);
    let fields = FIELDS.into_iter().chain(size.map(|_| COMMENT));
    let mut fitting = fields.filter(|field| begins(line, field)).peekable();
    match fitting.peek() {
        Some(_) => fitting.any(|field| line.len() >= field.len()).then_some(true),
        None if digits > 0 && b"\r\n".starts_with(&bytes[digits..]) => None,
        None => Some(false),
    }
}

/// Whether a start line may begin with these bytes. `true` as soon as only the rest of the line can
/// decide. Never false for the beginning of a line that `start_line` accepts, so the place of a cut
/// does not matter.
pub(super) fn plausible(direction: Direction, prefix: &[u8]) -> bool {
    match direction {
        Direction::ClientToServer => {
            let method = &prefix[prefix.iter().take_while(|byte| is_blank(**byte)).count()..];
            match method.iter().position(|byte| !is_token(*byte)) {
                Some(end) => (1..=METHOD).contains(&end) && method[end] == b' ',
                None => method.len() <= METHOD,
            }
        }
        Direction::ServerToClient => {
            let (version, rest) = prefix.split_at(prefix.len().min(b"HTTP/1.0".len()));
            let is_version = version.iter().zip(b"HTTP/1.0").all(|(byte, pattern)| match pattern {
                b'0' => byte.is_ascii_digit(),
                _ => byte == pattern,
            });
            let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
            let status = &rest[spaces..];
            is_version && (spaces > 0 || status.is_empty()) && status.iter().take(3).all(u8::is_ascii_digit)
        }
    }
}

/// The index in a line (with its line end) at which a message may begin. This need not be the first
/// byte: the body of the previous message often has no line end.
///
/// ```text
///  {"jsonrpc":"2.0","id":7}HTTP/1.1 200 OK⏎
///                          ^
/// ```
///
/// After whitespace it is text about HTTP, and no message.
pub(super) fn find_start(direction: Direction, line: &[u8]) -> Option<usize> {
    let content = content(line);
    let version = memmem::rfind(content, b"HTTP/1.")?;
    let start = match direction {
        Direction::ServerToClient => version,
        Direction::ClientToServer => {
            let target = content[..version].strip_suffix(b" ")?;
            let method = &target[..memchr::memrchr(b' ', target)?];
            let word = method.iter().rposition(|byte| !is_token(*byte)).map_or(0, |before| before + 1);
            let known = METHODS.iter().filter(|known| method[word..].ends_with(known)).map(|known| known.len()).max();
            match known {
                Some(length) => method.len() - length,
                None if word == 0 => 0,
                None => return None,
            }
        }
    };
    let apart = start.checked_sub(1).is_none_or(|before| !is_blank(content[before]));
    (apart && start_line(direction, &content[start..]).is_ok()).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Option<Option<Direction>> = Some(Some(Direction::ClientToServer));
    const RESPONSE: Option<Option<Direction>> = Some(Some(Direction::ServerToClient));

    #[test]
    fn first_bytes_tell_events_that_go_on() {
        for (bytes, expected) in [
            ("", None),
            ("4", None),
            ("4f\r", None),
            ("4f\r\n", None),
            ("4f\r\neve", None),
            ("4f\r\nevent: message", Some(true)),
            ("4f\r\n: ping", Some(true)),
            ("4f\r\n{\"a\":1}", Some(false)),
            ("4f;x=y\r\nid: 1", Some(false)),
            ("123456789\r\nid: 1", Some(false)),
            ("dat", None),
            ("data: {\"jsonrpc\"", Some(true)),
            ("data: x", Some(false)),
            (": ping", Some(false)),
            ("deadline", Some(false)),
            ("GET / HTTP/1.1", Some(false)),
            ("\u{16}\u{3}\u{1}", Some(false)),
        ] {
            assert_eq!(sniff_events(bytes.as_bytes()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn first_bytes_tell_what_begins() {
        for (bytes, expected) in [
            ("", Some(None)),
            ("\r\n\r\n", Some(None)),
            ("P", Some(None)),
            ("POST ", Some(None)),
            ("POST /", REQUEST),
            ("\r\nPOST / HTTP/1.1\r\n", REQUEST),
            ("CONNECT a:443 HTTP/1.1\n", REQUEST),
            ("  GET  /  HTTP/1.1\r\n", REQUEST),
            ("ODD-method * HTTP/1.0\r\n", REQUEST),
            ("OPTIONS * RTSP/1.0\r\n", None),
            ("GET a teapot\r\n", None),
            ("PRI * HTTP/2.0\r\n", None),
            ("HT", Some(None)),
            ("HTTP/1.", RESPONSE),
            ("HTTP/1.1 200 OK\r\n", RESPONSE),
            ("HTTP/1.1  200 OK\r\n", RESPONSE),
            ("HTTP/2 200\r\n", None),
            ("HTTP/1.x", None),
            ("{\"jsonrpc\":\"2.0\"}", None),
            ("\u{16}\u{3}\u{1}", None),
            ("SSH-2.0-OpenSSH\r\n", None),
            (&"x".repeat(METHOD + 1), None),
        ] {
            assert_eq!(sniff(bytes.as_bytes()), expected, "{bytes:?}");
        }
        assert_eq!(sniff(&[b"word ".as_slice(), &[b'x'; REQUEST_LINE]].concat()), None, "endless");
    }

    #[test]
    fn more_bytes_never_turn_a_verdict() {
        for text in [
            "POST /mcp HTTP/1.1\r\nHost: a\r\n",
            "HTTP/1.1 200 OK\r\n",
            "hello there, world\n",
            "\r\nFOO x HTTP/1.1\n",
            " A b HTTP/1.0\n",
        ] {
            let verdicts: Vec<_> = (0..=text.len()).map(|end| sniff(&text.as_bytes()[..end])).collect();
            let decided = verdicts.iter().position(|verdict| *verdict != Some(None)).unwrap_or(verdicts.len());
            assert!(verdicts[decided..].windows(2).all(|pair| pair[0] == pair[1]), "{text:?}: {verdicts:?}");
        }
    }

    #[test]
    fn a_message_is_found_behind_a_body_without_a_line_end() {
        let request = |line: &str| find_start(Direction::ClientToServer, line.as_bytes());
        let response = |line: &str| find_start(Direction::ServerToClient, line.as_bytes());
        assert_eq!(request("POST /mcp HTTP/1.1\r\n"), Some(0));
        assert_eq!(request("{\"id\":1}POST /mcp HTTP/1.1\n"), Some(8));
        assert_eq!(request("abcDELETE /mcp HTTP/1.1\r\n"), Some(3));
        assert_eq!(request("X-NEW /mcp HTTP/1.1\r\n"), Some(0));
        assert_eq!(request("}X-NEW /mcp HTTP/1.1\r\n"), None, "an unknown method is believed at a line start only");
        assert_eq!(request("then we GET / HTTP/1.1\r\n"), None, "text");
        assert_eq!(request("GET / HTTP/1.1 please\r\n"), None);
        assert_eq!(response("HTTP/1.1 200\r\n"), Some(0));
        assert_eq!(response("{}HTTP/1.0 404 Not Found\n"), Some(2));
        assert_eq!(response("< HTTP/1.1 200 OK\r\n"), None, "text");
        assert_eq!(response("HTTP/1.1 2000\r\n"), None);
    }
}
