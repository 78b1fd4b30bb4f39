//! The search for secrets in a body: the parameters of an OAuth token request, and the tokens
//! in the response.
//!
//! A server may be its own authorization server, so tokens travel on connections whose packets are
//! stored. Messages must stay as they are. Whether a body is a message is known only at its end.
//! Until then its bytes are not reported as searched, so no packet of it is written.

use std::ops::Range;

use crate::decode::mask::{Mask, MaskKey};
use crate::decode::secrets;

/// The most bytes of a body that are searched, decoded or as sent. Token requests and responses
/// have at most a tenth of that.
const MAX_BYTES: usize = 64 << 10;

/// The most memory of all such bodies, in bytes. At the limit, the search in the
/// body that grows ends.
pub(super) const MAX_TOTAL: usize = 32 << 20;

/// Memory of one range in `sent`, in bytes.
const RUN_BYTES: usize = size_of::<Range<u64>>();

/// A body that is to be searched, as far as it arrived.
#[derive(Debug, Default)]
pub(super) struct SecretScan {
    /// The decoded bytes.
    text: Vec<u8>,
    /// The ranges of the body in the connection's stream.
    sent: Vec<Range<u64>>,
    sent_bytes: usize,
    /// Whether `text` differs from the bytes as sent.
    is_coded: bool,
    /// Whether a part of the body is missing.
    is_torn: bool,
}

impl SecretScan {
    /// A search that begins at the head of a body.
    pub(super) fn new(is_coded: bool) -> SecretScan {
        SecretScan { is_coded, ..SecretScan::default() }
    }

    /// Offset of the body's first byte in the connection's stream; `None` before it arrives.
    pub(super) fn start(&self) -> Option<u64> {
        self.sent.first().map(|run| run.start)
    }

    /// Memory that the body occupies, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.text.len() + self.sent.len() * RUN_BYTES
    }

    /// Whether the search ends here, because the body or the list of its ranges is too long.
    pub(super) fn is_too_much(&self) -> bool {
        self.text.len() > MAX_BYTES || self.sent_bytes > MAX_BYTES || self.sent.len() * RUN_BYTES > MAX_BYTES
    }

    /// Adds the range of the next bytes in the connection's stream.
    pub(super) fn sent(&mut self, run: Range<u64>) {
        self.sent_bytes += (run.end - run.start) as usize;
        match self.sent.last_mut().filter(|last| last.end == run.start) {
            Some(last) => last.end = run.end,
            None => self.sent.push(run),
        }
    }

    /// Adds the next decoded bytes.
    pub(super) fn decoded(&mut self, bytes: &[u8]) {
        let room = MAX_BYTES + 1 - self.text.len();
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Records that a part is missing. The bytes after it may be the value of a name that
    /// was not captured.
    pub(super) fn mark_torn(&mut self) {
        self.is_torn = true;
    }

    /// The ranges of secrets in the connection's stream, with their masks. A message has none. If
    /// the position of a secret in the stream is unknown, the whole body counts as secret.
    pub(super) fn secrets(self, key: Option<MaskKey>) -> Vec<(Range<u64>, Mask)> {
        let found = secrets::in_body(&self.text);
        if found.is_empty() && !self.is_torn || self.is_message() {
            return Vec::new();
        }
        if self.is_coded || self.is_torn {
            return self.sent.into_iter().map(|range| (range, Mask::PLAIN)).collect();
        }
        found.into_iter().flat_map(|secret| self.in_stream(secret, key)).collect()
    }

    /// The ranges of the connection's stream that carried a secret, each with its part of the mask.
    fn in_stream(&self, part: Range<usize>, key: Option<MaskKey>) -> Vec<(Range<u64>, Mask)> {
        let mask = Mask::of(key, &self.text[part.clone()]);
        let (start, end) = (part.start as u64, part.end as u64);
        let mut before = 0;
        let mut found = Vec::new();
        for run in &self.sent {
            let length = run.end - run.start;
            let (from, to) =
                (start.clamp(before, before + length) - before, end.clamp(before, before + length) - before);
            if from < to {
                let within = (before + from - start) as usize..(before + to - start) as usize;
                found.push((run.start + from..run.start + to, mask.part(part.len(), &within)));
            }
            before += length;
        }
        found
    }

    /// Whether the body is JSON-RPC or a part of it. Clients of the Python SDK send `jsonrpc` after
    /// the params, so it may be missing in a part.
    fn is_message(&self) -> bool {
        let names = |member: &&str| memchr::memmem::find(&self.text, member.as_bytes()).is_some();
        [r#""jsonrpc""#, r#""method""#, r#""result""#].iter().any(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANT: &[u8] = b"code=abc&token=de";

    /// The secrets found in a body that was sent in these ranges and has this text.
    fn secrets(mut secret_scan: SecretScan, runs: &[(u64, u64)], text: &[u8]) -> Vec<(u64, u64)> {
        runs.iter().for_each(|(start, end)| secret_scan.sent(*start..*end));
        secret_scan.decoded(text);
        secret_scan.secrets(None).into_iter().map(|(secret, _)| (secret.start, secret.end)).collect()
    }

    #[test]
    fn secrets_are_located_in_the_stream() {
        assert_eq!(secrets(SecretScan::default(), &[(100, 117)], GRANT), [(105, 108), (115, 117)]);
        // Two chunks; the first ends inside a value.
        assert_eq!(
            secrets(SecretScan::default(), &[(100, 107), (110, 120)], GRANT),
            [(105, 107), (110, 111), (118, 120)]
        );
        assert_eq!(secrets(SecretScan::new(true), &[(100, 104), (104, 110)], GRANT), [(100, 110)], "coded, it is one");
        assert_eq!(secrets(SecretScan::default(), &[(100, 117)], b"code:abc&tokens=de"), []);
    }

    #[test]
    fn messages_have_no_secrets() {
        for message in [
            r#"{"method":"x","params":{"token":"t"},"id":1}"#,
            r#"{"params":{"token":"t"},"jsonrpc":"2.0","#,
            r#"[1,{"method":"x","params":{"token":"t"}}]"#,
            r#"{"method":"tools/call","params":{"arguments":{"token":"t"#,
        ] {
            assert_eq!(secrets(SecretScan::default(), &[(0, 99)], message.as_bytes()), [], "{message}");
        }
        assert_eq!(secrets(SecretScan::default(), &[(0, 20)], br#"{"id":1,"token":"t"}"#), [(17, 18)]);
    }

    #[test]
    fn an_incomplete_body_is_one_secret_unless_it_is_a_message() {
        let torn = || {
            let mut secret_scan = SecretScan::default();
            secret_scan.mark_torn();
            secret_scan
        };
        assert_eq!(secrets(torn(), &[(0, 5), (9, 20)], b"abcde"), [(0, 5), (9, 20)]);
        assert_eq!(secrets(torn(), &[(0, 99)], br#"{"method":"x","params":{"token":"t"#), []);
    }

    #[test]
    fn memory_is_bounded() {
        let mut secret_scan = SecretScan::default();
        assert_eq!(secret_scan.start(), None);
        secret_scan.sent(7..9);
        secret_scan.decoded(&vec![b'x'; 10 * MAX_BYTES]);
        assert!(secret_scan.is_too_much() && secret_scan.memory_bytes() <= MAX_BYTES + 1 + RUN_BYTES);
        assert_eq!(secret_scan.start(), Some(7));
        let mut pieces = SecretScan::default();
        (0..MAX_BYTES as u64).for_each(|at| pieces.sent(2 * at..2 * at + 1));
        assert!(pieces.is_too_much());
    }
}
