use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const DEPTH: usize = 64;

fn read(text: &str) -> JsonRpcText {
    parse(text.as_bytes(), DEPTH, 16)
}

fn envelope(text: &str) -> Envelope {
    match read(text) {
        JsonRpcText::Single(envelope) => envelope,
        other => panic!("{text}: {other:?}"),
    }
}

#[track_caller]
fn is(text: &str, kind: Kind) {
    assert_eq!(envelope(text).kind, Some(kind), "{text}");
}

#[track_caller]
fn is_no_message(text: &str) {
    assert_eq!(read(text), JsonRpcText::Invalid(InvalidText::NotAMessage), "{text}");
}

#[test]
fn a_conversation() {
    is(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#, Kind::Request);
    is(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Kind::Response);
    is(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, Kind::Notification);
    is(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found"}}"#, Kind::Error);
}

#[test]
fn kinds_are_judged_leniently() {
    is(r#"{"id":null,"method":"ping"}"#, Kind::Request);
    is(r#"{"id":1.5,"method":"ping"}"#, Kind::Request);
    is(r#"{"id":18446744073709551616,"method":"ping"}"#, Kind::Request);
    is(r#"{"method":"logEvent"}"#, Kind::Notification);
    is(r#"{"id":1,"result":null}"#, Kind::Response);
    is(r#"{"jsonrpc":"2.0","result":1}"#, Kind::Response);
    is(r#"{"id":1,"result":{},"error":null}"#, Kind::Response);
    is(r#"{"id":1,"result":null,"error":{"code":1}}"#, Kind::Error);
    is(r#"{"id":1,"result":{},"error":{}}"#, Kind::Error);
    is(r#"{"id":1,"error":"boom"}"#, Kind::Error);
    is(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}"#, Kind::Error);
    is(r#"{"jsonrpc":"2.0","error":{}}"#, Kind::Error);
    is(r#"{"error":{"code":-32700,"message":"Parse error"}}"#, Kind::Error);
    is(r#"{"method":"a","id":1,"result":{}}"#, Kind::Request);
}

#[test]
fn other_json_is_no_message() {
    is_no_message(r#"{"error":"invalid_request"}"#);
    is_no_message(r#"{"error":"invalid_request","error_description":"no"}"#);
    is_no_message(r#"{"error":{"message":"not found"}}"#);
    is_no_message(r#"{"error":{"why":{"code":1}}}"#);
    is_no_message(r#"{"result":5}"#);
    is_no_message(r#"{"jsonrpc":"2.0","id":1}"#);
    is_no_message(r#"{"jsonrpc":"2.0","id":1,"method":5}"#);
    for text in ["{}", "null", "17", "1e999", r#""initialize""#, "true"] {
        is_no_message(text);
    }
}

#[test]
fn members_keep_their_text() {
    let text =
        " {\"id\" : 1.0 ,\"\\u006dethod\":\"tools\\/call\\u0020\" , \"params\":{\"n\":1e400,\"id\":7},\"x\":0}\n";
    let envelope = envelope(text);
    assert_eq!(&text[envelope.id.unwrap()], "1.0");
    assert_eq!(&text[envelope.method.unwrap()], "\"tools\\/call\\u0020\"");
    assert_eq!(envelope.method_name.as_deref(), Some("tools/call "));
    assert_eq!(&text[envelope.params.unwrap()], r#"{"n":1e400,"id":7}"#);
    assert_eq!((envelope.unknown, envelope.duplicate), (1, false));
}

#[test]
fn half_a_surrogate_pair_is_still_a_method() {
    let envelope = envelope(r#"{"id":1,"method":"a\ud800","\udead":1}"#);
    assert_eq!(envelope.kind, Some(Kind::Request));
    assert!(envelope.method_name.unwrap().starts_with("a\u{fffd}"));
}

#[test]
fn of_duplicates_the_last_counts() {
    let text = r#"{"id":1,"method":"a","id":2}"#;
    let envelope = envelope(text);
    assert!(envelope.duplicate);
    assert_eq!(&text[envelope.id.unwrap()], "2");
    assert!(super::tests::envelope(r#"{"method":"a","x":1,"y":2,"\u0078":3}"#).duplicate);
    assert!(!super::tests::envelope(r#"{"method":"a","params":{"x":1,"x":2}}"#).duplicate);
    is(r#"{"method":"a","method":"b","id":1}"#, Kind::Request);
    is_no_message(r#"{"method":"a","method":null,"id":1}"#);
}

#[test]
fn a_batch_reads_member_by_member() {
    let text = "\u{feff}[ {\"method\":\"a\"}, 5 , [{\"method\":\"a\"}],{\"id\":1,\"result\":{}} ]";
    let JsonRpcText::Batch(members) = read(text) else { panic!() };
    let read = members.iter().map(|(range, member)| (&text[range.clone()], member.as_ref().map(|e| e.kind)));
    assert_eq!(
        read.collect::<Vec<_>>(),
        [
            (r#"{"method":"a"}"#, Ok(Some(Kind::Notification))),
            ("5", Err(&InvalidText::NotAMessage)),
            (r#"[{"method":"a"}]"#, Err(&InvalidText::NotAMessage)),
            (r#"{"id":1,"result":{}}"#, Ok(Some(Kind::Response))),
        ]
    );
    let (range, Ok(last)) = &members[3] else { panic!() };
    assert_eq!(&text[range.clone()][last.id.clone().unwrap()], "1", "ranges count from the member");
    assert_eq!(super::tests::read(" [ ] "), JsonRpcText::Batch(vec![]));
}

#[test]
fn a_batch_over_the_limit_ends_in_the_rest() {
    let text = r#"[{"method":"a"},{"method":"b"}, {"method":"c"} ,4]"#;
    let JsonRpcText::Batch(members) = parse(text.as_bytes(), DEPTH, 2) else { panic!() };
    assert_eq!(members.len(), 3);
    assert_eq!((&text[members[2].0.clone()], &members[2].1), (r#"{"method":"c"} ,4"#, &Err(InvalidText::NotAMessage)));
}

#[test]
fn errors_have_their_offset() {
    let fault = |text: &[u8]| match parse(text, DEPTH, 16) {
        JsonRpcText::Invalid(fault) => fault,
        other => panic!("{other:?}"),
    };
    let not_json = |offset, why: &str| InvalidText::NotJson(offset, why.to_owned());
    assert_eq!(fault(b"{\"id\":\xff}"), InvalidText::NotUtf8(6));
    assert_eq!(fault(b"{\"id\":1}\n x"), not_json(10, "trailing characters"));
    assert_eq!(fault("\u{feff}{\"id\":1}]".as_bytes()), not_json(11, "trailing characters"));
    assert_eq!(fault(b"{\"id\":\n\n 01}"), not_json(10, "invalid number"));
    assert_eq!(fault(b""), not_json(0, "EOF while parsing a value"));
    assert_eq!(fault(b"  "), not_json(2, "EOF while parsing a value"));
    assert_eq!(fault(b"{\"id\":1"), not_json(7, "EOF while parsing an object"));
    assert_eq!(fault(b"INFO ready"), not_json(0, "expected value"));
    assert_eq!(fault(b"[1,]"), not_json(3, "trailing comma"));
}

#[test]
fn nesting_is_bounded_and_never_grows_the_stack() {
    let nested = |levels: usize| {
        format!(r#"{{"id":"[[{{","method":"\"[","params":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
    };
    is(&nested(DEPTH - 1), Kind::Request);
    assert_eq!(read(&nested(DEPTH)), JsonRpcText::Invalid(InvalidText::TooDeep));
    assert_eq!(read(&nested(1_000_000)), JsonRpcText::Invalid(InvalidText::TooDeep));
    is(&format!(r#"{{"method":"{}","params":[{}0]}}"#, "[".repeat(999), "[],".repeat(999)), Kind::Notification);
    let JsonRpcText::Batch(members) = read(&format!("[{},{}]", nested(DEPTH), nested(DEPTH - 1))) else { panic!() };
    assert_eq!(members[0].1, Err(InvalidText::TooDeep));
    assert!(members[1].1.is_ok());
    assert!(matches!(read(&"[".repeat(1_000_000)), JsonRpcText::Invalid(InvalidText::NotJson(1_000_000, _))));
}

#[test]
fn unknown_members_are_counted() {
    let members: String = (0..100_000).map(|n| format!(r#""{n}":0,"#)).collect();
    let envelope = envelope(&format!(r#"{{{members}"method":"a"}}"#));
    assert_eq!((envelope.unknown, envelope.duplicate), (100_000, false));
}

const SEEDS: [&str; 9] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":[3,{}]}}}"#,
    r#"{"jsonrpc":"2.0","id":"x\"y","result":{"content":[{"type":"text","text":"é\u00e9\ud83d\ude00"}]}}"#,
    r#"{"jsonrpc" : "2.0", "id":null,"error":{"code":-32602,"message":"no","data":null}}"#,
    "[{\"id\":1,\"method\":\"a\"},\n{\"method\":\"b\"},[],3]",
    r#"[1,2,3,4,5,6,7,8,9,{"id":1,"method":"a"},{"id":1,"method":"a"}]"#,
    "\u{feff}{\"method\":\"a\",\"id\":-0.0e-0}",
    r#"{"id":1,"id":2,"id":3,"method":"\ud800","x":1,"x":2}"#,
    "[]",
    "{\"a\":\"\u{2028}\"}",
];

#[test]
fn seeds_whole_cut_and_with_trailing_bytes() {
    for seed in SEEDS.map(str::as_bytes) {
        fuzz_jsonrpc(seed);
        for cut in 0..seed.len() {
            fuzz_jsonrpc(&seed[..cut]);
            fuzz_jsonrpc(&seed[cut..]);
        }
        for trailing in [" \n", "}", "{}", "\0", "\u{feff}"] {
            fuzz_jsonrpc(&[seed, trailing.as_bytes()].concat());
        }
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no NaN", |n| n.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// A random object with some members of a message and others, each at most once.
fn any_object() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        4 => prop::sample::select(vec!["jsonrpc", "id", "method", "params", "result", "error"]).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    let value = prop_oneof![any_json(), "[a-z/]{0,9}".prop_map(Value::from)];
    prop::collection::hash_map(name, value, 0..7).prop_map(|map| json!(map))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Each range contains the value that serde_json finds under that name.
    #[test]
    fn ranges_hold_the_values(object in any_object(), pretty in any::<bool>()) {
        let text = if pretty { format!("{object:#}") } else { object.to_string() };
        let object: Value = serde_json::from_str(&text).unwrap();
        if let JsonRpcText::Single(envelope) = read(&text) {
            let Envelope { jsonrpc, id, method, params, result, error, .. } = &envelope;
            let names = ["jsonrpc", "id", "method", "params", "result", "error"];
            let mut defined = 0;
            for (name, range) in names.into_iter().zip([jsonrpc, id, method, params, result, error]) {
                let value = range.clone().map(|range| serde_json::from_str::<Value>(&text[range]).unwrap());
                prop_assert_eq!(value.as_ref(), object.get(name));
                defined += u32::from(value.is_some());
            }
            prop_assert_eq!(envelope.method_name.as_deref(), object.get("method").and_then(Value::as_str));
            prop_assert_eq!(envelope.unknown + defined, object.as_object().unwrap().len() as u32);
            prop_assert!(!envelope.duplicate);
        } else {
            prop_assert!(!object.get("method").is_some_and(Value::is_string));
        }
        fuzz_jsonrpc(text.as_bytes());
    }

    /// Blanks between tokens shift the ranges and change nothing else.
    #[test]
    fn blanks_change_nothing(object in any_object()) {
        let facts = |text: &str| match read(text) {
            JsonRpcText::Single(envelope) => {
                let id = envelope.id.map(|id| text[id].to_owned());
                Ok((envelope.kind, envelope.method_name, envelope.unknown, id))
            }
            other => Err(Box::new(other)),
        };
        let close = object.to_string();
        if object.get("id").is_none_or(|id| !id.is_object() && !id.is_array()) {
            prop_assert_eq!(facts(&close), facts(&format!(" {object:#}\r\n")));
        }
    }

    #[test]
    fn batches_read_like_their_members(objects in prop::collection::vec(any_object(), 0..12)) {
        fuzz_jsonrpc(json!(objects).to_string().as_bytes());
    }

    #[test]
    fn mutations_keep_the_laws(
        seed in prop::sample::select(SEEDS.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 0..6),
    ) {
        let mut bytes = seed.as_bytes().to_vec();
        for (index, byte, what) in changes {
            let at = index.index(bytes.len() + 1);
            match what {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => { bytes.remove(at); }
                _ if at < bytes.len() => bytes[at] = byte,
                _ => {}
            }
        }
        fuzz_jsonrpc(&bytes);
    }

    #[test]
    fn any_bytes_keep_the_laws(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_jsonrpc(&bytes);
    }

    #[test]
    fn any_brackets_keep_the_laws(text in r#"[\[\]{}",:\\1a ]{0,40}"#) {
        fuzz_jsonrpc(text.as_bytes());
    }

    #[test]
    fn depth_is_exact(value in any_json(), limit in 0..6_usize) {
        fn depth(value: &Value) -> usize {
            match value {
                Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
                Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
                _ => 0,
            }
        }
        let message = json!({"method": "a", "x": value}).to_string();
        let is_too_deep = parse(message.as_bytes(), limit + 1, 1) == JsonRpcText::Invalid(InvalidText::TooDeep);
        prop_assert_eq!(is_too_deep, depth(&value) > limit);
    }
}

#[test]
fn unmistakable_messages_are_complete_and_typical() {
    for (text, expected) in [
        (r#"{"jsonrpc":"2.0","method":"a"}"#, true),
        (r#"{"id":1,"error":{}}"#, true),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, true),
        (r#"{"method":"a"}"#, false),
        (r#"{"id":1,"object":"chunk"}"#, false),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}},1]"#, false),
        (r#"{"jsonrpc":"2.0","method":"a"}}"#, false),
        ("[]", false),
    ] {
        assert_eq!(is_unmistakable(text.as_bytes(), 8, 8), expected, "{text}");
    }
}
