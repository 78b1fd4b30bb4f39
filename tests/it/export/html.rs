//! `export --format html`: the data in the page, and the page in a browser.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{exported, lines};
use crate::page::{blocks, browser_script, value_at};
use crate::peers::peers;
use crate::program::{mcptap, root};
use crate::support::needs::{CHROMIUM, FIREFOX, Need, have_program};
use crate::support::waits::Finishes;
use crate::wire::{Sender, Wire};

fn sample(name: &str) -> PathBuf {
    root().join("samples").join(name)
}

/// The text of each message on a page, by its number.
fn texts(page: &str) -> BTreeMap<u64, Vec<u8>> {
    let mut rows: BTreeMap<u64, Vec<Option<u64>>> = BTreeMap::new();
    let mut texts = BTreeMap::new();
    let blocks = blocks(page);
    for block in blocks.iter().filter(|block| block.kind == "rows") {
        let numbers = block.json.as_array().expect("rows").iter().map(|row| row["number"].as_u64());
        rows.entry(block.session).or_default().extend(numbers);
    }
    for block in blocks.iter().filter(|block| block.kind == "details") {
        let list = |name: &str| block.json[name].as_array().expect("a column").clone();
        let number = |value: &Value| value.as_i64().expect("a number");
        let (mut row, mut base) = (block.from as i64, 0);
        let mut earlier = HashMap::new();
        for ((distance, size), shape) in list("rows").iter().zip(list("sizes")).zip(list("shape")) {
            row += number(distance);
            let shape = number(&shape) as usize;
            let index = earlier.entry(shape).and_modify(|index| *index += 1).or_insert(0);
            let source = &block.json["shapes"][shape]["sources"][0];
            let start = (base + number(value_at(&source[2], *index))) as usize;
            let text = block.bytes[start..start + number(value_at(&source[3], *index)) as usize].to_vec();
            let number_of_message = rows[&block.session][row as usize].expect("details belong to a message");
            assert!(texts.insert(number_of_message, text).is_none(), "message {number_of_message} twice");
            base += number(&size);
        }
    }
    assert_eq!(texts.len(), rows.values().flatten().flatten().count(), "each message has details");
    texts
}

/// The page has every message with its exact text, and fetches nothing.
fn check_page(capture: &Path) {
    let page = exported(capture, "html", &[]);
    let known = texts(&page);
    for message in lines(capture, "message", &[]) {
        let number = message["number"].as_u64().expect("a number");
        let text = &known[&number];
        if let Some(raw) = message["raw"].as_str() {
            assert_eq!(text, raw.as_bytes(), "{}: message {number}", capture.display());
        }
    }
    for outside in [" src=", "url(", "@import", "<link", "\"refresh", " style=", " href="] {
        assert!(!page.contains(outside), "{}: {outside}", capture.display());
    }
    let exchanges = blocks(&page).iter().filter(|block| block.kind == "exchanges").map(len).sum::<usize>();
    assert_eq!(exchanges, lines(capture, "exchange", &[]).len(), "{}", capture.display());
    let findings = blocks(&page).iter().filter(|block| block.kind == "findings").map(len).sum::<usize>();
    assert!(findings > 0 || lines(capture, "finding", &[]).is_empty(), "{}", capture.display());
}

fn len(block: &crate::page::Block) -> usize {
    block.json.as_array().map_or(0, Vec::len)
}

#[test]
fn a_page_holds_everything_and_fetches_nothing() {
    for name in
        ["weather/capture.pcapng", "helpdesk/capture.pcapng", "polluted-stdout/stdio.pcapng", "tls/capture.pcapng"]
    {
        check_page(&sample(name));
    }
}

#[test]
fn a_filter_is_shown_and_selects_the_messages() {
    let page = exported(&sample("weather/capture.pcapng"), "html", &["--filter", "method = tools/call"]);
    assert!(page.contains("only messages that match <code>method = tools/call</code>"));
    assert_eq!(texts(&page).len(), 2);
}

