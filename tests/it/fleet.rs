//! Datasets: what is in them, that nothing is in them twice, and the engines that read them.

mod engines;
mod shipping;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::RowAccessor;

use crate::program::{mcptap, root};
use crate::support::waits::Finishes;
use crate::wire::{Sender, Wire};

const TABLES: [&str; 4] = ["sessions", "messages", "exchanges", "findings"];

fn sample(name: &str) -> PathBuf {
    root().join("samples").join(name)
}

/// Runs `mcptap read --dataset`.
fn read(dataset: &Path, options: &[&str], captures: &[PathBuf]) -> Output {
    mcptap().args(["read", "--dataset"]).arg(dataset).args(options).args(captures).finished()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The files of a table.
fn files(dataset: &Path, table: &str) -> Vec<PathBuf> {
    let days = fs::read_dir(dataset.join(table)).into_iter().flatten().map(|day| day.expect("a folder").path());
    let mut files: Vec<PathBuf> =
        days.flat_map(|day| fs::read_dir(day).expect("a folder").map(|file| file.expect("a file").path())).collect();
    files.sort();
    files
}

/// The keys of a table, and how many rows have each.
fn keys(dataset: &Path, table: &str) -> BTreeMap<String, usize> {
    let mut keys = BTreeMap::new();
    for file in files(dataset, table) {
        let reader = SerializedFileReader::new(File::open(file).expect("a file")).expect("Parquet");
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            let at = row.get_column_iter().position(|(name, _)| name == "key").expect("a column");
            *keys.entry(row.get_string(at).expect("a text").clone()).or_default() += 1;
        }
    }
    keys
}

fn all_keys(dataset: &Path) -> Vec<BTreeMap<String, usize>> {
    TABLES.map(|table| keys(dataset, table)).into()
}

/// The rows of a file, as text.
pub fn rows(file: &Path) -> String {
    let reader = SerializedFileReader::new(File::open(file).expect("a file")).expect("Parquet");
    reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row").to_string()).collect()
}

/// Calls on one connection after the other, as two files of a rotation.
fn rotated(folder: &Path) -> [PathBuf; 2] {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
    let post = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length:";
    [(0, 5_000), (1_000, 5_001)].map(|(at, port)| {
        let mut wire = Wire::default();
        wire.handshake(at, port);
        for id in 1..4 {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            let at = at + 100 * id;
            wire.segment(at, port, Sender::Client, "A", &format!("{post} {}\r\n\r\n{call}", call.len()));
            wire.segment(at + 20, port, Sender::Server, "A", &format!("{head} {}\r\n\r\n{answer}", answer.len()));
        }
        let path = folder.join(format!("rotated-{at}.pcapng"));
        wire.write(&path);
        path
    })
}

/// Two calls in one packet, and their answers in another.
fn pipelined(folder: &Path) -> PathBuf {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
    let post = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length:";
    let with = |head: &str, body: &str| format!("{head} {}\r\n\r\n{body}", body.len());
    let calls = [1, 2].map(|id| with(post, &format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)));
    let answers = [1, 2].map(|id| with(head, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)));
    let mut wire = Wire::default();
    wire.handshake(0, 5_000);
    wire.segment(20, 5_000, Sender::Client, "A", &calls.concat());
    wire.segment(40, 5_000, Sender::Server, "A", &answers.concat());
    let path = folder.join("pipelined.pcapng");
    wire.write(&path);
    path
}

/// Nothing is added twice: by the same file, under another name, by files of a rotation alone and
/// together, and by a database that holds the same recording.
#[test]
fn rows_are_added_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, renamed) = (folder.path().join("dataset"), folder.path().join("renamed.pcapng"));
    let captures = [
        sample("weather/capture.pcapng"),
        sample("helpdesk/stdio.pcapng"),
        sample("websocket/capture.pcapng"),
        pipelined(folder.path()),
    ];
    for capture in &captures {
        fs::copy(capture, &renamed).expect("a copy");
        let before = all_keys(&dataset);
        assert!(read(&dataset, &[], std::slice::from_ref(capture)).status.success());
        let expected = all_keys(&dataset);
        assert_ne!(before, expected, "{}", capture.display());
        assert!(read(&dataset, &[], std::slice::from_ref(&renamed)).status.success());
        let db = folder.path().join("recorded.db");
        let saved = mcptap().arg("--db").arg(&db).args(["read", "--save"]).arg(capture).finished();
        assert!(saved.status.success());
        for _ in 0..2 {
            let done = mcptap().arg("export").arg(&db).arg("--dataset").arg(&dataset).finished();
            assert!(done.status.success(), "{}", text(&done.stderr));
        }
        assert_eq!(all_keys(&dataset), expected, "{}", capture.display());
    }
    let parts = rotated(folder.path());
    let (together, apart) = (folder.path().join("together"), folder.path().join("apart"));
    assert!(read(&together, &[], &parts).status.success());
    for captures in [&parts[..1], &parts[1..], &parts[..]] {
        assert!(read(&apart, &[], captures).status.success());
    }
    assert_eq!(keys(&together, "messages"), keys(&apart, "messages"));
    assert_eq!(keys(&together, "messages").len(), 12);
    for table in TABLES {
        assert!(keys(&dataset, table).values().chain(keys(&apart, table).values()).all(|count| *count == 1), "{table}");
    }
}

