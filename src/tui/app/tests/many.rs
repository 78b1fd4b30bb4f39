//! A session of a million messages. Run by hand, it prints the figures of `docs/performance.md`.
//!
//! ```text
//! cargo test --release --lib tui::app::tests::many -- --ignored --nocapture
//! ```

use std::time::{Duration, Instant};

use super::*;
use crate::capture::PacketNumber;
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::decode::{ConnectionId, Direction};
use crate::event::Event;
use crate::mcp::{Carrier, Message, Outcomes, Peers, Session, Transport};
use crate::store::{CaptureInfo, CaptureKind, Summary, WriteOptions, Writer};
use crate::test_messages;
use crate::tui::data::{Answer, MessageList, PAGE, Query, Rows};

/// A session of this many messages. Every second one answers the one before.
fn long(messages: u64) -> DatabaseFile {
    texts(messages, 0)
}

/// Random words for long texts. The vocabulary is as large as a real one, so texts compress as well
/// as real ones.
fn words(seed: u64, bytes: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["ka", "lo", "mi", "ter", "sun", "ra", "bel", "do", "fin", "gu", "hal", "ver", "no", "pi", "stra", "qua"];
    let mut text = String::with_capacity(bytes + 16);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = state >> 52;
        for at in 0..1 + word % 3 {
            text.push_str(SYLLABLES[(word >> (at * 4)) as usize % SYLLABLES.len()]);
        }
        text.push(' ');
    }
    text
}

/// The same, with this many additional bytes in the texts of answers.
fn texts(messages: u64, bytes: usize) -> DatabaseFile {
    let place = DatabaseFile::temporary().unwrap();
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "many".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    let session = |ended, messages| Session {
        protocol_version: Some("2025-11-25".into()),
        ended,
        messages,
        outcomes: Outcomes { ok: messages / 2, ..Outcomes::default() },
        responses: messages / 2,
        bytes: (1, 1),
        ..Session::opened(
            SessionNumber(1),
            Transport::Stdio,
            Peers::Process { process: 1, command: vec!["server".into()] },
            Time(0),
        )
    };
    writer.event(Event::Session(Box::new(session(Time(0), 0))));
    for number in 1..=messages {
        let asks = number % 2 == 1;
        let id = number.div_ceil(2);
        let tool = format!("tool_{}", id % 7);
        let raw = if asks {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"n":{id}}}}}}}"#
            )
        } else {
            let words = if bytes > 0 { format!(" {}", words(id, bytes)) } else { String::new() };
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"answer {id}{words}"}}]}}}}"#
            )
        };
        let direction = if asks { Direction::ClientToServer } else { Direction::ServerToClient };
        writer.event(Event::Message(Box::new(Message {
            method: Some("tools/call".into()),
            tool: Some(tool.into()),
            answers: (!asks).then_some(MessageNumber(number - 1)),
            latency: (!asks).then_some(100_000 + (id as i64 * 7_919) % 5_000_000),
            ..test_messages::message(number, Time(number as i64 * 100_000), direction, &raw)
        })));
    }
    writer.event(Event::Session(Box::new(session(Time(messages as i64 * 100_000), messages))));
    writer.finish(&Summary::default()).unwrap();
    place
}

/// Resident memory in MB, from /proc.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) / 1_000
}

fn timed(what: &str, run: impl FnOnce()) {
    let began = Instant::now();
    run();
    println!("{what:<48} {:>9.2} ms", began.elapsed().as_secs_f64() * 1_000.0);
}

/// A session over HTTP: each call is an exchange of its own, and its answer an event.
fn exchanged(messages: u64) -> DatabaseFile {
    let place = DatabaseFile::temporary().unwrap();
    let info = CaptureInfo {
        kind: CaptureKind::Import,
        source: "many".into(),
        process: 1,
        started: Time(0),
        ..CaptureInfo::default()
    };
    let mut writer = Writer::create(place.clone(), &info, WriteOptions::default()).unwrap();
    let peers = Peers::Network {
        client: "192.0.2.1:40000".parse().unwrap(),
        server: "192.0.2.2:80".parse().unwrap(),
        host: None,
    };
    let session = Session {
        connections: vec![ConnectionId(1)],
        messages,
        ..Session::opened(SessionNumber(1), Transport::StreamableHttp, peers, Time(0))
    };
    writer.event(Event::Session(Box::new(session)));
    for number in 1..=messages {
        let asks = number % 2 == 1;
        let packet = PacketNumber(number * 3);
        let exchange = ExchangeNumber(number.div_ceil(2));
        if asks {
            let half = |packet: u64| Half { packets: vec![PacketNumber(packet)], complete: true, ..Half::default() };
            writer.event(Event::Exchange(Box::new(Exchange {
                number: exchange,
                connection: ConnectionId(1),
                method: Some("POST".into()),
                status: Some(200),
                request: half(packet.0),
                response: half(packet.0 + 1),
                ..Exchange::default()
            })));
            writer.event(Event::Belongs(exchange, SessionNumber(1)));
        }
        let direction = if asks { Direction::ClientToServer } else { Direction::ServerToClient };
        writer.event(Event::Message(Box::new(Message {
            exchange: Some(exchange),
            carrier: if asks { Carrier::RequestBody } else { Carrier::SseEvent },
            packets: vec![packet],
            ..test_messages::message(number, Time(number as i64), direction, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)
        })));
    }
    writer.finish(&Summary::default()).unwrap();
    place
}

