//! The lines that a wrapped server wrote to stderr. They are read from the packets of its pipes.

use anyhow::Result;

use super::{CaptureId, Page, StoreReader};
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{LinkType, PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::mcp::SessionNumber;

/// Packets that are read at once.
const SLICE: usize = 1_024;

/// Limit of a line in bytes. A server that writes no line ends does not fill the memory.
const LINE: usize = 4_096;

/// A line that a wrapped server wrote to stderr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StderrLine {
    /// The time of its last byte.
    pub time: Time,
    /// Its text without the line end.
    pub text: String,
}

/// The position at which a line begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinePosition {
    packet: PacketNumber,
    /// Bytes of the packet before the line.
    skip: usize,
}

/// The pipes of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionPipes {
    capture: CaptureId,
    pipes: ConnectionId,
}

impl StoreReader {
    /// The pipes of a session; `None` if it has none.
    pub fn pipes(&self, session: SessionNumber) -> Result<Option<SessionPipes>> {
        let Some(capture) = self.capture_of(session)? else { return Ok(None) };
        // A process has one set of pipes.
        let connections = self.connections(session, Page::<ConnectionId>::first(1))?;
        let pipes = connections.first().filter(|connection| connection.protocol == "pipe");
        Ok(pipes.map(|connection| SessionPipes { capture, pipes: connection.id }))
    }

    /// Calls `visit` for each line of stderr from a position on, as long as it returns true. Its
    /// second argument is the position of the next line; `None` for an incomplete line.
    pub fn visit_stderr(
        &self,
        SessionPipes { capture, pipes }: SessionPipes,
        from_position: LinePosition,
        visit: &mut dyn FnMut(StderrLine, Option<LinePosition>) -> bool,
    ) -> Result<()> {
        let mut unfinished: Option<(Time, Vec<u8>)> = None;
        let mut from = from_position.packet;
        loop {
            let packets = self.packets(capture, pipes, from, SLICE)?;
            let Some(last) = packets.last() else { break };
            from = PacketNumber(last.number.0.saturating_add(1));
            for packet in &packets {
                let (LinkType::PIPE, Some((_, PipeEvent::Data(Pipe::Stderr, bytes)))) =
                    (packet.link, pipe::decode(&packet.data))
                else {
                    continue;
                };
                let mut at = if packet.number == from_position.packet { from_position.skip } else { 0 };
                for piece in bytes.get(at..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
                    at += piece.len();
                    let (time, mut line) = (packet.time, unfinished.take().map_or(Vec::new(), |(_, line)| line));
                    line.extend_from_slice(&piece[..piece.len().min(LINE.saturating_sub(line.len()))]);
                    if !piece.ends_with(b"\n") {
                        unfinished = Some((time, line));
                    } else if !visit(stderr_line(time, &line), Some(LinePosition { packet: packet.number, skip: at })) {
                        return Ok(());
                    }
                }
            }
        }
        if let Some((time, line)) = unfinished {
            visit(stderr_line(time, &line), None);
        }
        Ok(())
    }
}

fn stderr_line(time: Time, line: &[u8]) -> StderrLine {
    StderrLine { time, text: String::from_utf8_lossy(line).trim_end().to_owned() }
}
