//! How the decoders of a connection handle missing bytes, limits, codings and tunnels together.

use super::*;
use crate::capture::{Span, StreamId};
use crate::decode::{Anomaly, Ending, Piece};

const REQUEST: &str = "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A stack with connections on which a server answers requests.
struct Servers {
    stacks: Stacks,
    texts: Vec<String>,
    anomalies: Vec<Anomaly>,
}

impl Servers {
    fn new(limits: Limits) -> Servers {
        Servers::with(limits, StackOptions::default())
    }

    fn with(limits: Limits, options: StackOptions) -> Servers {
        Servers { stacks: Stacks::new(limits, options), texts: Vec::new(), anomalies: Vec::new() }
    }

    fn open(&mut self, connection: u32) {
        let address = |port| std::net::SocketAddr::from(([192, 0, 2, 1], port));
        let endpoints = [address(50_000), address(80)];
        let facts = Facts { endpoints, opened: Time(0), last: Time(0), handshake: [None; 3], ends: Default::default() };
        self.stacks.opened(ConnectionId(connection), &facts);
    }

    /// Opens a connection and sends a request.
    fn ask(&mut self, connection: u32) {
        self.open(connection);
        self.piece(connection, Side::First, Piece::Data(REQUEST.as_bytes()));
    }

    fn answer(&mut self, connection: u32, bytes: impl AsRef<[u8]>) {
        self.piece(connection, Side::Second, Piece::Data(bytes.as_ref()));
    }

    fn piece(&mut self, connection: u32, side: Side, piece: Piece<'_>) {
        let acknowledged = if side == Side::First { 0 } else { REQUEST.len() as u64 };
        let Servers { stacks, texts, anomalies } = self;
        let (connection, offset, time) = (ConnectionId(connection), 0, Time(0));
        let delivery = Delivery { connection, side, offset, piece, origin: &[], time, acknowledged };
        stacks.delivered(&delivery, &mut |unit| match unit {
            Unit::Text(text) if text.direction == Direction::ServerToClient => {
                texts.push(String::from_utf8_lossy(&text.raw).into_owned());
            }
            Unit::Anomaly { anomaly, .. } => anomalies.push(anomaly),
            _ => {}
        });
    }

    fn close(&mut self, connection: u32) {
        self.stacks.closed(ConnectionId(connection), None, &mut |_| ());
    }

    /// Number of parts that all streams retain.
    fn parts(&self) -> usize {
        let whole = |stream| Span { stream: StreamId(stream), start: 0, end: u64::MAX };
        (1..100).map(|stream| self.stacks.provenance().parents(whole(stream)).count()).sum()
    }
}

/// The texts in a response that consists of these pieces.
fn texts(response: &[Piece<'_>]) -> Vec<String> {
    let mut servers = Servers::new(Limits::default());
    servers.ask(1);
    response.iter().for_each(|piece| servers.piece(1, Side::Second, *piece));
    servers.close(1);
    servers.texts
}

/// The protocol that is recognised if a side begins with these pieces, and the side of the client.
fn recognised<'p>(side: Side, pieces: impl Iterator<Item = &'p [u8]>) -> (&'static str, Option<Side>) {
    let mut servers = Servers::new(Limits::default());
    servers.open(1);
    pieces.for_each(|piece| servers.piece(1, side, Piece::Data(piece)));
    let (_, connection_info, _) = servers.stacks.open().next().expect("it is open");
    (connection_info.protocol, connection_info.client)
}

