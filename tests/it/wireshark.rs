//! mcptap beside Wireshark: what `tshark` shows of exported files, and what `mcptap wireshark
//! install` adds to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::decoded::{conversations, name, pipes};
use crate::program::mcptap;
use crate::support::needs;
use crate::support::waits::Finishes;
use crate::wrapped::{Wrapped, of_type, temporary_database};

/// The fields of the packets that match a display filter, one line a packet.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-Y", filter, "-T", "fields", "-r"]).arg(file);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let done = command.finished();
    assert!(done.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).lines().map(str::to_owned).collect()
}

/// The JSON lines of a run of the program.
fn json(arguments: &[&str], path: &Path) -> Vec<Value> {
    let done = mcptap().args(arguments).arg(path).finished();
    assert!(done.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&done.stderr));
    let lines = String::from_utf8(done.stdout).expect("JSON is UTF-8");
    lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

/// Exports a capture as pcapng.
fn exported(capture: &Path, folder: &Path) -> PathBuf {
    let file = folder.join("exported.pcapng");
    let done = mcptap().arg("export").arg(capture).arg("-o").arg(&file).finished();
    assert!(done.status.success(), "{}: {}", capture.display(), String::from_utf8_lossy(&done.stderr));
    file
}

#[test]
fn stock_wireshark_shows_the_lines_of_pipes() {
    if !needs::have_program(&needs::TSHARK) {
        return;
    }
    let (mut messages, mut noise) = (0, 0);
    for capture in pipes() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = exported(&capture, folder.path());
        let what = capture.display();
        let lines = json(&["read", "--json"], &capture);
        // A batch is one line. A message that is not valid JSON is noise to Wireshark.
        let is_line = |message: &&&Value| message.get("batch").is_none_or(|batch| batch["index"] == 0);
        for (direction, flag) in [("client-to-server", 2), ("server-to-client", 1)] {
            let mut wanted: Vec<String> = of_type(&lines, "message")
                .iter()
                .filter(|message| message["direction"] == direction && message.get("batch").is_none())
                .filter_map(|message| Some(message["raw"].as_str()?.trim().to_owned()))
                .filter(|raw| serde_json::from_str::<Value>(raw).is_ok_and(|value| value.is_object()))
                .collect();
            let filter = format!("json && frame.packet_flags_direction == {flag}");
            let mut shown: Vec<String> = tshark(&file, &filter, &["exported_pdu.exported_pdu"])
                .iter()
                .map(|line| text_of(line).trim().to_owned())
                .collect();
            shown.retain(|line| serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object()));
            wanted.sort_unstable();
            shown.sort_unstable();
            assert_eq!(shown, wanted, "{what}: {direction}");
            messages += of_type(&lines, "message").iter().filter(is_line).count();
        }
        noise += tshark(&file, "exported_pdu.prot_name == \"data\"", &["frame.number"]).len();
        let interfaces = tshark(&file, "json", &["frame.interface_name"]);
        assert!(interfaces.iter().all(|name| name.contains("process ")), "{what}: {interfaces:?}");
        let others = tshark(&file, "frame.interface_name && !exported_pdu", &["frame.number"]);
        assert!(others.is_empty(), "{what}: packets {others:?}");
    }
    assert!(messages > 100 && noise > 5, "{messages} messages and {noise} lines of noise were shown");
}

/// The text of a field that tshark writes in hexadecimal.
fn text_of(hexadecimal: &str) -> String {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a digit") as u8;
    let bytes: Vec<u8> = hexadecimal.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Wireshark keeps the options and blocks of mcptap when it saves a file again.
#[test]
fn a_file_that_wireshark_saved_again_is_restored() {
    if !needs::have_program(&needs::TSHARK) {
        return;
    }
    for capture in pipes() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = exported(&capture, folder.path());
        let again = folder.path().join("again.pcapng");
        let done = Command::new("tshark").arg("-r").arg(&file).arg("-w").arg(&again).finished();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let without_time = |mut lines: Vec<Value>| {
            lines.retain(|line| line["type"] != "summary");
            lines
        };
        let [wanted, said] = [&file, &again].map(|file| without_time(json(&["read", "--json"], file)));
        assert_eq!(said, wanted, "{}", capture.display());
        assert!(wanted.len() > 1, "{}", capture.display());
    }
}

