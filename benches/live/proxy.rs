//! `mcptap proxy` between a client and a server that know the length of every message, so that
//! neither of them parses.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::threads::ThreadCost;
use crate::ways::{ROUNDS, Way, print_head, relay, turns};
use crate::{answer, mcptap, median, peak_memory, recorded, request, threads};

/// The digits of an id within a body.
const ID: std::ops::Range<usize> = 22..30;

/// The request with this id for a server at this port, and the index of its body.
fn post(id: u64, padding: usize, port: u16) -> (Vec<u8>, usize) {
    let body = request(id, padding);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    ([head.as_bytes(), &body].concat(), head.len())
}

/// The response to the request with id 0, and the index of its body.
fn response(padding: usize) -> (Vec<u8>, usize) {
    let body = answer(&request(0, padding));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    ([head.as_bytes(), &body].concat(), head.len())
}

/// Answers the requests of one connection. Returns the port.
fn serve(padding: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.set_nodelay(true).expect("TCP");
        // All ports have five digits, so the proxy changes no length.
        let (mut request, start) = post(0, padding, port);
        let (mut response, answer_start) = response(padding);
        while stream.read_exact(&mut request).is_ok() {
            let id = &request[start..][ID];
            response[answer_start..][ID].copy_from_slice(id);
            if stream.write_all(&response).is_err() {
                return;
            }
        }
    });
    port
}

/// The program between the client and the server.
struct Between {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    folder: TempDir,
}

impl Between {
    /// Starts a relay or a proxy for the server at this port. Returns its own port too.
    fn start(way: Way, port: u16) -> (Between, u16) {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let mut command = match way {
            Way::Mcptap => {
                let mut command = mcptap();
                let to = format!("http://127.0.0.1:{port}/mcp");
                command.args(["proxy", "--listen", "127.0.0.1:0", "--to", &to, "--db"]).arg(folder.path().join("db"));
                command.stdout(Stdio::null());
                command
            }
            _ => {
                let mut command: Command = relay();
                command.args(["tcp", &port.to_string()]).stdout(Stdio::piped());
                command
            }
        };
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        match child.stdout.take() {
            Some(stdout) => BufReader::new(stdout).read_line(&mut line).expect("text"),
            None => stderr.read_line(&mut line).expect("text"),
        };
        let own = line.split_once("127.0.0.1:").map_or(line.as_str(), |(_, rest)| rest);
        let own = own.split(|byte: char| !byte.is_ascii_digit()).next().and_then(|port| port.parse().ok());
        (Between { child, stderr, folder }, own.expect("it names its port"))
    }

    /// Ends it. Prints a warning if the database of a proxy does not hold everything.
    fn end(mut self, way: Way, calls: u64) {
        if way == Way::Mcptap {
            let process = Pid::from_raw(self.child.id() as i32).expect("a process id");
            kill_process(process, Signal::INT).expect("it lives");
        }
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{said}");
        if way == Way::Mcptap {
            let (messages, unanswered) = recorded(&self.folder.path().join("db"));
            if messages != 2 * calls || unanswered > 0 {
                println!("{:17} {messages} messages recorded of {}: {}", "", 2 * calls, said.trim());
            }
        }
    }
}

/// The figures of some calls.
struct Measured {
    /// The seconds of each call.
    times: Vec<f64>,
    /// The peak memory of the program between, in MB.
    peak: f64,
    /// What the threads of the program between used from the first call to the last one.
    threads: BTreeMap<String, ThreadCost>,
}

/// Makes calls one after the other.
fn calls(way: Way, calls: u64, padding: usize) -> Measured {
    let server = serve(padding);
    let between = (way != Way::Direct).then(|| Between::start(way, server));
    let port = between.as_ref().map_or(server, |(_, own)| *own);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_nodelay(true).expect("TCP");
    let (mut request, start) = post(0, padding, port);
    let (mut response, _) = response(padding);
    let mut times = Vec::new();
    for id in 0..calls {
        request[start..][ID].copy_from_slice((10_000_000 + id).to_string().as_bytes());
        let begun = Instant::now();
        stream.write_all(&request).expect("it reads");
        stream.read_exact(&mut response).expect("it answers");
        times.push(begun.elapsed().as_secs_f64());
    }
    let threads = between.as_ref().map_or_else(BTreeMap::new, |(between, _)| threads::costs(&between.child));
    drop(stream);
    let peak = between.as_ref().map_or(0.0, |(between, _)| peak_memory(&between.child));
    if let Some((between, _)) = between {
        between.end(way, calls);
    }
    Measured { times, peak, threads }
}

/// The median round trip in microseconds.
fn round_trip(way: Way) -> f64 {
    median(calls(way, 10_000, 40).times) * 1e6
}

/// Megabytes per second of messages of 1 MB in both directions.
fn large(way: Way, count: u64) -> f64 {
    let times = calls(way, count, 1 << 20).times;
    megabytes(count) / times.iter().sum::<f64>()
}

/// Megabytes of calls of 1 MB, in both directions.
fn megabytes(count: u64) -> f64 {
    (2 * count * (1 << 20)) as f64 / 1e6
}

/// Prints what the threads use for each megabyte of calls of 1 MB, until the last response. It
/// depends less on other programs than times do.
fn print_costs(count: u64) {
    println!("{:17} {:>22} {:>22} {:>22}", format!("{count} x 1 MB, per MB"), "CPU, µs", "sleeps", "page faults");
    for way in [Way::Relay, Way::Mcptap] {
        let rounds: Vec<_> = (0..ROUNDS).map(|_| calls(way, count, 1 << 20).threads).collect();
        let names: std::collections::BTreeSet<_> = rounds.iter().flat_map(BTreeMap::keys).collect();
        for name in names {
            let figure = |figure: fn(&ThreadCost) -> f64| {
                let values = rounds.iter().filter_map(|threads| threads.get(name)).map(figure);
                median(values.collect()) / megabytes(count)
            };
            println!(
                "{name:17} {:>22.1} {:>22.2} {:>22.1}",
                figure(|cost| cost.seconds * 1e6),
                figure(|cost| cost.sleeps),
                figure(|cost| cost.faults)
            );
        }
    }
}

/// Runs the measurement of this name, or all of them.
pub fn run(only: Option<&str>) {
    print_head("proxy");
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    if wanted("trip") {
        turns(round_trip).print_times("round trip", "µs");
    }
    if wanted("large") {
        // So much waits for the recorder in memory. A client rarely sends more at a time.
        turns(|way| large(way, 10)).print_rates("10 x 1 MB", "MB/s");
        // Far more than that.
        turns(|way| large(way, 200)).print_rates("200 x 1 MB", "MB/s");
        println!("{:17} peak memory {:.0} MB", "", calls(Way::Mcptap, 200, 1 << 20).peak);
    }
    if wanted("costs") {
        print_costs(10);
        print_costs(200);
    }
}
