//! Reads a stream of server-sent events as it arrives.

use std::time::Duration;

use crate::capture::Limits;
use crate::decode::Piece;
use crate::decode::sse::{Sse, SseEvent};

/// An event that contains data.
#[derive(Debug)]
pub(super) struct StreamEvent {
    /// The value of the `event` field.
    pub(super) kind: Option<String>,
    /// The data lines, joined.
    pub(super) data: Vec<u8>,
}

/// Parses events, and remembers where to resume the stream if it breaks.
#[derive(Debug)]
pub(super) struct SseReader {
    sse: Sse,
    /// The id of the last event that had one.
    pub(super) last_id: Option<String>,
    /// The pause before resuming, if the server gave one.
    pub(super) retry: Option<Duration>,
}

impl SseReader {
    pub(super) fn new() -> SseReader {
        SseReader { sse: Sse::new(Limits::default()), last_id: None, retry: None }
    }

    /// Parses the next bytes. Returns the complete events that contain data.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<StreamEvent> {
        let mut events = Vec::new();
        self.sse.push(Piece::Data(bytes), &mut |event| {
            if let SseEvent::Event(event) = event {
                self.last_id = event.id.map(str::to_owned).or(self.last_id.take());
                self.retry = event.retry.map(Duration::from_millis).or(self.retry);
                let kind = event.kind.map(str::to_owned);
                events.extend(event.data.map(|data| StreamEvent { kind, data: data.to_vec() }));
            }
        });
        events
    }

    /// Prepares for another response. An incomplete event of the previous one is discarded.
    pub(super) fn restart(&mut self) {
        self.sse = Sse::new(Limits::default());
    }
}
