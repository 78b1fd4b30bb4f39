use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::*;
use crate::capture::pipe::Exit;
use crate::capture::{PacketNumber, Span, Time};
use crate::decode::exchange::{ExchangeNumber, Half};
use crate::decode::jsonrpc::{Envelope, Kind};
use crate::decode::{ConnectionId, Direction};
use crate::export::json::text::write_time;
use crate::findings::{Severity, rule};
use crate::mcp::link::{Link, Why};
use crate::mcp::{Carrier, MessageNumber, Outcomes, SessionNumber};

const TIME: Time = Time(1_795_158_853_123_456_789);

fn message() -> Message {
    Message {
        session: SessionNumber(1),
        number: MessageNumber(7),
        time: TIME,
        transport: Transport::StreamableHttp,
        direction: Direction::ServerToClient,
        kind: Kind::Response,
        id: Some("1.0".into()),
        method: Some("tools/call".into()),
        tool: None,
        raw: br#"{"id":1.0,"result":{}}"#.to_vec().into(),
        envelope: Envelope::default(),
        batch: Some((2, 0)),
        answers: Some(MessageNumber(5)),
        answered_by: None,
        latency: Some(7_200_000),
        span: Span::default(),
        packets: vec![PacketNumber(41), PacketNumber(43)],
        carrier: Carrier::SseEvent,
        exchange: Some(ExchangeNumber(3)),
        sse_id: Some("7".to_owned()),
        line: None,
        redelivered: true,
        copies: None,
        operation: None,
        link: None,
        findings: vec!["jsonrpc-version-missing"],
    }
}

fn line<T>(write: impl Fn(&mut Vec<u8>, &T), record: &T) -> String {
    let mut out = b"before\n".to_vec();
    write(&mut out, record);
    String::from_utf8(out).unwrap().strip_prefix("before\n").unwrap().to_owned()
}

#[test]
fn a_message() {
    assert_eq!(
        line(write_message, &message()),
        concat!(
            r#"{"type":"message","session":1,"number":7,"time":"2026-11-20T07:14:13.123456789Z","#,
            r#""transport":"streamable-http","direction":"server-to-client","kind":"response","id":1.0,"#,
            r#""method":"tools/call","raw":"{\"id\":1.0,\"result\":{}}","batch":{"number":2,"index":0},"answers":5,"#,
            r#""latency_ns":7200000,"packets":[41,43],"carrier":"sse-event","exchange":3,"sse_id":"7","#,
            r#""redelivered":true,"findings":["jsonrpc-version-missing"]}"#,
            "\n"
        )
    );
}

#[test]
fn a_line_of_a_pipe() {
    let message = Message {
        transport: Transport::Stdio,
        direction: Direction::ClientToServer,
        kind: Kind::Invalid,
        id: None,
        method: None,
        tool: None,
        raw: b"caf\xe9".to_vec().into(),
        batch: None,
        answers: None,
        latency: None,
        carrier: Carrier::Line,
        exchange: None,
        sse_id: None,
        line: Some(3),
        redelivered: false,
        copies: None,
        operation: None,
        link: None,
        findings: vec![],
        ..message()
    };
    assert_eq!(
        line(write_message, &message),
        concat!(
            r#"{"type":"message","session":1,"number":7,"time":"2026-11-20T07:14:13.123456789Z","transport":"stdio","#,
            r#""direction":"client-to-server","kind":"invalid","raw_base64":"Y2Fm6Q==","carrier":"line","line":3}"#,
            "\n"
        )
    );
}

