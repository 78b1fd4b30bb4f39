//! Captures that begin in the middle: what goes on is read, and nothing is put where it does not belong.

use std::collections::{BTreeMap, BTreeSet};

use mcptap_core::internal::mcp::{Carrier, Message, SessionNumber};

use crate::decoded::{Decoded, assert_subset, conversations, frames, name};
use crate::rewrite::without;

/// The session of each text that is in one alone.
fn homes(decoded: &Decoded) -> BTreeMap<&[u8], SessionNumber> {
    let mut homes: BTreeMap<&[u8], BTreeSet<SessionNumber>> = BTreeMap::new();
    for message in decoded.messages() {
        homes.entry(&message.raw).or_default().insert(message.session);
    }
    homes.retain(|_, sessions| sessions.len() == 1);
    homes.into_iter().filter_map(|(raw, sessions)| Some((raw, sessions.first().copied()?))).collect()
}

/// No session holds what belongs to two.
fn assert_apart(what: &str, whole: &Decoded, rest: &Decoded) {
    let homes = homes(whole);
    let mut held: BTreeMap<SessionNumber, BTreeSet<SessionNumber>> = BTreeMap::new();
    for message in rest.messages() {
        held.entry(message.session).or_default().extend(homes.get(&*message.raw));
    }
    assert!(held.values().all(|of| of.len() <= 1), "{what}: {held:?}");
}

/// A question and its answer that are both there are known to be that, whichever connection was read first.
fn assert_paired(what: &str, whole: &Decoded, rest: &Decoded) {
    let (texts, told, paired) = (whole.texts(), rest.texts(), rest.pairs());
    for pair in whole.pairs().keys() {
        let ends = pair.split("\n  answered by ");
        let are_told = ends.into_iter().all(|text| texts.get(text) == Some(&1) && told.contains_key(text));
        assert!(!are_told || paired.contains_key(pair), "{what}: {pair}");
    }
}

/// Answers of which it is said that nobody asked.
fn unknown_ids(decoded: &Decoded) -> usize {
    let messages = decoded.messages();
    messages.filter(|message| message.findings.contains(&"jsonrpc-response-unknown-id")).count()
}

/// Events need no head: all of which every packet is behind the beginning are there, in the only session that there is.
#[test]
fn what_goes_on_where_a_capture_begins_is_read() {
    let mut events = 0;
    for path in conversations() {
        let (name, frames) = (name(&path), frames(&path));
        let whole = Decoded::of(&frames);
        for begin in (1..16).map(|part| frames.len() * part / 16) {
            let what = format!("{name} from packet {}", begin + 1);
            let rest = Decoded::of(&frames[begin..]);
            assert_subset(&what, &whole.texts(), &rest.texts());
            assert_subset(&what, &whole.pairs(), &rest.pairs());
            assert_apart(&what, &whole, &rest);
            let said: BTreeSet<&[u8]> = rest.messages().map(|message| &*message.raw).collect();
            let is_whole = |message: &&Message| {
                message.carrier == Carrier::SseEvent && message.packets.iter().all(|packet| packet.0 > begin as u64)
            };
            for event in whole.messages().filter(is_whole) {
                events += 1;
                let text = String::from_utf8_lossy(&event.raw);
                // A compressed stream cannot be read from the middle, nor one of HTTP/2 without the heads before it.
                let is_readable = !["04_br", "04_gzip", "05_h2c"].contains(&name.as_str());
                assert!(!is_readable || said.contains(&*event.raw), "{what}: {text} is missing");
            }
            if whole.sessions().len() == 1 {
                let sessions = rest.sessions();
                assert!(sessions.len() <= 1, "{what}: {sessions:#?}");
            }
            assert_paired(&what, &whole, &rest);
            // Of HTTP/2, a response whose request stands in a stream without a known head is taken for one that nobody asked for (docs/next.md).
            let is_known_to_be_wrong = name == "05_h2c";
            let invents_none = unknown_ids(&rest) <= unknown_ids(&whole);
            assert!(is_known_to_be_wrong || invents_none, "{what}: what an answer answers was sent before");
        }
    }
    // The samples alone have some.
    assert!(events > 40, "{events} events were whole");
}

/// Whether the text that began a session was lost makes no other session of the rest.
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
        assert_apart(&name, &whole, &rest);
        let homes = homes(&whole);
        let mut parts: BTreeMap<SessionNumber, BTreeSet<SessionNumber>> = BTreeMap::new();
        for message in rest.messages() {
            if let Some(home) = homes.get(&*message.raw) {
                parts.entry(*home).or_default().insert(message.session);
            }
        }
        assert!(parts.values().all(|parts| parts.len() == 1), "{name}: {parts:?}");
    }
    // The samples alone have two.
    assert!(lost > 1, "{lost} packets began a session");
}

/// A response of JSON is read where its head was lost, as a body that is a packet of its own is sent.
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
        assert_apart(&name, &whole, &rest);
        let exchanges = rest.exchanges();
        let is_without = |message: &&Message| {
            let exchange = message.exchange.and_then(|number| exchanges.get(&number.0));
            message.carrier == Carrier::ResponseBody && exchange.is_some_and(|exchange| exchange.status.is_none())
        };
        let found = rest.messages().filter(is_without).count();
        println!("{name}: {found} of {} lost heads", frames.len() - kept.len());
        read += found;
    }
    // The samples alone have one.
    assert!(read > 0, "{read} bodies were read");
}
