//! `mcptap mock`: recorded servers played to clients over every transport.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{mcptap, root};
use crate::replay::scene::{Client, Scene, everything, stdout};
use crate::support::pipes::{Patient, patient};
use crate::support::waits::{Finishes, ProcessEnd};
use crate::wrapped::line;

/// Recordings in `samples/`, with the session to play.
const SAMPLES: [(&str, u32); 6] = [
    ("weather/capture.pcapng", 1),
    ("helpdesk/stdio.pcapng", 1),
    ("helpdesk/capture.pcapng", 1),
    ("helpdesk/capture.pcapng", 2),
    ("polluted-stdout/stdio.pcapng", 1),
    ("tls/capture.pcapng", 1),
];

/// A mock that listens. It ends when this is dropped.
pub struct Listening {
    child: Child,
    stderr: BufReader<Patient<ChildStderr>>,
    address: String,
}

impl Listening {
    pub fn start(mut mock: Command) -> Listening {
        let mut child = mock.args(["--listen", "0"]).stderr(Stdio::piped()).spawn().expect("mcptap runs");
        let stderr = child.stderr.take().expect("a pipe");
        let mut stderr = BufReader::new(Patient::new(stderr, "a mock to say where it listens, or to end"));
        let line = line(&mut stderr);
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Listening { child, stderr, address }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Ends the mock with a signal. Returns its exit status and standard error.
    pub fn end(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it lives");
        let status = self.child.ended("mcptap");
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).expect("text");
        (status.code(), text)
    }

    /// Sends bytes on a connection of their own and reads until the server closes it. Returns the
    /// status and the whole response.
    fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = patient(TcpStream::connect(&self.address).expect("it listens"));
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("it answers");
        let status = response.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status: {response:?}")), response)
    }

    /// Sends a POST with these header lines.
    pub fn post(&self, fields: &str, body: &str) -> (u16, String) {
        let length = body.len();
        self.raw(&format!("POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.child.killed();
    }
}

#[test]
fn replayed_against_their_own_mock_recordings_are_the_same() {
    let mock = env!("CARGO_BIN_EXE_mcptap");
    for (sample, session) in SAMPLES {
        let sample = root().join("samples").join(sample).display().to_string();
        let recording = [sample.as_str(), "--session", &session.to_string()].map(str::to_owned);
        let same = |what: &str, mut replay: Command| {
            let done = replay.finished();
            let errors = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(0), "{sample} {session} {what}: {}{errors}", stdout(&done));
        };
        let mut stdio = mcptap();
        stdio.arg("replay").args(&recording).args(["--no-save", "--", mock, "mock"]).args(&recording);
        same("stdio", stdio);
        let mut served = mcptap();
        served.arg("mock").args(&recording);
        let listening = Listening::start(served);
        for path in ["/mcp", "/sse"] {
            let mut http = mcptap();
            http.arg("replay").args(&recording).args(["--no-save", "--to", &listening.url(path)]);
            same(path, http);
        }
        let (code, report) = listening.end();
        assert!(code == Some(0) && report.contains(" 0 unknown; 0 of "), "{sample}: {report}");
    }
}

/// A recording with messages of every kind, as session 1.
fn scene() -> Option<Scene> {
    let scene = Scene::new()?;
    scene.record(&[], everything);
    Some(scene)
}

fn played(scene: &Scene, options: &[&str]) -> Client {
    let mut mock = scene.mcptap();
    mock.args(["mock", "1"]).args(options).stderr(Stdio::piped());
    Client::start(mock)
}

