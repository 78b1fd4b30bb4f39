//! Captures from the test suites of well-known tools: odd, hostile, broken. tshark is the oracle if
//! all its modes agree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mcptap::source::file::Files;
use mcptap::source::{Item, Source};
use mcptap_core::internal::decode::exchange::{Exchange, Half};
use mcptap_core::internal::event::{Connection, ConnectionKind, Detail, Event};
use mcptap_core::internal::pipeline::{Input, Pipeline, PipelineConfig};
use serde_json::Value;

use crate::decoded::{Decoded, assert_subset, frames};
use crate::program::data;
use crate::rewrite::{self, Frame};
use crate::support::waits::within;

/// The result of reading a file.
struct Read {
    packets: u64,
    exchanges: Vec<Exchange>,
    /// The error that ended the reading.
    error: Option<String>,
}

fn read(path: &Path) -> Read {
    let mut pipeline =
        Pipeline::new(PipelineConfig { detail: Detail::Messages, hash: true, ..PipelineConfig::default() });
    let mut exchanges = BTreeMap::new();
    let mut emit = |event| {
        if let Event::Exchange(exchange) = event {
            exchanges.insert(exchange.number, *exchange);
        }
    };
    let result = Files::open(&[path.to_owned()], false).and_then(|mut source| {
        while let Some(item) = source.next()? {
            match item {
                Item::Packet(packet) => pipeline.push(Input::Packet(packet), &mut emit),
                Item::Secrets(secrets) => pipeline.push(Input::Secrets(secrets), &mut emit),
                Item::Damage(damage) => pipeline.push(Input::Damage(&damage), &mut emit),
                Item::Dropped(_) | Item::Idle => {}
            }
        }
        Ok(())
    });
    pipeline.push(Input::End, &mut emit);
    let error = result.err().map(|error| format!("{error:#}"));
    Read { packets: pipeline.counts().packets, exchanges: exchanges.into_values().collect(), error }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

/// Captures, broken captures and other files are read to an end without a panic.
#[test]
fn every_file_is_read_to_an_end() {
    let files = files(&data("captures-public"));
    assert!(files.len() > 200, "the captures were found");
    for path in files {
        // If a file makes the program panic, its name is the last line.
        println!("{}", path.display());
        let error = within("the end of a capture", {
            let path = path.clone();
            move || read(&path).error
        });
        let one_line = error.as_deref().is_none_or(|error| !error.is_empty() && !error.contains('\n'));
        assert!(one_line, "one line says why: {error:?}");
    }
}

/// The output of tshark for each file.
fn oracle() -> Vec<(String, PathBuf, Value)> {
    let folder = data("captures-public");
    let expected = files(&folder.join("expected")).into_iter().map(|path| {
        let text = std::fs::read_to_string(path).expect("readable");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let file = value["file"].as_str().expect("a name").to_owned();
        (file.clone(), folder.join(file), value)
    });
    expected.collect()
}

#[test]
fn packets_are_as_many_as_tshark_counts() {
    for (file, path, expected) in oracle() {
        if expected["reader_error"].is_null() {
            assert_eq!(read(&path).packets, expected["frames"], "{file}");
        }
    }
}

/// Files for which tshark is no oracle, or which mcptap does not support, with the reason.
const APART: &[(&str, &str)] = &[
    ("zeek/entity_gap.pcap", "all modes of tshark give up at the gap"),
    ("zeek/tcp-http-with-padding.pcap", "tshark misses the request, which comes in segments of a byte; Zeek does not"),
    ("arkime/80211http.pcap", "the link type is IEEE 802.11 with radio headers"),
];

/// One HTTP message: request line or status, and the decoded body.
fn message(start: String, body: u64, hash: Option<&str>) -> String {
    let hash = hash.filter(|_| body > 0).unwrap_or("no body");
    format!("{start} {body} {hash}")
}

fn half(start: String, half: &Half) -> String {
    let hash = half.body_sha256.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    message(start, half.body_bytes, hash.as_deref())
}

/// The requests and final responses of mcptap.
fn messages(exchanges: &[Exchange]) -> Vec<String> {
    let requests = exchanges.iter().filter_map(|exchange| {
        let (method, target) = (exchange.method.as_ref()?, exchange.target.as_ref()?);
        Some(half(format!("{method} {target}"), &exchange.request))
    });
    let responses =
        exchanges.iter().filter_map(|exchange| Some(half(exchange.status?.to_string(), &exchange.response)));
    let mut messages: Vec<String> = requests.chain(responses).collect();
    messages.sort();
    messages
}

/// The requests and final responses of tshark.
fn tshark_messages(expected: &Value) -> Vec<String> {
    let text = |message: &Value, name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let messages = expected["http_messages"].as_array().into_iter().flatten().filter_map(|found| {
        // tshark takes a line of another protocol for a request of HTTP/0.9.
        let start = match (text(found, "kind").as_str(), text(found, "version").as_str()) {
            ("request", "HTTP/1.0" | "HTTP/1.1") => format!("{} {}", text(found, "method"), text(found, "uri")),
            ("request", _) => return None,
            _ => text(found, "status"),
        };
        let is_interim = start.starts_with('1') && start != "101";
        let (body, hash) = (found["body_len"].as_u64().unwrap_or(0), found["body_sha256"].as_str());
        (!is_interim).then(|| message(start, body, hash))
    });
    let mut messages: Vec<String> = messages.collect();
    messages.sort();
    messages
}

/// The reason why tshark is no oracle for a file.
fn left_out(file: &str, expected: &Value) -> Option<&'static str> {
    let encrypted = expected.get("keylog").is_some() || file.contains("-dsb");
    let why = APART.iter().find(|(apart, _)| *apart == file).map(|(_, why)| *why);
    let why = why.or(encrypted.then_some("encrypted")).or(expected.get("http2").map(|_| "HTTP/2"));
    why.or((expected["agree"] != true).then_some("tshark does not agree with itself"))
}

