//! A capture that is saved, exported as pcapng and read again gives the same messages, exchanges,
//! sessions and findings. The whole way is that of a user: three runs of the program.
//!
//! These differences are by nature:
//!
//! - Only packets of connections with a session are saved. So packets, connections and exchanges
//!   have other numbers, in the same order.
//! - A finding about other connections, or about the damage of the file itself, has
//!   nothing to refer to.
//! - A capture without a session has nothing to save.
//! - Over HTTP/2 a masked value has as many stars as its code had bytes.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use mcptap::source::{Item, Source};
use mcptap::store::{CaptureId, Selection, StoredPackets};
use serde_json::Value;

use crate::decoded::{captures, name, pipes};
use crate::program::{data, mcptap};
use crate::support::waits::Finishes;
use crate::wrapped::{of_type, temporary_database};

/// A run of the program: its JSON lines, and its standard error.
fn run(arguments: &[&str], path: &Path, more: &[String]) -> (Vec<Value>, String) {
    let done = mcptap().args(arguments).arg(path).args(more).finished();
    let notes = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{arguments:?} {}: {notes}", path.display());
    let lines = String::from_utf8(done.stdout).expect("JSON is UTF-8");
    (lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect(), notes)
}

/// The numbers of the saved packets.
fn saved_packets(db: &Path) -> BTreeSet<u64> {
    let mut stored = StoredPackets::open(db, Selection::Capture(CaptureId(1))).expect("it opens");
    let mut numbers = BTreeSet::new();
    while let Some(item) = stored.next().expect("it reads") {
        if let Item::Packet(packet) = item {
            numbers.insert(packet.number.0);
        }
    }
    numbers
}

/// Replaces numbers by their rank among those of saved traffic.
#[derive(Default)]
struct Ranks(HashMap<u64, u64>);

impl Ranks {
    fn of(numbers: impl IntoIterator<Item = u64>) -> Ranks {
        let numbers: BTreeSet<u64> = numbers.into_iter().collect();
        Ranks(numbers.into_iter().zip(1..).collect())
    }

    /// Replaces a number, or each number of a list. Returns whether all have ranks.
    fn replace(&self, value: &mut Value) -> bool {
        match value {
            Value::Array(numbers) => {
                let replaced: Vec<bool> = numbers.iter_mut().map(|number| self.replace(number)).collect();
                replaced.into_iter().all(|is_replaced| is_replaced)
            }
            Value::Number(number) => match number.as_u64().and_then(|number| self.0.get(&number)) {
                Some(rank) => {
                    *value = (*rank).into();
                    true
                }
                None => false,
            },
            _ => true,
        }
    }
}

/// The lines about the saved connections, with ranks for numbers.
fn lines_of_saved(lines: &[Value], packets: &BTreeSet<u64>) -> Vec<Value> {
    let number = |line: &Value, member: &str| line[member].as_u64().expect("a number");
    let is_saved = |line: &&Value| {
        let packets_of = ["request_packets", "response_packets"].map(|member| line[member].as_array());
        packets_of.into_iter().flatten().flatten().all(|packet| packets.contains(&packet.as_u64().expect("a number")))
    };
    let exchanges: Vec<&Value> = of_type(lines, "exchange").into_iter().filter(is_saved).collect();
    let packet_ranks = Ranks::of(packets.iter().copied());
    let exchange_ranks = Ranks::of(exchanges.iter().map(|line| number(line, "number")));
    let connection_ranks = Ranks::of(exchanges.iter().map(|line| number(line, "connection")));
    let mut kept = Vec::new();
    for line in lines {
        let mut line = line.clone();
        let kind = line["type"].as_str().expect("a type").to_owned();
        let mut is_saved = true;
        for member in ["packets", "request_packets", "response_packets"] {
            is_saved &= line.get_mut(member).is_none_or(|value| packet_ranks.replace(value));
        }
        match kind.as_str() {
            "summary" => continue,
            "exchange" => {
                is_saved &= exchange_ranks.replace(&mut line["number"]);
                if is_saved {
                    assert!(connection_ranks.replace(&mut line["connection"]));
                    shorten_coded_masks(&mut line);
                }
            }
            "refused" | "redirected" => is_saved &= exchange_ranks.replace(&mut line["exchange"]),
            "connection" => is_saved &= line.get("session").is_some(),
            "message" => {
                assert!(is_saved, "the packets of a message are saved: {line}");
                assert!(line.get_mut("exchange").is_none_or(|value| exchange_ranks.replace(value)), "{line}");
            }
            "finding" => {
                is_saved &= line["rule"] != "capture-damaged";
                assert!(is_saved || line.get("session").is_none(), "the packets of a session are saved: {line}");
            }
            _ => {}
        }
        if is_saved {
            kept.push(line);
        }
    }
    kept
}

