//! Small inputs that cost a careless decoder much memory or time. Each capture is made here and
//! given to the program, whose memory is bounded. The program has to end in good order, and to
//! report what it did not decode.

mod inputs;

use std::io::Write;
use std::iter;
use std::process::{Command, Output, Stdio};
use std::thread;

use mcptap::export::pcapng;
use serde_json::Value;

use self::inputs::*;
use crate::program::mcptap;
use crate::rewrite::Frame;
use crate::support::waits::{finished, joined};
use crate::wrapped::of_type;

/// Memory that the program may allocate, in MiB. It needs less than 16 for an ordinary capture, and
/// may hold 64 of reassembled segments.
const MEMORY: u64 = 160;

/// Memory for messages of the largest size: 128 MiB of one, and copies on its way.
const FOR_MESSAGES: u64 = 600;

/// A hostile capture.
struct Bomb {
    name: &'static str,
    capture: fn() -> Vec<Frame>,
    /// Rules of which findings are reported.
    reported: &'static [&'static str],
    /// The number of lines of a type that are printed, at least.
    shown: (&'static str, usize),
    /// Memory that the program may allocate, in MiB.
    memory: u64,
}

const BLANK: Bomb = Bomb { name: "", capture: Vec::new, reported: &[], shown: ("summary", 1), memory: MEMORY };
const ONE_EXCHANGE: (&str, usize) = ("exchange", 1);
const LIMIT: &[&str] = &["limit-reached"];

/// Bodies that grow when they are decompressed.
const CODINGS: &[Bomb] = &[
    Bomb {
        name: "gzip",
        capture: || coded("gzip", &gzip(&spaces(140))),
        reported: LIMIT,
        memory: FOR_MESSAGES,
        ..BLANK
    },
    Bomb {
        name: "deflate",
        capture: || coded("deflate", &deflate(&spaces(140))),
        reported: LIMIT,
        memory: FOR_MESSAGES,
        ..BLANK
    },
    Bomb { name: "br", capture: || coded("br", BROTLI), reported: LIMIT, ..BLANK },
    Bomb { name: "zstd", capture: || coded("zstd", &zstd(&spaces(140))), reported: LIMIT, ..BLANK },
    Bomb {
        name: "gzip in gzip",
        capture: || coded("gzip, gzip", &gzip(&gzip(&spaces(140)))),
        reported: LIMIT,
        ..BLANK
    },
    Bomb {
        name: "a compressed WebSocket message",
        capture: || {
            let message = websocket_frame(0xc1, &raw_deflate(&spaces(140)));
            websocket("Sec-WebSocket-Extensions: permessage-deflate\r\n", &message)
        },
        reported: LIMIT,
        memory: FOR_MESSAGES,
        ..BLANK
    },
];