#[test]
fn exchanges_are_those_of_tshark() {
    let mut compared = 0;
    for (file, path, expected) in oracle() {
        if let Some(why) = left_out(&file, &expected) {
            eprintln!("left out: {file}: {why}");
            continue;
        }
        let (mut wanted, mut said) = (tshark_messages(&expected), messages(&read(&path).exchanges));
        if file.contains("brotli") {
            // tshark does not decode Brotli: its bodies are as sent.
            for message in wanted.iter_mut().chain(&mut said) {
                message.truncate(message.find(' ').unwrap_or(message.len()));
            }
        }
        assert_eq!(said, wanted, "{file}");
        compared += 1;
    }
    assert!(compared > 30, "{compared} files were compared");
}

/// Captures whose exchanges are certain and that hold the beginning of every connection.
fn whole_captures() -> Vec<(String, Vec<Frame>)> {
    let mut found = Vec::new();
    for (file, path, expected) in oracle() {
        if left_out(&file, &expected).is_none() && expected["reader_error"].is_null() {
            let frames = frames(&path);
            let decoded = Decoded::of(&frames);
            let begun = |connection: &&Connection| matches!(&connection.kind, ConnectionKind::Tcp(facts) if !facts.handshake.contains(&None));
            // If copies differ, the first one counts, so the order of packets matters.
            let odd = ["tcp-overlap-conflict", "tcp-bytes-lost"];
            let is_odd = |event: &Event| matches!(event, Event::Finding(finding) if odd.contains(&finding.rule.id));
            if decoded.connections().values().all(begun) && !decoded.events.iter().any(is_odd) {
                found.push((file, frames));
            }
        }
    }
    found
}

/// Traffic of others with packets out of order, duplicated, split and merged: the
/// exchanges stay the same.
#[test]
fn exchanges_survive_rewritten_packets() {
    let exchanges = |frames: &[Frame]| {
        let decoded = Decoded::of(frames);
        messages(&decoded.exchanges().into_values().cloned().collect::<Vec<_>>())
    };
    let captures = whole_captures();
    for (file, frames) in &captures {
        let wanted = exchanges(frames);
        // Packets are in order across a pause of seconds. After the pause missing bytes count as
        // lost.
        let start = frames[0].time;
        let steady = |frames: &[Frame]| rewrite::timed(frames, |at, _| start.plus(at as i64 * 1_000_000));
        let variants = [
            ("shuffled by 4", steady(&rewrite::shuffled(frames, 4, 21))),
            ("shuffled by 16", steady(&rewrite::shuffled_behind_handshakes(frames, 16, 22))),
            ("reversed by 3", steady(&rewrite::reversed(frames, 3))),
            ("doubled", rewrite::doubled(frames, 5)),
            ("split and shuffled", steady(&rewrite::shuffled(&rewrite::split(frames, 400, 23), 4, 24))),
            ("merged", rewrite::merged(frames, 9_000)),
        ];
        for (how, variant) in variants {
            assert_eq!(exchanges(&variant), wanted, "{file} {how}");
        }
    }
    assert!(captures.len() > 10, "{} captures were tried", captures.len());
}

/// Lost packets remove exchanges. No response moves to another request, also if the other packets
/// are out of order.
#[test]
fn loss_moves_no_response() {
    for (file, frames) in whole_captures() {
        let wanted = Decoded::of(&frames).http_pairs();
        for (seed, per_mille) in [(31, 10), (32, 50), (33, 200)] {
            let rest = rewrite::thinned(&frames, per_mille, seed);
            let shuffled = rewrite::shuffled_behind_handshakes(&rest, 4, seed);
            for (how, rest) in [("", rest), (", shuffled", shuffled)] {
                let what = format!("{file} without {per_mille} of 1000{how}");
                assert_subset(&what, &wanted, &Decoded::of(&rest).http_pairs());
            }
        }
    }
}