#[test]
fn recognition_does_not_depend_on_how_bytes_are_cut() {
    let hello = |kind: u8| [&[22, 3, 1, 0, 44, kind, 0, 0, 40, 3, 3][..], &[7; 38]].concat();
    let [first, second] = [Some(Side::First), Some(Side::Second)];
    for (bytes, protocol, clients) in [
        (REQUEST.as_bytes(), "http/1.1", [first, second]),
        (HEAD.as_bytes(), "http/1.1", [second, first]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", "http/2", [first, second]),
        (&hello(1), "tls", [first, second]),
        (&hello(2), "tls", [second, first]),
    ] {
        for (side, client) in [Side::First, Side::Second].into_iter().zip(clients) {
            for cut in 1..bytes.len() {
                let (begin, rest) = bytes.split_at(cut);
                assert_eq!(recognised(side, [begin, rest].into_iter()), (protocol, client), "{protocol} cut at {cut}");
            }
            assert_eq!(recognised(side, bytes.chunks(1)), (protocol, client), "{protocol} byte by byte");
        }
    }
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

#[test]
fn a_gap_over_chunk_borders_joins_no_event_to_the_next() {
    let events = [chunk("data: {\"id\":1}\n\n"), chunk("data: {\"id\":2}\n\n"), chunk("data: {\"id\":3}\n\n")];
    let stream = [HEAD, &events[0], &events[1], &events[2]].concat();
    let middle = HEAD.len() + events[0].len();
    assert_eq!(texts(&[Piece::Data(stream.as_bytes())]), [r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#]);
    // The gap begins in the first event. It ends in the size line of the second chunk, in its
    // event, or after it.
    for behind in [middle + 1, middle + 3, middle + 9, middle + events[1].len()] {
        let (seen, rest) = (&stream.as_bytes()[..middle - 8], &stream.as_bytes()[behind..]);
        let gap = Piece::Gap((behind + 8 - middle) as u64);
        let texts = texts(&[Piece::Data(seen), gap, Piece::Data(rest), Piece::End(Ending::Finished)]);
        for text in &texts {
            assert!([r#"{"id":2}"#, r#"{"id":3}"#].contains(&text.as_str()), "{text} up to {behind}");
        }
    }
}

#[test]
fn unfinished_events_are_bounded_over_all_connections() {
    let limits = Limits { messages_total: 10_000, ..Limits::default() };
    let mut servers = Servers::new(limits);
    for connection in 1..=20 {
        servers.ask(connection);
        servers.answer(connection, HEAD);
        servers.answer(connection, chunk(&format!("data: {}", "x".repeat(1_000))));
    }
    let limit = |anomaly: &&Anomaly| matches!(anomaly, Anomaly::LimitReached { limit: "messages_total", .. });
    assert_eq!(
        servers.anomalies.iter().filter(limit).count(),
        11,
        "nine lines and their names are less than the limit"
    );
    // Ended connections, and messages that were discarded, leave room for new ones.
    (1..=20).for_each(|connection| servers.close(connection));
    servers.ask(21);
    servers.answer(21, [HEAD, &chunk("data: {}\n\n")].concat());
    assert_eq!(servers.texts, ["{}"]);
    servers.close(21);
    assert_eq!(servers.stacks.provenance().open_streams(), 0);
}

#[test]
fn a_search_for_secrets_does_not_count_as_collected() {
    let limits = Limits { messages_total: 10_000, ..Limits::default() };
    let anomalies = [false, true].map(|store| {
        let mut servers = Servers::with(limits, StackOptions { store, ..StackOptions::default() });
        for connection in 1..=20 {
            servers.ask(connection);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2000\r\n\r\n";
            servers.answer(connection, format!("{head}{{{}", "x".repeat(999)));
        }
        (1..=20).for_each(|connection| servers.close(connection));
        servers.anomalies
    });
    let limit = |anomaly: &&Anomaly| matches!(anomaly, Anomaly::LimitReached { limit: "messages_total", .. });
    assert_eq!(anomalies[0].iter().filter(limit).count(), 20, "of ten connections the request and the answer");
    assert_eq!(anomalies[0], anomalies[1]);
}

#[test]
fn a_coded_body_that_is_only_counted_needs_no_memory() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut encoder, &[7; 100_000]).expect("memory takes it");
    let body = encoder.finish().expect("memory takes it");
    let mut servers = Servers::new(Limits::default());
    servers.ask(1);
    servers.answer(
        1,
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ),
    );
    for piece in body.chunks(1_000) {
        servers.answer(1, piece);
        assert!(servers.parts() < 10, "{} parts", servers.parts());
    }
    servers.close(1);
    assert_eq!((servers.parts(), servers.anomalies.len()), (0, 0));
}

#[test]
fn a_hole_in_coded_events_leaves_no_stream_open() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut encoder, b"data: {\"id\":1}\n\ndata: {\"id\":2}\n\n").expect("memory takes it");
    let body = encoder.finish().expect("memory takes it");
    let mut servers = Servers::new(Limits::default());
    servers.ask(1);
    servers.answer(1, format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len()));
    servers.answer(1, &body[..35]);
    servers.piece(1, Side::Second, Piece::Gap(5));
    servers.answer(1, &body[40..]);
    assert_eq!(servers.texts, [r#"{"id":1}"#]);
    servers.close(1);
    assert_eq!(servers.stacks.provenance().open_streams(), 0);
}

#[test]
fn codings_in_several_fields_are_one_list() {
    let packed = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).expect("memory takes it");
        encoder.finish().expect("memory takes it")
    };
    let twice = packed(&packed(b"{\"id\":1}"));
    for codings in [
        "Content-Encoding: gzip\r\nContent-Encoding: gzip",
        "Content-Encoding: gzip, x-gzip",
        "Content-Encoding: gzip\r\nTransfer-Encoding: gzip, chunked",
        "Transfer-Encoding: gzip\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked",
    ] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{codings}\r\n");
        let (framing, end) = match codings.contains("chunked") {
            true => (format!("\r\n{:x}\r\n", twice.len()), "\r\n0\r\n\r\n"),
            false => (format!("Content-Length: {}\r\n\r\n", twice.len()), ""),
        };
        let response = [head.as_bytes(), framing.as_bytes(), &twice, end.as_bytes()].concat();
        assert_eq!(texts(&[Piece::Data(&response)]), [r#"{"id":1}"#], "{codings}");
    }
}

#[test]
fn the_content_of_a_tunnel_is_decoded_as_a_connection() {
    const CONNECT: &str = "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n";
    let answer = [HEAD, &chunk("data: {\"id\":1}\n\n")].concat();
    for patient in [true, false] {
        let mut servers = Servers::new(Limits::default());
        servers.ask(1);
        servers.answer(1, "HTTP/1.1 204 No Content\r\n\r\n");
        let asked = [CONNECT, if patient { "" } else { REQUEST }].concat();
        servers.piece(1, Side::First, Piece::Data(asked.as_bytes()));
        servers.answer(1, "HTTP/1.1 200 Connection established\r\n\r\n");
        if patient {
            servers.piece(1, Side::First, Piece::Data(REQUEST.as_bytes()));
        }
        servers.answer(1, &answer);
        assert_eq!(servers.texts, [r#"{"id":1}"#]);
        assert_eq!(servers.anomalies, []);
        servers.close(1);
        assert_eq!(servers.stacks.provenance().open_streams(), 0);
    }
}

#[test]
fn nested_tunnels_are_bounded() {
    let mut servers = Servers::new(Limits::default());
    servers.ask(1);
    servers.piece(1, Side::First, Piece::Data("CONNECT h:80 HTTP/1.1\r\n\r\n".repeat(2_000).as_bytes()));
    servers.answer(1, "HTTP/1.1 200 Fine\r\n\r\n".repeat(2_000));
    servers.close(1);
    assert_eq!(servers.stacks.provenance().open_streams(), 0);
}
