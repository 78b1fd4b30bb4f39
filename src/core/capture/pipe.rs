//! Pipe packets: the events of a wrapped process, as packets.
//!
//! A wrapped STDIO server is observed as packets of link type
//! [`LinkType::PIPE`](super::LinkType::PIPE), so STDIO needs no second path through the program.
//! Each packet begins with a head of twelve bytes. All numbers are little-endian.
//!
//! ```text
//!  0   4  "MTP1"     distinguishes this use of the private link type from others
//!  4   1  event      0 start, 1 data, 2 end of file, 3 exit, 4 lost
//!  5   1  pipe       0 stdin, 1 stdout, 2 stderr (0 if the event has no pipe)
//!  6   2  zero
//!  8   4  process    process id of the server
//! 12   …  content    start: JSON of [`Start`]; data: the bytes; exit: JSON of [`Exit`];
//!                    lost: the number of bytes not recorded, u64
//! ```

use serde::{Deserialize, Serialize};

/// The length of the head in bytes.
pub const HEAD: usize = 12;
const MAGIC: &[u8; 4] = b"MTP1";

/// The first process id of sessions that another program recorded without one. Operating systems
/// give smaller ones.
pub const FIRST_IMPORTED: u32 = 0x8000_0000;

/// A standard stream of a process, by file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pipe {
    /// From the MCP host to the server.
    Stdin = 0,
    /// From the server to the MCP host.
    Stdout = 1,
    /// Log output of the server. It carries no MCP.
    Stderr = 2,
}

impl Pipe {
    /// The usual name of the stream.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::Stdin => "stdin",
            Pipe::Stdout => "stdout",
            Pipe::Stderr => "stderr",
        }
    }
}

/// The start of a wrapped server, or of the recording of a server that already ran. Values of the
/// environment are never recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The command line, program first.
    pub command: Vec<String>,
    /// The name that the user gave to the server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Whether the server already ran, so that earlier bytes are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub already_ran: bool,
}

/// The end of a wrapped server: exactly one of the two members is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// The event that a pipe packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipeEvent<'a> {
    /// The server was started.
    Start(Start),
    /// Bytes passed through a pipe.
    Data(Pipe, &'a [u8]),
    /// A pipe was closed by its writer.
    EndOfFile(Pipe),
    /// The server ended.
    Exit(Exit),
    /// Bytes that passed through a pipe but were not recorded, with their number.
    Lost(Pipe, u64),
}

/// The largest offset in the stream of a pipe, whatever the lengths of gaps add up to. No pipe
/// carries that much, and sums of offsets do not overflow.
const MAX_OFFSET: u64 = 1 << 62;

/// The length of the gap that `lost` bytes make at this offset of a pipe.
pub(crate) fn gap(offset: u64, lost: u64) -> u64 {
    lost.min(MAX_OFFSET.saturating_sub(offset))
}

/// Appends a pipe packet to `out`.
pub fn encode(process: u32, event: &PipeEvent<'_>, out: &mut Vec<u8>) {
    let (kind, pipe) = match event {
        PipeEvent::Start(_) => (0, 0),
        PipeEvent::Data(pipe, _) => (1, *pipe as u8),
        PipeEvent::EndOfFile(pipe) => (2, *pipe as u8),
        PipeEvent::Exit(_) => (3, 0),
        PipeEvent::Lost(pipe, _) => (4, *pipe as u8),
    };
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[kind, pipe, 0, 0]);
    out.extend_from_slice(&process.to_le_bytes());
    match event {
        PipeEvent::Start(start) => out.extend(serde_json::to_vec(start).unwrap_or_default()),
        PipeEvent::Data(_, bytes) => out.extend_from_slice(bytes),
        PipeEvent::EndOfFile(_) => {}
        PipeEvent::Exit(exit) => out.extend(serde_json::to_vec(exit).unwrap_or_default()),
        PipeEvent::Lost(_, bytes) => out.extend_from_slice(&bytes.to_le_bytes()),
    }
}

/// Parses a pipe packet. `None` if the bytes are no such packet: the link type is private, so
/// others use it too.
pub fn decode(data: &[u8]) -> Option<(u32, PipeEvent<'_>)> {
    let (head, rest) = data.split_at_checked(HEAD)?;
    if &head[..4] != MAGIC {
        return None;
    }
    let pipe = match head[5] {
        0 => Pipe::Stdin,
        1 => Pipe::Stdout,
        2 => Pipe::Stderr,
        _ => return None,
    };
    let process = u32::from_le_bytes(head[8..12].try_into().ok()?);
    let event = match head[4] {
        0 => PipeEvent::Start(serde_json::from_slice(rest).ok()?),
        1 => PipeEvent::Data(pipe, rest),
        2 => PipeEvent::EndOfFile(pipe),
        3 => PipeEvent::Exit(serde_json::from_slice(rest).ok()?),
        4 => PipeEvent::Lost(pipe, u64::from_le_bytes(rest.try_into().ok()?)),
        _ => return None,
    };
    Some((process, event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_survives_the_round_trip() {
        let start = Start { command: vec!["node".into(), "ü".into()], name: Some("files".into()), ..Start::default() };
        for event in [
            PipeEvent::Start(start),
            PipeEvent::Data(Pipe::Stdout, b"{}\n\xff"),
            PipeEvent::EndOfFile(Pipe::Stderr),
            PipeEvent::Exit(Exit { code: None, signal: Some(9) }),
            PipeEvent::Lost(Pipe::Stdin, 1 << 40),
        ] {
            let mut bytes = Vec::new();
            encode(4711, &event, &mut bytes);
            assert_eq!(decode(&bytes), Some((4711, event)));
        }
    }

    #[test]
    fn other_bytes_are_no_pipe_packet() {
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"MTP1\x01\x03\0\0\0\0\0\0"), None, "a fourth pipe");
        assert_eq!(decode(b"MTP2\x01\x01\0\0\0\0\0\0"), None, "another magic");
    }
}
