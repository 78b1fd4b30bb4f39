//! Connections whose ClientHello was not captured.

use super::*;

/// A key log in which the session of the random 7 is one of many.
fn log(sessions: u8) -> KeyLog {
    let mut keys = KeyLog::default();
    for random in 0..sessions {
        for (label, secret) in [
            ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 1),
            ("SERVER_HANDSHAKE_TRAFFIC_SECRET", 4),
            ("CLIENT_TRAFFIC_SECRET_0", 2),
            ("SERVER_TRAFFIC_SECRET_0", 3),
        ] {
            let secret = if random == 7 { secret } else { 100 + random };
            keys.add(format!("{label} {} {}", hex(random), hex(secret)).as_bytes());
        }
    }
    keys
}

fn hex(byte: u8) -> String {
    format!("{byte:02x}").repeat(32)
}

/// The data of both sides, each line after an arrow. Once client and server turn out to be swapped,
/// the pieces are pushed with swapped directions.
fn event_lines(keys: &KeyLog, pieces: &[(Direction, Piece<'_>)]) -> (Vec<String>, Tls) {
    let mut tls = Tls::new(Limits::default());
    let mut event_lines: Vec<String> = Vec::new();
    for (direction, piece) in pieces {
        let reversed = event_lines.iter().any(|line| line == "reversed");
        let direction = if reversed { direction.reversed() } else { *direction };
        tls.push(direction, *piece, Arrival::default(), keys, &mut |event| match event {
            TlsEvent::Data { direction, bytes, .. } => {
                let arrow = if direction == ClientToServer { '>' } else { '<' };
                event_lines.push(format!("{arrow}{}", String::from_utf8_lossy(bytes)));
            }
            TlsEvent::Reversed => event_lines.push("reversed".to_owned()),
            other => event_lines.push(format!("{other:?}")),
        });
    }
    (event_lines, tls)
}

#[test]
fn in_the_middle_of_a_connection_the_session_is_found_by_trying() {
    let client: Vec<_> = (3_000..3_003).map(|number| sealed_under(2, number, 23, b"question")).collect();
    let server: Vec<_> = (0..3).map(|number| sealed_under(3, 10_000 + number, 23, b"answer")).collect();
    let straight = [
        (ClientToServer, Piece::Data(&client[0][..])),
        (ServerToClient, Piece::Data(&server[0])),
        (ServerToClient, Piece::Data(&server[1])),
        (ClientToServer, Piece::Data(&client[1])),
        (ClientToServer, Piece::Gap(client[2].len() as u64)),
        (ServerToClient, Piece::Data(&server[2])),
    ];
    let (lines, tls) = event_lines(&log(8), &straight);
    assert_eq!(lines, [">question", "<answer", "<answer", ">question", "<answer"]);
    assert_eq!(tls.secrecy(), Secrecy::Opened);
    assert_eq!(tls.agreed().version.as_deref(), Some("TLS 1.3"));
    assert_eq!(tls.agreed().cipher_suite.as_deref(), Some("TLS_AES_128_GCM_SHA256"));

    // Nothing showed which side is the client. It was taken for the server until a record opened.
    let crossed = straight.map(|(direction, piece)| (direction.reversed(), piece));
    let (lines, tls) = event_lines(&log(8), &crossed);
    assert_eq!(lines, ["reversed", ">question", "<answer", "<answer", ">question", "<answer"]);
    let words = "Application Data: 2 records (50 bytes) from the client, 3 records (69 bytes) from the server";
    assert_eq!(tls.record_groups().iter().map(|step| step.detail.as_str()).collect::<Vec<_>>(), [words]);
}

#[test]
fn in_the_middle_of_a_handshake_too() {
    let flight = [
        sealed_under(4, 1, 22, &message(11, &[0; 300])),
        sealed_under(4, 2, 22, &message(15, &[0; 100])),
        sealed_under(4, 3, 22, &message(20, &[0; 32])),
    ];
    let finished = sealed_under(1, 0, 22, &message(20, &[0; 32]));
    let (question, answer) = (sealed_under(2, 0, 23, b"question"), sealed_under(3, 0, 23, b"answer"));
    let (lines, tls) = event_lines(
        &log(40),
        &[
            (ServerToClient, Piece::Data(&flight.concat())),
            (ClientToServer, Piece::Data(&finished)),
            (ClientToServer, Piece::Data(&question)),
            (ServerToClient, Piece::Data(&answer)),
        ],
    );
    assert_eq!(lines, [">question", "<answer"]);
    assert_eq!(tls.record_groups()[0].kind, RecordGroupKind::Handshake);
}

/// Only the ServerHello was lost: the session is known, and all suites are tried.
#[test]
fn a_lost_server_hello_costs_nothing() {
    let hello = record(22, &client_hello(&[3, 4]));
    let (question, answer) = (sealed_under(2, 0, 23, b"question"), sealed_under(3, 2, 23, b"answer"));
    let (lines, tls) = event_lines(
        &log(8),
        &[
            (ClientToServer, Piece::Data(&hello)),
            (ServerToClient, Piece::Gap(500)),
            (ClientToServer, Piece::Data(&sealed_under(1, 0, 22, &message(20, &[0; 32])))),
            (ClientToServer, Piece::Data(&question)),
            (ServerToClient, Piece::Data(&answer)),
        ],
    );
    let data: Vec<_> = lines.iter().filter(|line| line.starts_with(['<', '>'])).collect();
    assert_eq!(data, [">question", "<answer"], "{lines:?}");
    assert_eq!(tls.agreed().cipher_suite.as_deref(), Some("TLS_AES_128_GCM_SHA256"));
}

/// However many records and sessions there are, the search stops when its budget is used up.
#[test]
fn a_search_in_vain_ends() {
    let records: Vec<_> = (0..200).map(|number| sealed_under(99, number, 23, b"foreign")).collect();
    let pieces: Vec<_> = records.iter().map(|record| (ClientToServer, Piece::Data(&record[..]))).collect();
    let mut tls = Tls::new(Limits::default());
    *tls.search_left() = 1 << 20;
    let keys = log(90);
    for (direction, piece) in pieces {
        tls.push(direction, piece, Arrival::default(), &keys, &mut |event| panic!("{event:?}"));
    }
    assert!(*tls.search_left() > 0, "a part of what is left is spent each time");
    assert_eq!(tls.secrecy(), Secrecy::Late);
}
