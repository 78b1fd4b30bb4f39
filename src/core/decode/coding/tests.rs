use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use super::fuzz::{decode, fuzz_coding};
use super::*;

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn raw(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd(data: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(data, 1).unwrap()
}

fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn bad(result: Result<(), Anomaly>) -> String {
    match result {
        Err(Anomaly::BadCoding { coding, why }) => format!("{coding}: {why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_of_codings() {
    let new = |name| Coding::new(name, Limits::default());
    for nothing in ["", "identity", " , identity"] {
        assert!(new(nothing).unwrap().is_none(), "{nothing:?}");
    }
    for known in ["gzip", "X-GZIP", " deflate ", "br", "zstd", "gzip, br", "gzip, deflate", "identity, gzip"] {
        assert!(new(known).unwrap().is_some(), "{known:?}");
    }
    for unknown in ["gzip,gzip,gzip", "gzip,br,zstd", "compress", "dcb"] {
        let expected = Anomaly::UnknownCoding { coding: unknown.into() };
        assert_eq!(new(unknown).unwrap_err(), expected);
    }
}

#[test]
fn an_event_in_a_flushed_stream_is_seen_when_it_arrives() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut coding = Coding::new("gzip", Limits::default()).unwrap().unwrap();
    for event in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let mut decoded = Vec::new();
        let sent = std::mem::take(encoder.get_mut());
        coding.push(&sent, &mut |bytes| decoded.extend_from_slice(bytes)).unwrap();
        assert_eq!(decoded, event.as_bytes());
    }
    assert_eq!(bad(coding.finish()), "gzip: it ends inside the compressed data", "the stream was cut");
}

#[test]
fn an_event_in_flushed_brotli_is_seen_when_it_arrives() {
    // The reference encoder's output for one event, for another one, and at the end.
    let sent = [hex("0b0580646174613a206f6e650a0a"), hex("5000805f5ae18dee4e11a24a04600b"), hex("03")];
    let mut coding = Coding::new("br", Limits::default()).unwrap().unwrap();
    for (sent, event) in sent.iter().zip(["data: one\n\n", "data: two\n\n", ""]) {
        let mut decoded = Vec::new();
        coding.push(sent, &mut |bytes| decoded.extend_from_slice(bytes)).unwrap();
        assert_eq!(decoded, event.as_bytes());
    }
    coding.finish().unwrap();
    assert_eq!(bad(coding.push(b"x", &mut |_| {})), "br: bytes follow the end of the compressed data");
    fuzz_coding(&sent.concat());
}

#[test]
fn an_event_in_flushed_zstd_is_seen_when_it_arrives() {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut coding = Coding::new("zstd", Limits::default()).unwrap().unwrap();
    for event in ["data: one\n\n", "data: two\n\n"] {
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let mut decoded = Vec::new();
        let sent = std::mem::take(encoder.get_mut());
        coding.push(&sent, &mut |bytes| decoded.extend_from_slice(bytes)).unwrap();
        assert_eq!(decoded, event.as_bytes());
    }
    assert_eq!(bad(coding.finish()), "zstd: it ends inside the compressed data", "the stream was cut");
    let frames = [zstd(b"one "), zstd(b"two")].concat();
    assert_eq!(decode("zstd", Limits::default(), 3, &frames), (b"one two".to_vec(), Ok(())));
}

#[test]
fn small_bodies_that_decode_to_much_are_stopped_in_every_coding() {
    // Eight million times the letter `a`.
    let brotli = hex("9bff117af825c2e2b1402037410f");
    for (name, body) in [("br", brotli), ("zstd", zstd(&vec![0; 8 << 20]))] {
        let (decoded, result) = decode(name, Limits::default(), body.len(), &body);
        assert!(matches!(result, Err(Anomaly::LimitReached { limit: "inflate_ratio", .. })), "{name}: {result:?}");
        assert!(decoded.len() as u64 <= body.len() as u64 * Limits::default().inflate_ratio + (1 << 20));
        assert_eq!(decode(name, Limits::default(), 1, &body), (decoded, result), "{name}");
    }
}

#[test]
fn members_follow_each_other_and_zeros_the_last() {
    let body = [gzip(b"one "), gzip(b"two"), vec![0; 5]].concat();
    assert_eq!(decode("gzip", Limits::default(), 3, &body), (b"one two".to_vec(), Ok(())));
    let (decoded, result) = decode("gzip", Limits::default(), 3, &[gzip(b"one"), b"HTTP".to_vec()].concat());
    assert_eq!((decoded, bad(result)), (b"one".to_vec(), "gzip: bytes follow the end of the compressed data".into()));
}

#[test]
fn a_head_with_every_optional_part() {
    let plain = gzip(b"text");
    let mut body = vec![0x1f, 0x8b, 8, 2 | 4 | 8 | 16, 0, 0, 0, 0, 0, 3];
    body.extend([3, 0, b'a', b'b', b'c']);
    body.extend(b"name\0comment\0\x12\x34");
    body.extend(&plain[10..]);
    assert_eq!(decode("gzip", Limits::default(), 1, &body), (b"text".to_vec(), Ok(())));
}

#[test]
fn a_body_that_is_not_gzip_as_declared() {
    let mut coding = Coding::new("gzip", Limits::default()).unwrap().unwrap();
    let mut out = |bytes: &[u8]| panic!("{bytes:?}");
    coding.push(b"\x1f", &mut out).unwrap();
    assert_eq!(bad(coding.push(b"{\"jsonrpc\":", &mut out)), "gzip: it does not begin as gzip does");
    assert_eq!(coding.undecoded(), b"\x1f", "for the caller to keep the body as sent");
    assert_eq!(coding.push(b"more", &mut out), Ok(()), "is ignored");
    assert_eq!(coding.finish(), Ok(()));
    assert_eq!(
        bad(decode("deflate", Limits::default(), 9, b"\xff\xff\xff").1),
        "deflate: it does not begin as deflate data does"
    );
}

#[test]
fn damage_is_found_and_earlier_bytes_are_emitted() {
    let mut body = gzip(b"some text");
    let end = body.len();
    body[end - 8] ^= 1;
    let (decoded, result) = decode("gzip", Limits::default(), 1, &body);
    assert_eq!(
        (decoded.as_slice(), bad(result).as_str()),
        (&b"some text"[..], "gzip: checksum or length of the content is wrong")
    );
}

#[test]
fn bytes_before_damage_are_emitted_beyond_a_window() {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"a").unwrap();
    encoder.flush().unwrap();
    let first = encoder.get_ref().len();
    encoder.write_all(&[7; 40_000]).unwrap();
    encoder.flush().unwrap();
    // A block of an undefined type follows the flushed data.
    let body = [&encoder.get_ref()[..], &[0xff]].concat();
    let mut coding = Coding::new("deflate", Limits::default()).unwrap().unwrap();
    let mut decoded = 0;
    coding.push(&body[..first], &mut |bytes| decoded += bytes.len()).unwrap();
    let result = coding.push(&body[first..], &mut |bytes| decoded += bytes.len());
    assert_eq!((decoded, bad(result).as_str()), (40_001, "deflate: the deflate data is damaged"));
    fuzz_coding(&body);
}

