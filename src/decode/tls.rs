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

/// What the first bytes of a side are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniffed {
    /// A ClientHello begins here.
    Client,
    /// A ServerHello or alert of a server begins here.
    Server,
    /// Too few bytes to tell.
    TooFew,
    /// No TLS.
    No,
}
/// Stub.
pub fn sniff(_: &[u8]) -> Sniffed {
    Sniffed::No
}
/// Stub.
#[derive(Debug)]
pub struct Tls;
impl Tls {
    /// Stub.
    pub fn new(_: crate::capture::Limits) -> Tls {
        Tls
    }
    /// Stub.
    pub fn push(&mut self, _: super::Direction, _: super::Piece<'_>, _: &[crate::capture::PacketRange], _: Time) {}
    /// Stub.
    pub fn steps(&self) -> &[Step] {
        &[]
    }
    /// Stub.
    pub fn server_name(&self) -> Option<&str> {
        None
    }
}