/// Requests of one packet are rows of their own, and so are their exchanges.
#[test]
fn pipelined_requests_are_rows_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, capture) = (folder.path().join("dataset"), pipelined(folder.path()));
    assert!(read(&dataset, &[], &[capture]).status.success());
    assert_eq!((keys(&dataset, "exchanges").len(), keys(&dataset, "messages").len()), (2, 4));
}

/// A finding about a whole capture is added once, from the file and from a database.
#[test]
fn a_finding_about_a_capture_is_added_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, damaged) = (folder.path().join("dataset"), folder.path().join("damaged.pcapng"));
    let whole = fs::read(sample("helpdesk/capture.pcapng")).expect("a capture");
    fs::write(&damaged, &whole[..whole.len() / 2 + 3]).expect("a file");
    read(&dataset, &[], std::slice::from_ref(&damaged));
    let expected = all_keys(&dataset);
    assert!(files(&dataset, "findings").iter().any(|file| rows(file).contains("capture-damaged")));
    let db = folder.path().join("recorded.db");
    mcptap().arg("--db").arg(&db).args(["read", "--save"]).arg(&damaged).finished();
    let done = mcptap().arg("export").arg(&db).arg("--dataset").arg(&dataset).finished();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(all_keys(&dataset), expected);
}

/// Rows that a crash left out are added by the next run, and compaction changes no row.
#[test]
fn what_is_missing_is_added_and_compaction_keeps_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = folder.path().join("dataset");
    let captures: Vec<PathBuf> =
        ["weather/capture.pcapng", "helpdesk/capture.pcapng", "helpdesk/stdio.pcapng"].map(sample).into();
    let all = || {
        captures.iter().for_each(|capture| assert!(read(&dataset, &[], std::slice::from_ref(capture)).status.success()))
    };
    all();
    let expected = all_keys(&dataset);
    fs::remove_file(files(&dataset, "messages").first().expect("a file")).expect("removed");
    assert_ne!(all_keys(&dataset), expected);
    all();
    assert_eq!(all_keys(&dataset), expected);
    let names: BTreeSet<String> = fs::read_dir(dataset.join("_mcptap"))
        .expect("a folder")
        .map(|file| file.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.iter().all(|name| !name.starts_with("new-")), "no temporary file is left: {names:?}");
    // All recordings are put into one day, as those of many hosts are.
    let days: Vec<PathBuf> =
        fs::read_dir(dataset.join("messages")).expect("days").map(|day| day.expect("a day").path()).collect();
    let day = days.first().expect("a day").clone();
    for other in &days[1..] {
        for file in fs::read_dir(other).expect("a day") {
            let file = file.expect("a file");
            fs::rename(file.path(), day.join(file.file_name())).expect("moved");
        }
    }
    let before = keys(&dataset, "messages");
    let done = mcptap().args(["dataset", "compact"]).arg(&dataset).finished();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(keys(&dataset, "messages"), before);
    assert_eq!(files(&dataset, "messages").len(), 1, "{}", text(&done.stdout));
    assert!(fs::read_dir(dataset.join("_mcptap/compacted")).expect("notes").next().is_none());
}

/// Payloads are left out on demand, and a secret is in no file.
#[test]
fn payloads_and_secrets_stay_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("capture.pcapng");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"note":"plain-payload"}}}"#;
    let post = "POST /mcp?q=query-payload HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer hunter2-hunter2-hunter2\r\nX-Note: field-payload\r\nContent-Type: application/json\r\nContent-Length:";
    let mut wire = Wire::default();
    wire.handshake(0, 5_000);
    wire.segment(20, 5_000, Sender::Client, "A", &format!("{post} {}\r\n\r\n{call}", call.len()));
    wire.segment(40, 5_000, Sender::Server, "A", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    wire.write(&capture);
    let contents = |dataset: &Path| -> String {
        let mut all = String::new();
        for file in TABLES.iter().flat_map(|table| files(dataset, table)) {
            all += &rows(&file);
        }
        all
    };
    let (whole, bare) = (folder.path().join("whole"), folder.path().join("bare"));
    assert!(read(&whole, &[], std::slice::from_ref(&capture)).status.success());
    assert!(read(&bare, &["--no-text", "--host", "web-7"], &[capture]).status.success());
    let (whole, bare) = (contents(&whole), contents(&bare));
    for payload in ["plain-payload", "query-payload", "field-payload"] {
        assert!(whole.contains(payload) && !bare.contains(payload), "{payload}: {bare}");
    }
    assert!(!whole.contains("hunter2") && !bare.contains("hunter2"));
    assert!(bare.contains("tools/call") && bare.contains("pay") && bare.contains("web-7"));
}

