//! Tests of records: they are read as they were written.

use std::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::capture::Damage;
use crate::capture::pipe::Exit;
use crate::capture::{Limits, Origin, PacketNumber, Provenance, StreamPart, provenance};
use crate::decode::exchange::{Exchange, ExchangeNumber, Half};
use crate::decode::jsonrpc::{self, JsonRpcText};
use crate::decode::tcp::{End, Facts, HandshakePacket, SynOptions};
use crate::decode::{Side, tls};
use crate::event::{Connection, ConnectionKind, Stream, StreamKind};
use crate::findings::{Finding, Severity, rule};
use crate::mcp::content::Status;
use crate::mcp::link::{Link, Why};
use crate::mcp::{Outcomes, Party};

fn packets() -> impl Strategy<Value = Vec<PacketNumber>> {
    prop::collection::vec(any::<u64>().prop_map(PacketNumber), 0..5)
}

fn address() -> impl Strategy<Value = SocketAddr> {
    let v4 = (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from);
    let v6 = (any::<[u8; 16]>(), any::<u16>()).prop_map(SocketAddr::from);
    prop_oneof![v4, v6]
}

fn one_of<T: codec::Code + std::fmt::Debug>() -> impl Strategy<Value = T> {
    prop::sample::select(T::ALL)
}

prop_compose! {
    fn any_message()(
        (time, transport, direction, kind) in (any::<i64>(), one_of(), one_of(), one_of()),
        (id, method, sse_id, line) in any::<(Option<String>, Option<String>, Option<String>, Option<u64>)>(),
        raw in prop_oneof![
            any::<Vec<u8>>(), any::<String>().prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 1_000..1_100), (1_000usize..3_000).prop_map(|length| vec![b'a'; length]),
        ],
        batch: Option<(u64, u32)>, (latency, answered_by) in any::<(Option<i64>, Option<u64>)>(),
        span in any::<(u32, u64, u64)>(), packets in packets(), carrier in one_of(),
        exchange: Option<u64>, redelivered: bool, link in prop::option::of((1..5_u64, 1..5_u64, one_of())),
    ) -> Message {
        let envelope = match jsonrpc::parse(&raw, Limits::default().json_depth, Limits::default().batch) {
            JsonRpcText::Single(envelope) => envelope,
            _ => Envelope::default(),
        };
        Message {
            session: SessionNumber(1), number: MessageNumber(0), time: Time(time), transport, direction, kind, id: id.map(Into::into), method: method.map(Into::into), tool: None, raw: raw.into(),
            envelope, batch, answers: None, answered_by: answered_by.map(MessageNumber), latency,
            span: Span { stream: StreamId(span.0), start: span.1, end: span.2 }, packets, carrier,
            exchange: exchange.map(ExchangeNumber), sse_id, line, redelivered, copies: None,
            operation: link.map(|(operation, ..)| MessageNumber(operation)),
            link: link.map(|(operation, previous, why)| Link {
                operation: MessageNumber(operation), previous: MessageNumber(previous), why,
            }),
            findings: Vec::new(),
        }
    }
}

prop_compose! {
    fn any_session()(
        transport in one_of(), (protocol_version, session_id) in any::<(Option<String>, Option<String>)>(),
        parties in any::<[Option<(String, String)>; 2]>(),
        network in prop::option::of((address(), address(), any::<Option<String>>())),
        (process, command, name) in any::<(u32, Vec<String>, Option<String>)>(),
        connections in prop::collection::vec(any::<u32>(), 0..4), times in any::<[i64; 2]>(), counts in any::<[u64; 6]>(),
        outcomes in any::<[u64; 6]>().prop_map(|counts| counts.map(|count| count >> 4)),
        exit in prop::option::of(any::<Result<i32, i32>>()),
    ) -> Session {
        let [client, server] = parties.map(|party| party.map(|(name, version)| Party { name, version }));
        let [messages, responses, notifications, invalid, seen, sent] = counts;
        let [ok, tool_errors, errors, cancelled, unanswered, server_requests] = outcomes;
        Session {
            number: SessionNumber(1), transport, protocol_version, session_id, client, server,
            peers: match network {
                Some((client, server, host)) => Peers::Network { client, server, host },
                None => Peers::Process { process, command },
            },
            name,
            connections: connections.into_iter().map(ConnectionId).collect(),
            started: Time(times[0]), ended: Time(times[1]), messages,
            outcomes: Outcomes { ok, tool_errors, errors, cancelled, unanswered },
            server_requests, responses, notifications, invalid, bytes: (seen, sent),
            exit: exit.map(|exit| Exit { code: exit.ok(), signal: exit.err() }),
        }
    }
}

