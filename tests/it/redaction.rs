//! Redaction: planted values are in no file that mcptap writes, and in nothing that it prints.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::Value;

use crate::page;
use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wrapped::{Wrapped, json, of_type, temporary_database};

/// A capture, a rule for values in its messages, and texts that the rule has to remove everywhere.
const PLANTED: [(&str, &str, &[&str]); 9] = [
    ("samples/weather/capture.pcapng", "regex (?i)quito", &["Quito"]),
    ("samples/helpdesk/stdio.pcapng", r"regex \w+@empresa\.com|ThinkPad \w+", &["maria@empresa.com", "ThinkPad Z13"]),
    ("samples/helpdesk/capture.pcapng", r"regex \w+@empresa\.com", &["@empresa.com"]),
    ("tests/captures/04_gzip/capture.pcap", "regex tool failed: x", &["tool failed: x"]),
    ("tests/captures/04_br/capture.pcap", "regex tool failed: x", &["tool failed: x"]),
    ("tests/captures/01_shttp_sse_stateful/capture.pcap", "regex call-[0-9]+", &["call-3", "call-0"]),
    ("tests/captures/05_h2c/capture.pcap", "regex call-[0-9]+", &["call-3", "call-0"]),
    ("tests/captures/05_tls13_h2_dsb/capture.pcapng", "regex call-[0-9]+", &["call-3", "call-0"]),
    ("samples/websocket/capture.pcapng", "regex plain( plain)*", &["plain plain"]),
];

/// Formats of exports. HAR has nothing of a session over STDIO.
const FORMATS: [&str; 7] = ["jsonl", "har", "html", "otlp", "parquet", "pcapng", "mermaid"];

fn run(arguments: &[&str]) -> Vec<u8> {
    let done = mcptap().args(arguments).finished();
    assert_eq!(done.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

/// The names of the planted texts that some bytes contain, packed or not.
struct Search<'a> {
    texts: &'a [&'a str],
    found: BTreeSet<&'a str>,
}

impl<'a> Search<'a> {
    fn of(texts: &'a [&'a str], bytes: &[u8]) -> BTreeSet<&'a str> {
        let mut search = Search { texts, found: BTreeSet::new() };
        search.search(bytes, 3);
        search.found
    }

    fn search(&mut self, bytes: &[u8], depth: u32) {
        for text in self.texts {
            if memchr::memmem::find(bytes, text.as_bytes()).is_some() {
                self.found.insert(text);
            }
        }
        if depth == 0 || self.found.len() == self.texts.len() {
            return;
        }
        // Frames of zstd, wherever they begin: also in Parquet and in rows.
        for start in memchr::memmem::find_iter(bytes, &[0x28, 0xb5, 0x2f, 0xfd]) {
            let mut reader = zstd::Decoder::new(&bytes[start..]).expect("a decoder").single_frame();
            self.inside(&mut reader, depth);
        }
        for start in memchr::memmem::find_iter(bytes, &[0x1f, 0x8b, 8]) {
            self.inside(&mut flate2::read::GzDecoder::new(&bytes[start..]), depth);
        }
        for start in memchr::memchr_iter(0x78, bytes).filter(|at| matches!(bytes.get(at + 1), Some(1 | 0x9c | 0xda))) {
            self.inside(&mut flate2::read::ZlibDecoder::new(&bytes[start..]), depth);
        }
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        for run in bytes.split(|byte| !is_base64(byte)).filter(|run| run.len() >= 24) {
            if let Ok(decoded) = STANDARD_NO_PAD.decode(&run[..run.len() / 4 * 4]) {
                self.search(&decoded, depth - 1);
                self.inside(&mut flate2::read::DeflateDecoder::new(&decoded[..]), depth);
            }
        }
    }

    fn inside(&mut self, reader: &mut dyn Read, depth: u32) {
        let mut content = Vec::new();
        // What was read before the damage counts too.
        let _ = reader.take(64 << 20).read_to_end(&mut content);
        if !content.is_empty() {
            self.search(&content, depth - 1);
        }
    }

    /// Searches all values of all tables, also those that SQLite divides over pages.
    fn database(texts: &'a [&'a str], path: &Path) -> BTreeSet<&'a str> {
        let mut search = Search { texts, found: BTreeSet::new() };
        let db = Connection::open(path).expect("a database");
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let mut tables = db.prepare(sql).expect("prepared");
        let tables: Vec<String> =
            tables.query_map([], |row| row.get(0)).expect("tables").collect::<Result<_, _>>().expect("names");
        for table in tables {
            let mut statement = db.prepare(&format!("SELECT * FROM \"{table}\"")).expect("prepared");
            let columns = statement.column_count();
            let mut rows = statement.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                for column in 0..columns {
                    if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = row.get_ref(column).expect("a value") {
                        search.search(bytes, 2);
                    }
                }
            }
        }
        search.found
    }
}

