//! The streams of a connection (RFC 9113 section 5.1), each of which is one exchange.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use crate::capture::steps::step;
use crate::decode::http::{ExchangeIndex, Head, HttpEvent};
use crate::decode::{Anomaly, Direction, Ending};

/// Receives the events.
pub(super) type Sink<'s> = dyn FnMut(HttpEvent<'_>) + 's;

/// Number of streams that are remembered after their end. Frames that were sent before a reset was
/// received may still arrive.
const REMEMBERED: usize = 256;

const BOTH: [Direction; 2] = [Direction::ClientToServer, Direction::ServerToClient];

/// The streams of a connection.
#[derive(Debug)]
pub(super) struct Streams {
    open: BTreeMap<u32, Stream>,
    /// Streams that one side reset. The other side may have sent more before it received the reset.
    resets: Resets,
    /// Streams that are over, oldest first.
    over: VecDeque<u32>,
    /// The number of exchanges so far.
    exchanges: u64,
    /// The largest stream id that a request opened.
    last: u32,
    /// For each direction, whether frames were lost, or were sent before the capture.
    lost: [bool; 2],
    /// For each direction, whether it has ended.
    finished: [bool; 2],
    /// The largest frame that the receiver of each direction announced. `None` while its SETTINGS
    /// were not captured.
    pub(super) frame_size: [Option<u32>; 2],
    limit: usize,
}

/// Bytes that a side may send after its system acknowledged a reset and before the side reads it:
/// the size of a socket's buffer.
const BUFFERED: u64 = 64 << 10;

/// The resets of open streams: at most one of each. Offsets of one side grow with their numbers, so
/// each question ends at the first reset that it does not concern.
#[derive(Debug, Default)]
struct Resets {
    /// By the side that reset the stream, and by number.
    open: BTreeMap<(Direction, u64), Reset>,
    /// The number of resets so far.
    count: u64,
    /// For each side, the number of its first reset that the other side has not acknowledged.
    unacknowledged: [u64; 2],
}

/// A stream that one side reset.
#[derive(Clone, Copy, Debug)]
struct Reset {
    /// Offset after the RST_STREAM frame.
    offset: u64,
    stream: u32,
    /// Offset in the other direction from which on no frame of the stream is expected. It is known
    /// once the reset was acknowledged.
    until: Option<u64>,
}

impl Resets {
    /// Adds a reset. Returns its key.
    fn add(&mut self, by: Direction, offset: u64, stream: u32) -> (Direction, u64) {
        self.count += 1;
        self.open.insert((by, self.count), Reset { offset, stream, until: None });
        (by, self.count)
    }

    /// Notes that the other side had acknowledged the resets of this side up to the offset
    /// `acknowledged`, when it sent the byte at `sent` of its own direction.
    fn acknowledge(&mut self, by: Direction, acknowledged: u64, sent: u64) {
        let first = &mut self.unacknowledged[by as usize];
        let later = self.open.range_mut((by, *first)..=(by, u64::MAX));
        for ((_, number), reset) in later.take_while(|(_, reset)| reset.offset <= acknowledged) {
            step();
            reset.until = Some(sent.saturating_add(BUFFERED));
            *first = number + 1;
        }
    }

    /// The oldest reset of this side.
    fn oldest_by(&self, by: Direction) -> Option<(u64, Reset)> {
        self.open.range((by, 0)..=(by, u64::MAX)).next().map(|((_, number), reset)| (*number, *reset))
    }

    /// The stream that was reset first.
    fn oldest(&self) -> Option<u32> {
        let oldest = BOTH.into_iter().filter_map(|by| self.oldest_by(by));
        oldest.min_by_key(|(number, _)| *number).map(|(_, reset)| reset.stream)
    }
}

/// An open stream of the connection.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) exchange: ExchangeIndex,
    /// For each direction, whether its final head was captured.
    pub(super) headed: [bool; 2],
    ended: [bool; 2],
    /// For each direction, whether bytes may be missing.
    damaged: [bool; 2],
    /// The key of its reset.
    reset: Option<(Direction, u64)>,
}

impl Streams {
    pub(super) fn new(limit: usize) -> Streams {
        Streams {
            open: BTreeMap::new(),
            resets: Resets::default(),
            over: VecDeque::new(),
            exchanges: 0,
            last: 0,
            lost: [false; 2],
            finished: [false; 2],
            frame_size: [None; 2],
            limit: limit.max(1),
        }
    }

