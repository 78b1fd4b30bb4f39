//! The first commands of a new user: the demo, the doctor, and the servers in a client's
//! configuration.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::program::{NO_STATE, mcptap, root};
use crate::support::waits::{Finishes, finished};

#[test]
fn the_demo_finds_the_call_that_hangs() {
    let cache = tempfile::tempdir().unwrap();
    let done = mcptap().args(["demo"]).env("XDG_CACHE_HOME", cache.path()).finished();
    assert!(done.status.success());
    let (said, next) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    let story = [
        "the assistant hangs",
        "notifications/cancelled",
        "What happened?",
        "The server never answered tools/call get_weather (message 6).",
        "streamable-http",
        "http-sse",
        "stdio  Directorio",
        "4 sessions · 28 messages",
    ];
    let places: Vec<_> = story.iter().map(|part| said.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {said}");
    // The printed commands work.
    let command = said.lines().find_map(|line| line.trim().strip_prefix("mcptap show ")).expect("a next step");
    let done = mcptap().arg("show").args(command.split(' ')).finished();
    let message = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && message.contains("get_weather"), "{message}");
    assert!(next.lines().skip(2).all(|line| line.starts_with("  mcptap ")) && next.contains("mcptap attach"), "{next}");
}

/// The environment variable replaces `--db` and is no argument of a command.
#[test]
fn the_database_may_be_named_in_the_environment() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("elsewhere.db");
    let said = |words: &[&str]| {
        let done = mcptap().env("MCPTAP_DB", &database).args(words).finished();
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let (code, error) = said(&["show", "--db"]);
    assert!(code == Some(2) && error.contains("--db <PATH>"), "{error}");
    let (code, error) = said(&["show"]);
    assert!(code == Some(2) && error.contains("there is no database") && error.contains("elsewhere.db"), "{error}");
    let capture = root().join("samples/weather/capture.pcapng");
    assert_eq!(said(&["read", "--save", &capture.to_string_lossy()]).0, Some(0));
    assert!(database.is_file() && said(&["sessions"]).1.contains("weather-sample"));
}

#[test]
fn the_doctor_tries_everything() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("mcptap.db");
    let done = mcptap().arg("doctor").arg("--db").arg(&db).finished();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(
        said.contains("ok    wrap       a line passed through a wrapped \"cat\" and was recorded in both directions\n"),
        "{said}"
    );
    assert!(said.contains("will be created with the first recording"), "{said}");
    for way in ["keys-from", "attach   ", "run      ", "proxy    "] {
        assert_eq!(said.lines().filter(|line| line.get(6..15) == Some(way)).count(), 1, "{way}: {said}");
    }
    // The machine may forbid captures. The program has to report that.
    let can_capture = said.contains("ok    sniff      captured a packet that was sent over ");
    assert!(can_capture || said.contains("fail  sniff      no permission to capture on "), "{said}");
    assert_eq!(done.status.code(), Some(i32::from(!can_capture)), "{said}");
    assert!(!db.exists(), "it leaves nothing behind");
    // An impossible command prints the reason and returns its exit status.
    fs::write(&db, "no database").unwrap();
    let done = mcptap().arg("doctor").arg("--db").arg(&db).finished();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("fail  database   "), "{said}");
    assert_eq!(done.status.code(), Some(1));
}

/// A home folder with the configuration of one client. The configuration is a symbolic link, as of
/// users who store such files elsewhere.
struct Home(tempfile::TempDir);

impl Home {
    const CONFIGURATION: &str = r#"{
  // servers
  "mcpServers": {
    "echo": { "command": "cat", "args": ["-u"] },
    "other": {
      "command": "cat",
      "args": [
        "-" // standard input
      ]
    },
    "remote": { "url": "https://example.com/mcp" }
  }
}
"#;

    fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        fs::create_dir(home.path(".cursor")).unwrap();
        fs::write(home.path("kept.json"), Home::CONFIGURATION).unwrap();
        fs::set_permissions(home.path("kept.json"), Permissions::from_mode(0o600)).unwrap();
        symlink(home.path("kept.json"), home.path(".cursor/mcp.json")).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command in this home folder: its status, standard output and standard error.
    fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = mcptap();
        command.args(words).env("HOME", self.0.path()).env_remove("XDG_CONFIG_HOME").current_dir(self.0.path());
        let done = command.finished();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    }

    fn configuration(&self) -> String {
        fs::read_to_string(self.path("kept.json")).unwrap()
    }
}