prop_compose! {
    fn any_half()(
        fields in prop::collection::vec(any::<(String, String)>(), 0..4), times in any::<[Option<i64>; 2]>(),
        (head_start, head_end, body_bytes) in any::<(u64, u64, u64)>(), packets in packets(), head_packets in packets(),
        body_sha256: Option<[u8; 32]>, complete: bool,
    ) -> Half {
        Half {
            fields: fields.into_iter().collect(),
            started: times[0].map(Time), ended: times[1].map(Time), head_start, head_end, packets, head_packets, body_bytes,
            body_sha256, complete,
        }
    }
}

prop_compose! {
    fn any_exchange()(
        connection in 1u32..3, h2_stream: Option<u32>, http_version in prop::sample::select(&["", "1.0", "1.1", "2"][..]),
        texts in any::<[Option<String>; 3]>(), status: Option<u16>, request in any_half(), response in any_half(),
    ) -> Exchange {
        let [method, target, reason] = texts;
        Exchange {
            number: ExchangeNumber(0), connection: ConnectionId(connection), h2_stream, http_version, method, target, status,
            reason, explanation: None, request, response,
        }
    }
}

prop_compose! {
    fn any_end()(
        counts in any::<[u64; 3]>(), small in any::<[u32; 4]>(), (mss, window_scale) in any::<(Option<u16>, Option<u8>)>(),
        (sack_permitted, timestamps) in any::<(bool, bool)>(), ends in any::<[Option<u64>; 2]>(),
    ) -> End {
        End {
            packets: counts[0], bytes: counts[1], lost: counts[2],
            options: SynOptions { mss, window_scale, sack_permitted, timestamps },
            retransmissions: small[0], duplicate_acks: small[1], keep_alives: small[2], zero_windows: small[3],
            fin: ends[0].map(PacketNumber), rst: ends[1].map(PacketNumber),
        }
    }
}

