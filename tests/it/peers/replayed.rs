//! Replays of recordings of the official servers.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;
use crate::program::mcptap;
use crate::replay::scene::{differing, report, stdout};
use crate::support::waits::Finishes;

/// A server, its calls, and three of its tools: one with a changed response, one that is removed,
/// one that is slow.
struct Case {
    sdk: Sdk,
    server: Vec<String>,
    calls: Value,
    altered: [&'static str; 3],
}

/// The servers, with their files in `folder`.
fn cases(peers: &Peers, folder: &Path) -> Vec<Case> {
    let folder = folder.canonicalize().expect("it is there").display().to_string();
    let python = vec![peers.python(), Peers::script("server.py"), "stdio".to_owned()];
    let everything = vec![peers.node(), peers.package("server-everything"), "stdio".to_owned()];
    let filesystem = vec![peers.node(), peers.package("server-filesystem"), folder.clone()];
    let memory_file = format!("MEMORY_FILE_PATH={folder}/memory.jsonl");
    let memory = vec!["env".to_owned(), memory_file, peers.node(), peers.package("server-memory")];
    let files = json!([
        ["list_allowed_directories", {}],
        ["write_file", { "path": format!("{folder}/a.txt"), "content": "one\r\ntwo\n" }],
        ["read_text_file", { "path": format!("{folder}/a.txt") }],
        // Its time of writing is different each time.
        ["get_file_info", { "path": format!("{folder}/a.txt") }],
        ["list_directory", { "path": folder }],
        ["read_text_file", { "path": "/etc/hostname" }],
    ]);
    let graph = json!([
        ["create_entities", { "entities": [{ "name": "Ada", "entityType": "person", "observations": ["counts"] }] }],
        ["create_relations", { "relations": [{ "from": "Ada", "to": "Ada", "relationType": "knows" }] }],
        ["read_graph", {}],
        ["search_nodes", { "query": "Ada" }],
        ["delete_entities", { "entityNames": ["Ada"] }],
    ]);
    let case = |sdk, server: &Vec<String>, calls, altered| Case { sdk, server: server.clone(), calls, altered };
    vec![
        // The first server speaks 2026-07-28, with this client only.
        case(Sdk::Python, &python, calls(), ["echo", "repeat", "work"]),
        case(Sdk::TypeScript, &python, calls(), ["echo", "repeat", "work"]),
        case(Sdk::Python, &everything, everything_calls(), ["echo", "get-sum", "get-structured-content"]),
        case(Sdk::TypeScript, &filesystem, files, ["list_allowed_directories", "list_directory", "read_text_file"]),
        case(Sdk::TypeScript, &memory, graph, ["read_graph", "search_nodes", "create_entities"]),
    ]
}

/// A database with the recording of a conversation over STDIO as session 1.
struct Recording {
    folder: tempfile::TempDir,
    db: PathBuf,
}

impl Recording {
    fn new(peers: &Peers, sdk: Sdk, calls: &Value, server: &[String]) -> Recording {
        let (folder, db) = temporary_database();
        let words = ["--db", db.to_str().expect("UTF-8"), "wrap", "--"].map(str::to_owned);
        let wrap = [&["--".to_owned()], &program_words()[..], &words, server].concat();
        peers.client(sdk, calls, &wrap);
        Recording { folder, db }
    }

    fn replay(&self, session: &str, options: &[&str], to: &[&str]) -> Output {
        let mut replay = mcptap();
        replay.arg("--db").arg(&self.db).args(["replay", session, "--allow-destructive"]);
        replay.args(options).args(to).finished()
    }

