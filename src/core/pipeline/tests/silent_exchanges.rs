//! The sessions of exchanges that carry no message.

use std::collections::BTreeMap;

use super::*;
use crate::capture::Limits;
use crate::decode::exchange::ExchangeNumber;

const EVENTS: &str = "Accept: text/event-stream\n";
const VERSION: &str = "2025-06-18";

/// The events for a store. A closed connection is forgotten at once.
fn stored(steps: &[String]) -> Vec<Event> {
    let limits = Limits { lingering: 0, ..Limits::default() };
    events_with(steps, PipelineConfig { detail: Detail::Store, limits, ..PipelineConfig::default() }, false)
}

/// Each exchange with its target, its status and its session; 0 for none.
fn homes(steps: &[String]) -> Vec<(String, u16, u32)> {
    let events = stored(steps);
    let mut homes: BTreeMap<ExchangeNumber, (String, u16, u32)> = BTreeMap::new();
    for event in &events {
        if let Event::Exchange(exchange) = event {
            let words = [exchange.method.as_deref(), exchange.target.as_deref()].map(Option::unwrap_or_default);
            homes.insert(exchange.number, (words.join(" "), exchange.status.unwrap_or(0), 0));
        }
    }
    for event in &events {
        if let Event::Belongs(exchange, session) = event {
            let home = &mut homes.get_mut(exchange).expect("an exchange").2;
            assert_eq!(std::mem::replace(home, session.0), 0, "{exchange:?} has one session");
        }
    }
    homes.into_values().collect()
}

/// The sessions of exchanges that precede a session on a connection of its own.
fn before(steps: &[String]) -> Vec<u32> {
    let session = [vec!["@ 899".into()], http_session(VERSION, true, &[])].concat();
    let homes = homes(&[steps, &session].concat());
    let (before, own) = homes.split_at(homes.len() - 2);
    assert!(own.iter().all(|(.., session)| *session == 1), "the messages of the session: {homes:?}");
    before.iter().map(|(.., session)| *session).collect()
}

fn get(at: u16, target: &str, fields: &str, answer: &str) -> Vec<String> {
    vec![format!("@ {at}"), format!("> GET {target}\n{fields}"), format!("< {answer}"), format!("x {at}")]
}

#[test]
fn an_id_assigns_an_exchange_on_any_connection() {
    let id = "Mcp-Session-Id: s-1\n";
    let more = [
        get(1, "/mcp", &format!("{id}{EVENTS}"), "405"),
        vec!["@ 2".into(), format!("> DELETE /mcp\n{id}"), "< 200".into(), "x 2".into()],
        get(3, "/mcp", "Mcp-Session-Id: other\n", "404"),
        get(4, "/page", "", "200"),
        get(5, "/.well-known/oauth-protected-resource", "", "404"),
    ];
    let homes = homes(&http_session(VERSION, true, &more.concat()));
    let sessions: Vec<u32> = homes.iter().map(|(.., session)| *session).collect();
    assert_eq!(sessions, [1, 1, 1, 1, 0, 0, 0], "{homes:?}");
}

#[test]
fn a_refused_request_belongs_to_the_session_that_its_client_opens_next_at_the_target() {
    let early = [
        get(1, "/mcp", EVENTS, "401"),
        get(2, "/other", EVENTS, "401"),
        // A page for browsers at the same target.
        get(3, "/mcp", "Accept: text/html\n", "200"),
        // The id of an earlier session.
        get(4, "/mcp", "Mcp-Session-Id: old\n", "404"),
    ];
    assert_eq!(before(&early.concat()), [1, 0, 0, 0]);
    // A second client of the same host has its own.
    let session = |at: u16, id: &str| {
        let steps = http_session(VERSION, true, &[]).into_iter().map(|step| step.replace("s-1", id));
        [vec![format!("@ {at}")], steps.collect()].concat()
    };
    let two = [get(1, "/mcp", EVENTS, "401"), session(2, "a"), get(3, "/mcp", EVENTS, "401"), session(4, "b")];
    let sessions: Vec<u32> = homes(&two.concat()).iter().map(|(.., session)| *session).collect();
    assert_eq!(sessions, [1, 1, 1, 2, 2, 2]);
}

/// The packets of its connection are stored too, although it closed before the session began.
#[test]
fn the_connection_of_an_earlier_exchange_is_claimed_before_it_ends() {
    let steps = [get(1, "/mcp", EVENTS, "401"), vec!["@ 9".into()], http_session(VERSION, true, &[])].concat();
    let events = stored(&steps);
    let at = |is_it: fn(&Event) -> bool| events.iter().position(is_it).expect("the event");
    let claimed = at(|event| matches!(event, Event::Claimed(id) if id.0 == 1));
    let streams = at(|event| matches!(event, Event::Stream(stream) if stream.connection.0 == 1));
    let closed = at(|event| matches!(event, Event::Closed(id) if id.0 == 1));
    let message = at(|event| matches!(event, Event::Message(_)));
    assert!(claimed < streams && streams < closed && closed < message, "{:?}", [claimed, streams, closed, message]);
    let session = events.iter().rev().find_map(|event| match event {
        Event::Session(session) => Some(session.connections.iter().map(|id| id.0).collect::<Vec<_>>()),
        _ => None,
    });
    // The last ACK of the first connection came after it was forgotten, and counts as another one.
    assert_eq!(session, Some(vec![1, 3]));
}

#[test]
fn redirects_lead_to_the_session_at_their_end() {
    let to = |status: u16, place: &str| format!("{status}\nLocation: {place}\n");
    let early = [
        get(1, "/a", EVENTS, &to(307, "/b")),
        get(2, "/b", EVENTS, &to(308, "http://10.0.0.2:8000/mcp")),
        get(3, "/c", EVENTS, &to(307, "http://elsewhere.example/mcp")),
        get(4, "/d", EVENTS, &to(307, "/e")),
    ];
    assert_eq!(before(&early.concat()), [1, 1, 0, 0]);
}

#[test]
fn an_id_that_no_response_assigned_opens_its_session_later() {
    let id = "Mcp-Session-Id: z\n";
    let ping = post(id, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let steps = [get(1, "/mcp", &format!("{id}{EVENTS}"), "200"), vec!["@ 2".into(), ping, "< 202".into()]];
    let sessions: Vec<u32> = homes(&steps.concat()).iter().map(|(.., session)| *session).collect();
    assert_eq!(sessions, [1, 1]);
}

#[test]
fn a_connection_with_one_session_assigns_its_exchanges() {
    let health = ["> GET /health".to_owned(), "< 200".to_owned()];
    let session = http_session(VERSION, true, &health);
    let sessions = |steps: &[String]| homes(steps).iter().map(|(.., session)| *session).collect::<Vec<_>>();
    assert_eq!(sessions(&[&health[..], &session].concat()), [1, 1, 1, 1]);
    // A proxy may carry many sessions on one connection.
    let other = http_session(VERSION, true, &[]).into_iter().map(|step| step.replace("s-1", "b"));
    let both = [session[..4].to_vec(), other.collect(), health.to_vec()].concat();
    assert_eq!(sessions(&both), [1, 1, 2, 2, 0]);
}

#[test]
fn the_exchanges_that_wait_are_bounded() {
    let many: Vec<String> = (0..300).flat_map(|at| get(at, "/mcp", EVENTS, "401")).collect();
    let waited = before(&many);
    assert_eq!(waited.iter().filter(|session| **session == 1).count(), 256);
    assert!(waited[..44].iter().all(|session| *session == 0), "the oldest are forgotten");
}
