//! The pipes of servers that already run, byte for byte.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use super::{RunningServer, Watched, Watcher, listed, signal, texts};
use crate::program::mcptap;
use crate::support::needs::{self, have};
use crate::support::waits::{Finishes, ProcessEnd, until};
use crate::wrapped::{of_type, recorded, request, temporary_database};

/// A request with this id and so many bytes of content.
fn large(id: usize, bytes: usize) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "x".repeat(bytes)}}).to_string()
}

#[test]
fn every_byte_is_seen_in_both_directions() {
    let mut server = RunningServer::echo();
    server.exchange(&request(0));
    // All of it fits, however late a busy machine lets mcptap look.
    let Some(watcher) = Watcher::attach(server.child.id(), &["--no-save", "--buffer", "256"]) else { return };
    let mut sent = Vec::new();
    for id in 1..20_000 {
        sent.push(request(id));
    }
    for id in 20_000..20_100 {
        sent.push(large(id, 1_000_000));
    }
    for text in &sent {
        assert_eq!(server.exchange(text), *text);
    }
    drop(server.stdin.take());
    assert!(server.child.ended("the server").success());
    let watched = watcher.end();
    let bytes: usize = sent.iter().map(|text| text.len() + 1).sum();
    assert!(watched.stderr.contains(&format!("{} bytes recorded, 0 lost", 2 * bytes)), "{}", watched.stderr);
    assert!(texts(&watched, "client-to-server") == sent, "from the client");
    assert!(texts(&watched, "server-to-client") == sent, "from the server");
    let sessions = of_type(&watched.lines, "session");
    assert_eq!(sessions[0]["exit"], json!({"code": 0}));
    assert_eq!(sessions[0]["completeness"], 1);
}

/// A pipe that was in use before: the first line may be cut, and nothing is reported as missing.
#[test]
fn a_recording_that_begins_midway_reports_nothing_false() {
    let answers = r#"while read -r line; do id=${line#*id\":}; id=${id%%,*}; printf '{"jsonrpc":"2.0",'; read -r go; echo "\"id\":$id,\"result\":{\"content\":[]}}"; done"#;
    let mut command = Command::new("sh");
    command.args(["-c", answers]);
    let mut server = RunningServer::start(command);
    let send = |server: &mut RunningServer, text: &str| {
        use std::io::Write;
        writeln!(server.stdin.as_mut().expect("stdin is open"), "{text}").expect("the server reads");
    };
    send(&mut server, &request(1));
    let mut half = [0; 17];
    std::io::Read::read_exact(&mut server.stdout, &mut half).expect("the server writes");
    let Some(watcher) = Watcher::attach(server.child.id(), &["--no-save"]) else { return };
    send(&mut server, "");
    crate::wrapped::line(&mut server.stdout);
    let ask = |server: &mut RunningServer, id| {
        send(server, &request(id));
        send(server, "");
        crate::wrapped::line(&mut server.stdout)
    };
    for id in 2..5 {
        assert!(ask(&mut server, id).contains(&format!("\"id\":{id},")));
    }
    drop(server.stdin.take());
    server.child.ended("the server");
    let watched = watcher.end();
    let answered: Vec<_> = of_type(&watched.lines, "message")
        .into_iter()
        .filter(|message| message["kind"] == "response")
        .map(|message| message["answers"].is_u64())
        .collect();
    assert_eq!(answered, [true; 3], "later calls are whole");
    let rules: Vec<_> = of_type(&watched.lines, "finding").iter().map(|finding| finding["rule"].clone()).collect();
    // Of the test: an empty line makes the server go on.
    let harmless = ["stdio-framing-noise"].map(|rule| json!(rule));
    let false_ones: Vec<_> = rules.iter().filter(|rule| !harmless.contains(rule)).collect();
    assert!(false_ones.is_empty(), "{false_ones:?}");
}