/// A message as the plugin and mcptap show it: kind, id as JSON, method, tool.
type Shown = [String; 4];

/// The plugin in the tree, which `install` adds.
const PLUGIN: &str = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/src/cli/wireshark/mcp.lua");

/// The fields of the plugin for each message that it shows of a file.
fn fields(file: &Path, options: &[String], names: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.args(["-X", PLUGIN, "-Y", "mcptap", "-T", "json", "-r"]).arg(file).args(options);
    let done = command.finished();
    let problems = String::from_utf8_lossy(&done.stderr);
    assert!(!problems.contains("Lua"), "{}: {problems}", file.display());
    // tshark repeats the names of members, one for each message.
    let text = String::from_utf8(done.stdout).expect("UTF-8");
    let mut messages: Vec<BTreeMap<String, String>> = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("\"mcptap\":") {
            messages.push(BTreeMap::new());
        }
        let member = format!("{{{}}}", line.trim_end_matches(','));
        if let Some(message) = messages.last_mut()
            && line.starts_with("\"mcp.")
            && let Ok(Value::Object(member)) = serde_json::from_str(&member)
        {
            message.extend(member.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))));
        }
    }
    let of = |message: &BTreeMap<String, String>| {
        names.iter().map(|name| message.get(*name).cloned().unwrap_or_default()).collect()
    };
    messages.iter().map(of).collect()
}

/// The messages that the plugin shows.
fn shown(file: &Path, options: &[String]) -> Vec<Shown> {
    let fields = fields(file, options, &["mcp.kind", "mcp.id", "mcp.method", "mcp.tool"]);
    fields.into_iter().map(|fields| fields.try_into().expect("four fields")).collect()
}

/// The messages that mcptap reads. A response has the method and the tool of its request.
fn read(file: &Path, options: &[String]) -> Vec<Shown> {
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let lines = json(&[&["read", "--json"], &options[..]].concat(), file);
    let messages = of_type(&lines, "message");
    let tool = |message: &Value| {
        let sent: Value = serde_json::from_str(message["raw"].as_str()?).ok()?;
        (message["method"] == "tools/call").then(|| sent["params"]["name"].as_str().unwrap_or_default().to_owned())
    };
    let tools: BTreeMap<u64, String> =
        messages.iter().filter_map(|message| Some((message["number"].as_u64()?, tool(message)?))).collect();
    let valid = messages.iter().filter(|message| message["kind"] != "invalid");
    valid
        .map(|message| {
            let text = |member: &str| message[member].as_str().unwrap_or_default().to_owned();
            let id = message.get("id").map(ToString::to_string).unwrap_or_default();
            let number = message["answers"].as_u64().or(message["number"].as_u64());
            let tool = number.and_then(|number| tools.get(&number)).cloned().unwrap_or_default();
            [text("kind"), id, text("method"), tool]
        })
        .collect()
}

/// The elements of one list that are not in the other, each as often as it is too many.
fn without(all: &[Shown], others: &[Shown]) -> Vec<Shown> {
    let mut others = others.to_vec();
    let is_left = |shown: &&Shown| match others.iter().position(|other| other == *shown) {
        Some(at) => {
            others.swap_remove(at);
            false
        }
        None => true,
    };
    all.iter().filter(is_left).cloned().collect()
}

