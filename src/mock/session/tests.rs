//! Conversations with a recorded server.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Ledger, Pace, Session, Stage};
use crate::mcp::MessageNumber;
use crate::mcp::link::{Link, Why};
use crate::mock::matching::Match;
use crate::mock::script::Script;
use crate::replay::talk;

/// A recording written as a conversation.
pub(crate) fn script(text: &str) -> Script {
    let mut recording = talk::recording(text);
    recording.session.protocol_version = Some("2025-06-18".into());
    Script::new(recording)
}

/// A client and what it hears, in milliseconds.
struct Client {
    stage: Stage,
    session: Session,
    ledger: Ledger,
    post: u64,
}

impl Client {
    fn of(recorded: &str, pace: Pace) -> Client {
        Client::to(script(recorded), pace)
    }

    fn to(script: Script, pace: Pace) -> Client {
        let stage = Stage::new(script, Match::Order, pace);
        let session = Session::new(&stage, Duration::ZERO);
        Client { stage, session, ledger: Ledger::default(), post: 0 }
    }

    fn heard(&mut self, at: u64) -> Vec<String> {
        let said = self.session.say(&self.stage, Duration::from_millis(at));
        said.into_iter().filter_map(|said| said.text).collect()
    }

    fn says(&mut self, text: &str) -> Vec<String> {
        self.says_at(0, text)
    }

    fn says_at(&mut self, at: u64, text: &str) -> Vec<String> {
        self.post += 1;
        let now = Duration::from_millis(at);
        self.session.hear(&self.stage, &mut self.ledger, text.as_bytes(), self.post, now);
        self.heard(at)
    }
}

