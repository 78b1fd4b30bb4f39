//! The parts of HTTP that all versions share: heads, and the events that a decoder of a connection
//! emits.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::ops::Range;

use memchr::memchr;
use rustc_hash::FxBuildHasher;

use super::mask::{Mask, MaskKey};
use super::redact::Redaction;
use super::{Anomaly, Direction, Ending, secrets};

pub use super::secret_name::is_secret;

/// The first line of a head: a request line or a status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartLine {
    /// A request line, as `POST /mcp HTTP/1.1`.
    Request {
        /// The method, case-sensitive. Empty if unknown (HTTP/2 with an incomplete HPACK table).
        method: String,
        /// The request target as sent. Empty if unknown.
        target: String,
    },
    /// A status line, as `HTTP/1.1 200 OK`.
    Response {
        /// The status code, 100 to 999; 0 if unknown.
        status: u16,
        /// The reason phrase; may be empty.
        reason: String,
    },
}

/// The head of a message: its start line and header fields, with its text and the position of each
/// field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Offset of the head's first byte in the stream that carried it.
    pub offset: u64,
    /// Bytes that the head occupies in that stream: its text, or the frames of an
    /// HTTP/2 header block.
    pub length: u64,
    /// The request line or status line.
    pub start: StartLine,
    /// The version of HTTP: `1.0`, `1.1` or `2`.
    pub version: &'static str,
    /// The text as sent, up to and including the empty line. For HTTP/2 it has one line for each
    /// field of the header block.
    pub text: Box<[u8]>,
    /// The ranges of each field's name and value in `text`. A value has no surrounding blanks. A
    /// folded value spans its lines, including their line ends.
    pub fields: Vec<(Range<u32>, Range<u32>)>,
}

impl Head {
    /// Replaces a head that was not captured. The content begins or continues at `offset`.
    pub fn unseen(direction: Direction, offset: u64, version: &'static str) -> Head {
        let start = match direction {
            Direction::ClientToServer => StartLine::Request { method: String::new(), target: String::new() },
            Direction::ServerToClient => StartLine::Response { status: 0, reason: String::new() },
        };
        Head { offset, length: 0, start, version, text: Box::default(), fields: Vec::new() }
    }

    /// Whether the head was not captured, see [`Head::unseen`].
    pub fn is_unseen(&self) -> bool {
        self.length == 0
    }

