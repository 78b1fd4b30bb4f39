//! TLS records without keys (RFC 8446, 5246): handshake, names, sizes and times.

use crate::capture::{PacketNumber, Time};

/// A step of a TLS connection, as the layer view shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// Time of its first record.
    pub time: Time,
    /// Packets that carried its records, in order of capture.
    pub packets: Vec<PacketNumber>,
    /// What it says: `ClientHello, ServerHello, Finished`, versions, names ...
    pub detail: String,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Up to the last handshake message before application data.
    Handshake,
    /// Application data of both sides.
    ApplicationData,
    /// An alert.
    Alert,
}