/// The bytes that were recorded, and those that were lost.
fn counted(watched: &Watched) -> (usize, usize) {
    let line = watched.stderr.lines().find(|line| line.contains(" bytes recorded, ")).expect("a summary");
    let numbers: Vec<usize> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [seen, lost] = numbers[..] else { panic!("{line}") };
    (seen, lost)
}

#[test]
fn what_a_small_ring_has_no_room_for_is_a_gap_of_known_length() {
    let mut server = RunningServer::echo();
    let Some(watcher) = Watcher::attach(server.child.id(), &["--no-save", "--buffer", "1"]) else { return };
    let mut sent = 0;
    let mut exchange = |server: &mut RunningServer, text: String| {
        sent += text.len() + 1;
        assert_eq!(server.exchange(&text), text);
    };
    exchange(&mut server, request(1));
    // Nobody empties the ring, and more comes than it holds.
    signal(watcher.child.id(), Signal::STOP);
    (2..6).for_each(|id| exchange(&mut server, large(id, 1_000_000)));
    signal(watcher.child.id(), Signal::CONT);
    (6..20).for_each(|id| exchange(&mut server, request(id)));
    drop(server.stdin.take());
    server.child.ended("the server");
    let watched = watcher.end();
    let (seen, lost) = counted(&watched);
    assert!(lost > 4_000_000, "{lost}");
    assert_eq!(seen + lost, 2 * sent);
    assert!(of_type(&watched.lines, "session")[0]["completeness"].as_f64().expect("a share") < 0.5);
    assert!(texts(&watched, "client-to-server").contains(&request(1)));
}

/// The server lives on, so nothing follows what the ring had no room for.
#[test]
fn what_passed_before_an_interrupt_is_recorded_or_counted() {
    let mut server = RunningServer::echo();
    let Some(watcher) = Watcher::attach(server.child.id(), &["--no-save", "--buffer", "1"]) else { return };
    signal(watcher.child.id(), Signal::STOP);
    let sent: Vec<String> = (1..4).map(|id| large(id, 1_000_000)).collect();
    sent.iter().for_each(|text| assert_eq!(server.exchange(text), *text));
    watcher.interrupt();
    signal(watcher.child.id(), Signal::CONT);
    let (seen, lost) = counted(&watcher.end());
    assert!(lost > 4_000_000, "{lost}");
    assert_eq!(seen + lost, 2 * sent.iter().map(|text| text.len() + 1).sum::<usize>());
}

#[test]
fn a_recording_is_saved_and_says_how_the_server_ended() {
    let (_folder, db) = temporary_database();
    let mut server = RunningServer::echo();
    let options = ["--name", "echo", "--db", db.to_str().expect("text")];
    let Some(watcher) = Watcher::attach(server.child.id(), &options) else { return };
    server.exchange(&request(1));
    signal(server.child.id(), Signal::KILL);
    server.child.ended("the server");
    watcher.end();
    let lines = recorded(&db);
    let session = of_type(&lines, "session")[0];
    assert_eq!(session["name"], "echo");
    assert_eq!(session["exit"], json!({"signal": 9}));
    assert_eq!(session["peers"]["command"], json!(["cat"]));
    assert_eq!(of_type(&lines, "message").len(), 2);
}

/// The ids of the programs that a process has loaded.
fn programs_of(process: u32) -> BTreeSet<u32> {
    let folder = fs::read_dir(format!("/proc/{process}/fdinfo")).expect("the process lives");
    let texts = folder.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    let id = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(id).collect()
}

fn is_loaded(programs: &BTreeSet<u32>) -> bool {
    aya::programs::loaded_programs().filter_map(Result::ok).any(|program| programs.contains(&program.id()))
}

