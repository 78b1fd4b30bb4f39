//! A chunk read from a pipe is a packet too.
//!
//! A wrapped STDIO server is observed as packets of link type [`LinkType::PIPE`](super::LinkType::PIPE), so that STDIO needs
//! no second path through the program. Each begins with a twelve-byte head, all numbers little-endian:
//!
//! ```text
//!  0   4  "MTP1"     tells our use of the private link type from anybody else's
//!  4   1  what       0 start, 1 data, 2 end of file, 3 exit, 4 lost
//!  5   1  pipe       0 stdin, 1 stdout, 2 stderr (0 where it means nothing)
//!  6   2  zero
//!  8   4  process    process id of the server
//! 12   …  content    start: JSON of [`Start`]; data: the bytes; exit: JSON of [`Exit`]; lost: bytes not recorded, u64
//! ```

use serde::{Deserialize, Serialize};

/// Bytes before the content.
pub const HEAD: usize = 12;
const MAGIC: &[u8; 4] = b"MTP1";

/// One of a process's three standard streams, by file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pipe {
    /// From the host to the server.
    Stdin = 0,
    /// From the server to the host.
    Stdout = 1,
    /// Text for people, no MCP.
    Stderr = 2,
}

impl Pipe {
    /// The name people know it by.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::Stdin => "stdin",
            Pipe::Stdout => "stdout",
            Pipe::Stderr => "stderr",
        }
    }
}

/// How a wrapped server was started. Values of the environment are never recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The command line, program first.
    pub command: Vec<String>,
    /// The name the person gave the server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// How a wrapped server ended: exactly one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// What a pipe packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// The server was started.
    Start(Start),
    /// Bytes passed through a pipe.
    Data(Pipe, &'a [u8]),
    /// A pipe was closed by its writer.
    EndOfFile(Pipe),
    /// The server ended.
    Exit(Exit),
    /// So many bytes of this pipe passed through but were not recorded.
    Lost(Pipe, u64),
}

/// Where offsets of a pipe stop, whatever lengths of gaps add up to: no pipe carries that much, and sums of offsets stay in
/// range.
const FAR: u64 = 1 << 62;

/// How many of `lost` bytes count as missing behind `offset` bytes of a pipe.
pub(crate) fn gap(offset: u64, lost: u64) -> u64 {
    lost.min(FAR.saturating_sub(offset))
}

/// Writes one pipe packet behind what `out` holds.
pub fn encode(process: u32, content: &Content<'_>, out: &mut Vec<u8>) {
    let (what, pipe) = match content {
        Content::Start(_) => (0, 0),
        Content::Data(pipe, _) => (1, *pipe as u8),
        Content::EndOfFile(pipe) => (2, *pipe as u8),
        Content::Exit(_) => (3, 0),
        Content::Lost(pipe, _) => (4, *pipe as u8),
    };
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[what, pipe, 0, 0]);
    out.extend_from_slice(&process.to_le_bytes());
    match content {
        Content::Start(start) => out.extend(serde_json::to_vec(start).unwrap_or_default()),
        Content::Data(_, bytes) => out.extend_from_slice(bytes),
        Content::EndOfFile(_) => {}
        Content::Exit(exit) => out.extend(serde_json::to_vec(exit).unwrap_or_default()),
        Content::Lost(_, bytes) => out.extend_from_slice(&bytes.to_le_bytes()),
    }
}

/// Reads one pipe packet; `None` where the bytes are not one (the link type is private: others use it too).
pub fn decode(data: &[u8]) -> Option<(u32, Content<'_>)> {
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
    let content = match head[4] {
        0 => Content::Start(serde_json::from_slice(rest).ok()?),
        1 => Content::Data(pipe, rest),
        2 => Content::EndOfFile(pipe),
        3 => Content::Exit(serde_json::from_slice(rest).ok()?),
        4 => Content::Lost(pipe, u64::from_le_bytes(rest.try_into().ok()?)),
        _ => return None,
    };
    Some((process, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_content_survives_the_round_trip() {
        let start = Start { command: vec!["node".into(), "ü".into()], name: Some("files".into()), directory: None };
        for content in [
            Content::Start(start),
            Content::Data(Pipe::Stdout, b"{}\n\xff"),
            Content::EndOfFile(Pipe::Stderr),
            Content::Exit(Exit { code: None, signal: Some(9) }),
            Content::Lost(Pipe::Stdin, 1 << 40),
        ] {
            let mut bytes = Vec::new();
            encode(4711, &content, &mut bytes);
            assert_eq!(decode(&bytes), Some((4711, content)));
        }
    }

    #[test]
    fn foreign_bytes_are_not_taken_for_a_pipe() {
        assert_eq!(decode(b""), None);
        assert_eq!(decode(b"MTP1\x01\x03\0\0\0\0\0\0"), None, "a fourth pipe");
        assert_eq!(decode(b"MTP2\x01\x01\0\0\0\0\0\0"), None, "another magic");
    }
}