/// Texts of many small or endless parts.
const TEXTS: &[Bomb] = &[
    Bomb {
        name: "nested arrays",
        capture: || parameters(&format!("{}{}", "[".repeat(1 << 20), "]".repeat(1 << 20))),
        reported: &["stdio-stdin-not-mcp"],
        ..BLANK
    },
    Bomb {
        name: "nested objects",
        capture: || parameters(&format!("{}1{}", r#"{"a":"#.repeat(1 << 18), "}".repeat(1 << 18))),
        reported: &["stdio-stdin-not-mcp"],
        ..BLANK
    },
    Bomb {
        name: "arrays without end",
        capture: || parameters(&"[".repeat(4 << 20)),
        reported: &["stdio-stdin-not-mcp"],
        ..BLANK
    },
    Bomb {
        name: "members",
        capture: || parameters(&format!("[{}1]", "1,".repeat(1 << 20))),
        reported: &["jsonrpc-params-not-object"],
        ..BLANK
    },
    Bomb { name: "empty events", capture: || events(&"data:\n\n".repeat(200_000)), shown: ONE_EXCHANGE, ..BLANK },
    Bomb { name: "comments", capture: || events(&":\n\n".repeat(300_000)), shown: ONE_EXCHANGE, ..BLANK },
    Bomb {
        name: "event ids",
        capture: || events(&(0..50_000).map(|id| format!("id:{id}\ndata:1\n\n")).collect::<String>()),
        shown: ONE_EXCHANGE,
        ..BLANK
    },
    Bomb {
        name: "an event without end",
        capture: || events(&"data:x\n".repeat(4 << 20)),
        reported: &["limit-reached", "bytes-skipped"],
        memory: FOR_MESSAGES,
        ..BLANK
    },
    Bomb { name: "a line without end", capture: endless_line, reported: LIMIT, memory: FOR_MESSAGES, ..BLANK },
];

/// Connections of many small or endless parts.
const CONNECTIONS: &[Bomb] = &[
    Bomb {
        name: "header fields",
        capture: || client(format!("POST / HTTP/1.1\r\nHost: h\r\n{}", "a: b\r\n".repeat(1 << 20))),
        reported: &["limit-reached", "bytes-skipped"],
        ..BLANK
    },
    Bomb {
        name: "pipelined requests",
        capture: || client("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(10_000)),
        reported: LIMIT,
        shown: ("exchange", 10_000),
        ..BLANK
    },
    Bomb {
        name: "CONTINUATION frames",
        capture: || {
            let block = |kind| http2::frame(kind, 0, 3, &[0x84; 16_000]);
            let more = iter::repeat_with(|| block(http2::CONTINUATION)).take(600);
            http2::connection(iter::once(block(http2::HEADERS)).chain(more))
        },
        reported: &["limit-reached", "http-malformed"],
        shown: ONE_EXCHANGE,
        ..BLANK
    },
    Bomb {
        name: "streams that are reset",
        capture: || {
            let stream = |number| {
                let request = http2::frame(http2::HEADERS, http2::END_HEADERS, number, http2::POST);
                [request, http2::frame(http2::RST_STREAM, 0, number, &[0, 0, 0, 8])].concat()
            };
            http2::connection((1..10_000).map(|number| stream(2 * number + 1)))
        },
        shown: ("exchange", 10_000),
        ..BLANK
    },
    Bomb {
        name: "SETTINGS frames",
        capture: || http2::connection(iter::repeat_with(http2::largest_table).take(100_000)),
        shown: ONE_EXCHANGE,
        ..BLANK
    },
    Bomb {
        name: "PING frames",
        capture: || http2::connection(iter::repeat_with(|| http2::frame(http2::PING, 0, 0, &[0; 8])).take(100_000)),
        shown: ONE_EXCHANGE,
        ..BLANK
    },
    Bomb {
        name: "a table of header fields that grows",
        capture: || {
            let request = |number: u32| {
                let fields = (0..400).flat_map(|field| http2::indexed(number * 400 + field));
                let block: Vec<u8> = http2::POST.iter().copied().chain(fields).collect();
                let pieces = block.chunks(16_000).count();
                let frames = block.chunks(16_000).enumerate().flat_map(|(at, piece)| {
                    let kind = if at == 0 { http2::HEADERS } else { http2::CONTINUATION };
                    http2::frame(kind, if at + 1 == pieces { http2::END_HEADERS } else { 0 }, 2 * number + 1, piece)
                });
                http2::largest_table().into_iter().chain(frames).collect()
            };
            http2::connection((1..500).map(request))
        },
        shown: ("exchange", 500),
        ..BLANK
    },
    Bomb {
        name: "fragments of a WebSocket message",
        capture: || {
            let more = websocket_frame(0x00, b"1").repeat(300_000);
            websocket("", &[websocket_frame(0x01, b"["), more].concat())
        },
        shown: ONE_EXCHANGE,
        ..BLANK
    },
    Bomb {
        name: "segments that overlap",
        capture: overlaps,
        reported: &["tcp-overlap-conflict"],
        shown: ONE_EXCHANGE,
        ..BLANK
    },
    Bomb {
        name: "segments with holes between them",
        capture: holes,
        reported: &["limit-reached", "tcp-bytes-lost"],
        shown: ONE_EXCHANGE,
        ..BLANK
    },
];

/// Schemas whose check would take very long. The call and its result are shown in each case.
const SCHEMAS: &[Bomb] = &[
    Bomb { name: "references", capture: || tool(&exponential_references(), ARGUMENT), ..SCHEMA },
    Bomb { name: "a deep schema", capture: || tool(&deep_schema(100), ARGUMENT), ..SCHEMA },
    Bomb { name: "a deeper schema", capture: || tool(&deep_schema(400), ARGUMENT), ..SCHEMA },
    Bomb { name: "a cycle", capture: || tool(r##"{"type":"object","$ref":"#"}"##, ARGUMENT), ..SCHEMA },
    Bomb {
        name: "a pattern that backtracks",
        capture: || tool(&pattern("^(a+)+$"), &format!(r#"{{"a":"{}!"}}"#, "a".repeat(50_000))),
        reported: &["tools-arguments-invalid", "tools-structured-mismatch"],
        ..SCHEMA
    },
    Bomb {
        name: "a pattern that looks around",
        capture: || tool(&pattern("^(?=(a+)+$)(a|aa)+$"), &format!(r#"{{"a":"{}!"}}"#, "a".repeat(50_000))),
        ..SCHEMA
    },
    Bomb {
        name: "a pattern of repetitions",
        capture: || tool(&pattern("((((a{1,100}){1,100}){1,100}){1,100}){1,100}"), ARGUMENT),
        ..SCHEMA
    },
];

const ARGUMENT: &str = r#"{"a":"b"}"#;
const SCHEMA: Bomb = Bomb { shown: ("message", 7), ..BLANK };

/// Gives a capture to `read`, within a limit of allocated memory in MiB.
fn read(bomb: &Bomb, memory: u64) -> Output {
    let mut capture = pcapng::Writer::new(Vec::new()).expect("memory takes it");
    for (frame, number) in (bomb.capture)().iter().zip(1..) {
        capture.packet(&frame.packet(number)).expect("memory takes it");
    }
    let capture = capture.finish().expect("memory takes it");
    let program = mcptap();
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"ulimit -d "$0" && exec "$@" read - --json"#, &(memory << 10).to_string()]);
    shell.arg(program.get_program());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("sh runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that runs out of memory does not read all of it.
    let writing = thread::spawn(move || drop(stdin.write_all(&capture)));
    let done = finished(child, bomb.name);
    joined(writing, "a capture to be read");
    done
}

fn explode(bombs: &[Bomb]) {
    for bomb @ Bomb { name, reported, shown: (kind, least), memory, .. } in bombs {
        let done = read(bomb, *memory);
        assert!(done.status.success(), "{name}: {} {}", done.status, String::from_utf8_lossy(&done.stderr));
        let stdout = String::from_utf8(done.stdout).expect("text");
        let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let rules: Vec<_> = of_type(&lines, "finding").iter().filter_map(|finding| finding["rule"].as_str()).collect();
        for rule in *reported {
            assert!(rules.contains(rule), "{name}: no {rule} in {rules:?}");
        }
        for rule in ["tools-arguments-invalid", "tools-structured-mismatch"] {
            assert!(reported.contains(&rule) || !rules.contains(&rule), "{name}: {rule} is a guess");
        }
        let shown = of_type(&lines, kind).len();
        assert!(shown >= *least, "{name}: {shown} lines of type {kind}");
    }
}

#[test]
fn decompression() {
    explode(CODINGS);
}

#[test]
fn many_parts_in_texts() {
    explode(TEXTS);
}

#[test]
fn many_parts_in_connections() {
    explode(CONNECTIONS);
}

#[cfg(feature = "schema")]
#[test]
fn schemas() {
    explode(SCHEMAS);
}

/// Without this the other tests could not fail for want of memory.
#[test]
fn the_limit_of_memory_holds() {
    assert!(!read(&CODINGS[0], FOR_MESSAGES / 10).status.success());
}