/// What the database of sessions, and the files beside it, contain of the texts.
fn in_database<'a>(texts: &'a [&'a str], db: &Path) -> BTreeSet<&'a str> {
    let mut all = Search::database(texts, db);
    let folder = db.parent().expect("a folder");
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sessions.db")) {
            all.extend(Search::of(texts, &fs::read(path).expect("a file")));
        }
    }
    all
}

/// The output of an export, with what a page has packed.
fn exported(format: &str, target: &Path, rules: Option<&Path>) -> Vec<u8> {
    let mut arguments = vec!["export", target.to_str().expect("a path"), "--format", format];
    arguments.extend(rules.iter().flat_map(|rules| ["--redact-file", rules.to_str().expect("a path")]));
    let bytes = run(&arguments);
    if format == "html" { page::unpacked(&bytes) } else { bytes }
}

/// What the rows of a dataset, and its files, contain of the texts.
#[cfg(all(unix, feature = "fleet"))]
fn in_dataset<'a>(texts: &'a [&'a str], target: &Path, options: &[&str]) -> BTreeSet<&'a str> {
    let folder = tempfile::tempdir().expect("a folder");
    let word = |path: &Path| path.to_str().expect("a path").to_owned();
    let (target, dataset) = (word(target), word(folder.path()));
    run(&[&["export", &target, "--dataset", &dataset], options].concat());
    let mut found = BTreeSet::new();
    for table in fs::read_dir(folder.path()).expect("tables") {
        let days = fs::read_dir(table.expect("a table").path()).expect("days").map(|day| day.expect("a day").path());
        for file in days.filter(|day| day.is_dir()).flat_map(|day| fs::read_dir(day).expect("files")) {
            let path = file.expect("a file").path();
            found.extend(Search::of(texts, &fs::read(&path).expect("a file")));
            found.extend(Search::of(texts, crate::fleet::rows(&path).as_bytes()));
        }
    }
    assert!(folder.path().join("messages").is_dir());
    found
}

#[test]
fn planted_values_are_nowhere() {
    for (capture, rule, texts) in PLANTED {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let word = |path: &Path| path.to_str().expect("a path").to_owned();
        let capture = root().join(capture);
        let formats = FORMATS.iter().filter(|format| **format != "har" || !capture.ends_with("stdio.pcapng"));
        let formats = formats.filter(|format| **format != "parquet" || cfg!(feature = "parquet"));
        let rules = path("rules");
        fs::write(&rules, format!("# one rule\n{rule}\n")).expect("written");
        fs::create_dir_all(path("plain")).expect("a folder");
        let [plain, redacted] = [path("plain/sessions.db"), path("sessions.db")];
        let printed = run(&["read", "--json", "--save", "--db", &word(&plain), &word(&capture)]);
        let all: BTreeSet<&str> = texts.iter().copied().collect();
        // The search finds each of them where it is not redacted.
        assert_eq!(Search::of(texts, &printed), all, "{}", capture.display());
        assert_eq!(in_database(texts, &plain), all, "{}", capture.display());

        let options = ["--redact-file".to_owned(), word(&rules), word(&capture)];
        let [flag, file, name] = options.each_ref().map(String::as_str);
        let printed = run(&["read", "--json", "--save", "--db", &word(&redacted), flag, file, name]);
        assert!(String::from_utf8_lossy(&printed).contains("[redacted string "));
        assert_eq!(Search::of(texts, &printed), BTreeSet::new(), "{}, printed", capture.display());
        run(&["index", "--db", &word(&redacted)]);
        assert_eq!(in_database(texts, &redacted), BTreeSet::new(), "{}", capture.display());
        let is_tls = capture.to_string_lossy().contains("tls");
        for format in formats {
            let (before, after) = (exported(format, &plain, None), exported(format, &redacted, None));
            // A diagram has names of tools only, and packets of coded bodies have no text.
            if ["jsonl", "html", "parquet"].contains(format) {
                assert_eq!(Search::of(texts, &before), all, "{format} of {}", capture.display());
            }
            assert_eq!(Search::of(texts, &after), BTreeSet::new(), "{format} of {}", capture.display());
            // Redacted when it is exported: from a capture file, and from a database.
            if is_tls {
                let late = exported(format, &capture, Some(&rules));
                assert_eq!(Search::of(texts, &late), BTreeSet::new(), "{format} of {}", capture.display());
            } else {
                let late = exported(format, &plain, Some(&rules));
                assert_eq!(Search::of(texts, &late), BTreeSet::new(), "{format}, late, of {}", capture.display());
            }
        }
        #[cfg(all(unix, feature = "fleet"))]
        if !is_tls {
            let late = [plain.as_path(), &capture].map(|target| in_dataset(texts, target, &[flag, file]));
            assert_eq!(late, [BTreeSet::new(), BTreeSet::new()], "dataset of {}", capture.display());
            assert_eq!(in_dataset(texts, &plain, &[]), all, "dataset of {}", capture.display());
        }
        // The same sessions and messages as before, of the same kinds.
        let messages = |db: &Path, rules: Option<&Path>| {
            let lines = String::from_utf8(exported("jsonl", db, rules)).expect("UTF-8");
            let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
            let messages = lines.filter(|line| line["type"] == "message");
            messages
                .map(|line| [&line["number"], &line["kind"], &line["answers"], &line["packets"]].map(Value::clone))
                .collect::<Vec<_>>()
        };
        assert_eq!(messages(&redacted, None), messages(&plain, None));
        if is_tls {
            let done = mcptap().args(["export", &word(&plain), "--format", "jsonl", flag, file]).finished();
            assert_eq!(done.status.code(), Some(2));
            assert!(String::from_utf8_lossy(&done.stderr).contains("--keylog FILE"));
        } else {
            assert_eq!(messages(&plain, Some(&rules)), messages(&plain, None));
        }
    }
}

/// A server that answers each call with its arguments, and logs them, in JSON too.
const ECHO: &str = r#"n=0; while read -r line; do n=$((n+1)); echo "user=$1 got password=hunter2-$n" >&2
printf '{"level":"info","password":"hunter2-%s"}\n' $n >&2
printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"{\\"password\\":\\"hunter2-1\\"}"}],"structuredContent":{"password":"hunter2-1","age":41}}}\n' $n; done"#;

