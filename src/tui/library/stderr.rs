//! What a wrapped server wrote to stderr, as lines, page by page.
//!
//! The lines have to be looked for among all packets of the pipes. Where each page begins is kept, and where the last look ended, so
//! that a live session is read once and a page is found at once.

use anyhow::Result;

use super::super::data::{PAGE, Rows, StderrLine};
use crate::capture::pipe::{self, Content, Pipe};
use crate::capture::{LinkType, PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::mcp::SessionNumber;
use crate::store::{CaptureId, Page, StoreReader};

/// Packets read at once.
const SLICE: usize = 1_024;

/// A line of stderr is cut here; a server that writes none is no reason to hold all it wrote.
const LINE: usize = 4_096;

/// The lines of a session.
pub(super) struct Lines {
    session: SessionNumber,
    capture: CaptureId,
    pipes: ConnectionId,
    /// Where each page begins.
    pages: Vec<Place>,
    /// Lines that ended.
    total: usize,
    /// Behind the last of them.
    end: Place,
}

/// Where a line begins.
#[derive(Clone, Copy, Debug)]
struct Place {
    packet: PacketNumber,
    /// Bytes of the packet before it.
    skip: usize,
}

/// The beginning of everything.
const START: Place = Place { packet: PacketNumber(0), skip: 0 };

impl Lines {
    /// Of a session; nothing where it has no pipes.
    pub(super) fn new(reader: &StoreReader, session: SessionNumber) -> Result<Option<Lines>> {
        let Some(capture) = reader.capture_of(session)? else { return Ok(None) };
        // A process has one set of pipes.
        let pipes = reader.connections(session, Page::<ConnectionId>::first(1))?;
        Ok(pipes.first().map(|connection| {
            let pipes = connection.id;
            Lines { session, capture, pipes, pages: vec![START], total: 0, end: START }
        }))
    }

    pub(super) fn is_of(&self, session: SessionNumber) -> bool {
        self.session == session
    }

    /// A page. The last line may not have ended yet.
    pub(super) fn page(&mut self, reader: &StoreReader, page: usize) -> Result<Rows<StderrLine>> {
        let open = self.look_on(reader)?;
        let mut rows = Vec::new();
        if let Some(place) = self.pages.get(page) {
            each(reader, (self.capture, self.pipes), *place, &mut |line, _| {
                rows.push(line);
                rows.len() < PAGE
            })?;
        }
        Ok(Rows { rows, total: self.total + usize::from(open), complete: true })
    }

    /// Looks for lines behind those that are known; whether one has begun that has not ended.
    fn look_on(&mut self, reader: &StoreReader) -> Result<bool> {
        let mut open = false;
        each(reader, (self.capture, self.pipes), self.end, &mut |_, behind| {
            match behind {
                Some(behind) => {
                    self.total += 1;
                    self.end = behind;
                    if self.total.is_multiple_of(PAGE) {
                        self.pages.push(behind);
                    }
                }
                None => open = true,
            }
            true
        })?;
        Ok(open)
    }
}

/// Runs through the lines from `place` on, as long as `take` wants more. It is told where the next line begins; `None`: this one has
/// not ended.
fn each(
    reader: &StoreReader,
    (capture, pipes): (CaptureId, ConnectionId),
    place: Place,
    take: &mut dyn FnMut(StderrLine, Option<Place>) -> bool,
) -> Result<()> {
    let mut open: Option<(Time, Vec<u8>)> = None;
    let mut from = place.packet;
    loop {
        let packets = reader.packets(capture, pipes, from, SLICE)?;
        let Some(last) = packets.last() else { break };
        from = PacketNumber(last.number.0.saturating_add(1));
        for packet in &packets {
            let (LinkType::PIPE, Some((_, Content::Data(Pipe::Stderr, bytes)))) =
                (packet.link, pipe::decode(&packet.data))
            else {
                continue;
            };
            let mut at = if packet.number == place.packet { place.skip } else { 0 };
            for piece in bytes.get(at..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
                at += piece.len();
                let (time, mut line) = open.take().unwrap_or_else(|| (packet.time, Vec::new()));
                line.extend_from_slice(&piece[..piece.len().min(LINE.saturating_sub(line.len()))]);
                if !piece.ends_with(b"\n") {
                    open = Some((time, line));
                } else if !take(said(time, &line), Some(Place { packet: packet.number, skip: at })) {
                    return Ok(());
                }
            }
        }
    }
    if let Some((time, line)) = open {
        take(said(time, &line), None);
    }
    Ok(())
}

fn said(time: Time, line: &[u8]) -> StderrLine {
    StderrLine { time, text: String::from_utf8_lossy(line).trim_end().to_owned() }
}