    /// Opens stream 1 after an upgrade from HTTP/1.1. RFC 7540 section 3.2: "The HTTP/1.1 request
    /// that is sent prior to upgrade is assigned a stream identifier of 1 ... Stream 1 is
    /// implicitly "half-closed" from the client toward the server".
    pub(super) fn upgraded(&mut self, exchange: ExchangeIndex) {
        let stream = Stream { headed: [true, false], ended: [true, false], ..Stream::new(exchange) };
        self.open.insert(1, stream);
        self.last = 1;
        self.exchanges = exchange.0 + 1;
    }

    /// The stream of a head in this direction, and whether the head opened it. `None` for a stream
    /// that is over.
    pub(super) fn stream_of_head(
        &mut self,
        id: u32,
        direction: Direction,
        sink: &mut Sink<'_>,
    ) -> Option<(&mut Stream, bool)> {
        let is_new = !self.open.contains_key(&id);
        if is_new {
            let is_push = id.is_multiple_of(2);
            let is_later = id > self.last || self.lost[Direction::ClientToServer as usize];
            match direction {
                // RFC 9113 section 5.1.1: "Streams initiated by a client MUST use odd-numbered
                // stream identifiers".
                Direction::ClientToServer if is_push => return None,
                _ if self.over.contains(&id) || !(is_later || is_push) => return None,
                Direction::ClientToServer => self.last = self.last.max(id),
                Direction::ServerToClient => {}
            }
            self.make_room(sink);
            self.exchanges += 1;
            self.open.insert(id, Stream::new(ExchangeIndex(self.exchanges - 1)));
        }
        self.open.get_mut(&id).map(|stream| (stream, is_new))
    }

    /// The exchange of a stream whose head in this direction was captured.
    pub(super) fn exchange(&self, id: u32, direction: Direction) -> Option<ExchangeIndex> {
        let stream = self.open.get(&id)?;
        (stream.headed[direction as usize] && !stream.ended[direction as usize]).then_some(stream.exchange)
    }

    /// The exchange of a stream with content at `offset` but without a head. The head was lost, so
    /// an unseen one is emitted.
    pub(super) fn open_headless(
        &mut self,
        id: u32,
        direction: Direction,
        offset: u64,
        sink: &mut Sink<'_>,
    ) -> Option<ExchangeIndex> {
        let (stream, _) = self.stream_of_head(id, direction, sink)?;
        if stream.ended[direction as usize] || std::mem::replace(&mut stream.headed[direction as usize], true) {
            return None;
        }
        let (exchange, head) = (stream.exchange, Box::new(Head::unseen(direction, offset, "2")));
        sink(HttpEvent::Head { exchange, direction, stream: Some(id), head });
        Some(exchange)
    }

    /// The exchange of a stream that is not over.
    pub(super) fn open(&self, id: u32) -> Option<ExchangeIndex> {
        self.open.get(&id).map(|stream| stream.exchange)
    }