#[test]
fn pages_progress_questions_and_values_handed_back_over_every_transport() {
    let Some(scene) = scene() else { return };
    let mut client = played(&scene, &[]);
    client.open();
    everything(&mut client);
    let (code, report) = client.end();
    assert_eq!(code, Some(0), "{report}");
    assert!(report.contains("13 requests: 13 exact, 0 loose, 0 in order, 0 unknown; 0 of 13 recorded"), "{report}");
    let mut mock = scene.mcptap();
    mock.args(["mock", "1", "--pace", "recorded"]);
    let listening = Listening::start(mock);
    for (path, session) in [("/mcp", "2"), ("/sse", "3")] {
        let done = scene.replay_to(&listening.url(path), &[]);
        assert_eq!(done.status.code(), Some(0), "{path}: {}", stdout(&done));
        // The new recording has the elicitation and the progress too, and can be played itself.
        let compared = scene.run(&["diff", "1", session]);
        assert_eq!(compared.status.code(), Some(0), "{path}: {}", stdout(&compared));
        let words = format!("mock {session}");
        let mut replay = scene.mcptap();
        replay.args(["replay", session, "--no-save", "--", env!("CARGO_BIN_EXE_mcptap"), "--db"]);
        replay.arg(scene.path("mcptap.db")).args(words.split(' '));
        let done = replay.finished();
        assert_eq!(done.status.code(), Some(0), "{path}: {}", stdout(&done));
    }
}

#[test]
fn tokens_and_ids_are_the_clients() {
    let Some(scene) = scene() else { return };
    let mut client = played(&scene, &[]);
    client.send(&json!({"id": "a-1", "method": "tools/call",
        "params": {"name": "count", "arguments": {}, "_meta": {"progressToken": 99}}}));
    let first = client.next();
    assert_eq!((&first["method"], &first["params"]["progressToken"]), (&json!("notifications/progress"), &json!(99)));
    let last = std::iter::repeat_with(|| client.next()).find(|message| message.get("id").is_some());
    assert_eq!(last.expect("an answer")["id"], "a-1");
    client.send(&json!({"id": 2, "method": "tools/call", "params": {"name": "count", "arguments": {}}}));
    assert_eq!(client.next()["id"], 2, "no progress without a token");
}

#[test]
fn requests_that_are_not_in_the_recording() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        for text in ["a", "b"] {
            client.call("echo", json!({"text": text}));
        }
    });
    let text = |answer: Value| answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let mut client = played(&scene, &[]);
    client.open();
    assert_eq!(text(client.call("echo", json!({"text": "b"}))), "b");
    assert_eq!(text(client.call("echo", json!({"text": "c"}))), "a", "the next in order");
    let refused = client.call("ecko", json!({"text": "a"}));
    assert_eq!(refused["error"]["code"], -32602);
    let why = refused["error"]["message"].as_str().expect("a message");
    assert!(why.ends_with("the closest is #4 tools/call echo"), "{why}");
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    assert_eq!(client.request("prompts/list", json!({}))["error"]["code"], -32601);
    let (code, report) = client.end();
    assert_eq!(code, Some(1));
    assert!(report.contains("6 requests: 2 exact, 0 loose, 1 in order, 2 unknown; 0 of 3"), "{report}");
    let mut client = played(&scene, &["--match", "loose"]);
    assert_eq!(client.call("echo", json!({"text": "c"}))["error"]["data"]["closest"]["number"], 4);
    assert!(client.end().1.contains("unused #6 tools/call echo"));
}

