//! Initial packets (RFC 9000 section 17.2.2) and their protection (RFC 9001 section 5).

use nom::combinator::{map_opt, verify};
use nom::multi::length_data;
use nom::number::complete::{be_u8, be_u16, be_u32, be_u64};
use nom::{IResult, Parser};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use ring::hkdf;

/// A version of QUIC that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    fn from_wire(version: u32) -> Option<Version> {
        match version {
            1 => Some(Version::V1),
            0x6b33_43cf => Some(Version::V2),
            _ => None,
        }
    }

    fn wire(self) -> u32 {
        match self {
            Version::V1 => 1,
            Version::V2 => 0x6b33_43cf,
        }
    }

    pub(super) fn number(self) -> u8 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    /// The type of Initial packets (RFC 9000 section 17.2, RFC 9369 section 3.2).
    fn initial(self) -> u8 {
        match self {
            Version::V1 => 0,
            Version::V2 => 1,
        }
    }

    /// RFC 9001 section 5.2, RFC 9369 section 3.3.1.
    fn salt(self) -> [u8; 20] {
        match self {
            Version::V1 => [
                0x38, 0x76, 0x2c, 0xf7, 0xf5, 0x59, 0x34, 0xb3, 0x4d, 0x17, 0x9a, 0xe6, 0xa4, 0xc8, 0x0c, 0xad, 0xcc,
                0xbb, 0x7f, 0x0a,
            ],
            Version::V2 => [
                0x0d, 0xed, 0xe3, 0xde, 0xf7, 0x00, 0xa6, 0xdb, 0x81, 0x93, 0x81, 0xbe, 0x6e, 0x26, 0x9d, 0xcb, 0xf9,
                0xbd, 0x2e, 0xd9,
            ],
        }
    }

    /// The labels of key, initialisation vector and header protection (RFC 9001 section 5.1, RFC 9369 section 3.3.2).
    fn labels(self) -> [&'static str; 3] {
        match self {
            Version::V1 => ["quic key", "quic iv", "quic hp"],
            Version::V2 => ["quicv2 key", "quicv2 iv", "quicv2 hp"],
        }
    }
}

/// An Initial packet, still protected.
#[derive(Debug)]
pub(super) struct Initial<'a> {
    pub(super) version: Version,
    pub(super) destination: &'a [u8],
    /// From its first byte on.
    bytes: &'a [u8],
    /// Where the packet number begins.
    number: usize,
}

impl<'a> Initial<'a> {
    /// Reads the packet at the beginning of a datagram, and what stands behind it.
    pub(super) fn read(datagram: &'a [u8]) -> Option<(Initial<'a>, &'a [u8])> {
        let (rest, (version, destination, length)) = header(datagram).ok()?;
        let number = datagram.len() - rest.len();
        let end = number.checked_add(usize::try_from(length).ok()?)?;
        // A datagram cut by a snap length cannot be opened, but is one.
        let bytes = datagram.get(..end)?;
        Some((Initial { version, destination, bytes, number }, &datagram[end..]))
    }

    /// Takes the protection off: the frames of the packet.
    pub(super) fn open(&self, keys: &Keys) -> Option<Vec<u8>> {
        // RFC 9001 section 5.4.2: the sample is taken as if the packet number had four bytes.
        let sample = self.bytes.get(self.number + 4..self.number + 20)?;
        let mask = keys.header.new_mask(sample).ok()?;
        let mut header = self.bytes[..self.number].to_vec();
        header[0] ^= mask[0] & 0x0f;
        let length = usize::from(header[0] & 3) + 1;
        let protected = self.bytes.get(self.number..self.number + length)?;
        let number = protected.iter().zip(&mask[1..]).map(|(byte, mask)| byte ^ mask);
        header.extend(number);
        let value = header[self.number..].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let mut payload = self.bytes[self.number + length..].to_vec();
        let opened = keys.packet.open_in_place(keys.nonce(value), Aad::from(&header), &mut payload).ok()?.len();
        payload.truncate(opened);
        Some(payload)
    }
}

