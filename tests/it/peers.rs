//! The official servers and clients through `wrap` and `sniff`.
//!
//! `tests/peers/setup.sh` installs them, and the variable `MCPTAP_PEERS` names the folder. Without
//! it, or if it has other versions than those pinned now, these tests are counted as not run.

mod authorized;
mod bridged;
mod proxied;
mod replayed;
#[cfg(all(feature = "attach", feature = "live"))]
mod started;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::program::{program_words, root};
use crate::support::needs::{self, have};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd};
use crate::wrapped::{of_type, recorded, temporary_database, texts};

/// The folder of the official peers.
pub struct Peers(pub PathBuf);

pub fn peers() -> Option<Peers> {
    let folder = std::env::var_os("MCPTAP_PEERS");
    if !have(&needs::PEERS, folder.is_some()) {
        return None;
    }
    // A relative path starts in the project's root, in which the tests run.
    let peers = Peers(root().join(folder?));
    let installed = fs::read_to_string(peers.0.join("installed"));
    let installed = installed.unwrap_or_else(|_| panic!("{} was not filled by setup.sh", peers.0.display()));
    have(&needs::PINNED_PEERS, installed.starts_with(&pinned())).then_some(peers)
}

/// The digest of the pinned versions, as `tests/peers/setup.sh` makes it.
fn pinned() -> String {
    let file = |name| fs::read(root().join("tests/peers").join(name)).expect("a list of versions");
    let versions = [file("requirements.txt"), file("package-lock.json")].concat();
    let digest = ring::digest::digest(&ring::digest::SHA256, &versions);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Clone, Copy, Debug)]
enum Sdk {
    Python,
    TypeScript,
}

const BOTH: [Sdk; 2] = [Sdk::Python, Sdk::TypeScript];

/// Calls of the server made with the Python SDK: text in many scripts, an error, progress, a
/// quarter of a megabyte, an unknown tool.
fn calls() -> Value {
    json!([
        ["echo", { "text": "¡Hola! 你好 🙂 \u{2028} \\ \" \r\n" }],
        ["work", { "steps": 3 }],
        ["fail", { "why": "as asked" }],
        ["repeat", { "text": "0123456789abcdef", "times": 16384 }],
        ["nowhere", {}],
    ])
}

/// Calls of server-everything: structured content, an image, progress, and a request of the server
/// to the client.
fn everything_calls() -> Value {
    json!([
        ["echo", { "message": "hello" }],
        ["get-sum", { "a": 1, "b": 2 }],
        ["get-tiny-image", {}],
        ["get-structured-content", { "location": "Chicago" }],
        ["trigger-long-running-operation", { "duration": 0.05, "steps": 3 }],
        ["trigger-sampling-request", { "prompt": "say", "maxTokens": 10 }],
        ["nowhere", {}],
    ])
}

impl Peers {
    pub fn python(&self) -> String {
        self.0.join("python/bin/python").display().to_string()
    }

    pub fn node(&self) -> String {
        self.0.join("node").display().to_string()
    }

    pub fn script(name: &str) -> String {
        root().join("tests/peers").join(name).display().to_string()
    }

    /// The path of `uv`.
    #[cfg(feature = "attach")]
    pub fn uv(&self) -> String {
        self.0.join("python/bin/uv").display().to_string()
    }

    /// The path of `bun`.
    #[cfg(feature = "attach")]
    pub fn bun(&self) -> String {
        self.0.join("node_modules/@oven/bun-linux-x64/bin/bun").display().to_string()
    }

    /// The words that start an installed package by `npx`, without the network.
    #[cfg(feature = "attach")]
    pub fn npx(&self, package: &str) -> Vec<String> {
        let [npx, folder] = [self.0.join("python/bin/npx"), self.0.clone()].map(|path| path.display().to_string());
        vec![npx, "--offline".into(), "--prefix".into(), folder, package.into(), "stdio".into()]
    }

    pub fn package(&self, name: &str) -> String {
        self.0.join("node_modules/@modelcontextprotocol").join(name).join("dist/index.js").display().to_string()
    }

    /// Runs a client of this SDK to its end, with its calls and the command after `--` or the URL
    /// of a server.
    fn client(&self, sdk: Sdk, calls: &Value, place: &[String]) -> Transcript {
        let mut client = match sdk {
            Sdk::Python => Command::new(self.python()),
            Sdk::TypeScript => Command::new(self.node()),
        };
        let script = match sdk {
            Sdk::Python => "client.py",
            Sdk::TypeScript => "client.mjs",
        };
        client.arg(Self::script(script)).arg(calls.to_string()).args(place).env("MCPTAP_PEERS", &self.0);
        let Output { status, stdout, stderr } = client.finished();
        assert!(status.success(), "{sdk:?} {place:?}: {}", String::from_utf8_lossy(&stderr));
        let lines = String::from_utf8(stdout).expect("JSON is UTF-8");
        Transcript(lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect())
    }
}

