//! The SHA-256 of a decoded body.

use std::fmt;

use ring::digest;

/// Computes the SHA-256 of the decoded body.
pub(super) struct Hash(digest::Context);

impl Hash {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

impl Default for Hash {
    fn default() -> Hash {
        Hash(digest::Context::new(&digest::SHA256))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash")
    }
}
