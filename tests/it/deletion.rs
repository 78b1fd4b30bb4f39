//! Sessions that are deleted, pinned and pruned, while others record.

use std::fs;
use std::path::Path;
use std::process::Output;

use rusqlite::Connection;
use serde_json::Value;

use crate::faults::assert_sound;
use crate::program::{mcptap, root};
use crate::support::waits::{Finishes, ProcessEnd, finished, until};
use crate::wrapped::{ANSWERS, Wrapped, json, line, of_type, recorded, temporary_database, without_report};

/// A server that sends many messages, which take a deletion many steps.
const TALKS: &str = r#"seq 20000 | sed 's/.*/{"jsonrpc":"2.0","method":"notifications\/x","params":{"n":&}}/'"#;

fn run(db: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    said(mcptap().arg("--db").arg(db).args(words).finished())
}

fn said(done: Output) -> (Option<i32>, String, String) {
    let [out, errors] = [done.stdout, done.stderr].map(|said| String::from_utf8(said).expect("text is UTF-8"));
    (done.status.code(), out, errors)
}

/// Saves a sample.
fn save(db: &Path, sample: &str) {
    let capture = root().join("samples").join(sample).join("capture.pcapng");
    assert_eq!(run(db, &["read", "--save", capture.to_str().expect("UTF-8")]).0, Some(0));
}

/// Records a server in the language of `sh` to its end.
fn record(db: &Path, options: &[&str], script: &str) -> String {
    let mut wrap = mcptap();
    wrap.arg("--db").arg(db).arg("wrap").args(options).args(["--", "sh", "-c", script]);
    let (code, _, errors) = said(wrap.finished());
    assert_eq!(code, Some(0), "{errors}");
    without_report(&errors).0
}

/// The numbers of the sessions that a list shows.
fn sessions(db: &Path) -> Vec<u64> {
    json(&["sessions"], db).iter().map(|line| line["number"].as_u64().expect("a number")).collect()
}

fn number(db: &Path, sql: &str) -> i64 {
    Connection::open(db).and_then(|db| db.query_row(sql, [], |row| row.get(0))).expect(sql)
}

