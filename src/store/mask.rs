//! Secrets in packets: their location, and how they are masked.
//!
//! The decoder reports them as ranges of a side's stream. Every packet that carries such bytes is
//! masked, whether it came earlier, later or twice. Bytes that the decoder never examined are
//! searched for lines that look like a secret header. Such bytes are a retransmission with other
//! content, or what follows broken HTTP.

use std::collections::VecDeque;
use std::ops::Range;

use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::decode::mask::{MASK, Mask, MaskKey};
use crate::decode::redact::Redaction;
use crate::decode::{http, secrets};

/// The number of secrets remembered per side, for copies that come later. A request carries a few,
/// and a retransmission comes within a window of data. But a message may have thousands of values
/// that are redacted.
const REMEMBERED: usize = 4_096;

/// The secrets of one side's stream.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    /// Disjoint ranges in order, each with its mask. Adjacent ranges have different masks, or
    /// masks with tags.
    ranges: VecDeque<(Range<u64>, Mask)>,
    /// All bytes below this offset may belong to a secret that is no longer remembered.
    forgotten: u64,
}

impl Secrets {
    /// Adds a secret. If ranges overlap, the mask of the last one applies to both, without a tag.
    pub(super) fn insert(&mut self, mut secret: Range<u64>, mut mask: Mask) {
        if secret.is_empty() {
            return;
        }
        let given = secret.clone();
        let joins = |range: &Range<u64>, other: Mask, secret: &Range<u64>| {
            let touches = if other == mask && mask.is_uniform() { 1 } else { 0 };
            range.start < secret.end.saturating_add(touches) && secret.start < range.end.saturating_add(touches)
        };
        let mut at = self.ranges.partition_point(|(range, _)| range.end < secret.start);
        while let Some((range, other)) = self.ranges.get(at).filter(|(range, _)| range.start <= secret.end) {
            if joins(range, *other, &secret) {
                secret = secret.start.min(range.start)..secret.end.max(range.end);
                self.ranges.remove(at);
            } else if range.end <= secret.start {
                at += 1;
            } else {
                break;
            }
        }
        // The tag is that of the given range.
        if secret != given {
            mask = mask.untagged();
        }
        self.ranges.insert(at, (secret, mask));
        if self.ranges.len() > REMEMBERED
            && let Some((oldest, _)) = self.ranges.pop_front()
        {
            self.forgotten = self.forgotten.max(oldest.end);
        }
    }

    /// Masks the secrets in `bytes`, which begin at `offset` of the stream; returns whether
    /// there were any.
    pub(super) fn mask(&self, offset: u64, bytes: &mut [u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        if offset < self.forgotten {
            Mask::PLAIN.cover(bytes);
            return true;
        }
        let end = offset.saturating_add(bytes.len() as u64);
        let first = self.ranges.partition_point(|(range, _)| range.end <= offset);
        let mut masked = false;
        for (range, mask) in self.ranges.range(first..).take_while(|(range, _)| range.start < end) {
            let (from, to) = (range.start.max(offset) - offset, range.end.min(end) - offset);
            let at = (offset + from).saturating_sub(range.start);
            mask.cover_part(range.end - range.start, at, &mut bytes[from as usize..to as usize]);
            masked = true;
        }
        masked
    }
}

/// Masks the tokens in what a wrapped server wrote to standard error. Returns whether there were
/// any. `data` is a pipe packet.
pub(super) fn mask_log(data: &mut [u8], key: Option<MaskKey>) -> bool {
    let Some((_, PipeEvent::Data(Pipe::Stderr, log))) = pipe::decode(data) else { return false };
    let found = secrets::in_text(log);
    for token in &found {
        let token = &mut data[pipe::HEAD + token.start..pipe::HEAD + token.end];
        Mask::of(key, token).cover(token);
    }
    !found.is_empty()
}

/// The state of a server's log between its packets.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// Whether the last packet ended within a line.
    is_within_line: bool,
}

/// Whether a pipe packet carries the log of a server.
pub(super) fn is_log(data: &[u8]) -> bool {
    matches!(pipe::decode(data), Some((_, PipeEvent::Data(Pipe::Stderr, _))))
}

/// Redacts what a pipe packet has besides messages: the command line, and the log. Returns whether
/// there was anything. A line of the log that is divided between packets is blanked, because a
/// value may be divided too.
pub(super) fn redact_pipe(data: &mut Vec<u8>, redaction: &Redaction, log: &mut Log) -> bool {
    match pipe::decode(data) {
        Some((process, PipeEvent::Start(mut start))) => {
            let before = start.command.clone();
            start.command.iter_mut().for_each(|word| *word = redaction.masked(word).into_owned());
            if start.command == before {
                return false;
            }
            data.clear();
            pipe::encode(process, &PipeEvent::Start(start), data);
            true
        }
        Some((_, PipeEvent::Data(Pipe::Stderr, text))) if !text.is_empty() => {
            let first = if log.is_within_line { memchr::memchr(b'\n', text).unwrap_or(text.len()) } else { 0 };
            let last = memchr::memrchr(b'\n', text).map_or(0, |feed| feed + 1).max(first);
            log.is_within_line = !text.ends_with(b"\n");
            let text = &mut data[pipe::HEAD..];
            text[..first].fill(MASK);
            text[last..].fill(MASK);
            redaction.mask(&mut text[first..last]) || first > 0 || last < text.len()
        }
        _ => false,
    }
}