#[test]
fn the_servers_of_a_client_are_recorded_until_that_is_undone() {
    let home = Home::new();
    let (code, said, _) = home.run(&["install"]);
    assert!(code == Some(0) && said.contains("echo            is not recorded         cat -u\n"), "{said}");
    let db = home.path("mcptap.db");
    let db = db.to_str().unwrap();
    let (code, _, told) = home.run(&["install", "--db", db, "cursor", "--dry-run"]);
    assert!(
        code == Some(0) && told.contains("nothing was changed") && home.configuration() == Home::CONFIGURATION,
        "{told}"
    );
    let (code, _, told) = home.run(&["install", "cursor", "nobody"]);
    assert_eq!(
        (code, told.as_str()),
        (Some(2), "mcptap: the configuration has no server \"nobody\"; it has: echo, other, remote\n")
    );
    let (code, said, told) = home.run(&["install", "--db", db, "cursor"]);
    assert!(code == Some(0) && told.starts_with("mcptap: 3 servers will be recorded"), "{told}");
    assert!(said.contains("remote          is recorded now         https://example.com/mcp\n"), "{said}");
    assert!(home.configuration().contains("\"-\" // standard input"), "{}", home.configuration());
    // The client starts the server by its changed configuration.
    let stripped: String = home
        .configuration()
        .lines()
        .map(|line| line.split(" // ").next().unwrap())
        .filter(|line| !line.starts_with("  //"))
        .collect();
    let configuration: serde_json::Value = serde_json::from_str(&stripped).unwrap();
    let server = &configuration["mcpServers"]["echo"];
    let words = server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let mut client = Command::new(server["command"].as_str().unwrap())
        .args(words)
        .env(NO_STATE.0, NO_STATE.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    client.stdin.take().unwrap().write_all(ping).unwrap();
    assert_eq!(finished(client, "a wrapped server").stdout, ping);
    let (_, sessions, _) = home.run(&["sessions", db]);
    assert!(sessions.contains("echo"), "{sessions}");
    // A second run changes nothing. An uninstallation removes everything.
    let wrapped = home.configuration();
    assert_eq!(home.run(&["install", "cursor"]).2, "mcptap: already recorded\n");
    assert_eq!(home.configuration(), wrapped);
    let (code, _, told) = home.run(&["uninstall"]);
    assert!(code == Some(0) && told.starts_with("mcptap: 3 servers will not be recorded"), "{told}");
    assert_eq!(home.configuration(), Home::CONFIGURATION);
    assert_eq!(fs::metadata(home.path("kept.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(home.path(".cursor/mcp.json")).unwrap().is_symlink());
    assert_eq!(home.run(&["uninstall"]).2, "mcptap: no server is recorded\n");
}

/// Some clients use TOML for their configuration.
#[test]
fn a_configuration_in_toml_is_changed_in_place_too() {
    let home = Home::new();
    let path = home.path(".codex/config.toml");
    let before = "# mine\n[mcp_servers.echo]\ncommand = \"cat\" # says what it hears\nargs = [\"-u\"]\n";
    fs::create_dir(home.path(".codex")).unwrap();
    fs::write(&path, before).unwrap();
    let db = home.path("mcptap.db");
    let (code, _, told) = home.run(&["install", "--db", db.to_str().unwrap(), "codex"]);
    assert!(code == Some(0) && told.starts_with("mcptap: 1 server will be recorded"), "{told}");
    let wrapped = fs::read_to_string(&path).unwrap();
    let own = env!("CARGO_BIN_EXE_mcptap");
    let db = db.to_str().unwrap();
    let arguments = format!(r#"["--db", "{db}", "wrap", "--name", "echo", "--", "cat", "-u"]"#);
    let expected =
        format!("# mine\n[mcp_servers.echo]\ncommand = \"{own}\" # says what it hears\nargs = {arguments}\n");
    assert_eq!(wrapped, expected);
    assert_eq!(home.run(&["uninstall", "codex"]).0, Some(0));
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    fs::write(&path, "a = 1\n[mcp_servers\n").unwrap();
    let (code, _, told) = home.run(&["install", "codex"]);
    assert!(code == Some(2) && told.contains(": line 2: ") && told.lines().count() == 1, "{told}");
}

/// The MCP server of mcptap as a server of a client. It is recorded only if it is named.
#[cfg(feature = "agents")]
#[test]
fn the_server_of_mcptap_is_added_to_a_client_and_removed() {
    let home = Home::new();
    let db = home.path("mcptap.db");
    let db = db.to_str().unwrap();
    let (code, _, told) = home.run(&["install", "--self", "--db", db, "cursor", "--dry-run"]);
    assert!(code == Some(0) && told.contains("nothing was changed"), "{told}");
    assert_eq!(home.configuration(), Home::CONFIGURATION);
    let (code, _, told) = home.run(&["install", "--self", "--db", db, "cursor"]);
    assert!(code == Some(0) && told.contains("has the server mcptap from the next start"), "{told}");
    let added = home.configuration();
    assert!(added.contains("\"mcptap\"") && added.contains("\"mcp\"") && added.contains(db), "{added}");
    assert!(home.run(&["install", "--self", "cursor"]).2.contains("already"));
    let (code, said, _) = home.run(&["install", "cursor"]);
    assert!(code == Some(0) && said.contains("mcptap          is not recorded"), "{said}");
    let (code, said, _) = home.run(&["install", "cursor", "mcptap"]);
    assert!(code == Some(0) && said.contains("mcptap          is recorded now"), "{said}");
    assert_eq!(home.run(&["uninstall"]).0, Some(0));
    assert_eq!(home.configuration(), added);
    let (code, _, told) = home.run(&["uninstall", "--self"]);
    assert!(code == Some(0) && told.contains("no longer"), "{told}");
    assert_eq!(home.configuration(), Home::CONFIGURATION);
    assert!(home.run(&["uninstall", "--self"]).2.contains("no client has the server of mcptap"));

    // A client without a configuration gets one, which goes with its only entry.
    for (client, file) in [
        ("kiro", ".kiro/settings/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("opencode", ".config/opencode/opencode.json"),
    ] {
        assert_eq!(home.run(&["install", "--self", client]).0, Some(0));
        assert!(fs::read_to_string(home.path(file)).unwrap().contains("\"mcp\""), "{client}");
        assert_eq!(home.run(&["uninstall", "--self", client]).0, Some(0));
        assert!(!home.path(file).exists(), "{client}");
    }
    assert_eq!(
        home.run(&["install", "--self", "continue"]).0,
        Some(2),
        "a configuration of YAML has more than servers"
    );
}

#[test]
fn a_configuration_that_cannot_be_read_is_left_alone() {
    let home = Home::new();
    fs::write(home.path("kept.json"), "{ \"mcpServers\": ").unwrap();
    let (code, _, told) = home.run(&["install", "cursor"]);
    assert!(code == Some(2) && told.contains("cannot read ") && told.contains("mcp.json"), "{told}");
    assert_eq!(home.configuration(), "{ \"mcpServers\": ");
    assert_eq!(home.run(&["install", "zed"]).0, Some(2), "it is not here");
    // Texts in the configuration of a project do not act on the terminal.
    fs::write(home.path("kept.json"), r#"{"mcpServers":{"a\u001b[31m":{"command":"b\u001b[2J"}}}"#).unwrap();
    for words in [&["install"][..], &["install", "cursor", "c"]] {
        let (_, said, told) = home.run(words);
        let both = said + &told;
        assert!(both.contains("␛[31m") && !both.contains('\u{1b}'), "{both}");
    }
    let (code, _, told) = home.run(&["install", "no-such-client"]);
    let clients = told.split(['(', ')']).nth(1).expect("a list of clients");
    assert!(code == Some(2) && clients.split(", ").count() >= 17 && clients.contains(", goose, "), "{told}");
    let help = home.run(&["install", "--help"]).1.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(help.contains(clients), "the help lists other clients than {clients}: {help}");
    let misspelt = "mcptap: \"cusor\" is neither a client nor a file: did you mean cursor?\n";
    assert_eq!(home.run(&["install", "cusor"]), (Some(2), String::new(), misspelt.to_owned()));
    fs::write(home.path("kept.json"), "{}").unwrap();
    assert_eq!(home.run(&["install", home.path("kept.json").to_str().unwrap()]).0, Some(1), "there is no server in it");
}

#[test]
fn sessions_that_went_on_at_once_are_one_diagram() {
    let capture = root().join("samples/helpdesk/capture.pcapng");
    let export = |words: &[&str]| {
        let done = mcptap().args(["export", "--format", "mermaid"]).arg(&capture).args(words).finished();
        assert!(done.status.success());
        String::from_utf8(done.stdout).unwrap()
    };
    let all = export(&[]);
    let arrows: Vec<&str> = all.lines().filter(|line| line.contains(": ") && !line.contains("Note over")).collect();
    assert_eq!((all.lines().next(), arrows.len()), (Some("sequenceDiagram"), 9), "{all}");
    assert!(arrows[0].starts_with("    C1->>S1: 1 tools/call create_incident"), "{all}");
    assert!(arrows[8].starts_with("    S2-->>C2: 9 send_mail ok"), "{all}");
    let second = export(&["--session", "2"]);
    assert!(second.contains("C2->>S2: 8 send_mail") && !second.contains("C1"), "{second}");
    assert!(!export(&["--filter", "method = send_mail"]).contains("create_incident"));
}