/// The plugin shows what mcptap reads: of pipes, and of the captures in which Wireshark sees whole
/// bodies. `docs/wireshark.md` names what it does not see in the others.
#[test]
fn the_fields_of_the_plugin_are_what_mcptap_reads() {
    if !needs::have_program(&needs::TSHARK) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut all = 0;
    for capture in pipes() {
        let file = exported(&capture, folder.path());
        let (shown, read) = (shown(&file, &[]), read(&capture, &[]));
        assert_eq!(without(&read, &shown), Vec::<Shown>::new(), "{}: missing", capture.display());
        assert_eq!(without(&shown, &read), Vec::<Shown>::new(), "{}: invented", capture.display());
        all += shown.len();
    }
    assert!(all > 50, "{all} messages of pipes");
    // A response whose request was not shown has no method. tshark opens cipher suites of TLS that
    // mcptap does not.
    let others = ["tls", "05_tls12_h1", "06_base_sse", "06_gap_keepalive", "06_netem_loss"];
    let others: BTreeSet<&str> = others.into_iter().chain(["06_ooo_keepalive", "06_tiny_mss", "06_dup"]).collect();
    let mut compared = 0;
    for capture in conversations() {
        let name = name(&capture);
        if others.contains(name.as_str()) {
            continue;
        }
        let keys = capture.with_file_name("keys.log");
        let [mut tshark, mut mcptap] = [Vec::new(), Vec::new()];
        if keys.exists() {
            tshark.extend(["-o".to_owned(), format!("tls.keylog_file:{}", keys.display())]);
            mcptap.extend(["--keylog".to_owned(), keys.display().to_string()]);
        }
        if name == "05_h2c" {
            tshark.extend(["-d", "tcp.port==1-65535,http2"].map(str::to_owned));
        }
        let (shown, read) = (shown(&capture, &tshark), read(&capture, &mcptap));
        // Two of its connections are WebSocket over HTTP/2, which Wireshark does not dissect.
        let missing = if name == "websocket" { 18 } else { 0 };
        assert_eq!(without(&read, &shown).len(), missing, "{name}: missing {:?}", without(&read, &shown));
        assert_eq!(without(&shown, &read), Vec::<Shown>::new(), "{name}: invented");
        compared += shown.len();
    }
    assert!(compared > 2_000, "{compared} messages of captures");
}

