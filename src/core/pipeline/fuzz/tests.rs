use proptest::prelude::*;

use super::{Capture, fuzz_stack};
use crate::decode::ConnectionId;
use crate::event::{Detail, Event};

/// Encodes a script: steps, each with its payload.
fn script<T: AsRef<[u8]>>(steps: &[(u8, T)]) -> Vec<u8> {
    let mut script = Vec::new();
    for (what, payload) in steps {
        let payload = payload.as_ref();
        for payload in payload.chunks(255).chain(payload.is_empty().then_some(&[][..])) {
            script.push(*what);
            script.push(payload.len() as u8);
            script.extend_from_slice(payload);
        }
    }
    script
}

/// The events of a script.
fn events_of(script: &[u8], detail: Detail) -> Vec<Event> {
    let (packets, secrets) = super::scripted(script);
    super::run(&Capture { packets: &packets, secrets: &secrets }, detail, false)
}

/// The texts of the messages of a script.
fn messages(script: &[u8]) -> Vec<String> {
    fuzz_stack(script);
    let events = events_of(script, Detail::Messages);
    let text = |event: Event| match event {
        Event::Message(message) => Some(String::from_utf8_lossy(&message.raw).into_owned()),
        _ => None,
    };
    events.into_iter().filter_map(text).collect()
}

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// Steps of the first connection, by its client and by its server.
const SYN: [u8; 2] = [0x10, 0x14];
const SAY: [u8; 2] = [0x00, 0x04];
const FIN: [u8; 2] = [0x18, 0x1c];

fn request(target: &str) -> String {
    let fields = "Host: a\r\nAuthorization: Bearer 1\r\nContent-Type: application/json";
    format!("POST {target} HTTP/1.1\r\n{fields}\r\nContent-Length: {}\r\n\r\n{PING}", PING.len())
}

fn answer() -> String {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunks = ["event: ", &format!("message\ndata: {PONG}\n\n"), ""];
    chunks.iter().fold(head.to_owned(), |text, chunk| format!("{text}{:x}\r\n{chunk}\r\n", chunk.len()))
}

/// A request and its response as server-sent events.
fn call() -> Vec<u8> {
    let (request, answer) = (request("/mcp"), answer());
    script(&[(SYN[0], ""), (SYN[1], ""), (SAY[0], &request), (SAY[1], &answer), (FIN[0], ""), (FIN[1], "")])
}

/// The same conversation over pipes. The last line has no end.
fn pipe_packet() -> Vec<u8> {
    script(&[(0x0b, ""), (0x03, PING), (0x03, "\n"), (0x07, PONG)])
}

#[test]
fn a_script_is_a_conversation() {
    assert_eq!(messages(&call()), [PING, PONG]);
    assert_eq!(messages(&pipe_packet()), [PING, PONG]);
}

#[test]
fn scripts_may_end_anywhere() {
    for script in [call(), pipe_packet()] {
        (0..script.len()).for_each(|end| fuzz_stack(&script[..end]));
    }
}

#[test]
fn what_is_passed_over_is_a_secret_before_it_is_cleared() {
    let broken = "HTTP/1.1x 200 OK\r\nSet-Cookie: a=b\r\n";
    let steps = [(SYN[0], ""), (SYN[1], ""), (SAY[0], &request("/mcp")), (SAY[1], broken), (SAY[1], "\r\n")];
    assert_eq!(messages(&script(&steps)), [PING]);
}

