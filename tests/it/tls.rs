//! Decrypted TLS: each supported cipher suite and odd handshakes, with secrets in the capture or in
//! a key log beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mcptap_core::internal::event::Event;
use mcptap_core::internal::mcp::Message;
use mcptap_core::internal::pipeline::{Input, PipelineConfig};
use serde_json::Value;

use crate::decoded::{Decoded, frames};
use crate::program::{mcptap, root};
use crate::rewrite::{self, Frame};
use crate::support::waits::Finishes;

fn sample(name: &str) -> PathBuf {
    root().join("samples").join(name)
}

/// The JSON lines that the program prints.
fn lines(arguments: &[&str], files: &[&Path]) -> Vec<Value> {
    let done = mcptap().args(arguments).args(files).finished();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("lines are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

fn of_type<'l>(lines: &'l [Value], name: &str) -> Vec<&'l Value> {
    lines.iter().filter(|line| line["type"] == name).collect()
}

/// The pcapng blocks of a file, each with its type.
pub fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let mut blocks = Vec::new();
    while bytes.len() >= 12 {
        let (block, rest) = bytes.split_at(number(&bytes[4..]) as usize);
        blocks.push((number(block), block));
        bytes = rest;
    }
    blocks
}

pub const SECRETS: u32 = 10;

#[test]
fn every_supported_suite_and_handshake_opens_and_the_others_are_named() {
    let lines = lines(&["read", "--json"], &[&sample("tls").join("capture.pcapng")]);
    let messages = of_type(&lines, "message");
    let mut calls = BTreeSet::new();
    for call in messages.iter().filter(|message| message["kind"] == "request") {
        let raw: Value = serde_json::from_str(call["raw"].as_str().expect("text")).expect("JSON");
        let name = raw["params"]["name"].as_str().expect("a tool").to_owned();
        let answer = messages.iter().find(|message| message["answers"] == call["number"]).expect("an answer");
        let text = answer["raw"].as_str().expect("text");
        assert!(text.contains(&format!("\"text\":\"{name} xxx")), "{name}: {text}");
        assert!(call["packets"].as_array().is_some_and(|packets| !packets.is_empty()));
        calls.insert(name);
    }
    let below = |finding: &&Value| {
        ["tls-", "tcp-"].iter().any(|family| finding["rule"].as_str().unwrap_or_default().starts_with(family))
    };
    let (unsupported, odd): (Vec<_>, Vec<_>) =
        of_type(&lines, "finding").into_iter().filter(below).partition(|finding| finding["rule"] == "tls-unsupported");
    assert_eq!(odd.len(), 0, "nothing is missing or odd below HTTP: {odd:?}");
    for finding in &unsupported {
        let text = finding["text"].as_str().expect("text");
        assert!(text.starts_with("TLS_") && (text.contains("_CBC_SHA") || text.contains("_CCM")), "{text}");
    }
    let connections = lines.last().expect("a summary")["tcp_connections"].as_u64().expect("a count") as usize;
    assert_eq!(messages.len(), 2 * calls.len());
    assert_eq!(calls.len() + unsupported.len(), connections, "each connection is opened or said not to be: {calls:?}");
    for suite in ["TLS_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "renegotiation", "early data"] {
        assert!(calls.contains(suite), "{suite}");
    }
}

/// The tools that were called and answered in the sample, after `rewrite` changed the packets.
fn calls_in(rewrite: &dyn Fn(&[Frame]) -> Vec<Frame>) -> (BTreeSet<String>, Decoded) {
    let path = sample("tls").join("capture.pcapng");
    let secrets: Vec<Vec<u8>> = blocks(&fs::read(&path).expect("the sample"))
        .into_iter()
        .filter(|(kind, _)| *kind == SECRETS)
        .map(|(_, block)| block[20..].to_vec())
        .collect();
    let frames = rewrite(&frames(&path));
    let packets = frames.iter().zip(1..).map(|(frame, number)| Input::Packet(frame.packet(number)));
    let mut inputs = secrets.iter().map(|secrets| Input::Secrets(secrets)).chain(packets);
    let decoded = Decoded::from(&mut inputs, PipelineConfig::default());
    let name = |message: &Message| {
        let raw: Value = serde_json::from_slice(&message.raw).expect("JSON");
        raw["params"]["name"].as_str().expect("a tool").to_owned()
    };
    let answered: BTreeSet<_> = decoded.messages().filter_map(|message| message.answers).collect();
    let calls = decoded.messages().filter(|message| answered.contains(&message.number)).map(name).collect();
    (calls, decoded)
}

/// Without the ClientHello nothing connects a connection with its secrets in the log.
/// The decoder tries them.
#[test]
fn without_a_client_hello_the_secrets_are_tried() {
    let (all, _) = calls_in(&|frames| frames.to_vec());
    let is_client_hello = |payload: &[u8]| payload.first() == Some(&22) && payload.get(5) == Some(&1);
    let (calls, _) = calls_in(&|frames| rewrite::without(frames, is_client_hello));
    let missing: Vec<_> = all.difference(&calls).collect();
    assert_eq!(missing, ["early data"], "it stood in the packet of the ClientHello");
    // If the capture begins at or after the end of the handshake, records of TLS 1.3 are enough.
    // Most clients here send ChangeCipherSpec and Finished in one packet, some together with the
    // request.
    let is_late = |payload: &[u8]| matches!(payload.first(), Some(20 | 23));
    let (calls, decoded) = calls_in(&|frames| rewrite::without_beginnings(frames, is_late));
    let newest = ["TLS_", "small records", "padding", "retry", "resumption", "first of two"];
    let missing: Vec<_> = all
        .difference(&calls)
        .filter(|call| newest.iter().any(|name| call.starts_with(name)) && !call.contains("1.2"))
        .collect();
    assert_eq!(missing, Vec::<&String>::new());
    let findings = decoded
        .events
        .iter()
        .filter_map(|event| if let Event::Finding(finding) = event { Some(finding) } else { None });
    let late: Vec<_> = findings.filter(|finding| finding.rule.id == "tls-handshake-not-captured").collect();
    assert_eq!(late.len(), 1, "of the others it is said why they are not opened");
}

