//! `mcptap sniff` on real interfaces.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::decoded::assert_same;
use crate::program::mcptap;
use crate::support::needs::{self, have};
use crate::support::pipes::{Patient, patient};
use crate::support::waits::{Finishes, ProcessEnd};
use crate::wrapped::{json, line, of_type, recorded, request, temporary_database};

/// A running capture.
pub struct Sniffing {
    child: Child,
    stdout: BufReader<Patient<ChildStdout>>,
    stderr: BufReader<Patient<ChildStderr>>,
    lines: Vec<Value>,
    /// The lines of standard error before the capture began.
    pub notes: Vec<String>,
}

/// The output of a capture that ended: the lines of standard output, and the end of standard error.
pub struct Sniffed {
    pub lines: Vec<Value>,
    pub drops: String,
}

impl Sniffing {
    /// Starts a capture, which has begun when this returns. `None` if this process has no
    /// right to capture.
    pub fn start(interface: &str, arguments: &[&str]) -> Option<Sniffing> {
        let mut command = mcptap();
        command.args(["sniff", "--json", "-i", interface]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("mcptap runs");
        let (stdout, stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        let stdout = BufReader::new(Patient::new(stdout, "`sniff` to print"));
        let mut stderr = BufReader::new(Patient::new(stderr, "`sniff` to begin or end"));
        let mut notes = Vec::new();
        let began = format!("mcptap: capturing on {interface}; Ctrl-C ends it");
        loop {
            let said = line(&mut stderr);
            if said == began {
                break;
            }
            if !have(&needs::CAPTURE, !said.contains("no permission to capture")) {
                child.ended("mcptap");
                return None;
            }
            if ["the kernel does not permit it", "this kernel has no description"].iter().any(|why| said.contains(why))
            {
                child.ended("mcptap");
                needs::refused(&said);
                return None;
            }
            assert!(arguments.contains(&"--keys-from") && !said.is_empty(), "{said}");
            notes.push(said);
        }
        Some(Sniffing { child, stdout, stderr, lines: Vec::new(), notes })
    }

    /// Waits until this number of messages was printed in all.
    pub fn await_messages(&mut self, count: usize) {
        while of_type(&self.lines, "message").len() < count {
            let line = line(&mut self.stdout);
            self.lines.push(serde_json::from_str(&line).expect("it goes on capturing"));
        }
    }

    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(process, signal).expect("it lives");
    }

    /// Ends the capture with Ctrl-C.
    pub fn interrupt(self) -> Sniffed {
        self.signal(Signal::INT);
        self.finish()
    }

    /// Waits until the capture ends by itself.
    pub fn finish(mut self) -> Sniffed {
        let [mut stdout, mut stderr] = [String::new(), String::new()];
        self.stdout.read_to_string(&mut stdout).expect("text");
        self.stderr.read_to_string(&mut stderr).expect("text");
        assert_eq!(self.child.ended("mcptap").code(), Some(0), "{stderr}");
        self.lines.extend(stdout.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")));
        assert_eq!(self.lines.last().expect("a last line")["type"], "summary");
        Sniffed { lines: self.lines, drops: stderr }
    }
}

impl Sniffed {
    pub fn assert_nothing_dropped(&self) {
        let captured = &self.lines.last().expect("a summary")["packets"];
        let said = format!("{captured} packets captured, 0 dropped by the kernel, 0 by the interface, 0 by mcptap");
        assert!(self.drops.contains(&said), "{captured}: {}", self.drops);
    }
}

/// An HTTP server that serves one connection after the other.
pub struct Server {
    port: u16,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || listener.incoming().flatten().for_each(answer));
        Server { port }
    }

    pub fn filter(&self) -> String {
        format!("tcp port {}", self.port)
    }

    /// Sends requests on one connection and reads their responses.
    pub fn ask(&self, ids: std::ops::Range<usize>) {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let mut stream = BufReader::new(patient(stream));
        for id in ids {
            let body = request(id);
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            stream.get_mut().write_all((head + &body).as_bytes()).expect("the server reads");
            read_body(&mut stream).expect("an answer");
        }
    }
}

fn answer(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    while let Some(body) = read_body(&mut stream) {
        let request: Value = serde_json::from_slice(&body).expect("a request");
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[]}}}}"#, request["id"]);
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all((head + &body).as_bytes()).expect("the client reads");
    }
}

