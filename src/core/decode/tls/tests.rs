//! Conversations between a client and a server, and the record groups that the layer view shows.

mod missing_hello;

use proptest::prelude::*;

use super::*;
use crate::decode::Direction::{ClientToServer, ServerToClient};

const CHANGE_CIPHER_SPEC: &[u8] = &[20, 3, 3, 0, 1, 1];

/// A block after its length in `N` bytes.
fn block<const N: usize>(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes()[4 - N..], content].concat()
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &block::<2>(content)].concat()
}

/// An encrypted record. Only its length matters.
fn sealed(length: usize) -> Vec<u8> {
    record(23, &vec![0xee; length])
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &block::<3>(body)].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &block::<2>(content)].concat()
}

fn client_hello(versions: &[u8]) -> Vec<u8> {
    let name = block::<2>(&[&[0][..], &block::<2>(b"MCP.example.com")].concat());
    let alpn = block::<2>(b"\x02h2\x08http/1.1");
    let extensions =
        [extension(0, &name), extension(16, &alpn), extension(43, &block::<1>(versions)), extension(21, &[0; 40])];
    let fields = [&[3, 3][..], &[7; 32], &block::<1>(&[9; 32]), &block::<2>(&[0x13, 2]), &block::<1>(&[0])];
    message(1, &[fields.concat(), block::<2>(&extensions.concat())].concat())
}

fn server_hello(random: &[u8; 32], suite: u16, extensions: &[u8]) -> Vec<u8> {
    let fields = [&[3, 3][..], random, &block::<1>(&[9; 32]), &suite.to_be_bytes(), &[0]];
    message(2, &[fields.concat(), block::<2>(extensions)].concat())
}

fn version_1_3() -> Vec<u8> {
    extension(43, &[3, 4])
}

/// A conversation. Each call sends one packet: a response takes 1 µs, packets of one
/// side come faster.
struct Talk {
    tls: Tls,
    packet: u64,
    clock: i64,
    last: Option<Direction>,
}

impl Talk {
    fn new() -> Talk {
        Talk { tls: Tls::new(Limits::default()), packet: 0, clock: 0, last: None }
    }

    fn send(&mut self, direction: Direction, bytes: &[u8]) -> &mut Talk {
        self.packet += 1;
        self.clock += if self.last.replace(direction) == Some(direction) { 10 } else { 1_000 };
        let range = PacketRange { packet: PacketNumber(self.packet), start: 54, end: 54 + bytes.len() as u32 };
        let arrival = Arrival { packets: &[range], time: Time(self.clock), acknowledged: 0 };
        self.piece(direction, Piece::Data(bytes), arrival);
        self
    }

    fn piece(&mut self, direction: Direction, piece: Piece<'_>, arrival: Arrival<'_>) {
        self.tls.push(direction, piece, arrival, &KeyLog::default(), &mut |_| ());
    }

    fn client(&mut self, records: &[&[u8]]) -> &mut Talk {
        self.send(ClientToServer, &records.concat())
    }

    fn server(&mut self, records: &[&[u8]]) -> &mut Talk {
        self.send(ServerToClient, &records.concat())
    }

    /// Whether all bytes so far could be TLS records.
    fn is_tls(&self) -> bool {
        self.tls.assemblies.iter().all(|assembly| !assembly.records.foreign)
    }

    fn end(&mut self) -> String {
        for direction in [ClientToServer, ServerToClient] {
            self.piece(direction, Piece::End(Ending::Finished), Arrival::default());
        }
        self.steps()
    }

    fn steps(&self) -> String {
        let mut text = String::new();
        for step in self.tls.record_groups() {
            let packets: Vec<String> = step.packets.iter().map(|packet| packet.to_string()).collect();
            text += &format!("{:?} [{}] {}\n", step.kind, packets.join(" "), step.detail);
        }
        text
    }
}