/// tshark prints the fields of a plugin to the terminal as they are.
#[test]
fn the_fields_of_the_plugin_have_no_control_characters() {
    if !needs::have_program(&needs::TSHARK) {
        return;
    }
    let (folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, "cat");
    for line in [
        r#"{"jsonrpc":"2.0","id":"\u001b[2J","method":"tools/call","params":{"name":"\u001b]0;x\u0007\\u001b\n\"y"}}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"a\u{9b}31m\"}",
    ] {
        wrapped.send_line(line);
        wrapped.next_line();
    }
    wrapped.end();
    let file = folder.path().join("hostile.pcapng");
    let done = mcptap().args(["export", "--db"]).arg(&db).args(["latest", "-o"]).arg(&file).finished();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    for columns in [&["_ws.col.Info"][..], &["mcp.id", "mcp.method", "mcp.tool", "mcp.session"]] {
        let mut command = Command::new("tshark");
        command.args(["-X", PLUGIN, "-Y", "mcptap", "-T", "fields", "-r"]).arg(&file);
        command.args(columns.iter().flat_map(|column| ["-e", column]));
        let shown = String::from_utf8(command.finished().stdout).expect("UTF-8");
        assert!(shown.contains(r#"\u001b]0;x\u0007\u001b\n"y"#) && shown.contains(r"a\u009b31m"), "{shown:?}");
        let is_control = |char: &char| char.is_control() && !['\n', '\t'].contains(char);
        assert_eq!(shown.chars().filter(is_control).count(), 0, "{shown:?}");
    }
}

#[test]
fn sessions_requests_and_latencies_have_fields() {
    if !needs::have_program(&needs::TSHARK) {
        return;
    }
    let capture = crate::program::data("captures/02b_shttp_json_stateful/capture.pcap");
    let lines = json(&["read", "--json"], &capture);
    let messages = of_type(&lines, "message");
    let last_packet = |message: &Value| message["packets"].as_array().and_then(|all| all.last()?.as_u64());
    let packet_of: BTreeMap<u64, u64> =
        messages.iter().filter_map(|message| Some((message["number"].as_u64()?, last_packet(message)?))).collect();
    let wanted: Vec<[String; 2]> = messages
        .iter()
        .filter_map(|message| {
            let request = packet_of[&message["answers"].as_u64()?];
            let latency = message["latency_ns"].as_u64()?;
            Some([request.to_string(), format!("{}.{:09}", latency / 1_000_000_000, latency % 1_000_000_000)])
        })
        .collect();
    let shown = fields(&capture, &[], &["mcp.response_to", "mcp.latency", "mcp.session"]);
    let pairs: Vec<[String; 2]> = shown
        .iter()
        .filter(|fields| !fields[0].is_empty())
        .map(|fields| [fields[0].clone(), fields[1].clone()])
        .collect();
    assert!(pairs.len() > 20, "{pairs:?}");
    assert_eq!(pairs, wanted);
    let session = of_type(&lines, "session").last().and_then(|session| session["session_id"].as_str()).expect("an id");
    // The first message is sent before the server assigns the id.
    assert!(shown[1..].iter().all(|fields| fields[2] == session), "{shown:?}");

    let folder = tempfile::tempdir().expect("a folder");
    let file = exported(&crate::program::root().join("samples/causes/healthy/stdio.pcapng"), folder.path());
    let shown = fields(&file, &[], &["mcp.session", "mcp.response_to", "mcp.latency"]);
    assert!(shown.iter().all(|fields| fields[0].contains(", process ")), "{shown:?}");
    assert!(shown.iter().any(|fields| !fields[1].is_empty() && !fields[2].is_empty()), "{shown:?}");
}

/// Wireshark with folders of its own, so that a test changes nothing of the tester.
///
/// Wireshark 4.0 has extcap programs only in a folder for all users, and ignores the variable with
/// another one if root runs it. So a folder of the test is mounted there, in a mount namespace.
#[cfg(feature = "live")]
struct Home {
    folder: tempfile::TempDir,
    /// The folder of Wireshark for all users.
    system: PathBuf,
}

#[cfg(feature = "live")]
impl Home {
    /// `None` if this machine lacks something.
    fn new() -> Option<Home> {
        if !needs::have_program(&needs::TSHARK) {
            return None;
        }
        let done = Command::new("tshark").args(["-G", "folders"]).env_remove("WIRESHARK_EXTCAP_DIR").finished();
        let folders = String::from_utf8_lossy(&done.stdout).into_owned();
        let system = folders.lines().find_map(|line| line.strip_prefix("Extcap path:")).expect("an extcap folder");
        let home = Home { folder: tempfile::tempdir().expect("a folder"), system: PathBuf::from(system.trim()) };
        std::fs::create_dir(home.extcap()).expect("writable");
        let is_here = rustix::process::geteuid().is_root()
            && home.command("true").try_finished().is_ok_and(|done| done.status.success());
        needs::have(&needs::MOUNTS, is_here).then_some(home)
    }

    /// The folder that is mounted as that of Wireshark.
    fn extcap(&self) -> PathBuf {
        self.folder.path().join("extcap")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";
        command.args(["-m", "sh", "-c", script]).args([&self.extcap(), &self.system]).arg(program);
        for (name, value) in mcptap().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let home = self.folder.path();
        command.env("HOME", home).env("XDG_CONFIG_HOME", home.join("config")).env_remove("WIRESHARK_EXTCAP_DIR");
        // With it, files would be added for all users of this machine.
        command.env_remove("SUDO_UID");
        command
    }

    /// Runs `mcptap wireshark`. Returns its exit status and standard error.
    fn mcptap(&self, action: &str) -> (Option<i32>, String) {
        let done = self.command(env!("CARGO_BIN_EXE_mcptap")).args(["wireshark", action]).finished();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    }

    fn tshark(&self, arguments: &[&str]) -> String {
        let done = self.command("tshark").args(arguments).finished();
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// All files and folders.
    fn tree(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.folder.path().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).expect("readable") {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    open.push(path.clone());
                }
                found.insert(path);
            }
        }
        found
    }
}

