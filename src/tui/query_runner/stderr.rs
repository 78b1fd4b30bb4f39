//! The lines that a wrapped server wrote to stderr, page by page.
//!
//! Lines are spread over all packets of the pipes. The index stores where each page begins and
//! where the last scan ended. So a live session is scanned once, and a page is found at once.

use anyhow::Result;

use super::super::data::{PAGE, Rows, StderrLine};
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{LinkType, PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::mcp::SessionNumber;
use crate::store::{CaptureId, Page, StoreReader};

/// Packets that are read at once.
const SLICE: usize = 1_024;

/// Limit of a line in bytes. A server that writes no line ends does not fill the memory.
const LINE: usize = 4_096;

/// An index of the lines of a session.
pub(super) struct StderrIndex {
    session: SessionNumber,
    capture: CaptureId,
    pipes: ConnectionId,
    /// The position at which each page begins.
    pages: Vec<LinePosition>,
    /// The number of complete lines.
    total: usize,
    /// The position after the last complete line.
    end: LinePosition,
}

/// The position at which a line begins.
#[derive(Clone, Copy, Debug)]
struct LinePosition {
    packet: PacketNumber,
    /// Bytes of the packet before the line.
    skip: usize,
}

/// The position of the first line.
const START: LinePosition = LinePosition { packet: PacketNumber(0), skip: 0 };

impl StderrIndex {
    /// The index of a session; `None` if it has no pipes.
    pub(super) fn new(reader: &StoreReader, session: SessionNumber) -> Result<Option<StderrIndex>> {
        let Some(capture) = reader.capture_of(session)? else { return Ok(None) };
        // A process has one set of pipes.
        let pipes = reader.connections(session, Page::<ConnectionId>::first(1))?;
        Ok(pipes.first().map(|connection| {
            let pipes = connection.id;
            StderrIndex { session, capture, pipes, pages: vec![START], total: 0, end: START }
        }))
    }

    pub(super) fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// A page of lines. The last line may be incomplete.
    pub(super) fn page(&mut self, reader: &StoreReader, page: usize) -> Result<Rows<StderrLine>> {
        let unfinished = self.scan_new_packets(reader)?;
        let mut rows = Vec::new();
        if let Some(from_position) = self.pages.get(page) {
            for_each_line(reader, (self.capture, self.pipes), *from_position, &mut |line, _| {
                rows.push(line);
                rows.len() < PAGE
            })?;
        }
        Ok(Rows { rows, total: self.total + usize::from(unfinished), complete: true })
    }

    /// Scans new packets for lines. Returns whether the last line is incomplete.
    fn scan_new_packets(&mut self, reader: &StoreReader) -> Result<bool> {
        let mut unfinished = false;
        for_each_line(reader, (self.capture, self.pipes), self.end, &mut |_, next_line| {
            match next_line {
                Some(next_line) => {
                    self.total += 1;
                    self.end = next_line;
                    if self.total.is_multiple_of(PAGE) {
                        self.pages.push(next_line);
                    }
                }
                None => unfinished = true,
            }
            true
        })?;
        Ok(unfinished)
    }
}

/// Calls `visit` for each line from a position on, as long as it returns true. Its second argument
/// is the position of the next line; `None` for an incomplete line.
fn for_each_line(
    reader: &StoreReader,
    (capture, pipes): (CaptureId, ConnectionId),
    from_position: LinePosition,
    visit: &mut dyn FnMut(StderrLine, Option<LinePosition>) -> bool,
) -> Result<()> {
    let mut unfinished: Option<(Time, Vec<u8>)> = None;
    let mut from = from_position.packet;
    loop {
        let packets = reader.packets(capture, pipes, from, SLICE)?;
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
                let (time, mut line) = unfinished.take().unwrap_or_else(|| (packet.time, Vec::new()));
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

fn stderr_line(time: Time, line: &[u8]) -> StderrLine {
    StderrLine { time, text: String::from_utf8_lossy(line).trim_end().to_owned() }
}
