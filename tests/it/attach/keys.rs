//! TLS secrets of running processes: the same lines as in the application's own key log, and the
//! traffic opened with them down to its packets.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::RunningServer;
use crate::peers::{Peers, Serving, free_port, peers};
use crate::program::mcptap;
use crate::sniff::Sniffing;
use crate::support::needs::{self, have_program};
use crate::support::waits::{Finishes, ProcessEnd};
use crate::tls::{SECRETS, blocks};
use crate::wrapped::{line, of_type};

/// A client over TLS and its server, before the first connection.
pub(super) struct Scene {
    _serving: Serving,
    pub(super) folder: tempfile::TempDir,
    pub(super) port: u16,
    pub(super) client: RunningServer,
}

/// A runtime that clients are made with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Runtime {
    Python,
    Node,
    Bun,
    /// A client that this program was built as.
    Go(&'static Path),
}

impl Scene {
    /// Starts both. The version is `TLSv1.2` or `TLSv1.3`, the curve one of the server or `auto`.
    pub(super) fn start(peers: &Peers, runtime: Runtime, version: &str, curve: &str) -> Scene {
        let (folder, port) = (tempfile::tempdir().expect("a temporary folder"), free_port());
        let [theirs, own] = ["theirs.log", "own.log"].map(|name| folder.path().join(name));
        let mut server = Command::new(peers.node());
        server.arg(Peers::script("tls_server.mjs")).args([&port.to_string(), version, curve]).arg(theirs);
        let serving = Serving::start(server, port);
        let (program, script) = match runtime {
            Runtime::Python => (peers.python(), "tls_client.py"),
            Runtime::Node => (peers.node(), "tls_client.mjs"),
            Runtime::Bun => (peers.bun(), "tls_client.mjs"),
            Runtime::Go(program) => (program.display().to_string(), ""),
        };
        let mut client = Command::new(program);
        if let Runtime::Node = runtime {
            client.arg(format!("--tls-keylog={}", own.display()));
        }
        if !script.is_empty() {
            client.arg(Peers::script(script));
        }
        client.args([port.to_string(), version.replace('.', "_")]);
        client.env("SSLKEYLOGFILE", own);
        let mut client = RunningServer::start(client);
        assert_eq!(line(&mut client.stdout), "ready");
        Scene { _serving: serving, folder, port, client }
    }

    /// Captures the traffic, with the client's secrets. `None` if this machine does not permit it.
    pub(super) fn sniff(&self, options: &[&str]) -> Option<Sniffing> {
        let (filter, process) = (format!("tcp port {}", self.port), self.client.child.id().to_string());
        Sniffing::start("lo", &[&["-f", &filter, "--keys-from", &process], options].concat())
    }

