//! Tests of sessions with a recorded server.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Ledger, Pace, RecordedServer, Session};
use crate::filter::Fault;
use crate::mcp::MessageNumber;
use crate::mcp::link::{Link, Why};
use crate::mock::matching::Match;
use crate::mock::script::Script;
use crate::replay::test_recordings;

/// The script of a recording that is written as a conversation.
pub(crate) fn script(text: &str) -> Script {
    let mut recording = test_recordings::recording(text);
    recording.session.protocol_version = Some("2025-06-18".into());
    Script::new(recording)
}

/// A client of the mock. Times are in milliseconds.
struct Client {
    server: RecordedServer,
    session: Session,
    ledger: Ledger,
    post: u64,
}

impl Client {
    fn of(recorded: &str, pace: Pace) -> Client {
        Client::to(script(recorded), pace)
    }

    fn to(script: Script, pace: Pace) -> Client {
        let server = RecordedServer::new(script, Match::Order, pace);
        let session = Session::new(&server, Duration::ZERO);
        Client { server, session, ledger: Ledger::default(), post: 0 }
    }

    fn summary(&mut self, at: u64) -> Vec<String> {
        let texts = self.session.due_output(&self.server, Duration::from_millis(at));
        texts.into_iter().filter_map(|texts| texts.text).collect()
    }

    fn send(&mut self, text: &str) -> Vec<String> {
        self.send_at(0, text)
    }

    fn send_at(&mut self, at: u64, text: &str) -> Vec<String> {
        self.post += 1;
        let now = Duration::from_millis(at);
        self.session.receive(&self.server, &mut self.ledger, text.as_bytes(), self.post, now);
        self.summary(at)
    }
}

/// The only text among `texts`, as JSON.
fn one(texts: &[String]) -> Value {
    assert_eq!(texts.len(), 1, "{texts:?}");
    serde_json::from_str(&texts[0]).unwrap()
}

const CALL: &str = r#"
    -> {"id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":"p"}}}
    <- {"method":"notifications/progress","params":{"progressToken":"p","progress":1}}
    <- {"id":"s","method":"elicitation/create","params":{"message":"?"}}
    -> {"id":"s","result":{"action":"accept"}}
    <- {"id":1,"result":{"content":[]}}
    <- {"method":"notifications/tools/list_changed"}
"#;