/// The messages that a client sent and received, as its SDK logged them.
#[derive(Debug, PartialEq)]
struct Transcript(Vec<Value>);

impl Transcript {
    /// The messages sent or received, one a line, sorted by their text: responses and notifications
    /// may be logged in another order than they were transmitted.
    fn messages(&self, word: &str) -> String {
        sorted(self.0.iter().filter_map(|line| line.get(word)).map(text))
    }

    /// The messages that do not depend on chance: server-everything notifies once or twice that its
    /// list of tools changed.
    fn settled(&self) -> String {
        sorted(self.0.iter().map(Value::to_string).filter(|line| !is_list_change(line)))
    }
}

fn is_list_change(line: &str) -> bool {
    line.contains("/list_changed\"")
}

/// The text of a message. The Python SDK adds the id of the POST to an error of HTTP (-32000)
/// without an id. Over the network the id is null.
fn text(message: &Value) -> String {
    let mut message = message.clone();
    if message["error"]["code"] == -32000 {
        message["id"] = Value::Null;
    }
    message.to_string()
}

fn sorted(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The messages of one direction that were recorded or printed, as sorted values.
fn observed(lines: &[Value], direction: &str) -> String {
    let parse = |raw: String| text(&serde_json::from_str(&raw).expect("a message"));
    sorted(texts(lines, direction).into_iter().map(parse))
}

fn assert_transcript(what: &str, transcript: &Transcript, lines: &[Value]) {
    // A client that ends does not log a second notification that the list of tools changed.
    let settled = |messages: String| sorted(messages.lines().filter(|line| !is_list_change(line)).map(str::to_owned));
    for (word, direction) in [("sent", "client-to-server"), ("received", "server-to-client")] {
        crate::decoded::assert_same(
            &format!("{what}: {word}"),
            &settled(transcript.messages(word)),
            &settled(observed(lines, direction)),
        );
    }
    let sessions = of_type(lines, "session");
    let sum = |member: &str| sessions.iter().map(|session| session[member].as_u64().expect("a number")).sum::<u64>();
    // An error without an id answers the request of its exchange.
    assert_eq!((sum("unanswered"), sum("invalid")), (0, 0), "{what}");
}

/// `command` with a witness before and after it that is independent of mcptap. The witness copies
/// the bytes to `folder/NAME.in` and `NAME.out`.
fn witnessed(name: &str, folder: &Path, command: &[String]) -> Vec<String> {
    let script = format!(r#"tee "$0/{name}.in" | "$@" | tee "$0/{name}.out""#);
    let head = ["sh".to_owned(), "-c".to_owned(), script, folder.display().to_string()];
    head.into_iter().chain(command.iter().cloned()).collect()
}

fn wrapped_conversation(sdk: Sdk, peers: &Peers, server: &[String], calls: &Value) {
    let (folder, db) = temporary_database();
    let folder = folder.path();
    let direct = peers.client(sdk, calls, &[&["--".to_owned()][..], server].concat());
    let mut wrap = program_words().to_vec();
    wrap.extend(["wrap".to_owned(), "--db".to_owned(), db.display().to_string(), "--".to_owned()]);
    wrap.extend(witnessed("server", folder, server));
    let command = witnessed("client", folder, &wrap);
    let wrapped = peers.client(sdk, calls, &[&["--".to_owned()][..], &command].concat());
    let what = format!("{sdk:?} client, {}", server.join(" "));
    crate::decoded::assert_same(&format!("{what}: with and without us"), &direct.settled(), &wrapped.settled());
    let bytes = |name: &str| fs::read(folder.join(name)).expect("the witness wrote");
    assert!(bytes("client.in") == bytes("server.in") && !bytes("client.in").is_empty(), "{what}: bytes of the client");
    assert!(bytes("client.out") == bytes("server.out"), "{what}: bytes of the server");
    let lines = recorded(&db);
    for (name, direction) in [("client.in", "client-to-server"), ("client.out", "server-to-client")] {
        let passed = String::from_utf8(bytes(name)).expect("MCP is UTF-8");
        assert_eq!(passed.lines().collect::<Vec<_>>(), texts(&lines, direction), "{what}: {direction} as recorded");
    }
    assert_transcript(&what, &wrapped, &lines);
}

#[test]
fn a_python_server_under_the_wrapper() {
    let Some(peers) = peers() else { return };
    let server = [peers.python(), Peers::script("server.py"), "stdio".to_owned()];
    BOTH.into_iter().for_each(|sdk| wrapped_conversation(sdk, &peers, &server, &calls()));
}

#[test]
fn server_everything_under_the_wrapper() {
    let Some(peers) = peers() else { return };
    let server = [peers.node(), peers.package("server-everything"), "stdio".to_owned()];
    BOTH.into_iter().for_each(|sdk| wrapped_conversation(sdk, &peers, &server, &everything_calls()));
}

/// The clients of both SDKs ask our own server, whose traffic is recorded for it.
#[cfg(feature = "agents")]
#[test]
fn our_server_for_agents_under_the_wrapper() {
    let Some(peers) = peers() else { return };
    let (_folder, db) = temporary_database();
    let capture = root().join("samples/weather/capture.pcapng");
    let saved = crate::program::mcptap().arg("--db").arg(&db).arg("read").arg(capture).arg("--save").finished();
    assert!(saved.status.success());
    let words = ["--db".to_owned(), db.display().to_string(), "mcp".to_owned()];
    let server = [&program_words()[..], &words].concat();
    let calls = json!([
        ["list_sessions", {}],
        ["explain_session", { "session": 1 }],
        ["search_messages", { "session": 1, "filter": "kind = response" }],
        ["read_message", { "session": 1, "message": 6 }],
        ["tool_statistics", { "session": 1 }],
        ["check_session", { "session": 1, "expect": ["some tool = get_weather"] }],
        ["compare_sessions", { "old": 1, "new": 1 }],
        ["read_message", { "session": 1, "message": 999 }],
        ["nowhere", {}],
    ]);
    BOTH.into_iter().for_each(|sdk| wrapped_conversation(sdk, &peers, &server, &calls));
}

#[test]
fn server_filesystem_under_the_wrapper() {
    let Some(peers) = peers() else { return };
    let files = tempfile::tempdir().expect("a temporary directory");
    let folder = files.path().canonicalize().expect("it is there").display().to_string();
    let server = [peers.node(), peers.package("server-filesystem"), folder.clone()];
    fs::write(files.path().join("large.txt"), "line of a large file\n".repeat(60_000)).expect("a file");
    let calls = json!([
        ["list_allowed_directories", {}],
        ["write_file", { "path": format!("{folder}/a.txt"), "content": "one\r\ntwo\n" }],
        ["read_text_file", { "path": format!("{folder}/a.txt") }],
        ["read_text_file", { "path": format!("{folder}/large.txt") }],
        ["read_text_file", { "path": "/etc/hostname" }],
    ]);
    BOTH.into_iter().for_each(|sdk| wrapped_conversation(sdk, &peers, &server, &calls));
}

/// The messages that a client received, sorted, without the ids that the server gave to
/// its own requests.
fn received(transcript: &Transcript) -> String {
    let received = transcript.0.iter().filter_map(|line| line.get("received")).cloned().map(|mut message| {
        if message.get("method").is_some() && message.get("id").is_some() {
            message["id"] = Value::Null;
        }
        text(&message)
    });
    sorted(received.filter(|line| !is_list_change(line)))
}

#[test]
fn clients_do_not_notice_that_the_server_is_a_mock_of_their_own_recording() {
    let Some(peers) = peers() else { return };
    let python = [peers.python(), Peers::script("server.py"), "stdio".to_owned()];
    let everything = [peers.node(), peers.package("server-everything"), "stdio".to_owned()];
    for (server, calls) in [(python, calls()), (everything, everything_calls())] {
        for sdk in BOTH {
            let (_folder, db) = temporary_database();
            let place = ["--db", db.to_str().expect("UTF-8")].map(str::to_owned);
            let program = [&program_words()[..], &place].concat();
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let wrap = [&words(&["--"]), &program[..], &words(&["wrap", "--"]), &server[..]].concat();
            let recorded = peers.client(sdk, &calls, &wrap);
            let what = |place: &str| format!("{sdk:?} client, mock of {} at {place}", server.join(" "));
            let mock = [&words(&["--"]), &program[..], &words(&["mock", "1"])].concat();
            let played = peers.client(sdk, &calls, &mock);
            crate::decoded::assert_same(&what("stdio"), &received(&recorded), &received(&played));
            for path in ["/mcp", "/sse"] {
                let listening = crate::mock::Listening::start(command(&mock[1..]));
                let played = peers.client(sdk, &calls, &[listening.url(path)]);
                crate::decoded::assert_same(&what(path), &received(&recorded), &received(&played));
                let (_, report) = listening.end();
                assert!(report.contains(" 0 unknown;"), "{}: {report}", what(path));
            }
        }
    }
}

/// An HTTP server that runs until this is dropped.
pub struct Serving(Child);

impl Serving {
    /// Starts a server and waits until it listens.
    pub fn start(mut command: Command, port: u16) -> Serving {
        command.env("PORT", port.to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let stderr = child.stderr.take().expect("a pipe");
        let mut stderr = BufReader::new(Patient::new(stderr, "a server to listen"));
        let mut line = String::new();
        while !line.contains("running on") && !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).expect("text") > 0, "the server ended");
        }
        // The server may write more. A full pipe must not stop it.
        std::thread::spawn(move || std::io::copy(&mut stderr.into_inner().into_inner(), &mut std::io::sink()));
        Serving(child)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.killed();
    }
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The servers of both SDKs over HTTP: the command, the path, and the calls.
fn http_servers(peers: &Peers, host: &str, port: u16) -> [(Vec<String>, &'static str, Value); 4] {
    let python = |transport: &str| {
        [peers.python(), Peers::script("server.py"), transport.to_owned(), host.to_owned(), port.to_string()].to_vec()
    };
    let everything =
        |transport: &str| [peers.node(), peers.package("server-everything"), transport.to_owned()].to_vec();
    [
        (python("http"), "/mcp", calls()),
        (python("sse"), "/sse", calls()),
        (everything("streamableHttp"), "/mcp", everything_calls()),
        (everything("sse"), "/sse", everything_calls()),
    ]
}

#[cfg(feature = "live")]
#[test]
fn http_servers_over_loopback() {
    let Some(peers) = peers() else { return };
    for at in 0..4 {
        let port = free_port();
        let (server, path, calls) = http_servers(&peers, "127.0.0.1", port)[at].clone();
        let url = format!("http://127.0.0.1:{port}{path}");
        sniffed_conversations(&peers, "lo", port, &url, &calls, command(&server));
    }
}

/// Both clients, one after the other, each in a capture of its own.
#[cfg(feature = "live")]
fn sniffed_conversations(peers: &Peers, interface: &str, port: u16, url: &str, calls: &Value, server: Command) {
    use crate::sniff::Sniffing;

    let what = format!("{server:?}");
    let _serving = Serving::start(server, port);
    for sdk in BOTH {
        let (_folder, db) = temporary_database();
        let db = db.to_str().expect("UTF-8");
        let filter = format!("tcp port {port}");
        let Some(sniffing) = Sniffing::start(interface, &["-f", &filter, "--db", db]) else { return };
        let transcript = peers.client(sdk, calls, &[url.to_owned()]);
        let sniffed = sniffing.interrupt();
        sniffed.assert_nothing_dropped();
        let what = format!("{sdk:?} client, {what}");
        assert_transcript(&what, &transcript, &sniffed.lines);
        assert_transcript(&format!("{what}, saved"), &transcript, &recorded(Path::new(db)));
    }
}

/// A network namespace, connected with the one of the tests by a pair of virtual interfaces. It is
/// removed when this is dropped.
#[cfg(feature = "live")]
struct Namespace {
    name: String,
    /// The interface of the tests, and the address of the other end.
    interface: String,
    address: String,
}

#[cfg(feature = "live")]
impl Namespace {
    /// `None` if this process may not create one.
    fn new() -> Option<Namespace> {
        let id = std::process::id() % 100_000;
        // RFC 2544 section C.2.2: 198.18.0.0/15 is reserved for tests of interconnected devices.
        let net = format!("198.18.{}", id % 250);
        let namespace =
            Namespace { name: format!("mcptap{id}"), interface: format!("tap{id}"), address: format!("{net}.2") };
        let Namespace { name, interface, .. } = &namespace;
        let commands = [
            format!("netns add {name}"),
            format!("link add {interface} type veth peer name peer0 netns {name}"),
            format!("addr add {net}.1/24 dev {interface}"),
            format!("link set {interface} up"),
            format!("-n {name} addr add {net}.2/24 dev peer0"),
            format!("-n {name} link set peer0 up"),
        ];
        for command in commands {
            let done = Command::new("ip").args(command.split(' ')).try_finished();
            if !have(&needs::NETWORKS, done.is_ok_and(|done| done.status.success())) {
                return None;
            }
        }
        Some(namespace)
    }
}

#[cfg(feature = "live")]
impl Drop for Namespace {
    fn drop(&mut self) {
        // This removes its interface, and so the interface of the tests.
        let _ = Command::new("ip").args(["netns", "del", &self.name]).try_finished();
    }
}

#[cfg(feature = "live")]
#[test]
fn http_servers_in_another_network_namespace() {
    let Some(peers) = peers() else { return };
    let Some(namespace) = Namespace::new() else { return };
    for at in [0, 2] {
        let port = free_port();
        let (server, path, calls) = http_servers(&peers, &namespace.address, port)[at].clone();
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &namespace.name]).args(server);
        let url = format!("http://{}:{port}{path}", namespace.address);
        sniffed_conversations(&peers, &namespace.interface, port, &url, &calls, inside);
    }
}
