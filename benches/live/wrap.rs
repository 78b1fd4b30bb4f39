//! `mcptap wrap` between a client and an echo server.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::{answer, mcptap, median, recorded, request};

/// The number of rounds; each measures direct and wrapped.
const ROUNDS: usize = 5;

/// The server: it answers each line.
pub fn serve() {
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    while stdin.read_until(b'\n', &mut line).expect("stdin is readable") > 0 {
        stdout.write_all(&answer(&line)).and_then(|()| stdout.flush()).expect("stdout takes it");
        line.clear();
    }
}

/// A server, connected directly or through the wrapper.
pub struct Peer {
    child: Child,
    pub stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: Option<TempDir>,
}

impl Peer {
    /// Starts the echo server.
    fn echo(wrapped: bool) -> Peer {
        let own = std::env::current_exe().expect("a path").display().to_string();
        Peer::start(&[own, "serve".to_owned()], wrapped)
    }

    pub fn start(server: &[String], wrapped: bool) -> Peer {
        let folder = wrapped.then(|| tempfile::tempdir().expect("a temporary directory"));
        let mut command = match &folder {
            Some(folder) => {
                let mut command = mcptap();
                command.args(["wrap", "--db"]).arg(folder.path().join("db")).arg("--").args(server);
                command
            }
            None => {
                let mut command = Command::new(&server[0]);
                command.args(&server[1..]);
                command
            }
        };
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the server starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::with_capacity(1 << 20, child.stdout.take().expect("a pipe"));
        Peer { child, stdin, stdout, folder }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn call(&mut self, line: &[u8], answer: &mut Vec<u8>) {
        self.stdin.write_all(line).expect("it reads");
        self.next_line(answer);
    }

    /// The next line of the server.
    pub fn next_line(&mut self, line: &mut Vec<u8>) {
        line.clear();
        assert!(self.stdout.read_until(b'\n', line).expect("it is readable") > 0, "it ended");
    }

    /// A memory figure of the wrapper in kilobytes (proc(5)).
    fn memory(&self, name: &str) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)).and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// Ends the server. Prints a warning if the database does not hold everything.
    pub fn end(self, calls: u64) {
        let Peer { mut child, stdin, mut stdout, folder } = self;
        drop(stdin);
        stdout.read_to_end(&mut Vec::new()).expect("the end");
        assert!(child.wait().expect("it ends").success());
        if let Some(folder) = folder {
            let (messages, unanswered) = recorded(&folder.path().join("db"));
            // The server may have sent additional messages.
            if messages < 2 * calls || unanswered > 0 {
                println!("                 {messages} messages recorded of {}", 2 * calls);
            }
        }
    }
}

fn line(id: u64, padding: usize) -> Vec<u8> {
    let mut line = request(id, padding);
    line.push(b'\n');
    line
}

