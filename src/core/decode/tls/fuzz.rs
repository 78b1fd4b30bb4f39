//! The body of the fuzz target of TLS: records and the handshake, with a key log available.

use super::keylog::{KeyLog, Secret};
use super::suite::Suite;
use super::{Arrival, Tls, TlsEvent, TlsEventSink, secrets};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};
use crate::decode::{Direction, Ending, Piece};

/// The client random whose secrets the key log has: one byte, 32 times.
const KNOWN: &str = "07";

/// Decodes any bytes as the two directions of a TLS connection.
///
/// The record groups and the plaintext do not depend on how the bytes are cut into pieces. Packets
/// are listed once, in order and within their limit. Ranges of records lie inside the stream. Held
/// memory is bounded. Secrets that arrive late give the same events as secrets that arrive in time,
/// unless the session had to be searched.
///
/// The first byte is the length of the pieces, the second selects a place where bytes are missing.
/// The rest consists of turns. The first byte of a turn has the direction in its lowest bit, and
/// the length above. With the length 0, the next byte is the length of the content of a record,
/// which is protected with the secret of the key log.
///
/// # Panics
///
/// When one of these rules is broken.
pub fn fuzz_tls(data: &[u8]) {
    let [size, gap, rest @ ..] = data else { return };
    let limits = Limits { packets_listed: 64, ..Limits::default() };
    let mut keys = KeyLog::default();
    let random = KNOWN.repeat(32);
    for label in ["CLIENT_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"] {
        keys.add(format!("{label} {random} {}", "05".repeat(32)).as_bytes());
    }
    keys.add(format!("CLIENT_RANDOM {random} {}", "05".repeat(48)).as_bytes());
    let mut whole = FuzzRun::new(limits, keys.clone());
    let mut cut = FuzzRun::new(limits, keys.clone());
    let mut late = FuzzRun::new(limits, KeyLog::default());
    let mut rest = rest;
    let mut turn = 0_u64;
    let mut numbers = [0_u64; 2];
    while let [head, behind @ ..] = rest {
        let direction = if head & 1 == 0 { Direction::ClientToServer } else { Direction::ServerToClient };
        let (protected, length, behind) = match behind {
            [length, behind @ ..] if head >> 1 == 0 => (true, *length, behind),
            _ => (false, head >> 1, behind),
        };
        let (bytes, behind) = behind.split_at(usize::from(length).min(behind.len()));
        rest = behind;
        turn += 1;
        let record;
        let bytes = match (protected, bytes) {
            (true, [kind, content @ ..]) => {
                let number = &mut numbers[direction as usize];
                record = sealed_under(5, *number, *kind, content);
                *number += 1;
                &record
            }
            _ => bytes,
        };
        let sides =
            [(&mut whole, bytes.len().max(1)), (&mut cut, usize::from(*size).max(1)), (&mut late, bytes.len().max(1))];
        for (side, size) in sides {
            if u64::from(*gap) == turn {
                side.push(direction, Piece::Gap(9), turn, 0);
            }
            for (index, piece) in bytes.chunks(size).enumerate() {
                side.push(direction, Piece::Data(piece), turn, index * size);
            }
        }
    }
    for side in [&mut whole, &mut cut, &mut late] {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            side.push(direction, Piece::End(Ending::Finished), turn, 0);
        }
    }
    late.retry(keys);
    // A session that is found by trying is found only with secrets that were there before.
    let has_searched = *whole.tls.search_left() != *Tls::new(limits).search_left();
    assert_eq!(whole.tls.record_groups(), cut.tls.record_groups(), "cutting changes nothing");
    assert_eq!(whole.tls.agreed(), cut.tls.agreed());
    assert_eq!(whole.lines, cut.lines);
    assert!(
        has_searched || (whole.tls.record_groups(), &whole.lines) == (late.tls.record_groups(), &late.lines),
        "secrets may come late: {:?} {:?}",
        (whole.tls.record_groups(), &whole.lines),
        (late.tls.record_groups(), &late.lines)
    );
    assert!(whole.tls.record_groups().len() <= limits.packets_listed);
    assert!(whole.tls.record_groups().iter().map(|step| step.packets.len()).sum::<usize>() <= limits.packets_listed);
    assert!(
        whole.tls.record_groups().iter().all(|step| step.packets.is_sorted_by(|one, next| one < next)),
        "each once, in order"
    );
}

