//! `mcptap replay` against servers that answer.

use serde_json::{Value, json};

use super::scene::{Client, Scene, Served, differing, everything, report, stdout};

use crate::support::waits::Finishes;

const JSON: &str = "--format=json";
/// The only response that differs each time. All other values that the server
/// invents are translated.
const NOW: &str = "--ignore=now:/**";

#[test]
fn the_same_server_answers_the_same_and_the_replay_is_a_recording() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let done = scene.replay(&[], &[]);
    assert_eq!(done.status.code(), Some(1), "the time is another one");
    assert!(stdout(&done).contains("/structuredContent/at"), "{}", stdout(&done));
    let done = scene.replay(&["--calibrate"], &[]);
    assert_eq!(done.status.code(), Some(0), "{}", stdout(&done));
    assert!(stdout(&done).contains("now:/content/0/text  (1 word of the text)"), "{}", stdout(&done));
    assert!(stdout(&done).ends_with("13 requests: 13 same\n"), "{}", stdout(&done));
    // The two compared replays are sessions 2 and 3, and are normal sessions.
    let shown = stdout(&scene.run(&["show", "3"]));
    assert!(shown.contains("close_ticket"), "{shown}");
    let again =
        scene.run(&["diff", "2", "3", NOW, "--ignore=open_ticket:/**", "--ignore=/nextCursor", "--ignore=/**/uri"]);
    assert_eq!(again.status.code(), Some(0), "{}", stdout(&again));
}

#[test]
fn a_changed_answer_a_missing_tool_and_a_slower_call_are_reported_and_no_more() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        for word in ["a", "b"] {
            client.call("echo", json!({"text": word}));
        }
        client.call("add", json!({"a": 1, "b": 2}));
        client.call("count", json!({}));
    });
    let done = scene.replay(&[JSON, "--all"], &["--change", "echo", "--drop", "add", "--slow", "count"]);
    let report = report(&done);
    assert_eq!(
        differing(&report),
        ["tools/call echo: different", "tools/call echo: different", "tools/call add: error"]
    );
    let slower: Vec<&Value> = report["slower"].as_array().unwrap().iter().map(|slower| &slower["number"]).collect();
    assert_eq!(slower.len(), 1, "{report}");
    assert_eq!(done.status.code(), Some(1));
}

#[test]
fn across_transports_and_back() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let served = Served::start(&scene, &[]);
    for path in ["/mcp", "/sse"] {
        let done = scene.replay_to(&served.url(path), &[NOW]);
        assert_eq!(done.status.code(), Some(0), "{path}: {}{}", stdout(&done), String::from_utf8_lossy(&done.stderr));
    }
    // Sessions 2 and 3 are those two. They are replayed over STDIO and over the transport of each
    // other.
    for (session, transport) in [("2", "streamable-http"), ("3", "http-sse")] {
        let sessions = stdout(&scene.run(&["sessions", "--json"]));
        let line = sessions.lines().find(|line| line.contains(&format!("\"number\":{session},"))).expect("the session");
        assert!(line.contains(transport), "{line}");
        let mut replay = scene.mcptap();
        replay.args(["replay", session, NOW, "--"]).args(super::scene::server(&[]));
        let done = replay.finished();
        assert_eq!(done.status.code(), Some(0), "{session}: {}", stdout(&done));
    }
    let done = scene.run(&["replay", "2", "--to", &served.url("/sse"), NOW]);
    assert_eq!(done.status.code(), Some(0), "{}", stdout(&done));
}

#[test]
fn failed_attempts_before_http_sse_leave_no_session() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| drop(client.call("echo", json!({"text": "a"}))));
    let served = Served::start(&scene, &[]);
    let done = scene.replay_to(&served.url("/stream"), &[]);
    assert_eq!(done.status.code(), Some(0), "{}{}", stdout(&done), String::from_utf8_lossy(&done.stderr));
    let sessions = stdout(&scene.run(&["sessions", "--json"]));
    let transports = sessions.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let transports: Vec<Value> = transports.map(|session| session["transport"].clone()).collect();
    assert_eq!(transports, ["stdio", "http-sse"], "{sessions}");
}

#[test]
fn a_stream_that_breaks_is_taken_up_again() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| drop(client.call("echo", json!({"text": "a"}))));
    let served = Served::start(&scene, &["--cut"]);
    let done = scene.replay_to(&served.url("/mcp"), &[]);
    assert_eq!(done.status.code(), Some(0), "{}", stdout(&done));
}

#[test]
fn destructive_calls_are_not_sent_unless_allowed() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        client.request("tools/list", json!({"cursor": null}));
        client.request("tools/list", json!({}));
        client.call("wipe", json!({}));
    });
    let wipe = |options: &[&str]| {
        let report = report(&scene.replay(&[options, &[JSON]].concat(), &[]));
        differing(&report)
    };
    // Only the second page of tools names this tool. That page was not requested, so the effect of
    // the tool is unknown.
    assert_eq!(wipe(&["--ignore=/nextCursor"]), [""; 0]);
    assert_eq!(wipe(&["--ignore=/nextCursor", "--safe"]), ["tools/call wipe: skipped"]);
    assert_eq!(wipe(&["--ignore=/nextCursor", "--safe", "--allow", "wipe"]), [""; 0]);
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], |client| {
        everything(client);
        client.call("wipe", json!({}));
    });
    let done = scene.replay(&[NOW], &[]);
    assert!(stdout(&done).contains("use --allow wipe to send it"), "{}", stdout(&done));
    assert_eq!(done.status.code(), Some(0));
}