/// The events are the same if secrets come before the capture, after all its packets, beside it, or
/// in a file named by the environment.
#[test]
fn it_does_not_matter_where_secrets_come_from() {
    let path = sample("tls").join("capture.pcapng");
    let bytes = fs::read(&path).expect("the sample");
    let scratch = tempfile::tempdir().expect("a folder");
    let (mut plain, mut late, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, block) in blocks(&bytes) {
        if kind == SECRETS {
            let length = u32::from_le_bytes(block[12..16].try_into().expect("four bytes")) as usize;
            keys.extend_from_slice(&block[16..16 + length]);
        } else {
            plain.extend_from_slice(block);
        }
    }
    late.extend_from_slice(&plain);
    blocks(&bytes).iter().filter(|(kind, _)| *kind == SECRETS).for_each(|(_, block)| late.extend_from_slice(block));
    let file = |name: &str, bytes: &[u8]| {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let (plain, late, keys) = (file("plain.pcapng", &plain), file("late.pcapng", &late), file("keys.log", &keys));
    let texts = |lines: &[Value]| {
        let texts = of_type(lines, "message").iter().map(|message| message["raw"].to_string()).collect::<Vec<_>>();
        texts.into_iter().collect::<BTreeSet<_>>()
    };
    let wanted = texts(&lines(&["read", "--json"], &[&path]));
    let keylog = keys.to_str().expect("a path");
    assert_eq!(texts(&lines(&["read", "--json", "--keylog", keylog], &[&plain])), wanted);
    let named = mcptap().args(["read", "--json"]).arg(&plain).env("SSLKEYLOGFILE", &keys).finished();
    let named: Vec<Value> =
        String::from_utf8_lossy(&named.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(texts(&named), wanted);
    let none = lines(&["read", "--json"], &[&plain]);
    assert_eq!(texts(&none).len(), 0);
    assert!(of_type(&none, "finding").iter().any(|finding| finding["rule"] == "tls-no-secrets"));
    assert_eq!(texts(&lines(&["read", "--json"], &[&late])), wanted);
}

/// A stored session shows heads, bodies and layers without the TLS secrets, with passwords masked.
/// The TLS secrets are not in the file.
#[test]
fn a_saved_session_needs_no_keys() {
    let capture = sample("tls").join("capture.pcapng");
    let scratch = tempfile::tempdir().expect("a folder");
    let secret = b"Bearer secret";
    for keep in [false, true] {
        let database = scratch.path().join(format!("{keep}.db"));
        let name = database.to_str().expect("a path");
        let mut arguments = vec!["read", "--json", "--save", "--db", name];
        arguments.extend(keep.then_some("--keep-secrets"));
        lines(&arguments, &[&capture]);
        let shown = lines(&["show", "--json"], &[&database]);
        assert!(of_type(&shown, "message").len() > 50);
        let layers = lines(&["layers", "--json", "--message", "1", "--session", "1"], &[&database]);
        let names: Vec<&str> = of_type(&layers, "layer").iter().filter_map(|layer| layer["layer"].as_str()).collect();
        assert_eq!(names, ["network", "transport", "tls", "http", "json-rpc", "mcp"]);
        let tls = &layers[2]["fields"];
        assert_eq!(tls["cipher suite"], "TLS_AES_128_GCM_SHA256");
        assert_eq!(tls["server name"], "localhost");

        let exported = scratch.path().join(format!("{keep}.pcapng"));
        let output = exported.to_str().expect("a path");
        let done = mcptap().args(["export", name, "--format", "pcapng", "-o", output]).finished();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let exported = fs::read(&exported).expect("exported");
        assert_eq!(
            blocks(&exported).iter().any(|(kind, _)| *kind == SECRETS),
            keep,
            "secrets leave only when asked to"
        );
        let again = lines(&["read", "--json"], &[Path::new(output)]);
        assert_eq!(of_type(&again, "message").len() > 50, keep);
        let bytes = fs::read(&database).expect("the database");
        assert_eq!(memchr::memmem::find(&bytes, b"TRAFFIC_SECRET").is_some(), keep);
        assert!(keep || memchr::memmem::find(&bytes, secret).is_none());
    }
}

/// A key log whose lines name no session, as secrets of a running process do. A record proves the
/// session of each, so the same messages come out.
#[test]
fn secrets_without_a_client_random_find_their_sessions() {
    for name in ["05_tls12_h1", "05_tls13_h1_json", "05_tls13_matrix"] {
        let folder = crate::program::data("captures").join(name);
        let keys = fs::read_to_string(folder.join("keys.log")).expect("a key log");
        let unnamed = keys.lines().filter_map(|line| {
            let [label, _, secret] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
            Some(format!("{label} - {secret}\n"))
        });
        let place = tempfile::NamedTempFile::new().expect("a file");
        fs::write(place.path(), unnamed.collect::<String>()).expect("written");
        let messages = |keys: &Path| {
            let keys = keys.to_str().expect("text");
            let lines = lines(&["read", "--json", "--keylog", keys], &[&folder.join("capture.pcap")]);
            lines.into_iter().filter(|line| line["type"] != "summary").collect::<Vec<_>>()
        };
        let wanted = messages(&folder.join("keys.log"));
        assert!(of_type(&wanted, "message").len() > 4, "{name}");
        assert_eq!(messages(place.path()), wanted, "{name}");
    }
}
