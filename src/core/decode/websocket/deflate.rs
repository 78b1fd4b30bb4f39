//! permessage-deflate (RFC 7692): its negotiation, and the compressed stream of one direction.

use std::fmt;

use flate2::{Decompress, FlushDecompress, Status};

use crate::decode::Direction;

/// The compression that the server accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deflate {
    /// For each direction, whether every message is compressed on its own.
    no_context_takeover: [bool; 2],
}

impl Deflate {
    /// Parses the response's Sec-WebSocket-Extensions. `None` if it accepts no compression.
    pub fn agreed(extensions: &str) -> Option<Deflate> {
        let agreed = extensions.split(',').find(|extension| {
            extension.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("permessage-deflate"))
        })?;
        let has = |name: &str| agreed.split(';').skip(1).any(|parameter| parameter.trim().eq_ignore_ascii_case(name));
        // RFC 7692 section 7.1.1. Window sizes do not matter, as the largest window can decode all.
        Some(Deflate { no_context_takeover: [has("client_no_context_takeover"), has("server_no_context_takeover")] })
    }
}

/// The reason why a message cannot be decompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InflateError {
    Damaged,
    /// The message is longer than allowed.
    TooLong,
}

/// The decompressor of one direction.
pub(super) struct Inflate {
    stream: Decompress,
    no_context_takeover: bool,
}

impl fmt::Debug for Inflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inflate")
    }
}

impl Inflate {
    pub(super) fn new(deflate: Deflate, direction: Direction) -> Inflate {
        Inflate { stream: Decompress::new(false), no_context_takeover: deflate.no_context_takeover[direction as usize] }
    }

    /// Whether each message can be decompressed without the messages before it.
    pub(super) fn is_self_contained(&self) -> bool {
        self.no_context_takeover
    }

    /// Decompresses a message to at most `max_bytes` bytes.
    pub(super) fn message(&mut self, compressed: &[u8], max_bytes: usize) -> Result<Vec<u8>, InflateError> {
        // RFC 7692 section 7.2.2: "Append 4 octets of 0x00 0x00 0xff 0xff to the tail end of the
        // payload of the message."
        const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
        if self.no_context_takeover {
            self.stream.reset(false);
        }
        let mut inflated = Vec::new();
        for input in [compressed, &TAIL[..]] {
            let before = self.stream.total_in();
            loop {
                let taken = (self.stream.total_in() - before) as usize;
                if inflated.capacity() == inflated.len() {
                    inflated.reserve(inflated.len().clamp(1 << 10, 1 << 20));
                }
                let before_call = inflated.len();
                let status = self.stream.decompress_vec(&input[taken..], &mut inflated, FlushDecompress::Sync);
                if inflated.len() > max_bytes {
                    return Err(InflateError::TooLong);
                }
                let progress = (self.stream.total_in() - before) as usize > taken || inflated.len() > before_call;
                match status.map_err(|_| InflateError::Damaged)? {
                    // Section 7.2.3.5: a block may have the BFINAL bit. Then the next message
                    // begins a new stream with the same window. No encoder in use does that, so the
                    // window is not carried over.
                    Status::StreamEnd => {
                        self.stream.reset(false);
                        return Ok(inflated);
                    }
                    _ if inflated.len() == inflated.capacity() => {}
                    _ if !progress => break,
                    _ => {}
                }
            }
        }
        Ok(inflated)
    }
}
