//! The tap: the lanes' end of the queue between them and the recorder.
//!
//! The lanes read into memory that is used again and again. For the recording they make one system
//! call per [`GATHER`](crate::source::queue::GATHER) of traffic, to wake the recorder. The lock is
//! held while a batch is taken out or put back, never during decoding, reading or writing.
//!
//! Peers that are faster than the disk are slowed to its pace: delivered bytes wait for room in the
//! queue as long as the disk takes anything. If the disk is full, or takes nothing for a while, a
//! chunk is dropped and counted, and the record contains a gap there.

use std::mem;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use rustix::buffer::spare_capacity;

use super::observations::Observations;
use crate::capture::pipe::{self, Exit, Pipe, PipeEvent, Start};
use crate::capture::{LinkType, PacketNumber, Time};
use crate::source::batch::Batch;
use crate::source::now;
use crate::source::overflow::Overflow;
use crate::source::queue::{BUFFER, PassedTotals, PendingWakeups, Queue};

/// The lanes' end of the queue: it takes what passes.
#[derive(Debug)]
pub struct Tap {
    process: u32,
    queue: Arc<Queue>,
    /// Chunks of data that passed.
    chunks: u64,
    /// Bytes of data that passed, by pipe.
    passed_bytes: [u64; 3],
    /// Bytes of data dropped since the last recorded chunk, by pipe.
    lost: [u64; 3],
    /// Threads to be woken when there is time for it.
    wakeups: PendingWakeups,
}

/// Bytes that were read from a pipe, at the end of a batch that belongs to the queue.
#[derive(Debug)]
pub(super) struct Chunk {
    pipe: Pipe,
    batch: Batch,
    /// The batch's memory before the chunk was appended.
    before: usize,
}

impl Chunk {
    pub(super) fn bytes(&self) -> &[u8] {
        self.batch.last().and_then(|packet| packet.data.get(pipe::HEAD..)).unwrap_or_default()
    }
}

/// A queue for the observations of `process`. Those that do not fit in memory wait in
/// files in `folder`, sealed if values are redacted. Otherwise the messages of a pipe are stored
/// without masking, so sealing would protect nothing.
pub fn tap(process: u32, folder: &Path, seals: bool) -> (Tap, Observations) {
    let queue = Arc::<Queue>::default();
    let (spilled_queue, overflow) = (Arc::clone(&queue), Overflow::new(folder, seals));
    // This thread has the lanes' priority, because it compensates for the recorder, which has a
    // lower one. Without it the queue is limited to its memory.
    let _ = thread::Builder::new().name("overflow".into()).spawn(move || spilled_queue.spill(overflow));
    let (chunks, passed_bytes, lost, wakeups) = (0, [0; 3], [0; 3], PendingWakeups::default());
    let tap = Tap { process, queue: Arc::clone(&queue), chunks, passed_bytes, lost, wakeups };
    (tap, Observations::new(process, queue))
}

impl Tap {
    /// Notes the start of the server.
    pub fn start(&mut self, start: Start) {
        self.note(&PipeEvent::Start(start));
    }

    /// Notes bytes that passed through a pipe at this time. Waits for room in the
    /// queue, within bounds.
    pub fn data(&mut self, time: Time, pipe: Pipe, bytes: &[u8]) {
        for piece in bytes.chunks(BUFFER) {
            let chunk = self.chunk(time, pipe, piece.len(), |out| out.extend_from_slice(piece));
            self.keep(chunk);
        }
    }

    /// Reads from a pipe as many bytes as fit; `None` at the end. Pass the chunk to [`Tap::keep`]
    /// before anything else is noted.
    pub(super) fn read(&mut self, pipe: Pipe, from: impl AsFd) -> rustix::io::Result<Option<Chunk>> {
        let mut read = Ok(0);
        let mut chunk = self.chunk(now(), pipe, BUFFER / 4, |out| read = rustix::io::read(from, spare_capacity(out)));
        if matches!(read, Ok(1..)) {
            return Ok(Some(chunk));
        }
        chunk.batch.pop();
        self.put(chunk);
        read.map(|_| None)
    }

    /// Records a chunk that was delivered. Waits for room in the queue, within bounds.
    pub(super) fn keep(&mut self, mut chunk: Chunk) {
        let (lost, bytes) = (&mut self.lost[chunk.pipe as usize], chunk.bytes().len() as u64);
        self.passed_bytes[chunk.pipe as usize] += bytes;
        self.chunks += 1;
        if *lost == 0 {
            let added = chunk.batch.size() - chunk.before;
            match self.queue.put_when_room(chunk.batch, added, &mut self.wakeups) {
                Ok(()) => return,
                Err(batch) => chunk.batch = batch,
            }
        }
        *lost += bytes;
        chunk.batch.pop();
        self.put(chunk);
    }

