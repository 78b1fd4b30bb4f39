//! What HTTP says, whichever version carried it: heads, and the events of a connection.

use std::borrow::Cow;
use std::ops::Range;

use super::{Anomaly, Direction, Ending, secrets};

pub use super::secrets::MASK;

/// The request line or status line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartLine {
    /// `POST /mcp HTTP/1.1`
    Request {
        /// The method, case-sensitive; empty where it is not known (HTTP/2 with a lost table).
        method: String,
        /// The request target as sent; empty where it is not known.
        target: String,
    },
    /// `HTTP/1.1 200 OK`
    Response {
        /// The status code, 100 to 999; 0 where it is not known.
        status: u16,
        /// The reason phrase, maybe empty.
        reason: String,
    },
}

/// A message head: start line and header fields, with the text as sent and the place of each field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Offset of the head's first byte in the stream that carried it.
    pub offset: u64,
    /// Bytes it takes there: those of the text, or of the frames of an HTTP/2 header block.
    pub length: u64,
    /// The start line.
    pub start: StartLine,
    /// `1.0`, `1.1` or `2`.
    pub version: &'static str,
    /// The text of the head as sent, up to and including the empty line. Of HTTP/2: a line for each field of the header block.
    pub text: Box<[u8]>,
    /// Name and value of each field, as ranges of `text`; the value without surrounding blanks. The value of a folded
    /// field spans its lines, line ends included.
    pub fields: Vec<(Range<u32>, Range<u32>)>,
}

impl Head {
    /// In place of a head that was not seen, where the content begins, or goes on, at `offset`.
    pub fn unseen(direction: Direction, offset: u64, version: &'static str) -> Head {
        let start = match direction {
            Direction::ClientToServer => StartLine::Request { method: String::new(), target: String::new() },
            Direction::ServerToClient => StartLine::Response { status: 0, reason: String::new() },
        };
        Head { offset, length: 0, start, version, text: Box::default(), fields: Vec::new() }
    }

    /// Whether nothing is known of it.
    pub fn is_unseen(&self) -> bool {
        self.length == 0
    }

