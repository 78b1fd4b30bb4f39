//! The façade of the crate: packets in, events out, and queries for the origin of bytes.

use crate::capture::{Limits, PacketRange, Span, StreamPart};
use crate::decode::mask::MaskKey;
use crate::event::{Detail, Event};
use crate::pipeline::{self, Input, Pipeline};

/// Settings of a [`Decoder`]. Begin with `Options::default()` and change what you need.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// The bounds on memory and waiting times. [`Limits::live`] suits a live capture.
    pub limits: Limits,
    /// Leaves passwords, tokens and cookies in HTTP header fields as they are. By default each of
    /// their bytes is masked.
    pub keep_secrets: bool,
    /// The key of the tags of masked values: equal values have equal tags. Give random bytes, and
    /// keep them apart from the output. Without a key there are no tags.
    pub mask_key: Option<MaskKey>,
    /// Computes the SHA-256 of each HTTP body ([`Half::body_sha256`](crate::Half::body_sha256)).
    pub hash_bodies: bool,
}

/// Decodes the packets of one capture. It does no input or output, starts no thread and
/// reads no clock.
///
/// # Provenance
///
/// The [`Span`] of a message is an address in a stream. That is an HTTP body, the data of
/// server-sent events, or a pipe. [`Decoder::parents`] returns the parts of the stream with their
/// origins. [`Decoder::packet_ranges`] follows the origins down to packets.
///
/// A query is possible from the moment an event is returned. The decoder retains the latest
/// [`Limits::retained_parts`] parts that decoding needs no longer; older parts are discarded. Each
/// TCP segment with data makes a part, and so does each piece of a stream above TCP. Query when the
/// event is returned to be sure of a result.
#[derive(Debug)]
pub struct Decoder {
    pipeline: Pipeline,
}

impl Decoder {
    /// A decoder at the first packet of a capture.
    pub fn new(Options { limits, keep_secrets, mask_key, hash_bodies: hash }: Options) -> Decoder {
        let mut pipeline = Pipeline::new(pipeline::PipelineConfig {
            limits,
            detail: Detail::Messages,
            hash,
            keep_secrets,
            mask_key,
            redaction: None,
        });
        pipeline.retain_parts(limits.retained_parts);
        Decoder { pipeline }
    }

    /// Takes the next input. Returns the events that it completes, in order. Nothing may follow
    /// [`Input::End`].
    pub fn push(&mut self, input: Input<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        self.pipeline.push(input, &mut |event| events.push(event));
        events
    }

    /// The parts that make up `span`, one layer down, in order.
    pub fn parents(&self, span: Span) -> impl Iterator<Item = StreamPart> + '_ {
        self.pipeline.provenance().parents(span)
    }

    /// The packet ranges that make up `span`, in the order of its bytes.
    ///
    /// If every part was copied, the bytes of these ranges, joined, are the bytes of the span. If a
    /// part was derived (decompressed or decrypted), the ranges of all bytes that it was computed
    /// from are returned. Missing bytes have no range.
    pub fn packet_ranges(&self, span: Span) -> Vec<PacketRange> {
        self.pipeline.provenance().packet_ranges(span)
    }
}
