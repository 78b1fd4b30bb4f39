//! The store: every view reads from here, during a recording or years later.
//!
//! ```text
//!  Packet ─► packets (secrets masked) ─► chunk ─┐                        ┌─► StoreReader: records
//!                                               ├─► pending ─► SQLite ─►─┤
//!  Event ─► sessions, messages, findings … ─────┘    (one transaction)   └─► StoredPackets
//! ```
//!
//! One SQLite file holds many captures, each with its sessions. Several programs write to it at
//! once, and readers never wait. A writer gathers records and writes them in one short transaction.
//! Records that cannot be written now are written with the next transaction. While another program
//! has the database locked, a recorder writes to a file beside it ([`spill`]). Records that would
//! take too much memory are discarded and counted.
//!
//! All SQL of the program is in this folder. `schema.sql`, with `schema-2.sql` and so on
//! on top of it, describes the file.

mod chunk;
mod codec;
mod conversation;
mod database_file;
mod filter;
pub mod fuzz;
mod iterators;
mod maintenance;
mod mask;
mod mcphawk;
mod merge;
mod migrate;
mod order;
mod packet_pages;
mod packets;
mod page;
mod pending;
mod process;
mod query;
mod read;
mod record;
mod recordings;
mod remask;
mod session_facts;
mod session_list;
mod spill;
mod stderr;
mod stored_packets;
mod temporary_folder;
mod text;
mod text_index;
mod write;

#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use chunk::StoredPacket;
pub use codec::Damaged;
pub use database_file::DatabaseFile;
pub use maintenance::{Fate, Maintenance, Space};
pub use mcphawk::{is_mcphawk, open_files, read_mcphawk};
pub use migrate::may_pass;
pub use packet_pages::ChunkNumbers;
pub use packets::PacketCounts;
pub use page::{Page, Scope, SortOrder};
pub use query::{MethodCount, OperationLinks};
pub use read::StoreReader;
pub use record::capture::{Capture, CaptureInfo, CaptureKind, Counts, Summary};
pub use record::finding::FindingRow;
pub use record::message::MessageRow;
pub use record::note::NoteRow;
pub use recordings::Recording;
pub use remask::{MaskCounts, MaskRules, PacketIterator, PacketMasker, count_secrets, mask_recordings};
pub use session_facts::SlowestRequest;
pub use session_list::ListedSession;
pub use spill::spill_files;
pub use stderr::{LinePosition, SessionPipes, StderrLine};
pub use stored_packets::{Selection, StoredPackets};
pub use temporary_folder::{TemporaryFolder, remove_all as remove_temporary_databases};
pub use text_index::TextIndexer;
pub use write::{Saved, WriteOptions, Writer};

use rusqlite::types::ToSqlOutput;

/// The number of a capture in a database, 1-based.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaptureId(pub u32);

/// Bits of a row key for the number within a capture. They allow a trillion messages per capture,
/// and eight million captures.
const NUMBER_BITS: u32 = 40;

/// The key of a row in the database: a capture, and a number within it (of a message, an exchange,
/// a connection, a stream). The rows of a capture lie together, ordered by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(i64);

impl RowKey {
    /// The key for `number` of a capture.
    pub fn new(capture: CaptureId, number: u64) -> RowKey {
        let number = number.min((1 << NUMBER_BITS) - 1);
        RowKey((i64::from(capture.0) << NUMBER_BITS) | number as i64)
    }

    /// The capture that the row belongs to.
    pub fn capture(self) -> CaptureId {
        CaptureId((self.0 >> NUMBER_BITS) as u32)
    }

    /// The key that follows this one.
    pub fn next(self) -> RowKey {
        RowKey(self.0.saturating_add(1))
    }

    /// The number within the capture.
    pub fn number(self) -> u64 {
        self.0 as u64 & ((1 << NUMBER_BITS) - 1)
    }

    /// The first and the last possible key of a capture.
    fn all(capture: CaptureId) -> (i64, i64) {
        (RowKey::new(capture, 0).0, RowKey::new(capture, u64::MAX).0)
    }
}

impl rusqlite::ToSql for RowKey {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.into())
    }
}
