//! The body of the fuzz target.

use super::{MISMATCHES, MismatchKind, Revision, Role, check, methods};
use crate::decode::json::{is_json, locate};

/// Checks any bytes against every shape of every revision. There are never more mismatches than the
/// bound, and every range lies in the text. In a text that is JSON each range is one value, and the
/// pointer of a mismatch leads to it if the value exists.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn fuzz_shape(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let whole = is_json(text);
    for revision in Revision::ALL {
        let requests = methods(revision, true).chain(methods(revision, false)).map(Role::Method);
        let results = methods(revision, true).map(Role::AnswerTo);
        for role in requests.chain(results) {
            let mismatches = check(revision, role, text);
            assert!(mismatches.len() <= MISMATCHES, "mismatches are bounded");
            for mismatch in mismatches {
                let value = &text[mismatch.range.clone()];
                if whole {
                    assert!(is_json(value), "{value} is one value");
                }
                let cut = mismatch.path.contains('…');
                if let Some(there) = locate(text, &mismatch.path).filter(|_| whole && !cut) {
                    // If a name occurs twice, the pointer leads to the last value.
                    assert!(mismatch.kind == MismatchKind::Missing || there.start >= mismatch.range.start);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz_shape;
    use proptest::prelude::*;

    #[test]
    fn seeds_hold() {
        for seed in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1.5}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text"},{"type":7},7],"task":{}}}"#,
            r#"{"result":{"resultType":"input_required","inputRequests":{"\u0061":{"method":"elicitation/create"}}}}"#,
            r#"{"error":{"code":-32022,"message":1,"data":{"supported":{}}},"error":[]}"#,
        ] {
            for end in 0..=seed.len() {
                fuzz_shape(&seed.as_bytes()[..end]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_bytes_hold(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_shape(&data);
        }

        #[test]
        fn any_words_hold(words in proptest::collection::vec(
            prop_oneof!["[\\[\\]{}:,\" 1]", Just("\"params\":{".to_owned()), Just("\"content\":[".to_owned()),
                Just("\"type\":\"text\"".to_owned()), Just("\"result\":{".to_owned()), Just("null".to_owned())], 0..40)) {
            fuzz_shape(words.concat().as_bytes());
        }
    }
}