#[test]
fn nothing_stays_loaded_when_mcptap_is_killed_or_interrupted() {
    let mut server = RunningServer::echo();
    let Some(mut watcher) = Watcher::attach(server.child.id(), &["--no-save"]) else { return };
    let programs = programs_of(watcher.child.id());
    assert!(programs.len() >= 3 && is_loaded(&programs), "{programs:?}");
    watcher.child.killed();
    until("the kernel to unload the programs", || !is_loaded(&programs));
    let Some(watcher) = Watcher::attach(server.child.id(), &["--no-save"]) else { return };
    let programs = programs_of(watcher.child.id());
    server.exchange(&request(1));
    watcher.interrupt();
    assert_eq!(of_type(&watcher.end().lines, "message").len(), 2, "what passed before is printed");
    until("the kernel to unload the programs", || !is_loaded(&programs));
    assert_eq!(server.exchange(&request(2)), request(2), "the server lives on");
}

#[test]
fn only_the_named_process_is_watched() {
    let (mut named, mut other) = (RunningServer::echo(), RunningServer::echo());
    let Some(watcher) = Watcher::attach(named.child.id(), &["--no-save"]) else { return };
    other.exchange(&request(1));
    named.exchange(&request(2));
    drop(named.stdin.take());
    named.child.ended("the server");
    assert_eq!(texts(&watcher.end(), "client-to-server"), [request(2)]);
}

#[test]
fn errors_name_what_to_do() {
    let error = |argument: &str| {
        let done = mcptap().args(["attach", argument]).finished();
        assert_eq!(done.status.code(), Some(2));
        String::from_utf8(done.stderr).expect("text")
    };
    assert!(error("4194304").contains("there is no process 4194304"));
    assert!(error("no-such-server").contains("see \"mcptap attach --list\""));
    let mut alone = Command::new("sleep").arg("1000").spawn().expect("sleep starts");
    let message = error(&alone.id().to_string());
    alone.killed();
    assert!(message.contains("is neither an STDIO server nor the host of one"), "{message}");
    let [mut first, mut second] = [(); 2].map(|()| {
        // The words of `cat` do not contain the name, so the shell has to stay.
        let mut command = Command::new("sh");
        command.args(["-c", "cat; :", "a-name-of-two-servers"]);
        RunningServer::start(command)
    });
    first.exchange(&request(1));
    second.exchange(&request(1));
    let message = error("a-name-of-two-servers");
    assert!(message.contains("fits several servers"), "{message}");
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn a_user_without_rights_is_told_what_is_missing() {
    if !have(&needs::ROOT, rustix::process::geteuid().is_root()) {
        return;
    }
    // The user may not read the test's folders, so the program is copied.
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::chown(folder.path(), Some(65534), None).expect("root");
    let program = folder.path().join("mcptap");
    fs::copy(env!("CARGO_BIN_EXE_mcptap"), &program).expect("the disk has room");
    // A host and its server, both of that user.
    let pair = "coproc cat; echo x >&${COPROC[1]}; read -u ${COPROC[0]} line; echo $COPROC_PID; read line";
    let as_nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let mut command = Command::new("setpriv");
    command.args(as_nobody).args(["bash", "-c", pair]);
    let mut host = RunningServer::start(command);
    let server = crate::wrapped::line(&mut host.stdout);
    let mut command = Command::new("setpriv");
    command.args(as_nobody).arg(&program).args(["attach", &server, "--no-save"]);
    let done = command.try_finished();
    if !have(&needs::SETPRIV, done.is_ok()) {
        return;
    }
    let done = done.expect("setpriv runs");
    let message = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{message}");
    assert!(message.contains("cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search"), "{message}");
}

#[test]
fn a_pair_is_listed_with_host_and_server() {
    let mut server = RunningServer::echo();
    server.exchange(&request(1));
    let pairs = listed();
    let pair = pairs.iter().find(|pair| pair["server"]["process"] == server.child.id()).expect("the server is listed");
    assert_eq!(pair["host"]["process"], std::process::id());
    assert_eq!(pair["server"]["command"], json!(["cat"]));
    assert_eq!((pair["transport"].as_str(), &pair["obstacles"]), (Some("stdio"), &json!([])));
}
