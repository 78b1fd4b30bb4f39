//! Tests of packets: which are stored, in which order they come back, and that they
//! contain no secret.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::packet_feeder::{HEAD, PacketFeeder};
use super::*;
use crate::capture::pipe;
use crate::capture::{Limits, LinkType, Origin, Packet, PacketNumber, PacketRange, StreamPart};
use crate::decode::ConnectionId;
use crate::decode::Side::{First, Second};
use crate::decode::exchange::{Exchange, ExchangeNumber};
use crate::decode::tcp::{Analysis, Flags};
use crate::event::{Segment, Stream, StreamKind};
use crate::source::{Item, Source};

/// The stored payloads, in order, after `talk` has passed its packets.
fn stored_payloads(options: WriteOptions, talk: impl FnOnce(&mut PacketFeeder<'_>)) -> (Vec<String>, PacketCounts) {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = Writer::create(&*path, &info(), options).unwrap();
    talk(&mut PacketFeeder::new(&mut writer));
    writer.finish(&Summary::default()).unwrap();
    let mut stored = StoredPackets::open(&*path, Selection::Capture(CaptureId(1))).unwrap();
    let mut payloads = Vec::new();
    while let Some(Item::Packet(packet)) = stored.next().unwrap() {
        assert_eq!(&packet.data[..HEAD.len()], HEAD, "only payload is ever masked");
        payloads.push(String::from_utf8_lossy(&packet.data[HEAD.len()..]).into_owned());
    }
    (payloads, StoreReader::open(&*path).unwrap().capture(CaptureId(1)).unwrap().unwrap().counts.packet_counts)
}

fn stored_masked(talk: impl FnOnce(&mut PacketFeeder<'_>)) -> Vec<String> {
    stored_payloads(WriteOptions::default(), talk).0
}

#[test]
fn a_secret_is_masked_wherever_its_bytes_travel() {
    let talk = |feeder: &mut PacketFeeder<'_>| {
        feeder.sent(1, First, 0, b"");
        feeder.sent(1, First, 0, b"Cookie: secr");
        // Later bytes first, then the second half of the secret, and all of it once more.
        feeder.sent(1, First, 16, b"\n\nbody");
        feeder.sent(1, Second, 12, b"seen");
        feeder.sent(1, First, 12, b"et!\r");
        feeder.secret(First, 8..15);
        feeder.cleared(First, 22);
        feeder.cleared(Second, 16);
        feeder.keep(1);
        feeder.sent(1, First, 4, b"ie: secret!\r\n\nbo");
        feeder.sent(1, First, 22, b" and more");
        feeder.cleared(First, 31);
        feeder.closed(1);
    };
    let masked = ["", "Cookie: ****", "\n\nbody", "seen", "***\r", "ie: *******\r\n\nbo", " and more"];
    assert_eq!(stored_masked(talk), masked);

    let plain = ["", "Cookie: secr", "\n\nbody", "seen", "et!\r", "ie: secret!\r\n\nbo", " and more"];
    assert_eq!(stored_payloads(WriteOptions { keep_secrets: true, ..WriteOptions::default() }, talk).0, plain);
}

#[test]
fn a_copy_with_other_content_is_searched_itself() {
    let payloads = stored_masked(|feeder| {
        feeder.keep(1);
        feeder.sent(1, First, 0, b"GET / HTTP/1.1\r\nAccept: everything\r\n\r\n");
        feeder.cleared(First, 38);
        feeder.sent(1, First, 0, b"GET / HTTP/1.1\r\nCookie: everythin\r\n\r\n");
        // Both came before the decoder examined them. It examines one.
        feeder.sent(1, First, 38, b"Host: a\r\n");
        feeder.sent(1, First, 38, b"token:a\r\n");
        feeder.cleared(First, 47);
    });
    assert_eq!(payloads[1], "GET / HTTP/1.1\r\nCookie:**********\r\n\r\n");
    assert_eq!(payloads[2..], ["Host: a\r\n", "token:*\r\n"]);
}

/// The text of a message may look like a line with a secret. The decoder found none there.
#[test]
fn an_exact_copy_and_a_late_packet_are_not_searched() {
    let payloads = stored_masked(|feeder| {
        feeder.keep(1);
        feeder.sent(1, First, 30, b"the code: x");
        feeder.sent(1, First, 10, b"a token: yy");
        feeder.sent(1, First, 0, b"a cookie:z");
        feeder.sent(1, First, 21, b" password");
        feeder.sent(1, First, 30, b"the code: x");
        feeder.sent(1, First, 10, b"a token: zz");
        feeder.cleared(First, 41);
    });
    let plain = ["the code: x", "a token: yy", "a cookie:z", " password", "the code: x"];
    assert_eq!(payloads, [&plain[..], &["a token:***"]].concat());
}

#[test]
fn what_no_decoder_reached_is_searched_at_the_end() {
    let payloads = stored_masked(|feeder| {
        feeder.keep(1);
        feeder.sent(1, First, 0, b"GET / HTTP/1.1\r\nAuthoriz");
        feeder.cleared(First, 16);
        feeder.sent(1, First, 24, b"ation: Bear");
        feeder.sent(1, First, 35, b"er x\r\nHost: a\r\n");
        // After a hole: the start of this line is unknown.
        feeder.sent(1, First, 90, b"er y\r\nHost: b\r\nX-Api-Key: k");
        feeder.closed(1);
    });
    let masked =
        ["GET / HTTP/1.1\r\nAuthoriz", "ation:*****", "****\r\nHost: a\r\n", "****\r\nHost: b\r\nX-Api-Key:**"];
    assert_eq!(payloads, masked);
}

#[test]
fn nothing_is_written_before_it_was_looked_at() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    let mut feeder = PacketFeeder::new(&mut writer);
    feeder.keep(1);
    feeder.sent(1, First, 0, b"Cookie: a");
    feeder.sent(1, Second, 0, b"");
    feeder.writer.commit().unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    let numbers = || -> Vec<u64> {
        let packets = reader.packets(CaptureId(1), ConnectionId(1), PacketNumber(0), 10).unwrap();
        packets.iter().map(|packet| packet.number.0).collect()
    };
    assert!(numbers().is_empty(), "the acknowledgment waits behind, to stay in order");
    feeder.cleared(First, 9);
    feeder.writer.commit().unwrap();
    assert_eq!(numbers(), [1, 2]);
}