#[test]
fn tls_1_3_record_types_are_inferred_without_keys() {
    let mut talk = Talk::new();
    talk.client(&[&record(22, &client_hello(&[0x7a, 0x7a, 3, 4, 3, 3]))])
        .server(&[
            &record(22, &server_hello(&[1; 32], 0x1302, &version_1_3())),
            CHANGE_CIPHER_SPEC,
            &sealed(38),
            &sealed(825),
            &sealed(96),
            &sealed(69),
        ])
        .client(&[CHANGE_CIPHER_SPEC, &sealed(69)])
        .client(&[&sealed(220)])
        .client(&[&sealed(212)])
        .server(&[&sealed(266)])
        .server(&[&sealed(266)])
        .server(&[&sealed(387)])
        .client(&[&sealed(19)])
        .client(&[&sealed(150), &sealed(19)])
        .server(&[&sealed(19)]);
    assert_eq!(talk.tls.server_name(), Some("mcp.example.com"));
    assert_eq!(
        talk.end(),
        "\
Handshake [1 2 3] ClientHello, ServerHello, ChangeCipherSpec, encrypted messages, Finished; TLS 1.3, \
TLS_AES_256_GCM_SHA384, server name mcp.example.com, ALPN offered h2 http/1.1
ApplicationData [4 5 8 9 10] Application Data: 4 records (601 bytes) from the client, 1 record (387 bytes) from the server
SessionTickets [6 7] NewSessionTicket (encrypted; recognised by equal lengths right after the handshake)
Alert [10] encrypted alert (recognised by its length and position) from the client
Alert [11] encrypted alert (recognised by its length and position) from the server
"
    );
}

#[test]
fn a_retry_early_data_and_a_client_certificate() {
    let retry = [
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2,
        0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
    ];
    let hello = record(22, &client_hello(&[3, 4]));
    let mut talk = Talk::new();
    talk.client(&[&hello])
        .server(&[&record(22, &server_hello(&retry, 0x1301, &version_1_3())), CHANGE_CIPHER_SPEC])
        .client(&[CHANGE_CIPHER_SPEC, &hello])
        .server(&[&record(22, &server_hello(&[1; 32], 0x1301, &version_1_3())), &sealed(1200)])
        .client(&[&sealed(800), &sealed(281), &sealed(53)])
        .client(&[&sealed(100)]);
    assert_eq!(
        talk.end(),
        "\
Handshake [1 2 3 4 5] ClientHello, HelloRetryRequest, ChangeCipherSpec, ServerHello, encrypted messages, Finished; \
TLS 1.3, TLS_AES_128_GCM_SHA256, server name mcp.example.com, ALPN offered h2 http/1.1
ApplicationData [6] Application Data: 1 record (100 bytes) from the client, 0 records (0 bytes) from the server
"
    );

    let mut talk = Talk::new();
    talk.client(&[&hello, CHANGE_CIPHER_SPEC, &sealed(300)])
        .server(&[&record(22, &server_hello(&[1; 32], 0x1301, &version_1_3())), &sealed(100)])
        .client(&[&sealed(200)])
        .client(&[&sealed(21), &sealed(53)])
        .server(&[&sealed(400)]);
    let steps = talk.end();
    let packets: Vec<&str> = steps.lines().map(|line| line.split_inclusive(']').next().unwrap()).collect();
    assert_eq!(packets, ["Handshake [1 2 4]", "ApplicationData [1 3 5]"]);
}