#[test]
#[ignore = "makes a database of a million messages; prints what their steps take of memory"]
fn memory_of_the_steps_of_a_million() {
    let count = std::env::var("MESSAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let mut story = Story::store(exchanged(count), (160, 48));
    let before = memory();
    let first = Query::Steps(SessionNumber(1), 0);
    let mut turns = 0;
    let mut longest = Duration::ZERO;
    let total = loop {
        let began = Instant::now();
        let Answer::Steps(page) = story.query_runner.answer(&first) else { panic!("no steps") };
        longest = longest.max(began.elapsed());
        turns += 1;
        if page.complete {
            break page.total;
        }
    };
    assert_eq!(total as u64, count / 2 * 3);
    println!("{total} steps: {} MB, then {} MB; {turns} turns, the longest {longest:?}", before, memory());
}

#[test]
#[ignore = "makes a database of a million messages; prints figures"]
fn figures_of_a_million() {
    let count = std::env::var("MESSAGES").ok().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let bytes = std::env::var("BYTES").ok().and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
    let place = texts(count, bytes);
    println!("memory before: {} MB", memory());
    let mut story = None;
    timed("open, first screen of messages", || {
        let mut opened = Story::store(place, (160, 48));
        opened.press("<enter>");
        opened.buffer();
        story = Some(opened);
    });
    let mut story = story.unwrap();
    assert_eq!(story.app.message_count(), Some((count as usize, true)));
    timed("a page down and its frame", || drop(story.press("<pgdn>").buffer()));
    timed("jump to the end and its frame", || drop(story.press("G").buffer()));
    timed("jump to the middle (:goto) and its frame", || {
        drop(story.press(&format!(":goto {}<enter>", count / 2)).buffer())
    });
    timed("100 frames", || (0..100).for_each(|_| drop(story.buffer())));
    timed("open a message", || drop(story.press("<enter>").buffer()));
    story.press("<esc>");
    timed("filter of a column, first page", || drop(story.press("/tool = tool_3<enter>").buffer()));
    timed("the rest of that filter", || while story.query_runner.search_on() {});
    story.press("<esc>");
    timed("filter that few fit, first page", || drop(story.press("/latency > 5099us<enter>").buffer()));
    timed("the rest of that filter", || while story.query_runner.search_on() {});
    story.press("<esc>");
    let last = format!("/\"answer {}\"<enter>", count / 2 - 1);
    timed("full text, first page", || drop(story.press(&last).buffer()));
    timed("the rest of that filter", || while story.query_runner.search_on() {});
    story.press("<esc>");
    timed("statistics", || drop(story.press("5").buffer()));
    timed("layers", || drop(story.press("3").buffer()));
    println!("memory after: {} MB", memory());
}

#[test]
fn the_end_of_a_long_list_needs_two_pages_only() {
    let mut story = Story::store(long(3_000), (100, 30));
    story.press("<enter>G");
    assert_eq!(story.app.cursor(Screen::Messages).selected, 2_999);
    assert!(story.app.message(2_999).is_some() && story.app.message(1_500).is_none());
    story.press("/tool = tool_3 and kind = request<enter>G");
    let (total, complete) = story.app.message_count().unwrap();
    assert!(complete && (200..230).contains(&total), "{total}");
    assert!(story.app.message(total - 1).is_some());
    story.press("F<esc>");
    assert!(story.app.follow);
}

#[test]
fn following_shows_messages_however_fast_they_arrive() {
    let mut story = Story::store(long(300), (100, 30));
    story.press("<enter>F");
    assert_eq!(story.app.cursor(Screen::Messages).selected, 299);
    // The visible page is answered again. By now there are ten times as many messages, and the last
    // one was not read.
    let rows = (256..300).map(|row| story.app.message(row).unwrap().clone()).collect();
    let list = MessageList { session: SessionNumber(1), filter: String::new() };
    let answer = Rows { rows, total: 3_000, complete: true };
    let effects = update(&mut story.app, Input::Answer(Query::Messages(list.clone(), 2), Answer::Messages(answer)));
    assert_eq!(story.app.cursor(Screen::Messages).selected, 299, "the newest that is here");
    let asks = |page| effects.contains(&Effect::Query(Query::Messages(list.clone(), page)));
    assert!(asks(2_999 / PAGE), "{effects:?}");
}
