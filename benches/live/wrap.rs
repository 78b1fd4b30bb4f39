//! `mcptap wrap` between a client and an echo server.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ways::{Way, print_head, relay, turns};
use crate::{answer, mcptap, median, memory, peak_memory, recorded, request};

/// The server: it answers each line.
pub fn serve() {
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    while stdin.read_until(b'\n', &mut line).expect("stdin is readable") > 0 {
        stdout.write_all(&answer(&line)).and_then(|()| stdout.flush()).expect("stdout takes it");
        line.clear();
    }
}

/// A server, connected directly, through the relay or through the wrapper.
pub struct Peer {
    child: Child,
    pub stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    folder: Option<TempDir>,
}

impl Peer {
    /// Starts the echo server.
    fn echo(way: Way) -> Peer {
        let own = std::env::current_exe().expect("a path").display().to_string();
        Peer::start(&[own, "serve".to_owned()], way)
    }

    pub fn start(server: &[String], way: Way) -> Peer {
        let folder = (way == Way::Mcptap).then(|| tempfile::tempdir().expect("a temporary directory"));
        let mut command = match &folder {
            Some(folder) => {
                let mut command = mcptap();
                command.args(["wrap", "--db"]).arg(folder.path().join("db")).arg("--").args(server);
                command
            }
            None if way == Way::Relay => {
                let mut command = relay();
                command.arg("pipe").args(server);
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

    /// Ends the server. A recording that is behind loses its rest then (decision 25).
    pub fn end(self) {
        let Peer { mut child, stdin, mut stdout, .. } = self;
        drop(stdin);
        stdout.read_to_end(&mut Vec::new()).expect("the end");
        assert!(child.wait().expect("it ends").success());
    }

    /// Ends the server when everything is recorded. Returns the seconds until then. Prints a
    /// warning if the database does not hold everything.
    pub fn end_when_recorded(self, calls: u64) -> f64 {
        let begun = Instant::now();
        let db = self.folder.as_ref().map(|folder| folder.path().join("db"));
        let is_complete = |db: &Path| {
            let (messages, unanswered) = recorded(db);
            // The server may have sent additional messages.
            messages >= 2 * calls && unanswered == 0
        };
        while let Some(db) = &db
            && !is_complete(db)
        {
            if begun.elapsed() > PATIENCE {
                println!("{:17} {} messages recorded of {}", "", recorded(db).0, 2 * calls);
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.end();
        begun.elapsed().as_secs_f64()
    }
}

/// The longest time for which a recording may lag behind a flood.
const PATIENCE: Duration = Duration::from_secs(120);

fn line(id: u64, padding: usize) -> Vec<u8> {
    let mut line = request(id, padding);
    line.push(b'\n');
    line
}

/// The median round trip in microseconds, with one call at a time.
fn round_trip(way: Way) -> f64 {
    const CALLS: u64 = 20_000;
    let mut peer = Peer::echo(way);
    let mut line_buffer = Vec::new();
    let mut times = Vec::new();
    for id in 0..CALLS {
        let line = line(id, 40);
        let start = Instant::now();
        peer.call(&line, &mut line_buffer);
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    peer.end_when_recorded(CALLS);
    median(times)
}

/// Calls per second, with as many calls in flight as the pipes hold.
fn pipelined(peer: &mut Peer) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        let Peer { stdin, stdout, .. } = peer;
        scope.spawn(move || (0..PIPELINED).for_each(|id| stdin.write_all(&line(id, 40)).expect("it reads")));
        let mut line_buffer = Vec::new();
        for _ in 0..PIPELINED {
            line_buffer.clear();
            stdout.read_until(b'\n', &mut line_buffer).expect("it answers");
        }
    });
    PIPELINED as f64 / start.elapsed().as_secs_f64()
}

const PIPELINED: u64 = 400_000;

/// Far more data than may wait for the recorder in memory.
const LARGE: u64 = 100;

/// Megabytes per second of messages of 1 MB in both directions.
fn large(peer: &mut Peer) -> f64 {
    let mut line_buffer = Vec::new();
    let lines: Vec<_> = (0..LARGE).map(|id| line(id, 1 << 20)).collect();
    let start = Instant::now();
    lines.iter().for_each(|line| peer.call(line, &mut line_buffer));
    (2 * LARGE * (1 << 20)) as f64 / 1e6 / start.elapsed().as_secs_f64()
}

/// Compares the rates of a flood. One more run waits until the recording is complete.
fn print_flood(what: &str, unit: &str, calls: u64, flood: impl Fn(&mut Peer) -> f64) {
    let rate = |way| {
        let mut peer = Peer::echo(way);
        let rate = flood(&mut peer);
        peer.end();
        rate
    };
    turns(rate).print_rates(what, unit);
    let mut peer = Peer::echo(Way::Mcptap);
    flood(&mut peer);
    let peak = peak_memory(&peer.child);
    let lag = peer.end_when_recorded(calls);
    println!("{:17} peak memory {peak:.0} MB, everything recorded {lag:.1} s later", "");
}

/// Milliseconds from the start to the first response.
fn start_up(way: Way) -> f64 {
    let line = line(0, 40);
    let start = Instant::now();
    let mut peer = Peer::echo(way);
    peer.call(&line, &mut Vec::new());
    let time = start.elapsed().as_secs_f64() * 1e3;
    peer.end_when_recorded(1);
    time
}

/// Megabytes of memory of an idle wrapper, after that many calls, twice.
fn idle(calls: u64) -> f64 {
    let mut peer = Peer::echo(Way::Mcptap);
    // The wrapper becomes idle in between too.
    for ids in [0..calls, calls..2 * calls] {
        ids.for_each(|id| peer.call(&line(id, 40), &mut Vec::new()));
        thread::sleep(Duration::from_secs(3));
    }
    let memory = memory(&peer.child, "VmRSS");
    peer.end_when_recorded(2 * calls);
    memory
}

/// Milliseconds until a second process has printed a response after the client received
/// it: median and maximum.
fn seen() -> (f64, f64) {
    const CALLS: u64 = 50;
    let mut peer = Peer::echo(Way::Mcptap);
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
    peer.end_when_recorded(CALLS);
    follow.wait().expect("it ends");
    let longest = times.iter().copied().fold(0.0, f64::max);
    (median(times), longest)
}

/// Runs the measurement of this name, or all of them.
pub fn run(only: Option<&str>) {
    print_head("wrap");
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted("trip") {
        turns(round_trip).print_times("round trip", "µs");
    }
    if wanted("pipelined") {
        print_flood("pipelined calls", "/s", PIPELINED, pipelined);
    }
    if wanted("large") {
        print_flood("1 MB messages", "MB/s", LARGE, large);
    }
    if wanted("start") {
        turns(start_up).print_times("first answer", "ms");
    }
    if wanted("idle") {
        println!("idle              memory {:.1} MB, after 20,000 calls {:.1}", idle(1), idle(10_000));
    }
    if wanted("seen") {
        let (half, longest) = seen();
        println!("seen by another   {half:.0} ms, longest {longest:.0} ms");
    }
}