/// The five exchanges of `zeek/pipelined-requests.pcap`, in every order and number of copies.
#[test]
fn pipelined_requests_in_any_order() {
    let folder = data("captures-public");
    let exchanges = |name: &str| -> Vec<String> {
        let read = read(&folder.join(name));
        let words = |exchange: &Exchange| {
            let target = exchange.target.clone().unwrap_or_default();
            let (request, response) = (&exchange.request, &exchange.response);
            half(format!("{target} {:?} {} {}", exchange.status, request.complete, response.complete), response)
        };
        read.exchanges.iter().map(words).collect()
    };
    let wanted = exchanges("zeek/pipelined-requests.pcap");
    assert_eq!(wanted.len(), 5);
    assert!(wanted.iter().all(|exchange| exchange.contains(" Some(200) true true ")), "{wanted:#?}");
    for name in ["pipelined-shuffled-window4.pcap", "pipelined-every-packet-twice.pcapng", "pipelined-reversed.pcap"] {
        assert_eq!(exchanges(&format!("derived/{name}")), wanted, "{name}");
    }
}

/// The same capture without every seventh packet. Packets 7 and 21 are the beginnings of two
/// responses, and packet 14 is a whole request. The pairs that remain stay the same.
#[test]
fn pipelined_requests_with_holes() {
    let folder = data("captures-public");
    let [whole, holed] = ["zeek/pipelined-requests.pcap", "derived/pipelined-drop-every-7th.pcap"]
        .map(|name| Decoded::of(&frames(&folder.join(name))));
    assert_subset("every seventh dropped", &whole.http_pairs(), &holed.http_pairs());
    let exchanges = holed.exchanges();
    let said: Vec<_> = exchanges
        .values()
        .map(|e| {
            let target = e.target.as_deref().and_then(|target| target.rsplit('/').next());
            (target, e.status, e.response.body_bytes, e.response.complete)
        })
        .collect();
    let wanted = [
        (Some("enhanced.css"), Some(200), 2_675, true),
        (Some("urchin.js"), None, 0, false),
        (None, Some(200), 94, true),
        (Some("key-point-top.png"), Some(200), 2_349, true),
        (Some("header-sunbird.png"), None, 0, false),
    ];
    let sorted = |mut list: Vec<_>| {
        list.sort();
        list
    };
    assert_eq!(sorted(said), sorted(wanted.to_vec()));
}

/// One of a thousand responses lost its head: its request has no response, and every other request
/// has its own. The client sends a request after the response to the last one.
#[test]
fn a_lost_response_makes_no_other_slip() {
    let folder = data("captures-public");
    let read = read(&folder.join("zeek/1000-requests-one-dropped-response.pcap.gz"));
    let exchanges = &read.exchanges;
    assert_eq!(exchanges.len(), 1_000);
    let answered = exchanges.iter().filter(|exchange| exchange.status == Some(200) && exchange.response.complete);
    assert_eq!(answered.count(), 999);
    assert_eq!(exchanges[0].status, None, "the first response lacks its first 238 bytes");
    for (exchange, next) in exchanges.iter().zip(&exchanges[1..]) {
        let first = exchange.request.packets[0];
        let next = next.request.packets[0];
        let own = exchange.response.packets.iter().all(|packet| first < *packet && *packet < next);
        assert!(own, "exchange {}: {:?} between {first} and {next}", exchange.number.0, exchange.response.packets);
    }
}

/// Three responses to one request: the first one answers it, two answer nothing, and later requests
/// get their own.
#[test]
fn surplus_responses_answer_nothing() {
    let folder = data("captures-public");
    let read = read(&folder.join("zeek/http-desync-request-response-5.pcap"));
    let (asked, surplus): (Vec<_>, Vec<_>) = read.exchanges.iter().partition(|exchange| exchange.method.is_some());
    assert_eq!((asked.len(), surplus.len()), (5, 2));
    for exchange in asked {
        assert_eq!(exchange.status, Some(200), "exchange {}", exchange.number.0);
        let request = exchange.request.packets[0];
        assert!(exchange.response.packets.iter().all(|packet| *packet > request), "exchange {}", exchange.number.0);
    }
}

/// The findings about packets that contradict themselves, or other fragments of their datagram.
#[test]
fn wrong_headers_and_fragments_are_reported() {
    for (file, rule, packet) in [
        ("suricata-verify/tcp-session-decode-malformed-ipv4__input.pcap", "packet-header-invalid", 8),
        ("zeek/ip6-ext-trunc.pcap", "packet-header-invalid", 1),
        ("zeek/fragmented-4.pcap", "ip-fragments-conflict", 5),
    ] {
        let decoded = Decoded::of(&frames(&data("captures-public").join(file)));
        let findings = decoded.events.iter().filter_map(|event| match event {
            Event::Finding(finding) if finding.rule.id == rule => {
                Some(finding.packets.iter().map(|packet| packet.0).collect::<Vec<_>>())
            }
            _ => None,
        });
        assert_eq!(findings.collect::<Vec<_>>(), [[packet]], "{file}");
    }
}
