//! Restores pipe packets from the lines that a file has for Wireshark (see [`pipe_record`]).
//!
//! The bytes of a pipe packet may be in several lines, and a line ends later than it began. So a
//! packet is held until its last bytes were read and all packets before it are restored.

use std::collections::{BTreeMap, VecDeque};

use crate::capture::Time;
use crate::capture::pipe::{self, PipeEvent};
use crate::capture::pipe_record::{LinesRecord, PacketRecord};

/// Bytes of held packets above which the oldest ones are restored as far as they are known. A
/// writer holds 16 MiB of incomplete lines. A packet waits for another one longer if a program has
/// removed lines from the file.
const MOST_HELD: usize = 64 << 20;

/// Recordings of which packets are held. A merged file has as many as there were files.
const MOST_RECORDINGS: usize = 64;

/// Bytes of memory that a held packet occupies beside its content.
const HELD: usize = 64;

/// A pipe packet that was restored.
#[derive(Debug, Default)]
pub(in crate::source) struct RestoredPacket {
    pub(in crate::source) time: Time,
    pub(in crate::source) data: Vec<u8>,
}

/// Restores the pipe packets of one file.
#[derive(Debug, Default)]
pub(in crate::source) struct PipePackets {
    recordings: BTreeMap<i64, HeldRecording>,
    restored: VecDeque<RestoredPacket>,
    /// Bytes of held packets.
    held: usize,
}

/// Packets whose records were written together.
#[derive(Debug, Default)]
struct HeldRecording {
    /// The position of the packet to be restored next.
    next: u64,
    held: BTreeMap<u64, HeldPacket>,
}

#[derive(Debug)]
struct HeldPacket {
    packet: RestoredPacket,
    is_whole: bool,
}

impl PipePackets {
    /// The next restored packet.
    pub(in crate::source) fn pop(&mut self) -> Option<RestoredPacket> {
        self.restored.pop_front()
    }

    /// Bytes of memory that held packets occupy.
    pub(in crate::source) fn memory(&self) -> usize {
        self.held
    }

    /// Takes a block with a pipe packet.
    pub(in crate::source) fn packet(&mut self, record: &PacketRecord<'_>) {
        let PacketRecord { recording, position, time, packet } = *record;
        self.add(recording, position, time, true, |data| data.extend_from_slice(packet));
    }

    /// Takes a line. Bytes that its record does not mention belong to no packet.
    pub(in crate::source) fn line(&mut self, record: &LinesRecord, mut line: &[u8]) {
        for piece in &record.pieces {
            let (bytes, rest) = line.split_at((piece.length as usize).min(line.len()));
            line = rest;
            self.add(record.recording, piece.position, piece.time, piece.is_last, |data| {
                if data.is_empty() {
                    pipe::encode(record.process, &PipeEvent::Data(record.pipe, b""), data);
                }
                data.extend_from_slice(bytes);
            });
        }
    }

    /// Adds to a packet with `add`, and restores what is whole then.
    fn add(&mut self, recording: i64, position: u64, time: Time, is_whole: bool, add: impl FnOnce(&mut Vec<u8>)) {
        if self.recordings.len() >= MOST_RECORDINGS && !self.recordings.contains_key(&recording) {
            self.flush();
        }
        let of = self.recordings.entry(recording).or_default();
        if position < of.next {
            // A file that was merged with itself.
            let mut packet = RestoredPacket { time, data: Vec::new() };
            add(&mut packet.data);
            self.restored.push_back(packet);
            return;
        }
        let held = of.held.entry(position).or_insert_with(|| {
            self.held += HELD;
            HeldPacket { packet: RestoredPacket { time, data: Vec::new() }, is_whole: false }
        });
        let before = held.packet.data.len();
        add(&mut held.packet.data);
        held.is_whole |= is_whole;
        self.held += held.packet.data.len() - before;
        while let Some(first) = of.held.first_entry()
            && ((*first.key() == of.next && first.get().is_whole) || self.held > MOST_HELD)
        {
            of.next = first.key().saturating_add(1);
            let packet = first.remove().packet;
            self.held -= HELD + packet.data.len();
            self.restored.push_back(packet);
        }
    }

    /// Restores all held packets as far as they are known, because no more bytes will follow.
    /// Returns whether there are any.
    pub(in crate::source) fn flush(&mut self) -> bool {
        for (_, recording) in std::mem::take(&mut self.recordings) {
            self.restored.extend(recording.held.into_values().map(|held| held.packet));
        }
        self.held = 0;
        !self.restored.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::pipe::Pipe;
    use crate::capture::pipe_record::LinePiece;

    fn restored(packets: &mut PipePackets) -> Vec<(i64, String)> {
        std::iter::from_fn(|| packets.pop())
            .map(|packet| (packet.time.0, String::from_utf8_lossy(&packet.data[12..]).into_owned()))
            .collect()
    }

    fn line(packets: &mut PipePackets, pieces: &[(u64, u32, bool)], text: &str) {
        let piece = |&(position, length, is_last)| LinePiece { position, time: Time(position as i64), length, is_last };
        let pieces = pieces.iter().map(piece).collect();
        packets.line(&LinesRecord { recording: 1, process: 7, pipe: Pipe::Stdin, pieces }, text.as_bytes());
    }

    #[test]
    fn a_packet_waits_for_its_last_bytes_and_for_those_before_it() {
        let mut packets = PipePackets::default();
        line(&mut packets, &[(0, 2, false)], "a\n");
        packets.packet(&PacketRecord { recording: 1, position: 1, time: Time(1), packet: b"MTP1........exit" });
        assert!(restored(&mut packets).is_empty());
        line(&mut packets, &[(0, 1, true), (2, 2, true)], "bc\n");
        assert_eq!(restored(&mut packets), [(0, "a\nb".into()), (1, "exit".into()), (2, "c\n".into())]);
    }

    #[test]
    fn without_some_lines_the_others_are_restored_at_the_end() {
        let mut packets = PipePackets::default();
        line(&mut packets, &[(3, 2, false)], "c\n");
        line(&mut packets, &[(1, 2, true)], "b\n");
        assert!(restored(&mut packets).is_empty());
        assert!(packets.flush());
        assert_eq!(restored(&mut packets), [(1, "b\n".into()), (3, "c\n".into())]);
        assert_eq!(packets.memory(), 0);
    }

    #[test]
    fn a_missing_packet_holds_a_bounded_number_of_bytes() {
        let mut packets = PipePackets::default();
        let long = "x".repeat(1 << 20);
        for position in 1..100 {
            line(&mut packets, &[(position, 1 << 20, true)], &long);
            assert!(packets.memory() <= MOST_HELD);
        }
        assert_eq!(restored(&mut packets).first().map(|(time, _)| *time), Some(1));
    }
}