fn call(id: usize, password: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"login","arguments":{{"user":"ann","password":"{password}","age":41}}}}}}"#
    )
}

#[test]
fn a_wrapped_server_is_recorded_without_the_values_and_equal_ones_stay_equal() {
    let (_folder, db) = temporary_database();
    let mut command = mcptap();
    command.args(["wrap", "--redact-key", "password", "--redact-path", "$.params.arguments.age"]);
    command.args(["--redact-regex", "tok-[0-9]+", "--db"]).arg(&db).args(["--", "sh", "-c", ECHO, "sh", "tok-4711"]);
    let mut wrapped = Wrapped::start(command);
    for id in 1..4 {
        wrapped.send_line(&call(id, if id == 3 { "another-one" } else { "hunter2-1" }));
        // The server gets the values, and so does the client.
        assert!(wrapped.next_line().contains("hunter2-1"));
    }
    assert!(wrapped.end().status.success());
    let texts = ["hunter2", "another-one", "tok-4711"];
    assert_eq!(Search::database(&texts, &db), BTreeSet::new());
    assert_eq!(Search::of(&texts, &fs::read(&db).expect("a database")), BTreeSet::new());
    let lines = json(&["show"], &db);
    let text: String = lines.iter().map(Value::to_string).collect();
    assert_eq!(Search::of(&texts, text.as_bytes()), BTreeSet::new());
    let values: Vec<Value> = of_type(&lines, "message")
        .iter()
        .map(|message| serde_json::from_str(message["raw"].as_str().expect("text")).expect("JSON"))
        .collect();
    let passwords: Vec<&Value> = values
        .iter()
        .map(|value| match value.get("params") {
            Some(params) => &params["arguments"]["password"],
            None => &value["result"]["structuredContent"]["password"],
        })
        .collect();
    let [first, answer, ..] = passwords[..] else { panic!("messages") };
    assert!(first.as_str().expect("text").starts_with("[redacted string 9 "), "{first}");
    assert!(passwords[..4].iter().all(|password| password == &first) && passwords[4] != first && answer == first);
    // The same value within a text that is JSON.
    let inner = values[1]["result"]["content"][0]["text"].as_str().expect("text");
    assert_eq!(&serde_json::from_str::<Value>(inner).expect("JSON")["password"], first);
    assert!(values[0]["params"]["arguments"]["age"].as_str().is_some_and(|age| age.starts_with("[redacted number 2 ")));
    assert_eq!(
        (&values[0]["params"]["arguments"]["user"], &values[1]["result"]["structuredContent"]["age"]),
        (&"ann".into(), &41.into())
    );
    let stderr: Vec<&str> = of_type(&lines, "stderr").iter().map(|line| line["text"].as_str().expect("text")).collect();
    assert!(stderr.iter().any(|line| line.contains("got password=*********")), "{stderr:?}");
}

