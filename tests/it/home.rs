//! What people meet first: the list of sessions, the latest recording, and the words that lead to
//! the next command.

use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wrapped::{ANSWERS, Follower, Wrapped, await_session, json, of_type, recorded, temporary_database};

/// Standard output, standard error and the exit status of a command on a database.
fn run(db: &Path, words: &[&str]) -> (String, String, Option<i32>) {
    let done = mcptap().arg("--db").arg(db).args(words).stdin(Stdio::null()).finished();
    let text = |bytes| String::from_utf8(bytes).expect("text is UTF-8");
    (text(done.stdout), text(done.stderr), done.status.code())
}

#[test]
fn a_replay_is_listed_as_one_and_the_latest_session_stays_the_recording() {
    let (_folder, db) = temporary_database();
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..3);
    // A host reads only what its server wrote. On a terminal the session is named.
    let ended = wrapped.end();
    assert_eq!((ended.stderr.as_str(), ended.recorded), ("", None));
    assert!(run(&db, &["replay", "1", "--", "sh", "-c", ANSWERS]).1.ends_with("mcptap: saved as session 2\n"));
    assert_eq!(run(&db, &["replay", "1", "--", "false"]).2, Some(2));

    let (listed, ..) = run(&db, &["sessions"]);
    let rows: Vec<&str> = listed.lines().collect();
    assert!(rows.len() == 4 && rows[1].contains("replay of 1: ") && rows[2].starts_with("   1 "), "{listed}");
    assert_eq!(rows[3], "not listed: 1 failed replay (--all lists everything)");
    assert_eq!(run(&db, &["sessions", "--all"]).0.lines().count(), 4);
    assert_eq!(run(&db, &["sessions", "--limit", "1"]).0.lines().count(), 3);
    let replayed = |line: &serde_json::Value| line.get("replay_of").cloned();
    let lines = json(&["sessions"], &db);
    assert_eq!(lines.iter().map(replayed).collect::<Vec<_>>(), [None, Some(json!(1)), Some(json!(1))]);

    for view in [&["show"][..], &["check", "--fail-on", "never"], &["layers"], &["export", "-f", "jsonl"]] {
        let (out, note, code) = run(&db, view);
        assert!(code == Some(0) && !out.is_empty(), "{view:?}: {note}");
        assert_eq!(note, format!("mcptap: session 1 of {}\n", db.display()), "{view:?}");
    }
    // The recorded command is offered. Nobody answers a question here, so it is printed.
    let (_, offer, code) = run(&db, &["replay", "1"]);
    assert!(code == Some(2) && offer.contains("mcptap replay 1 -- sh -c 'n=0; while read"), "{offer}");
}

#[test]
fn sessions_are_chosen_by_their_messages_and_sorted_by_a_column() {
    let (_folder, db) = temporary_database();
    for sample in ["samples/causes/crash-in-call/stdio.pcapng", "samples/weather/capture.pcapng"] {
        assert_eq!(run(&db, &["read", "--save", &root().join(sample).to_string_lossy()]).2, Some(0));
    }
    let numbers = |words: &[&str]| -> Vec<String> {
        let (listed, error, code) = run(&db, &[&["sessions"], words].concat());
        assert_eq!(code, Some(0), "{error}");
        let rows = listed.lines().skip(1).filter(|row| row.starts_with("   "));
        rows.map(|row| row.split_whitespace().next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(numbers(&[]), ["2", "1"]);
    assert_eq!(numbers(&["--sort", "open"]), ["1", "2"]);
    assert_eq!(numbers(&["--filter", "unanswered"]), ["1"]);
    assert_eq!(numbers(&["--filter", "client = weather-sample"]), ["2"]);
    assert_eq!(numbers(&["--filter", "slow"]), Vec::<String>::new());
}

#[test]
fn packets_that_were_saved_before_are_named() {
    let (_folder, db) = temporary_database();
    let capture = root().join("samples/weather/capture.pcapng");
    let save = || run(&db, &["read", "--save", &capture.to_string_lossy()]).1;
    let place = db.display();
    assert_eq!(save(), format!("mcptap: recorded as session 1 of {place}\n"));
    let again = "mcptap: the same packets were saved before, as session 1: \"mcptap delete\" removes one of them\n";
    assert_eq!(save(), format!("mcptap: recorded as session 2 of {place}\n{again}"));
}

#[test]
fn following_waits_for_a_recording_and_requests_without_a_response_are_open() {
    let (_folder, db) = temporary_database();
    let mut follower = Follower::start(&db);
    // A host that drops `--` still gets its server.
    let mut command = mcptap();
    command.args(["wrap", "--name", "slow", "--db"]).arg(&db).args([
        "sh",
        "-c",
        "cat >/dev/null",
        "--token=abcdefghij",
    ]);
    let mut wrapped = Wrapped::start(command);
    wrapped.send_line(&crate::wrapped::request(1));
    assert_eq!(follower.await_message(1)["kind"], "request");
    await_session(&db);
    let live = json(&["sessions"], &db);
    assert_eq!((&live[0]["open"], live[0].get("unanswered")), (&json!(1), None));
    assert_eq!(live[0]["name"], "slow");
    assert!(wrapped.end().status.success());
    follower.rest();
    let ended = recorded(&db);
    let ended = of_type(&ended, "session")[0];
    assert_eq!((&ended["unanswered"], ended.get("open")), (&json!(1), None));
    // A masked word is named, because the command would not work without it.
    let (_, offer, _) = run(&db, &["replay", "latest"]);
    assert!(offer.contains("the value of --token") && offer.contains("--token=VALUE"), "{offer}");
}

#[test]
fn words_of_other_programs_lead_to_the_command() {
    let (folder, db) = temporary_database();
    let folder = folder.path().to_string_lossy().into_owned();
    let nowhere = format!("{folder}/nowhere/page.html");
    let capture = root().join("samples/weather/capture.pcapng").to_string_lossy().into_owned();
    for (words, said) in [
        (&["ls"][..], "\"mcptap sessions\" lists recordings"),
        (&["list"], "\"mcptap sessions\" lists recordings"),
        (&["log"], "\"mcptap show\" prints a recording"),
        (&["rm"], "\"mcptap delete\" deletes recordings"),
        (&["show", "-m", "abc"], "the first column of \"mcptap show\""),
        (&["export", &capture, "-o", &nowhere], "there is no folder"),
        (&["export", &capture, "-o", &folder], "which format? "),
        (&["export", &capture, "-f", "har", "-o", &folder], "it is a folder: name a file in it"),
        (&["wrap", "files", "--", "sh"], "its name as --name files"),
        (&["read", &capture, "--filter", "Invalid params"], "or \"Invalid params\" to search for this text"),
    ] {
        let (_, error, code) = run(&db, words);
        assert!(code == Some(2) && error.contains(said), "{words:?}: {error}");
    }
    let (_, error, _) = run(Path::new(&folder), &["sessions"]);
    assert!(error.contains("it is a folder: name a file in it"), "{error}");
}
