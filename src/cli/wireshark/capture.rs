//! Captures for Wireshark: packets as a pcapng file through a pipe.

use std::collections::{BTreeMap, HashSet};
use std::env;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::capture::{Limits, Packet};
use crate::cli::args::Extcap;
#[cfg(all(feature = "attach", target_os = "linux"))]
use crate::cli::attach;
use crate::cli::stop;
use crate::decode::ConnectionId;
use crate::engine::queue::Queue;
use crate::engine::{self, Listener};
use crate::event::{Detail, Event};
use crate::export::pcapng;
use crate::pipeline::{Pipeline, PipelineConfig};
use crate::source::Source;
use crate::source::batch::Batch;
use crate::source::live::{self, Live, LiveOptions};
use crate::source::overflow::Overflow;

/// Bytes of packets whose connection may still turn out to carry MCP. Beyond it, those of the
/// oldest connection are discarded: the first bytes of a connection mostly show what it carries.
const MOST_UNDECIDED: usize = 32 << 20;

/// Captures on a network interface until Wireshark ends it.
pub(super) fn network(arguments: &Extcap, fifo: &Path) -> Result<()> {
    let live = Live::open(&LiveOptions {
        interface: arguments.network.clone(),
        filter: arguments.extcap_capture_filter.clone().filter(|filter| !filter.is_empty()),
        ..LiveOptions::default()
    })?;
    capture(live, fifo, arguments.all)
}

/// Records the STDIO of running servers until Wireshark ends it.
#[cfg(all(feature = "attach", target_os = "linux"))]
pub(super) fn stdio(process: Option<&str>, fifo: &Path) -> Result<()> {
    capture(attach::open(process)?, fifo, true)
}

fn capture(source: impl Source + Send + 'static, fifo: &Path, all: bool) -> Result<()> {
    let file = File::options().write(true).open(fifo).with_context(|| format!("cannot open {}", fifo.display()))?;
    // The rest needs only the user's own rights.
    live::drop_privileges()?;
    let stop = stop::on_signals()?;
    let mut packets = PacketsForWireshark::new(BufWriter::new(file), all)?;
    let detail = if all { Detail::Messages } else { Detail::Store };
    let mut pipeline = Pipeline::new(PipelineConfig { limits: Limits::live(), detail, ..PipelineConfig::default() });
    let mut queue = Queue::start(source, Arc::clone(&stop), Overflow::new(&env::temp_dir(), true))?;
    let run = engine::run(&mut queue, &mut pipeline, &mut packets, &AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    queue.finish().map(drop)?;
    match run.and_then(|()| Ok(packets.writer.finish().map(drop)?)) {
        // Wireshark ends a capture by closing the pipe.
        Err(error) if error.chain().any(is_closed) => Ok(()),
        end => end,
    }
}

fn is_closed(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Writes packets as they come: all, or those of connections in which MCP was found.
struct PacketsForWireshark<W: Write> {
    writer: pcapng::Writer<W>,
    all: bool,
    /// The packet whose connection is not known yet.
    last: Batch,
    /// Packets of connections that may turn out to carry MCP, the oldest connection first.
    undecided: BTreeMap<ConnectionId, Batch>,
    /// Bytes of these packets.
    bytes: usize,
    claimed: HashSet<ConnectionId>,
}

impl<W: Write> PacketsForWireshark<W> {
    fn new(out: W, all: bool) -> Result<PacketsForWireshark<W>> {
        Ok(PacketsForWireshark {
            writer: pcapng::Writer::new(out)?,
            all,
            last: Batch::default(),
            undecided: BTreeMap::new(),
            bytes: 0,
            claimed: HashSet::new(),
        })
    }

    /// The last packet belongs to this connection.
    fn belongs(&mut self, connection: ConnectionId) -> Result<()> {
        let Some(packet) = self.last.get(0) else { return Ok(()) };
        if self.claimed.contains(&connection) {
            self.writer.packet(&packet)?;
        } else {
            let waiting = self.undecided.entry(connection).or_default();
            let before = waiting.size();
            waiting.push(&packet);
            self.bytes += waiting.size() - before;
        }
        self.last.clear();
        while self.bytes > MOST_UNDECIDED
            && let Some((_, oldest)) = self.undecided.pop_first()
        {
            self.bytes -= oldest.size();
        }
        Ok(())
    }

    /// Removes the packets that wait, and returns them.
    fn forget(&mut self, connection: ConnectionId) -> Batch {
        let waiting = self.undecided.remove(&connection).unwrap_or_default();
        self.bytes -= waiting.size();
        waiting
    }
}

impl<W: Write> Listener for PacketsForWireshark<W> {
    fn packet(&mut self, packet: &Packet<'_>) -> Result<()> {
        if self.all {
            return Ok(self.writer.packet(packet)?);
        }
        self.last.clear();
        self.last.push(packet);
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<()> {
        self.event_ref(&event)
    }

    fn event_ref(&mut self, event: &Event) -> Result<()> {
        match event {
            _ if self.all => {}
            Event::Segment(segment) => self.belongs(segment.connection)?,
            Event::Claimed(connection) => {
                self.claimed.insert(*connection);
                let waiting = self.forget(*connection);
                (0..waiting.len())
                    .filter_map(|index| waiting.get(index))
                    .try_for_each(|packet| self.writer.packet(&packet))?;
            }
            Event::Closed(connection) => {
                self.claimed.remove(connection);
                self.forget(*connection);
            }
            _ => {}
        }
        Ok(())
    }

    fn idle(&mut self) -> Result<()> {
        Ok(self.writer.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Item;
    use crate::source::file::Files;
    use crate::source::reader::CaptureFileReader;

    /// The number of packets that are written of a capture.
    fn written(all: bool) -> usize {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples/wrong-scheme/capture.pcapng");
        let mut source = Files::open(&[file], false).unwrap();
        let mut packets = PacketsForWireshark::new(Vec::new(), all).unwrap();
        let mut pipeline = Pipeline::new(PipelineConfig { detail: Detail::Store, ..PipelineConfig::default() });
        engine::run(&mut source, &mut pipeline, &mut packets, &AtomicBool::new(false)).unwrap();
        assert_eq!(packets.bytes, 0);
        let out = packets.writer.finish().unwrap();
        let mut reader = CaptureFileReader::new("written", &out[..]);
        let mut count = 0;
        while let Some(item) = reader.next().unwrap() {
            count += usize::from(matches!(item, Item::Packet(_)));
        }
        count
    }

    #[test]
    fn packets_of_connections_without_mcp_are_left_out() {
        let (mcp, all) = (written(false), written(true));
        // As many as the database keeps of this capture.
        assert_eq!((mcp, all), (37, 76));
    }
}