#[test]
fn tls_1_2_names_its_messages() {
    let alpn = extension(16, &block::<2>(b"\x08http/1.1"));
    let server =
        [server_hello(&[1; 32], 0xc030, &alpn), message(11, &[0; 900]), message(12, &[0; 300]), message(14, &[])];
    let encrypted = record(22, &[0xee; 40]);
    let mut talk = Talk::new();
    talk.client(&[&record(22, &client_hello(&[3, 3]))])
        .server(&[&record(22, &server.concat())])
        .client(&[&record(22, &message(16, &[0; 33])), CHANGE_CIPHER_SPEC, &encrypted])
        // False start (RFC 7918): the client does not wait for the server's Finished.
        .client(&[&sealed(200)])
        .server(&[&record(22, &message(4, &[0; 180])), CHANGE_CIPHER_SPEC, &encrypted])
        .server(&[&sealed(300)])
        .client(&[&encrypted])
        .server(&[&encrypted, CHANGE_CIPHER_SPEC])
        .client(&[&sealed(60)])
        .client(&[&record(21, &[0xee; 26])]);
    assert_eq!(
        talk.end(),
        "\
Handshake [1 2 3 5] ClientHello, ServerHello, Certificate, ServerKeyExchange, ServerHelloDone, ClientKeyExchange, \
ChangeCipherSpec, Finished, NewSessionTicket; TLS 1.2, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, \
server name mcp.example.com, ALPN http/1.1
ApplicationData [4 6] Application Data: 1 record (200 bytes) from the client, 1 record (300 bytes) from the server
Handshake [7 8] encrypted messages, ChangeCipherSpec; TLS 1.2, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, \
server name mcp.example.com, ALPN http/1.1
ApplicationData [9] Application Data: 1 record (60 bytes) from the client, 0 records (0 bytes) from the server
Alert [10] encrypted alert from the client
"
    );
}

#[test]
fn a_refusal_in_the_clear() {
    let mut talk = Talk::new();
    talk.client(&[&record(22, &client_hello(&[3, 4]))]).server(&[&record(21, &[2, 40])]);
    assert_eq!(
        talk.end(),
        "\
Handshake [1] ClientHello; offers up to TLS 1.3, server name mcp.example.com, ALPN offered h2 http/1.1
Alert [2] fatal handshake_failure from the server
"
    );
}

#[test]
fn a_capture_that_begins_late_or_has_one_side() {
    let mut talk = Talk::new();
    talk.client(&[&sealed(34)]).server(&[&sealed(59)]).server(&[&sealed(19)]);
    let late = "ApplicationData [1 2 3] Application Data: 1 record (34 bytes) from the client, \
                2 records (78 bytes) from the server\n";
    assert_eq!(talk.end(), late);

    let mut talk = Talk::new();
    talk.server(&[&record(22, &server_hello(&[1; 32], 0x1301, &version_1_3()))]);
    for _ in 0..10 {
        talk.server(&[&sealed(100)]);
    }
    let steps = talk.end();
    assert!(steps.contains("ApplicationData [10 11]"), "the handshake of a server is short: {steps}");
}

#[test]
fn garbage_is_no_tls() {
    assert_eq!(sniff(b""), None);
    assert_eq!(sniff(b"\x16\x03"), None);
    assert_eq!(sniff(b"\x16\x03\x01\x02\0\x01"), Some(true));
    for (bytes, what) in [
        (&b"GET /"[..], "HTTP"),
        (b"\x16\x03\x09", "a version that does not exist"),
        (b"\x16\x03\x01\0\0", "an empty handshake record"),
        (b"\x16\x03\x01\x50", "a record too long"),
        (b"\x18\x03\x03\0\x03", "a heartbeat before anything else"),
    ] {
        assert_eq!(sniff(bytes), Some(false), "{what}");
    }
    let mut talk = Talk::new();
    talk.client(&[&record(22, &client_hello(&[3, 4])), b"garbage"]).client(&[&sealed(9)]);
    assert!(!talk.is_tls());
    assert!(talk.end().starts_with("Handshake [1] ClientHello"), "what was read before stays");
}

#[test]
fn after_a_gap_the_next_record_is_found() {
    let hello = record(22, &client_hello(&[3, 4]));
    for (missing, behind) in [
        (50, hello[100 + 50..].to_vec()),
        (hello.len() as u64 - 100, Vec::new()),
        (hello.len() as u64 - 100 + 30, vec![0xee; 77]),
    ] {
        let mut talk = Talk::new();
        talk.client(&[&hello[..100]]);
        talk.piece(ClientToServer, Piece::Gap(missing), Arrival::default());
        talk.client(&[&behind, &sealed(64)]).client(&[&sealed(32)]);
        let steps = talk.end();
        assert!(talk.is_tls());
        assert!(steps.starts_with("Handshake [1"), "{steps}");
        assert!(steps.contains("ApplicationData [2 3] Application Data: 2 records (96 bytes)"), "{steps}");
    }
}