#[test]
fn a_dry_run_shows_the_plan_and_sends_nothing() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let done = scene.replay(&["--dry-run"], &["--die-at", "1"]);
    assert_eq!(done.status.code(), Some(0));
    let plan = stdout(&done);
    assert!(plan.contains("tools/call close_ticket  after #23  /arguments/ticket from the answer to #23"), "{plan}");
    assert!(plan.contains("elicitation/create of the server is answered with #21"), "{plan}");
    assert_eq!(stdout(&scene.run(&["sessions", "--json"])).lines().count(), 1, "nothing new was recorded");
}

#[test]
fn only_some_of_it() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let done = scene.replay(&["--only", "tool = echo", JSON], &[]);
    let report = report(&done);
    assert_eq!(report["counts"], json!({"same": 2, "skipped": 11}), "the handshake and the one call");
}

#[test]
fn many_at_once_with_a_table_of_latencies() {
    let Some(scene) = Scene::new() else { return };
    scene.record(&[], everything);
    let done = scene.replay(&["--parallel=3", "--repeat=2", NOW, JSON], &[]);
    let report = report(&done);
    assert_eq!(done.status.code(), Some(0), "{report}");
    assert_eq!(report["latencies"]["tools/call echo"]["calls"], 6);
    let saved = "of 6 replays 1 saved as session 2: the first one, and each one with a new difference";
    assert_eq!(report["notes"], json!([saved]));
    let text = stdout(&scene.replay(&["--repeat=2"], &[]));
    assert!(text.contains("\n2 replays\n"), "{text}");
    assert!(text.contains("of 2 replays 1 saved as session 3:"), "{text}");
    assert_eq!([3, 4].map(|session| scene.run(&["show", &session.to_string()]).status.code()), [Some(0), Some(2)]);
}

#[test]
fn a_call_that_was_asked_back_is_made_once_where_the_server_asks_by_itself() {
    let Some(scene) = Scene::new() else { return };
    // A server of 2026-07-28 in two lines.
    let question =
        json!({"method": "elicitation/create", "params": {"message": "which colour?", "requestedSchema": {}}});
    let asks = json!({"resultType": "input_required", "requestState": "s-1", "inputRequests": {"k": question}});
    let reply = json!({"action": "accept", "content": {"answer": "blue"}});
    let text = r#"{"action": "accept", "content": {"answer": "blue"}}"#;
    let done = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
    let answer = |id: u64, result: &Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let mut wrap = scene.mcptap();
    wrap.args(["wrap", "--", "sh", "-c", r#"read -r l; printf '%s\n' "$1"; read -r l; printf '%s\n' "$2""#, "sh"]);
    wrap.args([answer(1, &asks), answer(2, &done)]);
    let mut client = Client::start(wrap);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
    let mut params = json!({"name": "ask", "arguments": {"question": "which colour?"}, "_meta": meta});
    client.request("tools/call", params.clone());
    params["requestState"] = json!("s-1");
    params["inputResponses"] = json!({"k": reply});
    client.request("tools/call", params);
    client.end();
    let done = scene.replay(&[JSON], &[]);
    let report = report(&done);
    assert_eq!(report["counts"], json!({"same": 1, "skipped": 1}), "{report}");
    assert_eq!(done.status.code(), Some(0));
    let why = report["requests"][1]["why"].as_str().unwrap_or_default();
    assert!(why.starts_with("up to 2025-11-25 the server sends its own request for input"), "{why}");
}

#[test]
fn identifiers_of_the_server_are_renewed_where_they_are_joined_to_other_characters() {
    let Some(scene) = Scene::new() else { return };
    let mut old = Vec::new();
    scene.record(&[], |client| {
        let opened = client.call("open_ticket", json!({"title": "printer"}));
        let ticket = opened["result"]["structuredContent"]["ticket"].as_str().unwrap().to_owned();
        let list = client.request("resources/list", json!({}));
        let note = list["result"]["resources"][0]["uri"].as_str().unwrap().split('/').nth(2).unwrap().to_owned();
        let nested = json!({"id": ticket, "note": note}).to_string();
        for text in [
            format!("x={ticket}"),
            format!("res://box/{ticket}"),
            format!("{ticket}/f"),
            format!("/v1/{ticket}?note={note}#{note}"),
            nested,
        ] {
            client.call("echo", json!({"text": text}));
        }
        client.call("close_ticket", json!({"ticket": ticket}));
        old.extend([ticket, note]);
    });
    let done = scene.replay(&[JSON], &[]);
    let report = report(&done);
    assert_eq!(differing(&report), [""; 0], "{report}");
    let sent = stdout(&scene.run(&["show", "2", "--json"]));
    assert!(sent.contains("res://box/T-") && old.iter().all(|old| !sent.contains(&**old)), "{old:?} in {sent}");
    let replaced = report["replaced"].as_array().unwrap();
    assert_eq!(replaced.iter().map(|value| value["old"].as_str().unwrap()).collect::<Vec<_>>(), old);
    for value in replaced {
        assert!(sent.contains(value["new"].as_str().unwrap()), "{value}");
    }
    let paths = |value: &Value| {
        let uses = value["uses"].as_array().unwrap().iter();
        uses.map(|used| used["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&replaced[0])[4..], ["/arguments/text", "/arguments/ticket"]);
    let text = stdout(&scene.replay(&[], &[]));
    assert!(text.contains(&format!("  {} → T-", old[0])), "{text}");
}
