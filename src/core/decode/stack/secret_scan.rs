//! A body in which secrets may stand that are no header: what a client posts for an OAuth token, and the token.
//!
//! A server that is its own authorization server gives tokens on connections whose packets are kept for the MCP that they carry. Whether a body is a
//! message, which stays as it is, shows when it is over. Until then its bytes do not count as looked at, so that no packet of it is written.

use std::ops::Range;

use crate::decode::secrets;

/// Bytes of a body that are looked at, as decoded or as sent: those of token requests and answers are a tenth of that at most.
const MAX_BYTES: usize = 64 << 10;

/// Bytes of memory of all such bodies: beyond, what comes is no longer looked at.
pub(super) const MAX_TOTAL: usize = 32 << 20;

/// What a run of bytes takes beside them.
const RUN_BYTES: usize = size_of::<Range<u64>>();

/// A body as far as it came.
#[derive(Debug, Default)]
pub(super) struct SecretScan {
    /// As decoded.
    text: Vec<u8>,
    /// Where it stands in the connection's stream, as sent.
    sent: Vec<Range<u64>>,
    sent_bytes: usize,
    /// The text is not what was sent.
    is_coded: bool,
    /// Part of it was lost.
    is_torn: bool,
}

impl SecretScan {
    /// At the head of the body.
    pub(super) fn new(is_coded: bool) -> SecretScan {
        SecretScan { is_coded, ..SecretScan::default() }
    }

    /// Where it begins in the connection's stream, once it does.
    pub(super) fn start(&self) -> Option<u64> {
        self.sent.first().map(|run| run.start)
    }

    /// Bytes of memory that it takes.
    pub(super) fn held(&self) -> usize {
        self.text.len() + self.sent.len() * RUN_BYTES
    }

    /// Whether it is more than is looked at.
    pub(super) fn is_too_much(&self) -> bool {
        self.text.len() > MAX_BYTES || self.sent_bytes > MAX_BYTES || self.sent.len() * RUN_BYTES > MAX_BYTES
    }

    /// The next bytes as sent.
    pub(super) fn sent(&mut self, run: Range<u64>) {
        self.sent_bytes += (run.end - run.start) as usize;
        match self.sent.last_mut().filter(|last| last.end == run.start) {
            Some(last) => last.end = run.end,
            None => self.sent.push(run),
        }
    }

    /// The next bytes as decoded.
    pub(super) fn decoded(&mut self, bytes: &[u8]) {
        let room = MAX_BYTES + 1 - self.text.len();
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Part of it was lost: what follows may belong to a name that is not there.
    pub(super) fn mark_torn(&mut self) {
        self.is_torn = true;
    }

    /// The secrets of it, as ranges of the connection's stream; of a message there are none. Where it is not known where they stand, all of it is one.
    pub(super) fn secrets(self) -> Vec<Range<u64>> {
        let found = secrets::in_body(&self.text);
        if found.is_empty() && !self.is_torn || self.is_message() {
            return Vec::new();
        }
        if self.is_coded || self.is_torn {
            return self.sent;
        }
        found.into_iter().flat_map(|secret| self.in_stream(secret)).collect()
    }

    /// Part of the text, where it was sent.
    fn in_stream(&self, part: Range<usize>) -> Vec<Range<u64>> {
        let (start, end) = (part.start as u64, part.end as u64);
        let mut before = 0;
        let mut found = Vec::new();
        for run in &self.sent {
            let length = run.end - run.start;
            let (from, to) =
                (start.clamp(before, before + length) - before, end.clamp(before, before + length) - before);
            if from < to {
                found.push(run.start + from..run.start + to);
            }
            before += length;
        }
        found
    }

    /// Whether it is JSON-RPC, or part of that: clients of the Python SDK name `jsonrpc` behind the params, which may not have come.
    fn is_message(&self) -> bool {
        let names = |member: &&str| memchr::memmem::find(&self.text, member.as_bytes()).is_some();
        [r#""jsonrpc""#, r#""method""#, r#""result""#].iter().any(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRANT: &[u8] = b"code=abc&token=de";

    /// What is secret of a body that was sent in these runs; `text` is what it says.
    fn secrets(mut secret_scan: SecretScan, runs: &[(u64, u64)], text: &[u8]) -> Vec<(u64, u64)> {
        runs.iter().for_each(|(start, end)| secret_scan.sent(*start..*end));
        secret_scan.decoded(text);
        secret_scan.secrets().into_iter().map(|secret| (secret.start, secret.end)).collect()
    }

    #[test]
    fn secrets_stand_where_they_were_sent() {
        assert_eq!(secrets(SecretScan::default(), &[(100, 117)], GRANT), [(105, 108), (115, 117)]);
        // In chunks of which the first ends within a value.
        assert_eq!(
            secrets(SecretScan::default(), &[(100, 107), (110, 120)], GRANT),
            [(105, 107), (110, 111), (118, 120)]
        );
        assert_eq!(secrets(SecretScan::new(true), &[(100, 104), (104, 110)], GRANT), [(100, 110)], "coded, it is one");
        assert_eq!(secrets(SecretScan::default(), &[(100, 117)], b"code:abc&tokens=de"), []);
    }

    #[test]
    fn messages_have_none() {
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
    fn what_is_torn_is_one_secret_unless_it_is_of_a_message() {
        let mark_torn = || {
            let mut secret_scan = SecretScan::default();
            secret_scan.mark_torn();
            secret_scan
        };
        assert_eq!(secrets(mark_torn(), &[(0, 5), (9, 20)], b"abcde"), [(0, 5), (9, 20)]);
        assert_eq!(secrets(mark_torn(), &[(0, 99)], br#"{"method":"x","params":{"token":"t"#), []);
    }

    #[test]
    fn little_is_held() {
        let mut secret_scan = SecretScan::default();
        assert_eq!(secret_scan.start(), None);
        secret_scan.sent(7..9);
        secret_scan.decoded(&vec![b'x'; 10 * MAX_BYTES]);
        assert!(secret_scan.is_too_much() && secret_scan.held() <= MAX_BYTES + 1 + RUN_BYTES);
        assert_eq!(secret_scan.start(), Some(7));
        let mut pieces = SecretScan::default();
        (0..MAX_BYTES as u64).for_each(|at| pieces.sent(2 * at..2 * at + 1));
        assert!(pieces.is_too_much());
    }
}
