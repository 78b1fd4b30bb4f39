//! The façade: packets in, events out, and queries for where bytes came from.

use crate::capture::{Limits, PacketRange, Part, Span};
use crate::event::{Detail, Event};
use crate::pipeline::{self, Input, Pipeline};

/// Settings of a [`Decoder`]. Begin with `Options::default()` and change what you need.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Options {
    /// Bounds on memory. [`Limits::live`] suits packets that are decoded as they are captured.
    pub limits: Limits,
    /// Leaves passwords, tokens and cookies in HTTP header fields as they are. Otherwise each of their bytes is masked.
    pub keep_secrets: bool,
    /// Computes the SHA-256 of each HTTP content ([`Half::body_sha256`](crate::Half::body_sha256)).
    pub hash_bodies: bool,
}

/// Decodes the packets of one capture. It does no input or output, starts no thread and reads no clock.
///
/// # Provenance
///
/// The [`Span`] of a message names bytes of a stream: an HTTP body, the data of server-sent events, or a pipe. [`Decoder::parents`]
/// returns the parts of the stream below that they were taken from; [`Decoder::packet_ranges`] follows such parts down to packets.
///
/// Both answer from the moment an event is returned. Parts that decoding needs no longer are retained for queries, the latest
/// [`Limits::retained_parts`] of them, and then forgotten. Each TCP segment with data makes a part, and so does each piece of a stream above TCP. To
/// be sure of an answer, ask when the event comes.
#[derive(Debug)]
pub struct Decoder {
    pipeline: Pipeline,
}

impl Decoder {
    /// A decoder at the first packet of a capture.
    pub fn new(Options { limits, keep_secrets, hash_bodies: hash }: Options) -> Decoder {
        let mut pipeline = Pipeline::new(pipeline::Options { limits, detail: Detail::Messages, hash, keep_secrets });
        pipeline.retain_parts(limits.retained_parts);
        Decoder { pipeline }
    }

    /// Takes the next input and returns the events that it completes, in order. Nothing may follow [`Input::End`].
    pub fn push(&mut self, input: Input<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        self.pipeline.push(input, &mut |event| events.push(event));
        events
    }

    /// The parts that make up `span`, one layer down, in order.
    pub fn parents(&self, span: Span) -> impl Iterator<Item = Part> + '_ {
        self.pipeline.provenance().parents(span)
    }

    /// The ranges of packets that make up `span`, in the order of its bytes.
    ///
    /// Where every part was copied, the bytes of these ranges, joined, are the bytes of the span. Where one was derived (inflated or decrypted), all
    /// bytes that it was made from are returned for it. Nothing is returned for missing bytes.
    pub fn packet_ranges(&self, span: Span) -> Vec<PacketRange> {
        self.pipeline.provenance().packet_ranges(span)
    }
}