#[test]
fn packets_are_listed_up_to_the_limit() {
    let mut talk = Talk::new();
    talk.tls = Tls::new(Limits { packets_listed: 3, ..Limits::default() });
    for _ in 0..9 {
        talk.client(&[&sealed(64)]);
    }
    let all = "ApplicationData [1 2 3] Application Data: 9 records (576 bytes) from the client, \
               0 records (0 bytes) from the server\n";
    assert_eq!(talk.end(), all);
}

#[test]
fn a_message_over_several_records_and_one_too_long() {
    let hello = client_hello(&[3, 4]);
    let long = message(11, &vec![0; 70_000]);
    let both = [&long[..], &hello].concat();
    let mut talk = Talk::new();
    for part in both.chunks(1 << 14) {
        talk.client(&[&record(22, part)]);
    }
    assert!(talk.steps().starts_with("Handshake [1 2 3 4 5] ClientHello"), "{}", talk.steps());
    assert!(talk.tls.held() < 1 << 17);
}

/// The events of a client whose records arrive as these pieces. Its secrets are 1 (handshake) and
/// 2 (application data).
fn carried(pieces: &[Piece<'_>]) -> (Vec<String>, Secrecy) {
    let mut keys = KeyLog::default();
    for (label, secret) in
        [("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 1), ("CLIENT_TRAFFIC_SECRET_0", 2), ("SERVER_TRAFFIC_SECRET_0", 3)]
    {
        let hex = |byte: u8| format!("{byte:02x}").repeat(32);
        keys.add(format!("{label} {} {}", hex(7), hex(secret)).as_bytes());
    }
    let mut tls = Tls::new(Limits::default());
    let mut events = Vec::new();
    let hello = record(22, &client_hello(&[3, 4]));
    let answer = record(22, &server_hello(&[1; 32], 0x1301, &version_1_3()));
    let opening = [(ClientToServer, Piece::Data(&hello)), (ServerToClient, Piece::Data(&answer))];
    let pieces = opening.into_iter().chain(pieces.iter().map(|piece| (ClientToServer, *piece)));
    for (direction, piece) in pieces {
        tls.push(direction, piece, Arrival::default(), &keys, &mut |event| match event {
            TlsEvent::Data { bytes, .. } => events.push(String::from_utf8_lossy(bytes).into_owned()),
            TlsEvent::Lost { length, .. } => events.push(format!("{length} lost")),
            TlsEvent::Anomaly { anomaly, .. } => events.push(format!("{anomaly:?}")),
            TlsEvent::End { ending, .. } => events.push(format!("{ending:?}")),
            TlsEvent::Reversed => events.push("reversed".to_owned()),
        });
    }
    (events, tls.secrecy())
}

#[test]
fn behind_a_loss_records_are_found_by_their_number() {
    let finished = sealed_under(1, 0, 22, &message(20, &[0; 32]));
    let data: Vec<Vec<u8>> = (0..20).map(|number| sealed_under(2, number, 23, &[b'a' + number as u8; 10])).collect();
    let (events, secrecy) = carried(&[
        Piece::Data(&finished),
        Piece::Data(&data[0]),
        // Three whole records; then the end of one and the beginning of another.
        Piece::Gap(data[1..4].concat().len() as u64),
        Piece::Data(&data[4]),
        Piece::Data(&data[5][..20]),
        Piece::Gap(10),
        Piece::Data(&data[5][30..]),
        Piece::Data(&data[6]),
        Piece::Data(&data[7][..20]),
        Piece::Gap((data[7].len() - 20 + 8) as u64),
        Piece::Data(&data[8][8..]),
        Piece::Data(&data[9]),
        Piece::End(Ending::Finished),
    ]);
    let lost = |at: usize, records: usize| {
        let offset = record(22, &client_hello(&[3, 4])).len() + finished.len() + at * data[0].len();
        let length = records * data[0].len();
        format!(
            "{:?}",
            Anomaly::TlsRecordsLost { offset: offset as u64, length: length as u64, records: records as u64 }
        )
    };
    let text = |number: u8| char::from(b'a' + number).to_string().repeat(10);
    let wanted = [
        text(0),
        lost(1, 3),
        "30 lost".into(),
        text(4),
        lost(5, 1),
        "10 lost".into(),
        text(6),
        lost(7, 2),
        "20 lost".into(),
        text(9),
    ];
    assert_eq!(events, [&wanted[..], &["Finished".to_owned()]].concat());
    assert_eq!(secrecy, Secrecy::Opened);
}

#[test]
fn the_end_of_the_handshake_may_be_lost_too() {
    let data = sealed_under(2, 2, 23, b"hello");
    let (events, _) = carried(&[Piece::Gap(300), Piece::Data(&data)]);
    assert_eq!(events.last().map(String::as_str), Some("hello"));
}

#[test]
fn secrets_that_do_not_fit_are_reported_once() {
    let data: Vec<u8> = (0..30).flat_map(|number| sealed_under(9, number, 23, b"hello")).collect();
    let (events, secrecy) = carried(&[Piece::Data(&data)]);
    assert_eq!((events.len(), secrecy), (1, Secrecy::WrongSecrets), "{events:?}");
    assert!(events[0].starts_with("TlsNotOpened"), "{events:?}");
}

/// A conversation in the format of the fuzz target, with gaps at different places.
fn seeds() -> Vec<Vec<u8>> {
    let hello = record(22, &client_hello(&[3, 4]));
    let answer = [&record(22, &server_hello(&[1; 32], 0x1301, &version_1_3()))[..], CHANGE_CIPHER_SPEC].concat();
    let sealed = [sealed(53), sealed(90), sealed(90), sealed(19)].concat();
    let events = [(0, &hello), (1, &answer), (0, &sealed), (1, &sealed), (0, &hello)];
    let mut seed = vec![1, 0];
    for (side, bytes) in events {
        for part in bytes.chunks(127) {
            seed.push((part.len() as u8) << 1 | side);
            seed.extend(part);
        }
    }
    (0..14).map(|gap| [&[1, gap], &seed[2..]].concat()).collect()
}

#[test]
fn conversations_cut_byte_by_byte() {
    for seed in seeds() {
        fuzz_tls(&seed);
        (0..seed.len()).step_by(7).for_each(|end| fuzz_tls(&seed[..end]));
    }
}

/// After a gap, a ClientHello can stand behind the protected records. Their secrets are those of
/// the first one.
#[test]
fn a_later_client_hello_does_not_keep_records_from_their_secrets() {
    for mut seed in seeds() {
        let start = |wanted: &[u8], seed: &[u8]| seed.windows(wanted.len()).rposition(|bytes| bytes == wanted);
        let random = start(&[7; 32], &seed).expect("the second ClientHello has a random");
        seed[random] = 0;
        // A suite that is not supported is reported only where the secrets are known.
        let suite = start(&[0x13, 1], &seed).expect("the ServerHello has a suite");
        seed[suite] = 0;
        fuzz_tls(&seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_bytes_are_a_connection(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_tls(&data);
    }

    #[test]
    fn damaged_conversations_are_connections(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        gap in 0u8..14,
        size in any::<u8>(),
    ) {
        let mut data = seeds().swap_remove(usize::from(gap));
        data[0] = size;
        for (place, byte) in damage {
            let place = place.index(data.len());
            data[place] = byte;
        }
        fuzz_tls(&data);
    }
}