    /// Makes the client send a request, and returns its result.
    pub(super) fn ask(&mut self, how: &str) -> Value {
        use std::io::Write;

        writeln!(self.client.stdin.as_mut().expect("stdin is open"), "{how}").expect("the client reads");
        let answer = line(&mut self.client.stdout);
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn key_log(&self, name: &str) -> BTreeSet<String> {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        secrets(&text)
    }
}

/// The lines of a key log that open records. Applications log others too.
fn secrets(text: &str) -> BTreeSet<String> {
    let opens = |line: &&str| line.starts_with("CLIENT_") || line.starts_with("SERVER_");
    text.lines().filter(opens).map(str::to_owned).collect()
}

/// The secrets that a recording has kept.
fn kept(db: &Path, folder: &Path) -> BTreeSet<String> {
    let file = folder.join("kept.pcapng");
    let [db, output] = [db, &file].map(|path| path.to_str().expect("UTF-8"));
    let done = mcptap().args(["export", "latest", "--db", db, "--format", "pcapng", "-o", output]).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let bytes = fs::read(&file).expect("exported");
    let texts = blocks(&bytes).into_iter().filter(|(kind, _)| *kind == SECRETS);
    texts.flat_map(|(_, block)| secrets(&String::from_utf8_lossy(&block[16..]))).collect()
}

/// Takes the secrets of four requests on three connections, and compares.
fn compare(runtime: Runtime, version: &str, curve: &str) {
    let Some(peers) = peers() else { return };
    let what = format!("{runtime:?} {version} {curve}");
    let mut scene = Scene::start(&peers, runtime, version, curve);
    let db = scene.folder.path().join("keys.db");
    let Some(mut sniffing) = scene.sniff(&["--keep-secrets", "--db", db.to_str().expect("UTF-8")]) else { return };
    assert!(sniffing.notes[0].contains("taking TLS secrets from process"), "{what}: {:?}", sniffing.notes);
    // mcptap sees the first two connections at once, as on a busy machine. The second resumes the
    // session of the first, so in TLS 1.2 they have one secret.
    sniffing.signal(Signal::STOP);
    let at_once = ["new", "new"].map(|how| scene.ask(how));
    sniffing.signal(Signal::CONT);
    let results = [at_once, ["same", "same"].map(|how| scene.ask(how))].concat();
    sniffing.await_messages(8);
    drop(scene.client.stdin.take());
    scene.client.child.ended("the client");
    let sniffed = sniffing.interrupt();
    sniffed.assert_nothing_dropped();
    assert_eq!((&results[0]["resumed"], &results[1]["resumed"]), (&json!(false), &json!(true)), "{what}");
    assert_eq!(results[3]["requests"], 2, "{what}");
    // Four secrets of each connection, or the master secret.
    let theirs = scene.key_log("theirs.log");
    assert_eq!(theirs.len(), if version == "TLSv1.3" { 12 } else { 3 }, "{what}");
    assert_eq!(kept(&db, scene.folder.path()), theirs, "{what}: the server's key log");
    // Bun keeps none itself.
    let own = scene.key_log("own.log");
    assert_eq!(own, if let Runtime::Bun = runtime { BTreeSet::new() } else { theirs }, "{what}: the own key log");
    let messages = of_type(&sniffed.lines, "message");
    assert_eq!(messages.len(), 8, "{what}");
    for message in messages {
        assert!(message["packets"].as_array().is_some_and(|packets| !packets.is_empty()), "{what}: {message}");
    }
    let answers = crate::wrapped::texts(&sniffed.lines, "server-to-client");
    for (answer, result) in answers.iter().zip(results) {
        let mut answer: Value = serde_json::from_str(answer).expect("JSON");
        let padding = answer["result"]["padding"].take();
        assert_eq!(padding.as_str().map(str::len), Some(40_000), "{what}");
        assert_eq!(
            (&answer["result"]["resumed"], &answer["result"]["requests"]),
            (&result["resumed"], &result["requests"])
        );
    }
    let layers = mcptap().args(["layers", "latest", "--db"]).arg(&db).finished();
    let layers = String::from_utf8(layers.stdout).expect("text");
    assert_eq!(layers.contains("HelloRetryRequest"), curve == "P-384", "{what}: {layers}");
}

#[test]
fn python_with_tls_1_2_and_1_3_and_resumption() {
    compare(Runtime::Python, "TLSv1.2", "auto");
    compare(Runtime::Python, "TLSv1.3", "auto");
}

#[test]
fn node_with_tls_1_2_and_1_3_resumption_and_hello_retry_request() {
    compare(Runtime::Node, "TLSv1.2", "auto");
    compare(Runtime::Node, "TLSv1.3", "P-384");
}

#[test]
fn bun_with_tls_1_2_and_1_3_and_resumption() {
    compare(Runtime::Bun, "TLSv1.2", "auto");
    compare(Runtime::Bun, "TLSv1.3", "auto");
}

/// Builds the client in Go. `None` if there is no Go.
fn go_client(stripped: bool) -> Option<&'static Path> {
    if !have_program(&needs::GO) {
        return None;
    }
    let name = if stripped { "tls-client-stripped" } else { "tls-client" };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join(name);
    let mut command = Command::new("go");
    command.args(["build", "-ldflags", if stripped { "-s -w" } else { "" }, "-o"]).arg(&program);
    command.arg(Peers::script("tls_client.go")).env("GOCACHE", folder.join("go")).env("GO111MODULE", "off");
    let built = command.env("CGO_ENABLED", "0").finished();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(Box::leak(program.into_boxed_path()))
}

#[test]
fn go_with_tls_1_3_and_resumption() {
    let Some(program) = go_client(false) else { return };
    compare(Runtime::Go(program), "TLSv1.3", "auto");
}

/// A program whose secrets cannot be taken is named, with what works instead.
#[test]
fn go_without_a_symbol_table_is_named() {
    let (Some(peers), Some(program)) = (peers(), go_client(true)) else { return };
    let scene = Scene::start(&peers, Runtime::Go(program), "TLSv1.3", "auto");
    let process = scene.client.child.id().to_string();
    let done = mcptap().args(["sniff", "-i", "lo", "--no-save", "--keys-from", &process]).finished();
    let said = String::from_utf8(done.stderr).expect("text");
    if said.contains("no permission to capture") || said.contains("the kernel does not permit it") {
        return needs::refused(&said);
    }
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("Go's crypto/tls") && said.contains("mcptap proxy --intercept HOST"), "{said}");
}