    /// The fields in order as sent, names and values as bytes.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (self.slice(name), self.slice(value)))
    }

    /// The values of every field of this name (case-insensitive), in order.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields().filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The first value of this name, where it is text.
    pub fn value<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        self.values(name).next().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The values of every field of this name as one list: "a recipient MAY combine multiple field lines within a field section that have
    /// the same field name into one field line, [...] by appending each subsequent field line value to the initial field line value in order,
    /// separated by a comma" (RFC 9110 section 5.3). Values that are no text are left out.
    pub fn list(&self, name: &str) -> Option<Cow<'_, str>> {
        let fields = self.fields().filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()));
        let values = fields.filter_map(|(_, value)| std::str::from_utf8(value).ok());
        values.fold(None, |list, value| match list {
            None => Some(Cow::Borrowed(value)),
            Some(list) => Some(Cow::Owned(format!("{list}, {value}"))),
        })
    }

    /// The media type of the content, lower case, without parameters: `text/event-stream`.
    pub fn media_type(&self) -> Option<String> {
        let value = self.value("content-type")?;
        Some(value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase())
    }

    /// Offset behind the head in the stream that carried it.
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Puts the mask in place of the values of secret fields, and of secrets in the URIs of HTTP/1, and says where each stands in the text.
    pub fn mask(&mut self, mut secret: impl FnMut(&Range<u32>)) {
        let mut mask = |text: &mut [u8], place: Range<u32>| {
            if let Some(bytes) = text.get_mut(place.start as usize..place.end as usize) {
                bytes.fill(MASK);
                secret(&place);
            }
        };
        let Head { text, fields, start, version, .. } = self;
        // What HTTP/2 codes can be masked as a whole only.
        let has_uris = *version != "2";
        if let (StartLine::Request { target, .. }, true) = (start, has_uris)
            && let secrets = secrets::in_uri(target.as_bytes())
            && !secrets.is_empty()
            && let Some(at) = memchr::memmem::find(text, target.as_bytes())
        {
            *target = secrets::masked_uri(target).into_owned();
            secrets.into_iter().for_each(|place| mask(text, (at + place.start) as u32..(at + place.end) as u32));
        }
        for (name, value) in fields {
            let Some(named) = text.get(name.start as usize..name.end as usize) else { continue };
            if is_secret(named) {
                mask(text, value.clone());
            } else if has_uris && is_uri(named) {
                let uri = text.get(value.start as usize..value.end as usize).unwrap_or_default();
                for place in secrets::in_uri(uri) {
                    mask(text, value.start + place.start as u32..value.start + place.end as u32);
                }
            }
        }
    }

    /// The bytes of a range of the text: a name or value of `fields`.
    pub fn slice(&self, range: &Range<u32>) -> &[u8] {
        self.text.get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

/// An exchange on its connection, 0-based in order of its first head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeIndex(pub u64);

/// What the decoder found.
#[derive(Debug)]
pub enum HttpEvent<'a> {
    /// A head is complete, or was not seen ([`Head::unseen`]) and its content is found. A response whose request was not seen opens an exchange of its own. An interim response
    /// (1xx) has no body and is followed by another head; the final one by its body.
    Head {
        /// The exchange.
        exchange: ExchangeIndex,
        /// Client to server: a request.
        direction: Direction,
        /// The stream of HTTP/2.
        stream: Option<u32>,
        /// The head.
        head: Box<Head>,
    },
    /// Bytes of the content, transfer coding taken off.
    Content {
        /// The exchange.
        exchange: ExchangeIndex,
        /// Request or response.
        direction: Direction,
        /// Offset of the first byte in the connection's stream of that direction.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Content that was never seen.
    ContentGap {
        /// The exchange.
        exchange: ExchangeIndex,
        /// Request or response.
        direction: Direction,
        /// How many bytes; `None` where that cannot be known (loss inside chunk framing).
        length: Option<u64>,
    },
    /// A message is over. Exactly one for each final head.
    End {
        /// The exchange.
        exchange: ExchangeIndex,
        /// Request or response.
        direction: Direction,
        /// Whether the content is whole; false with a gap, or when the stream ended before its time.
        complete: bool,
        /// How it ended: `Finished` by its framing (or by a close that its framing asks for), else as its stream did;
        /// `Cut` too where the framing was lost.
        ending: Ending,
    },
    /// The connection speaks another protocol from this offset of this direction on (101, or 2xx to CONNECT). Bytes
    /// follow as `Opaque`.
    Switched {
        /// The exchange that asked for it.
        exchange: ExchangeIndex,
        /// The direction.
        direction: Direction,
        /// Where.
        offset: u64,
    },
    /// Bytes after a switch. Bytes of it that were never seen are not told: the offset of the next ones passes them.
    Opaque {
        /// The direction.
        direction: Direction,
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Bytes of this direction hold a secret that is coded: where it cannot be told from the text of a head where it stands.
    Secret {
        /// The direction.
        direction: Direction,
        /// Where in the connection's stream of that direction.
        range: Range<u64>,
        /// What to put in place of each byte, so that what stands around it can still be decoded.
        mask: u8,
    },
    /// Something odd in this direction.
    Anomaly {
        /// The direction.
        direction: Direction,
        /// The exchange, where one is open.
        exchange: Option<ExchangeIndex>,
        /// What.
        anomaly: Anomaly,
    },
}

/// Whether the value of this header field is a URI, in which a client may be given a secret or repeat one.
fn is_uri(name: &[u8]) -> bool {
    // Most names are told apart by their length.
    (name.len() == 8 && name.eq_ignore_ascii_case(b"location"))
        || (name.len() == 7 && name.eq_ignore_ascii_case(b"referer"))
}

/// Whether the values of this header field are secrets, never shown nor written to disk unless asked for.
pub fn is_secret(name: &[u8]) -> bool {
    /// What the name of such a field contains, in lower case, by a letter of it that is rare in names, and how far that stands from
    /// its beginning: `Proxy-Authorization`, `Set-Cookie`, `X-Csrf-Token`.
    const fn parts(letter: u8) -> &'static [(usize, &'static [u8])] {
        match letter {
            b'c' => &[(2, b"secret")],
            b'k' => &[(3, b"apikey"), (4, b"api-key"), (4, b"api_key"), (3, b"cookie"), (2, b"token")],
            b'w' => &[(4, b"password")],
            b'z' => &[(7, b"authorization")],
            _ => &[],
        }
    }
    const RARE: [bool; 256] = {
        let mut rare = [false; 256];
        let mut letter = 0;
        while letter < 256 {
            rare[letter] = !parts((letter as u8).to_ascii_lowercase()).is_empty();
            letter += 1;
        }
        rare
    };
    name.iter().enumerate().filter(|(_, letter)| RARE[usize::from(**letter)]).any(|(at, letter)| {
        parts(letter.to_ascii_lowercase()).iter().any(|(before, part)| {
            let start = at.checked_sub(*before);
            let here = start.and_then(|start| name.get(start..start + part.len()));
            here.is_some_and(|here| here.eq_ignore_ascii_case(part))
        })
    })
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
    fn fields_are_ranges_of_the_text_and_names_know_no_case() {
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
        head.mask(|place| secret.push(place.clone()));
        let masked = text.replace("abc", "***").replace("Cookie: x", "Cookie: *").replace("token=t", "token=*");
        assert_eq!(std::str::from_utf8(&head.text), Ok(masked.as_str()));
        assert_eq!(head.start, StartLine::Request { method: "GET".into(), target: "/cb?code=***&state=1".into() });
        assert_eq!(secret.len(), 3);
        // Those of HTTP/2 stand in packets as they are coded.
        head.version = "2";
        head.start = StartLine::Request { method: "GET".into(), target: "/?code=abc".into() };
        head.mask(|_| {});
        assert_eq!(head.start, StartLine::Request { method: "GET".into(), target: "/?code=abc".into() });
    }

    #[test]
    fn a_range_outside_the_text_is_empty() {
        assert_eq!(head("short", &[(0..3, 4..99)]).value("sho"), Some(""));
    }

    #[test]
    fn secrets_are_known_by_name() {
        let parts =
            ["authorization", "cookie", "token", "secret", "password", "apikey", "api-key", "api_key"].into_iter();
        for name in
            parts.flat_map(|part| [part.to_owned(), part.to_uppercase(), format!("X-{part}-k"), format!("k{part}")])
        {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        for name in ["Accept", "Mcp-Session-Id", "Content-Type", "", "k", "z", "toke", "oken", "cook-ie", "api.key"] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }
}
