//! What a store may want of a connection, until it is known whether a session claims it.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::{Sink, Unit};
use crate::capture::{Part, StreamId};
use crate::decode::stream::{Stream, StreamKind};

/// Streams and parts of a connection, held until it is known whether anybody wants them.
#[derive(Debug, Default)]
pub(super) struct Kept {
    kept: bool,
    streams: VecDeque<Stream>,
    parts: VecDeque<(StreamId, Part)>,
    plaintext: VecDeque<(StreamId, u64, Vec<u8>)>,
    /// Bytes of that.
    plaintext_bytes: usize,
}

impl Kept {
    /// Streams held for a connection that no session claimed yet: those of some hundred exchanges. Beyond, the oldest are forgotten: what may be a
    /// message stands in the latest.
    const HELD: usize = 1_024;

    /// Their parts that are held.
    const PARTS: usize = 4 * Self::HELD;

    /// Whether a session claims the connection.
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(super) fn stream(&mut self, stream: Stream, sink: &mut Sink<'_>) {
        if self.kept {
            return sink(Unit::Stream(stream));
        }
        if self.streams.len() >= Self::HELD {
            // The streams below stay: what stands in the others stands in them, too.
            let is_above = |stream: &Stream| {
                !matches!(stream.kind, StreamKind::Tcp(_) | StreamKind::Plaintext(_) | StreamKind::Pipe(_))
            };
            let oldest = self.streams.iter().position(is_above);
            oldest.and_then(|oldest| self.streams.remove(oldest));
        }
        self.streams.push_back(stream);
    }

    pub(super) fn part(&mut self, stream: StreamId, part: Part, sink: &mut Sink<'_>) {
        if self.kept {
            return sink(Unit::Part(stream, part));
        }
        if self.parts.len() >= Self::PARTS {
            self.parts.pop_front();
        }
        self.parts.push_back((stream, part));
    }

    /// Bytes that TLS carried; of a connection that no session claimed yet the latest, `most` bytes of them.
    pub(super) fn plaintext(&mut self, stream: StreamId, start: u64, bytes: Vec<u8>, most: usize, sink: &mut Sink<'_>) {
        if self.kept {
            return sink(Unit::Plaintext(stream, start, bytes));
        }
        self.plaintext_bytes += bytes.len();
        self.plaintext.push_back((stream, start, bytes));
        while self.plaintext_bytes > most || self.plaintext.len() > Self::HELD {
            let Some((_, _, oldest)) = self.plaintext.pop_front() else { break };
            self.plaintext_bytes -= oldest.len();
        }
    }

    pub(super) fn keep(&mut self, sink: &mut Sink<'_>) {
        self.kept = true;
        let known: FxHashSet<StreamId> = self.streams.iter().map(|stream| stream.id).collect();
        self.streams.drain(..).for_each(|stream| sink(Unit::Stream(stream)));
        for (stream, part) in self.parts.drain(..).filter(|(stream, _)| known.contains(stream)) {
            sink(Unit::Part(stream, part));
        }
        self.plaintext_bytes = 0;
        for (stream, start, bytes) in self.plaintext.drain(..).filter(|(stream, ..)| known.contains(stream)) {
            sink(Unit::Plaintext(stream, start, bytes));
        }
    }
}