#[test]
fn what_waits_too_long_is_blanked_and_counted() {
    let payload = vec![b'x'; 64 << 10];
    let (payloads, counts) = stored_payloads(WriteOptions::default(), |feeder| {
        feeder.keep(1);
        // A hole at 0 that is never filled: nothing after it is cleared.
        for index in 0..20 {
            feeder.sent(1, First, 1 + index * payload.len() as u64, &payload);
        }
        feeder.cleared(First, u64::MAX);
    });
    assert_eq!(payloads.len(), 20);
    let blank = payloads.iter().take_while(|payload| payload.bytes().all(|byte| byte == b'*')).count();
    assert_eq!(counts, PacketCounts { stored: 20, discarded: 0, blanked: blank as u64 });
    assert_eq!(blank, 5, "a mebibyte waits, the rest is blank");
    assert!(payloads[blank..].iter().all(|payload| payload.bytes().all(|byte| byte == b'x')));
}

/// The first digits of the stored payloads, and the findings, of a connection that is undecided for
/// ten packets of 1,000 bytes.
fn decided_late(limits: Limits) -> (String, PacketCounts, Vec<String>) {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = Writer::create(&*path, &info(), WriteOptions { limits, ..WriteOptions::default() }).unwrap();
    let mut feeder = PacketFeeder::new(&mut writer);
    for index in 0..10u64 {
        let payload = format!("{index}").repeat(1_000);
        feeder.sent(1, First, index * 1_000, payload.as_bytes());
        feeder.sent(2, First, index * 1_000, payload.as_bytes());
    }
    feeder.secret(First, 2_990..3_010);
    feeder.cleared(First, 10_000);
    feeder.keep(1);
    feeder.closed(2);
    feeder.packet(LinkType::ETHERNET, b"[head]of nobody");
    feeder.writer.add_session(session(1, &[1]));
    feeder.writer.finish(&Summary::default()).unwrap();
    let reader = StoreReader::open(&*path).unwrap();
    let packets = reader.packets(CaptureId(1), ConnectionId(1), PacketNumber(0), 20).unwrap();
    for packet in &packets {
        let payload = String::from_utf8_lossy(&packet.data[HEAD.len()..]);
        let masked = payload.matches('*').count();
        assert_eq!(masked, if payload.contains(['2', '3']) { 10 } else { 0 }, "{payload}");
    }
    let first = packets.iter().map(|packet| char::from(packet.data[HEAD.len() + 500])).collect();
    let findings = reader.findings(Scope::Session(SessionNumber(1)), Page::first(9)).unwrap();
    let texts = findings.into_iter().map(|row| row.text).collect();
    (first, reader.capture(CaptureId(1)).unwrap().unwrap().counts.packet_counts, texts)
}