    /// The names and values of the fields as bytes, in the order in which they were sent.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (self.slice(name), self.slice(value)))
    }

    /// The values of all fields called `name`, in order. Case is ignored.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.ranges_of(name).map(|value| self.slice(value))
    }

    /// The ranges of the values of all fields called `name`. Comparing lengths first rules out
    /// most names cheaply.
    fn ranges_of(&self, name: &str) -> impl Iterator<Item = &Range<u32>> {
        let alike = self.fields.iter().filter(|(known, _)| known.len() == name.len());
        alike.filter(|(known, _)| self.slice(known).eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The first value of the field `name`, if it is UTF-8.
    pub fn value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.values(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The values of all fields called `name`, joined to one list. Values that are not UTF-8
    /// are left out.
    ///
    /// RFC 9110 section 5.3: a recipient may combine the lines of a field "by appending each
    /// subsequent field line value to the initial field line value in order, separated by a comma".
    pub fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        let values = self.ranges_of(name).filter_map(|value| std::str::from_utf8(self.slice(value)).ok());
        values.fold(None, |list, value| match list {
            None => Some(Cow::Borrowed(value)),
            Some(list) => Some(Cow::Owned(format!("{list}, {value}"))),
        })
    }

    /// The media type of the content, lower case, without parameters: `text/event-stream`.
    pub fn media_type(&self) -> Option<Cow<'_, str>> {
        self.value("content-type").map(without_parameters)
    }

    /// Offset after the head's last byte in the stream that carried it.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Masks secrets: values of secret fields, tokens in all values, and secrets in URIs. Calls
    /// `secret` with the range of each in the text, and its mask.
    ///
    /// In HTTP/2 a value is masked as a whole, because it is coded. Of its URIs only those that
    /// contain a token are masked: without the path nothing would show what was requested.
    ///
    /// `redaction` are the user's rules. What they name is masked too.
    pub fn mask(
        &mut self,
        key: Option<MaskKey>,
        redaction: Option<&Redaction>,
        plain: &mut PlainFields,
        mut secret: impl FnMut(&Range<u32>, Mask),
    ) {
        let Head { text, fields, start, version, .. } = self;
        let is_coded = *version == "2";
        let mut mask = |text: &mut [u8], start: u32, found: Range<usize>| {
            let place = start + found.start as u32..start + found.end as u32;
            if let Some(bytes) = text.get_mut(place.start as usize..place.end as usize) {
                let mask = Mask::of(key, bytes);
                mask.cover(bytes);
                secret(&place, mask);
            }
        };
        if let StartLine::Request { target, .. } = start {
            let redacted = redaction.map(|redaction| redaction.in_text(target.as_bytes())).unwrap_or_default();
            let mut secrets = secrets::union(secrets_of_target(target.as_bytes(), is_coded), redacted);
            if is_coded && !secrets.is_empty() {
                secrets = whole(target.as_bytes());
            }
            if !is_coded
                && !secrets.is_empty()
                && let Some(at) = memchr::memmem::find(text, target.as_bytes())
            {
                secrets.iter().for_each(|found| mask(text, at as u32, found.clone()));
            }
            if let Cow::Owned(masked) = secrets::masked(target, secrets, |value| Mask::of(key, value)) {
                *target = masked;
            }
        }
        for (name, value) in fields {
            let part = |range: &Range<u32>| text.get(range.start as usize..range.end as usize);
            let line = part(&(name.start..value.end)).unwrap_or_default();
            if plain.contains(line) {
                continue;
            }
            let (Some(name), Some(sent)) = (part(name), part(value)) else { continue };
            let mut found = secrets_of_field(name, sent, is_coded);
            if let Some(redaction) = redaction {
                found = secrets::union(found, redaction.in_field(name, sent));
                if is_coded && !found.is_empty() {
                    found = whole(sent);
                }
            }
            // In HTTP/2 secrets inside a URI are not looked for.
            if found.is_empty() && !(is_coded && is_uri(name)) {
                plain.insert(line);
            }
            found.into_iter().for_each(|found| mask(text, value.start, found));
        }
    }

    /// The bytes of a range of `text`, as of a name or value of `fields`.
    pub fn slice(&self, range: &Range<u32>) -> &[u8] {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// A media type without its parameters, in lower case.
pub fn without_parameters(value: &str) -> Cow<'_, str> {
    let end = memchr(b';', value.as_bytes()).unwrap_or(value.len());
    let named = value[..end].trim_ascii();
    // Without an early return this compiles to vector instructions.
    let is_lower = named.bytes().fold(true, |lower, byte| lower & !byte.is_ascii_uppercase());
    if is_lower { Cow::Borrowed(named) } else { Cow::Owned(named.to_ascii_lowercase()) }
}

/// Lines of header fields without secrets. Most lines of a head were in an earlier head too, and
/// looking for secrets takes ten times as long as recognising a line.
#[derive(Debug, Default)]
pub struct PlainFields {
    /// Each line is in the place that its hash selects, and replaces the line that was there.
    lines: Vec<Vec<u8>>,
}

impl PlainFields {
    /// Remembered lines. It is a power of two.
    const LINES: usize = 1_024;

    /// Limit of the bytes of a line. Longer ones are seldom repeated.
    const BYTES: usize = 256;

    fn place(line: &[u8]) -> usize {
        FxBuildHasher.hash_one(line) as usize & (Self::LINES - 1)
    }

    fn contains(&self, line: &[u8]) -> bool {
        self.lines.get(Self::place(line)).is_some_and(|known| **known == *line && !line.is_empty())
    }

    fn insert(&mut self, line: &[u8]) {
        if line.len() <= Self::BYTES {
            self.lines.resize(Self::LINES, Vec::new());
            let place = &mut self.lines[Self::place(line)];
            place.clear();
            place.extend_from_slice(line);
        }
    }
}

/// The number of an exchange on its connection. Numbers start at 0 and follow the order of
/// the first heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeIndex(pub u64);

/// An event of an HTTP connection.
#[derive(Debug)]
pub enum HttpEvent<'a> {
    /// A head is complete, or its content was found although the head was not captured
    /// ([`Head::unseen`]).
    ///
    /// A response whose request was not captured starts an exchange of its own. An interim response
    /// (1xx) has no body and another head follows it. The final response is followed by its body.
    Head {
        /// The exchange that the head belongs to.
        exchange: ExchangeIndex,
        /// Client to server for a request, server to client for a response.
        direction: Direction,
        /// The identifier of the HTTP/2 stream.
        stream: Option<u32>,
        /// The decoded head.
        head: Box<Head>,
    },
    /// Bytes of the content, after removing the transfer coding.
    Content {
        /// The exchange that the content belongs to.
        exchange: ExchangeIndex,
        /// Client to server for a request, server to client for a response.
        direction: Direction,
        /// Offset of the first byte in the connection's stream of that direction.
        offset: u64,
        /// The content's bytes.
        bytes: &'a [u8],
    },
    /// Content that is missing from the capture.
    ContentGap {
        /// The exchange that the content belongs to.
        exchange: ExchangeIndex,
        /// Client to server for a request, server to client for a response.
        direction: Direction,
        /// Number of missing bytes; `None` if unknown, as when chunk headers are missing too.
        length: Option<u64>,
    },
    /// A message ended. Emitted exactly once for each final head.
    End {
        /// The exchange that the message belongs to.
        exchange: ExchangeIndex,
        /// Client to server for a request, server to client for a response.
        direction: Direction,
        /// Whether the content is complete. False after a gap, or if the stream ended too early.
        complete: bool,
        /// How the message ended. `Finished` if its framing ended it, or a close that its framing
        /// asks for. Otherwise it ended as its stream did. Also `Cut` if the framing was lost.
        ending: Ending,
    },
    /// From this offset on, this direction carries another protocol (after status 101, or 2xx to
    /// CONNECT). Its bytes follow as `Opaque`.
    Switched {
        /// The exchange that requested the switch.
        exchange: ExchangeIndex,
        /// The direction that switched.
        direction: Direction,
        /// Offset of the first byte of the other protocol.
        offset: u64,
    },
    /// Bytes after a switch. Missing bytes have no event; the offset of the next bytes
    /// shows the gap.
    Opaque {
        /// The direction that carried the bytes.
        direction: Direction,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes of the other protocol.
        bytes: &'a [u8],
    },
    /// A secret that is coded in the stream, so its position does not follow from the text
    /// of the head.
    Secret {
        /// The direction that carried the secret.
        direction: Direction,
        /// The secret's position in the connection's stream of that direction.
        range: Range<u64>,
        /// The bytes that replace the secret. They keep the surrounding code decodable.
        mask: Mask,
    },
    /// An irregularity in this direction.
    Anomaly {
        /// The direction in which it was found.
        direction: Direction,
        /// The exchange, if one is open.
        exchange: Option<ExchangeIndex>,
        /// The facts about the irregularity.
        anomaly: Anomaly,
    },
}

