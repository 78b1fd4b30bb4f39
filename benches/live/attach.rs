//! The cost of `mcptap attach` for the server that it watches: round trips without and with it, in
//! turn, of the same process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::official::{ask, everything, initialize};
use crate::ways::Way;
use crate::wrap::Peer;
use crate::{mcptap, median, request};

/// Pairs of measurements, and calls in each.
const PAIRS: usize = 15;
const CALLS: u64 = 2_000;

/// Measures `cat`, an echo in C, and a server in Node.js if the peers are there.
pub fn run() {
    let mut echo = Peer::start(&["cat".to_owned()], Way::Direct);
    let call = |peer: &mut Peer, id, line: &mut Vec<u8>| peer.call(&[request(id, 40), b"\n".to_vec()].concat(), line);
    pairs("echo in C", &mut echo, call);
    echo.end();
    let Some(command) = everything() else { return println!("Node.js          MCPTAP_PEERS does not name the peers") };
    let mut node = Peer::start(&command, Way::Direct);
    initialize(&mut node);
    let call = |peer: &mut Peer, id: u64, line: &mut Vec<u8>| {
        let params = r#"{"name":"echo","arguments":{"message":"hello"}}"#;
        let call = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{params}}}"#, id + 1);
        ask(peer, id + 1, &call, line);
    };
    pairs("Node.js", &mut node, call);
    node.end();
}

/// Prints the medians, and the median of the ratios of the pairs.
fn pairs(name: &str, peer: &mut Peer, call: impl Fn(&mut Peer, u64, &mut Vec<u8>)) {
    let mut id = 0;
    let mut round_trip = |peer: &mut Peer| {
        let (mut times, mut line) = (Vec::new(), Vec::new());
        for _ in 0..CALLS {
            let start = Instant::now();
            call(peer, id, &mut line);
            times.push(start.elapsed().as_secs_f64() * 1e6);
            id += 1;
        }
        median(times)
    };
    // The just-in-time compiler of Node.js needs some calls.
    round_trip(peer);
    let (mut direct, mut attached, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        direct.push(round_trip(peer));
        let watcher = attach(peer.process());
        attached.push(round_trip(peer));
        end(watcher);
        ratios.push(attached[attached.len() - 1] / direct[direct.len() - 1]);
    }
    println!(
        "{name:<12} {:8.1} µs   attached {:8.1} µs   ratio {:.3}",
        median(direct),
        median(attached),
        median(ratios)
    );
}

/// Attaches to a process. Returns once it is watched.
fn attach(process: u32) -> Child {
    let mut command = mcptap();
    command.args(["attach", "--no-save", &process.to_string()]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("mcptap starts");
    let mut first = String::new();
    BufReader::new(child.stderr.as_mut().expect("a pipe")).read_line(&mut first).expect("text");
    assert!(first.starts_with("mcptap: attached"), "{first}");
    child
}

/// Ends it with Ctrl-C. The next measurement begins when it has ended.
fn end(mut watcher: Child) {
    let process = rustix::process::Pid::from_child(&watcher);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it lives");
    watcher.wait().expect("it ends");
}
