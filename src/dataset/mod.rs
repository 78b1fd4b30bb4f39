//! A dataset: sessions, messages, exchanges and findings as Parquet files in a folder or in object
//! storage, for DuckDB, ClickHouse, Spark and other engines.
//!
//! ```text
//!  Event ─► Collector ─ rows ─► Dataset ─ files ─► Storage: a folder, or a bucket
//!             ▲                   │ leaves out rows that are there, by their keys
//!  database ─► recorded           └─ messages/day=2026-11-24/HOST-FIRST-LAST-HASH.parquet
//! ```
//!
//! Many programs write to one dataset and none of them locks it. These rules make that safe:
//!
//! - A file becomes visible when it is whole, and its name follows from its rows. The same rows
//!   written twice are the same file.
//! - The key of a row follows from the place of its bytes in the traffic ([`keys`]). Before rows
//!   are written, the keys of files that cover the same host and time are read, and what is there
//!   is left out.
//! - A row of a message or a finding never changes. Rows of sessions and exchanges grow. The file
//!   of such a row is then replaced by one of the same name.

mod collector;
mod compact;
mod file_name;
mod keys;
mod recorded;
mod storage;
mod tables;
mod write;

pub use collector::Collector;
pub use compact::compact;
pub use file_name::day;
pub use recorded::{Exporter, export_sessions, file_names, run_number};
pub use storage::open;
pub use write::Dataset;
