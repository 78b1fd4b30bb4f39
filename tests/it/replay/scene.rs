//! A database of recordings, and the server that they are recorded from (`server.py`).

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use mcptap::replay::AnalyzedRecording;
use mcptap::store::{DatabaseFile, StoreReader};
use mcptap_core::internal::mcp::SessionNumber;
use serde_json::{Value, json};

use crate::program::{mcptap, root};
use crate::support::needs::{self, have_program};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, finished, until_some};

/// The command line of the server.
pub fn server(arguments: &[&str]) -> Vec<String> {
    let recording = root().join("tests/it/replay/server.py").display().to_string();
    ["python3".to_owned(), recording]
        .into_iter()
        .chain(arguments.iter().map(|argument| (*argument).to_owned()))
        .collect()
}

/// A folder with a database. It is removed when this is dropped.
pub struct Scene {
    folder: tempfile::TempDir,
}

impl Scene {
    /// `None` if Python is missing.
    pub fn new() -> Option<Scene> {
        have_program(&needs::PYTHON).then(|| Scene { folder: tempfile::tempdir().expect("a temporary folder") })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with the database of this scene.
    pub fn mcptap(&self) -> Command {
        let mut command = mcptap();
        command.arg("--db").arg(self.path("mcptap.db"));
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.mcptap().args(arguments).finished()
    }

    /// Replays session 1 to a command.
    pub fn replay(&self, options: &[&str], server_options: &[&str]) -> Output {
        let mut replay = self.mcptap();
        replay.args(["replay", "1"]).args(options).arg("--").args(server(server_options));
        replay.finished()
    }

    /// Replays session 1 to a URL.
    pub fn replay_to(&self, url: &str, options: &[&str]) -> Output {
        self.run(&[&["replay", "1", "--to", url], options].concat())
    }

    /// Session 1 as the library reads it.
    pub fn recording(&self) -> AnalyzedRecording {
        let reader = StoreReader::open(DatabaseFile::file(self.path("mcptap.db"))).expect("a database");
        let session = reader.session(SessionNumber(1)).expect("it can be read").expect("session 1");
        AnalyzedRecording::read(&reader, session).expect("it can be read")
    }

    /// Records a conversation over STDIO.
    pub fn record(&self, server_options: &[&str], talk: impl FnOnce(&mut Client)) {
        let mut wrap = self.mcptap();
        wrap.args(["wrap", "--"]).args(server(server_options));
        let mut client = Client::start(wrap);
        client.open();
        talk(&mut client);
        client.end();
    }
}

/// The server over HTTP. It ends when this is dropped.
pub struct Served {
    child: Child,
    port: String,
}

impl Served {
    /// Starts the server and waits until it listens.
    pub fn start(scene: &Scene, options: &[&str]) -> Served {
        let file = tempfile::Builder::new().tempdir_in(scene.folder.path()).expect("a folder").keep().join("port");
        let name = file.display().to_string();
        let command = server(&[&["--http", &name], options].concat());
        let mut child =
            Command::new(&command[0]).args(&command[1..]).stderr(Stdio::null()).spawn().expect("python3 runs");
        let port = until_some("a server to listen", || {
            assert!(child.try_wait().expect("a child").is_none(), "the server ended");
            std::fs::read_to_string(&file).ok()
        });
        Served { child, port }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.killed();
    }
}

/// A client over STDIO.
pub struct Client {
    child: Child,
    stdin: Option<Patient<ChildStdin>>,
    stdout: BufReader<Patient<ChildStdout>>,
    next: u64,
}

impl Client {
    /// Starts a server and connects to it.
    pub fn start(mut server: Command) -> Client {
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("mcptap runs");
        let stdin = Patient::new(child.stdin.take().expect("a pipe"), "a server to read");
        let stdout = Patient::new(child.stdout.take().expect("a pipe"), "a server to answer");
        let stdout = BufReader::new(stdout);
        Client { child, stdin: Some(stdin), stdout, next: 0 }
    }

    /// Sends the handshake. Returns the response to `initialize`.
    pub fn open(&mut self) -> Value {
        let opened = self.request(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}},
                   "clientInfo": {"name": "bench", "version": "1"}}),
        );
        self.notify("notifications/initialized");
        opened
    }

    /// The next message of the server.
    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).expect("the server writes") > 0, "the server ended");
        serde_json::from_str(&line).expect("a message")
    }

    /// Closes the server's input and waits for its end. Returns its exit status, and its standard
    /// error if that is a pipe.
    pub fn end(mut self) -> (Option<i32>, String) {
        self.stdin = None;
        let done = finished(self.child, "a server");
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    }

    pub fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("still open");
        writeln!(stdin, "{message}").expect("the server reads");
    }

    pub fn notify(&mut self, method: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": method}));
    }

    /// Sends a request and returns its response. A request of the server that arrives
    /// before is answered.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.next();
            if message.get("method").is_some() && message.get("id").is_some() {
                let result = json!({"action": "accept", "content": {"answer": "blue"}});
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
            } else if message["id"] == id {
                return message;
            }
        }
    }

    /// Calls a tool.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }
}

/// A conversation with pages, resources, progress, an elicitation, values that the client sends
/// back, and failures.
pub fn everything(client: &mut Client) {
    let page = client.request("tools/list", json!({}));
    client.request("tools/list", json!({"cursor": page["result"]["nextCursor"]}));
    client.call("echo", json!({"text": "hello"}));
    client.call("add", json!({"a": 2, "b": 3}));
    client.call("now", json!({}));
    client.request("tools/call", json!({"name": "count", "arguments": {}, "_meta": {"progressToken": "p-1"}}));
    client.call("ask", json!({"question": "which colour?"}));
    let ticket =
        client.call("open_ticket", json!({"title": "printer"}))["result"]["structuredContent"]["ticket"].clone();
    client.call("close_ticket", json!({"ticket": ticket}));
    let list = client.request("resources/list", json!({}));
    client.request("resources/read", json!({"uri": list["result"]["resources"][0]["uri"]}));
    client.request("tools/nonsense", json!({}));
}

/// The standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text is UTF-8")
}

/// The JSON report of a comparison.
pub fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(output), String::from_utf8_lossy(&output.stderr)))
}

/// Label and outcome of the calls that differ.
pub fn differing(report: &Value) -> Vec<String> {
    let requests = report["requests"].as_array().expect("requests");
    let is_other = |request: &&Value| request["outcome"] != "same";
    let words = |request: &Value| {
        let subject = request.get("subject").and_then(Value::as_str).map(|subject| format!(" {subject}"));
        let (method, outcome) = (request["method"].as_str().unwrap_or_default(), request["outcome"].as_str());
        format!("{method}{}: {}", subject.unwrap_or_default(), outcome.unwrap_or_default())
    };
    requests.iter().filter(is_other).map(words).collect()
}