    fn assert_same(&self, what: &str, session: &str, options: &[&str], to: &[&str]) {
        let done = self.replay(session, options, to);
        let (said, errors) = (stdout(&done), String::from_utf8_lossy(&done.stderr).into_owned());
        assert!(done.status.code() == Some(0) && said.contains(" same\n"), "{what}: {said}{errors}");
    }
}

/// A command after `--`.
fn behind(command: &[String]) -> Vec<&str> {
    ["--"].into_iter().chain(command.iter().map(String::as_str)).collect()
}

#[test]
fn unchanged_servers_answer_the_same_and_changes_are_reported() {
    let Some(peers) = peers() else { return };
    for at in 0..5 {
        let (folder, _) = temporary_database();
        let Case { sdk, server, calls, altered } = cases(&peers, folder.path()).swap_remove(at);
        let what = format!("{sdk:?} client, {}", server.join(" "));
        let recording = Recording::new(&peers, sdk, &calls, &server);
        recording.assert_same(&what, "1", &["--calibrate"], &behind(&server));
        let [changed, dropped, slowed] = altered;
        let script = [&[peers.python(), Peers::script("altered.py")][..], &altered.map(str::to_owned)].concat();
        let done = recording.replay("1", &["--calibrate", "--format=json"], &behind(&[script, server].concat()));
        let report = report(&done);
        let expected = [
            "tools/list: different".to_owned(),
            format!("tools/call {changed}: different"),
            format!("tools/call {dropped}: error"),
        ];
        let mut found = differing(&report);
        found.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(found, expected, "{what}: {report}");
        let requests = report["requests"].as_array().expect("requests");
        let differences = |request: &Value| {
            let paths = request["differences"].as_array().into_iter().flatten();
            paths.map(|found| found["path"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        for request in requests {
            match (request["method"].as_str(), request["subject"].as_str()) {
                (Some("tools/list"), _) => assert_eq!(differences(request).len(), 1, "{what}: {request}"),
                (_, Some(tool)) if tool == changed => assert_eq!(differences(request), ["/content/0/text"], "{what}"),
                _ => assert!(differences(request).is_empty(), "{what}: {request}"),
            }
        }
        let numbers = report["slower"].as_array().into_iter().flatten().map(|slower| &slower["number"]);
        let tool = |number: &Value| {
            requests.iter().find(|request| request["old"]["number"] == *number).map(|found| &found["subject"])
        };
        // On a busy machine other calls may be slow too.
        let slower: Vec<&Value> = numbers.filter_map(tool).collect();
        assert!(slower.contains(&&Value::from(slowed)), "{what}: {slower:?}");
        drop(recording.folder);
    }
}

#[test]
fn recordings_of_one_transport_replayed_over_the_others() {
    let Some(peers) = peers() else { return };
    let python = [peers.python(), Peers::script("server.py"), "stdio".to_owned()];
    let everything = [peers.node(), peers.package("server-everything"), "stdio".to_owned()];
    for (stdio, sdk, pair) in [(python, Sdk::TypeScript, [0, 1]), (everything, Sdk::Python, [2, 3])] {
        let ports = [free_port(), free_port()];
        let of = |index: usize| http_servers(&peers, "127.0.0.1", ports[index])[pair[index]].clone();
        let servers = [of(0), of(1)];
        let recording = Recording::new(&peers, sdk, &servers[0].2, &stdio);
        let serving: Vec<Serving> = [0, 1].map(|at| Serving::start(command(&servers[at].0), ports[at])).into();
        let urls = [0, 1].map(|at| format!("http://127.0.0.1:{}{}", ports[at], servers[at].1));
        // Sessions 2 and 3, of Streamable HTTP and HTTP+SSE, are recorded here.
        for url in &urls {
            recording.assert_same(&format!("stdio to {url}"), "1", &[], &["--to", url]);
        }
        let sessions = mcptap().arg("--db").arg(&recording.db).args(["sessions", "--json"]).finished();
        let sessions = stdout(&sessions);
        let of = |transport: &str| {
            let sessions = sessions.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            let mut found =
                sessions.filter(|session| session["transport"] == transport && session["messages"].as_u64() > Some(2));
            found.next_back().expect("a session")["number"].to_string()
        };
        for (transport, other) in [("streamable-http", &urls[1]), ("http-sse", &urls[0])] {
            let session = of(transport);
            recording.assert_same(
                &format!("{transport} to stdio, {}", stdio.join(" ")),
                &session,
                &[],
                &behind(&stdio),
            );
            recording.assert_same(&format!("{transport} to {other}"), &session, &[], &["--to", other]);
        }
        drop(serving);
    }
}
