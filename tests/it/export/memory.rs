//! Every export streams: what it holds does not grow with the session.

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::program::mcptap;
use crate::support::pipes::Patient;
use crate::support::waits::{Finishes, ProcessEnd};

/// Bytes of the responses of the short session: more than any buffer and cache of the program. The
/// long session has three times as many calls.
const TEXTS: usize = 12 << 20;

/// Bytes by which the peak may grow. The texts are 24 MB more.
const GROWTH: u64 = 10 << 20;

/// A database with one session over HTTP: the calls, and the size of each response.
fn database(folder: &Path, calls: usize, size: usize) -> PathBuf {
    let head = |kind: &str| {
        format!(r#"[{{"name":"Content-Type","value":"{kind}"}},{{"name":"Mcp-Session-Id","value":"s1"}}]"#)
    };
    let text = |call: usize| {
        let words = (0..).map(|at: usize| format!("{} ", (at + 1).wrapping_mul(call + 7).wrapping_mul(2_654_435_761)));
        words.flat_map(String::into_bytes).take(size).map(char::from).collect::<String>()
    };
    let mut archive = r#"{"log":{"version":"1.2","entries":["#.to_owned();
    for call in 0..calls {
        let request = format!(r#"{{"jsonrpc":"2.0","id":{call},"method":"tools/call","params":{{"name":"t"}}}}"#);
        let content = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, text(call));
        let response = format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{content}}}"#);
        let quoted = |text: &str| serde_json::to_string(text).expect("JSON");
        let comma = if call == 0 { "" } else { "," };
        write!(
            archive,
            r#"{comma}{{"startedDateTime":"2026-01-02T{:02}:{:02}:{:02}Z","time":5,"timings":{{"send":1,"wait":2,"receive":2}},
               "request":{{"method":"POST","url":"http://h.example/mcp","headers":{},"postData":{{"text":{}}}}},
               "response":{{"status":200,"statusText":"OK","headers":{},"content":{{"mimeType":"application/json","text":{}}}}}}}"#,
            call / 3_600,
            call / 60 % 60,
            call % 60,
            head("application/json"),
            quoted(&request),
            head("application/json"),
            quoted(&response),
        )
        .expect("a text");
    }
    archive += "]}}";
    let (file, db) = (folder.join(format!("{calls}.har")), folder.join(format!("{calls}.db")));
    fs::write(&file, archive).expect("written");
    let saved = mcptap().arg("read").arg(&file).arg("--save").arg("--db").arg(&db).finished();
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    db
}

/// The size of an export, and the most memory that it took. A pipe holds 64 KiB, so the program
/// is never far ahead of the last look at its memory.
fn exported(db: &Path, format: &str) -> (usize, u64) {
    let mut command = mcptap();
    command.arg("export").arg(db).args(["--format", format]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut process = command.spawn().expect("the program starts");
    let status = format!("/proc/{}/status", process.id());
    let mut out = Patient::new(process.stdout.take().expect("a pipe"), "an export");
    let (mut size, mut peak, mut buffer) = (0, 0, vec![0; 64 << 10]);
    loop {
        let count = out.read(&mut buffer).expect("readable");
        if count == 0 {
            break;
        }
        size += count;
        // A process that has ended has no memory.
        let status = fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kilobytes.unwrap_or(0) << 10);
    }
    assert!(process.ended("an export").success(), "{format}");
    (size, peak)
}

/// `parquet` is missing: it collects groups of 32 MB, as its readers want them.
#[test]
fn memory_does_not_grow_with_the_session() {
    let folder = tempfile::tempdir().expect("a folder");
    // What has no texts needs more calls to be larger than a pipe.
    for (calls, formats) in [(500, &["jsonl", "har", "html", "pcapng"][..]), (1_000, &["otlp", "mermaid"])] {
        let [short, long] = [calls, 3 * calls].map(|count| database(folder.path(), count, TEXTS / calls));
        for format in formats {
            let ((short_size, peak), (size, long_peak)) = (exported(&short, format), exported(&long, format));
            assert!(peak > 0 && size > 2 * short_size, "{format}: {short_size} bytes, then {size}; memory {peak}");
            assert!(long_peak < peak + GROWTH, "{format}: {peak} bytes of memory, then {long_peak}");
        }
    }
}
