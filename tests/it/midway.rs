//! Captures that begin in the middle of connections: the rest is decoded, and nothing joins a wrong
//! session.

use std::collections::{BTreeMap, BTreeSet};

use mcptap_core::internal::mcp::{Carrier, Message, SessionNumber};

use crate::decoded::{Decoded, assert_subset, conversations, frames, name};
use crate::rewrite::without;

/// The session of each text that only one session has.
fn session_of_text(decoded: &Decoded) -> BTreeMap<&[u8], SessionNumber> {
    let mut session_of_text: BTreeMap<&[u8], BTreeSet<SessionNumber>> = BTreeMap::new();
    for message in decoded.messages() {
        session_of_text.entry(&message.raw).or_default().insert(message.session);
    }
    session_of_text.retain(|_, sessions| sessions.len() == 1);
    session_of_text.into_iter().filter_map(|(raw, sessions)| Some((raw, sessions.first().copied()?))).collect()
}

/// Asserts that no session of `rest` holds messages of two sessions of `whole`.
fn assert_sessions_stay_separate(what: &str, whole: &Decoded, rest: &Decoded) {
    let session_of_text = session_of_text(whole);
    let mut held: BTreeMap<SessionNumber, BTreeSet<SessionNumber>> = BTreeMap::new();
    for message in rest.messages() {
        held.entry(message.session).or_default().extend(session_of_text.get(&*message.raw));
    }
    assert!(held.values().all(|of| of.len() <= 1), "{what}: {held:?}");
}

/// Asserts that requests and responses that are both captured are paired, in whatever order the
/// connections were read.
fn assert_paired(what: &str, whole: &Decoded, rest: &Decoded) {
    let (texts, told, paired) = (whole.texts(), rest.texts(), rest.pairs());
    for pair in whole.pairs().keys() {
        let ends = pair.split("\n  answered by ");
        let are_told = ends.into_iter().all(|text| texts.get(text) == Some(&1) && told.contains_key(text));
        assert!(!are_told || paired.contains_key(pair), "{what}: {pair}");
    }
}

/// The number of findings that a response has no request.
fn unknown_ids(decoded: &Decoded) -> usize {
    let messages = decoded.messages();
    messages.filter(|message| message.findings.contains(&"jsonrpc-response-unknown-id")).count()
}

/// Events need no head. Those whose packets were all captured are found, in the only session.
#[test]
fn open_streams_are_read() {
    let mut events = 0;
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        let whole = Decoded::of(&frames);
        for begin in (1..16).map(|part| frames.len() * part / 16) {
            let what = format!("{name} from packet {}", begin + 1);
            let rest = Decoded::of(&frames[begin..]);
            assert_subset(&what, &whole.texts(), &rest.texts());
            assert_subset(&what, &whole.pairs(), &rest.pairs());
            assert_sessions_stay_separate(&what, &whole, &rest);
            let exchanges = whole.exchanges();
            let said: BTreeSet<&[u8]> = rest.messages().map(|message| &*message.raw).collect();
            let is_whole = |message: &&Message| {
                let is_stream = matches!(message.carrier, Carrier::SseEvent | Carrier::WebSocket);
                is_stream && message.packets.iter().all(|packet| packet.0 > begin as u64)
            };
            for event in whole.messages().filter(is_whole) {
                events += 1;
                let text = String::from_utf8_lossy(&event.raw);
                // A compressed stream cannot be read from the middle.
                let fields = &exchanges[&event.exchange.expect("a stream of HTTP").0].response.fields;
                let coding = fields.get("content-encoding").or(fields.get("sec-websocket-extensions"));
                let is_readable = coding.is_none();
                assert!(!is_readable || said.contains(&*event.raw), "{what}: {text} is missing");
            }
            if whole.sessions().len() == 1 {
                let sessions = rest.sessions();
                assert!(sessions.len() <= 1, "{what}: {sessions:#?}");
            }
            assert_paired(&what, &whole, &rest);
            // In HTTP/2 a request without a known head is not found, so its response gets a wrong
            // finding (docs/limits.md).
            let is_known_to_be_wrong = name == "05_h2c";
            let invents_none = unknown_ids(&rest) <= unknown_ids(&whole);
            assert!(is_known_to_be_wrong || invents_none, "{what}: what an answer answers was sent before");
        }
    }
    // The samples have some in any case.
    assert!(events > 40, "{events} events were whole");
}

/// If the text that began a session was lost, the other messages still form one session.
#[test]
fn a_session_is_one_without_the_text_that_began_it() {
    let begins = |packet: &[u8]| memchr::memmem::find(packet, b"\"method\":\"initialize\"").is_some();
    let mut lost = 0;
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        let kept = without(&frames, begins);
        lost += frames.len() - kept.len();
        let (whole, rest) = (Decoded::of(&frames), Decoded::of(&kept));
        assert_subset(&name, &whole.texts(), &rest.texts());
        assert_subset(&name, &whole.pairs(), &rest.pairs());
        assert_sessions_stay_separate(&name, &whole, &rest);
        let session_of_text = session_of_text(&whole);
        let mut parts: BTreeMap<SessionNumber, BTreeSet<SessionNumber>> = BTreeMap::new();
        for message in rest.messages() {
            if let Some(home) = session_of_text.get(&*message.raw) {
                parts.entry(*home).or_default().insert(message.session);
            }
        }
        assert!(parts.values().all(|parts| parts.len() == 1), "{name}: {parts:?}");
    }
    // The samples have two in any case.
    assert!(lost > 1, "{lost} packets began a session");
}

/// A JSON response is read without its head if the body is a packet of its own.
#[test]
fn a_body_of_json_is_read_without_its_head() {
    let mut read = 0;
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        let begins =
            |packet: &[u8]| memchr::memmem::find(packet, b"HTTP/1.1 200").is_some() && packet.ends_with(b"\r\n\r\n");
        let kept = without(&frames, begins);
        let (whole, rest) = (Decoded::of(&frames), Decoded::of(&kept));
        assert_subset(&name, &whole.texts(), &rest.texts());
        assert_subset(&name, &whole.pairs(), &rest.pairs());
        assert_sessions_stay_separate(&name, &whole, &rest);
        let exchanges = rest.exchanges();
        let is_without = |message: &&Message| {
            let exchange = message.exchange.and_then(|number| exchanges.get(&number.0));
            message.carrier == Carrier::ResponseBody && exchange.is_some_and(|exchange| exchange.status.is_none())
        };
        let found = rest.messages().filter(is_without).count();
        println!("{name}: {found} of {} lost heads", frames.len() - kept.len());
        read += found;
    }
    // The samples have one in any case.
    assert!(read > 0, "{read} bodies were read");
}