/// The values of lines that look like a secret header, in text that no decoder understood: from
/// `authorization:` to the end of the line, continued lines (RFC 9112 section 5.2) included. The
/// name may be anywhere in the line, because masking too much is better than too little.
pub(super) fn secret_lines(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut done = 0;
    for colon in memchr::memchr_iter(b':', text) {
        if colon < done {
            continue;
        }
        let name = text[done..colon].iter().rev().take_while(|byte| is_token(**byte)).count();
        if http::is_secret(&text[colon - name..colon]) {
            let end = line_end(text, colon);
            found.push(colon + 1..end);
            done = end;
        }
    }
    found
}

/// The end of the line that contains `at`, without its line end; the end of the text if the
/// line has none.
pub(super) fn line_end(text: &[u8], at: usize) -> usize {
    let is_end = |feed: &usize| !matches!(text.get(feed + 1), Some(b' ' | b'\t'));
    let Some(feed) = memchr::memchr_iter(b'\n', &text[at..]).map(|feed| at + feed).find(is_end) else {
        return text.len();
    };
    if feed > at && text[feed - 1] == b'\r' { feed - 1 } else { feed }
}

/// Whether a byte may be part of a field name (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(text: &[u8]) -> String {
        let mut text = text.to_vec();
        for range in secret_lines(&text) {
            text[range].fill(b'*');
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn lines_that_look_like_a_secret_header_are_found() {
        assert_eq!(masked(b"a: b\r\nAUTHORIZATION: Bearer x\r\nc: d"), "a: b\r\nAUTHORIZATION:*********\r\nc: d");
        assert_eq!(masked(b"\x01\x02cookie:a\n b\nx: y"), "\x01\x02cookie:****\nx: y", "a continued line");
        assert_eq!(masked(b"Set-Cookie: x"), "Set-Cookie:**", "no line end");
        assert_eq!(masked(br#"{"token": "in JSON"}"#), r#"{"token": "in JSON"}"#);
        assert_eq!(masked(b":::"), ":::");
    }

    proptest! {
        /// Ranges of any number and order: every byte of a secret is masked, and no other byte
        /// while all are remembered.
        #[test]
        fn exactly_the_secret_bytes_are_masked(
            ranges in prop::collection::vec((0u64..300, 0u64..20), 0..200), offset in 0u64..300, length in 0usize..80,
        ) {
            let mut secrets = Secrets::default();
            for (start, length) in &ranges {
                secrets.insert(*start..start + length, Mask::PLAIN);
            }
            let mut bytes = vec![b'.'; length];
            let any = secrets.mask(offset, &mut bytes);
            prop_assert_eq!(any, bytes.contains(&b'*'));
            for (byte, at) in bytes.iter().zip(offset..) {
                let secret = ranges.iter().any(|(start, length)| (*start..start + length).contains(&at));
                prop_assert_eq!(*byte == b'*', secret);
            }
        }

        #[test]
        fn any_bytes_are_searched(text: Vec<u8>) {
            for range in secret_lines(&text) {
                prop_assert!(range.end <= text.len());
            }
        }
    }

    #[test]
    fn each_secret_has_its_mask() {
        let value = *b"abcdefghijklmnopqrstuvwx";
        let tagged = Mask::of(Some(MaskKey::new([7; 16])), &value);
        let mut whole = value;
        tagged.cover(&mut whole);
        let mut secrets = Secrets::default();
        secrets.insert(10..34, tagged);
        secrets.insert(34..36, Mask::PLAIN);
        secrets.insert(8..10, Mask::PLAIN);
        assert_eq!(secrets.ranges.len(), 3, "a tag ends its range");
        let expected = [b"a**".as_slice(), &whole, b"**b"].concat();
        // In one piece, and byte by byte.
        let mut bytes = [b"abc".as_slice(), &value, b"deb"].concat();
        assert!(secrets.mask(7, &mut bytes));
        assert_eq!(bytes, expected);
        for (at, byte) in bytes.iter_mut().enumerate() {
            secrets.mask(7 + at as u64, std::slice::from_mut(byte));
        }
        assert_eq!(bytes, expected);
        secrets.insert(10..34, tagged);
        assert!(secrets.mask(7, &mut bytes));
        assert_eq!(bytes, expected, "the same secret, decoded again");
        secrets.insert(33..35, tagged);
        assert!(secrets.mask(7, &mut bytes));
        assert_eq!(bytes, [b"a".as_slice(), &[b'*'; 28], b"b"].concat(), "no tag of another value");
    }

    #[test]
    fn below_what_was_forgotten_everything_is_masked() {
        let mut secrets = Secrets::default();
        for at in 0..=REMEMBERED as u64 {
            secrets.insert(at * 10..at * 10 + 1, Mask::PLAIN);
        }
        let mut late = *b"abcdef";
        assert!(secrets.mask(0, &mut late));
        assert_eq!(&late, b"******");
        let mut remembered = *b"abcdef";
        assert!(secrets.mask(9, &mut remembered));
        assert_eq!(&remembered, b"a*cdef");
    }
}
