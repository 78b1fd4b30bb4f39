//! `mcptap run`: a client, its servers and its terminal.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::signal;
use crate::program::mcptap;
use crate::support::needs::{self, have};
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, until};
use crate::wrapped::{line, of_type, recorded, request, temporary_database, texts};

/// The first words on standard error of a run that may record nothing but by name.
const WITHOUT_RIGHTS: &str = "mcptap: only STDIO servers that the client starts by name are recorded";

/// Runs a script of bash as the client. `None` if the kernel refuses.
fn run(db: &Path, script: &str) -> Option<Output> {
    run_with(db, &[], script)
}

/// The same with further options.
fn run_with(db: &Path, options: &[&str], script: &str) -> Option<Output> {
    let mut command = mcptap();
    command.arg("run").arg("--db").arg(db).args(options).args(["--", "bash", "-c", script]).stdin(Stdio::null());
    let done = command.finished();
    let stderr = String::from_utf8_lossy(&done.stderr);
    if stderr.starts_with(WITHOUT_RIGHTS) {
        needs::refused(stderr.lines().next().unwrap_or_default());
        return None;
    }
    Some(done)
}

/// A script that starts a server with this command, and sends it requests with these ids.
fn calls(server: &str, ids: std::ops::Range<usize>) -> String {
    let sends = ids.map(|id| format!("echo '{}' >&${{COPROC[1]}}; read -ru ${{COPROC[0]}} line\n", request(id)));
    let sends: String = sends.collect();
    // bash unsets the variables when the server ends.
    format!("coproc {server}\nserver=$COPROC_PID\n{sends}exec {{COPROC[1]}}>&-\nwait $server\n")
}

fn sessions(lines: &[Value]) -> Vec<Vec<String>> {
    let words = |session: &&Value| session["peers"]["command"].as_array().cloned().unwrap_or_default();
    let text = |word: Value| word.as_str().unwrap_or_default().to_owned();
    of_type(lines, "session").iter().map(|session| words(session).into_iter().map(text).collect()).collect()
}

#[test]
fn servers_are_recorded_from_their_first_byte_and_the_exit_status_is_the_clients() {
    let (_folder, db) = temporary_database();
    let script = format!("{}{}exit 7", calls("cat", 0..20), calls("{ env cat; }", 20..25));
    let Some(done) = run(&db, &script) else { return };
    assert_eq!(done.status.code(), Some(7));
    assert_eq!((done.stdout, String::from_utf8_lossy(&done.stderr)), (Vec::new(), "".into()));
    let lines = recorded(&db);
    assert_eq!(sessions(&lines), [vec!["cat"], vec!["env", "cat"]]);
    let sent: Vec<String> = (0..25).map(request).collect();
    assert_eq!(texts(&lines, "client-to-server"), sent);
    assert_eq!(texts(&lines, "server-to-client"), sent);
    for session in of_type(&lines, "session") {
        assert_eq!((&session["exit"], &session["completeness"]), (&json!({"code": 0}), &json!(1)));
    }
}

#[test]
fn programs_that_are_no_servers_are_left_out() {
    let (_folder, db) = temporary_database();
    let others = "printf 'b\\na\\n' | sort | head -1; coproc cat; echo no JSON >&${COPROC[1]}; read -ru ${COPROC[0]} line; echo $line; exec {COPROC[1]}>&-; wait;";
    // A server that mcptap records already is not recorded twice.
    let wrap = format!("{} --db {}", env!("CARGO_BIN_EXE_mcptap"), db.display());
    let script = format!("{others}\n{}", calls(&format!("{wrap} wrap -- cat"), 0..1));
    let Some(done) = run(&db, &script) else { return };
    assert_eq!(String::from_utf8_lossy(&done.stdout), "a\nno JSON\n");
    let lines = recorded(&db);
    assert_eq!(sessions(&lines), [["cat"]]);
    assert_eq!(texts(&lines, "client-to-server"), [request(0)]);
}

