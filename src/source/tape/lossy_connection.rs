//! Recording a connection between others on a tape, without delaying it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::entry::{self, TapeEvent};
use super::{Tape, TapeConnection};
use crate::capture::Time;

/// The loss counter shared by all lossy connections of a tape.
#[derive(Clone, Debug, Default)]
pub struct LostBytes {
    bytes: Arc<AtomicU64>,
    /// The last wait for the recorder was in vain.
    stuck: Arc<AtomicBool>,
}

impl LostBytes {
    /// Bytes that passed unrecorded.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A connection whose traffic must not wait for the recorder. It waits only as long as the recorder
/// or the disk takes something, and once for half a second when they take nothing. Bytes for which
/// there is no room are counted, and the record contains a gap there.
#[derive(Debug)]
pub struct LossyTapeConnection {
    tape: Tape,
    connection: TapeConnection,
    /// Client and server, until they are on the tape.
    ends: Option<(SocketAddr, SocketAddr)>,
    /// Bytes that the client sent and received since the last recorded entry, and that
    /// were not recorded.
    lost: [u64; 2],
    loss: LostBytes,
}

impl LossyTapeConnection {
    /// A connection that began at this time, from `client` to `server`.
    pub fn open(
        tape: &Tape,
        loss: &LostBytes,
        time: Time,
        client: SocketAddr,
        server: SocketAddr,
    ) -> LossyTapeConnection {
        let (tape, connection) = (tape.clone(), tape.begin());
        let mut track =
            LossyTapeConnection { tape, connection, ends: Some((client, server)), lost: [0; 2], loss: loss.clone() };
        track.append_missing(time);
        track
    }

    /// Notes bytes that the client sent.
    pub fn sent(&mut self, time: Time, bytes: &[u8]) {
        self.data(0, time, &TapeEvent::Sent(bytes));
    }

    /// Notes bytes for the client.
    pub fn received(&mut self, time: Time, bytes: &[u8]) {
        self.data(1, time, &TapeEvent::Received(bytes));
    }

    fn data(&mut self, side: usize, time: Time, event: &TapeEvent<'_>) {
        let length = event.bytes().len() as u64;
        if length == 0 || (self.append_missing(time) && self.append(time, event)) {
            return;
        }
        self.lost[side] += length;
        self.loss.bytes.fetch_add(length, Ordering::Relaxed);
    }

    /// Notes what must come before anything else: the opening, and the bytes lost. Returns whether
    /// that is on the tape.
    fn append_missing(&mut self, time: Time) -> bool {
        if let Some((client, server)) = self.ends {
            if !self.append(time, &TapeEvent::Open(client, server)) {
                return false;
            }
            self.ends = None;
        }
        if self.lost != [0; 2] {
            if !self.append(time, &TapeEvent::Lost(self.lost)) {
                return false;
            }
            self.lost = [0; 2];
        }
        true
    }

    fn append(&mut self, time: Time, event: &TapeEvent<'_>) -> bool {
        let is_stuck = self.loss.stuck.load(Ordering::Relaxed);
        let encode = |out: &mut Vec<u8>| entry::encode(self.connection, event, out);
        let is_taken = self.tape.writer().append(time, event.most_bytes(), is_stuck, encode);
        if is_stuck == is_taken {
            self.loss.stuck.store(!is_taken, Ordering::Relaxed);
        }
        is_taken
    }
}

impl Drop for LossyTapeConnection {
    fn drop(&mut self) {
        let time = crate::source::now();
        if self.append_missing(time) {
            self.append(time, &TapeEvent::Close);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::overflow::Overflow;
    use crate::source::queue::QUEUE_LIMIT;
    use crate::source::tape::{TapeSource, tape};
    use crate::source::{Item, Source};

    static PIECE: [u8; 64 << 10] = [b'x'; 64 << 10];

    /// The next segment that has a payload: its sequence number and its payload. `None` at the end.
    fn next_segment(tape_source: &mut TapeSource) -> Option<(u32, Vec<u8>)> {
        loop {
            if let Item::Packet(packet) = tape_source.next().unwrap()?
                && packet.data.len() > 40
            {
                let number = u32::from_be_bytes(packet.data[24..28].try_into().unwrap());
                return Some((number, packet.data[40..].to_vec()));
            }
        }
    }

    #[test]
    fn nobody_waits_for_long_and_what_is_missing_is_said_in_its_place() {
        let (tape, mut tape_source) = tape();
        let (loss, address, time) = (LostBytes::default(), "127.0.0.1:80".parse().unwrap(), Time(7));
        let mut track = LossyTapeConnection::open(&tape, &loss, time, address, address);
        (0..2 * QUEUE_LIMIT / PIECE.len()).for_each(|_| track.sent(time, &PIECE));
        let lost = loss.bytes();
        assert!((QUEUE_LIMIT as u64..(QUEUE_LIMIT + (1 << 20)) as u64).contains(&lost), "{lost}");
        // Recording resumes as soon as there is much room.
        let (mut next, mut bytes) = (0, 0);
        while bytes < QUEUE_LIMIT * 3 / 4 {
            let (number, payload) = next_segment(&mut tape_source).unwrap();
            assert_eq!(number, next + 1, "no gap yet");
            (next, bytes) = (next + payload.len() as u32, bytes + payload.len());
        }
        track.sent(time, b"later");
        drop((track, tape));
        let mut last = None;
        while let Some((number, payload)) = next_segment(&mut tape_source) {
            let gap = number - 1 - next;
            last = Some((u64::from(gap), payload.clone()));
            (next, bytes) = (number - 1 + payload.len() as u32, bytes + payload.len());
        }
        assert_eq!(last, Some((lost, b"later".to_vec())));
        assert_eq!(bytes as u64 + lost, (2 * QUEUE_LIMIT + 5) as u64);
        assert_eq!(loss.bytes(), lost);
    }

    #[test]
    fn what_memory_has_no_room_for_waits_on_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (tape, tape_source) = tape();
        let mut tape_source = tape_source.with_overflow(Overflow::new(folder.path(), true)).unwrap();
        let (loss, address, time) = (LostBytes::default(), "127.0.0.1:80".parse().unwrap(), Time(7));
        let mut track = LossyTapeConnection::open(&tape, &loss, time, address, address);
        let pieces = 3 * QUEUE_LIMIT / PIECE.len();
        for number in 0..pieces as u64 {
            let mut piece = PIECE;
            piece[..8].copy_from_slice(&number.to_le_bytes());
            track.received(time, &piece);
        }
        drop((track, tape));
        assert_eq!(loss.bytes(), 0);
        let mut received = Vec::new();
        while let Some((_, payload)) = next_segment(&mut tape_source) {
            received.extend_from_slice(&payload);
        }
        let numbers = received.chunks(PIECE.len()).map(|piece| u64::from_le_bytes(piece[..8].try_into().unwrap()));
        assert!(numbers.eq(0..pieces as u64));
    }

    #[test]
    fn without_a_recorder_nothing_waits() {
        let (tape, tape_source) = tape();
        drop(tape_source);
        let (loss, address) = (LostBytes::default(), "[::1]:80".parse().unwrap());
        let mut track = LossyTapeConnection::open(&tape, &loss, Time(7), address, address);
        (0..1_000).for_each(|_| track.received(Time(7), b"x"));
        assert_eq!(loss.bytes(), 1_000);
    }
}
