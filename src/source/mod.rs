//! Sources: the only way traffic gets in. Capture files, interfaces, wrapped processes, and
//! mcptap's own traffic.
//!
//! A source yields items. It does not interpret anything above the packet.
//!
//! ```text
//!  file.rs      several files as one capture             path, "-"
//!  input.rs     the bytes of a file, decompressed        file │ stdin │ gzip │ zstd
//!  window.rs    the bytes that are being parsed          one growable buffer
//!  element.rs   the elements of a capture file           NextElement::Need │ Found │ Unreadable
//!  pcap.rs      bytes to elements, without input/output
//!  pcapng.rs                                         its pcapng/pipes.rs restores pipe packets
//!  reader.rs    all of that as a Source                  Item::Packet │ Secrets │ Damage │ Idle
//!  keylog.rs    TLS secrets from a file beside it
//!  live.rs      a network interface
//!  stdio.rs     a wrapped process
//!  command.rs   whether a command line names MCP
//!  first_line.rs  whether a process is an MCP server
//!  attach.rs    processes that already run
//!  tape.rs      what mcptap itself sends and receives
//!  batch.rs     packets from one thread to another       Batch
//!  queue.rs     batches from what passes through mcptap to its recorder
//!  overflow.rs  batches on disk while memory is full
//!  patience.rs  how long to wait for the next packets
//!  load.rs      whether a processor is free
//! ```

#[cfg(all(feature = "attach", target_os = "linux"))]
pub mod attach;
pub mod batch;
pub mod command;
pub mod element;
pub mod file;
pub mod first_line;
pub mod host;
pub mod imports;
mod input;
pub mod keylog;
#[cfg(feature = "live")]
pub mod live;
mod load;
pub mod overflow;
pub mod patience;
pub mod pcap;
pub mod pcapng;
mod queue;
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

/// An item of a source.
#[derive(Debug)]
pub enum Item<'a> {
    /// A packet, in the order in which the source delivers them.
    Packet(Packet<'a>),
    /// TLS secrets as whole lines of a key log. They come from a file beside the capture, or from a
    /// decryption secrets block of a pcapng file.
    Secrets(&'a [u8]),
    /// The file is damaged here. The bytes up to the place where reading could resume
    /// are not decoded.
    Damage(Damage),
    /// Packets that were captured are missing here.
    Dropped(Dropped),
    /// Nothing is available now. More may come (a live interface, a growing file).
    Idle,
}

/// The time of the system clock. A recording carries it so that it can be compared with other logs.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Lowers the priority of this thread, and of the threads that it starts afterwards, below that
/// of the peers whose traffic it records. Where it competes for a processor it gets about a
/// tenth of their share.
pub fn lower_priority() {
    // On Linux niceness belongs to the thread. If it cannot be set, recording works all the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

/// A source of packets.
pub trait Source {
    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// An error is final. Its message says what was being done, to what, and what to try.
    fn next(&mut self) -> anyhow::Result<Option<Item<'_>>>;

    /// The recording is to end. Returns whether the source ends by itself then, after all that has
    /// passed so far. Only the queue of live captures calls it, on the source that it reads.
    fn stop(&mut self) -> bool {
        false
    }

    /// Bytes read so far, and the total where it is known.
    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}
