//! What waits goes over to a successor, and what follows after it.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::{io, mem, thread};

use super::{GATHER, Queue};
use crate::capture::pipe::{self, Content};
use crate::source::batch::Batch;
use crate::source::overflow::Block;
use crate::source::stdio::sequel::{self, Reader, Writer};
use crate::source::stdio::successor::{self, Side};

impl Queue {
    /// We are told to end, and nobody will wait for the recorder: where much is left to do, a successor is to do it.
    pub(in crate::source::stdio) fn hand_over(&self) {
        self.lock().handed_over = true;
        self.notify();
    }

    /// Whether a successor is to be made.
    pub(in crate::source::stdio) fn wants_successor(&self) -> bool {
        let waiting = self.lock();
        waiting.handed_over && waiting.has_much()
    }

    /// Makes a successor, which has all that waits behind the batch that is used up. Where more may come it gets that through a file in `folder`, into which
    /// whoever relieves the queue writes it here.
    ///
    /// # Errors
    /// There can be none, and nobody asks for one again.
    pub(in crate::source::stdio) fn succeed(&self, used: Batch, folder: &Path) -> io::Result<(Side, Option<Reader>)> {
        let mut waiting = self.lock();
        waiting.handed_over = false;
        waiting.release(used);
        // What is on its way to the disk is in the hands of a thread that the successor does not have.
        waiting = self.landed.wait_while(waiting, |waiting| waiting.moving).unwrap_or_else(PoisonError::into_inner);
        let (writer, reader) = if waiting.over { None } else { Some(sequel::sequel(folder)?) }.unzip();
        let waits = waiting.disk.iter().map(Block::file);
        let files: Vec<_> = waits.chain(reader.iter().flat_map(Reader::descriptors)).collect();
        // Of the locks that the recorder takes, the only one that another thread might hold is this one.
        let side = successor::fork(&files)?;
        if side == Side::Successor {
            // Its descriptors are closed.
            mem::forget(writer);
            waiting.over = true;
            return Ok((side, reader));
        }
        waiting.forget();
        waiting.succeeded = true;
        waiting.sequel = writer;
        self.full.notify_one();
        self.tell_of_room(&mut waiting);
        Ok((side, None))
    }

    /// Data bytes that a successor did not get; `None`: there is no successor.
    pub(in crate::source::stdio) fn lost(&self) -> Option<u64> {
        self.lock().succeeded.then(|| self.lost.load(Ordering::Relaxed))
    }

    /// Brings a successor what comes, until nothing more does.
    pub(super) fn deliver(&self, mut sequel: Writer) {
        let (mut used, mut last) = (Batch::default(), false);
        while !last {
            // Nothing waits on the disk any more: there is nothing that cannot be read.
            let Ok(turn) = self.turn(used) else { return };
            (used, last) = turn;
            if !used.is_empty() {
                self.bring(&used, &mut sequel);
            } else if !last {
                self.rest();
            }
        }
    }

    /// Waits where there is no room: what comes meanwhile finds none in the queue, and the record says so.
    fn bring(&self, batch: &Batch, sequel: &mut Writer) {
        while let Err(error) = sequel.write(batch) {
            if error.kind() == io::ErrorKind::BrokenPipe || self.lock().over {
                self.lost.fetch_add(data(batch), Ordering::Relaxed);
                return;
            }
            thread::sleep(GATHER);
        }
    }
}

/// Data bytes in a batch.
fn data(batch: &Batch) -> u64 {
    let packets = (0..batch.len()).filter_map(|index| batch.get(index));
    let bytes = packets.filter_map(|packet| match pipe::decode(packet.data) {
        Some((_, Content::Data(_, bytes))) => Some(bytes.len() as u64),
        _ => None,
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Wanted;
    use super::*;
    use crate::capture::pipe::Pipe;
    use crate::capture::{LinkType, PacketNumber, Time};
    use crate::source::overflow::Overflow;

    /// Puts so many chunks of ten bytes of stdout, in the order of their times.
    fn pass(queue: &Queue, chunks: i64) {
        for time in 0..chunks {
            let mut batch = queue.open(pipe::HEAD + 10);
            let before = batch.size();
            batch.write(PacketNumber(0), Time(time), LinkType::PIPE, |out| {
                pipe::encode(7, &Content::Data(Pipe::Stdout, b"0123456789"), out);
            });
            let added = batch.size() - before;
            let mut wanted = Wanted::default();
            queue.put(batch, added, &mut wanted);
            queue.nudge(&mut wanted);
        }
    }

    /// Passes chunks, and ends; what a successor that reads, or is gone, got of them and did not get.
    fn brought(chunks: i64, reads: bool) -> (Vec<i64>, Option<u64>) {
        let folder = tempfile::tempdir().unwrap();
        let (writer, reader) = sequel::sequel(folder.path()).unwrap();
        let queue = Queue::default();
        let mut waiting = queue.lock();
        (waiting.succeeded, waiting.sequel) = (true, Some(writer));
        drop(waiting);
        let mut reader = reads.then_some(reader);
        let mut got = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| queue.relieve(Overflow::new(folder.path(), false)));
            scope.spawn(|| {
                pass(&queue, chunks);
                queue.end();
            });
            while let Some(reader) = &mut reader {
                let (batch, last) = reader.turn(Batch::default()).unwrap();
                got.extend((0..batch.len()).map(|index| batch.get(index).unwrap().time.0));
                if last {
                    break;
                }
                if batch.is_empty() {
                    reader.rest(Duration::from_secs(1_000));
                }
            }
        });
        (got, queue.lost())
    }

    #[test]
    fn what_follows_is_brought_in_order_and_what_nobody_takes_is_counted() {
        assert_eq!(brought(100_000, true), ((0..100_000).collect(), Some(0)));
        assert_eq!(brought(1_000, false), (Vec::new(), Some(10_000)));
        assert_eq!(Queue::default().lost(), None);
    }
}