#[test]
fn ids_stay_on_their_line() {
    let id = |id: &str| {
        let text = line(write_message, &Message { id: Some(id.into()), ..message() });
        assert_eq!(text.matches('\n').count(), 1);
        text.split_once("\"id\":").and_then(|(_, rest)| rest.split_once(",\"method\"")).map(|(id, _)| id.to_owned())
    };
    for same in ["1", "1.0", "-0.0e-0", "1e999", "18446744073709551616", "null", r#""a\"\u001b""#, "[1,{}]"] {
        assert_eq!(id(same).as_deref(), Some(same));
    }
    assert_eq!(id("{\n\t\"a\":\r\n1}").as_deref(), Some("{  \"a\":  1}"));
    assert_eq!(id("\"\u{202e}\u{7f}\u{9b}\"").as_deref(), Some(r#""\u202e\u007f\u009b""#));
    assert_eq!(id("1,\"kind\":\"error\""), None, "no JSON value");
}

#[test]
fn an_exchange() {
    let mut exchange = Exchange {
        number: ExchangeNumber(2),
        connection: ConnectionId(1),
        http_version: "1.1",
        method: Some("POST".to_owned()),
        target: Some("/mcp".to_owned()),
        ..Exchange::default()
    };
    exchange.request = Half {
        fields: [("Host", "a \"b\"")].into_iter().collect(),
        packets: vec![PacketNumber(4)],
        body_bytes: 195,
        body_sha256: Some([0xab; 32]),
        complete: true,
        ..Half::default()
    };
    let hash = "ab".repeat(32);
    assert_eq!(
        line(|out, exchange| write_exchange(out, exchange, Some(SessionNumber(1))), &exchange),
        format!(
            concat!(
                r#"{{"type":"exchange","number":2,"session":1,"connection":1,"method":"POST","target":"/mcp","#,
                r#""http_version":"1.1","#,
                r#""request_headers":[["Host","a \"b\""]],"response_headers":[],"request_body_bytes":195,"#,
                r#""response_body_bytes":0,"request_packets":[4],"response_packets":[],"complete":false,"#,
                r#""request_body_sha256":"{}"}}"#,
                "\n"
            ),
            hash
        )
    );
}

fn session(peers: Peers) -> Session {
    Session {
        protocol_version: Some("2025-11-25".to_owned()),
        client: Some(Party { name: "a".to_owned(), version: "1".to_owned() }),
        ended: Time(-1),
        messages: 6,
        outcomes: Outcomes { ok: 4, tool_errors: 5, errors: 6, cancelled: 7, unanswered: 1 },
        server_requests: 8,
        responses: 2,
        notifications: 3,
        bytes: (2, 3),
        ..Session::opened(SessionNumber(1), Transport::Http, peers, Time(0))
    }
}

#[test]
fn sessions() {
    let network = Peers::Network {
        client: "127.0.0.1:50085".parse().unwrap(),
        server: "[::1]:80".parse().unwrap(),
        host: Some("localhost".to_owned()),
    };
    assert_eq!(
        line(write_session, &session(network)),
        concat!(
            r#"{"type":"session","number":1,"transport":"http","protocol_version":"2025-11-25","#,
            r#""client":{"name":"a","version":"1"},"#,
            r#""peers":{"client":"127.0.0.1:50085","server":"[::1]:80","host":"localhost"},"#,
            r#""started":"1970-01-01T00:00:00.000000000Z","ended":"1969-12-31T23:59:59.999999999Z","messages":6,"#,
            r#""requests":23,"responses":2,"notifications":3,"ok":4,"tool_errors":5,"errors":6,"cancelled":7,"#,
            r#""unanswered":1,"server_requests":8,"invalid":0,"completeness":0.666667}"#,
            "\n"
        )
    );
    let command = ["python3", "server.py"].map(str::to_owned).to_vec();
    let process = Peers::Process { process: 4711, command };
    let ended = Session { exit: Some(Exit { code: None, signal: Some(9) }), bytes: (5, 5), ..session(process) };
    let text = line(write_session, &ended);
    assert!(text.contains(r#""peers":{"command":["python3","server.py"],"pid":4711},"#), "{text}");
    assert!(text.ends_with("\"completeness\":1,\"exit\":{\"signal\":9}}\n"), "{text}");
}

#[test]
fn complete_means_whole() {
    assert_eq!(rounded_share(1.0), 1.0);
    assert_eq!(rounded_share(0.999_999_9), 0.999_999);
    assert_eq!(rounded_share(1.5), 1.0);
    assert_eq!(rounded_share(0.0), 0.0);
}

#[test]
fn a_finding() {
    let finding = Finding {
        session: Some(SessionNumber(1)),
        messages: vec![MessageNumber(4), MessageNumber(5)],
        text: "41 bytes lost.".to_owned(),
        ..Finding::of(rule("tcp-bytes-lost").expect("a rule"))
    };
    assert_eq!(
        line(write_finding, &finding),
        concat!(
            r#"{"type":"finding","rule":"tcp-bytes-lost","severity":"warning","session":1,"messages":[4,5],"#,
            r#""text":"41 bytes lost.","spec":"RFC 9293 section 3.4"}"#,
            "\n"
        )
    );
}

#[test]
fn a_summary() {
    let summary = Summary {
        packets: 126,
        bytes: 19_626,
        skipped: BTreeMap::from([("arp".into(), 5), ("udp".into(), 40)]),
        tcp_connections: 9,
        exchanges: 1,
        sessions: 1,
        messages: 1,
        findings: BTreeMap::from([(Severity::Info, 1), (Severity::Error, 2)]),
        first_time: Some(TIME),
        last_time: None,
        elapsed_seconds: 0.001_234_567,
    };
    assert_eq!(
        line(write_summary, &summary),
        concat!(
            r#"{"type":"summary","packets":126,"bytes":19626,"skipped":{"arp":5,"udp":40},"tcp_connections":9,"#,
            r#""exchanges":1,"sessions":1,"messages":1,"findings":{"error":2,"info":1},"#,
            r#""first_time":"2026-11-20T07:14:13.123456789Z","elapsed_seconds":0.001235}"#,
            "\n"
        )
    );
    assert!(!line(write_summary, &Summary { elapsed_seconds: f64::NAN, ..summary }).contains("elapsed"));
}

/// Text with many of the characters that need care.
fn hostile() -> impl Strategy<Value = String> {
    let care = "\0\x07\x08\t\n\x0b\x0c\r\x1b\x1f \"\\/\x7e\x7f\u{80}\u{85}\u{9b}\u{9f}\u{a0}\u{bf}\u{2000}\u{2027}\
                \u{2028}\u{2029}\u{202a}\u{202e}\u{202f}\u{2065}\u{2066}\u{2069}\u{206a}\u{feff}\u{1f600}aé";
    let careful = prop::sample::select(care.chars().collect::<Vec<_>>());
    vec(prop_oneof![3 => careful, 1 => any::<char>()], 0..48).prop_map(String::from_iter)
}

#[test]
fn characters_are_escaped_at_every_offset() {
    for character in ["\u{9b}", "\u{a0}", "\u{2029}", "\u{2066}", "\u{2014}", "\u{1b}", "\"", "\n"] {
        for before in 0..70 {
            let text = format!("{}{character}\\é", "x".repeat(before));
            let mut out = Vec::new();
            write_string(&mut out, &text);
            let written = String::from_utf8(out).unwrap();
            assert!(is_safe(&written), "{written:?}");
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20_u64, any::<u64>()]
}

prop_compose! {
    fn any_message()(
        (session, message_number, time, transport, client) in
            (any::<u32>(), number(), any::<i64>(), prop::sample::select(Transport::ALL.to_vec()), any::<bool>()),
        (id, method, raw) in (of(hostile()), of(hostile()), prop_oneof![
            3 => hostile().prop_map(String::into_bytes),
            1 => vec(any::<u8>(), 0..24),
        ]),
        (batch, answers, answered_by, latency) in (of((number(), any::<u32>())), of(number()), of(number()), of(any::<i64>())),
        (packets, carrier, exchange) in (vec(number(), 0..5), prop::sample::select(Carrier::ALL.to_vec()), of(number())),
        (sse_id, at_line, redelivered, findings) in (of(hostile()), of(number()), any::<bool>(), vec(Just("rule"), 0..3)),
    ) -> Message {
        Message {
            session: SessionNumber(session),
            number: MessageNumber(message_number),
            time: Time(time),
            transport,
            direction: if client { Direction::ClientToServer } else { Direction::ServerToClient },
            kind: if client { Kind::Request } else { Kind::Error },
            id: id.map(|id| json!(id).to_string().into()),
            method: method.map(Into::into),
            tool: None,
            raw: raw.into(),
            envelope: Envelope::default(),
            batch,
            answers: answers.map(MessageNumber),
            answered_by: answered_by.map(MessageNumber),
            latency,
            span: Span::default(),
            packets: packets.into_iter().map(PacketNumber).collect(),
            carrier,
            exchange: exchange.map(ExchangeNumber),
            sse_id,
            line: at_line,
            redelivered,
            copies: None,
            operation: None,
            link: None,
            findings,
        }
    }
}

/// The line that the contract prescribes, made in the simplest way.
fn expected(message: &Message) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            object.insert(name.to_owned(), value);
        }
    };
    put("type", json!("message"));
    put("session", json!(message.session.0));
    put("number", json!(message.number.0));
    put("time", json!(format!("{:.9}", jiff::Timestamp::from_nanosecond(message.time.0.into()).unwrap())));
    put("transport", json!(message.transport.name()));
    put("direction", json!(message.direction.name()));
    put("kind", json!(message.kind.name()));
    put("id", message.id.as_ref().map_or(Value::Null, |id| serde_json::from_str(id).unwrap()));
    put("method", json!(message.method.as_deref()));
    match std::str::from_utf8(&message.raw) {
        Ok(raw) => put("raw", json!(raw)),
        Err(_) => put("raw_base64", json!(STANDARD.encode(&*message.raw))),
    }
    put("batch", message.batch.map_or(Value::Null, |(number, index)| json!({ "number": number, "index": index })));
    put("answers", json!(message.answers.map(|number| number.0)));
    put("answered_by", json!(message.answered_by.map(|number| number.0)));
    put("latency_ns", json!(message.latency));
    if message.transport != Transport::Stdio {
        put("packets", message.packets.iter().map(|packet| packet.0).collect());
    }
    put("carrier", json!(message.carrier.name()));
    put("exchange", json!(message.exchange.map(|number| number.0)));
    put("sse_id", json!(message.sse_id));
    put("line", json!(message.line));
    put("redelivered", if message.redelivered { json!(true) } else { Value::Null });
    put("findings", if message.findings.is_empty() { Value::Null } else { json!(message.findings) });
    Value::Object(object)
}

/// Whether a line moves no cursor and reverses no text.
fn is_safe(line: &str) -> bool {
    let content = line.strip_suffix('\n').unwrap_or(line);
    !content.chars().any(|c| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

/// Checks records of all kinds except messages with any texts, figures and time.
fn records_parse_and_are_safe(texts: [String; 6], figures: [u64; 4], time: i64) -> Result<(), TestCaseError> {
    let [a, b, c, d, e, f] = texts;
    let fields = [(a.clone(), b.clone()), (c.clone(), d.clone())].into_iter().collect();
    let exchange = Exchange {
        method: Some(e.clone()),
        target: Some(f.clone()),
        request: Half { fields, body_bytes: figures[0], ..Half::default() },
        ..Exchange::default()
    };
    let line_of_exchange = line(|out, exchange| write_exchange(out, exchange, None), &exchange);
    let read: Value = serde_json::from_str(&line_of_exchange).unwrap();
    prop_assert_eq!(&read["request_headers"], &json!([[a, b], [c, d]]));
    prop_assert_eq!((&read["method"], &read["target"]), (&json!(e), &json!(f)));

    let peers = Peers::Process { process: 1, command: vec![a.clone(), b.clone()] };
    let party = Some(Party { name: d.clone(), version: e.clone() });
    let session = Session {
        session_id: Some(f.clone()),
        server: party,
        name: Some(c.clone()),
        started: Time(time),
        bytes: (figures[1], figures[2]),
        ..session(peers)
    };
    let line_of_session = line(write_session, &session);
    let read: Value = serde_json::from_str(&line_of_session).unwrap();
    prop_assert_eq!(&read["peers"], &json!({ "command": [a, b], "pid": 1, "name": c }));
    prop_assert_eq!(&read["name"], &json!(c));
    prop_assert_eq!((&read["server"], &read["session_id"]), (&json!({ "name": d, "version": e }), &json!(f)));
    prop_assert!((0.0..=1.0).contains(&read["completeness"].as_f64().unwrap()));

    let finding = Finding {
        packets: vec![PacketNumber(figures[3])],
        text: a.clone(),
        ..Finding::of(rule("tcp-bytes-lost").expect("a rule"))
    };
    let line_of_finding = line(write_finding, &finding);
    prop_assert_eq!(&serde_json::from_str::<Value>(&line_of_finding).unwrap()["text"], &json!(a));

    let skipped = BTreeMap::from([(a.clone().into(), figures[0])]);
    let line_of_summary = line(write_summary, &Summary { skipped, ..Summary::default() });
    prop_assert_eq!(&serde_json::from_str::<Value>(&line_of_summary).unwrap()["skipped"][&a], &json!(figures[0]));

    for line in [line_of_exchange, line_of_session, line_of_finding, line_of_summary] {
        prop_assert!(is_safe(&line), "{line:?}");
    }
    Ok(())
}

/// A regression of the law below.
#[test]
fn a_text_of_nothing_but_nul() {
    let mut texts = [const { String::new() }; 6];
    texts[0].push('\0');
    records_parse_and_are_safe(texts, [0; 4], 0).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_line_contains_what_the_record_contains(message in any_message()) {
        let line = line(write_message, &message);
        prop_assert!(is_safe(&line), "{line:?}");
        prop_assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), expected(&message));
    }

    #[test]
    fn other_records_parse_and_are_safe(texts in vec(hostile(), 6), figures in vec(number(), 4), time in any::<i64>()) {
        records_parse_and_are_safe(texts.try_into().unwrap(), figures.try_into().unwrap(), time)?;
    }

    #[test]
    fn times_are_those_of_another_library(time in prop_oneof![any::<i64>(), -2_000_000_000..2_000_000_000_i64]) {
        let mut out = Vec::new();
        write_time(&mut out, Time(time));
        let other = jiff::Timestamp::from_nanosecond(time.into()).unwrap();
        prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{other:.9}"));
    }

    #[test]
    fn ids_of_any_json_keep_their_meaning(text in hostile(), number in any::<i32>()) {
        let id = format!("{:#}", json!({ "a": [text, number] }));
        let line = line(write_message, &Message { id: Some(id.as_str().into()), ..message() });
        prop_assert!(is_safe(&line), "{line:?}");
        let read: Value = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(&read["id"], &serde_json::from_str::<Value>(&id).unwrap());
    }
}

#[test]
fn times_at_the_ends_of_days_and_of_the_clock() {
    const DAY: i64 = 86_400_000_000_000;
    for time in (-106_000..106_000).step_by(3).flat_map(|day| [day * DAY - 1, day * DAY]).chain([i64::MIN, i64::MAX]) {
        let mut out = Vec::new();
        write_time(&mut out, Time(time));
        let other = jiff::Timestamp::from_nanosecond(time.into()).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{other:.9}"));
    }
}

#[test]
fn every_line_is_json_even_with_numbers_beyond_any_type() {
    let text = line(write_message, &Message { id: Some("-1e99999".into()), ..message() });
    assert!(serde_json::from_str::<&RawValue>(text.trim_end()).is_ok());
}

#[test]
fn a_message_names_its_operation() {
    let link = |why| Some(Link { operation: MessageNumber(3), previous: MessageNumber(5), why });
    let operation = Some(MessageNumber(3));
    let text = |why| line(write_message, &Message { operation, link: link(why), ..message() });
    assert!(text(Why::Cursor).contains(r#""operation":{"first":3,"continues":5,"why":"cursor"},"answers""#));
    assert!(text(Why::Retry).contains(r#""operation":{"first":3,"continues":5,"why":"retry","likely":true}"#));
    let first = line(write_message, &Message { operation, ..message() });
    assert!(first.contains(r#""operation":{"first":3},"answers""#));
}
