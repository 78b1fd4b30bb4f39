//! What the decoder emits.

use std::ops::Range;

use crate::decode::{Anomaly, Direction};

/// Where bytes of a message stand in the connection's stream, and whether they stand there as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadRange {
    /// The payload of a fragment; of a compressed message, all of its frames.
    pub range: Range<u64>,
    /// Bytes of the message that it holds.
    pub length: u64,
    /// Neither masked nor compressed.
    pub is_copied: bool,
}

/// What the decoder found.
#[derive(Debug)]
pub enum WebSocketEvent<'a> {
    /// A message is complete.
    Message {
        /// Who sent it.
        direction: Direction,
        /// Its bytes, unmasked and inflated.
        bytes: &'a [u8],
        /// Where they stand, in order.
        payloads: &'a [PayloadRange],
    },
    /// Something odd in this direction.
    Anomaly {
        /// The direction.
        direction: Direction,
        /// What.
        anomaly: Anomaly,
    },
}
