//! The text above TLS of connections whose handshakes were over before mcptap attached.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::keys::{Runtime, Scene};
use crate::peers::peers;
use crate::program::mcptap;
use crate::sniff::{Sniffed, Sniffing};
use crate::support::waits::{Finishes, ProcessEnd};
use crate::wrapped::{json, of_type, recorded};

/// The ids of the messages of a session, once for each message.
fn ids(lines: &[Value], session: &Value) -> Vec<u64> {
    let of = of_type(lines, "message").into_iter().filter(|message| message["session"] == session["number"]);
    of.map(|message| message["id"].as_u64().expect("a number")).collect()
}

/// Requests before and after mcptap attached, on the connection that is open already (`old`) and
/// on a new one. Each message is seen once: as text above TLS, or by its packets.
fn seen_once(runtime: Runtime, version: &str, old: &str) {
    let Some(peers) = peers() else { return };
    let what = format!("{runtime:?} {version} {old}");
    let mut scene = Scene::start(&peers, runtime, version, "auto");
    let [db, raw] = ["text.db", "raw.pcapng"].map(|name| scene.folder.path().join(name));
    assert_eq!(scene.ask(old)["requests"], 1, "{what}");
    let [db_text, raw_text] = [&db, &raw].map(|path| path.to_str().expect("UTF-8"));
    let Some(mut sniffing) = scene.sniff(&["--db", db_text, "-w", raw_text]) else { return };
    assert!(sniffing.notes.iter().any(|note| note.contains("the text above TLS")), "{what}: {:?}", sniffing.notes);
    let results = [old, "new", old].map(|how| scene.ask(how));
    assert_eq!((&results[0]["requests"], &results[2]["requests"]), (&json!(2), &json!(3)), "{what}");
    sniffing.await_messages(6);
    drop(scene.client.stdin.take());
    let process = scene.client.child.id();
    scene.client.child.ended("the client");
    let sniffed = sniffing.interrupt();
    assert!(sniffed.drops.contains(" bytes of text above TLS recorded, 0 lost"), "{what}: {}", sniffed.drops);
    for lines in [&sniffed.lines, &recorded(&db), &json(&["read"], &raw)] {
        let sessions = of_type(lines, "session");
        let above = sessions.iter().find(|session| session["peers"]["above_tls"] == process);
        let above = above.unwrap_or_else(|| panic!("{what}: {sessions:#?}"));
        assert_eq!(ids(lines, above), [2, 2, 4, 4], "{what}");
        assert_eq!(above["completeness"], 1, "{what}");
        let others = sessions.iter().filter(|session| session["peers"].get("above_tls").is_none());
        let others: Vec<u64> = others.flat_map(|session| ids(lines, session)).collect();
        // The raw packets come without secrets, so the new connection stays closed there.
        assert!(others == [3, 3] || others.is_empty() && !std::ptr::eq(lines, &sniffed.lines), "{what}: {others:?}");
        for message in of_type(lines, "message").into_iter().filter(|message| message["kind"] == "response") {
            let raw: Value = serde_json::from_str(message["raw"].as_str().expect("text")).expect("JSON");
            assert_eq!(raw["result"]["padding"].as_str().map(str::len), Some(40_000), "{what}");
        }
    }
    let layers = |options: &[&str]| {
        let session = of_type(&recorded(&db), "session")
            .iter()
            .find(|session| session["peers"]["above_tls"] == process)
            .map(|session| session["number"].to_string());
        let done = mcptap().args(["layers", &session.expect("a session"), "--db", db_text]).args(options).finished();
        String::from_utf8(done.stdout).expect("text")
    };
    let table = layers(&[]);
    assert!(
        table.contains("above TLS, no packets") && table.contains(&format!("process {process}")),
        "{what}: {table}"
    );
    assert!(!table.contains("SYN"), "{what}: {table}");
    let first = of_type(&sniffed.lines, "message")
        .iter()
        .find(|message| message["id"] == 2)
        .map(|message| message["number"].to_string());
    let message = layers(&["--message", &first.expect("a message")]);
    assert!(message.starts_with("above TLS, no packets") && !message.contains("IPv6"), "{what}: {message}");
}

#[test]
fn python_clients_that_are_connected_already() {
    seen_once(Runtime::Python, "TLSv1.3", "same");
    seen_once(Runtime::Python, "TLSv1.2", "same");
}

#[test]
fn node_clients_that_are_connected_already_over_http_1_and_2() {
    seen_once(Runtime::Node, "TLSv1.3", "same");
    seen_once(Runtime::Node, "TLSv1.3", "h2");
}

/// The bytes of text that were lost. With the recorded ones they are those of so many answers.
fn lost_of(sniffed: &Sniffed, answers: u64) -> u64 {
    let line = sniffed.drops.lines().find(|line| line.contains("text above TLS")).expect("a summary");
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [seen, lost] = numbers[..] else { panic!("{line}") };
    // Every answer has the padding, a head and a few digits, and every request a head.
    let least = answers * 40_000;
    assert!((least..least + answers * 600).contains(&(seen + lost)), "{line}");
    lost
}

/// While nobody empties the ring, 500 answers pass: more than it holds. mcptap is stopped then.
fn more_than_the_ring_holds() -> Option<(Scene, Sniffing)> {
    let mut scene = Scene::start(&peers()?, Runtime::Node, "TLSv1.3", "auto");
    scene.ask("same");
    let mut sniffing = scene.sniff(&["--no-save"])?;
    scene.ask("same");
    sniffing.await_messages(2);
    sniffing.signal(Signal::STOP);
    // Each answer takes 48 KB of the 16 MB.
    (0..500).for_each(|_| drop(scene.ask("same")));
    Some((scene, sniffing))
}

/// What is lost is a gap, after which messages are found again.
#[test]
fn text_for_which_there_is_no_room_is_a_gap() {
    let Some((mut scene, mut sniffing)) = more_than_the_ring_holds() else { return };
    sniffing.signal(Signal::CONT);
    // What the ring held was taken out before any of it is printed.
    sniffing.await_messages(100);
    let last: BTreeSet<u64> = (0..3).map(|_| scene.ask("same")["requests"].as_u64().expect("a number")).collect();
    assert_eq!(last.first(), Some(&503));
    drop(scene.client.stdin.take());
    scene.client.child.ended("the client");
    let sniffed = sniffing.interrupt();
    assert!(lost_of(&sniffed, 504) > 1_000_000);
    let session = of_type(&sniffed.lines, "session")[0];
    assert!(session["completeness"].as_f64().expect("a share") < 1.0);
    assert!(ids(&sniffed.lines, session).ends_with(&[505, 505]), "what follows the gap is read");
}

/// What waits when the capture ends is taken, and what the ring had no room for is counted, though
/// nothing follows it.
#[test]
fn text_at_the_end_is_recorded_or_counted() {
    let Some((_scene, sniffing)) = more_than_the_ring_holds() else { return };
    sniffing.signal(Signal::INT);
    sniffing.signal(Signal::CONT);
    let sniffed = sniffing.finish();
    assert!(lost_of(&sniffed, 501) > 1_000_000);
}