/// A file that is no capture fails alone. Other failures are one line.
#[test]
fn failures_are_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let (dataset, junk) = (folder.path().join("dataset"), folder.path().join("junk.pcap"));
    fs::write(&junk, "this is no capture").expect("a file");
    let done = read(&dataset, &[], &[junk.clone(), sample("weather/capture.pcapng")]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("junk.pcap") && text(&done.stderr).contains("1 of 2 captures"));
    assert_eq!(keys(&dataset, "messages").len(), 7);
    assert_eq!(read(&dataset, &[], &[junk]).status.code(), Some(2));
    for place in ["/dev/null/dataset", "ftp://host/dataset"] {
        let done = read(Path::new(place), &[], &[sample("weather/capture.pcapng")]);
        assert_eq!((done.status.code(), text(&done.stderr).lines().count()), (Some(2), 1), "{}", text(&done.stderr));
    }
    let bare = mcptap().args(["read", "--no-text"]).arg(sample("weather/capture.pcapng")).finished();
    assert!(bare.status.code() == Some(2) && text(&bare.stderr).contains("--dataset"), "{}", text(&bare.stderr));
    // A file that may not grow stands for a full disk.
    let program = env!("CARGO_BIN_EXE_mcptap");
    let script = format!("trap '' XFSZ; ulimit -f 2; exec {program} read --dataset \"$0\" \"$1\"");
    let full = folder.path().join("full");
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(&full).arg(sample("helpdesk/capture.pcapng"));
    let done = command.finished();
    assert_eq!((done.status.code(), text(&done.stderr).lines().count()), (Some(2), 1), "{}", text(&done.stderr));
    assert!(TABLES.iter().all(|table| files(&full, table).is_empty()));
    // A capture that is damaged in its middle gives what can be read, and one line.
    let damaged = folder.path().join("damaged.pcapng");
    let whole = fs::read(sample("helpdesk/capture.pcapng")).expect("a capture");
    fs::write(&damaged, &whole[..whole.len() / 2 + 3]).expect("a file");
    let place = folder.path().join("halves");
    let done = read(&place, &[], &[damaged, sample("weather/capture.pcapng")]);
    assert_eq!(text(&done.stderr).lines().count(), 1, "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("damaged.pcapng"), "{}", text(&done.stderr));
    assert!(keys(&place, "messages").len() > 7);
    // The device that is always full stands for a full disk.
    if Path::new("/dev/full").exists() {
        let small = mcptap()
            .args(["export"])
            .arg(sample("weather/capture.pcapng"))
            .args(["--format", "parquet", "-o", "/dev/full"])
            .finished();
        assert_eq!(text(&small.stderr).lines().count(), 1, "{}", text(&small.stderr));
    }
}

/// Parts of a capture, decoded alone, give what the whole gives.
#[test]
fn parts_decoded_alone_are_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = folder.path().join("host=web-1");
    fs::create_dir(&host).expect("a folder");
    let mut captures = Vec::new();
    for name in
        ["weather/capture.pcapng", "helpdesk/capture.pcapng", "helpdesk/stdio.pcapng", "websocket/capture.pcapng"]
    {
        let copy = host.join(name.replace('/', "-"));
        fs::copy(sample(name), &copy).expect("a copy");
        captures.push(copy);
    }
    let (whole, apart, parts) = (folder.path().join("whole"), folder.path().join("apart"), folder.path().join("parts"));
    assert!(read(&whole, &[], &captures).status.success());
    let done = mcptap().arg("split").args(&captures).args(["--into", "3", "--out"]).arg(&parts).finished();
    assert!(done.status.success(), "{}", text(&done.stderr));
    let mut count = 0;
    for part in fs::read_dir(&parts).expect("parts") {
        let part = part.expect("a part").path().join("host=web-1/packets.pcapng");
        assert!(read(&apart, &[], &[part]).status.success());
        count += 1;
    }
    assert!(count > 1);
    for table in TABLES {
        assert_eq!(keys(&whole, table), keys(&apart, table), "{table}");
    }
}
