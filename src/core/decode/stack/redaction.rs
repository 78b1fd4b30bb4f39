//! Redaction of texts, and of the bytes that carried them.
//!
//! ```text
//!  text          {"user":"[redacted string 5 9f3a6c21d0b8e457]"}     a stream of its own
//!                 copied  │ derived                            │ copied
//!  as sent       {"user":"alice"}                                    body, event data, line ...
//!  in packets    {"user":"*****"}
//! ```
//!
//! So each byte of a redacted text has an origin, as any other. Bytes that were derived on their
//! way (decompressed, unmasked) cannot be masked one by one. All that they were derived from is
//! masked.

use std::ops::Range;

use super::context::StackContext;
use crate::capture::{Origin, Span};
use crate::decode::Direction;
use crate::decode::mask::Mask;
use crate::decode::raw::Raw;
use crate::decode::stream::StreamKind;

impl StackContext<'_> {
    /// The text after redaction, and its address.
    pub(super) fn redacted(&mut self, direction: Direction, raw: Raw<'static>, span: Span) -> (Raw<'static>, Span) {
        let Some(redaction) = self.shared.options.redaction else { return (raw, span) };
        let Some(redacted) = redaction.message(&raw) else { return (raw, span) };
        let stream = match self.shared.redacted_streams.get(&span.stream) {
            Some(stream) => *stream,
            None => {
                let stream = self.open(StreamKind::Redacted(direction));
                self.shared.redacted_streams.insert(span.stream, stream);
                stream
            }
        };
        let start = self.shared.provenance.length(stream);
        self.forget(stream, start);
        let mut at = 0;
        for part in &redacted.parts {
            let (from, to) = (span.start + part.range.start as u64, span.start + part.range.end as u64);
            let copied = Origin::Copied { stream: span.stream, offset: span.start + at };
            self.shared.provenance.append(stream, from - span.start - at, copied);
            let derived = Origin::Derived(Span { start: from, end: to, ..span });
            self.shared.provenance.append(stream, part.new_length() as u64, derived);
            at = to - span.start;
            for (range, mask) in part.masks(self.shared.options.mask_key, &raw[part.range.clone()]) {
                let piece = Span { start: from + range.start as u64, end: from + range.end as u64, ..span };
                self.mask_span(direction, piece, mask);
            }
        }
        let copied = Origin::Copied { stream: span.stream, offset: span.start + at };
        self.shared.provenance.append(stream, span.len() - at, copied);
        let span = Span { stream, start, end: start + redacted.text.len() as u64 };
        (Raw::from(redacted.text.as_slice()).into_owned(), span)
    }

    /// Masks the bytes of the connection from which a span was made.
    pub(super) fn mask_span(&mut self, direction: Direction, span: Span, mask: Mask) {
        if !self.shared.options.store {
            return;
        }
        let side = self.connection.sender(direction);
        let mut sent = Vec::new();
        self.find_sent(span, Some(0), &mut sent);
        for (range, at) in sent {
            let mask = match at {
                Some(at) => mask.part(span.len() as usize, &(at..at + (range.end - range.start) as usize)),
                None => Mask::PLAIN,
            };
            self.secret(side, range, mask);
        }
    }

    /// If values are redacted: masks a span that gave no text.
    pub(super) fn mask_redacted(&mut self, direction: Direction, span: Span) {
        if self.shared.options.redaction.is_some() && !span.is_empty() {
            self.mask_span(direction, span, Mask::PLAIN);
        }
    }

    /// If values are redacted: masks bytes of the connection's stream that gave no text.
    pub(super) fn mask_content(&mut self, direction: Direction, range: Range<u64>) {
        if self.shared.options.redaction.is_some() {
            self.secret(self.connection.sender(direction), range, Mask::PLAIN);
        }
    }

    /// The ranges of the connection's stream from which a span was made, each with its position in
    /// the span; `None` if it was derived as a whole.
    fn find_sent(&self, span: Span, at: Option<usize>, found: &mut Vec<(Range<u64>, Option<usize>)>) {
        if self.shared.connection_streams.contains(&span.stream) {
            return found.push((span.start..span.end, at));
        }
        for part in self.shared.provenance.parents(span) {
            let at = at.map(|at| at + (part.start - span.start) as usize);
            match part.origin {
                Origin::Copied { stream, offset } => {
                    let below = Span { stream, start: offset, end: offset + part.end - part.start };
                    self.find_sent(below, at, found);
                }
                Origin::Derived(from) => self.find_sent(from, None, found),
                Origin::Packet { .. } | Origin::Missing => {}
            }
        }
    }
}