/// Checks that the file is whole, and that no row refers to one that is gone.
fn assert_consistent(db: &Path) {
    assert_sound(db);
    assert_eq!(number(db, "SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

/// Checks that no table has a row, except the names of rules.
fn assert_empty(db: &Path) {
    let tables = Connection::open(db).expect("it opens");
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('rule', 'sqlite_sequence')";
    let mut select = tables.prepare(sql).expect("a query");
    let names: Vec<String> = select.query_map([], |row| row.get(0)).expect("rows").map(|name| name.unwrap()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert_eq!(number(db, &format!("SELECT count(*) FROM {name}")), 0, "{name}");
    }
}

#[test]
fn what_belongs_to_no_remaining_session_goes_and_the_rest_stays_as_it_is() {
    let (_folder, db) = temporary_database();
    ["weather", "helpdesk"].iter().for_each(|sample| save(&db, sample));
    let seen = |session: &str| -> Vec<Vec<Value>> {
        let views: [&[&str]; 3] = [&["show"], &["layers"], &["check", "--fail-on", "never", "--format", "json"]];
        let json = |view: &[&str]| {
            let words = if view[0] == "check" { view.to_vec() } else { [view, &["--json"]].concat() };
            let (code, out, errors) = run(&db, &[&words[..], &[session]].concat());
            assert_eq!(code, Some(0), "{errors}");
            out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
        };
        views.map(json).into()
    };
    let packets = |session: &str| mcptap().arg("--db").arg(&db).args(["export", session, "-f", "pcapng"]).finished();
    let (before, packets_before) = (seen("3"), packets("3").stdout);
    assert!(before[0].len() > 2 && packets_before.len() > 1_000);
    let (streams, chunks) = ("SELECT count(*) FROM stream", "SELECT count(*) FROM packet_chunk");
    let rows = [number(&db, streams), number(&db, chunks)];

    let (code, out, errors) = run(&db, &["delete", "2", "--yes"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.starts_with("deleted session 2: 127.0.0.1:8932, 7 messages, "), "{out}");
    assert!(out.contains("\n1 session deleted; "), "{out}");
    assert_eq!(sessions(&db), [1, 3]);
    assert_consistent(&db);
    assert_eq!((seen("3"), packets("3").stdout), (before, packets_before), "of the same capture");
    assert!(number(&db, streams) < rows[0] && number(&db, chunks) < rows[1], "its streams and packets are gone");
    assert_eq!(run(&db, &["show", "2"]).0, Some(2));

    assert_eq!(run(&db, &["delete", "--before", "0s", "--yes"]).0, Some(0));
    assert_consistent(&db);
    assert_empty(&db);
    // A number is never used again.
    save(&db, "weather");
    assert_eq!(sessions(&db), [4]);
}

#[test]
fn nothing_is_deleted_by_mistake() {
    let (_folder, db) = temporary_database();
    assert_eq!(run(&db, &["delete", "1", "--yes"]).0, Some(2));
    assert!(!db.exists(), "a deletion makes no database");
    ["weather", "helpdesk"].iter().for_each(|sample| save(&db, sample));
    for (words, reason) in [
        (&["delete"][..], "required"),
        (&["delete", "1"], "1 session would be deleted: confirm with --yes"),
        (&["delete", "1", "9", "--yes"], "there is no session 9"),
        (&["delete", "one", "--yes"], "\"one\" is no number of a session"),
        (&["delete", "1", "--before", "1d", "--yes"], "cannot be used with"),
        (&["delete", "--before", "month", "--yes"], "not an age such as"),
        (&["delete", "--before=-1d", "--yes"], "not an age such as"),
        (&["delete", "--larger", "1 elephant", "--yes"], "not a size such as"),
        (&["pin", "9"], "there is no session 9"),
        (&["wrap", "--prune-older", "30d", "--", "true"], "--name"),
    ] {
        let (code, out, errors) = run(&db, words);
        assert!(code == Some(2) && out.is_empty() && errors.contains(reason), "{words:?}: {errors}");
    }
    assert_eq!(sessions(&db), [1, 2, 3]);
    // A new database has a free page, which the first deletion gives back.
    let (code, out, _) = run(&db, &["delete", "--before", "1d", "--larger", "1K", "--yes"]);
    assert!(code == Some(0) && out.starts_with("0 sessions deleted; "), "they were saved just now: {out}");
    // Size: session 1 with its packets takes some kilobytes, and no session a gigabyte.
    assert_eq!(run(&db, &["delete", "--larger", "1G", "--yes"]).1, "0 sessions deleted; 0 B given back\n");
    assert_eq!(run(&db, &["pin", "1", "3"]), (Some(0), "session 1 is pinned\nsession 3 is pinned\n".into(), "".into()));
    let listed = run(&db, &["sessions"]).1;
    let pinned: Vec<bool> = listed.lines().skip(1).map(|line| line.contains("pinned)")).collect();
    assert_eq!(pinned, [true, false, true], "{listed}");
    let stays = |number| format!("mcptap: session {number} stays: it is pinned (\"mcptap pin --unpin {number}\")\n");
    let (code, out, errors) = run(&db, &["delete", "1", "--yes"]);
    assert_eq!((code, out.as_str(), errors), (Some(1), "0 sessions deleted; 0 B given back\n", stays(1)));
    let (code, _, errors) = run(&db, &["delete", "--larger", "1K", "--yes"]);
    assert_eq!((code, errors), (Some(0), format!("{}{}", stays(1), stays(3))));
    assert_eq!(sessions(&db), [1, 3]);
    assert_eq!(run(&db, &["pin", "--unpin", "latest"]).1, "session 3 is no longer pinned\n");
    assert_eq!(run(&db, &["delete", "latest", "--yes"]).0, Some(0));
    assert_eq!(sessions(&db), [1]);
}

#[test]
fn a_wrap_records_all_while_two_deletions_run_and_the_file_gets_shorter() {
    let (_folder, db) = temporary_database();
    (0..2).for_each(|_| drop(record(&db, &[], TALKS)));
    let mut wrapped = Wrapped::shell(&db, ANSWERS);
    wrapped.converse(1..2);
    until("the third session", || sessions(&db).len() == 3);
    let (code, _, errors) = run(&db, &["delete", "3", "--yes"]);
    assert_eq!((code, errors.as_str()), (Some(1), "mcptap: session 3 stays: it is being recorded\n"));
    let delete = || {
        let mut delete = mcptap();
        delete.arg("--db").arg(&db).args(["delete", "1", "2", "--yes"]);
        delete.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("it runs")
    };
    let mut deletions = [delete(), delete()];
    let mut next = 2;
    until("the ends of the deletions", || {
        wrapped.converse(next..next + 10);
        next += 10;
        deletions.iter_mut().all(|deletion| deletion.try_wait().expect("a child").is_some())
    });
    let mut reported = 0;
    for deletion in deletions {
        let (code, out, errors) = said(finished(deletion, "a deletion"));
        // The later one may find that the sessions are gone.
        let late = ["there is no session", "was deleted meanwhile"].iter().any(|reason| errors.contains(reason));
        assert!(code == Some(0) && errors.is_empty() || late, "{out}{errors}");
        reported += out.matches("deleted session").count();
    }
    assert_eq!(reported, 2, "each deletion is reported once");
    // On a busy machine the recording lags, and it ends soon after its server.
    let stored = || number(&db, "SELECT count(*) FROM message WHERE session = 3");
    until("the recording of all messages", || stored() == 2 * (next as i64 - 1));
    let ended = wrapped.end();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{}", ended.stderr);
    assert_consistent(&db);
    let lines = recorded(&db);
    assert_eq!(of_type(&lines, "message").len(), 2 * (next - 1), "nothing of the recording is lost");
    assert_eq!(number(&db, "PRAGMA freelist_count"), 0, "the space of the sessions was given back");
    let pages = number(&db, "PRAGMA page_count") * number(&db, "PRAGMA page_size");
    assert_eq!(fs::metadata(&db).expect("a file").len(), pages as u64, "to the disk");
}

#[test]
fn a_killed_deletion_is_finished_by_the_next_one() {
    let (_folder, db) = temporary_database();
    save(&db, "weather");
    record(&db, &["--name", "talker"], TALKS);
    let holder = Connection::open(&db).expect("it opens");
    holder.busy_timeout(crate::support::waits::PATIENCE).expect("a timeout");
    let mut delete = mcptap();
    delete.arg("--db").arg(&db).args(["delete", "2", "--yes"]).stdout(std::process::Stdio::null());
    let mut deletion = delete.spawn().expect("it runs");
    let count = |sql: &str| holder.query_row(sql, [], |row| row.get::<_, i64>(0)).expect(sql);
    // Between two of its steps nobody else can write, so it is killed there.
    until("a step of the deletion", || {
        holder.execute_batch("BEGIN IMMEDIATE").expect("a pause of the deletion");
        let marked = count("SELECT count(*) FROM session WHERE deleting") == 1;
        if !marked {
            holder.execute_batch("COMMIT").expect("it is ours");
        }
        marked
    });
    deletion.killed();
    holder.execute_batch("COMMIT").expect("it is ours");
    let left = count("SELECT count(*) FROM message WHERE session = 2");
    assert!(left > 0, "it was killed before its end");
    assert_consistent(&db);
    assert_eq!(sessions(&db), [1], "no view shows half a session");
    let lines = recorded(&db);
    assert_eq!((of_type(&lines, "message").len(), of_type(&lines, "session").len()), (7, 1));
    let found = mcptap().args(["show", "--filter", "method = notifications/x", "--json"]).arg(&db).finished();
    assert_eq!(String::from_utf8_lossy(&found.stdout).matches("\"message\"").count(), 0);
    let checked = mcptap().args(["check", "--format", "json", "--fail-on", "never"]).arg(&db).finished();
    assert!(!String::from_utf8_lossy(&checked.stdout).contains("\"session\":2"));
    let doctor = run(&db, &["doctor"]).1;
    assert!(doctor.contains("  7 messages  "), "{doctor}");
    // A new recording comes between.
    record(&db, &[], "echo '{\"method\":\"x\"}'");
    drop(holder);
    let (code, out, errors) = run(&db, &["delete", "1", "3", "--yes"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.starts_with("an interrupted deletion of 1 session was finished\ndeleted session 1: "), "{out}");
    assert_consistent(&db);
    assert_empty(&db);
}

/// Databases of older versions cannot be shortened in steps. They are rewritten while nobody else
/// has them open.
#[test]
fn an_older_database_is_rewritten_once_if_nobody_else_uses_it() {
    let (_folder, db) = temporary_database();
    fs::copy(root().join("tests/databases/version-3.db"), &db).expect("a copy");
    (0..2).for_each(|_| drop(record(&db, &[], TALKS)));
    assert_eq!(number(&db, "PRAGMA auto_vacuum"), 0);
    let large = fs::metadata(&db).expect("a file").len();
    let other = Connection::open(&db).expect("it opens");
    let count = |db: &Connection| db.query_row("SELECT count(*) FROM session", [], |row| row.get::<_, i64>(0));
    assert_eq!(count(&other), Ok(6));
    let (code, out, errors) = run(&db, &["delete", "5", "--yes"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.contains("1 session deleted; 0 B given back; ") && out.contains(" free for new recordings\n"), "{out}");
    assert_eq!(count(&other), Ok(5), "the other program goes on");
    assert_eq!(number(&db, "PRAGMA auto_vacuum"), 0);
    drop(other);
    assert_eq!(fs::metadata(&db).expect("a file").len(), large);
    let (code, out, errors) = run(&db, &["delete", "6", "--yes"]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.ends_with(" MB given back\n"), "{out}");
    assert_eq!((number(&db, "PRAGMA auto_vacuum"), number(&db, "PRAGMA freelist_count")), (2, 0));
    assert!(fs::metadata(&db).expect("a file").len() < large / 2);
    assert_eq!(sessions(&db), [1, 2, 3, 4]);
    assert_consistent(&db);
}

#[test]
fn wrap_prunes_finished_sessions_of_its_own_name() {
    let (_folder, db) = temporary_database();
    let short = "echo '{\"method\":\"x\"}'";
    // 1 to 3 and 5 are of this name. 1 is large, 2 is pinned, and 5 is being recorded.
    record(&db, &["--name", "a"], "head -c 200000 /dev/urandom | base64 -w 0");
    (0..2).for_each(|_| drop(record(&db, &["--name", "a"], short)));
    record(&db, &["--name", "b"], short);
    assert_eq!(run(&db, &["pin", "2"]).0, Some(0));
    let mut live = mcptap();
    live.arg("--db").arg(&db).args(["wrap", "--name", "a", "--", "sh", "-c", ANSWERS]);
    let mut live = Wrapped::start(live);
    live.converse(1..2);
    until("the fifth session", || sessions(&db).len() == 5);
    // Young and small enough: nothing happens. Without the options: nothing happens.
    assert_eq!(record(&db, &["--name", "a", "--prune-older", "1d", "--prune-over", "1G"], short), "");
    assert_eq!(record(&db, &["--name", "a"], short), "");
    assert_eq!(sessions(&db), [1, 2, 3, 4, 5, 6, 7]);
    let pruned = |options: &[&str], numbers: &[u64]| {
        let mut wrap = mcptap();
        wrap.arg("--db").arg(&db).args(["wrap", "--name", "a"]).args(options).args(["--", "sh", "-c", ANSWERS]);
        let mut wrapped = Wrapped::start(wrap);
        for number in numbers {
            let report = format!("mcptap: pruning: session {number} of a was deleted");
            assert_eq!(line(&mut wrapped.stderr), report);
        }
        wrapped.converse(1..11);
        assert_eq!(wrapped.end().status.code(), Some(0));
    };
    pruned(&["--prune-over", "100K"], &[1]);
    pruned(&["--prune-older", "0s"], &[3, 6, 7, 8]);
    assert!(live.end().stderr.is_empty());
    assert_eq!(sessions(&db), [2, 4, 5, 9]);
    assert_eq!(of_type(&recorded(&db), "message").len(), 1 + 1 + 2 + 20);
    assert_consistent(&db);
}
