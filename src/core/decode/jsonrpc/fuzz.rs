//! The body of the fuzz target for JSON-RPC.

use super::{Envelope, InvalidText, JsonRpcText, parse};
use crate::capture::Limits;

/// Parses any bytes and checks these laws:
///
/// * serde_json agrees on what is JSON.
/// * Every range is inside the text and contains one JSON value.
/// * Blanks around the text shift the ranges and change nothing else.
/// * A member of a batch parses as it does alone.
/// * No limit is exceeded.
///
/// # Panics
///
/// Panics if a law is broken.
pub fn fuzz_jsonrpc(data: &[u8]) {
    let Limits { json_depth, .. } = Limits::default();
    const BATCH: usize = 8;
    let parsed = parse(data, json_depth, BATCH);
    match &parsed {
        JsonRpcText::Single(envelope) => check_envelope(data, envelope),
        JsonRpcText::Batch(members) => {
            assert!(members.len() <= BATCH + 1, "the batch is bounded");
            let mut end = 0;
            for (index, (range, member)) in members.iter().enumerate() {
                assert!(end < range.start && range.end <= data.len(), "members follow each other");
                end = range.end;
                let text = &data[range.clone()];
                match (member, parse(text, json_depth, BATCH)) {
                    (Ok(envelope), JsonRpcText::Single(alone)) => {
                        assert_eq!(envelope, &alone);
                        check_envelope(text, envelope);
                    }
                    (Err(fault), JsonRpcText::Invalid(alone)) if index < BATCH => assert_eq!(fault, &alone),
                    (Err(InvalidText::NotAMessage), _) => {}
                    (member, alone) => panic!("{member:?} in its batch, {alone:?} alone"),
                }
            }
        }
        JsonRpcText::Invalid(InvalidText::NotUtf8(offset)) => {
            assert!(std::str::from_utf8(&data[..*offset]).is_ok() && std::str::from_utf8(data).is_err());
        }
        JsonRpcText::Invalid(InvalidText::NotJson(offset, _)) => {
            assert!(*offset <= data.len());
            assert!(serde_json::from_slice::<serde_json::Value>(data).is_err());
        }
        JsonRpcText::Invalid(InvalidText::TooDeep | InvalidText::NotAMessage) => {}
    }
    let mut spaced = b"\r\n\t ".to_vec();
    let blanks = spaced.len();
    spaced.extend_from_slice(data);
    spaced.push(b'\n');
    if !data.starts_with("\u{feff}".as_bytes()) {
        assert_eq!(without_offsets(parse(&spaced, json_depth, BATCH), blanks), without_offsets(parsed, 0));
    }
}

/// Checks that every range contains one JSON value, and that `method_name` is the unescaped method.
fn check_envelope(text: &[u8], envelope: &Envelope) {
    assert!(envelope.kind.is_some());
    let Envelope { jsonrpc, id, method, params, result, error, .. } = envelope;
    for range in [jsonrpc, id, method, params, result, error].into_iter().flatten() {
        let value = &text[range.clone()];
        let read = serde_json::from_slice::<&serde_json::value::RawValue>(value).expect("one JSON value");
        assert_eq!(read.get().as_bytes(), value, "without blanks around it");
    }
    if let Some(name) = &envelope.method_name {
        let value = method.clone().map(|range| &text[range]).unwrap_or_default();
        if let Ok(read) = serde_json::from_slice::<String>(value) {
            assert_eq!(read, **name);
        }
    }
}

/// Subtracts `blanks` from every offset. The offset of a JSON error is dropped: for a text that
/// ends too early it is after the blanks at the end.
fn without_offsets(parsed: JsonRpcText, blanks: usize) -> JsonRpcText {
    match parsed {
        JsonRpcText::Single(mut envelope) => {
            let Envelope { jsonrpc, id, method, params, result, error, .. } = &mut envelope;
            for range in [jsonrpc, id, method, params, result, error].into_iter().flatten() {
                *range = range.start - blanks..range.end - blanks;
            }
            JsonRpcText::Single(envelope)
        }
        JsonRpcText::Batch(mut members) => {
            for (range, _) in &mut members {
                *range = range.start - blanks..range.end - blanks;
            }
            JsonRpcText::Batch(members)
        }
        JsonRpcText::Invalid(InvalidText::NotJson(..)) => JsonRpcText::Invalid(InvalidText::NotJson(0, String::new())),
        JsonRpcText::Invalid(InvalidText::NotUtf8(offset)) => {
            JsonRpcText::Invalid(InvalidText::NotUtf8(offset - blanks))
        }
        fault @ JsonRpcText::Invalid(_) => fault,
    }
}
