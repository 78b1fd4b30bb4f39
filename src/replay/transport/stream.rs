//! A stream of server-sent events as it is read.

use std::io::Read;
use std::time::Duration;

use crate::capture::Limits;
use crate::decode::sse::{Sse, SseEvent};
use crate::decode::{Ending, Piece};

/// What an event says that matters here.
#[derive(Debug)]
pub struct Event {
    /// The `event` field.
    pub kind: Option<String>,
    /// The data lines joined; `None` where there is none.
    pub data: Option<Vec<u8>>,
}

/// Events, and where to go on when the stream breaks.
#[derive(Debug)]
pub struct Stream {
    sse: Sse,
    /// The id of the last event that had one.
    pub last_id: Option<String>,
    /// How long to wait before going on.
    pub retry: Option<Duration>,
}

impl Stream {
    /// At the beginning.
    pub fn new() -> Stream {
        Stream { sse: Sse::new(Limits::default()), last_id: None, retry: None }
    }

    /// Reads a body to its end, or until `take` has enough. Whether the end was a proper one is not said: SSE has none.
    pub fn read(&mut self, body: &mut dyn Read, take: &mut dyn FnMut(Event) -> bool) {
        let mut buffer = vec![0; 16 << 10];
        let mut more = true;
        while more {
            let piece = match body.read(&mut buffer) {
                Ok(0) | Err(_) => Piece::End(Ending::Finished),
                Ok(count) => Piece::Data(&buffer[..count]),
            };
            let last = matches!(piece, Piece::End(_));
            let mut events = Vec::new();
            self.sse.push(piece, &mut |event| {
                if let SseEvent::Event(event) = event {
                    self.last_id = event.id.map(str::to_owned).or(self.last_id.take());
                    self.retry = event.retry.map(Duration::from_millis).or(self.retry);
                    events.push(Event { kind: event.kind.map(str::to_owned), data: event.data.map(<[u8]>::to_vec) });
                }
            });
            // Not stopped between the events of one piece: all of them have been read.
            more = events.into_iter().fold(!last, |more, event| take(event) && more);
        }
        // Whatever was pending belongs to nothing that follows.
        self.sse = Sse::new(Limits::default());
    }
}