/// One decoding of the connection, by its own way of cutting.
struct FuzzRun {
    tls: Tls,
    keys: KeyLog,
    /// Bytes of each direction so far.
    lengths: [u64; 2],
    /// The events of each direction as text.
    lines: [Vec<String>; 2],
}

impl FuzzRun {
    fn new(limits: Limits, keys: KeyLog) -> FuzzRun {
        FuzzRun { tls: Tls::new(limits), keys, lengths: [0; 2], lines: Default::default() }
    }

    fn push(&mut self, direction: Direction, piece: Piece<'_>, turn: u64, start: usize) {
        let FuzzRun { tls, keys, lengths, lines } = self;
        let length = match piece {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Gap(length) => length,
            Piece::End(_) => 0,
        };
        lengths[direction as usize] += length;
        let packet = PacketNumber(turn);
        let range = [PacketRange { packet, start: start as u32, end: start as u32 + length as u32 }];
        let packets = if matches!(piece, Piece::Data(_)) { range.as_slice() } else { &[] };
        let arrival = Arrival { packets, time: Time(turn as i64), acknowledged: 0 };
        tls.push(direction, piece, arrival, keys, &mut event_recorder(lengths, lines));
        let bound = 2 * lengths.iter().sum::<u64>() as usize * 300 + (1 << 16);
        assert!(tls.held() <= bound, "what is held is a multiple of what came");
        assert!(tls.low_water(direction) <= lengths[direction as usize]);
    }

    fn retry(&mut self, keys: KeyLog) {
        let FuzzRun { tls, lengths, lines, .. } = self;
        tls.retry(&keys, &mut event_recorder(lengths, lines));
    }
}

/// A sink that checks events and records them as text.
fn event_recorder<'a>(lengths: &'a [u64; 2], lines: &'a mut [Vec<String>; 2]) -> Box<TlsEventSink<'a>> {
    Box::new(move |event| {
        let (direction, text) = match event {
            TlsEvent::Data { direction, bytes, record: (start, end), .. } => {
                assert!(start < end && end <= lengths[direction as usize], "a record lies inside the stream");
                assert!(bytes.len() as u64 <= end - start, "no record holds more than its bytes");
                (direction, format!("{start}..{end} {bytes:?}"))
            }
            TlsEvent::Lost { direction, length, .. } => (direction, format!("{length} lost")),
            TlsEvent::End { direction, ending, .. } => (direction, format!("{ending:?}")),
            // A fuzzer cannot guess bytes that open under these secrets.
            TlsEvent::Reversed => return,
            TlsEvent::Anomaly { direction, record: (start, end), anomaly } => {
                assert!(start <= end && end <= lengths[direction as usize]);
                (direction, format!("{anomaly:?}"))
            }
        };
        lines[direction as usize].push(text);
    })
}

/// A record of TLS 1.3, protected with the traffic secret that repeats a byte.
/// The suite is `TLS_AES_128_GCM_SHA256`.
///
/// # Panics
///
/// If the content is longer than a record.
pub fn sealed_under(secret: u8, number: u64, kind: u8, content: &[u8]) -> Vec<u8> {
    let secret = Secret::new(&[secret; 32]).expect("a secret");
    let keys = secrets::traffic_keys(Suite::of(0x1301).expect("a suite"), &secret);
    let key = ring::aead::UnboundKey::new(&ring::aead::AES_128_GCM, &keys.key[..16]).expect("a key");
    let mut nonce = keys.iv;
    nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte ^= digit);
    let mut sealed = [content, &[kind]].concat();
    let length = u16::try_from(sealed.len() + 16).expect("a record is short");
    let header = [&[23, 3, 3][..], &length.to_be_bytes()].concat();
    let nonce = ring::aead::Nonce::assume_unique_for_key(nonce);
    let key = ring::aead::LessSafeKey::new(key);
    key.seal_in_place_append_tag(nonce, ring::aead::Aad::from(&header), &mut sealed).expect("sealed");
    [header, sealed].concat()
}