/// Leaves one star of each masked field of an HTTP/2 exchange.
fn shorten_coded_masks(line: &mut Value) {
    if line["http_version"] != "2" {
        return;
    }
    for member in ["request_headers", "response_headers"] {
        for field in line[member].as_array_mut().into_iter().flatten() {
            if field[1].as_str().is_some_and(|value| !value.is_empty() && value.bytes().all(|byte| byte == b'*')) {
                field[1] = "*".into();
            }
        }
    }
}

/// The option for the key log beside a capture.
fn key_log(capture: &Path) -> Vec<String> {
    let keys = capture.with_file_name("keys.log");
    if keys.exists() { vec!["--keylog".to_owned(), keys.display().to_string()] } else { Vec::new() }
}

/// All captures with truth, those of pipes, and those of known mistakes.
fn all_captures() -> Vec<PathBuf> {
    let cases = std::fs::read_dir(data("cases")).expect("readable").map(|entry| entry.expect("readable").path());
    let cases = cases.filter(|path| path.to_string_lossy().contains(".pcap"));
    captures().into_iter().chain(pipes()).chain(cases).collect()
}

/// Asserts that JSON lines and HAR have each exchange of the capture once. All clients and servers
/// of these captures speak MCP, so each exchange has a session.
fn assert_exchanges_are_exported(what: &str, original: &[Value], db: &Path) {
    let numbers = |lines: &[&Value], member: &str| -> Vec<u64> {
        let mut numbers: Vec<u64> =
            lines.iter().map(|line| line.pointer(member).and_then(Value::as_u64).expect("a number")).collect();
        numbers.sort_unstable();
        numbers
    };
    let wanted = numbers(&of_type(original, "exchange"), "/number");
    let (lines, _) = run(&["export", "--format", "jsonl"], db, &[]);
    assert_eq!(numbers(&of_type(&lines, "exchange"), "/number"), wanted, "{what}: JSON lines");
    if wanted.is_empty() {
        return;
    }
    let done = mcptap().args(["export", "--format", "har"]).arg(db).finished();
    let archive: Value = serde_json::from_slice(&done.stdout).expect("an archive is JSON");
    let entries: Vec<&Value> = archive["log"]["entries"].as_array().expect("entries").iter().collect();
    assert_eq!(numbers(&entries, "/_mcp/exchange"), wanted, "{what}: HAR");
}

#[test]
fn a_saved_and_exported_capture_reads_the_same() {
    let (mut compared, mut sealed) = (0, Vec::new());
    for path in all_captures() {
        let (folder, db) = temporary_database();
        let exported = folder.path().join("exported.pcapng");
        let [db_text, exported_text] = [&db, &exported].map(|path| path.to_str().expect("UTF-8"));
        let what = format!("{} {}", name(&path), path.file_name().unwrap_or_default().display());
        // Secrets inside the file have to be saved to be exported.
        let mut keys = key_log(&path);
        let has_secrets_inside =
            path.ends_with("05_tls13_h2_dsb/capture.pcapng") || path.ends_with("tls/capture.pcapng");
        if has_secrets_inside {
            keys.push("--keep-secrets".to_owned());
        }
        let (original, _) = run(&["--db", db_text, "read", "--save", "--json"], &path, &keys);
        if of_type(&original, "session").is_empty() {
            assert!(["04_snaplen128"].contains(&name(&path).as_str()), "{what}: no session");
            continue;
        }
        assert_exchanges_are_exported(&what, &original, &db);
        let (_, notes) = run(&["export", "--format", "pcapng", "-o", exported_text], &db, &[]);
        if notes.contains("--keylog") {
            sealed.push(name(&path));
        }
        let (again, _) = run(&["read", "--json"], &exported, &keys);
        let packets = saved_packets(&db);
        let wanted = lines_of_saved(&original, &packets);
        let said = lines_of_saved(&again, &(1..=packets.len() as u64).collect());
        for (at, (wanted, said)) in wanted.iter().zip(&said).enumerate() {
            assert_eq!(wanted, said, "{what}: line {at}");
        }
        assert_eq!(wanted.len(), said.len(), "{what}: as many lines");
        compared += 1;
    }
    assert!(compared > 60, "{compared} captures were compared");
    // TLS whose secrets are in the key log alone.
    sealed.sort_unstable();
    assert_eq!(sealed, ["05_tls12_h1", "05_tls13_h1_json", "05_tls13_matrix", "hosted-redirect"]);
}
