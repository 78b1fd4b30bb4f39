//! Record protection: opening one record with the keys of its direction (RFC 8446 section 5.2, RFC 5246 section 6.2.3).
//!
//! A record that opens is what its sender wrote: every suite here authenticates its records together with their number, so a
//! wrong key or a wrong number never gives wrong bytes, only none.

use std::fmt;
use std::ops::Range;

use aes::cipher::{BlockDecryptMut, KeyIvInit, block_padding::NoPadding};
use aes::{Aes128, Aes256};
use ccm::aead::consts::{U8, U12, U16};
use ccm::{AeadInPlace, Ccm, KeyInit};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;

use super::keylog::{Random, Secret};
use super::record::Record;
use super::secrets::{self, Keys};
use super::suite::{Cipher, Mac, Suite};

/// Bytes of the part of the nonce that a record of GCM or CCM in TLS 1.2 brings (RFC 5288 section 3, RFC 6655 section 3).
const EXPLICIT: usize = 8;
/// A block of AES, and the initialisation vector that a record of a CBC suite brings.
const BLOCK: usize = 16;

/// What stood in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The content type.
    pub kind: u8,
    /// Where the plaintext stands in the bytes that were opened.
    pub range: Range<usize>,
}

/// Opens the records of one direction under one set of keys.
#[derive(Clone)]
pub(super) struct Opener {
    method: Method,
    /// TLS 1.3: the nonce is made of the number alone, and the content type stands inside.
    newest: bool,
    iv: [u8; 12],
    tag: usize,
}

#[derive(Clone)]
enum Method {
    /// AES-GCM and ChaCha20-Poly1305; whether records of TLS 1.2 bring a part of the nonce.
    Ring(Box<LessSafeKey>, bool),
    Ccm128(Box<Ccm<Aes128, U16, U12>>),
    Ccm256(Box<Ccm<Aes256, U16, U12>>),
    Ccm128Short(Box<Ccm<Aes128, U8, U12>>),
    Ccm256Short(Box<Ccm<Aes256, U8, U12>>),
    Cbc(Box<Cbc>),
}

#[derive(Clone)]
struct Cbc {
    key: [u8; 32],
    long: bool,
    mac: hmac::Key,
    /// RFC 7366: the MAC is that of the ciphertext.
    encrypt_then_mac: bool,
}

impl fmt::Debug for Opener {
    /// Keys do not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

impl Opener {
    /// For TLS 1.3, under a traffic secret; `None` where the secret is not as long as the hash of the suite.
    pub fn of_traffic(suite: Suite, secret: &Secret) -> Option<Opener> {
        (secret.as_bytes().len() == suite.hash.length()).then_some(())?;
        let keys = secrets::traffic_keys(suite, secret);
        Some(Opener {
            method: Method::new(suite.cipher, &keys, false)?,
            newest: true,
            iv: keys.iv,
            tag: suite.cipher.tag_length(),
        })
    }

    /// For TLS 1.2: those of client and server.
    pub fn of_master(
        suite: Suite,
        master: &Secret,
        client_random: &Random,
        server_random: &Random,
        encrypt_then_mac: bool,
    ) -> Option<[Opener; 2]> {
        let lengths = match suite.cipher {
            // RFC 5246 section 6.2.3.2: the initialisation vector is random and stands in the record.
            Cipher::Aes128Cbc(mac) | Cipher::Aes256Cbc(mac) => [mac.length(), suite.cipher.key_length(), 0],
            // RFC 7905 section 2: "fixed_iv_length 12 bytes, record_iv_length 0 bytes".
            Cipher::ChaCha20Poly1305 => [0, 32, 12],
            _ => [0, suite.cipher.key_length(), 12 - EXPLICIT],
        };
        let [client, server] = secrets::key_block(suite, master, client_random, server_random, lengths).map(|keys| {
            let method = Method::new(suite.cipher, &keys, encrypt_then_mac)?;
            Some(Opener { method, newest: false, iv: keys.iv, tag: suite.cipher.tag_length() })
        });
        Some([client?, server?])
    }

