//! The views of the database, and the queries of `docs/database.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wrapped::{of_type, recorded, temporary_database};

/// A database as any program opens it, without the functions of mcptap.
fn open(db: &Path) -> Connection {
    Connection::open(db).expect("it opens")
}

/// The rows of a query, with the names of its columns.
fn rows(db: &Connection, sql: &str) -> (Vec<String>, Vec<Vec<Value>>) {
    let mut statement = db.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query([]).expect("it runs");
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap_or_else(|error| panic!("{sql}: {error}")) {
        let value = |at: usize| match row.get_ref(at).expect("a column") {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => number.into(),
            ValueRef::Real(number) => number.into(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
            ValueRef::Blob(_) => panic!("{sql}: a view has no blobs"),
        };
        all.push((0..names.len()).map(value).collect());
    }
    (names, all)
}

/// The answer of a query as the page shows it.
fn answer(db: &Connection, sql: &str) -> String {
    let (names, rows) = rows(db, sql);
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let lines = rows.iter().map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" | "));
    std::iter::once(names.join(" | ")).chain(lines).map(|line| line + "\n").collect()
}

/// Runs the commands on the page that make its database.
fn sample_database(page: &str, db: &Path) {
    let commands = page.lines().filter_map(|line| line.strip_prefix("mcptap --db sample.db "));
    let mut count = 0;
    for command in commands {
        let done = mcptap().arg("--db").arg(db).args(command.split(' ')).current_dir(root()).finished();
        assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
        count += 1;
    }
    assert!(count > 3, "the page says how to make its database");
}

/// `UPDATE_EXPECT=1` writes the answers into the page.
#[test]
fn the_queries_of_the_manual_give_their_answers() {
    let path = root().join("docs/database.md");
    let page = fs::read_to_string(&path).expect("the page is there");
    let (_folder, db) = temporary_database();
    sample_database(&page, &db);
    let db = open(&db);
    let mut written = String::new();
    let mut queries = 0;
    let mut rest = page.as_str();
    while let Some((before, after)) = rest.split_once("```sql\n") {
        let (sql, after) = after.split_once("```\n").expect("the end of a query");
        // The answer that follows is replaced.
        let after = match after.strip_prefix("\n```text\n") {
            Some(old) => old.split_once("```\n").expect("the end of an answer").1,
            None => after,
        };
        let answer = answer(&db, sql);
        assert!(answer.lines().count() > 1, "{sql} has an answer");
        written += &format!("{before}```sql\n{sql}```\n\n```text\n{answer}```\n");
        queries += 1;
        rest = after;
    }
    written += rest;
    assert_eq!(queries, 10);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &written).expect("the page can be written");
    }
    crate::decoded::assert_same("docs/database.md", &page, &written);
}

/// Every word of a view is that of the JSON lines, for each message of all transports.
#[test]
fn the_words_of_views_are_those_of_the_json_lines() {
    let (_folder, db) = temporary_database();
    for capture in
        ["samples/helpdesk/capture.pcapng", "samples/helpdesk/stdio.pcapng", "samples/websocket/capture.pcapng"]
            .into_iter()
            .chain(["tests/captures/02b_shttp_json_stateful/capture.pcap", "samples/weather/capture.pcapng"])
    {
        let done = mcptap().arg("--db").arg(&db).args(["read", "--save", capture]).current_dir(root()).finished();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let lines = recorded(&db);
    let db = open(&db);
    // A session has numbers of the database, and its messages have numbers of their capture.
    let key = |session: &Value, number: &Value| format!("{session}/{number}");
    let wanted: BTreeMap<String, &Value> =
        of_type(&lines, "message").into_iter().map(|line| (key(&line["session"], &line["number"]), line)).collect();
    let (names, rows) = rows(&db, "SELECT * FROM messages");
    assert_eq!(rows.len(), wanted.len());
    let mut words = BTreeMap::<&str, BTreeMap<String, usize>>::new();
    for row in &rows {
        let view: BTreeMap<&str, &Value> = names.iter().map(String::as_str).zip(row).collect();
        let line = wanted[&key(view["session"], view["number"])];
        for member in
            ["transport", "direction", "kind", "carrier", "time", "answers", "answered_by", "exchange", "line"]
        {
            assert_eq!(line.get(member).unwrap_or(&Value::Null), view[member], "{member} of {line}");
            if let Some(word) = view[member].as_str().filter(|_| member != "time") {
                *words.entry(member).or_default().entry(word.to_owned()).or_default() += 1;
            }
        }
        match view["is_compressed"] == &json!(0) {
            true => assert_eq!(&line["raw"], view["text"]),
            false => assert!(view["text"].is_null() && line["raw"].as_str().is_none_or(|raw| raw.len() >= 1_024)),
        }
    }
    let counts: Vec<(&str, usize)> = words.iter().map(|(member, words)| (*member, words.len())).collect();
    assert!(counts.iter().all(|(_, count)| *count >= 2), "{words:?}");
    assert_eq!(words["transport"].len(), 5, "{words:?}");
    let compressed = rows.iter().filter(|row| row.last() == Some(&json!(1))).count();
    assert!(compressed > 0, "some texts are compressed");

    // Sessions and findings.
    let (_, got) = self::rows(&db, "SELECT session, transport, messages, requests, unanswered FROM sessions");
    let line_of = |line: &Value| {
        let member = |name: &str| line.get(name).cloned().unwrap_or_else(|| json!(0));
        vec![member("number"), member("transport"), member("messages"), member("requests"), member("unanswered")]
    };
    let wanted: Vec<Vec<Value>> = of_type(&lines, "session").into_iter().map(line_of).collect();
    assert_eq!(got, wanted);
    let (_, got) = self::rows(&db, "SELECT session, rule, severity FROM findings WHERE session IS NOT NULL");
    let finding = |line: &Value| ["session", "rule", "severity"].map(|member| line[member].to_string());
    let wanted: BTreeSet<_> = of_type(&lines, "finding").into_iter().map(finding).collect();
    let got: BTreeSet<_> = got.iter().map(|row| [0, 1, 2].map(|at| row[at].to_string())).collect();
    assert_eq!(got, wanted);
    let severities: BTreeSet<&String> = got.iter().map(|[.., severity]| severity).collect();
    assert!(severities.len() > 1, "{severities:?}");
}