    /// Appends a chunk of at most `bytes` bytes. `fill` may append more if the batch has
    /// room for them.
    fn chunk(&mut self, time: Time, pipe: Pipe, bytes: usize, fill: impl FnOnce(&mut Vec<u8>)) -> Chunk {
        let mut batch = self.queue.open(bytes + 2 * pipe::HEAD + size_of::<u64>());
        let before = batch.size();
        // After a loss, recording resumes only when there is much room. Many small fragments
        // would help nobody.
        if self.lost[pipe as usize] > 0 && self.queue.has_much_room() {
            let lost = mem::take(&mut self.lost[pipe as usize]);
            self.write(&mut batch, time, &PipeEvent::Lost(pipe, lost), |_| {});
        }
        self.write(&mut batch, time, &PipeEvent::Data(pipe, b""), fill);
        Chunk { pipe, batch, before }
    }

    fn write(&self, batch: &mut Batch, time: Time, content: &PipeEvent<'_>, fill: impl FnOnce(&mut Vec<u8>)) {
        batch.write(PacketNumber(0), time, LinkType::PIPE, |out| {
            pipe::encode(self.process, content, out);
            fill(out);
        });
    }

    /// Puts a batch back as it is.
    fn put(&mut self, Chunk { batch, before, .. }: Chunk) {
        let added = batch.size() - before;
        self.queue.put(batch, added, &mut self.wakeups);
    }

    /// Notes something other than data, for which there is always room.
    fn note(&mut self, content: &PipeEvent<'_>) {
        let mut batch = self.queue.open(pipe::HEAD);
        let before = batch.size();
        self.write(&mut batch, now(), content, |_| {});
        self.put(Chunk { pipe: Pipe::Stdin, batch, before });
    }

    /// Notes that the writer of a pipe has closed it.
    pub fn end_of_file(&mut self, pipe: Pipe) {
        self.record_loss(pipe);
        self.note(&PipeEvent::EndOfFile(pipe));
    }

