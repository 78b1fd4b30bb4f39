//! Early data of a client, held until it is known whether the server takes it (RFC 8446 section 4.2.10).
//!
//! What a server refuses its application never sees, and clients send it again. "If the server ... accept[s] early data, it MUST send an
//! early_data extension in its EncryptedExtensions"; a client that sends EndOfEarlyData (section 4.5) has seen that.

use super::{Sink, TlsEvent};
use crate::capture::Time;
use crate::decode::Direction;

/// Bytes that are held: far more than servers allow (OpenSSL 16 KiB, others up to the size of a window). Beyond, it counts as taken.
const HELD: usize = 1 << 20;

/// Early data on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    records: Vec<Record>,
    bytes: usize,
    /// `Some`: whether the server takes it.
    taken: Option<bool>,
}

#[derive(Clone, Debug)]
struct Record {
    bytes: Vec<u8>,
    record: (u64, u64),
    time: Time,
    acknowledged: u64,
}

impl Early {
    /// A record was opened under the keys of early data.
    pub fn push(&mut self, bytes: &[u8], record: (u64, u64), time: Time, acknowledged: u64, sink: &mut Sink<'_>) {
        match self.taken {
            Some(false) => {}
            Some(true) => {
                sink(TlsEvent::Data { direction: Direction::ClientToServer, bytes, record, time, acknowledged })
            }
            None => {
                self.bytes += bytes.len();
                self.records.push(Record { bytes: bytes.to_vec(), record, time, acknowledged });
                if self.bytes > HELD {
                    self.decide(true, sink);
                }
            }
        }
    }

    /// It is known whether the server takes it; the first word counts.
    pub fn decide(&mut self, taken: bool, sink: &mut Sink<'_>) {
        let taken = *self.taken.get_or_insert(taken);
        for Record { bytes, record, time, acknowledged } in std::mem::take(&mut self.records) {
            if taken {
                let direction = Direction::ClientToServer;
                sink(TlsEvent::Data { direction, bytes: &bytes, record, time, acknowledged });
            }
        }
    }

    /// Where the first record begins that is held.
    pub fn start(&self) -> Option<u64> {
        self.records.first().map(|record| record.record.0)
    }
}