/// What a browser shows of a page.
fn driven(browser: &Need, capture: &Path, more: &[&str]) -> Option<Value> {
    let peers = peers()?;
    if !have_program(browser) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    fs::write(&page, exported(capture, "html", &[])).expect("a page");
    let mut node = Command::new(peers.0.join("node"));
    node.arg(browser_script(&peers.0, "drive.mjs")).arg(Path::new("/usr/bin").join(browser.what)).arg(&page);
    // Firefox writes its profile there.
    let done = node.args(more).env("HOME", folder.path()).finished();
    let errors = String::from_utf8_lossy(&done.stderr);
    Some(serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{}: {errors}", capture.display())))
}

/// Checks what holds for every page: nothing is said or fetched, every row has details, the bytes
/// of a JSON member are those in its packets, texts have contrast, controls have names.
fn check_driven(capture: &Path, seen: &Value) {
    let name = capture.display();
    assert_eq!(seen["said"], json!([]), "{name}");
    assert_eq!(seen["requests"], json!([]), "{name}");
    assert_eq!(seen["unnamed"], json!([]), "{name}");
    assert_eq!(seen["images"], 0, "{name}");
    assert_eq!((&seen["wide"], &seen["hidden"], &seen["help"]), (&false.into(), &false.into(), &true.into()), "{name}");
    assert!(seen["contrast"].as_f64().expect("a ratio") >= 4.5, "{name}: {}", seen["contrast"]);
    assert_eq!(seen["members"]["wrong"], json!([]), "{name}");
    check_layers(capture, seen);
    for (view, shown) in seen["views"].as_object().expect("views") {
        let rows = shown["rows"].as_u64().expect("rows").min(200);
        let details = shown["details"].as_u64().expect("details");
        assert!(details == rows || rows == 0, "{name}: {view} has {rows} rows, {details} with details");
    }
    let has_word = |line: &&Value| line["raw"].as_str().is_some_and(|text| text.to_lowercase().contains("jsonrpc"));
    let lines = lines(capture, "message", &[]);
    // The page opens with the first session.
    let session = &lines[0]["session"];
    let messages = lines.iter().filter(|line| line["session"] == *session).filter(has_word).count();
    assert_eq!(seen["found"], messages, "{name}: the search finds every text that has the word");
    assert_eq!(seen["after"], seen["views"]["messages"]["rows"], "{name}: esc ends the search");
}

/// The page restores the values of fields that it holds as references to what it knows.
fn check_layers(capture: &Path, seen: &Value) {
    let messages = seen["layers"].as_array().expect("messages");
    assert!(!messages.is_empty(), "{}", capture.display());
    for message in messages {
        let (number, nodes) = (message[0].to_string(), message[1].as_array().expect("nodes"));
        let layers = mcptap().arg("layers").arg(capture).args(["--message", &number, "--json"]).finished();
        let layers = String::from_utf8(layers.stdout).expect("text");
        assert!(!layers.is_empty(), "{}: message {number}", capture.display());
        for layer in layers.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
            for (name, value) in layer["fields"].as_object().expect("fields") {
                // The page has the fields of packets, not those of their connection.
                let is_of_connection = layer["layer"] == "transport"
                    && (["connection", "round trip of the handshake"].contains(&&**name)
                        || name.starts_with("sent by "));
                let is_shown = nodes.contains(&json!([name, value]));
                assert!(is_shown || is_of_connection, "{}: message {number}: {name} {value}", capture.display());
            }
        }
    }
}

#[test]
fn a_browser_shows_every_view() {
    for (browser, name, more) in [
        (CHROMIUM, "samples/weather/capture.pcapng", ["1280", "800", "light"]),
        (CHROMIUM, "samples/weather/capture.pcapng", ["390", "844", "dark"]),
        (FIREFOX, "samples/weather/capture.pcapng", ["1280", "800", "dark"]),
        (CHROMIUM, "samples/causes/hang/stdio.pcapng", ["1280", "800", "dark"]),
        (CHROMIUM, "samples/tls/capture.pcapng", ["1440", "900", "light"]),
        (CHROMIUM, "tests/captures/04_batch100/capture.pcap", ["1280", "800", "light"]),
        (CHROMIUM, "samples/helpdesk/capture.pcapng", ["1280", "800", "light"]),
    ] {
        let capture = root().join(name);
        let Some(seen) = driven(&browser, &capture, &more) else { continue };
        check_driven(&capture, &seen);
        assert_eq!(seen["dark"], more[2] == "dark", "{name}");
        let lit = seen["members"]["lit"].as_u64().expect("a count");
        assert_eq!(seen["sessions"], if name.contains("helpdesk") { 2 } else { 1 }, "{name}");
        assert!(lit > 0 || name.contains("stdio") || name.contains("tls"), "{name}: no member was lit in a packet");
        if name.contains("hang") {
            let explained = seen["explanation"].as_str().expect("a text");
            assert!(explained.starts_with("The server never answered tools/call get_weather"), "{explained}");
        }
    }
}

/// Names and texts that would act or hide if they were markup.
#[test]
fn a_browser_runs_nothing_of_a_hostile_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("capture.pcapng");
    let text = r#"<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202eabc\u200b\u001b[2J"#;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"{text}","method":"tools/call","params":{{"name":"{text}","arguments":{{"{text}":1}}}}}}"#
    );
    let answer = format!(r#"{{"jsonrpc":"2.0","id":"{text}","error":{{"code":1,"message":"{text}"}}}}"#);
    let post = "POST /<svg/onload=alert(3)> HTTP/1.1\r\nHost: h\r\nX-Odd: \u{feff}<img src=x onerror=alert(4)>\r\nContent-Type: application/json\r\nContent-Length:";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
    let mut wire = Wire::default();
    wire.segment(0, 5_000, Sender::Client, "S", "");
    wire.segment(1, 5_000, Sender::Server, "SA", "");
    wire.segment(2, 5_000, Sender::Client, "A", "");
    wire.segment(3, 5_000, Sender::Client, "A", &format!("{post} {}\r\n\r\n{call}", call.len()));
    wire.segment(4, 5_000, Sender::Server, "A", &format!("{head} {}\r\n\r\n{answer}", answer.len()));
    wire.segment(5, 5_000, Sender::Client, "A", "");
    wire.write(&capture);
    let Some(seen) = driven(&CHROMIUM, &capture, &[]) else { return };
    check_driven(&capture, &seen);
}
