//! The totals of a capture are the same in every view.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::decoded::{captures, name};
use crate::page::blocks;
use crate::program::{data, mcptap};
use crate::support::waits::Finishes;

/// The last line that a command prints for a capture.
fn last_line(command: &str, arguments: &[&str], path: &Path) -> String {
    let done = mcptap().arg(command).arg(path).args(arguments).finished();
    let output = String::from_utf8(done.stdout).expect("UTF-8");
    output.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn read_and_show_count_the_same() {
    let mut compared = 0;
    for path in captures() {
        let (read, show) = (last_line("read", &[], &path), last_line("show", &[], &path));
        // Without a session, `show` prints nothing and `read` explains why.
        if !read.starts_with("no MCP in ") {
            assert_eq!(read, show, "{}", name(&path));
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared} captures have sessions");
}

/// The outcomes of requests that a session object names.
fn outcomes(session: &Value) -> [u64; 5] {
    ["requests", "tool_errors", "errors", "cancelled", "unanswered"].map(|name| session[name].as_u64().unwrap_or(0))
}

/// The JSON lines of a command that are sessions, by number.
fn sessions(command: &str, arguments: &[&str], path: &Path) -> BTreeMap<u64, [u64; 5]> {
    let done = mcptap().arg(command).arg(path).args(arguments).finished();
    let output = String::from_utf8(done.stdout).expect("UTF-8");
    let lines = output.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let sessions = lines.filter(|line| line["type"] == "session");
    sessions.map(|session| (session["number"].as_u64().expect("a number"), outcomes(&session))).collect()
}

/// The outcomes in words, as `5 calls (2 ok, 1 error, 1 tool error, 1 cancelled, 0 unanswered)`.
fn words([requests, tool_errors, errors, cancelled, unanswered]: [u64; 5]) -> String {
    let count = |number: u64, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
    let ok = requests - tool_errors - errors - cancelled - unanswered;
    let mut parts = vec![format!("{ok} ok"), count(errors, "error")];
    parts.extend((tool_errors > 0).then(|| count(tool_errors, "tool error")));
    parts.extend((cancelled > 0).then(|| format!("{cancelled} cancelled")));
    parts.push(format!("{unanswered} unanswered"));
    format!("{} ({})", count(requests, "call"), parts.join(", "))
}

/// Each request counts once, and the same in every view: the lines of `read`, `show`, `sessions`
/// and the export, the totals in words, and the page. The terminal UI has a test of its own
/// (`tui/query_runner/calls.rs`).
#[test]
fn every_view_counts_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut compared = 0;
    for path in captures() {
        let read = sessions("read", &["--json"], &path);
        if read.is_empty() {
            continue;
        }
        let db = folder.path().join("all.db");
        let saved = mcptap().arg("--db").arg(&db).args(["read", "--save"]).arg(&path).finished();
        assert!(saved.status.success(), "{}", name(&path));
        for (command, arguments) in
            [("show", &["--json"][..]), ("sessions", &["--json"]), ("export", &["--format", "jsonl"])]
        {
            assert_eq!(sessions(command, arguments, &db), read, "{}: {command}", name(&path));
        }
        let sum = read.values().fold([0; 5], |sum, one| std::array::from_fn(|at| sum[at] + one[at]));
        // Of those that are ok, some may be negative. That is not an outcome.
        let without_negatives = |line: &str| match (line.find(" of them "), line.find(" negative,")) {
            (Some(from), Some(to)) => [&line[..from], &line[to + " negative,".len()..]].concat(),
            _ => line.to_owned(),
        };
        let total = without_negatives(&last_line("show", &[], &db));
        assert!(total.contains(&words(sum)), "{}: {total}, not {}", name(&path), words(sum));
        let page = mcptap().arg("export").arg(&db).args(["--format", "html"]).finished();
        let page = String::from_utf8(page.stdout).expect("UTF-8");
        for outcomes in read.values() {
            let fact = serde_json::json!(["calls", words(*outcomes)]);
            let facts = blocks(&page).into_iter().filter(|block| block.kind == "session");
            let is_there =
                facts.flat_map(|block| block.json["facts"].as_array().cloned()).flatten().any(|one| one == fact);
            assert!(is_there, "{}: the page lacks {fact}", name(&path));
        }
        std::fs::remove_file(&db).expect("the database is there");
        compared += 1;
    }
    assert!(compared > 40, "{compared} captures have sessions");
}

#[test]
fn a_filter_that_matches_nothing_is_no_lack_of_messages() {
    let path = data("cases/refused_get.pcap");
    let line = last_line("read", &["--filter", "tool = nothing_like_it"], &path);
    assert_eq!(line, "the filter matches none of 13 messages");
}