#[test]
fn a_message_behind_many_other_exchanges_is_followed_to_its_packets() {
    let (other, nothing) = (request("/").replace(PING, "1"), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let other = other.replace(&format!("Length: {}", PING.len()), "Length: 1");
    let mut steps = vec![(SYN[0], ""), (SYN[1], "")];
    steps.extend([(SAY[0], other.as_str()), (SAY[1], nothing)].repeat(600));
    let asked = request("/mcp");
    steps.extend([(SAY[0], asked.as_str()), (SAY[1], nothing)]);
    assert_eq!(messages(&script(&steps)), [PING]);
}

#[test]
fn a_session_that_joins_a_connection_late_counts_all_its_bytes() {
    let steps = [(SYN[0], ""), (SAY[0], &request("/mcp")), (SAY[0], &request("/other")), (FIN[0], "")];
    assert_eq!(messages(&script(&steps)), [PING, PING]);
}

#[test]
fn pipes_are_bounded() {
    // More bytes are lost than a stream can have, twice, and a line follows.
    assert_eq!(messages(&script(&[(0x2b, ""), (0x2b, ""), (0x03, "\n"), (0x03, PING), (0x03, "\n")])), [PING]);
    // The time between steps is the process id, so many processes write something and none ends.
    let said = ".".repeat(40);
    let steps: Vec<(u8, &str)> = (0..said.len()).map(|length| (0x43, &said[length..])).collect();
    assert_eq!(messages(&script(&steps)).len(), steps.len());
}

/// What the target composes is what the decoders expect, so that it leads to what lies behind them.
#[test]
fn composed_units_carry_messages() {
    let [ping, pong] = [[11, 1], [12, 1]];
    let call = |options: u8| [[&[0, options][..], &ping].concat(), [&[0, options][..], &pong].concat()];
    let twice = |what: u8, options: u8| [vec![what, options], vec![what, options]];
    let frames =
        |what: u8, options: u8| [[&[what, options][..], &ping].concat(), [&[what, options][..], &pong].concat()];
    let streams = [twice(7, 0), twice(8, 1), frames(9, 0x81)];
    let mut conversations: Vec<Vec<[Vec<u8>; 2]>> = vec![
        vec![twice(10, 0), call(0)],
        vec![twice(5, 0), frames(6, 1)],
        vec![twice(5, 2), frames(6, 0x21), twice(6, 8)],
        streams.to_vec(),
        [vec![twice(11, 0), twice(10, 0)], streams.to_vec()].concat(),
        vec![[call(0)[0].clone(), vec![1, 8]], [vec![15, 0], [&[2, 0x11][..], &pong].concat()]],
    ];
    // Every content coding that can be written, with a length and in chunks.
    conversations.extend([0, 1, 2, 3, 8, 9, 10, 11].map(|options| vec![call(options)]));
    for conversation in conversations {
        for flow in 0..3 {
            let mut steps = vec![(SYN[0] | flow, Vec::new()), (SYN[1] | flow, Vec::new())];
            for [client, server] in conversation.iter().cloned() {
                steps.extend([(0x38 | flow, client), (0x3c | flow, server)]);
            }
            assert_eq!(messages(&script(&steps)), [PING, PONG], "{conversation:?} on connection {flow}");
        }
    }
}

/// A TLS record.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3], &(content.len() as u16).to_be_bytes()[..], content].concat()
}

/// A connection that begins a quarter of a second later: both hellos of TLS 1.3, and
/// a record without secrets.
fn sealed(flow: u8) -> Vec<(u8, Vec<u8>)> {
    const LATER: u8 = 0x40;
    let hello = |kind: u8, suites: &[u8], versions: &[u8]| {
        let extension = [&[0, 43, 0, versions.len() as u8], versions].concat();
        let fields = [&[3, 3][..], &[7; 32], &[0], suites, &[0, extension.len() as u8], &extension].concat();
        record(22, &[&[kind, 0, 0, fields.len() as u8][..], &fields].concat())
    };
    vec![
        (SYN[0] | flow | LATER, vec![0; 255]),
        (SYN[1] | flow, Vec::new()),
        (SAY[0] | flow, hello(1, &[0, 2, 0x13, 2, 1, 0], &[2, 3, 4])),
        (SAY[1] | flow, hello(2, &[0x13, 2, 0], &[3, 4])),
        (SAY[1] | flow, record(23, &[7; 500])),
        (FIN[0] | flow, Vec::new()),
        (FIN[1] | flow, Vec::new()),
    ]
}

/// Records that wait for secrets are discarded when other connections need the room. The connection
/// ends then, not at the next tick.
#[test]
fn a_connection_evicted_for_others_ends_at_once() {
    let script = script(&(0..16).flat_map(|number| sealed(number % 3)).collect::<Vec<_>>());
    fuzz_stack(&script);
    let events = events_of(&script, Detail::Store);
    let closed = events.iter().position(|event| *event == Event::Closed(ConnectionId(1))).unwrap();
    assert!(events[closed..].iter().any(|event| matches!(event, Event::Segment(_))), "not at the end of the capture");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_bytes_are_a_script(data in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        fuzz_stack(&data);
    }

    #[test]
    fn damaged_scripts_keep_all_properties(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        for mut script in [call(), pipe_packet()] {
            for (place, byte) in &damage {
                *place.get_mut(&mut script) = *byte;
            }
            fuzz_stack(&script);
        }
    }
}
