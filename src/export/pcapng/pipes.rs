//! Pipe packets for Wireshark: a packet for each line, and records from which mcptap restores the
//! pipe packets (see [`pipe_record`]).
//!
//! ```text
//!  pipe packets   ┊ start ┊ {"id":1… ┊ …}\n{"id":2}\n ┊ a line of stderr\n ┊ exit ┊
//!  blocks         ┊ custom┊ json {"id":1……}\n ┊ json {"id":2}\n ┊ custom ┊ custom  ┊
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use memchr::memchr;
use serde::de::IgnoredAny;

use super::Writer;
use crate::capture::pipe::{self, Pipe, PipeEvent, Start};
use crate::capture::pipe_record::{ENTERPRISE, LinePiece, LinesRecord, MOST_PIECES, PacketRecord};
use crate::capture::{LinkType, Packet, Time};

const CUSTOM: u32 = 0xbad;
/// A custom option with bytes that programs may copy.
const CUSTOM_OPTION: u16 = 2_989;
/// epb_flags; its two lowest bits are the direction.
const PACKET_FLAGS: u16 = 2;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Tags of an exported PDU (`wsutil/exported_pdu_tlvs.h` of Wireshark). Numbers are big-endian.
mod tag {
    pub const END: u16 = 0;
    pub const DISSECTOR: u16 = 12;
    pub const PROTOCOL_COLUMN: u16 = 33;
    pub const DIRECTION: u16 = 35;
}

/// Values of [`tag::DIRECTION`], as the host sees them.
const SENT: u32 = 0;
const RECEIVED: u32 = 1;

/// Bytes of a line in one packet. Wireshark refuses a file with a packet of more than 256 KiB. That
/// includes the tags before the line.
const LONGEST: usize = (256 << 10) - 64;

/// Bytes of incomplete lines, over all processes, above which they are written as they are.
const MOST_PENDING: usize = 16 << 20;

/// What is open of the pipes that were written.
#[derive(Debug, Default)]
pub(super) struct Pipes {
    /// Identifies the records of this file: the time of its first pipe packet.
    recording: Option<i64>,
    /// The position of the next pipe packet.
    position: u64,
    /// The interface of each process.
    interfaces: BTreeMap<u32, u32>,
    /// The incomplete lines of all pipes.
    pending: BTreeMap<(u32, Pipe), Pending>,
    /// The bytes of incomplete lines.
    pending_bytes: usize,
}

/// The beginning of a line.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    pieces: Vec<LinePiece>,
    /// Whether an earlier part of the line is written already.
    is_continued: bool,
}

impl<W: Write> Writer<W> {
    /// Writes a pipe packet; `false` if the packet is none, or is cut.
    pub(super) fn pipe_packet(&mut self, packet: &Packet<'_>) -> io::Result<bool> {
        let whole = packet.original_length as usize == packet.data.len() && packet.data.get(6..8) == Some(&[0, 0]);
        let Some((process, event)) = pipe::decode(packet.data).filter(|_| whole) else { return Ok(false) };
        let recording = *self.pipes.recording.get_or_insert(packet.time.0);
        let position = self.pipes.position;
        self.pipes.position += 1;
        match event {
            PipeEvent::Data(pipe @ (Pipe::Stdin | Pipe::Stdout), bytes) if !bytes.is_empty() => {
                self.lines((process, pipe), bytes, position, packet.time)?;
                return Ok(true);
            }
            PipeEvent::Start(start) => {
                self.flush_lines_of(process)?;
                self.process_interface(process, Some(&start))?;
            }
            PipeEvent::EndOfFile(pipe) | PipeEvent::Lost(pipe, _) => self.flush_line((process, pipe))?,
            PipeEvent::Data(..) | PipeEvent::Exit(_) => {}
        }
        self.begin(CUSTOM);
        self.number(ENTERPRISE);
        let record = PacketRecord { recording, position, time: packet.time, packet: packet.data };
        record.encode(&mut self.block).ok_or_else(|| super::too_long("a packet"))?;
        self.align();
        self.end()?;
        Ok(true)
    }

    /// Writes incomplete lines as they are. What follows is a line of its own in Wireshark. mcptap
    /// restores the pipe packets and finds the whole line.
    pub(super) fn flush_lines(&mut self) -> io::Result<()> {
        while let Some((key, _)) = self.pipes.pending.last_key_value() {
            self.flush_line(*key)?;
        }
        Ok(())
    }

