//! Data of a connection that a store needs only if a session claims the connection.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::tracked::TrackedSink;
use crate::capture::{StreamId, StreamPart};
use crate::decode::ConnectionId;
use crate::event::{Event, Stream, StreamKind};
use crate::findings::{Finding, transport};
use crate::mcp::SessionNumber;

/// The streams of a connection that no session claims so far, and their parts.
#[derive(Debug, Default)]
pub(super) struct Unclaimed {
    streams: VecDeque<Stream>,
    parts: VecDeque<(StreamId, StreamPart)>,
    plaintext: VecDeque<(StreamId, u64, Vec<u8>)>,
    /// The bytes in `plaintext`.
    plaintext_bytes: usize,
    /// Decrypted bytes that were discarded, because more than the limit was buffered.
    discarded_bytes: u64,
    /// The TLS secrets, as lines of a key log.
    keys: Option<(ConnectionId, String)>,
}

impl Unclaimed {
    /// Streams buffered: those of some hundred exchanges. Above, the oldest are discarded. A
    /// message can only be in the latest.
    const STREAMS: usize = 1_024;

    /// Stream parts buffered.
    const PARTS: usize = 4 * Self::STREAMS;

    pub(super) fn stream(&mut self, stream: Stream) {
        if self.streams.len() >= Self::STREAMS {
            // The streams of TCP, TLS and pipes remain: the parts of all other streams refer to
            // them.
            let is_above = |stream: &Stream| {
                !matches!(stream.kind, StreamKind::Tcp(_) | StreamKind::Plaintext(_) | StreamKind::Pipe(_))
            };
            let oldest = self.streams.iter().position(is_above);
            oldest.and_then(|oldest| self.streams.remove(oldest));
        }
        self.streams.push_back(stream);
    }

    pub(super) fn part(&mut self, stream: StreamId, part: StreamPart) {
        if self.parts.len() >= Self::PARTS {
            self.parts.pop_front();
        }
        self.parts.push_back((stream, part));
    }

    /// Buffers decrypted bytes of TLS, at most the latest `most` bytes.
    pub(super) fn plaintext(&mut self, stream: StreamId, start: u64, bytes: Vec<u8>, most: usize) {
        self.plaintext_bytes += bytes.len();
        self.plaintext.push_back((stream, start, bytes));
        while self.plaintext_bytes > most || self.plaintext.len() > Self::STREAMS {
            let Some((_, _, oldest)) = self.plaintext.pop_front() else { break };
            self.plaintext_bytes -= oldest.len();
            self.discarded_bytes += oldest.len() as u64;
        }
    }

    /// Buffers TLS secrets. They are emitted once, when the connection closed.
    pub(super) fn keys(&mut self, connection: ConnectionId, lines: String) {
        self.keys = Some((connection, lines));
    }

    /// Emits the buffered data, because a session claims the connection. A finding reports
    /// the bytes that were discarded before.
    pub(super) fn claim(&mut self, connection: ConnectionId, session: SessionNumber, emit: &mut TrackedSink<'_>) {
        let Unclaimed { streams, parts, plaintext, keys, discarded_bytes, .. } = std::mem::take(self);
        if discarded_bytes > 0 {
            let finding = transport::plaintext_not_kept(connection, discarded_bytes);
            emit(Event::Finding(Box::new(Finding { session: Some(session), ..finding })).into());
        }
        let emitted: FxHashSet<StreamId> = streams.iter().map(|stream| stream.id).collect();
        streams.into_iter().for_each(|stream| emit(Event::Stream(stream).into()));
        for (stream, part) in parts.into_iter().filter(|(stream, _)| emitted.contains(stream)) {
            emit(Event::Part(stream, part).into());
        }
        for (stream, start, bytes) in plaintext.into_iter().filter(|(stream, ..)| emitted.contains(stream)) {
            emit(Event::Plaintext(stream, start, bytes).into());
        }
        keys.into_iter().for_each(|(connection, lines)| emit(Event::Keys(connection, lines).into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Side;
    use crate::pipeline::tracked::Tracked;

    /// The events after six bytes were decrypted, of which four may wait.
    fn claimed(pieces: &[&[u8]]) -> Vec<Event> {
        let (connection, id) = (ConnectionId(7), StreamId(1));
        let mut unclaimed = Unclaimed::default();
        unclaimed.stream(Stream { id, connection, kind: StreamKind::Plaintext(Side::First) });
        let mut start = 0;
        for piece in pieces {
            unclaimed.plaintext(id, start, piece.to_vec(), 4);
            start += piece.len() as u64;
        }
        let mut events = Vec::new();
        unclaimed.claim(connection, SessionNumber(1), &mut |tracked| match tracked {
            Tracked::Event(event) => events.push(event),
            other => panic!("{other:?} is no event"),
        });
        events
    }

    #[test]
    fn decrypted_bytes_that_were_discarded_are_reported() {
        let [Event::Finding(finding), Event::Stream(_), Event::Plaintext(_, 3, rest)] = &claimed(&[b"abc", b"def"])[..]
        else {
            panic!("a finding, then the rest")
        };
        assert_eq!(rest, b"def");
        assert!(finding.text.starts_with("3 decrypted bytes from the start of connection 7 were not kept"));
        assert!(matches!(claimed(&[b"ab", b"cd"])[..], [Event::Stream(_), Event::Plaintext(..), Event::Plaintext(..)]));
    }
}