#[test]
fn an_empty_body_is_no_error() {
    assert_eq!(decode("gzip", Limits::default(), 1, b""), (vec![], Ok(())));
}

#[test]
fn a_bomb_is_stopped_at_the_ratio() {
    let limits = Limits { inflate_ratio: 10, ..Limits::default() };
    let bomb = gzip(&vec![0; 8 << 20]);
    let (decoded, result) = decode("gzip", limits, bomb.len(), &bomb);
    assert!(matches!(result, Err(Anomaly::LimitReached { limit: "inflate_ratio", .. })), "{result:?}");
    assert_eq!(decoded.len(), (1 << 20) / 10 * 10);
    // Two codings on top of each other exceed the limit that one cannot exceed.
    let bomb = gzip(&gzip(&vec![0; 64 << 20]));
    let (decoded, result) = decode("gzip, gzip", Limits::default(), 512, &bomb);
    assert!(matches!(result, Err(Anomaly::LimitReached { limit: "inflate_ratio", .. })), "{result:?}");
    assert!(decoded.len() as u64 <= bomb.len() as u64 * Limits::default().inflate_ratio + (1 << 20));
    for size in [1, 7, bomb.len()] {
        let cut = decode("gzip, gzip", Limits::default(), size, &bomb);
        assert!(cut == (decoded.clone(), result.clone()), "stopped somewhere else in pieces of {size}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encoded_bodies_are_decoded_however_they_are_cut(
        data in proptest::collection::vec(any::<u8>(), 0..3000), size in 1usize..100,
    ) {
        let both = gzip(&zlib(&data));
        let stacked = gzip(&zstd(&data));
        let bodies = [
            ("gzip", gzip(&data)),
            ("deflate", zlib(&data)),
            ("deflate", raw(&data)),
            ("zstd", zstd(&data)),
            ("deflate, gzip", both),
            ("zstd, gzip", stacked),
        ];
        for (name, body) in bodies {
            prop_assert_eq!(decode(name, Limits::default(), size, &body), (data.clone(), Ok(())), "{}", name);
        }
    }

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300), at in 0usize..60, bit in 0u8..8) {
        fuzz_coding(&data);
        for mut body in [gzip(&data), zlib(&data), zstd(&data), gzip(&zlib(&data))] {
            fuzz_coding(&body);
            let at = at.min(body.len() - 1);
            body[at] ^= 1 << bit;
            fuzz_coding(&body);
        }
    }
}
