//! Which protocol versions the servers of a capture gave to their clients.

use rustc_hash::FxHashMap;

use crate::capture::{PacketNumber, Span};
use crate::mcp::{MessageNumber, Revision, SessionNumber};

/// Limit of remembered servers. The capture of a proxy has many. A server that changes its name
/// each time would otherwise need memory without end.
pub const SERVERS: usize = 1_024;

/// Limit of remembered responses for each server and version. Further ones would give
/// the same finding.
pub const REFUSED: usize = 16;

/// The hash of a server's name and version, the hash of its host, and the requested version.
pub type RequestedVersion = (u64, u64, Revision);

/// The versions that clients requested, and whether servers agreed to them.
#[derive(Debug, Default)]
pub struct ServerVersions {
    /// The first response that agreed to the requested version.
    pub agreed: FxHashMap<RequestedVersion, MessageNumber>,
    /// Responses with another version, as long as no response agreed to the requested one.
    pub refused: FxHashMap<RequestedVersion, Vec<RefusedVersion>>,
}

/// A response with a version other than the requested one. It is not known yet whether the server
/// supports the requested version.
#[derive(Debug)]
pub struct RefusedVersion {
    pub session: SessionNumber,
    pub answer: MessageNumber,
    pub packets: Vec<PacketNumber>,
    pub span: Span,
    /// The version of the response.
    pub given: String,
}