/// The body after the next head; `None` at the end.
fn read_body(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The lines of the types that show decoded data, as text.
fn found(lines: &[Value], kinds: &[&str]) -> String {
    let lines = kinds.iter().flat_map(|kind| of_type(lines, kind));
    lines.map(|line| format!("{line:#}\n")).collect()
}

/// Law 4 of `docs/architecture.md`: the live output equals the output for the recording,
/// and the stored session.
#[test]
fn live_and_offline_are_the_same() {
    let (folder, db) = temporary_database();
    let raw = folder.path().join("raw.pcapng");
    let server = Server::start();
    let Some(mut sniffing) = Sniffing::start("lo", &["-f", &server.filter(), "-w", path(&raw), "--db", path(&db)])
    else {
        return;
    };
    server.ask(1..26);
    sniffing.await_messages(50);
    server.ask(26..51);
    server.ask(1..1);
    sniffing.await_messages(100);
    let live = sniffing.interrupt();
    live.assert_nothing_dropped();
    let offline = json(&["read"], &raw);
    let all = ["message", "exchange", "session", "finding"];
    assert_eq!(of_type(&live.lines, "message").len(), 100);
    assert_same("read from the raw packets", &found(&live.lines, &all), &found(&offline, &all));
    // The store also has later facts, such as the response to a request.
    let [saved, imported] = [&db, &raw].map(|target| found(&recorded(target), &["message", "session", "finding"]));
    assert_same("saved", &saved, &imported);
    let packets = |lines: &[Value]| lines.last().expect("a summary")["packets"].clone();
    assert_eq!(packets(&live.lines), packets(&offline));
}

#[test]
fn all_interfaces_at_once_see_the_same_messages() {
    let server = Server::start();
    let Some(mut sniffing) = Sniffing::start("any", &["-f", &server.filter(), "--no-save"]) else { return };
    server.ask(1..11);
    sniffing.await_messages(20);
    let sniffed = sniffing.interrupt();
    sniffed.assert_nothing_dropped();
    assert_eq!(of_type(&sniffed.lines, "message").len(), 20);
    assert_eq!(of_type(&sniffed.lines, "session")[0]["unanswered"], 0);
}

#[test]
fn limits_end_a_capture_by_themselves() {
    let server = Server::start();
    let Some(sniffing) = Sniffing::start("lo", &["-f", &server.filter(), "--no-save", "--count", "6"]) else { return };
    server.ask(1..11);
    let sniffed = sniffing.finish();
    assert_eq!(of_type(&sniffed.lines, "message").len(), 6);
    let Some(sniffing) = Sniffing::start("lo", &["-f", &server.filter(), "--no-save", "--duration", "0.1"]) else {
        return;
    };
    assert_eq!(sniffing.finish().lines.last().expect("a summary")["messages"], 0, "on an idle interface too");
}

#[test]
fn packets_that_the_kernel_dropped_are_reported() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    let filter = format!("udp port {}", address.port());
    let Some(sniffing) = Sniffing::start("lo", &["-f", &filter, "--no-save", "--buffer", "1"]) else { return };
    sniffing.signal(Signal::STOP);
    for _ in 0..400 {
        socket.send_to(&[0; 20_000], address).expect("loopback takes it");
    }
    sniffing.signal(Signal::CONT);
    let sniffed = sniffing.interrupt();
    let dropped = &sniffed.lines.last().expect("a summary")["skipped"]["dropped by the kernel"];
    let dropped = dropped.as_u64().expect("a megabyte does not hold eight");
    assert!(sniffed.drops.contains(&format!("{dropped} dropped by the kernel")), "{}", sniffed.drops);
}

#[test]
fn interfaces_are_listed_and_a_wrong_one_is_reported() {
    let listed = mcptap().args(["sniff", "--list-interfaces"]).finished();
    assert!(listed.status.success());
    let listed = String::from_utf8(listed.stdout).expect("text");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let loopback = listed.lines().map(words).find(|words| words[0] == "lo").expect("there is a loopback interface");
    assert!(loopback[1] == "up" && loopback.contains(&"127.0.0.1".to_owned()), "{loopback:?}");
    let wrong = mcptap().args(["sniff", "-i", "no-such"]).finished();
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8(wrong.stderr).expect("text");
    assert!(said.starts_with("mcptap: there is no interface `no-such` to capture on; there are: "), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn without_the_right_to_capture_the_way_to_get_it_is_shown() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // A copy of the program that every user may execute, wherever the tests run.
    let program = folder.path().join("mcptap");
    std::fs::copy(env!("CARGO_BIN_EXE_mcptap"), &program).expect("a copy");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("the folder is ours");
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
        command
    } else {
        Command::new(&program)
    };
    let done = command.args(["sniff", "-i", "lo", "--no-save", "--duration", "0.1"]).try_finished();
    if !have(&needs::SETPRIV, done.is_ok()) {
        return;
    }
    let done = done.expect("it ran");
    let said = String::from_utf8(done.stderr).expect("text");
    assert_eq!(done.status.code(), Some(2), "{said}");
    let setcap = format!("sudo setcap cap_net_raw,cap_net_admin=eip {}\n", program.display());
    assert!(said.starts_with("mcptap: no permission to capture on lo: ") && said.ends_with(&setcap), "{said}");
}