    /// Opens record `number` in place. Where it does not open, `sealed` holds nothing of use afterwards.
    pub fn open(&self, number: u64, record: Record, sealed: &mut [u8]) -> Option<Content> {
        if self.newest {
            return self.open_newest(number, record, sealed);
        }
        let kind = record.header[0];
        let range = match &self.method {
            Method::Cbc(cbc) => cbc.open(number, record, sealed)?,
            method => {
                let explicit = if matches!(method, Method::Ring(_, false)) { 0 } else { EXPLICIT };
                let (nonce, body) = sealed.split_at_mut_checked(explicit)?;
                let length = body.len().checked_sub(self.tag)?;
                let nonce = if explicit > 0 { self.joined(nonce) } else { self.numbered(number) };
                // RFC 5246 section 6.2.3.3: "additional_data = seq_num + TLSCompressed.type + TLSCompressed.version +
                // TLSCompressed.length".
                method.open(nonce, &authenticated(number, record, length), body, length)?;
                explicit..explicit + length
            }
        };
        Some(Content { kind, range })
    }

    /// RFC 8446 section 5.2: "additional_data = TLSCiphertext.opaque_type || TLSCiphertext.legacy_record_version ||
    /// TLSCiphertext.length", and section 5.4: the content type is the last byte that is not zero.
    fn open_newest(&self, number: u64, record: Record, sealed: &mut [u8]) -> Option<Content> {
        let length = sealed.len().checked_sub(self.tag)?;
        self.method.open(self.numbered(number), &record.header, sealed, length)?;
        let last = sealed[..length].iter().rposition(|byte| *byte != 0)?;
        Some(Content { kind: sealed[last], range: 0..last })
    }

    /// Whether it opens records of TLS 1.3.
    pub fn is_newest(&self) -> bool {
        self.newest
    }

    /// Bytes that a record has beyond its content, its header not counted; for CBC about, since padding varies.
    pub fn overhead(&self) -> u64 {
        let explicit = match &self.method {
            Method::Ring(_, false) => 0,
            Method::Cbc(cbc) => {
                return (BLOCK + cbc.mac.algorithm().digest_algorithm().output_len() + BLOCK / 2) as u64;
            }
            _ => EXPLICIT,
        };
        (self.tag + if self.newest { 1 } else { explicit }) as u64
    }

    /// RFC 8446 section 5.3: the number, padded to the left, XOR the static IV. RFC 7905 section 2 says the same.
    fn numbered(&self, number: u64) -> [u8; 12] {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte ^= digit);
        nonce
    }

    /// RFC 5288 section 3: four bytes of the key block, eight of the record.
    fn joined(&self, explicit: &[u8]) -> [u8; 12] {
        let mut nonce = self.iv;
        nonce[4..].copy_from_slice(explicit);
        nonce
    }
}

impl Method {
    fn new(cipher: Cipher, keys: &Keys, encrypt_then_mac: bool) -> Option<Method> {
        let key = &keys.key[..cipher.key_length()];
        let ring = |algorithm| UnboundKey::new(algorithm, key).ok().map(|key| Box::new(LessSafeKey::new(key)));
        let cbc = |mac: Mac| {
            let mac = hmac::Key::new(mac.algorithm(), &keys.mac[..mac.length()]);
            Method::Cbc(Box::new(Cbc { key: keys.key, long: key.len() == 32, mac, encrypt_then_mac }))
        };
        Some(match cipher {
            Cipher::Aes128Gcm => Method::Ring(ring(&aead::AES_128_GCM)?, true),
            Cipher::Aes256Gcm => Method::Ring(ring(&aead::AES_256_GCM)?, true),
            Cipher::ChaCha20Poly1305 => Method::Ring(ring(&aead::CHACHA20_POLY1305)?, false),
            Cipher::Aes128Ccm => Method::Ccm128(Box::new(Ccm::new_from_slice(key).ok()?)),
            Cipher::Aes256Ccm => Method::Ccm256(Box::new(Ccm::new_from_slice(key).ok()?)),
            Cipher::Aes128Ccm8 => Method::Ccm128Short(Box::new(Ccm::new_from_slice(key).ok()?)),
            Cipher::Aes256Ccm8 => Method::Ccm256Short(Box::new(Ccm::new_from_slice(key).ok()?)),
            Cipher::Aes128Cbc(mac) | Cipher::Aes256Cbc(mac) => cbc(mac),
        })
    }

