//! Decrypted TLS on its way to a store. Secrets are masked as in unencrypted traffic, because the
//! TLS keys are not stored.

use std::ops::Range;

use crate::decode::mask::{MASK, Mask};

/// The most bytes that wait to be searched for secrets. More are masked completely. Bytes that a
/// decoder has not reached after 1 MiB follow a gap.
const MAX_WAITING: usize = 1 << 20;

/// The decrypted bytes of one direction that were not yet passed to a store.
#[derive(Debug, Default)]
pub(super) struct Plaintext {
    /// Offset of the first waiting byte.
    start: u64,
    bytes: Vec<u8>,
    /// Secrets in waiting or later bytes, with their masks.
    secrets: Vec<(Range<u64>, Mask)>,
}

impl Plaintext {
    /// Adds the next bytes of the stream, from offset `start` on. Bytes before `start`
    /// may be missing.
    pub(super) fn push(&mut self, start: u64, bytes: &[u8]) {
        if self.bytes.is_empty() {
            self.start = start;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Marks `range` as a secret that is to be replaced by `mask`.
    pub(super) fn add_secret(&mut self, range: Range<u64>, mask: Mask) {
        self.secrets.push((range, mask));
    }

    /// Removes the bytes below offset `cleared`, with secrets masked. Returns them
    /// with their offset.
    ///
    /// Removes all bytes if too many wait, or if `all` is set. Bytes that were not searched are
    /// masked completely, unless `keep_secrets` is set.
    pub(super) fn take(&mut self, cleared: u64, all: bool, keep_secrets: bool) -> Option<(u64, Vec<u8>)> {
        let cleared_bytes = (cleared.saturating_sub(self.start) as usize).min(self.bytes.len());
        let taken =
            if all || self.bytes.len() - cleared_bytes > MAX_WAITING { self.bytes.len() } else { cleared_bytes };
        if taken == 0 {
            return None;
        }
        let rest = self.bytes.split_off(taken);
        let mut bytes = std::mem::replace(&mut self.bytes, rest);
        let start = self.start;
        self.start += taken as u64;
        if !keep_secrets {
            for (secret, mask) in &self.secrets {
                let inside = |offset: u64| (offset.saturating_sub(start) as usize).min(bytes.len());
                let (from, to) = (inside(secret.start), inside(secret.end));
                let at = (start + from as u64).saturating_sub(secret.start);
                mask.cover_part(secret.end - secret.start, at, &mut bytes[from..to]);
            }
            bytes[cleared_bytes..].fill(MASK);
        }
        let end = self.start;
        self.secrets.retain(|(secret, _)| secret.end > end);
        Some((start, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_before_bytes_leave() {
        let mut plaintext = Plaintext::default();
        plaintext.push(10, b"authorization: x\r\n");
        assert_eq!(plaintext.take(10, false, false), None);
        plaintext.add_secret(25..26, Mask::PLAIN);
        assert_eq!(plaintext.take(20, false, false), Some((10, b"authorizat".to_vec())));
        plaintext.push(28, b"rest");
        assert_eq!(plaintext.take(28, false, false), Some((20, b"ion: *\r\n".to_vec())));
        assert_eq!(plaintext.take(28, true, false), Some((28, b"****".to_vec())), "nobody looked at it");
        assert_eq!(plaintext.take(u64::MAX, true, false), None);
    }

    #[test]
    fn bytes_that_were_not_searched_are_masked() {
        let mut plaintext = Plaintext::default();
        plaintext.push(0, &vec![b'x'; MAX_WAITING + 1]);
        assert_eq!(plaintext.take(0, false, false), Some((0, vec![MASK; MAX_WAITING + 1])));
        plaintext.push(MAX_WAITING as u64 + 1, b"secret");
        assert_eq!(plaintext.take(0, true, true).map(|(_, bytes)| bytes), Some(b"secret".to_vec()));
    }
}
