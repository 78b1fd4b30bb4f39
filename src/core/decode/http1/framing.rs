//! The length of a message's body (RFC 9112 section 6.3), from its head and, for a response, from
//! the request.

use super::grammar::{decimal, trim};
use super::pairing::RequestKind;
use crate::decode::http::Head;

/// The way in which the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// After this number of bytes, possibly 0.
    Length(u64),
    /// At the last chunk.
    Chunked,
    /// When the connection closes.
    UntilClose,
    /// Undefined: the head contradicts itself.
    Unknown,
    /// Never: the connection continues with another protocol.
    Tunnel,
}

/// The information that a head gives about the bytes after it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Framing {
    /// The way in which the end of the body is found.
    pub(super) body: Body,
    /// The contradiction in the head, if there is one.
    pub(super) ambiguous: Option<&'static str>,
    /// Whether the message has an `Upgrade` field.
    pub(super) upgrade: bool,
}

/// The fields of a head that determine the framing.
#[derive(Default)]
struct FramingFields {
    /// The value of Content-Length, or what is wrong with it. `None` without the field.
    length: Option<Result<u64, &'static str>>,
    /// The number of transfer codings, without `identity`.
    codings: usize,
    /// Of these, the number of `chunked`.
    chunked: usize,
    /// Whether the last one is `chunked`.
    ends_chunked: bool,
    /// Whether whitespace precedes the colon of a framing field.
    spaced: bool,
    upgrade: bool,
}

/// The framing of a request.
pub(super) fn of_request(head: &Head) -> Framing {
    let fields = framing_fields(head);
    // "6. ... If the message is a request and none of the above are true, then the message body
    // length is zero".
    fields.framing(head, Body::Length(0), Body::Unknown)
}

/// The framing of a response with this status to a request of this kind. Interim responses
/// have no body.
pub(super) fn of_response(head: &Head, status: u16, request_kind: RequestKind) -> Framing {
    let mut fields = framing_fields(head);
    let body = match status {
        // RFC 9110 section 15.2.2: 101 indicates "which protocol(s) will be in effect after this
        // response".
        101 => Body::Tunnel,
        // "1. Any response to a HEAD request and any response with a 1xx (Informational), 204 (No
        // Content), or 304 (Not Modified) status code is always terminated by the first empty line
        // after the header fields".
        100..200 | 204 | 304 => Body::Length(0),
        _ if request_kind == RequestKind::Head => Body::Length(0),
        // "2. Any 2xx (Successful) response to a CONNECT request implies that the connection will
        // become a tunnel".
        200..300 if request_kind == RequestKind::Connect => Body::Tunnel,
        // "8. Otherwise, this is a response message without a declared message body length, so the
        // message body length is determined by the number of octets received prior to the server
        // closing the connection."
        _ => return fields.framing(head, Body::UntilClose, Body::UntilClose),
    };
    Framing { body, ambiguous: None, upgrade: std::mem::take(&mut fields.upgrade) }
}

impl FramingFields {
    /// Applies rules 3 to 6. `silent` is the result without any field, `unchunked` the result where
    /// the last transfer coding is not `chunked`.
    fn framing(self, head: &Head, silent: Body, unchunked: Body) -> Framing {
        let last = self.ends_chunked;
        let (body, mut ambiguous) = match (&self.length, self.codings == 0) {
            (None, true) => (silent, None),
            // "5. If a message is received without Transfer-Encoding and with an invalid
            // Content-Length header field, then the message framing is invalid and the recipient
            // MUST treat it as an unrecoverable error".
            (Some(Err(why)), true) => (Body::Unknown, Some(*why)),
            (Some(Ok(length)), true) => (Body::Length(*length), None),
            // "3. If a message is received with both a Transfer-Encoding and a Content-Length
            // header field, the Transfer-Encoding overrides the Content-Length. Such a message
            // might indicate an attempt to perform request smuggling".
            (Some(_), false) if last => (Body::Chunked, Some("both Transfer-Encoding and Content-Length")),
            (None, false) if last => (Body::Chunked, None),
            // "4. If a Transfer-Encoding header field is present ... and the chunked transfer
            // coding is not the final encoding, the message body length is determined by reading
            // the connection until it is closed by the server. If ... in a request ..., the message
            // body length cannot be determined reliably".
            (_, false) => (unchunked, Some("the last transfer coding is not chunked")),
        };
        if self.chunked > 1 {
            // Section 6.1: "A sender MUST NOT apply the chunked transfer coding more than once to a
            // message body".
            ambiguous = ambiguous.or(Some("chunked more than once"));
        }
        if self.codings > 0 && head.version == "1.0" {
            // Section 6.1: an HTTP/1.0 message with Transfer-Encoding is treated "as if the framing
            // is faulty".
            ambiguous = ambiguous.or(Some("Transfer-Encoding in HTTP/1.0"));
        }
        if self.spaced {
            // Section 5.1: "No whitespace is allowed between the field name and colon. In the past,
            // differences in the handling of such whitespace have led to security vulnerabilities".
            ambiguous = ambiguous.or(Some("whitespace before the colon of a framing field"));
        }
        Framing { body, ambiguous, upgrade: self.upgrade }
    }
}

/// Collects the framing fields. Lengths are compared before names, since most fields are others.
fn framing_fields(head: &Head) -> FramingFields {
    let mut fields = FramingFields::default();
    for (name, value) in &head.fields {
        let length = name.end - name.start;
        if !matches!(length, 7 | 14 | 17) {
            continue;
        }
        let (text, value) = (head.slice(name), head.slice(value));
        match length {
            14 if text.eq_ignore_ascii_case(b"content-length") => {
                fields.length = Some(content_length(fields.length, value));
            }
            17 if text.eq_ignore_ascii_case(b"transfer-encoding") => {
                let codings = value.split(|byte| *byte == b',').map(trim);
                for coding in codings.filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")) {
                    fields.ends_chunked = coding.eq_ignore_ascii_case(b"chunked");
                    fields.codings += 1;
                    fields.chunked += usize::from(fields.ends_chunked);
                }
            }
            7 if text.eq_ignore_ascii_case(b"upgrade") => {
                fields.upgrade = true;
                continue;
            }
            _ => continue,
        }
        fields.spaced |= head.text.get(name.end as usize) != Some(&b':');
    }
    fields
}

/// Parses a value of Content-Length. RFC 9112 section 6.3, rule 5: a comma-separated list is
/// invalid unless "all values in the list are valid, and all values in the list are the same".
/// Several fields form a list.
fn content_length(before: Option<Result<u64, &'static str>>, value: &[u8]) -> Result<u64, &'static str> {
    let mut length = before.transpose()?;
    for member in value.split(|byte| *byte == b',') {
        let member = decimal(trim(member)).ok_or("Content-Length is not a number of 64 bits")?;
        if length.is_some_and(|length| length != member) {
            return Err("Content-Length gives two lengths");
        }
        length = Some(member);
    }
    length.ok_or("Content-Length is not a number of 64 bits")
}