    /// Notes that bytes of a stream's content are missing.
    pub(super) fn damage(&mut self, id: u32, direction: Direction) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.damaged[direction as usize] = true;
        }
    }

    /// Notes that the capture begins inside the connection. Any stream may be open.
    pub(super) fn begin_midway(&mut self) {
        self.lost = [true; 2];
    }

    /// Notes that frames of this direction were lost, possibly of any stream.
    pub(super) fn lose(&mut self, direction: Direction, sink: &mut Sink<'_>) {
        self.lost[direction as usize] = true;
        for stream in self.open.values_mut() {
            if stream.headed[direction as usize] && !stream.ended[direction as usize] {
                stream.damaged[direction as usize] = true;
                sink(HttpEvent::ContentGap { exchange: stream.exchange, direction, length: None });
            }
        }
    }

    /// Handles END_STREAM: a side sends nothing more on a stream.
    pub(super) fn end(&mut self, id: u32, direction: Direction, sink: &mut Sink<'_>) {
        if let Some(stream) = self.open.get_mut(&id) {
            let complete = stream.headed[direction as usize] && !stream.damaged[direction as usize];
            stream.end(direction, complete, Ending::Finished, sink);
            self.remove_if_over(id);
        }
    }

    /// Handles RST_STREAM. The frame ends at this offset.
    pub(super) fn reset(&mut self, id: u32, direction: Direction, offset: u64, sink: &mut Sink<'_>) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.end(direction, false, Ending::Reset, sink);
            // Once for a stream, so there are no more resets than open streams.
            if stream.reset.is_none() {
                stream.reset = Some(self.resets.add(direction, offset, id));
            }
            self.remove_if_over(id);
        }
    }

    /// Notes that the sender at this offset of this direction had acknowledged the other direction
    /// up to `acknowledged`.
    pub(super) fn note_acknowledged(&mut self, direction: Direction, offset: u64, acknowledged: u64) {
        self.resets.acknowledge(direction.reversed(), acknowledged, offset);
    }

    /// Handles the beginning of a frame at this offset of this direction: ends streams whose reset
    /// was received well before.
    pub(super) fn end_resets(&mut self, direction: Direction, offset: u64, sink: &mut Sink<'_>) {
        while let Some((_, reset)) = self.resets.oldest_by(direction.reversed())
            && reset.until.is_some_and(|until| until <= offset)
        {
            self.end_both_directions(reset.stream, Ending::Reset, sink);
        }
    }

    /// Ends both directions of a stream.
    fn end_both_directions(&mut self, id: u32, ending: Ending, sink: &mut Sink<'_>) {
        if let Some(stream) = self.open.get_mut(&id) {
            BOTH.into_iter().for_each(|direction| stream.end(direction, false, ending, sink));
            self.remove_if_over(id);
        }
    }

    /// Handles the end of this direction.
    pub(super) fn finish(&mut self, direction: Direction, ending: Ending, sink: &mut Sink<'_>) {
        self.finished[direction as usize] = true;
        // Streams that this direction opened last have no one to end the other direction.
        let finished = self.finished;
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            if let Some(stream) = self.open.get_mut(&id) {
                for direction in BOTH.into_iter().filter(|direction| finished[*direction as usize]) {
                    stream.end(direction, false, ending, sink);
                }
                self.remove_if_over(id);
            }
        }
    }

    /// Number of open streams.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Ends the oldest stream where there are too many.
    fn make_room(&mut self, sink: &mut Sink<'_>) {
        if self.open.len() < self.limit {
            return;
        }
        if let Some(id) = self.resets.oldest() {
            return self.end_both_directions(id, Ending::Reset, sink);
        }
        if let Some((&oldest, stream)) = self.open.first_key_value() {
            let (exchange, direction) = (Some(stream.exchange), Direction::ClientToServer);
            let anomaly = Anomaly::LimitReached { limit: "pipelined", offset: 0 };
            sink(HttpEvent::Anomaly { direction, exchange, anomaly });
            self.end_both_directions(oldest, Ending::Cut, sink);
        }
    }

    /// Removes a stream that is over.
    fn remove_if_over(&mut self, id: u32) {
        if let Entry::Occupied(stream) = self.open.entry(id)
            && stream.get().ended == [true, true]
        {
            if let Some(reset) = stream.remove().reset {
                self.resets.open.remove(&reset);
            }
            if self.over.len() >= REMEMBERED {
                self.over.pop_front();
            }
            self.over.push_back(id);
        }
    }
}

impl Stream {
    fn new(exchange: ExchangeIndex) -> Stream {
        Stream { exchange, headed: [false; 2], ended: [false; 2], damaged: [false; 2], reset: None }
    }

    /// Ends a direction of the stream, once.
    fn end(&mut self, direction: Direction, complete: bool, ending: Ending, sink: &mut Sink<'_>) {
        if !std::mem::replace(&mut self.ended[direction as usize], true) {
            sink(HttpEvent::End { exchange: self.exchange, direction, complete, ending });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_reset_over_and_over_is_stored_once() {
        let mut streams = Streams::new(10);
        let mut ends = 0;
        let sink: &mut Sink<'_> = &mut |event| ends += u64::from(matches!(event, HttpEvent::End { .. }));
        streams.stream_of_head(1, Direction::ClientToServer, sink);
        for offset in 0..1000 {
            streams.reset(1, Direction::ClientToServer, offset, sink);
        }
        assert_eq!((streams.resets.open.len(), streams.len()), (1, 1), "the server may not have seen it");
        streams.reset(1, Direction::ServerToClient, 0, sink);
        assert_eq!((streams.resets.open.len(), streams.len()), (0, 0));
        assert_eq!(ends, 2);
    }
}