#[test]
fn packets_before_the_decision_wait_on_the_disk() {
    let (first, counts, findings) = decided_late(Limits { undecided: 4_096, ..Limits::default() });
    assert_eq!(first, "0123456789");
    assert_eq!(counts, PacketCounts { stored: 10, discarded: 0, blanked: 0 });
    assert_eq!(findings, [""; 0]);
}

#[test]
fn packets_for_which_the_disk_has_no_room_are_counted_and_named() {
    let (first, counts, findings) = decided_late(Limits { undecided: 4_096, message: 2_500, ..Limits::default() });
    let kept = first.len() as u64;
    assert!((3..10).contains(&kept) && first.ends_with("789"), "{first}");
    assert_eq!(counts, PacketCounts { stored: kept, discarded: 10 - kept, blanked: 0 });
    let named = format!("{} packets ({} bytes)", 10 - kept, (10 - kept) * 1_006);
    assert!(findings.len() == 1 && findings[0].starts_with(&named), "{findings:?}");
    assert!(findings[0].contains("from the start of connection 1 were not kept"), "{findings:?}");
}

#[test]
fn fragments_are_kept_with_the_packet_that_completes_them() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    let mut feeder = PacketFeeder::new(&mut writer);
    feeder.keep(1);
    let one = feeder.packet(LinkType::ETHERNET, b"[head]Cookie: s");
    // This packet waits for nothing, so it is in a chunk before the fragment's connection is known.
    feeder.sent(1, Second, 0, b"");
    let other = feeder.packet(LinkType::ETHERNET, b"[head]ecret\r\n");
    feeder.segment(
        1,
        First,
        0,
        vec![PacketRange { packet: one, start: 6, end: 15 }, PacketRange { packet: other, start: 6, end: 13 }],
    );
    feeder.secret(First, 8..14);
    feeder.cleared(First, 16);
    feeder.writer.commit().unwrap();
    let packets =
        StoreReader::open(&*path).unwrap().packets(CaptureId(1), ConnectionId(1), PacketNumber(1), 9).unwrap();
    let stored: Vec<_> = packets
        .iter()
        .map(|packet| (packet.number.0, &packet.data[6..], packet.segment.is_some(), packet.masked))
        .collect();
    let expected: [(u64, &[u8], bool, bool); 3] =
        [(1, b"Cookie: *", false, true), (2, b"", true, false), (3, b"*****\r\n", true, true)];
    assert_eq!(stored, expected);
}

#[test]
fn the_chunks_of_a_pipe_need_no_clearing() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    let mut feeder = PacketFeeder::new(&mut writer);
    let packet = feeder.packet(LinkType::PIPE, b"MTP1\x01\x01\0\0\0\0\0\0{\"token\": 1}\n");
    feeder.segment(1, First, 0, vec![PacketRange { packet, start: 12, end: 25 }]);
    feeder.keep(1);
    feeder.writer.commit().unwrap();
    let packet = StoreReader::open(&*path).unwrap().packet(CaptureId(1), packet).unwrap().unwrap();
    assert_eq!(&packet.data[12..], b"{\"token\": 1}\n");
}

#[test]
fn what_is_held_stays_within_bounds() {
    let folder = std::env::temp_dir();
    let mut packets = super::super::packets::Packets::new(&WriteOptions::default(), &folder).unwrap();
    let data = vec![0; 60_000];
    let mut number = 0;
    for connection in 1..=600 {
        for offset in 0..4 {
            number += 1;
            let number = PacketNumber(number);
            packets.observe(&Packet {
                number,
                time: Time(0),
                link: LinkType::ETHERNET,
                interface: 0,
                original_length: 0,
                data: &data,
            });
            let segment = Segment {
                connection: ConnectionId(connection),
                side: First,
                packet: number,
                offset: offset * 60_000,
                length: 60_000,
                acknowledged: None,
                window: 0,
                flags: Flags(0),
                analysis: Analysis(0),
                origin: [PacketRange { packet: number, start: 0, end: 60_000 }][..].into(),
            };
            packets.segment(segment).unwrap();
            assert!(packets.memory() < 70 << 20);
        }
        // Some are stored and never cleared, some decided late, most never.
        if connection % 7 == 0 {
            packets.keep(ConnectionId(connection));
            while packets.restore(ConnectionId(connection)).unwrap() {}
        }
    }
    for connection in 1..=600 {
        packets.closed(ConnectionId(connection)).unwrap();
    }
    assert!(packets.memory() < 5 << 20, "only recent packets are left");
}