    /// Adds the bytes of a pipe packet, and writes each line that they complete.
    fn lines(&mut self, key: (u32, Pipe), mut bytes: &[u8], position: u64, time: Time) -> io::Result<()> {
        while !bytes.is_empty() {
            let pending = self.pipes.pending.entry(key).or_default();
            let room = LONGEST - pending.bytes.len();
            let line = memchr(b'\n', bytes).map_or(bytes.len(), |end| end + 1);
            let (now, rest) = bytes.split_at(line.min(room));
            let length = now.len() as u32; // below LONGEST
            pending.bytes.extend_from_slice(now);
            pending.pieces.push(LinePiece { position, time, length, is_last: rest.is_empty() });
            let is_line = now.ends_with(b"\n");
            let is_full = pending.bytes.len() == LONGEST || pending.pieces.len() == MOST_PIECES;
            self.pipes.pending_bytes += now.len();
            bytes = rest;
            if is_line || is_full {
                self.flush_line(key)?;
                if !is_line {
                    self.pipes.pending.insert(key, Pending { is_continued: true, ..Pending::default() });
                }
            }
        }
        if self.pipes.pending_bytes > MOST_PENDING {
            self.flush_lines()?;
        }
        Ok(())
    }

    fn flush_lines_of(&mut self, process: u32) -> io::Result<()> {
        self.flush_line((process, Pipe::Stdin))?;
        self.flush_line((process, Pipe::Stdout))
    }

    /// Writes what is there of a line, as a packet for Wireshark.
    fn flush_line(&mut self, key: (u32, Pipe)) -> io::Result<()> {
        let Some(Pending { bytes, pieces, is_continued }) = self.pipes.pending.remove(&key) else { return Ok(()) };
        let (Some(last), (process, pipe)) = (pieces.last(), key) else { return Ok(()) };
        self.pipes.pending_bytes -= bytes.len();
        let interface = self.process_interface(process, None)?;
        let (direction, flags) = match pipe {
            Pipe::Stdin => (SENT, OUTBOUND),
            Pipe::Stdout | Pipe::Stderr => (RECEIVED, INBOUND),
        };
        let dissector: &[u8] = if !is_continued && is_json(&bytes) { b"json" } else { b"data" };
        let mut data = Vec::with_capacity(bytes.len() + 32);
        put_tag(&mut data, tag::DISSECTOR, dissector);
        put_tag(&mut data, tag::PROTOCOL_COLUMN, b"MCP\0");
        put_tag(&mut data, tag::DIRECTION, &direction.to_be_bytes());
        put_tag(&mut data, tag::END, b"");
        data.extend_from_slice(&bytes);
        let ticks = last.time.0 as u64;
        self.begin(super::ENHANCED_PACKET);
        self.number(interface);
        self.number((ticks >> 32) as u32);
        self.number(ticks as u32);
        self.number(data.len() as u32); // at most 256 KiB
        self.number(data.len() as u32);
        self.padded(&data);
        self.option(PACKET_FLAGS, &flags.to_le_bytes());
        let mut record = ENTERPRISE.to_le_bytes().to_vec();
        let recording = self.pipes.recording.unwrap_or_default();
        LinesRecord { recording, process, pipe, pieces }.encode(&mut record);
        self.option(CUSTOM_OPTION, &record);
        self.end_of_options();
        self.end()
    }

    /// The interface of a process. A process that starts gets a new one, with its name.
    fn process_interface(&mut self, process: u32, start: Option<&Start>) -> io::Result<u32> {
        if let (Some(known), None) = (self.pipes.interfaces.get(&process), start) {
            return Ok(*known);
        }
        let name = start.and_then(|start| {
            let program = start.command.first().map(|program| program.rsplit(['/', '\\']).next().unwrap_or(program));
            start.name.as_deref().or(program)
        });
        let name = name.map_or_else(|| format!("process {process}"), |name| format!("{name}, process {process}"));
        let command = start.map(|start| start.command.join(" "));
        let interface = self.describe(LinkType::UPPER_PDU, Some(&name), command.as_deref())?;
        self.pipes.interfaces.insert(process, interface);
        Ok(interface)
    }
}

/// Whether a line is a JSON object or array, as messages are.
fn is_json(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    matches!(line.first(), Some(b'{' | b'[')) && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// Appends a tag. Values are padded to 32 bits, and the padding counts.
fn put_tag(out: &mut Vec<u8>, tag: u16, value: &[u8]) {
    out.extend_from_slice(&tag.to_be_bytes());
    out.extend_from_slice(&(value.len().next_multiple_of(4) as u16).to_be_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}
