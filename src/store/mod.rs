//! The store: what people look at, live or years later, is read from here.
//!
//! ```text
//!  Packet ─► packets (which are kept, secrets masked) ─► chunk ─┐                        ┌─► Reader: pages of records
//!                                                               ├─► pending ─► SQLite ─►─┤
//!  Event ─── sessions, messages, exchanges, findings, parts ────┘    (one transaction)   └─► Stored: a Source of packets again
//! ```
//!
//! One SQLite file holds many captures, each with its sessions; several programs write it at once
//! and readers never wait. A writer gathers what it is told and writes it in one short transaction:
//! what cannot be written now is written with the next, and what would take too much memory until
//! then is given up and counted. The record types are those of the program.
//!
//! This is the only module with SQL. `schema.sql`, and `schema-2.sql` and `schema-3.sql` on top of
//! it, are the guide to the file.

mod chunk;
mod codec;
mod conversation;
mod database_file;
mod filter;
mod iterators;
mod mask;
mod merge;
mod migrate;
mod packet_pages;
mod packets;
mod page;
mod pending;
mod process;
mod query;
mod read;
mod record;
mod stored_packets;
mod text;
mod write;

#[cfg(test)]
mod tests;

pub use chunk::StoredPacket;
pub use codec::Damaged;
pub use database_file::DatabaseFile;
pub use migrate::may_pass;
pub use packets::PacketCounts;
pub use page::{Page, Scope, SortOrder};
pub use query::{MethodCount, OperationLinks};
pub use read::StoreReader;
pub use record::capture::{Capture, CaptureInfo, CaptureKind, Counts, Summary};
pub use record::finding::FindingRow;
pub use record::message::MessageRow;
pub use stored_packets::{Selection, StoredPackets};
pub use write::{WriteOptions, Writer};

use rusqlite::types::ToSqlOutput;

/// The number of a capture in a database, 1-based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureId(pub u32);

/// Bits of a key that number within a capture: a trillion messages, and eight million captures.
const NUMBER_BITS: u32 = 40;

/// What is numbered within a capture (a message, an exchange), named within the database. Keys of a
/// capture lie together, in order of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(i64);

impl RowKey {
    /// Number `number` of a capture.
    pub fn new(capture: CaptureId, number: u64) -> RowKey {
        let number = number.min((1 << NUMBER_BITS) - 1);
        RowKey((i64::from(capture.0) << NUMBER_BITS) | number as i64)
    }

    /// The capture.
    pub fn capture(self) -> CaptureId {
        CaptureId((self.0 >> NUMBER_BITS) as u32)
    }

    /// The key behind it.
    pub fn next(self) -> RowKey {
        RowKey(self.0.saturating_add(1))
    }

    /// The number within it.
    pub fn number(self) -> u64 {
        self.0 as u64 & ((1 << NUMBER_BITS) - 1)
    }

    /// First and last key of a capture.
    fn all(capture: CaptureId) -> (i64, i64) {
        (RowKey::new(capture, 0).0, RowKey::new(capture, u64::MAX).0)
    }
}

impl rusqlite::ToSql for RowKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}
