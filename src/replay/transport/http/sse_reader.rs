//! A stream of server-sent events as it comes.

use std::time::Duration;

use crate::capture::Limits;
use crate::decode::Piece;
use crate::decode::sse::{Sse, SseEvent};

/// What an event says that matters here.
#[derive(Debug)]
pub(super) struct StreamEvent {
    /// The `event` field.
    pub(super) kind: Option<String>,
    /// The data lines joined.
    pub(super) data: Vec<u8>,
}

/// Events, and where to go on when the stream breaks.
#[derive(Debug)]
pub(super) struct SseReader {
    sse: Sse,
    /// The id of the last event that had one.
    pub(super) last_id: Option<String>,
    /// How long to wait before going on.
    pub(super) retry: Option<Duration>,
}

impl SseReader {
    /// At the beginning.
    pub(super) fn new() -> SseReader {
        SseReader { sse: Sse::new(Limits::default()), last_id: None, retry: None }
    }

    /// Takes the next bytes: the events with data that they complete.
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

    /// What comes from now on is of another response: what was pending belongs to nothing that follows.
    pub(super) fn restart(&mut self) {
        self.sse = Sse::new(Limits::default());
    }
}
