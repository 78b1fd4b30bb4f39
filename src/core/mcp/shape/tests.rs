use super::*;

fn mismatches_of(revision: Revision, role: Role<'_>, text: &str) -> Vec<String> {
    check(revision, role, text).iter().map(Mismatch::to_string).collect()
}

#[test]
fn every_revision_defines_its_methods() {
    let counts = Revision::ALL.map(|revision| (methods(revision, true).count(), methods(revision, false).count()));
    assert_eq!(counts, [(15, 9), (15, 9), (16, 9), (20, 11), (10, 8)]);
}

#[test]
fn a_call_is_held_against_its_revision() {
    use Revision::{V2024_11_05, V2026_07_28};
    let call = |text| mismatches_of(V2024_11_05, Role::Method("tools/call"), text);
    assert!(
        call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1]},"new":1}}"#)
            .is_empty()
    );
    assert_eq!(
        call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5,"arguments":[]}}"#),
        ["/params/name: a string expected, found a number", "/params/arguments: an object expected, found an array"]
    );
    assert_eq!(call(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#), ["/params is missing (an object)"]);
    assert_eq!(
        mismatches_of(
            V2026_07_28,
            Role::Method("tools/call"),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{}}}"#
        ),
        [
            "/params/_meta/io.modelcontextprotocol~1protocolVersion is missing (a string)",
            "/params/_meta/io.modelcontextprotocol~1clientCapabilities is missing (an object)",
        ]
    );
}

#[test]
fn the_discriminator_selects_the_branch() {
    let result = |content: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{content}]}}}}"#);
        mismatches_of(Revision::V2025_11_25, Role::AnswerTo("tools/call"), &text)
    };
    assert!(result(r#"{"text":"a","type":"text"},{"type":"image","data":"YQ==","mimeType":"image/png"}"#).is_empty());
    assert_eq!(result(r#"{"type":"text"}"#), ["/result/content/0/text is missing (a string)"]);
    assert_eq!(
        result(r#"{"type":"video","url":"x"}"#),
        [r#"/result/content/0/type: "text", "image", "audio", "resource_link" or "resource" expected, found "video""#]
    );
    assert_eq!(
        result(r#"{"type":"resource","resource":{"uri":"file:///a"}}"#),
        ["/result/content/0/resource/text is missing (a string)"]
    );
    assert_eq!(
        result(r#"{"type":"image","data":"no!","mimeType":"image/png"}"#),
        [r#"/result/content/0/data: base64 (RFC 4648) expected, found "no!""#]
    );
}

#[test]
fn the_result_type_selects_the_definition() {
    let stateless = |result: &str| {
        mismatches_of(
            Revision::V2026_07_28,
            Role::AnswerTo("tools/call"),
            &format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#),
        )
    };
    assert!(stateless(r#"{"resultType":"complete","content":[],"structuredContent":[1]}"#).is_empty());
    assert!(stateless(r#"{"resultType":"task","taskId":"1"}"#).is_empty());
    assert!(stateless(r#"{"resultType":"input_required","requestState":"s"}"#).is_empty());
    assert_eq!(stateless(r#"{"content":[]}"#), ["/result/resultType is missing (a string)"]);
    assert_eq!(
        stateless(r#"{"resultType":"input_required","inputRequests":{"a/b":{"method":"x"}}}"#),
        [
            r#"/result/inputRequests/a~1b/method: "sampling/createMessage", "roots/list" or "elicitation/create" expected, found "x""#
        ]
    );
    let task = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"1","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null}}}"#;
    assert!(mismatches_of(Revision::V2025_11_25, Role::AnswerTo("tools/call"), task).is_empty());
}

#[test]
fn mismatches_are_few_and_stand_in_the_text() {
    let text = format!(
        r#" {{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{{"name":"x","arguments":{{{}}}}}}}"#,
        (0..1000).map(|number| format!(r#""{number}é":{number}"#)).collect::<Vec<_>>().join(",")
    );
    let mismatches = check(Revision::V2025_06_18, Role::Method("prompts/get"), &text);
    assert_eq!(mismatches.len(), MISMATCHES);
    assert_eq!(&text[mismatches[3].range.clone()], "3");
    assert_eq!(mismatches[3].path, "/params/arguments/3é");
}

#[test]
fn unknown_methods_and_broken_texts_give_no_mismatch() {
    assert!(mismatches_of(Revision::V2026_07_28, Role::Method("initialize"), "{}").is_empty());
    for text in ["", "{", r#"{"params"#, r#"{"params":{"name":"#, r#"{"params":{"name":1"#, "]", "\"", "\u{feff}"] {
        assert!(mismatches_of(Revision::V2025_11_25, Role::Method("tools/call"), text).len() <= 1, "{text}");
        check(Revision::V2025_11_25, Role::AnswerTo("tools/call"), text);
    }
}