/// Records a session with one record of each kind.
pub(super) fn record_a_session(writer: &mut Writer) {
    writer.add_session(session(1, &[1]));
    let mut feeder = PacketFeeder::new(writer);
    feeder.keep(1);
    feeder.writer.event(Event::Stream(Stream {
        id: StreamId(1),
        connection: ConnectionId(1),
        kind: StreamKind::Tcp(First),
    }));
    for number in 1..=40u64 {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#);
        feeder.sent(1, First, (number - 1) * 100, text.as_bytes());
        feeder.cleared(First, number * 100);
        let mut message = message(1, number, text.as_bytes());
        message.span =
            Span { stream: StreamId(1), start: (number - 1) * 100, end: (number - 1) * 100 + text.len() as u64 };
        let packet = PacketNumber(number);
        message.packets = vec![packet];
        let part = StreamPart {
            start: message.span.start,
            end: message.span.end,
            origin: Origin::Packet { packet, offset: 6 },
        };
        feeder.writer.event(Event::Part(StreamId(1), part));
        feeder.writer.add_message(message);
        let exchange = Exchange { number: ExchangeNumber(number), connection: ConnectionId(1), ..Exchange::default() };
        feeder.writer.event(Event::Exchange(Box::new(exchange)));
    }
    writer.finish(&Summary::default()).unwrap();
}

