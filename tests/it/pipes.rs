//! Any bytes in the pipes of a wrapped server, and their recording.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::{fs, thread};

use base64::Engine;
use serde_json::{Value, json};

use crate::program::mcptap;
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd, joined};
use crate::wrapped::{
    ANSWERS, Follower, Wrapped, await_session, of_type, recorded, request, temporary_database, texts,
};

/// The standard output of a server, in the pieces in which it writes them.
const SAID: [&[u8]; 8] = [
    b"Traceback (most recent call last):\n  File \"server.py\", line 1\nValueError: \x1b[31mno\x1b[0m\n",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/one\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/two\"}\n{\"json",
    b"rpc\":\"2.0\",\"method\":",
    b"\"notifications/three\"}\r\n",
    b"\r\n\n",
    b"\xff\xfe\x00\x01 binary junk\n",
    b"{\n  \"jsonrpc\": \"2.0\"\n}\n",
    b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no-end\"}",
];

/// A wrapper whose server writes one of `pieces` for each line of the host.
fn server(db: &std::path::Path, folder: &std::path::Path, pieces: &[&[u8]]) -> Wrapped {
    for (number, piece) in pieces.iter().enumerate() {
        fs::write(folder.join(number.to_string()), piece).expect("the disk has room");
    }
    let mut command = mcptap();
    command.args(["wrap", "--db"]).arg(db).args([
        "--",
        "sh",
        "-c",
        r#"n=0; while read -r x; do cat "$0/$n"; n=$((n+1)); done"#,
    ]);
    command.arg(folder);
    Wrapped::start(command)
}

#[test]
fn any_output_passes_at_once_unchanged_and_is_recorded() {
    let (folder, db) = temporary_database();
    let mut wrapped = server(&db, folder.path(), &SAID);
    for piece in SAID {
        wrapped.send_line(&request(1));
        let mut passed = vec![0; piece.len()];
        wrapped.stdout.read_exact(&mut passed).expect("a line that has no end passes too");
        assert_eq!(passed, piece);
    }
    assert!(wrapped.end().status.success());
    let lines = recorded(&db);
    let said: Vec<(Value, Vec<u8>)> = of_type(&lines, "message")
        .into_iter()
        .filter(|message| message["direction"] == "server-to-client")
        .map(|message| (message["kind"].clone(), raw(message)))
        .collect();
    let notification = |name: &str| format!(r#"{{"jsonrpc":"2.0","method":"notifications/{name}"}}"#).into_bytes();
    let expected = [
        ("invalid", b"Traceback (most recent call last):".to_vec()),
        ("invalid", b"  File \"server.py\", line 1".to_vec()),
        ("invalid", b"ValueError: \x1b[31mno\x1b[0m".to_vec()),
        ("notification", notification("one")),
        ("notification", notification("two")),
        ("notification", notification("three")),
        ("invalid", b"\xff\xfe\x00\x01 binary junk".to_vec()),
        ("invalid", b"{".to_vec()),
        ("invalid", b"  \"jsonrpc\": \"2.0\"".to_vec()),
        ("invalid", b"}".to_vec()),
        ("notification", notification("no-end")),
    ];
    assert_eq!(said, expected.map(|(kind, raw)| (json!(kind), raw)));
    let rules: Vec<_> = of_type(&lines, "finding").iter().map(|finding| finding["rule"].clone()).collect();
    for rule in ["stdio-stdout-not-mcp", "stdio-framing-noise", "stdio-unterminated-line"] {
        assert!(rules.contains(&json!(rule)), "{rule}: {rules:?}");
    }
}

/// The bytes of a message as they were transmitted.
fn raw(message: &Value) -> Vec<u8> {
    match message["raw"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => base64::prelude::BASE64_STANDARD
            .decode(message["raw_base64"].as_str().expect("text or bytes"))
            .expect("base64"),
    }
}

#[test]
fn a_line_of_64_mb_passes_and_is_one_message() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, "head -c 67108864 | wc -c; cat");
    let text = "x".repeat((64 << 20) - 50);
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"text":"{text}"}}}}"#);
    let rest = line[64 << 20..].to_owned();
    let mut stdin = wrapped.stdin.take().expect("stdin is open");
    let all = thread::spawn(move || {
        writeln!(stdin, "{line}").expect("the server reads");
        (stdin, line)
    });
    assert_eq!(wrapped.next_line().trim(), "67108864");
    assert_eq!(wrapped.next_line(), rest);
    let (stdin, line) = joined(all, "a line to be written");
    wrapped.stdin = Some(stdin);
    // That many bytes take time. They are recorded before the server ends, because the wrapper
    // records only for a moment after that.
    await_session(&db);
    let mut follower = Follower::start(&db);
    // The output of `wc` may be the first message, because the end of the line was still in
    // transit.
    let messages = [1, 2].map(|number| follower.await_message(number));
    assert!(messages.iter().any(|message| message["raw"] == line), "one message, as it was");
    let ended = wrapped.end();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", ended.stderr);
}