/// The ranges of secrets in the value of a field. `is_coded`: in HTTP/2.
pub fn secrets_of_field(name: &[u8], value: &[u8], is_coded: bool) -> Vec<Range<usize>> {
    if is_secret(name) { whole(value) } else { in_value(value, is_uri(name), is_coded) }
}

/// The ranges of secrets in a request target.
pub fn secrets_of_target(target: &[u8], is_coded: bool) -> Vec<Range<usize>> {
    in_value(target, true, is_coded)
}

/// The ranges of secrets in a value that its name does not mark.
fn in_value(value: &[u8], is_uri: bool, is_coded: bool) -> Vec<Range<usize>> {
    let found = if is_uri && !is_coded { secrets::in_uri(value) } else { secrets::in_text(value) };
    if is_coded && !found.is_empty() { whole(value) } else { found }
}

fn whole(value: &[u8]) -> Vec<Range<usize>> {
    std::iter::once(0..value.len()).collect()
}

/// Whether a value is that of a secret field, or contains a token or what the user's rules name.
/// HTTP/2 masks it as a whole.
pub(super) fn is_secret_field(redaction: Option<&Redaction>, name: &[u8], value: &[u8]) -> bool {
    // The target of a request is a field here.
    let is_redacted = |redaction: &Redaction| match name {
        b":path" => !redaction.in_text(value).is_empty(),
        _ => !redaction.in_field(name, value).is_empty(),
    };
    is_secret(name) || !secrets::in_text(value).is_empty() || redaction.is_some_and(is_redacted)
}

