//! Tests of sessions with a recorded server.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Ledger, Pace, RecordedServer, Session};
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
