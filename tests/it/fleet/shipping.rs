//! Shipping beside recordings, and its rounds: nothing is lost while the storage is away, and
//! nothing that happens to a dataset disturbs a recording.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use super::engines::{S3, python};
use super::{keys, read, sample, text};
use crate::program::mcptap;
use crate::proxy::Proxying;
use crate::support::pipes::Patient;
use crate::support::signals::default_in_programs;
use crate::support::waits::{Finishes, ProcessEnd, joined};
use crate::wrapped::{ANSWERS, WrapOutput, Wrapped, line, of_type, recorded, temporary_database};

/// Wraps a server whose recording goes to a dataset, and calls it five times.
fn wrapped(db: &Path, dataset: &str) -> WrapOutput {
    let mut command = mcptap();
    // Nobody listens at this port.
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:1").env("AWS_REGION", "us-east-1");
    command.envs([("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
    command.args(["wrap", "--db"]).arg(db).args(["--dataset", dataset, "--", "sh", "-c", ANSWERS]);
    let mut wrapped = Wrapped::start(command);
    wrapped.converse(1..6);
    wrapped.end()
}

/// A recording passes and saves all, whatever its dataset is. One line says what is wrong with it.
#[test]
fn a_wrong_dataset_never_disturbs_a_recording() {
    for (dataset, line) in [
        ("ftp://host/dataset", "ftp:// is no storage"),
        ("s3://", "names no bucket"),
        ("s3://captures/mcp", "Connection refused"),
        ("/dev/null/dataset", "Not a directory"),
    ] {
        let (_folder, db) = temporary_database();
        let done = wrapped(&db, dataset);
        assert!(done.status.success(), "{dataset}: {}", done.stderr);
        assert_eq!(done.stderr.lines().count(), 1, "{dataset}: {}", done.stderr);
        assert!(done.stderr.contains(line), "{dataset}: {}", done.stderr);
        assert_eq!(of_type(&recorded(&db), "message").len(), 10, "{dataset}");
    }
}

/// What `wrap` and `proxy` recorded is in the dataset when they have ended, once.
#[test]
fn recorders_leave_all_of_a_recording_in_the_dataset() {
    let (folder, db) = temporary_database();
    let dataset = folder.path().join("dataset");
    let done = wrapped(&db, dataset.to_str().expect("a path"));
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), ""));
    assert_eq!(keys(&dataset, "messages").len(), 10);

    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("http://{}/mcp", server.local_addr().expect("an address"));
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let serving = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a connection");
        let mut requests = BufReader::new(stream.try_clone().expect("a copy"));
        while line(&mut requests).trim() != "" {}
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
        write!(stream, "{head} {}\r\n\r\n{answer}", answer.len()).expect("it reads");
    });
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let options = ["--dataset", dataset.to_str().expect("a path")];
    let proxying = Proxying::start(&db, &to, &options);
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length:";
    assert!(proxying.raw(&format!("{head} {}\r\n\r\n{call}", call.len())).contains(answer));
    joined(serving, "the answer of a server");
    let ended = proxying.end();
    assert_eq!((ended.status, ended.stderr.as_str()), (Some(0), ""));
    assert_eq!(of_type(&recorded(&db), "message").len(), 12);
    let rows = keys(&dataset, "messages");
    assert!(rows.len() == 12 && rows.values().all(|count| *count == 1), "{rows:?}");
}

/// `ship` starts before its storage, goes on while the storage is away, and sends all that is
/// missing once it is there. The server forgets its objects when it ends, so all is sent again.
#[test]
fn rounds_go_on_while_the_storage_is_away() {
    let Some(python) = python() else { return };
    let (folder, db) = temporary_database();
    let save = |name: &str| {
        let saved = mcptap().arg("--db").arg(&db).args(["read", "--save"]).arg(sample(name)).finished();
        assert!(saved.status.success(), "{}", text(&saved.stderr));
    };
    save("weather/capture.pcapng");
    let first = S3::start(&python, "0");
    let port = first.port.clone();
    let mut ship = mcptap();
    default_in_programs();
    ship.arg("--db").arg(&db).args(["ship", "--every", "1s", "--dataset", "s3://captures/mcp"]);
    first.known_to(&mut ship).stdout(Stdio::piped()).stderr(Stdio::piped());
    drop(first);
    let mut ship = ship.spawn().expect("mcptap runs");
    let mut notes = BufReader::new(Patient::new(ship.stderr.take().expect("a pipe"), "a note of ship"));
    let mut await_note = |end: &str| loop {
        let note = line(&mut notes);
        assert!(!note.is_empty(), "ship ended before it said: {end}");
        if note.ends_with(end) {
            return note;
        }
    };
    let away = "the recording goes on, and what is missing is sent later";
    for name in ["helpdesk/capture.pcapng", "websocket/capture.pcapng"] {
        assert!(await_note(away).contains("Connection refused"));
        save(name);
        let server = S3::start(&python, &port);
        await_note("is back: nothing was lost");
        drop(server);
    }
    await_note(away);
    let last = S3::start(&python, &port);
    await_note("is back: nothing was lost");
    let process = i32::try_from(ship.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(process, Signal::INT).expect("it lives");
    assert!(ship.ended("mcptap ship").success());
    let lines = BufReader::new(ship.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    assert_eq!(lines.collect::<Vec<_>>(), ["nothing new"]);
    // The bucket has each row of all three: nothing is added by decoding the captures themselves.
    let captures = ["weather/capture.pcapng", "helpdesk/capture.pcapng", "websocket/capture.pcapng"].map(sample);
    let local = folder.path().join("dataset");
    assert!(read(&local, &[], &captures).status.success());
    for capture in &captures {
        let mut again = mcptap();
        again.args(["read", "--dataset", "s3://captures/mcp"]).arg(capture);
        let again = last.known_to(&mut again).finished();
        assert!(text(&again.stdout).contains("messages: 0 added, "), "{}", text(&again.stdout));
    }
    assert!(keys(&local, "messages").len() > 20);
}