#[test]
fn a_long_line_of_a_pipe_is_compressed_once() {
    let directory = directory();
    let path = directory.path().join("captures.db");
    let mut writer = writer(&path);
    writer.add_session(session(1, &[1]));
    let mut feeder = PacketFeeder::new(&mut writer);
    feeder.keep(1);
    // One line in the same packet as the start of the next, and one in several packets.
    let lines = [20_000, 100_000].map(|numbers| (0..numbers).map(|number| format!("{number:x}")).collect::<String>());
    let stream = format!("{}\n{}\n", lines[0], lines[1]);
    let (mut at, mut cuts) = (0, [lines[0].len() + 40_000, 130_000, 9].into_iter().cycle());
    let add_line = |feeder: &mut PacketFeeder<'_>, number: u64, start: usize| {
        let line = lines[number as usize - 1].as_bytes();
        let span = Span { stream: StreamId(1), start: start as u64, end: (start + line.len()) as u64 };
        feeder.writer.add_message(Message {
            span,
            direction: Direction::ServerToClient,
            carrier: Carrier::Line,
            ..message(1, number, line)
        });
    };
    while at < stream.len() {
        let end = (at + cuts.next().unwrap()).min(stream.len());
        let (mut data, head) = (Vec::new(), pipe::HEAD as u32);
        pipe::encode(7, &pipe::PipeEvent::Data(pipe::Pipe::Stdout, &stream.as_bytes()[at..end]), &mut data);
        let packet = feeder.packet(LinkType::PIPE, &data);
        feeder.segment(1, Second, at as u64, vec![PacketRange { packet, start: head, end: data.len() as u32 }]);
        if at == 0 {
            add_line(&mut feeder, 1, 0);
        }
        at = end;
    }
    add_line(&mut feeder, 2, lines[0].len() + 1);
    writer.finish(&Summary::default()).unwrap();

    let reader = StoreReader::open(&*path).unwrap();
    for (number, line) in (1..).zip(&lines) {
        let message = reader.message(RowKey::new(CaptureId(1), number)).unwrap().unwrap();
        assert!(*message.raw == *line.as_bytes(), "line {number} is the text of its message");
    }
    let stored = reader.packets(CaptureId(1), ConnectionId(1), PacketNumber(0), 100).unwrap();
    let payloads: Vec<u8> = stored.iter().flat_map(|packet| packet.data[pipe::HEAD..].iter().copied()).collect();
    assert!(payloads == stream.as_bytes(), "and its packets are as they were");
    let db = rusqlite::Connection::open(&path).unwrap();
    let blobs = |query| -> Vec<Vec<u8>> {
        db.prepare(query).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let (texts, chunks) = (blobs("SELECT text FROM message_text"), blobs("SELECT data FROM packet_chunk").concat());
    assert!(memchr::memmem::find(&chunks, &texts[0]).is_some(), "one piece");
    assert!(memchr::memmem::find(&chunks, &texts[1][..10_000]).is_some(), "the first of several");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Packets of several connections come back unchanged, whenever their connections are stored
    /// and committed. This holds for all packets of a capture, those of a connection from any
    /// number on, and each alone.
    #[test]
    fn packets_in_are_packets_out(
        packets in prop::collection::vec((1u32..5, chunk::tests::any_packet(), 0u8..12, 1u64..4), 1..60),
        from: prop::sample::Index, limit in 1usize..9, undecided in prop::sample::select(vec![0, 300, 4 << 20]),
    ) {
        let directory = directory();
        let path = directory.path().join("captures.db");
        let limits = Limits { undecided, ..Limits::default() };
        let options = WriteOptions { keep_secrets: true, limits, ..WriteOptions::default() };
        let mut writer = Writer::create(&*path, &info(), options).unwrap();
        writer.add_session(session(1, &[2, 4]));
        let mut expected_packets: BTreeMap<u64, StoredPacket> = BTreeMap::new();
        let mut number = 0;
        for (connection, mut packet, what, step) in packets {
            number += step;
            packet.number = PacketNumber(number);
            packet.connection = ConnectionId(connection);
            packet.masked = false;
            writer.packet(&packet.packet());
            if let Some(segment) = &mut packet.segment {
                segment.connection = packet.connection;
                segment.packet = packet.number;
                // Only its own bytes: another test covers fragments.
                segment.origin.iter_mut().for_each(|range| range.packet = packet.number);
                writer.event(Event::Segment(segment.clone()));
                expected_packets.insert(number, packet);
            }
            match what {
                0 => writer.event(Event::Claimed(ConnectionId(connection))),
                1 => writer.commit().unwrap(),
                _ => {}
            }
        }
        (1..4).for_each(|connection| writer.event(Event::Claimed(ConnectionId(connection))));
        writer.finish(&Summary::default()).unwrap();
        // Connection 4 is stored only if an event demanded it.
        let mut stored = StoredPackets::open(&*path, Selection::Capture(CaptureId(1))).unwrap();
        let mut read = Vec::new();
        while let Some(Item::Packet(packet)) = stored.next().unwrap() {
            read.push((packet.number.0, packet.data.to_vec(), packet.time, packet.link, packet.interface, packet.original_length));
        }
        let (done, all) = stored.progress();
        prop_assert_eq!(Some(done), all);
        let fourth = read.iter().any(|packet| expected_packets[&packet.0].connection.0 == 4);
        expected_packets.retain(|_, packet| packet.connection.0 != 4 || fourth);
        let expected: Vec<_> = expected_packets.values().map(|packet| {
            (packet.number.0, packet.data.clone(), packet.time, packet.link, packet.interface, packet.original_length)
        }).collect();
        prop_assert_eq!(&read, &expected);

        let mut stored = StoredPackets::open(&*path, Selection::Session(SessionNumber(1))).unwrap();
        let mut of_session = Vec::new();
        while let Some(Item::Packet(packet)) = stored.next().unwrap() {
            of_session.push(packet.number.0);
        }
        let even = |packet: &&StoredPacket| packet.connection.0.is_multiple_of(2);
        prop_assert_eq!(of_session, expected_packets.values().filter(even).map(|packet| packet.number.0).collect::<Vec<_>>());

        let reader = StoreReader::open(&*path).unwrap();
        for at in (0..=number + 1).chain((0..=number).rev()) {
            let packet = reader.packet(CaptureId(1), PacketNumber(at)).unwrap();
            prop_assert_eq!(packet.as_ref(), expected_packets.get(&at));
        }
        let from = PacketNumber(from.index(number as usize + 2) as u64);
        for connection in (1..5).map(ConnectionId) {
            let page = reader.packets(CaptureId(1), connection, from, limit).unwrap();
            let own = expected_packets.values().filter(|packet| packet.connection == connection && packet.number >= from);
            prop_assert_eq!(page, own.take(limit).cloned().collect::<Vec<_>>());
        }
    }
}