#[test]
#[cfg(feature = "live")]
fn uninstall_removes_what_install_added_and_nothing_else() {
    let Some(home) = Home::new() else { return };
    let before = home.tree();
    for _ in 0..2 {
        let (code, said) = home.mcptap("install");
        assert!(code == Some(0) && said.contains("added "), "{said}");
    }
    let program = home.extcap().join("mcptap");
    assert!(program.is_file() && home.tree().iter().any(|path| path.ends_with("mcptap.lua")));
    let fields = home.tshark(&["-G", "fields"]);
    for name in ["method", "tool", "id", "session", "kind", "response_to", "latency"] {
        assert!(fields.contains(&format!("\tmcp.{name}\t")), "mcp.{name}");
    }
    assert_eq!(home.mcptap("uninstall").0, Some(0));
    assert_eq!(home.tree(), before);

    // Another program's file of the same name stays, and nothing is added beside it.
    std::fs::write(&program, "mine").expect("writable");
    let (code, said) = home.mcptap("install");
    assert!(code == Some(2) && said.contains("is there already"), "{said}");
    assert_eq!(home.mcptap("uninstall").0, Some(0));
    assert_eq!(std::fs::read_to_string(&program).expect("it stayed"), "mine");
    assert!(!home.tree().iter().any(|path| path.ends_with("mcptap.lua")));
}

#[test]
#[cfg(feature = "live")]
fn wireshark_captures_through_the_interface_of_mcptap() {
    use std::process::Stdio;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::sniff::Server;
    use crate::support::waits::finished;

    let Some(home) = Home::new() else { return };
    assert_eq!(home.mcptap("install").0, Some(0));
    let interfaces = home.tshark(&["-D"]);
    assert!(interfaces.contains("mcptap (MCP on this host)"), "{interfaces}");

    let server = Server::start();
    let filter = server.filter();
    let file = home.folder.path().join("captured.pcapng");
    let mut command = home.command("tshark");
    command.args(["-i", "mcptap", "-f", &filter, "-c", "40", "-w"]).arg(&file);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tshark runs");
    // Requests are sent until tshark has what it wants: nobody says when the capture has begun.
    let is_over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in (0..).step_by(4).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                server.ask(id..id + 4);
            }
        });
        let done = finished(child, "tshark");
        is_over.store(true, Ordering::Relaxed);
        done
    });
    let problems = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{problems}");
    let (shown, read) = (shown(&file, &[]), read(&file, &[]));
    assert!(!shown.is_empty(), "{problems}");
    assert_eq!(without(&shown, &read), Vec::<Shown>::new());
}

/// A server that runs already, captured through the other interface.
#[test]
#[cfg(all(feature = "live", feature = "attach", target_os = "linux"))]
fn wireshark_captures_the_pipes_of_a_running_server() {
    use std::io::Write;
    use std::process::Stdio;
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::support::waits::{ProcessEnd, finished};
    use crate::wrapped::request;

    let Some(home) = Home::new() else { return };
    assert_eq!(home.mcptap("install").0, Some(0));
    let mut server = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat runs");
    let mut stdin = server.stdin.take().expect("a pipe");
    let mut stdout = std::io::BufReader::new(server.stdout.take().expect("a pipe"));
    let file = home.folder.path().join("captured.pcapng");
    let mut command = home.command("tshark");
    command.args(["-i", "mcptap-stdio", "-o", &format!("extcap.mcptap_stdio.process:{}", server.id())]);
    command.args(["-c", "12", "-w"]).arg(&file);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("tshark runs");
    let is_over = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                writeln!(stdin, "{}", request(id)).expect("the server reads");
                crate::wrapped::line(&mut stdout);
            }
        });
        let done = finished(child, "tshark");
        is_over.store(true, Ordering::Relaxed);
        done
    });
    server.killed();
    let problems = String::from_utf8_lossy(&done.stderr);
    if problems.contains("the kernel does not permit it") || problems.contains("this kernel has no description") {
        return needs::refused(&problems);
    }
    assert!(done.status.success(), "{problems}");
    let (shown, read) = (shown(&file, &[]), read(&file, &[]));
    assert!(shown.len() > 5, "{problems}");
    assert_eq!(
        shown.iter().map(|shown| &shown[1]).collect::<Vec<_>>(),
        read.iter().map(|read| &read[1]).collect::<Vec<_>>()
    );
}