#[test]
fn ids_and_tokens_are_replaced_and_the_response_waits_for_the_clients() {
    let mut client = Client::of(CALL, Pace::Fast);
    let call = r#"{"id":"x","method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}"#;
    assert_eq!(
        client.send(call),
        [
            r#"{"method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#,
            r#"{"id":0,"method":"elicitation/create","params":{"message":"?"}}"#,
        ]
    );
    assert_eq!(client.send(r#"{"id":5,"result":{}}"#), [""; 0], "an answer to something else");
    assert_eq!(
        client.send(r#"{"id":0,"result":{"action":"decline"}}"#),
        [r#"{"id":"x","result":{"content":[]}}"#, r#"{"method":"notifications/tools/list_changed"}"#]
    );
}

#[test]
fn without_a_token_there_is_no_progress_and_a_cancelled_request_gets_no_response() {
    let mut client = Client::of(CALL, Pace::Fast);
    assert_eq!(client.send(r#"{"id":2,"method":"tools/call","params":{"name":"a"}}"#).len(), 1);
    assert_eq!(client.send(r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#), [""; 0]);
    assert_eq!(client.send(r#"{"id":0,"result":{}}"#), [""; 0]);
    assert_eq!(client.session.playbacks.len(), 0);
}

#[test]
fn pauses_are_those_of_the_recording() {
    let mut client = Client::of(CALL, Pace::Recorded);
    let call = r#"{"id":2,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}"#;
    assert_eq!(client.send_at(10, call), [""; 0]);
    assert_eq!(client.session.next_due(&client.server), Some(Duration::from_millis(11)));
    assert_eq!(client.summary(11).len(), 1);
    assert_eq!(client.summary(12).len(), 1);
    assert_eq!(client.session.next_due(&client.server), None, "the client is to answer");
    assert_eq!(client.send_at(100, r#"{"id":0,"result":{}}"#), [""; 0]);
    assert_eq!(client.summary(101).len(), 1);
    assert_eq!(client.summary(102).len(), 1);
}

#[test]
fn an_unknown_request_gets_an_error_with_the_closest_one() {
    let mut client = Client::of(CALL, Pace::Fast);
    let texts = client.send(r#"{"id":3,"method":"tools/call","params":{"name":"b"}}"#);
    assert_eq!(
        texts,
        [
            r##"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"data":{"closest":{"method":"tools/call","number":1,"params":{"_meta":{"progressToken":"p"},"name":"a"}}},"message":"tools/call b is not in the recording; the closest is #1 tools/call a"}}"##
        ]
    );
    assert_eq!(client.send(r#"{"id":4,"method":"ping"}"#), [r#"{"jsonrpc":"2.0","id":4,"result":{}}"#]);
    assert!(client.send(r#"{"id":5,"method":"x/y"}"#)[0].contains("-32601"));
    insta::assert_snapshot!(client.ledger.text(client.server.script()), @r"
    3 requests: 0 exact, 0 loose, 0 in order, 2 unknown; 1 of 1 recorded ones were not used
      unused #1 tools/call a
      unknown tools/call b (the closest is #1 tools/call a)
      unknown x/y (the closest is #1 tools/call a)
    ");
}

#[test]
fn a_recording_without_handshake_gets_one() {
    let mut client = Client::of(CALL, Pace::Fast);
    let texts = client.send(r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    assert!(texts[0].contains(r#""capabilities":{"tools":{}},"protocolVersion":"2025-06-18""#), "{texts:?}");
}

#[test]
fn a_batch_is_answered_as_one() {
    let mut client = Client::of(CALL, Pace::Fast);
    let batch = r#"[{"id":1,"method":"ping"},{"method":"notifications/initialized"},7,{"id":2,"method":"ping"}]"#;
    let texts = client.send(batch);
    let answers: Vec<serde_json::Value> = serde_json::from_str(&texts[0]).unwrap();
    assert_eq!((texts.len(), answers.len()), (1, 3));
    for (text, code) in [("[]", -32600), ("{", -32700), ("7", -32600)] {
        let texts = client.send(text);
        assert!(texts[0].contains(&format!(r#""code":{code}"#)) && texts[0].contains(r#""id":null"#), "{texts:?}");
    }
}

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

#[test]
fn a_client_of_2026_07_28_is_served_from_a_recording_with_a_handshake() {
    let mut client = Client::of(
        r#"
        -> {"id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
        <- {"id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"x"}}}
        -> {"method":"notifications/initialized"}
        -> {"id":1,"method":"tools/list"}
        <- {"id":1,"result":{"tools":[]}}
        -> {"id":2,"method":"tools/call","params":{"name":"book"}}
        <- {"method":"notifications/tools/list_changed"}
        <- {"id":"s","method":"elicitation/create","params":{"message":"?"}}
        -> {"id":"s","result":{"action":"accept"}}
        <- {"id":2,"result":{"content":[]}}
        -> {"id":3,"method":"tools/call","params":{"name":"book"}}
        <- {"id":3,"result":{"content":[],"isError":true}}
        "#,
        Pace::Fast,
    );
    let discovered = one(&client.send(&format!(r#"{{"id":1,"method":"server/discover","params":{{{META}}}}}"#)));
    let result = &discovered["result"];
    assert_eq!((&discovered["id"], &result["supportedVersions"]), (&json!(1), &json!(["2026-07-28"])));
    assert_eq!((&result["capabilities"], &result["resultType"]), (&json!({"tools": {}}), &json!("complete")));
    let listed = one(&client.send(&format!(r#"{{"id":2,"method":"tools/list","params":{{{META}}}}}"#)));
    assert_eq!(listed["result"], json!({"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}));
    let call =
        |id: u64, more: &str| format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"book",{META}{more}}}}}"#);
    let server_requests = one(&client.send(&call(3, "")));
    let wanted = json!({"8": {"method": "elicitation/create", "params": {"message": "?"}}});
    assert_eq!(
        (&server_requests["result"]["resultType"], &server_requests["result"]["inputRequests"]),
        (&json!("input_required"), &wanted)
    );
    let state = &server_requests["result"]["requestState"];
    let input = format!(r#","requestState":{state},"inputResponses":{{"8":{{"action":"decline"}}}}"#);
    let done = one(&client.send(&call(4, &input)));
    assert_eq!(done, json!({"jsonrpc": "2.0", "id": 4, "result": {"content": [], "resultType": "complete"}}));
    assert_eq!(one(&client.send(&call(5, "")))["result"]["isError"], true, "the next call is another one");
    assert!(
        client.send(&format!(r#"{{"id":6,"method":"resources/subscribe","params":{{{META}}}}}"#))[0].contains("-32601")
    );
    insta::assert_snapshot!(client.ledger.text(client.server.script()), @r"
    6 requests: 0 exact, 5 loose, 0 in order, 1 unknown; 0 of 4 recorded ones were not used
      unknown resources/subscribe (the closest is #1 server/discover)
    ");
}

#[test]
fn a_client_up_to_2025_11_25_is_served_from_a_recording_without_handshake() {
    let mut recording = test_recordings::recording(
        r#"
        -> {"id":0,"method":"server/discover","params":{}}
        <- {"id":0,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}}
        -> {"id":1,"method":"tools/list","params":{}}
        <- {"id":1,"result":{"tools":[],"resultType":"complete","ttlMs":5,"cacheScope":"public"}}
        -> {"id":2,"method":"subscriptions/listen","params":{"toolsListChanged":true}}
        <- {"method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}
        <- {"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":2}}}
        -> {"id":3,"method":"tools/call","params":{"name":"book"}}
        <- {"id":3,"result":{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{"message":"?"}}}}}
        -> {"id":4,"method":"tools/call","params":{"name":"book","requestState":"s","inputResponses":{"k":{"action":"accept"}}}}
        <- {"id":4,"result":{"resultType":"complete","content":[]}}
        "#,
    );
    recording.session.protocol_version = Some("2026-07-28".into());
    recording.messages[9].link =
        Some(Link { operation: MessageNumber(8), previous: MessageNumber(9), why: Why::RequestState });
    let mut client = Client::to(Script::new(recording), Pace::Fast);
    let opened = one(&client.send(r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#));
    assert_eq!(opened["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(opened["result"]["capabilities"], json!({"tools": {}}));
    let listed = client.send(r#"{"id":2,"method":"tools/list"}"#);
    assert_eq!(listed[0], r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#);
    assert!(listed.len() == 2 && listed[1].contains("notifications/tools/list_changed"), "{listed:?}");
    let server_requests = one(&client.send(r#"{"id":3,"method":"tools/call","params":{"name":"book"}}"#));
    assert_eq!(
        (&server_requests["method"], &server_requests["params"]),
        (&json!("elicitation/create"), &json!({"message": "?"}))
    );
    let done = one(&client.send(&format!(r#"{{"id":{},"result":{{"action":"decline"}}}}"#, server_requests["id"])));
    assert_eq!(done, json!({"jsonrpc": "2.0", "id": 3, "result": {"content": []}}));
    insta::assert_snapshot!(client.ledger.text(client.server.script()), @r"
    3 requests: 1 exact, 1 loose, 0 in order, 0 unknown; 2 of 5 recorded ones were not used
      unused #1 server/discover
      unused #5 subscriptions/listen
    ");
}

/// A client of a mock that injects these faults into the responses to `ADD`.
fn faulty(faults: &[&str]) -> Client {
    let recorded = r#"
        -> {"id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}
        <- {"id":1,"result":{"content":[{"type":"text","text":"2"}]}}
        -> {"id":2,"method":"tools/call","params":{"name":"other"}}
        <- {"id":2,"result":{"content":[]}}
    "#;
    let mut client = Client::of(recorded, Pace::Fast);
    let faults = faults.iter().map(|fault| Fault::parse(fault).unwrap_or_else(|error| panic!("{error}"))).collect();
    client.server = client.server.with_faults(faults);
    client
}

const ADD: &str = r#"{"id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1}}}"#;
const OTHER: &str = r#"{"id":2,"method":"tools/call","params":{"name":"other"}}"#;

#[test]
fn a_delayed_response_is_due_later_and_others_are_not() {
    let mut client = faulty(&["tool = add: delay 2s", "params.arguments.a = 1: delay 1s"]);
    assert!(client.send_at(100, ADD).is_empty());
    assert_eq!(client.session.next_due(&client.server), Some(Duration::from_millis(3_100)));
    assert_eq!(one(&client.send_at(200, OTHER))["id"], 2);
    assert!(client.summary(3_099).is_empty());
    assert_eq!(one(&client.summary(3_100))["result"]["content"][0]["text"], "2");
    assert_eq!(client.session.next_due(&client.server), None);
    assert_eq!(client.ledger.faults, 1);
}

#[test]
fn an_error_takes_the_place_of_the_response() {
    let mut client =
        faulty(&["tool = add: error -32603 \"not \\\"now\\\"\"", "tool = add: drop", "method = ping: error 7"]);
    let error = one(&client.send(ADD));
    assert_eq!(error["error"], json!({"code": -32603, "message": "not \"now\""}));
    assert_eq!(one(&client.send(r#"{"id":"p","method":"ping"}"#))["error"]["code"], 7, "also without the recording");
}

#[test]
fn a_dropped_response_is_never_due_and_can_be_cancelled() {
    let mut client = faulty(&["tool = add: drop", "tool = other: delay 1s"]);
    assert!(client.send(ADD).is_empty());
    assert_eq!(client.session.next_due(&client.server), None);
    assert!(client.send(OTHER).is_empty());
    for id in [1, 2] {
        client.send(&format!(r#"{{"method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
    }
    assert_eq!(client.session.next_due(&client.server), None, "a cancelled request gets no late response");
    assert!(client.summary(5_000).is_empty());
}

#[test]
fn a_cut_is_part_of_the_output_also_of_a_batch() {
    let mut client = faulty(&["tool = add: cut 10"]);
    client.session.receive(&client.server, &mut client.ledger, ADD.as_bytes(), 1, Duration::ZERO);
    let output = client.session.due_output(&client.server, Duration::ZERO);
    assert_eq!((output.len(), output[0].cut, &output[1].text), (2, Some(10), &None));
    let batch = format!("[{ADD},{OTHER}]");
    client.session.receive(&client.server, &mut client.ledger, batch.as_bytes(), 2, Duration::ZERO);
    let output = client.session.due_output(&client.server, Duration::ZERO);
    assert_eq!((output.len(), output[0].cut, &output[1].text), (2, Some(10), &None));
}
