//! The cost of recording, measured with the program as users run it.
//!
//! ```sh
//! # wrap and proxy, beside a direct connection and a minimal relay in C (needs `cc`)
//! cargo bench --bench live
//! # one measurement of wrap: trip, pipelined, large, start, idle, seen
//! cargo bench --bench live -- wrap large
//! # one measurement of proxy: trip, large, costs (what its threads use for each megabyte)
//! cargo bench --bench live -- proxy large
//! # 1 MB messages of official servers
//! MCPTAP_PEERS=target/peers cargo bench --bench live -- wrap official
//! # round trips of a server without and with `attach`, in turn (as root)
//! MCPTAP_PEERS=target/peers cargo bench --bench live -- attach
//! # the same on one core
//! taskset -c 0 cargo bench --bench live
//! # sniff: 5,000 calls, then that many seconds at full speed (needs the right to capture)
//! cargo bench --bench live -- sniff 60
//! ```
//!
//! The peers are this program itself: an echo server, and clients that do not parse. After each run
//! it checks that everything is in the database.

mod attach;
mod official;
mod proxy;
mod sniff;
mod threads;
mod ways;
mod wrap;

use std::path::Path;
use std::process::{Child, Command};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => wrap::serve(),
        ["attach"] => attach::run(),
        ["sniff"] => sniff::run(10),
        ["sniff", seconds] => sniff::run(seconds.parse().expect("a number of seconds")),
        ["wrap", "official"] => official::run(),
        ["wrap"] => wrap::run(None),
        ["wrap", only] => wrap::run(Some(only)),
        ["proxy"] => proxy::run(None),
        ["proxy", only] => proxy::run(Some(only)),
        _ => {
            wrap::run(None);
            proxy::run(None);
        }
    }
}

fn mcptap() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    // A state folder that cannot exist: the user's list of databases stays as it is.
    command.env_remove("MCPTAP_DB").env("XDG_STATE_HOME", "/dev/null/state");
    command
}

/// A request. All ids have the same length, so that all requests of a run have the same length.
fn request(id: u64, padding: usize) -> Vec<u8> {
    let id = 10_000_000 + id;
    let text = "x".repeat(padding);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"echo","params":{{"text":"{text}"}}}}"#).into_bytes()
}

/// The response that echoes a request.
fn answer(request: &[u8]) -> Vec<u8> {
    let cut = |mark: &[u8]| memchr::memmem::find(request, mark).expect("a request of ours");
    [&request[..cut(b"\"method\"")], b"\"result\":", &request[cut(b"\"params\":") + 9..]].concat()
}

/// The number of messages and of unanswered requests in a database.
fn recorded(db: &Path) -> (u64, u64) {
    // The recorder of a server that ends at once may not have made it yet.
    if !db.exists() {
        return (0, 0);
    }
    let done = mcptap().args(["sessions", "--json", "--db"]).arg(db).output().expect("mcptap runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let lines = String::from_utf8(done.stdout).expect("JSON is UTF-8");
    let sessions: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect();
    let sum = |name: &str| sessions.iter().filter_map(|session| session[name].as_u64()).sum();
    (sum("messages"), sum("unanswered"))
}

/// A memory figure of a process in MB (proc(5)).
fn memory(child: &Child, name: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|value| value.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}

/// The peak memory of a process in MB.
fn peak_memory(child: &Child) -> f64 {
    memory(child, "VmHWM")
}

/// The median of some values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
