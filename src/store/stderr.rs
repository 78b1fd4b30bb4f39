//! The lines that a wrapped server wrote to stderr. They are read from the packets of its pipes.

use std::collections::VecDeque;

use anyhow::Result;
use rusqlite::params;

use super::merge::Merge;
use super::record::packet::{self, ChunkId};
use super::{CaptureId, Page, RowKey, StoreReader};
use crate::capture::pipe::{self, Pipe, PipeEvent};
use crate::capture::{LinkType, PacketNumber, Time};
use crate::decode::ConnectionId;
use crate::mcp::SessionNumber;

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
        let mut chunks = Merge::new(self.stderr_chunks(capture, pipes, from_position.packet)?);
        while let Some(packet) = chunks.next(&self.db)? {
            let (LinkType::PIPE, Some((_, PipeEvent::Data(Pipe::Stderr, bytes)))) =
                (packet.link, pipe::decode(&packet.data))
            else {
                continue;
            };
            if packet.number < from_position.packet {
                continue;
            }
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
        if let Some((time, line)) = unfinished {
            visit(stderr_line(time, &line), None);
        }
        Ok(())
    }

    /// The chunks that have a part of stderr, from the one of a packet on.
    fn stderr_chunks(&self, capture: CaptureId, pipes: ConnectionId, from: PacketNumber) -> Result<Vec<ChunkId>> {
        let columns = packet::ID_COLUMNS;
        let sql = format!(
            "SELECT {columns} FROM packet_chunk WHERE connection = ? AND last_number >= ? AND stderr IS NOT 0 ORDER BY first_number"
        );
        let key = RowKey::new(capture, pipes.0.into());
        self.select(&sql, params![key, from.0 as i64], |row| Ok(packet::read_id(row)?))
    }

    /// The number of lines that a wrapped server wrote to stderr, and the last `limit` of these
    /// lines in order.
    pub fn last_stderr(&self, pipes: SessionPipes, limit: usize) -> Result<(u64, Vec<StderrLine>)> {
        let SessionPipes { capture, pipes: connection } = pipes;
        let chunks = self.stderr_chunks(capture, connection, PacketNumber::default())?;
        // From the end, twice as many chunks each time, until they hold enough lines. The first
        // line may be the rest of one.
        let (mut lines, mut read, mut has_rest) = (VecDeque::new(), 1, false);
        while lines.len() <= limit && read / 2 < chunks.len() {
            lines.clear();
            let from_position = LinePosition { packet: chunks[chunks.len().saturating_sub(read)].first, skip: 0 };
            self.visit_stderr(pipes, from_position, &mut |line, next| {
                has_rest = next.is_none();
                lines.push_back(line);
                if lines.len() > limit + 1 {
                    lines.pop_front();
                }
                true
            })?;
            read *= 2;
        }
        lines.drain(..lines.len().saturating_sub(limit));
        let known = "SELECT coalesce(sum(stderr - 1), 0), count(*) - count(stderr) FROM packet_chunk
             WHERE connection = ? AND stderr IS NOT 0";
        let key = RowKey::new(capture, connection.0.into());
        let (mut count, unknown): (i64, i64) =
            self.db.prepare_cached(known)?.query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if unknown > 0 {
            count = 0;
            self.visit_stderr(pipes, LinePosition::default(), &mut |_, next| {
                count += i64::from(next.is_some());
                true
            })?;
        }
        Ok((count.max(0).cast_unsigned().saturating_add(has_rest.into()), lines.into()))
    }
}

fn stderr_line(time: Time, line: &[u8]) -> StderrLine {
    StderrLine { time, text: String::from_utf8_lossy(line).trim_end().to_owned() }
}