    /// Opens `sealed`, whose last bytes behind `length` are the tag.
    fn open(&self, nonce: [u8; 12], additional: &[u8], sealed: &mut [u8], length: usize) -> Option<()> {
        fn ccm<C: AeadInPlace<NonceSize = U12>>(
            key: &C,
            nonce: &[u8; 12],
            additional: &[u8],
            (body, tag): (&mut [u8], &mut [u8]),
        ) -> Option<()> {
            let tag = ccm::aead::Tag::<C>::from_slice(tag);
            key.decrypt_in_place_detached(nonce.into(), additional, body, tag).ok()
        }
        match self {
            Method::Ring(key, _) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                key.open_in_place(nonce, Aad::from(additional), sealed).ok().map(|_| ())
            }
            Method::Ccm128(key) => ccm(key.as_ref(), &nonce, additional, sealed.split_at_mut(length)),
            Method::Ccm256(key) => ccm(key.as_ref(), &nonce, additional, sealed.split_at_mut(length)),
            Method::Ccm128Short(key) => ccm(key.as_ref(), &nonce, additional, sealed.split_at_mut(length)),
            Method::Ccm256Short(key) => ccm(key.as_ref(), &nonce, additional, sealed.split_at_mut(length)),
            Method::Cbc(_) => None,
        }
    }
}

impl Cbc {
    /// RFC 5246 section 6.2.3.2, and RFC 7366 section 3 where the MAC comes last.
    fn open(&self, number: u64, record: Record, sealed: &mut [u8]) -> Option<Range<usize>> {
        let mac_length = self.mac.algorithm().digest_algorithm().output_len();
        let sealed = if self.encrypt_then_mac {
            // "MAC(MAC_write_key, seq_num + TLSCipherText.type + TLSCipherText.version + TLSCipherText.length + IV +
            // ENC(content + padding + padding_length))".
            let (body, mac) = sealed.split_at_mut_checked(sealed.len().checked_sub(mac_length)?)?;
            self.verify(&authenticated(number, record, body.len()), body, mac)?;
            body
        } else {
            sealed
        };
        let (iv, body) = sealed.split_at_mut_checked(BLOCK)?;
        (!body.is_empty() && body.len().is_multiple_of(BLOCK)).then_some(())?;
        if self.long {
            let cipher = cbc::Decryptor::<Aes256>::new_from_slices(&self.key, iv).ok()?;
            cipher.decrypt_padded_mut::<NoPadding>(body).ok()?;
        } else {
            let cipher = cbc::Decryptor::<Aes128>::new_from_slices(&self.key[..16], iv).ok()?;
            cipher.decrypt_padded_mut::<NoPadding>(body).ok()?;
        }
        // "Each uint8 in the padding data vector MUST be filled with the padding length value."
        let padding = *body.last()?;
        let unpadded = body.len().checked_sub(usize::from(padding) + 1)?;
        body[unpadded..].iter().all(|byte| *byte == padding).then_some(())?;
        let length = if self.encrypt_then_mac {
            unpadded
        } else {
            let length = unpadded.checked_sub(mac_length)?;
            let (content, mac) = body[..unpadded].split_at(length);
            self.verify(&authenticated(number, record, length), content, mac)?;
            length
        };
        Some(BLOCK..BLOCK + length)
    }