/// One text that is said, as JSON.
fn one(said: &[String]) -> Value {
    assert_eq!(said.len(), 1, "{said:?}");
    serde_json::from_str(&said[0]).unwrap()
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
fn ids_and_tokens_are_the_clients_and_the_answer_waits_for_its_own() {
    let mut client = Client::of(CALL, Pace::Fast);
    let call = r#"{"id":"x","method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}"#;
    assert_eq!(
        client.says(call),
        [
            r#"{"method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#,
            r#"{"id":0,"method":"elicitation/create","params":{"message":"?"}}"#,
        ]
    );
    assert_eq!(client.says(r#"{"id":5,"result":{}}"#), [""; 0], "an answer to something else");
    assert_eq!(
        client.says(r#"{"id":0,"result":{"action":"decline"}}"#),
        [r#"{"id":"x","result":{"content":[]}}"#, r#"{"method":"notifications/tools/list_changed"}"#]
    );
}

#[test]
fn without_a_token_there_is_no_progress_and_what_is_taken_back_is_not_answered() {
    let mut client = Client::of(CALL, Pace::Fast);
    assert_eq!(client.says(r#"{"id":2,"method":"tools/call","params":{"name":"a"}}"#).len(), 1);
    assert_eq!(client.says(r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#), [""; 0]);
    assert_eq!(client.says(r#"{"id":0,"result":{}}"#), [""; 0]);
    assert_eq!(client.session.plays.len(), 0);
}

#[test]
fn pauses_are_those_of_the_recording() {
    let mut client = Client::of(CALL, Pace::Recorded);
    let call = r#"{"id":2,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":7}}}"#;
    assert_eq!(client.says_at(10, call), [""; 0]);
    assert_eq!(client.session.next(&client.stage), Some(Duration::from_millis(11)));
    assert_eq!(client.heard(11).len(), 1);
    assert_eq!(client.heard(12).len(), 1);
    assert_eq!(client.session.next(&client.stage), None, "the client is to answer");
    assert_eq!(client.says_at(100, r#"{"id":0,"result":{}}"#), [""; 0]);
    assert_eq!(client.heard(101).len(), 1);
    assert_eq!(client.heard(102).len(), 1);
}

#[test]
fn what_is_unknown_gets_an_error_that_names_the_closest() {
    let mut client = Client::of(CALL, Pace::Fast);
    let said = client.says(r#"{"id":3,"method":"tools/call","params":{"name":"b"}}"#);
    assert_eq!(
        said,
        [
            r##"{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"data":{"closest":{"method":"tools/call","number":1,"params":{"_meta":{"progressToken":"p"},"name":"a"}}},"message":"tools/call b is not in the recording; the closest is #1 tools/call a"}}"##
        ]
    );
    assert_eq!(client.says(r#"{"id":4,"method":"ping"}"#), [r#"{"jsonrpc":"2.0","id":4,"result":{}}"#]);
    assert!(client.says(r#"{"id":5,"method":"x/y"}"#)[0].contains("-32601"));
    insta::assert_snapshot!(client.ledger.text(client.stage.script()), @r"
    3 requests: 0 exact, 0 loose, 0 in order, 2 unknown; 1 of 1 recorded ones unused
      unused #1 tools/call a
      unknown tools/call b (the closest is #1 tools/call a)
      unknown x/y (the closest is #1 tools/call a)
    ");
}

#[test]
fn a_recording_without_handshake_gets_one() {
    let mut client = Client::of(CALL, Pace::Fast);
    let said = client.says(r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    assert!(said[0].contains(r#""capabilities":{"tools":{}},"protocolVersion":"2025-06-18""#), "{said:?}");
}

#[test]
fn a_batch_is_answered_as_one() {
    let mut client = Client::of(CALL, Pace::Fast);
    let batch = r#"[{"id":1,"method":"ping"},{"method":"notifications/initialized"},7,{"id":2,"method":"ping"}]"#;
    let said = client.says(batch);
    let answers: Vec<serde_json::Value> = serde_json::from_str(&said[0]).unwrap();
    assert_eq!((said.len(), answers.len()), (1, 3));
    for (text, code) in [("[]", -32600), ("{", -32700), ("7", -32600)] {
        let said = client.says(text);
        assert!(said[0].contains(&format!(r#""code":{code}"#)) && said[0].contains(r#""id":null"#), "{said:?}");
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
    let discovered = one(&client.says(&format!(r#"{{"id":1,"method":"server/discover","params":{{{META}}}}}"#)));
    let result = &discovered["result"];
    assert_eq!((&discovered["id"], &result["supportedVersions"]), (&json!(1), &json!(["2026-07-28"])));
    assert_eq!((&result["capabilities"], &result["resultType"]), (&json!({"tools": {}}), &json!("complete")));
    let listed = one(&client.says(&format!(r#"{{"id":2,"method":"tools/list","params":{{{META}}}}}"#)));
    assert_eq!(listed["result"], json!({"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}));
    let call =
        |id: u64, more: &str| format!(r#"{{"id":{id},"method":"tools/call","params":{{"name":"book",{META}{more}}}}}"#);
    let asked = one(&client.says(&call(3, "")));
    let wanted = json!({"8": {"method": "elicitation/create", "params": {"message": "?"}}});
    assert_eq!(
        (&asked["result"]["resultType"], &asked["result"]["inputRequests"]),
        (&json!("input_required"), &wanted)
    );
    let state = &asked["result"]["requestState"];
    let input = format!(r#","requestState":{state},"inputResponses":{{"8":{{"action":"decline"}}}}"#);
    let done = one(&client.says(&call(4, &input)));
    assert_eq!(done, json!({"jsonrpc": "2.0", "id": 4, "result": {"content": [], "resultType": "complete"}}));
    assert_eq!(one(&client.says(&call(5, "")))["result"]["isError"], true, "the next call is another one");
    assert!(
        client.says(&format!(r#"{{"id":6,"method":"resources/subscribe","params":{{{META}}}}}"#))[0].contains("-32601")
    );
    insta::assert_snapshot!(client.ledger.text(client.stage.script()), @r"
    6 requests: 0 exact, 5 loose, 0 in order, 1 unknown; 0 of 4 recorded ones unused
      unknown resources/subscribe (the closest is #1 server/discover)
    ");
}

#[test]
fn a_client_up_to_2025_11_25_is_served_from_a_recording_without_handshake() {
    let mut recording = talk::recording(
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
    let opened = one(&client.says(r#"{"id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#));
    assert_eq!(opened["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(opened["result"]["capabilities"], json!({"tools": {}}));
    let listed = client.says(r#"{"id":2,"method":"tools/list"}"#);
    assert_eq!(listed[0], r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#);
    assert!(listed.len() == 2 && listed[1].contains("notifications/tools/list_changed"), "{listed:?}");
    let asked = one(&client.says(r#"{"id":3,"method":"tools/call","params":{"name":"book"}}"#));
    assert_eq!((&asked["method"], &asked["params"]), (&json!("elicitation/create"), &json!({"message": "?"})));
    let done = one(&client.says(&format!(r#"{{"id":{},"result":{{"action":"decline"}}}}"#, asked["id"])));
    assert_eq!(done, json!({"jsonrpc": "2.0", "id": 3, "result": {"content": []}}));
    insta::assert_snapshot!(client.ledger.text(client.stage.script()), @r"
    3 requests: 1 exact, 1 loose, 0 in order, 0 unknown; 2 of 5 recorded ones unused
      unused #1 server/discover
      unused #5 subscriptions/listen
    ");
}