/// Everything up to the packet number: version, destination connection id, and the length of what follows.
fn header(input: &[u8]) -> IResult<&[u8], (Version, &[u8], u64)> {
    // Header form and fixed bit are set; bits of protection are not known yet.
    let (input, first) = verify(be_u8, |first: &u8| first & 0xc0 == 0xc0).parse(input)?;
    let is_initial = |version: &Version| (first >> 4) & 3 == version.initial();
    let (input, version) = verify(map_opt(be_u32, Version::from_wire), is_initial).parse(input)?;
    // Section 17.2: a connection id "MUST NOT exceed 20 bytes".
    let mut id = length_data(verify(be_u8, |length: &u8| *length <= 20));
    let (input, destination) = id.parse(input)?;
    let (input, _) = id.parse(input)?;
    let (input, _token) = length_data(variable).parse(input)?;
    let (input, length) = variable(input)?;
    Ok((input, (version, destination, length)))
}

/// A variable-length integer (RFC 9000 section 16).
fn variable(input: &[u8]) -> IResult<&[u8], u64> {
    let wide = |bits: u32| move |value: u64| value & ((1 << bits) - 1);
    match input.first().map(|first| first >> 6) {
        Some(0) => be_u8.map(u64::from).parse(input),
        Some(1) => be_u16.map(u64::from).map(wide(14)).parse(input),
        Some(2) => be_u32.map(u64::from).map(wide(30)).parse(input),
        _ => be_u64.map(wide(62)).parse(input),
    }
}

/// The pieces of the handshake in the frames of an Initial packet, with their offsets. What is no frame that such a packet may hold (RFC 9000
/// section 12.4: PADDING, PING, ACK, CRYPTO, CONNECTION_CLOSE) ends the search.
pub(super) fn crypto(mut frames: &[u8]) -> Vec<(u64, &[u8])> {
    let mut pieces = Vec::new();
    while let Ok((rest, piece)) = frame(frames) {
        pieces.extend(piece);
        frames = rest;
    }
    pieces
}

fn frame(input: &[u8]) -> IResult<&[u8], Option<(u64, &[u8])>> {
    const PADDING: u8 = 0;
    const PING: u8 = 1;
    const ACK: u8 = 2;
    const ACK_ECN: u8 = 3;
    let (input, kind) = verify(be_u8, |kind| *kind <= 6 && !matches!(kind, 4 | 5)).parse(input)?;
    match kind {
        PADDING | PING => Ok((input, None)),
        ACK | ACK_ECN => {
            let (input, (_, _, ranges, _)) = (variable, variable, variable, variable).parse(input)?;
            // Each range takes two bytes or more, so a count beyond what is there fails soon.
            let (mut input, mut left) = (input, ranges.saturating_mul(2));
            if kind == ACK_ECN {
                left = left.saturating_add(3);
            }
            while left > 0 {
                (input, _) = variable(input)?;
                left -= 1;
            }
            Ok((input, None))
        }
        _ => {
            let (input, (offset, bytes)) = (variable, length_data(variable)).parse(input)?;
            Ok((input, Some((offset, bytes))))
        }
    }
}

/// The keys of the Initial packets of one side.
pub(super) struct Keys {
    packet: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    header: quic::HeaderProtectionKey,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// The client's, for the connection id that it chose first.
    pub(super) fn of_client(version: Version, connection: &[u8]) -> Option<Keys> {
        let [key, iv, header] = derived(version, connection)?;
        let packet = LessSafeKey::new(UnboundKey::new(&aead::AES_128_GCM, &key).ok()?);
        let header = quic::HeaderProtectionKey::new(&quic::AES_128, &header).ok()?;
        Some(Keys { packet, iv: iv.try_into().ok()?, header })
    }

    /// RFC 9001 section 5.3: the packet number is XORed with the vector.
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Key, initialisation vector and key of the header protection (RFC 9001 section 5.2).
fn derived(version: Version, connection: &[u8]) -> Option<[Vec<u8>; 3]> {
    let secret = hkdf::Salt::new(hkdf::HKDF_SHA256, &version.salt()).extract(connection);
    let client = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &expand(&secret, "client in", 32)?);
    let [key, iv, header] = version.labels();
    Some([expand(&client, key, 16)?, expand(&client, iv, aead::NONCE_LEN)?, expand(&client, header, 16)?])
}

