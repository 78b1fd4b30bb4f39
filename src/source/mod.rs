//! The only way traffic gets in: capture files, interfaces, pipes, saved sessions.
//!
//! A source yields items; it knows nothing of protocols above the packet.
//!
//! ```text
//!  file.rs      several files as one capture           path, "-"
//!  input.rs     where bytes come from                  file │ stdin │ gzip │ zstd
//!  window.rs    the bytes being looked at              one growable buffer
//!  pcap.rs      bytes to units, without input/output   Step::Need │ Step::Unit
//!  pcapng.rs
//!  reader.rs    all of that as a Source                Item::Packet │ Secrets │ Damage │ Idle
//!  keylog.rs    TLS secrets from a file beside it
//!  batch.rs     packets from one thread to another     Batch
//!  overflow.rs  where they wait when memory is full
//!  patience.rs  how long to wait for the next ones
//! ```

pub mod batch;
pub mod element;
pub mod file;
mod input;
pub mod keylog;
#[cfg(feature = "live")]
pub mod live;
pub mod overflow;
pub mod patience;
pub mod pcap;
pub mod pcapng;
pub mod reader;
pub mod stdio;
pub mod tape;
mod window;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::capture::{Damage, Dropped, Packet, Time};

/// What a source yields.
#[derive(Debug)]
pub enum Item<'a> {
    /// A packet.
    Packet(Packet<'a>),
    /// TLS secrets as whole lines of a key log: from a file beside the capture, or embedded in it (pcapng decryption secrets block).
    Secrets(&'a [u8]),
    /// The file is broken here: what follows, up to where reading could go on, is not decoded.
    Damage(Damage),
    /// Packets that were captured are missing here.
    Dropped(Dropped),
    /// Nothing now; more may come (a live interface, a growing file).
    Idle,
}

/// The wall clock, which a record needs to be compared with other logs.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Lowers the priority of this thread, and of those that it starts from now on, below that of those whose traffic it records: where it competes for a processor it gets about a
/// tenth of their share.
pub fn lower_priority() {
    // On Linux niceness belongs to the thread. Without it recording works as well.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

/// Where packets come from.
pub trait Source {
    /// The next item; `None` at the end. An error is final: it says what was being done, to what, and what to try.
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>>;

    /// Bytes read so far, and in all where that is known.
    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}