/// Node gives its children sockets where other hosts give pipes.
#[test]
fn a_host_may_give_sockets() {
    let (_folder, db) = temporary_database();
    let [(stdin, its_stdin), (stdout, its_stdout)] = [(); 2].map(|()| UnixStream::pair().expect("a pair of sockets"));
    let mut command = mcptap();
    command.args(["wrap", "--db"]).arg(&db).args(["--", "cat"]);
    let mut child = command
        .stdin(OwnedFd::from(its_stdin))
        .stdout(OwnedFd::from(its_stdout))
        .stderr(Stdio::null())
        .spawn()
        .expect("mcptap runs");
    // The command holds the other ends while it lives.
    drop(command);
    let sent: String = (0..2_000).map(|id| request(id) + "\n").collect();
    let writer = thread::spawn({
        let sent = sent.clone();
        move || {
            (&stdin).write_all(sent.as_bytes()).expect("it reads");
            stdin
        }
    });
    let mut stdout = Patient::new(&stdout, "the wrapper to write");
    let mut received = vec![0; sent.len()];
    stdout.read_exact(&mut received).expect("as much as was written");
    assert!(received == sent.as_bytes(), "as it was written");
    let stdin = joined(writer, "all to be written");
    // After the end of the server the wrapper records only for a moment.
    await_session(&db);
    Follower::start(&db).await_message(4_000);
    stdin.shutdown(Shutdown::Write).expect("a socket");
    assert_eq!(stdout.read(&mut received).expect("the end"), 0);
    assert!(child.ended("mcptap").success());
    assert_eq!(texts(&recorded(&db), "client-to-server").len(), 2_000);
}

#[test]
fn a_recording_has_the_command_and_times_but_no_environment() {
    let (_folder, db) = temporary_database();
    let mut wrap: Command = mcptap();
    wrap.args(["wrap", "--name", "the server", "--db"]).arg(&db).args(["--", "sh", "-c", "echo $$; exec cat", "word"]);
    wrap.env("ITS_TOKEN", "of-the-environment");
    let mut wrapped = Wrapped::start(wrap);
    let process: u32 = wrapped.next_line().parse().expect("a process id");
    wrapped.send_line(&request(1));
    wrapped.next_line();
    assert!(wrapped.end().status.success());
    let lines = recorded(&db);
    let session = of_type(&lines, "session")[0];
    assert_eq!(
        session["peers"],
        json!({ "command": ["sh", "-c", "echo $$; exec cat", "word"], "pid": process, "name": "the server" })
    );
    assert!(session["started"].as_str() < session["ended"].as_str(), "{session}");
    assert_eq!((&session["exit"], &session["transport"]), (&json!({ "code": 0 }), &json!("stdio")));
    let folder = fs::read_dir(db.parent().expect("a folder")).expect("it can be listed");
    for file in folder.map(|entry| entry.expect("an entry").path()) {
        let bytes = fs::read(&file).expect("it can be read");
        assert!(memchr::memmem::find(&bytes, b"of-the-environment").is_none(), "{}", file.display());
    }
    let layers = mcptap().args(["layers", "latest", "--message", "2", "--db"]).arg(&db).finished();
    let layers = String::from_utf8(layers.stdout).expect("text is UTF-8");
    assert!(layers.starts_with("link, network, transport: none (a pipe inside one machine)"), "{layers}");
}

#[test]
fn an_equal_call_after_one_without_an_answer_is_a_likely_retry() {
    let operations = |script: &str| {
        let (_folder, db) = temporary_database();
        let mut wrapped = Wrapped::shell(&db, script);
        wrapped.send_line(&request(1));
        wrapped.send_line(&request(2));
        while wrapped.next_line() != r#"{"jsonrpc":"2.0","id":2,"result":{}}"# {}
        wrapped.end();
        let lines = recorded(&db);
        of_type(&lines, "message").into_iter().map(|message| message["operation"].clone()).collect::<Vec<_>>()
    };
    let deaf = format!("read -r line; n=1; {}", ANSWERS.strip_prefix("n=0; ").expect("a script"));
    let retry = json!({"first": 1, "continues": 1, "why": "retry", "likely": true});
    let answer = json!({"first": 1, "continues": 2, "why": "answer"});
    assert_eq!(operations(&deaf), [json!({"first": 1}), retry, answer]);
    assert_eq!(operations(ANSWERS), vec![Value::Null; 4], "two calls at the same time");
}