/// The bytes of a field lead to their packets as before, and there they are stars.
#[test]
fn layers_show_the_packets_of_a_redacted_text() {
    let (_folder, db) = temporary_database();
    let capture = root().join("samples/weather/capture.pcapng");
    let name = db.to_str().expect("a path");
    run(&["read", "--save", "--db", name, "--redact-key", "city", capture.to_str().expect("a path")]);
    let layers = |target: &Path| -> Vec<(String, Value)> {
        let lines = json(&["layers", "--message", "6"], target);
        of_type(&lines, "layer").iter().map(|layer| (layer["layer"].to_string(), layer["packets"].clone())).collect()
    };
    let (before, after) = (layers(&capture), layers(&db));
    assert!(before.len() > 5);
    assert_eq!(before, after);
    let packets = run(&["export", name, "--format", "pcapng"]);
    assert!(memchr::memmem::find(&packets, br#""city":"*****""#).is_some());
}

#[test]
fn a_mistake_is_an_error_before_anything_is_captured() {
    let (folder, db) = temporary_database();
    let rules = folder.path().join("rules");
    fs::write(&rules, "key a\nregex  (b\n").expect("written");
    let mark = folder.path().join("started");
    for command in [["wrap", "--"], ["read", "--save"]] {
        let mut mcptap = mcptap();
        mcptap.arg(command[0]).arg("--db").arg(&db).arg("--redact-file").arg(&rules).arg(command[1]);
        match command[0] {
            "wrap" => mcptap.args(["touch"]).arg(&mark),
            _ => mcptap.arg(root().join("samples/weather/capture.pcapng")),
        };
        let done = mcptap.finished();
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(2), "{error}");
        assert!(error.contains("line 2, column 8: unclosed group"), "{error}");
        assert!(!db.exists() && !mark.exists());
    }
}

#[test]
fn files_of_packets_and_kept_secrets_exclude_redaction() {
    let capture: PathBuf = root().join("samples/weather/capture.pcapng");
    let done = mcptap().args(["read", "--keep-secrets", "--redact-tokens"]).arg(capture).finished();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("--keep-secrets"));
}