#[test]
fn http_is_held_to_its_rules() {
    let Some(scene) = scene() else { return };
    let mut mock = scene.mcptap();
    mock.args(["mock", "1", "--allow-host", "mock.test"]);
    let listening = Listening::start(mock);
    let json = "Content-Type: application/json\r\n";
    let here = "Host: localhost\r\n";
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let status = |fields: &str, body: &str| listening.post(&format!("{fields}{json}"), body).0;
    let (opened, response) = listening.post(&format!("{here}{json}Origin: http://localhost:6274\r\n"), initialize);
    let id = response.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: ")).expect("a session").to_owned();
    let session = format!("Mcp-Session-Id: {id}\r\n");
    assert_eq!(opened, 200);
    assert_eq!(status(&format!("{here}{session}"), ping), 200);
    assert_eq!(status(&format!("Host: mock.test:1\r\n{session}"), ping), 200);
    assert_eq!(status("Host: evil.example\r\n", initialize), 421);
    assert_eq!(status(&format!("{here}Origin: http://evil.example\r\n"), initialize), 403);
    assert_eq!(status(&format!("{here}Origin: null\r\n"), initialize), 403);
    assert_eq!(status("", initialize), 400, "no Host");
    assert_eq!(status(here, ping), 400, "no session");
    assert_eq!(status(&format!("{here}Mcp-Session-Id: other\r\n"), ping), 404);
    assert_eq!(status(&format!("{here}{session}MCP-Protocol-Version: tomorrow\r\n"), ping), 400);
    assert_eq!(status(&format!("{here}{session}Accept: text/html\r\n"), ping), 406);
    assert_eq!(status(&format!("{here}{session}"), r#"{"method":"notifications/x"}"#), 202);
    for (body, code) in [("{", -32700), ("7", -32600), ("[]", -32600)] {
        let (status, response) = listening.post(&format!("{here}{session}{json}"), body);
        assert!(status == 400 && response.contains(&code.to_string()), "{response}");
    }
    assert_eq!(listening.post(here, ping).0, 415);
    assert_eq!(listening.raw("nonsense\r\n\r\n").0, 400);
    let raw = |line: &str| listening.raw(&format!("{line} HTTP/1.1\r\nConnection: close\r\n{here}{session}\r\n")).0;
    assert_eq!(raw("PUT /mcp"), 405);
    assert_eq!(raw("GET /.well-known/oauth-protected-resource"), 404);
    assert_eq!(raw("DELETE /mcp"), 200);
    assert_eq!(raw("DELETE /mcp"), 404);
    assert_eq!(status(&format!("{here}{session}"), ping), 404, "it is over");
}

#[test]
fn local_pages_may_read_responses_and_others_may_not() {
    let Some(scene) = scene() else { return };
    let mut mock = scene.mcptap();
    mock.args(["mock", "1"]);
    let listening = Listening::start(mock);
    let raw = |line: &str, fields: &str| {
        listening.raw(&format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n"))
    };
    let asks = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type, mcp-param-x\r\n";
    let page = "Origin: http://localhost:6274\r\n";
    let (status, response) = raw("OPTIONS /mcp", &format!("{page}{asks}"));
    insta::assert_snapshot!(response.replace('\r', "").trim_end(), @r"
    HTTP/1.1 204 No Content
    Connection: close
    Access-Control-Allow-Origin: http://localhost:6274
    Vary: Origin
    Access-Control-Allow-Headers: content-type, mcp-param-x
    Access-Control-Allow-Methods: GET, POST, DELETE
    ");
    assert_eq!(status, 204);
    let readable = |response: &str| {
        response.contains("Access-Control-Allow-Origin: http://localhost:6274\r\n")
            && response.contains("Access-Control-Expose-Headers: Mcp-Session-Id\r\n")
    };
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let here = "Host: localhost\r\nContent-Type: application/json\r\n";
    let (status, response) = listening.post(&format!("{here}{page}"), initialize);
    assert!(status == 200 && readable(&response), "{response}");
    // An event stream, and a refusal whose reason the page may read.
    let (status, response) = raw("GET /mcp", &format!("{page}Accept: text/event-stream\r\n"));
    assert!(status == 405 && readable(&response), "{response}");
    let evil = "Origin: http://evil.example\r\n";
    for (status, response) in
        [raw("OPTIONS /mcp", &format!("{evil}{asks}")), listening.post(&format!("{here}{evil}"), initialize)]
    {
        assert!(status == 403 && !response.contains("Access-Control"), "{response}");
    }
    // The request is no preflight of a page.
    assert_eq!(raw("OPTIONS /mcp", "").0, 405);
    // A refusal of HEAD has no content.
    let (status, response) = raw("HEAD /mcp", evil);
    assert!(status == 403 && response.trim_end().lines().last().is_some_and(|line| line.contains(':')), "{response}");
    assert!(!listening.post(here, initialize).1.contains("Access-Control"));
}

#[test]
fn a_client_of_2026_07_28_needs_neither_handshake_nor_session() {
    let Some(scene) = scene() else { return };
    let mut mock = scene.mcptap();
    mock.args(["mock", "1"]);
    let listening = Listening::start(mock);
    let version = "2026-07-28";
    let fields = format!("Host: localhost\r\nContent-Type: application/json\r\nMCP-Protocol-Version: {version}\r\n");
    let ask = |method: &str, mut params: Value| {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, response) = listening.post(&fields, &request.to_string());
        let body = response.split("\r\n\r\n").nth(1).unwrap_or_default();
        assert!(!response.contains("Mcp-Session-Id"), "{response}");
        (status, serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{error}: {response}")))
    };
    let (status, discovered) = ask("server/discover", json!({}));
    assert_eq!((status, &discovered["result"]["supportedVersions"]), (200, &json!([version])));
    let (_, answer) = ask("tools/call", json!({"name": "echo", "arguments": {"text": "hello"}}));
    assert_eq!(
        (&answer["result"]["content"][0]["text"], &answer["result"]["resultType"]),
        (&json!("hello"), &json!("complete"))
    );
    let question = json!({"name": "ask", "arguments": {"question": "which colour?"}});
    let (_, asked) = ask("tools/call", question.clone());
    let requests = asked["result"]["inputRequests"].as_object().expect("questions");
    let (key, request) = requests.iter().next().expect("a question");
    assert_eq!(request["method"], "elicitation/create");
    let mut input = question;
    input["requestState"] = asked["result"]["requestState"].clone();
    input["inputResponses"] = json!({key: {"action": "accept", "content": {"answer": "blue"}}});
    let (_, answer) = ask("tools/call", input);
    assert!(answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("blue")), "{answer}");
    assert_eq!(ask("ping", json!({})).0, 200, "nobody needs it, and whoever asks is answered");
    assert_eq!(ask("x/y", json!({})).0, 404);
}

#[test]
fn a_stream_is_taken_up_behind_the_event_that_was_read_last() {
    let Some(scene) = scene() else { return };
    let mut mock = scene.mcptap();
    mock.args(["mock", "1"]);
    let listening = Listening::start(mock);
    let here = "Host: localhost\r\nContent-Type: application/json\r\n";
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
    let (_, response) = listening.post(here, initialize);
    let id = response.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: ")).expect("a session").to_owned();
    let session = format!("{here}Mcp-Session-Id: {id}\r\n");
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{},"_meta":{"progressToken":1}}}"#;
    let (_, whole) = listening.post(&session, call);
    let events = |stream: &str| -> Vec<(String, String)> {
        let event = |event: &str| {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            Some((field("id: ")?, field("data: ")?))
        };
        stream.split("\n\n").filter_map(event).collect()
    };
    let told = events(&whole);
    assert!(told.len() > 2 && told.last().is_some_and(|(_, data)| data.contains("result")), "{whole}");
    let again = |last: &str| {
        listening.raw(&format!(
            "GET /mcp HTTP/1.1\r\nConnection: close\r\n{session}Accept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n"
        ))
    };
    for (at, (last, _)) in told.iter().enumerate() {
        let (status, response) = again(last);
        assert_eq!((status, events(&response)), (200, told[at + 1..].to_vec()), "behind {last}");
    }
}

#[test]
fn a_redirected_request_is_answered_as_its_copy_was() {
    let mut mock = mcptap();
    let sample = root().join("samples/hosted-redirect");
    let [capture, keys] = ["capture.pcapng", "keys.log"].map(|file| sample.join(file).display().to_string());
    let recording = [capture.as_str(), "--keylog", &keys];
    let mut replay = mcptap();
    replay
        .arg("replay")
        .args(recording)
        .args(["--no-save", "--", env!("CARGO_BIN_EXE_mcptap"), "mock"])
        .args(recording);
    let done = replay.finished();
    assert!(stdout(&done).ends_with("3 requests: 3 same\n"), "it is said once: {}", stdout(&done));
    mock.arg("mock").args(recording);
    mock.stderr(Stdio::piped());
    let mut client = Client::start(mock);
    let params = json!({"protocolVersion": "2024-09", "clientInfo": {"name": "x", "version": "1"}, "capabilities": {}});
    assert_eq!(client.request("initialize", params)["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(client.end().0, Some(0));
}

#[test]
fn an_unplayable_recording_is_exit_status_2() {
    let Some(scene) = scene() else { return };
    for arguments in [&["mock", "7"][..], &["mock", "1", "--listen", "256.0.0.1:1"], &["mock", "1", "--match", "x"]] {
        assert_eq!(scene.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}
