//! 1 MB messages of official servers, which parse and write JSON, directly, through the relay and
//! through `mcptap wrap`.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use crate::ways::{Way, print_head, turns};
use crate::wrap::Peer;

const CALLS: u64 = 40;

/// Calls `echo` of the npm server `everything` and of a server made with the Python SDK.
pub fn run() {
    let folder = PathBuf::from(std::env::var_os("MCPTAP_PEERS").expect("MCPTAP_PEERS names the folder of the servers"));
    let folder = folder.canonicalize().expect("tests/peers/setup.sh filled it");
    let path = |name: &str| folder.join(name).display().to_string();
    let script = format!("{}/tests/peers/server.py", env!("CARGO_MANIFEST_DIR"));
    let servers = [
        ("everything", "message", everything().expect("the peers are there")),
        ("Python SDK", "text", [path("python/bin/python"), script, "stdio".to_owned()]),
    ];
    print_head("wrap");
    for (name, argument, command) in servers {
        turns(|way| echo(&command, argument, way)).print_rates(&format!("1 MB, {name}"), "/s");
    }
}

/// Calls per second, each with a megabyte of words in both directions.
fn echo(command: &[String], argument: &str, way: Way) -> f64 {
    let mut peer = Peer::start(command, way);
    let mut line_buffer = Vec::new();
    initialize(&mut peer);
    let words: String = (0..).map(|number: u64| format!("word {} ", number * 7_919 % 10_007)).take(120_000).collect();
    let text = &words[..1 << 20];
    let start = Instant::now();
    for id in 1..=CALLS {
        let params = format!(r#"{{"name":"echo","arguments":{{"{argument}":"{text}"}}}}"#);
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        ask(&mut peer, id, &call, &mut line_buffer);
        assert!(line_buffer.len() > text.len(), "{}", String::from_utf8_lossy(&line_buffer));
    }
    let rate = CALLS as f64 / start.elapsed().as_secs_f64();
    peer.end_when_recorded(CALLS);
    rate
}

/// The command of the npm server `everything`; `None` without the peers.
pub fn everything() -> Option<[String; 3]> {
    let folder = PathBuf::from(std::env::var_os("MCPTAP_PEERS")?).canonicalize().ok()?;
    let path = |name: &str| folder.join(name).display().to_string();
    let script = path("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    Some([path("node"), script, "stdio".to_owned()])
}

/// Opens a session.
pub fn initialize(peer: &mut Peer) {
    let client = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#;
    let initialize = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{client}}}"#);
    ask(peer, 0, &initialize, &mut Vec::new());
    peer.stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n").expect("it reads");
}

/// Sends a call and reads until its response. The server may send notifications before.
pub fn ask(peer: &mut Peer, id: u64, call: &str, line_buffer: &mut Vec<u8>) {
    let has_id = |line_buffer: &[u8]| {
        [&line_buffer[..line_buffer.len().min(100)], &line_buffer[line_buffer.len().saturating_sub(100)..]]
            .iter()
            .any(|end| memchr::memmem::find(end, format!("\"id\":{id}").as_bytes()).is_some())
    };
    peer.call(format!("{call}\n").as_bytes(), line_buffer);
    while !has_id(line_buffer) {
        peer.next_line(line_buffer);
    }
}
