//! Recordings of other programs as captures: archives of HTTP (HAR), and lines of JSON or text with
//! messages, as MCP Inspector, mcpsnoop and clients write them.
//!
//! ```text
//!  HAR entry           ─► request and response ─► made-up TCP packets ─► pcapng in memory
//!  line with a message ─► line of a pipe       ─► pipe packets ─────────►
//! ```
//!
//! So an import is read like any capture file. Nobody captured what is below its messages, and no
//! view presents that as a fact (`CaptureKind::Foreign`). What cannot be read is named by its line,
//! and the rest is used.

mod har;
mod lines;
mod pcapng;

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail};

use super::input::Input;
use super::reader;
use super::tape::{Flow, SEGMENT};
use crate::capture::pipe::{self, Pipe, PipeEvent, Start};
use crate::capture::{LinkType, Time};

/// The largest file that is read, decompressed. It is converted in memory.
const MAX_BYTES: u64 = 512 << 20;

/// Memory of packets at which reading ends. A short entry of an archive becomes many packets.
const MAX_MADE: usize = 1 << 30;

/// Memory that a packet takes besides its bytes, approximately.
const PACKET: usize = 64;

/// Bytes from which a file is recognised.
const EXAMINED: usize = 64 << 10;

/// Damaged places that are listed. More are counted.
const LISTED: usize = 50;

/// A recording of another program, as a capture.
#[derive(Debug, Default)]
pub struct Import {
    /// The capture, in the format pcapng.
    pub(super) capture: Vec<u8>,
    /// Offset and description of each place that could not be read.
    pub(super) damage: Vec<(u64, String)>,
}

/// Makes an import of messages and exchanges.
#[derive(Debug, Default)]
pub struct ImportBuilder {
    packets: Vec<(Time, LinkType, Vec<u8>)>,
    /// Memory of the packets, in bytes.
    size: usize,
    processes: HashMap<String, u32>,
    damage: Vec<(u64, String)>,
    unlisted: u64,
    /// The time of the latest event.
    latest: Time,
}

impl ImportBuilder {
    /// Adds a line of a pipe. `session` names the process that it belongs to, `name` the server and
    /// `command` its command line, both as far as they are known.
    pub fn line(
        &mut self,
        session: &str,
        about: (Option<&str>, &[String]),
        time: Option<Time>,
        pipe: Pipe,
        text: &str,
    ) {
        let time = self.date(time);
        let next = pipe::FIRST_IMPORTED + self.processes.len() as u32;
        let mut push = |process: u32, event: &PipeEvent<'_>| {
            let mut packet = Vec::new();
            pipe::encode(process, event, &mut packet);
            self.size += PACKET + packet.len();
            self.packets.push((time, LinkType::PIPE, packet));
        };
        let process = match self.processes.get(session) {
            Some(process) => *process,
            None => {
                let (name, command) = about;
                let start = Start { command: command.to_vec(), name: name.map(str::to_owned), ..Start::default() };
                push(next, &PipeEvent::Start(start));
                next
            }
        };
        // Line ends in JSON are blanks.
        let line = format!("{}\n", text.trim_end_matches(['\n', '\r']).replace(['\n', '\r'], " "));
        line.as_bytes().chunks(SEGMENT).for_each(|chunk| push(process, &PipeEvent::Data(pipe, chunk)));
        self.processes.insert(session.to_owned(), process);
    }

    /// Adds a segment of a made-up connection. Sender 0 is the client.
    fn segment(&mut self, flow: &mut Flow, time: Time, sender: usize, flags: u8, bytes: &[u8]) {
        let mut packet = Vec::new();
        let link = flow.segment(sender, flags, bytes, &mut packet);
        self.size += PACKET + packet.len();
        self.packets.push((time, link, packet));
    }

    /// The time of an event. Without one it is that of the event before.
    fn date(&mut self, time: Option<Time>) -> Time {
        self.latest = time.unwrap_or(self.latest);
        self.latest
    }

    /// Whether no more can be read, because the packets take too much memory. Notes the place.
    pub fn is_full(&mut self, offset: u64, line: usize) -> bool {
        let is_full = self.size > MAX_MADE;
        if is_full {
            self.damage.push((offset, format!("line {line}: the import ends here, because it takes too much memory")));
        }
        is_full
    }

    /// Notes a place that cannot be read.
    pub fn damaged(&mut self, offset: u64, line: usize, reason: &str) {
        match self.damage.len() < LISTED {
            true => self.damage.push((offset, format!("line {line}: {reason}"))),
            false => self.unlisted += 1,
        }
    }

    /// The import. Events are put in order of time.
    pub fn finish(mut self) -> Import {
        self.packets.sort_by_key(|(time, _, _)| *time);
        if self.unlisted > 0
            && let Some((_, last)) = self.damage.last_mut()
        {
            *last += &format!("; {} later lines cannot be read either", self.unlisted);
        }
        Import { capture: pcapng::write(self.packets), damage: self.damage }
    }
}