    /// Notes the end of the server, which is the last observation.
    pub fn exit(&mut self, exit: Exit) {
        for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
            self.record_loss(pipe);
        }
        self.note(&PipeEvent::Exit(exit));
        self.queue.end(Some(PassedTotals { chunks: self.chunks, bytes: self.passed_bytes, exit }));
    }

    /// Discards what the recorder has not taken yet, so that it can end. The recorder receives the
    /// number of discarded bytes instead.
    pub fn discard_rest(&mut self) {
        self.queue.discard_rest();
    }

    /// Wakes the recorder if it sleeps and there is something for it, or if the queue is large.
    pub fn wake_sleepers(&mut self) {
        self.queue.wake_sleepers(&mut self.wakeups);
    }

    /// Bytes of data that passed and that the recorder has not taken.
    pub fn waiting(&self) -> u64 {
        self.passed_bytes.iter().sum::<u64>().saturating_sub(self.queue.taken.load(Ordering::Relaxed))
    }

    /// Bytes of data that passed and that the recorder has not stored.
    pub fn unstored(&self) -> u64 {
        self.passed_bytes.iter().sum::<u64>().saturating_sub(self.queue.stored.load(Ordering::Relaxed))
    }

    fn record_loss(&mut self, pipe: Pipe) {
        match mem::take(&mut self.lost[pipe as usize]) {
            0 => {}
            lost => self.note(&PipeEvent::Lost(pipe, lost)),
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.queue.end(None);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::source::queue::{BATCH, QUEUE_LIMIT};
    use crate::source::{Item, Source};

    const PIECE: usize = 64 << 10;

    /// The observations of a test recorder: the numbers at the start of each piece of stdout, and
    /// the reported losses.
    #[derive(Debug, Default, PartialEq)]
    struct RecordedPieces {
        numbers: Vec<u64>,
        bytes: u64,
        lost: u64,
        /// Chunks reported as dropped.
        dropped: u64,
        ended: bool,
    }

    impl RecordedPieces {
        /// Takes the next item; false at the end.
        fn take(&mut self, observations: &mut Observations) -> bool {
            let Some(item) = observations.next().expect("the disk can be read") else { return false };
            let packet = match item {
                Item::Packet(packet) => packet,
                Item::Dropped(dropped) => {
                    self.dropped += dropped.packets;
                    return true;
                }
                _ => return true,
            };
            match pipe::decode(packet.data).expect("a packet of a pipe").1 {
                PipeEvent::Data(_, bytes) => {
                    self.numbers.push(u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")));
                    self.bytes += bytes.len() as u64;
                }
                PipeEvent::Lost(_, bytes) => self.lost += bytes,
                PipeEvent::Exit(_) => self.ended = true,
                _ => {}
            }
            true
        }

        fn take_all(mut self, observations: &mut Observations) -> RecordedPieces {
            while self.take(observations) {}
            self
        }
    }

    fn pass(tap: &mut Tap, number: u64, length: usize) {
        let mut piece = vec![0; length];
        piece[..8].copy_from_slice(&number.to_le_bytes());
        tap.data(now(), Pipe::Stdout, &piece);
        tap.wake_sleepers();
    }

    #[test]
    fn what_memory_has_no_room_for_waits_on_the_disk_in_order() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (mut tap, mut observations) = tap(1, folder.path(), false);
        let all = (4 * QUEUE_LIMIT / PIECE) as u64;
        (0..all).for_each(|number| pass(&mut tap, number, PIECE));
        assert!(tap.queue.state().1);
        // The recorder takes batches while more come, which have to queue after those on disk.
        let mut record = RecordedPieces::default();
        while record.numbers.len() < 10 {
            record.take(&mut observations);
        }
        (all..all + 100).for_each(|number| pass(&mut tap, number, PIECE));
        tap.exit(Exit::default());
        let record = record.take_all(&mut observations);
        assert_eq!(record.numbers, (0..all + 100).collect::<Vec<_>>());
        assert_eq!((tap.waiting(), record.lost), (0, 0));
    }

    #[test]
    fn where_there_is_no_disk_memory_is_all_there_is() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (mut tap, mut observations) = tap(1, &folder.path().join("missing"), false);
        let all = (2 * QUEUE_LIMIT / PIECE) as u64;
        (0..all).for_each(|number| pass(&mut tap, number, PIECE));
        tap.exit(Exit::default());
        let record = RecordedPieces::default().take_all(&mut observations);
        assert!(record.numbers.len() as u64 >= all / 2 - 10 && record.numbers.is_sorted(), "{}", record.numbers.len());
        assert_eq!(tap.waiting(), (all - record.numbers.len() as u64) * PIECE as u64);
        assert_eq!(tap.waiting(), record.lost);
    }

    /// A lane does not wait for room when the recorder has gone.
    #[test]
    fn a_lane_does_not_wait_for_a_recorder_that_is_gone() {
        let (mut tap, observations) = tap(1, Path::new("/nowhere"), false);
        drop(observations);
        (0..1_000).for_each(|number| pass(&mut tap, number, PIECE));
        assert_eq!(tap.waiting(), 1_000 * PIECE as u64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn everything_comes_out_in_order_or_is_counted(
            bursts in prop::collection::vec((1u64..200, 8..BUFFER, 0usize..400), 1..8), disk: bool, discard_rest: bool,
        ) {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let place = if disk { folder.path().to_owned() } else { folder.path().join("missing") };
            let (mut tap, mut observations) = tap(1, &place, false);
            let (mut record, mut number) = (RecordedPieces::default(), 0);
            for (pieces, length, taken) in bursts {
                for _ in 0..pieces {
                    pass(&mut tap, number, length);
                    number += 1;
                    // The recorder's present batch is no longer in the queue, and it may
                    // come from disk.
                    prop_assert!(tap.queue.state().0 <= QUEUE_LIMIT + 2 * BATCH);
                }
                let wakeups = record.numbers.len() + taken.min((number as usize).saturating_sub(record.numbers.len()) / 2);
                while record.numbers.len() < wakeups && !tap.queue.is_empty() {
                    record.take(&mut observations);
                }
            }
            tap.exit(Exit::default());
            if discard_rest {
                tap.discard_rest();
            }
            let record = record.take_all(&mut observations);
            prop_assert!(record.ended && record.numbers.is_sorted_by(|before, after| before < after));
            prop_assert_eq!(tap.waiting(), record.lost);
            prop_assert_eq!(record.bytes + record.lost, tap.passed_bytes[Pipe::Stdout as usize]);
            if record.dropped > 0 {
                prop_assert_eq!(record.numbers.len() as u64 + record.dropped, number);
            }
            if disk && !discard_rest {
                prop_assert_eq!(record.numbers, (0..number).collect::<Vec<_>>());
            }
        }
    }
}
