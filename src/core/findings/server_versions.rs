//! Which protocol versions the servers of a capture gave to their clients.

use rustc_hash::FxHashMap;

use crate::capture::{PacketNumber, Span};
use crate::mcp::revision::Revision;
use crate::mcp::{MessageNumber, SessionNumber};

/// Servers that are remembered: a capture of a proxy has many; a server that calls itself something else each time would be endless.
pub const SERVERS: usize = 1_024;

/// Answers of one server that withheld a version it may give later; further ones would say the same.
pub const WITHHELD: usize = 16;

/// A server's name and version in short, the host in short, and the version that was asked for.
pub type RequestedVersion = (u64, u64, Revision);

/// What the servers of a capture gave of what they were asked for.
#[derive(Debug, Default)]
pub struct ServerVersions {
    /// The first answer that gave it.
    pub given: FxHashMap<RequestedVersion, MessageNumber>,
    /// Answers that gave another, while none gave it.
    pub withheld: FxHashMap<RequestedVersion, Vec<WithheldVersion>>,
}

/// An answer that gave another version than the one asked for: whether the server speaks that is not known yet.
#[derive(Debug)]
pub struct WithheldVersion {
    pub session: SessionNumber,
    pub answer: MessageNumber,
    pub packets: Vec<PacketNumber>,
    pub span: Span,
    /// What it gave instead.
    pub given: String,
}