/// Whether values of this header field are URIs, which may contain a secret.
fn is_uri(name: &[u8]) -> bool {
    // Comparing lengths first rules out most names cheaply.
    (name.len() == 8 && name.eq_ignore_ascii_case(b"location"))
        || (name.len() == 7 && name.eq_ignore_ascii_case(b"referer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str, fields: &[(Range<u32>, Range<u32>)]) -> Head {
        let start = StartLine::Response { status: 200, reason: "OK".into() };
        Head {
            offset: 10,
            length: text.len() as u64,
            start,
            version: "1.1",
            text: text.as_bytes().into(),
            fields: fields.to_vec(),
        }
    }

    #[test]
    fn fields_are_ranges_of_the_text_and_names_ignore_case() {
        let text = "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=utf-8\r\nX: 1\r\nx: 2\r\n\r\n";
        let head = head(text, &[(17..29, 31..63), (65..66, 68..69), (71..72, 74..75)]);
        assert_eq!(head.media_type().as_deref(), Some("text/event-stream"));
        assert_eq!(head.values("X").collect::<Vec<_>>(), [b"1", b"2"]);
        assert_eq!(head.value("y"), None);
        assert_eq!(head.end(), 10 + text.len() as u64);
    }

    #[test]
    fn secrets_of_fields_and_uris_are_masked() {
        let text =
            "GET /cb?code=abc&state=1 HTTP/1.1\r\nCookie: x\r\nReferer: http://h/?token=t#x\r\nX: ?code=1\r\n\r\n";
        let place = |part: &str| text.find(part).map_or(0..0, |at| at as u32..(at + part.len()) as u32);
        let fields = [("Cookie", "x"), ("Referer", "http://h/?token=t#x"), ("X", "?code=1")];
        let mut head = head(text, &fields.map(|(name, value)| (place(name), place(value))));
        head.start = StartLine::Request { method: "GET".into(), target: "/cb?code=abc&state=1".into() };
        let mut secret = Vec::new();
        head.mask(None, None, &mut PlainFields::default(), |place, _| secret.push(place.clone()));
        let masked = text.replace("abc", "***").replace("Cookie: x", "Cookie: *").replace("token=t", "token=*");
        assert_eq!(std::str::from_utf8(&head.text), Ok(masked.as_str()));
        assert_eq!(head.start, StartLine::Request { method: "GET".into(), target: "/cb?code=***&state=1".into() });
        assert_eq!(secret.len(), 3);
        // Values in HTTP/2 stay: in packets they are coded, and are masked there.
        head.version = "2";
        head.start = StartLine::Request { method: "GET".into(), target: "/?code=abc".into() };
        head.mask(None, None, &mut PlainFields::default(), |_, _| {});
        assert_eq!(head.start, StartLine::Request { method: "GET".into(), target: "/?code=abc".into() });
    }

    #[test]
    fn tokens_are_masked_in_every_field_with_their_tags() {
        let token = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let text = format!("GET /{token} HTTP/1.1\r\nX-Note: by {token}!\r\nAuthorization: Bearer {token}\r\n\r\n");
        let place = |part: &str| text.rfind(part).map_or(0..0, |at| at as u32..(at + part.len()) as u32);
        let (note, bearer) = (format!("by {token}!"), format!("Bearer {token}"));
        let fields = [(place("X-Note"), place(&note)), (place("Authorization"), place(&bearer))];
        for version in ["1.1", "2"] {
            let mut head = head(&text, &fields);
            head.version = version;
            head.start = StartLine::Request { method: "GET".into(), target: format!("/{token}") };
            head.mask(Some(MaskKey::new([7; 16])), None, &mut PlainFields::default(), |_, _| {});
            let StartLine::Request { target, .. } = &head.start else { panic!("it is a request") };
            let shown = [target, head.value("x-note").unwrap_or(""), head.value("authorization").unwrap_or("")];
            assert!(shown.iter().all(|value| !value.contains("ghp_") && value.contains("*****")), "{shown:?}");
            let tag = |value: &str| value.trim_end_matches('!')[value.trim_end_matches('!').len() - 8..].to_owned();
            if version == "1.1" {
                assert!(shown[0].starts_with('/') && shown[1].starts_with("by *") && shown[1].ends_with('!'));
                assert_eq!([tag(shown[0]), tag(shown[1])], [tag(shown[2]), tag(shown[2])]);
            }
            // Masking it again, under any key, changes nothing.
            let once = head.clone();
            head.mask(Some(MaskKey::new([8; 16])), None, &mut PlainFields::default(), |_, _| {});
            assert_eq!(head, once);
        }
    }

    #[test]
    fn lines_that_were_seen_before_are_masked_as_new_ones() {
        let secret = "by ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        let values = ["x", secret, "?code=1", "http://h/?token=t", ""];
        let mut plain = PlainFields::default();
        for name in ["X", "Cookie", "Referer", "X", "Referer", "Cookie"] {
            for (value, version) in values.iter().flat_map(|value| [(value, "1.1"), (value, "2")]) {
                let text = format!("GET / HTTP/1.1\r\n{name}: {value}\r\n\r\n");
                let start = "GET / HTTP/1.1\r\n".len() as u32;
                let ends = start + name.len() as u32;
                let mut new = head(&text, &[(start..ends, ends + 2..ends + 2 + value.len() as u32)]);
                new.version = version;
                let mut again = new.clone();
                new.mask(None, None, &mut PlainFields::default(), |_, _| {});
                again.mask(None, None, &mut plain, |_, _| {});
                assert_eq!(new, again, "{name}: {value}");
            }
        }
        assert!(plain.contains(b"X: x") && !plain.contains(b"Cookie: x") && !plain.contains(secret.as_bytes()));
    }

    #[test]
    fn a_range_outside_the_text_is_empty() {
        assert_eq!(head("short", &[(0..3, 4..99)]).value("sho"), Some(""));
    }
}