/// A form of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Har,
    Lines,
}

/// Whether a file is a recording of another program.
pub(super) fn recognises(path: &Path) -> anyhow::Result<bool> {
    Ok(open(path)?.is_some())
}

/// Opens a recording: what follows its first bytes, those bytes, and its form. `None` if the file
/// is something else.
fn open(path: &Path) -> anyhow::Result<Option<(Input, Vec<u8>, Form)>> {
    let mut input = Input::open(path).with_context(|| cannot_read(path))?;
    let mut bytes = Vec::new();
    // What is no capture gets its error elsewhere.
    if input.by_ref().take(EXAMINED as u64).read_to_end(&mut bytes).is_err() {
        return Ok(None);
    }
    // Packets may carry the same texts.
    if reader::is_capture(&bytes) || memchr::memchr(0, &bytes).is_some() {
        return Ok(None);
    }
    let start = String::from_utf8_lossy(&bytes);
    let start = start.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    let form = if har::recognises(start) {
        Form::Har
    } else if lines::recognises(start) {
        Form::Lines
    } else {
        return Ok(None);
    };
    Ok(Some((input, bytes, form)))
}

/// Reads a recording of another program. `None` if the file is something else.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<Import>> {
    let Some((input, mut bytes, form)) = open(path)? else { return Ok(None) };
    input.take(MAX_BYTES + 1).read_to_end(&mut bytes).with_context(|| cannot_read(path))?;
    if bytes.len() as u64 > MAX_BYTES {
        bail!("{} is too large to import: more than {} MiB", path.display(), MAX_BYTES >> 20);
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let mut builder = ImportBuilder::default();
    match form {
        Form::Har => har::read(text.trim_start_matches('\u{feff}'), &mut builder),
        Form::Lines => lines::read(text.trim_start_matches('\u{feff}'), &mut builder),
    }
    drop(text);
    Ok(Some(builder.finish()))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// A time: RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since 1970,
/// told apart by its size.
fn time(json: &str) -> Option<Time> {
    let text: String = match serde_json::from_str(json).ok()? {
        serde_json::Value::String(text) => text,
        serde_json::Value::Number(number) => {
            let number = number.as_f64()?;
            let scale = match number.abs() {
                ..1e11 => 1e9,
                ..1e14 => 1e6,
                ..1e17 => 1e3,
                _ => 1.0,
            };
            return Some(Time((number * scale) as i64));
        }
        _ => return None,
    };
    time_of_text(&text)
}

/// A time as text. Without an offset it is UTC.
pub fn time_of_text(text: &str) -> Option<Time> {
    let text = text.trim();
    let parsed = text.parse::<jiff::Timestamp>().or_else(|_| format!("{}Z", text.replace(' ', "T")).parse());
    i64::try_from(parsed.ok()?.as_nanosecond()).ok().map(Time)
}

#[cfg(test)]
mod tests;
