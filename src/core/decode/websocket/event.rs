//! The events that the WebSocket decoder emits.

use std::ops::Range;

use crate::decode::{Anomaly, Direction};

/// The bytes of the connection's stream that hold a part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadRange {
    /// The payload of a fragment. For a compressed message, from its first payload to its last.
    pub range: Range<u64>,
    /// Number of bytes of the message that the range contains.
    pub length: u64,
    /// Whether the message has the same bytes as the stream: they are neither
    /// masked nor compressed.
    pub is_copied: bool,
}

/// Output of the decoder.
#[derive(Debug)]
pub enum WebSocketEvent<'a> {
    /// A complete message.
    Message {
        /// The direction that carried the message.
        direction: Direction,
        /// The message, unmasked and decompressed.
        bytes: &'a [u8],
        /// The message's ranges in the connection's stream, in order.
        payloads: &'a [PayloadRange],
    },
    /// An irregularity in this direction.
    Anomaly {
        /// The direction in which it was found.
        direction: Direction,
        /// The facts about the irregularity.
        anomaly: Anomaly,
    },
}