    fn verify(&self, additional: &[u8], content: &[u8], mac: &[u8]) -> Option<()> {
        let mut context = hmac::Context::with_key(&self.mac);
        context.update(additional);
        context.update(content);
        // Nobody can measure how long this takes who does not know the keys already.
        (context.sign().as_ref() == mac).then_some(())
    }
}

impl Mac {
    fn algorithm(self) -> hmac::Algorithm {
        match self {
            Mac::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Mac::Sha256 => hmac::HMAC_SHA256,
            Mac::Sha384 => hmac::HMAC_SHA384,
        }
    }

    fn length(self) -> usize {
        match self {
            Mac::Sha1 => 20,
            Mac::Sha256 => 32,
            Mac::Sha384 => 48,
        }
    }
}

/// What TLS 1.2 authenticates beside the content: number, type, version and length of the content.
fn authenticated(number: u64, record: Record, length: usize) -> [u8; 13] {
    let mut data = [0; 13];
    data[..8].copy_from_slice(&number.to_be_bytes());
    data[8..11].copy_from_slice(&record.header[..3]);
    data[11..].copy_from_slice(&(length as u16).to_be_bytes());
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tls::record::{HEADER, Records};

    fn bytes(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("digits")).collect()
    }

    fn record(text: &str) -> (Record, Vec<u8>) {
        let bytes = bytes(text);
        let mut cursor = super::super::record::Cursor::new(&bytes, &[]);
        let fragment = Records::default().next(&mut cursor).expect("a record");
        (fragment.record, bytes[HEADER..].to_vec())
    }

    /// RFC 8448 section 3: the client's application data, and the alert that closes it.
    const DATA: &str = "17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab 3f 2b 98 19 a8 a5 b4 6b \
        39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4";
    const ALERT: &str = "17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3";
    const CLIENT: &str =
        "9e 40 64 6c e7 9a 7f 9d c0 5a f8 88 9b ce 65 52 87 5a fa 0b 06 df 00 87 f7 92 eb b7 c1 75 04 a5";

    #[test]
    fn the_records_of_rfc_8448() {
        let suite = Suite::of(0x1301).expect("a suite");
        let secret = Secret::new(&bytes(CLIENT)).expect("a secret");
        let keys = secrets::traffic_keys(suite, &secret);
        assert_eq!(keys.key[..16], bytes("17 42 2d da 59 6e d5 d9 ac d8 90 e3 c6 3f 50 51"));
        assert_eq!(keys.iv, *bytes("5b 78 92 3d ee 08 57 90 33 e5 23 d9"));
        let opener = Opener::of_traffic(suite, &secret).expect("keys");
        let (head, mut sealed) = record(DATA);
        let content = opener.open(0, head, &mut sealed).expect("it opens");
        assert_eq!((content.kind, &sealed[content.range]), (23, (0..50).collect::<Vec<u8>>().as_slice()));
        let (head, mut sealed) = record(ALERT);
        let content = opener.open(1, head, &mut sealed).expect("it opens");
        assert_eq!((content.kind, &sealed[content.range]), (21, [1, 0].as_slice()));
    }

    #[test]
    fn nothing_opens_with_another_number_header_or_byte() {
        let opener =
            Opener::of_traffic(Suite::of(0x1301).expect("a suite"), &Secret::new(&bytes(CLIENT)).expect("a secret"));
        let opener = opener.expect("keys");
        let (head, sealed) = record(DATA);
        assert_eq!(opener.open(1, head, &mut sealed.clone()), None);
        let other = Record { header: [23, 3, 1, 0, 0x43], ..head };
        assert_eq!(opener.open(0, other, &mut sealed.clone()), None);
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(opener.open(0, head, &mut damaged), None);
            assert_eq!(opener.open(0, head, &mut sealed[..at].to_vec()), None);
        }
    }
}
