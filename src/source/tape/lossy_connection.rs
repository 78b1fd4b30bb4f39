//! Recording a connection between others on a tape, without delaying it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Tape, TapeConnection, TapeEntry, TapeEvent};
use crate::capture::Time;

/// The time for which traffic waits for a recorder that takes nothing, because its disk hangs. It
/// waits once, until the recorder takes something again.
const PATIENCE: Duration = Duration::from_millis(500);

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

/// A connection whose bytes are noted after they have passed. Bytes for which there is no room
/// within [`PATIENCE`] are counted, and the record contains a gap there.
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

    /// Notes bytes that the client sent and that were passed on.
    pub fn sent(&mut self, time: Time, bytes: Vec<u8>) {
        self.data(0, time, bytes, TapeEvent::Sent);
    }

    /// Notes bytes that were passed on to the client.
    pub fn received(&mut self, time: Time, bytes: Vec<u8>) {
        self.data(1, time, bytes, TapeEvent::Received);
    }

    fn data(&mut self, side: usize, time: Time, bytes: Vec<u8>, event: fn(Vec<u8>) -> TapeEvent) {
        let length = bytes.len() as u64;
        if bytes.is_empty() || (self.append_missing(time) && self.append(time, event(bytes))) {
            return;
        }
        self.lost[side] += length;
        self.loss.bytes.fetch_add(length, Ordering::Relaxed);
    }

    /// Notes what must come before anything else: the opening, and the bytes lost. Returns whether
    /// that is on the tape.
    fn append_missing(&mut self, time: Time) -> bool {
        if let Some((client, server)) = self.ends {
            if !self.append(time, TapeEvent::Open { client, server }) {
                return false;
            }
            self.ends = None;
        }
        if self.lost != [0; 2] {
            if !self.append(time, TapeEvent::Lost(self.lost)) {
                return false;
            }
            self.lost = [0; 2];
        }
        true
    }

    fn append(&mut self, time: Time, event: TapeEvent) -> bool {
        let entry = TapeEntry { connection: self.connection, time, event };
        let is_taken = if self.loss.stuck.load(Ordering::Relaxed) {
            self.tape.entries.try_send(entry).is_ok()
        } else {
            self.tape.entries.send_timeout(entry, PATIENCE).is_ok()
        };
        self.loss.stuck.store(!is_taken, Ordering::Relaxed);
        is_taken
    }
}

impl Drop for LossyTapeConnection {
    fn drop(&mut self) {
        let time = crate::source::now();
        if self.append_missing(time) {
            self.append(time, TapeEvent::Close);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tape::{TapeSource, WAITING, tape};
    use crate::source::{Item, Source};
    use crate::support::waits::PATIENCE;

    /// The sequence number and the payload of each IPv4 segment that has a payload.
    fn segments(mut tape_source: TapeSource) -> Vec<(u32, Vec<u8>)> {
        let mut segments = Vec::new();
        while let Some(item) = tape_source.next().unwrap() {
            if let Item::Packet(packet) = item
                && packet.data.len() > 40
            {
                let number = u32::from_be_bytes(packet.data[24..28].try_into().unwrap());
                segments.push((number, packet.data[40..].to_vec()));
            }
        }
        segments
    }

    #[test]
    fn nobody_waits_for_long_and_what_is_missing_is_said_in_its_place() {
        let (tape, mut tape_source) = tape();
        let (loss, address, time) = (LostBytes::default(), "127.0.0.1:80".parse().unwrap(), Time(7));
        let mut track = LossyTapeConnection::open(&tape, &loss, time, address, address);
        // The handshake occupies one place.
        (1..WAITING).for_each(|_| track.sent(time, b"noted.".to_vec()));
        (0..100_000).for_each(|_| track.sent(time, b"lost".to_vec()));
        assert_eq!(loss.bytes(), 400_000);
        // Recording resumes as soon as there is room.
        for _ in 0..10 {
            tape_source.waiting.recv_timeout(PATIENCE).map(|entry| tape_source.packets.take(entry)).unwrap();
        }
        track.sent(time, b"later".to_vec());
        drop((track, tape));
        let segments = segments(tape_source);
        let (last, before) = (&segments[segments.len() - 1], &segments[segments.len() - 2]);
        assert_eq!((segments.len(), &*last.1, &*before.1), (WAITING, &b"later"[..], &b"noted."[..]));
        assert_eq!(last.0 - before.0, 400_000 + 6);
        assert_eq!(loss.bytes(), 400_000);
    }

    #[test]
    fn without_a_recorder_nothing_waits() {
        let (tape, tape_source) = tape();
        drop(tape_source);
        let (loss, address) = (LostBytes::default(), "[::1]:80".parse().unwrap());
        let mut track = LossyTapeConnection::open(&tape, &loss, Time(7), address, address);
        (0..WAITING * 2).for_each(|_| track.received(Time(7), b"x".to_vec()));
        assert_eq!(loss.bytes(), 2 * WAITING as u64);
    }
}
