//! The cost of a replay beside the calls themselves. A recording of N calls is replayed at full
//! speed. A bare client makes the same calls and ignores the responses.
//!
//! ```sh
//! # 1,000 and 20,000 calls, STDIO and HTTP, a server that does nothing and one that works 1 ms
//! cargo bench --bench replay
//! # one of them: transport, microseconds of work, calls
//! cargo bench --bench replay -- stdio 0 1000
//! # the official servers (tests/peers/setup.sh)
//! MCPTAP_PEERS=target/peers cargo bench --bench replay -- official 1000
//! ```
//!
//! Times are those of the whole command: the recording is read, the server is started, and the new
//! session is stored and compared. The times of the bare client are those of the server, from its
//! start to its end.

mod bare;
mod official;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The number of rounds; each measures both, one after the other.
const ROUNDS: usize = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |text: &str| text.parse::<u64>().expect("a number");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", work] => serve(Duration::from_micros(number(work))),
        ["serve-http", work] => serve_http(Duration::from_micros(number(work))),
        ["official", calls] => official::run(number(calls)),
        [transport, work, calls] => compare(transport, number(work), number(calls)),
        _ => {
            for calls in [1_000, 20_000] {
                compare("stdio", 0, calls);
                compare("http", 0, calls);
            }
            compare("stdio", 1_000, 1_000);
            compare("http", 1_000, 1_000);
        }
    }
}

/// The response of the server; `None` for a notification.
fn answer(request: &[u8], work: Duration) -> Option<String> {
    let request: serde_json::Value = serde_json::from_slice(request).expect("a message");
    let id = request.get("id")?;
    if request["method"] == "initialize" {
        return Some(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"bench","version":"1"}}}}}}"#
        ));
    }
    if !work.is_zero() {
        thread::sleep(work);
    }
    let text = &request["params"]["arguments"]["text"];
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#))
}

fn serve(work: Duration) {
    let (stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    for line in stdin.split(b'\n') {
        if let Some(answer) = answer(&line.expect("stdin is readable"), work) {
            stdout.write_all(format!("{answer}\n").as_bytes()).and_then(|()| stdout.flush()).expect("stdout takes it");
        }
    }
}

/// Prints its port in the first line of its output.
fn serve_http(work: Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    for stream in listener.incoming().map_while(Result::ok) {
        thread::spawn(move || {
            stream.set_nodelay(true).expect("a socket");
            let mut reader = BufReader::new(stream);
            while let Some(bare::Read { line, body, .. }) = bare::read(&mut reader) {
                let answer = if line.starts_with("POST") { answer(&body, work) } else { None };
                let response = match answer {
                    Some(text) => format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
                        text.len()
                    ),
                    None if line.starts_with("GET") => "HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
                    None => "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
                };
                if reader.get_mut().write_all(response.as_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

fn own(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a path"));
    command.args(arguments);
    command
}

fn mcptap(db: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcptap"));
    // A state folder that cannot exist: the user's list of databases stays as it is.
    command.env("XDG_STATE_HOME", "/dev/null/state");
    command.env_remove("MCPTAP_DB").arg("--db").arg(db);
    command
}

/// Runs a command to its end. Returns its duration, and its peak memory in megabytes.
fn timed(mut command: Command) -> (Duration, f64) {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::null()).spawn().expect("mcptap runs");
    let mut most = 0.0;
    let status = loop {
        most = memory(&child).unwrap_or(most);
        match child.try_wait().expect("a child") {
            Some(status) => break status,
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(status.success(), "the replay differs: {status}");
    (start.elapsed(), most)
}

/// The peak resident memory so far, in megabytes (proc(5)).
fn memory(child: &Child) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1_024.0)
}

fn compare(transport: &str, work: u64, calls: u64) {
    let work_text = work.to_string();
    let own_path = std::env::current_exe().expect("a path").display().to_string();
    let stdio = [own_path.clone(), "serve".to_owned(), work_text.clone()];
    let mut case = Case {
        what: format!("{transport:<6} {work:>5} µs of work"),
        // A fast server gives the same recording.
        recorded: vec![own_path, "serve".to_owned(), "0".to_owned()],
        stdio: stdio.to_vec(),
        url: None,
        call: |id| format!(r#"{{"name":"echo","arguments":{{"text":"call number {id} of many"}}}}"#),
    };
    let mut serving = None;
    if transport == "http" {
        let mut child = own(&["serve-http", &work_text]).stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut address).expect("an address");
        case.url = Some(format!("http://{}/mcp", address.trim()));
        serving = Some(child);
    }
    case.run(calls, "1");
    if let Some(mut child) = serving {
        child.kill().and_then(|()| child.wait()).expect("it ends");
    }
}

/// A server, and the calls of it.
struct Case {
    what: String,
    /// The command line of the recorded server. If there is no URL, the replay uses it too.
    recorded: Vec<String>,
    stdio: Vec<String>,
    url: Option<String>,
    call: bare::Call,
}

impl Case {
    fn run(&self, calls: u64, session: &str) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let db = folder.path().join("db");
        let mut wrap = mcptap(&db);
        wrap.args(["wrap", "--"]).args(&self.recorded);
        bare::stdio(wrap, calls, self.call);
        let (mut bare, mut replayed, mut most) = (Vec::new(), Vec::new(), 0.0_f64);
        for _ in 0..ROUNDS {
            let mut replay = mcptap(&db);
            replay.args(["replay", session, "--pace", "fast"]);
            match &self.url {
                Some(url) => {
                    bare.push(bare::http(url, calls, self.call));
                    replay.args(["--to", url]);
                }
                None => {
                    let mut server = Command::new(&self.stdio[0]);
                    server.args(&self.stdio[1..]);
                    bare.push(bare::stdio(server, calls, self.call));
                    replay.arg("--").args(&self.stdio);
                }
            }
            let (time, memory) = timed(replay);
            replayed.push(time);
            most = most.max(memory);
        }
        // The speed of each replay beside the bare client of the same round.
        let mut speeds: Vec<f64> = bare
            .iter()
            .zip(&replayed)
            .map(|(bare, replay)| 100.0 * bare.as_secs_f64() / replay.as_secs_f64())
            .collect();
        speeds.sort_by(f64::total_cmp);
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2].as_secs_f64()
        };
        let (bare, replayed) = (median(&mut bare), median(&mut replayed));
        println!(
            "{} {calls:>7} calls: bare {:>8.1} ms, replay {:>8.1} ms, {:>5.1} % of its speed ({:.1} to {:.1} %), {most:.0} MB",
            self.what,
            bare * 1e3,
            replayed * 1e3,
            speeds[ROUNDS / 2],
            speeds[0],
            speeds[ROUNDS - 1]
        );
    }
}
