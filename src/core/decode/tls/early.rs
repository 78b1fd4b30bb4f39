//! Early data of a client, held until the server accepts or rejects it (RFC 8446 section 4.2.10).
//!
//! An application never receives early data that its server rejects, and clients send it again. "If
//! the server ... accept[s] early data, it MUST send an early_data extension in its
//! EncryptedExtensions". A client that sends EndOfEarlyData (section 4.5) has received that
//! extension.

use super::{TlsEvent, TlsEventSink};
use crate::capture::Time;
use crate::decode::Direction;

/// Bytes that are held at most: 1 MiB. Servers allow far less (OpenSSL 16 KiB, others a window).
/// Above this limit the data counts as accepted.
const MAX_HELD: usize = 1 << 20;

/// The early data of a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct EarlyData {
    records: Vec<EarlyRecord>,
    bytes: usize,
    /// Whether the server accepted it, once that is known.
    accepted: Option<bool>,
}

/// Early data of one record, see [`TlsEvent::Data`].
#[derive(Clone, Debug)]
struct EarlyRecord {
    bytes: Vec<u8>,
    record: (u64, u64),
    time: Time,
    acknowledged: u64,
}

impl EarlyData {
    /// Adds the content of a record that was opened under the keys of early data.
    pub fn push(
        &mut self,
        bytes: &[u8],
        record: (u64, u64),
        time: Time,
        acknowledged: u64,
        sink: &mut TlsEventSink<'_>,
    ) {
        match self.accepted {
            Some(false) => {}
            Some(true) => {
                sink(TlsEvent::Data { direction: Direction::ClientToServer, bytes, record, time, acknowledged })
            }
            None => {
                self.bytes += bytes.len();
                self.records.push(EarlyRecord { bytes: bytes.to_vec(), record, time, acknowledged });
                if self.bytes > MAX_HELD {
                    self.set_accepted(true, sink);
                }
            }
        }
    }

    /// Sets whether the server accepted the early data. Later calls change nothing.
    pub fn set_accepted(&mut self, accepted: bool, sink: &mut TlsEventSink<'_>) {
        let accepted = *self.accepted.get_or_insert(accepted);
        for EarlyRecord { bytes, record, time, acknowledged } in std::mem::take(&mut self.records) {
            if accepted {
                let direction = Direction::ClientToServer;
                sink(TlsEvent::Data { direction, bytes: &bytes, record, time, acknowledged });
            }
        }
    }

    /// The offset of the first record that is held.
    pub fn start(&self) -> Option<u64> {
        self.records.first().map(|record| record.record.0)
    }
}