prop_compose! {
    fn any_connection()(
        endpoints in (address(), address()), times in any::<[i64; 2]>(), steps in any::<[Option<(u64, i64)>; 3]>(),
        ends in (any_end(), any_end()), pipe: Option<u32>, client: Option<bool>,
        protocol in prop::sample::select(&["http/1.1", "tls", "pipe", "unknown"][..]), host: Option<String>,
        tls in prop::collection::vec((one_of(), any::<i64>(), packets(), any::<String>()), 0..3),
        agreed in any::<Option<([Option<String>; 4], bool)>>(),
    ) -> Connection {
        let step = |step: Option<(u64, i64)>| step.map(|(packet, time)| HandshakePacket { packet: PacketNumber(packet), time: Time(time) });
        Connection {
            id: ConnectionId(0), protocol, host,
            kind: match pipe {
                Some(process) => ConnectionKind::Pipe { process, opened: Time(times[0]) },
                None => ConnectionKind::Tcp(Facts {
                    endpoints: [endpoints.0, endpoints.1], opened: Time(times[0]), last: Time(times[1]),
                    handshake: steps.map(step), ends: [ends.0, ends.1],
                }),
            },
            client: client.map(|second| if second { Side::Second } else { Side::First }),
            tls: tls.into_iter().map(|(kind, time, packets, detail)| tls::RecordGroup { kind, time: Time(time), packets, detail }).collect(),
            agreed: agreed.map(|([version, cipher_suite, server_name, alpn], resumed)| {
                tls::Agreed { version, cipher_suite, server_name, alpn, resumed }
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn records_survive_the_round_trip(
        mut sessions in prop::collection::vec((any_session(), any_session()), 1..3),
        mut messages in prop::collection::vec(any_message(), 0..6),
        mut exchanges in prop::collection::vec(any_exchange(), 0..4),
        mut connections in prop::collection::vec(any_connection(), 2),
        finding in (prop::collection::vec(1u64..9, 0..3), packets(), any::<Option<(u32, u64, u64)>>(), any::<String>()),
        streams in prop::collection::vec((0u8..5, any::<bool>(), any::<u64>()), 0..6), between: bool,
    ) {
        let directory = directory();
        let path = directory.path().join("captures.db");
        // A capture before this one, so that the numbers in the capture and in the database differ.
        let mut other = writer(&path);
        other.add_session(session(1, &[1]));
        other.add_message(message(1, 1, b"of another capture"));
        other.commit().unwrap();
        let mut writer = writer(&path);
        let capture = writer.capture();
        let direction = |second| if second { Direction::ServerToClient } else { Direction::ClientToServer };

        // First written in an earlier state: the last state counts. Connections of a session
        // are only added.
        for (index, (early, session)) in sessions.iter_mut().enumerate() {
            session.number = SessionNumber(index as u32 + 1);
            session.connections = vec![ConnectionId(2), ConnectionId(1)];
            early.number = session.number;
            early.connections = vec![ConnectionId(2)];
            writer.add_session(early.clone());
            if between {
                writer.commit().unwrap();
            }
            writer.add_session(session.clone());
            session.number = SessionNumber(index as u32 + 2);
        }
        for (index, message) in messages.iter_mut().enumerate() {
            message.number = MessageNumber(index as u64 + 1);
            writer.add_message(message.clone());
            message.session = SessionNumber(2);
        }
        // The store derives the operation of a first message from later messages.
        let firsts: Vec<MessageNumber> = messages.iter().filter_map(|message| Some(message.link?.operation)).collect();
        for message in messages.iter_mut().filter(|message| message.operation.is_none() && firsts.contains(&message.number)) {
            message.joins(message.number);
        }
        for (index, exchange) in exchanges.iter_mut().enumerate() {
            exchange.number = ExchangeNumber(index as u64 + 1);
            // The session may be known before the exchange is complete, or later.
            if index % 2 == 0 {
                writer.event(Event::Belongs(exchange.number, SessionNumber(1)));
                writer.commit().unwrap();
            }
            writer.event(Event::Exchange(Box::new(exchange.clone())));
            writer.event(Event::Belongs(exchange.number, SessionNumber(1)));
        }
        for (index, connection) in connections.iter_mut().enumerate() {
            connection.id = ConnectionId(index as u32 + 1);
            writer.event(Event::Connection(Box::new(connection.clone())));
        }
        let streams: Vec<_> = streams.into_iter().zip(1..).map(|((kind, second, number), id)| Stream {
            id: StreamId(id), connection: ConnectionId(1),
            kind: match kind {
                0 => StreamKind::Tcp(if second { Side::Second } else { Side::First }),
                1 => StreamKind::Pipe(number as u8),
                2 => StreamKind::Body(ExchangeNumber(number), direction(second)),
                3 => StreamKind::Decoded(ExchangeNumber(number), direction(second)),
                4 => StreamKind::EventData(ExchangeNumber(number)),
                _ => StreamKind::WebSocket(ExchangeNumber(number), direction(second)),
            },
        }).collect();
        streams.iter().for_each(|stream| writer.event(Event::Stream(*stream)));
        let finding = Finding {
            session: Some(SessionNumber(1)), messages: finding.0.into_iter().map(MessageNumber).collect(),
            packets: finding.1, span: finding.2.map(|(stream, start, end)| Span { stream: StreamId(stream), start, end }),
            text: finding.3, severity: Severity::Info, repeated: 3, ..Finding::of(rule("tcp-bytes-lost").expect("a rule"))
        };
        writer.event(Event::Finding(Box::new(finding.clone())));
        writer.finish(&Summary::default()).unwrap();
        for message in messages.iter_mut().filter(|message| finding.messages.contains(&message.number)) {
            message.findings = vec![finding.rule.id];
        }

        messages.sort_by_key(|message| (message.time, message.number));
        let reader = StoreReader::open(&*path).unwrap();
        let number = SessionNumber(2);
        let expected_sessions: Vec<_> = sessions.into_iter().map(|(_, session)| session).collect();
        prop_assert_eq!(reader.sessions(Page::from(number, 10)).unwrap(), &expected_sessions[..]);
        prop_assert_eq!(reader.latest_session().unwrap(), expected_sessions.last().cloned());
        let listed = reader.listed_sessions(None, Page::from(number, 10)).unwrap();
        let facts: Vec<_> = listed.into_iter().map(|listed| (listed.session, listed.findings)).collect();
        prop_assert_eq!(facts, expected_sessions.iter().cloned().zip([[3, 0, 0], [0; 3]]).collect::<Vec<_>>());
        prop_assert_eq!(reader.messages(Scope::Session(number), Page::first(10)).unwrap(), &messages[..]);
        for message in &messages {
            let read = reader.message_of(number, message.number).unwrap();
            prop_assert_eq!(read.as_ref(), Some(message));
        }
        prop_assert_eq!(reader.message_of(SessionNumber(1), MessageNumber(2)).unwrap(), None);
        prop_assert_eq!(reader.exchanges(number, Page::first(10)).unwrap(), &exchanges[..]);
        for exchange in &exchanges {
            let read = reader.exchange(capture, exchange.number).unwrap();
            prop_assert_eq!(read.as_ref(), Some(exchange));
        }
        prop_assert_eq!(reader.connections(number, Page::first(10)).unwrap(), connections);
        for stream in streams {
            prop_assert_eq!(reader.stream(capture, stream.id).unwrap(), Some(stream));
        }

        let rows = reader.findings(Scope::Session(number), Page::first(10)).unwrap();
        let expected = FindingRow {
            number: 1, capture, rule: "tcp-bytes-lost".into(), severity: Severity::Info,
            title: "Bytes of a connection are missing from the capture".into(), spec: "RFC 9293 section 3.4".into(),
            session: Some(number), messages: finding.messages, packets: finding.packets, span: finding.span, text: finding.text,
            repeated: 3,
        };
        for row in reader.message_rows(Scope::Session(number), Page::first(10)).unwrap() {
            let about = expected.messages.contains(&row.number);
            prop_assert_eq!((row.findings, row.severity), if about { (1, Some(Severity::Info)) } else { (0, None) });
            prop_assert_eq!(reader.message_findings(row.key()).unwrap().pop(), about.then(|| expected.clone()));
        }
        prop_assert_eq!(rows, [expected]);
    }

    /// Streams made of packets, streams made of those, gaps and derived parts: the file has the
    /// same provenance as the pipeline.
    #[test]
    fn provenance_reads_as_the_pipeline_had_it(
        steps in prop::collection::vec((0usize..5, 1u64..200, 0u8..10, any::<u16>()), 1..150),
        spans in prop::collection::vec((0usize..5, 0u64..3_000, 0u64..3_000), 1..10), commit_every in 1usize..40,
        declared in prop::collection::vec(0usize..150, 5),
    ) {
        let directory = directory();
        let path = directory.path().join("captures.db");
        let mut writer = writer(&path);
        let mut live = Provenance::default();
        let mut handed = Provenance::default();
        let streams: Vec<_> = (0..5).map(|_| { handed.open(); live.open() }).collect();
        for (index, (stream, length, kind, offset)) in steps.into_iter().enumerate() {
            let below = streams[stream.saturating_sub(1)];
            let span = Span { stream: below, start: offset.into(), end: u64::from(offset) + length };
            let origin = match (stream, kind) {
                (_, 0) => Origin::Missing,
                (0, _) => Origin::Packet { packet: PacketNumber(index as u64), offset: offset.into() },
                (_, 1) => Origin::Derived(span),
                _ => Origin::Copied { stream: below, offset: live.length(below).min(offset.into()) },
            };
            for (stream, _) in streams.iter().zip(&declared).filter(|(_, at)| **at == index) {
                writer.event(Event::Stream(declaration(*stream)));
            }
            live.append(streams[stream], length, origin);
            handed.append(streams[stream], length, origin);
            if index % commit_every == 0 {
                // The pipeline hands over the parts that it discards, one stream at a time.
                let id = streams[stream];
                handed.forget(id, handed.length(id) / 2, |part| writer.event(Event::Part(id, part)));
                writer.commit().unwrap();
            }
        }
        for stream in &streams {
            writer.event(Event::Stream(declaration(*stream)));
            handed.close(*stream, |part| writer.event(Event::Part(*stream, part)));
        }
        writer.commit().unwrap();

        let reader = StoreReader::open(&*path).unwrap();
        for (stream, one, other) in spans {
            let span = Span { stream: streams[stream], start: one.min(other), end: one.max(other) };
            // `handed` may have split a run of contiguous bytes where a part was discarded. So the
            // origins of single bytes are compared.
            let bytes = |parts: Vec<StreamPart>| -> Vec<_> {
                parts.into_iter().flat_map(|part| (part.start..part.end).map(move |at| {
                    match provenance::clip(part, at, at + 1).origin {
                        Origin::Packet { packet, offset } => (at, 1, packet.0, u64::from(offset)),
                        Origin::Copied { stream, offset } => (at, 2, stream.0.into(), offset),
                        Origin::Derived(from) => (at, 3, from.start, from.end),
                        Origin::Missing => (at, 0, 0, 0),
                    }
                })).collect()
            };
            let live_parts: Vec<_> = live.parents(span).collect();
            prop_assert_eq!(bytes(reader.parts(CaptureId(1), span).unwrap()), bytes(live_parts));
            let places = |ranges: Vec<crate::capture::PacketRange>| -> Vec<_> {
                ranges.into_iter().flat_map(|range| (range.start..range.end).map(move |at| (range.packet, at))).collect()
            };
            prop_assert_eq!(places(reader.packet_ranges(CaptureId(1), span).unwrap()), places(live.packet_ranges(span)));
        }
    }
}

fn declaration(id: StreamId) -> Stream {
    Stream { id, connection: ConnectionId(1), kind: StreamKind::Tcp(Side::First) }
}

#[test]
fn the_last_that_was_said_of_an_exchange_counts() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    let exchange = |number, status| {
        let number = ExchangeNumber(number);
        Box::new(Exchange { number, status, http_version: "1.1", ..Exchange::default() })
    };
    writer.event(Event::Head(exchange(5, None)));
    writer.event(Event::Head(exchange(6, None)));
    writer.commit().unwrap();
    // The first event of an exchange may come after those of later ones.
    writer.event(Event::Exchange(exchange(3, Some(200))));
    writer.event(Event::Exchange(exchange(5, Some(202))));
    writer.commit().unwrap();
    writer.event(Event::Exchange(exchange(6, Some(404))));
    writer.finish(&Summary::default()).unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    let status = |number| reader.exchange(CaptureId(1), ExchangeNumber(number)).unwrap().unwrap().status;
    assert_eq!([3, 5, 6].map(status), [Some(200), Some(202), Some(404)]);
}

#[test]
fn a_walk_that_goes_round_in_a_circle_is_refused() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    let whole = |stream| Span { stream: StreamId(stream), start: 0, end: 10 };
    for (stream, below) in [(1, 2), (2, 1)] {
        let origin = Origin::Copied { stream: StreamId(below), offset: 0 };
        writer.event(Event::Part(StreamId(stream), StreamPart { start: 0, end: 10, origin }));
    }
    writer.commit().unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    assert!(reader.packet_ranges(CaptureId(1), whole(1)).unwrap_err().to_string().contains("damaged"));
    assert!(reader.packet_ranges(CaptureId(1), whole(3)).unwrap().is_empty());
}

#[test]
fn a_request_learns_of_its_answer() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let envelope = |raw: &[u8]| match jsonrpc::parse(raw, 16, 1) {
        JsonRpcText::Single(envelope) => envelope,
        other => panic!("{other:?}"),
    };
    for commit_between in [false, true] {
        let mut writer = writer(&path);
        let raw = br#"{"method":"tools/call","params":{"name":"f\u00fcr","arguments":{}}}"#;
        let mut request = message(1, 1, raw);
        request.method = Some("tools/call".into());
        request.envelope = envelope(raw);
        writer.add_message(request);
        if commit_between {
            writer.commit().unwrap();
        }
        let raw = br#"{"id":1,"result":{"content":[],"isError":true}}"#;
        let mut answer = message(1, 2, raw);
        answer.kind = Kind::Response;
        answer.envelope = envelope(raw);
        answer.answers = Some(MessageNumber(1));
        answer.latency = Some(5_000);
        writer.add_message(answer.clone());
        // A second response changes nothing on the request.
        writer.add_message(Message { number: MessageNumber(3), kind: Kind::Error, latency: Some(9_000), ..answer });
        writer.finish(&Summary::default()).unwrap();

        let reader = StoreReader::open(&*path).unwrap();
        let rows = reader.message_rows(Scope::Capture(writer.capture()), Page::first(9)).unwrap();
        let call: Vec<_> = rows.iter().map(|row| (row.subject.as_deref(), row.status, row.latency)).collect();
        assert_eq!(
            call,
            [
                (Some("für"), Some(Status::ToolError), Some(5_000)),
                (Some("für"), Some(Status::ToolError), Some(5_000)),
                (Some("für"), Some(Status::Error), Some(9_000)),
            ]
        );
        assert_eq!(rows[0].answered_by, Some(MessageNumber(2)));
        assert_eq!(reader.message(rows[0].key()).unwrap().unwrap().answered_by, Some(MessageNumber(2)));
    }
}

#[test]
fn the_summary_of_a_capture_is_kept() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    for (number, time) in [(1, 50), (2, 40)] {
        let packet = crate::capture::Packet {
            number: PacketNumber(number),
            time: Time(time),
            link: crate::capture::LinkType::ETHERNET,
            interface: 0,
            original_length: 4,
            data: b"data",
        };
        writer.packet(&packet);
    }
    let damage = Damage { file: "trace.pcapng".into(), offset: 99, reason: "a block of 3 bytes".into() };
    let summary = Summary { ended: Time(60), skipped: [("ARP".to_owned(), 2)].into(), damage: vec![damage] };
    writer.finish(&summary).unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    let capture = reader.capture(CaptureId(1)).unwrap().unwrap();
    let counts = Counts { packets: 2, bytes: 8, times: Some((Time(40), Time(50))), ..Counts::default() };
    assert_eq!(
        capture,
        Capture { id: CaptureId(1), info: info(), last_alive: Time(7), counts, summary: Some(summary) }
    );
    assert!(!capture.is_live(Time(8)));
}