/// HKDF-Expand-Label of RFC 8446 section 7.1, without context.
fn expand(secret: &hkdf::Prk, label: &str, length: usize) -> Option<Vec<u8>> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let label = format!("tls13 {label}");
    let info = [&[0, length as u8, label.len() as u8], label.as_bytes(), &[0]];
    let mut out = vec![0; length];
    secret.expand(&info, Length(length)).ok()?.fill(&mut out).ok()?;
    Some(out)
}

/// An Initial packet of a client that holds these frames: what `open` takes apart.
pub(super) fn seal(version: Version, destination: &[u8], frames: &[u8]) -> Option<Vec<u8>> {
    let keys = Keys::of_client(version, destination)?;
    // The sample needs twenty bytes behind the packet number.
    let mut payload = frames.to_vec();
    payload.resize(payload.len().max(4), 0);
    let length =
        u16::try_from(payload.len() + 4 + aead::AES_128_GCM.tag_len()).ok().filter(|length| *length < 1 << 14)?;
    let mut packet = vec![0xc3 | version.initial() << 4];
    packet.extend(version.wire().to_be_bytes());
    packet.push(u8::try_from(destination.len()).ok()?);
    packet.extend(destination);
    packet.extend([0, 0]);
    packet.extend((length | 0x4000).to_be_bytes());
    let number = packet.len();
    packet.extend([0, 0, 0, 2]);
    keys.packet.seal_in_place_append_tag(keys.nonce(2), Aad::from(&packet), &mut payload).ok()?;
    packet.extend(payload);
    let mask = keys.header.new_mask(&packet[number + 4..number + 20]).ok()?;
    packet[0] ^= mask[0] & 0x0f;
    packet[number..number + 4].iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
    Some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("ASCII"));
        pairs.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal")).collect()
    }

    #[test]
    fn keys_are_those_of_the_standards() {
        let connection = hex("8394c8f03e515708");
        let expected =
            ["1f369613dd76d5467730efcbe3b1a22d", "fa044b2f42a3fd3b46fb255c", "9f50449e04a0e810283a1e9933adedd2"];
        assert_eq!(derived(Version::V1, &connection), Some(expected.map(hex)), "RFC 9001 appendix A.1");
        let expected =
            ["8b1a0bc121284290a29e0971b5cd045d", "91f73e2351d8fa91660e909f", "45b95e15235d6f45a6b19cbcb0294ba9"];
        assert_eq!(derived(Version::V2, &connection), Some(expected.map(hex)), "RFC 9369 appendix A.1");
        let keys = Keys::of_client(Version::V1, &connection).expect("lengths are right");
        let mask = keys.header.new_mask(&hex("d1b1c98dd7689fb8ec11d242b123dc9b")).expect("16 bytes");
        assert_eq!(mask.to_vec(), hex("437b9aec36"), "RFC 9001 appendix A.2");
    }

    #[test]
    fn integers_are_those_of_the_standard() {
        // RFC 9000 appendix A.1.
        for (bytes, value) in [
            ("c2197c5eff14e88c", 151_288_809_941_952_652),
            ("9d7f3e7d", 494_878_333),
            ("7bbd", 15_293),
            ("25", 37),
            ("4025", 37),
        ] {
            assert_eq!(variable(&hex(bytes)), Ok((&b""[..], value)));
        }
    }

    #[test]
    fn handshake_pieces_stand_among_other_frames() {
        let frames =
            [&[0, 0, 1, 2, 4, 0, 1, 4, 1, 1][..], &[6, 2, 3], b"abc", &[0, 6, 0, 2], b"xy", &[0x1c, 0]].concat();
        assert_eq!(crypto(&frames), [(2, &b"abc"[..]), (0, b"xy")]);
        assert_eq!(crypto(&[2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), []);
    }
}