/// That is what somebody looks for who starts a client with mcptap.
#[test]
fn a_server_that_ends_at_once_is_recorded() {
    let (folder, db) = temporary_database();
    let server = folder.path().join("broken-mcp-server");
    fs::write(&server, "#!/bin/sh\nexit 3\n").expect("the disk has room");
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let script = format!("coproc {}; wait $COPROC_PID; exit 0", server.display());
    if run(&db, &script).is_none() {
        return;
    }
    let lines = recorded(&db);
    assert_eq!(of_type(&lines, "session")[0]["exit"], json!({"code": 3}));
}

/// The folders of key logs in memory.
fn key_logs() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    entries.filter(|path| path.to_string_lossy().contains("/mcptap-keys-")).collect()
}

#[test]
fn the_key_log_is_private_and_is_removed_by_the_end_or_by_the_next_start() {
    let (_folder, db) = temporary_database();
    let start = |script: &str| {
        let mut command = mcptap();
        // The user's own folder in memory would be used first.
        command.env("XDG_RUNTIME_DIR", "/dev/shm").env("NODE_OPTIONS", "--no-deprecation");
        command.arg("run").arg("--db").arg(&db).args(["--", "sh", "-c", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("mcptap starts");
        let mut stdout = BufReader::new(Patient::new(child.stdout.take().expect("a pipe"), "the client"));
        let file = PathBuf::from(line(&mut stdout));
        (child, stdout, file)
    };
    let script = "echo $SSLKEYLOGFILE; echo $NODE_OPTIONS; read line";
    let (mut killed, mut stdout, file) = start(script);
    if file.as_os_str().is_empty() {
        let mut stderr = String::new();
        killed.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
        killed.killed();
        assert!(stderr.starts_with(WITHOUT_RIGHTS), "{stderr}");
        return needs::refused(&stderr);
    }
    assert_eq!(line(&mut stdout), format!("--no-deprecation --tls-keylog=\"{}\"", file.display()));
    let folder = file.parent().expect("a folder").to_owned();
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    assert_eq!(folder.parent(), Some(Path::new("/dev/shm")));
    // The client lives on and holds the lock no longer than mcptap.
    let client = killed.stdin.take();
    killed.killed();
    assert!(folder.exists(), "nobody could remove it");
    let (mut next, _stdout, other) = start(script);
    assert!(!folder.exists() && other.exists(), "{:?}", key_logs());
    drop(client);
    writeln!(next.stdin.take().expect("a pipe"), "go on").expect("the client reads");
    assert!(next.ended("mcptap").success());
    assert!(!other.parent().expect("a folder").exists());
}

#[test]
fn signals_reach_the_client_and_end_the_recording_with_it() {
    let (_folder, db) = temporary_database();
    let script = format!("trap 'exit 9' TERM\n{}echo ready\nwhile :; do read -t 1 line; done", calls("cat", 0..1));
    let mut command = mcptap();
    command.arg("run").arg("--db").arg(&db).args(["--", "bash", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("mcptap starts");
    let mut stderr = child.stderr.take().expect("a pipe");
    let mut stdout = BufReader::new(Patient::new(child.stdout.take().expect("a pipe"), "the client"));
    assert_eq!(line(&mut stdout), "ready");
    signal(child.id(), Signal::TERM);
    assert_eq!(child.ended("mcptap").code(), Some(9));
    let mut text = String::new();
    stderr.read_to_string(&mut text).expect("text");
    if text.starts_with(WITHOUT_RIGHTS) {
        return needs::refused(&text);
    }
    assert_eq!(texts(&recorded(&db), "client-to-server"), [request(0)]);
}

#[test]
fn what_a_rule_names_is_not_recorded() {
    let (_folder, db) = temporary_database();
    let Some(done) = run_with(&db, &["--redact-path", "$.id"], &calls("cat", 7..8)) else { return };
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let sent = texts(&recorded(&db), "client-to-server");
    assert!(sent.len() == 1 && sent[0].contains("\"id\":\"[redacted number 1 "), "{sent:?}");
}

/// A shell notices only that mcptap was stopped, and continues only mcptap.
#[test]
fn a_client_that_stops_itself_stops_mcptap_and_goes_on_with_it() {
    let (_folder, db) = temporary_database();
    let mut command = mcptap();
    command.arg("run").arg("--db").arg(&db).args(["--", "sh", "-c", "kill -STOP $$; exit 4"]);
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("mcptap starts");
    let state = || fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("mcptap lives");
    until("mcptap to stop", || state().rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")));
    signal(child.id(), Signal::CONT);
    assert_eq!(child.ended("mcptap").code(), Some(4));
}

/// The variables of sudo are those of a program that it starts.
#[test]
fn under_sudo_the_client_and_the_files_belong_to_the_user() {
    if !have(&needs::ROOT, rustix::process::geteuid().is_root()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).expect("root");
    let db = folder.path().join("mcptap.db");
    let mut command = mcptap();
    command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody").env("HOME", "/root");
    let script =
        format!("id -u; id -g; id -G; echo $HOME $SUDO_UID; grep CapPrm /proc/self/status\n{}", calls("cat", 0..1));
    command.arg("run").arg("--db").arg(&db).args(["--", "bash", "-c", &script]).stdin(Stdio::null());
    let done = command.finished();
    let stderr = String::from_utf8_lossy(&done.stderr);
    if stderr.starts_with(WITHOUT_RIGHTS) {
        return needs::refused(&stderr);
    }
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert_eq!(stdout, "65534\n65534\n65534\n/nonexistent\nCapPrm:\t0000000000000000\n", "{stderr}");
    assert_eq!(fs::metadata(&db).expect("a file").uid(), 65534);
    assert_eq!(texts(&recorded(&db), "client-to-server"), [request(0)]);
}

#[test]
fn a_client_that_cannot_be_started_gives_the_status_of_a_shell() {
    let (_folder, db) = temporary_database();
    let done = mcptap().arg("run").arg("--db").arg(&db).args(["--", "no-such-client"]).finished();
    assert_eq!(done.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&done.stderr).contains("cannot start `no-such-client`: command not found"));
}

#[test]
fn without_rights_servers_that_are_started_by_name_are_recorded() {
    if !have(&needs::ROOT, rustix::process::geteuid().is_root()) {
        return;
    }
    // The user may not read the test's folders, so the program is copied.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (program, launcher) = (folder.path().join("mcptap"), folder.path().join("npx"));
    fs::copy(env!("CARGO_BIN_EXE_mcptap"), &program).expect("the disk has room");
    fs::write(&launcher, "#!/bin/sh\nexec cat\n").expect("the disk has room");
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("it is ours");
    std::os::unix::fs::chown(folder.path(), Some(65534), None).expect("root");
    let db = folder.path().join("mcptap.db");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&program).arg("--db").arg(&db);
    // What passes through other pipes is nobody's business.
    let other = "coproc npx; echo no JSON >&${COPROC[1]}; read -ru ${COPROC[0]} line; exec {COPROC[1]}>&-; wait";
    let script = format!("{}npx < /dev/null; {other}; exit 5", calls("npx -y server", 0..3));
    // The rule begins with a dash, and reaches the programs that record.
    command.args(["run", "--redact-regex=-y", "--", "bash", "-c", &script]);
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.path().display())).env("NO_COLOR", "1");
    let done = command.try_finished();
    if !have(&needs::SETPRIV, done.is_ok()) {
        return;
    }
    let done = done.expect("setpriv runs");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(5), "{stderr}");
    let said: Vec<&str> = stderr.lines().collect();
    assert!(said.len() == 2 && said[0].starts_with(WITHOUT_RIGHTS), "{stderr}");
    assert!(said[1].contains("sudo setcap cap_bpf,") && said[1].contains(",cap_net_raw=ep "), "{stderr}");
    let lines = recorded(&db);
    assert_eq!(texts(&lines, "server-to-client"), (0..3).map(request).collect::<Vec<_>>());
    let servers = sessions(&lines);
    assert!(servers.len() == 1 && servers[0].ends_with(&["**".to_owned(), "server".to_owned()]), "{servers:?}");
    assert_eq!(
        fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
            .filter(|entry| {
                entry.metadata().is_ok_and(|about| about.uid() == 65534)
                    && entry.file_name().to_string_lossy().starts_with("mcptap-keys-")
            })
            .count(),
        0,
        "its folder was removed"
    );
}