/// The median round trip in microseconds, with one call at a time.
fn round_trip(wrapped: bool) -> f64 {
    const CALLS: u64 = 20_000;
    let mut peer = Peer::echo(wrapped);
    let mut line_buffer = Vec::new();
    let mut times = Vec::new();
    for id in 0..CALLS {
        let line = line(id, 40);
        let start = Instant::now();
        peer.call(&line, &mut line_buffer);
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    peer.end(CALLS);
    median(times)
}

/// Calls per second, with as many calls in flight as the pipes hold.
fn pipelined(wrapped: bool) -> f64 {
    const CALLS: u64 = 400_000;
    let mut peer = Peer::echo(wrapped);
    let start = Instant::now();
    thread::scope(|scope| {
        let Peer { stdin, stdout, .. } = &mut peer;
        scope.spawn(move || (0..CALLS).for_each(|id| stdin.write_all(&line(id, 40)).expect("it reads")));
        let mut line_buffer = Vec::new();
        for _ in 0..CALLS {
            line_buffer.clear();
            stdout.read_until(b'\n', &mut line_buffer).expect("it answers");
        }
    });
    let rate = CALLS as f64 / start.elapsed().as_secs_f64();
    peer.end(CALLS);
    rate
}

/// Megabytes per second of messages of 1 MB in both directions, and the peak memory of the started
/// process in MB.
fn large(wrapped: bool) -> (f64, f64) {
    // Far more data than may wait for the recorder in memory.
    const CALLS: u64 = 100;
    let mut peer = Peer::echo(wrapped);
    let mut line_buffer = Vec::new();
    let line = |id| line(id, 1 << 20);
    let lines: Vec<_> = (0..CALLS).map(line).collect();
    let start = Instant::now();
    lines.iter().for_each(|line| peer.call(line, &mut line_buffer));
    let rate = (2 * CALLS * (1 << 20)) as f64 / 1e6 / start.elapsed().as_secs_f64();
    let peak = peer.memory("VmHWM") / 1024.0;
    peer.end(CALLS);
    (rate, peak)
}

/// Milliseconds from the start to the first response.
fn start_up(wrapped: bool) -> f64 {
    let line = line(0, 40);
    let start = Instant::now();
    let mut peer = Peer::echo(wrapped);
    peer.call(&line, &mut Vec::new());
    let time = start.elapsed().as_secs_f64() * 1e3;
    peer.end(1);
    time
}

/// Megabytes of memory of an idle wrapper, after that many calls, twice.
fn idle(calls: u64) -> f64 {
    let mut peer = Peer::echo(true);
    // The wrapper becomes idle in between too.
    for ids in [0..calls, calls..2 * calls] {
        ids.for_each(|id| peer.call(&line(id, 40), &mut Vec::new()));
        thread::sleep(Duration::from_secs(3));
    }
    let memory = peer.memory("VmRSS") / 1024.0;
    peer.end(2 * calls);
    memory
}

/// Milliseconds until a second process has printed a response after the client received
/// it: median and maximum.
fn seen() -> (f64, f64) {
    const CALLS: u64 = 50;
    let mut peer = Peer::echo(true);
    peer.call(&line(0, 40), &mut Vec::new());
    thread::sleep(Duration::from_millis(300));
    let db = peer.folder.as_ref().expect("wrapped").path().join("db");
    let mut follow = mcptap();
    follow.args(["show", "latest", "--follow", "--json", "--db"]).arg(db).stdout(Stdio::piped());
    let mut follow = follow.spawn().expect("mcptap runs");
    let mut lines = BufReader::new(follow.stdout.take().expect("a pipe")).lines();
    let mut times = Vec::new();
    for id in 1..CALLS {
        // At varying moments of the periods of both processes.
        thread::sleep(Duration::from_millis(50 + id * 7 % 40));
        peer.call(&line(id, 40), &mut Vec::new());
        let start = Instant::now();
        let wanted = format!("\"id\":{}", 10_000_000 + id);
        let is_answer = |line: &String| line.contains("\"kind\":\"response\"") && line.contains(&wanted);
        lines.by_ref().map(|line| line.expect("text")).find(is_answer).expect("it goes on following");
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    peer.end(CALLS);
    follow.wait().expect("it ends");
    let longest = times.iter().copied().fold(0.0, f64::max);
    (median(times), longest)
}

/// Measures direct and wrapped in turn. Returns the medians of both.
pub fn turns(measure: impl Fn(bool) -> f64) -> (f64, f64) {
    let (direct, wrapped) = (0..ROUNDS).map(|_| (measure(false), measure(true))).unzip();
    (median(direct), median(wrapped))
}

pub fn run(only: Option<&str>) {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    println!("wrap on {cores} cores; medians of {ROUNDS} rounds, direct and wrapped in turn");
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted("trip") {
        let (direct, wrapped) = turns(round_trip);
        println!("round trip       {direct:8.1} µs   {wrapped:8.1} µs   added {:.1} µs", wrapped - direct);
    }
    if wanted("pipelined") {
        let (direct, wrapped) = turns(pipelined);
        println!("pipelined calls  {direct:8.0} /s   {wrapped:8.0} /s   {:.0} %", wrapped * 100.0 / direct);
    }
    if wanted("large") {
        let (direct, wrapped) = turns(|wrapped| large(wrapped).0);
        println!("1 MB messages    {direct:8.0} MB/s {wrapped:8.0} MB/s {:.0} %", wrapped * 100.0 / direct);
        println!("                 peak memory {:.0} MB", large(true).1);
    }
    if wanted("start") {
        let (direct, wrapped) = turns(start_up);
        println!("first answer     {direct:8.2} ms   {wrapped:8.2} ms   added {:.2} ms", wrapped - direct);
    }
    if wanted("idle") {
        println!("idle             memory {:.1} MB, after 20,000 calls {:.1}", idle(1), idle(10_000));
    }
    if wanted("seen") {
        let (half, longest) = seen();
        println!("seen by another  {half:8.0} ms   longest {longest:.0} ms");
    }
}