#[test]
fn a_late_link_takes_the_operation_of_the_message_with_it() {
    for between in [false, true] {
        let directory = directory();
        let path = directory.path().join("captures.db");
        let mut writer = writer(&path);
        writer.add_session(session(1, &[1]));
        let number = MessageNumber;
        let link = |previous, why| Some(Link { operation: number(2), previous: number(previous), why });
        for at in 1..=4 {
            let mut message = message(1, at, b"{}");
            match at {
                3 => message.link = link(2, Why::Progress),
                4 => (message.kind, message.answers) = (Kind::Response, Some(number(2))),
                _ => message.kind = Kind::Request,
            }
            writer.add_message(message);
        }
        if between {
            writer.commit().unwrap();
        }
        let late = Link { operation: number(1), previous: number(1), why: Why::Retry };
        writer.event(Event::Linked(SessionNumber(1), number(2), late));
        writer.commit().unwrap();
        let rows = StoreReader::open(&*path).unwrap().message_rows(Scope::All, Page::first(9)).unwrap();
        let operations: Vec<_> = rows.iter().map(|row| row.operation.map(|operation| operation.0)).collect();
        assert_eq!(operations, [Some(1); 4]);
        let whys: Vec<_> = rows.iter().map(|row| row.link.map(|link| (link.previous.0, link.why))).collect();
        assert_eq!(whys, [None, Some((1, Why::Retry)), Some((2, Why::Progress)), Some((2, Why::Answer))]);
    }
}
