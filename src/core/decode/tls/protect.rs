//! Record protection: opens one record with the keys of its direction (RFC 8446 section 5.2, RFC
//! 5246 section 6.2.3).
//!
//! Every suite here authenticates a record together with its number. A wrong key or a wrong number
//! therefore never gives wrong bytes: the record does not open. A record that opens is what its
//! sender wrote.

use std::fmt;
use std::ops::Range;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::keylog::{Random, Secret};
use super::record::Record;
use super::secrets::{self, RecordKeys};
use super::suite::Suite;

/// Bytes of the nonce that are sent with each record of GCM in TLS 1.2 (RFC 5288 section 3).
const EXPLICIT: usize = 8;
/// Bytes of the tag that each of the ciphers adds.
const TAG: usize = 16;

/// The content of a record that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenedRecord {
    /// The content type.
    pub kind: u8,
    /// The range of the plaintext in the bytes that were opened.
    pub range: Range<usize>,
}

/// Opens the records of one direction under one set of keys.
#[derive(Clone)]
pub(super) struct Opener {
    key: Box<LessSafeKey>,
    /// Whether it is for TLS 1.3, where the content type is encrypted too.
    tls13: bool,
    iv: [u8; 12],
    /// Bytes of the nonce that are sent with each record.
    explicit: usize,
}

impl fmt::Debug for Opener {
    /// Prints the name only, so that no key gets into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

impl Opener {
    /// For TLS 1.3, from a traffic secret. `None` if the secret is not as long as the suite's hash.
    pub fn of_traffic(suite: Suite, secret: &Secret) -> Option<Opener> {
        (secret.as_bytes().len() == suite.hash_length()).then_some(())?;
        Opener::new(suite, &secrets::traffic_keys(suite, secret), true, 0)
    }

    /// For TLS 1.2, from the master secret: the client's and the server's.
    pub fn of_master(
        suite: Suite,
        master: &Secret,
        client_random: &Random,
        server_random: &Random,
    ) -> Option<[Opener; 2]> {
        // RFC 7905 section 2: "fixed_iv_length 12 bytes, record_iv_length 0 bytes".
        let explicit = if *suite.cipher == CHACHA20_POLY1305 { 0 } else { EXPLICIT };
        let lengths = [suite.cipher.key_len(), 12 - explicit];
        let keys = secrets::key_block(suite, master, client_random, server_random, lengths);
        let [client, server] = keys.map(|keys| Opener::new(suite, &keys, false, explicit));
        Some([client?, server?])
    }

    fn new(suite: Suite, keys: &RecordKeys, tls13: bool, explicit: usize) -> Option<Opener> {
        let key = UnboundKey::new(suite.cipher, &keys.key[..suite.cipher.key_len()]).ok()?;
        Some(Opener { key: Box::new(LessSafeKey::new(key)), tls13, iv: keys.iv, explicit })
    }

    /// Opens the record with this number in place. `None` if it does not open; `sealed`
    /// is undefined then.
    pub fn open(&self, number: u64, record: Record, sealed: &mut [u8]) -> Option<OpenedRecord> {
        if self.tls13 {
            return self.open_tls13(number, record, sealed);
        }
        let (explicit, body) = sealed.split_at_mut_checked(self.explicit)?;
        let length = body.len().checked_sub(TAG)?;
        let nonce = if explicit.is_empty() { self.nonce_of_number(number) } else { self.nonce_with_explicit(explicit) };
        // RFC 5246 section 6.2.3.3: "additional_data = seq_num + TLSCompressed.type +
        // TLSCompressed.version + TLSCompressed.length".
        self.unseal(nonce, &additional_data(number, record, length), body)?;
        Some(OpenedRecord { kind: record.header[0], range: self.explicit..self.explicit + length })
    }

    /// Opens a record of TLS 1.3. RFC 8446 section 5.2: "additional_data =
    /// TLSCiphertext.opaque_type || TLSCiphertext.legacy_record_version || TLSCiphertext.length".
    /// Section 5.4: the content type is the last byte that is not zero.
    fn open_tls13(&self, number: u64, record: Record, sealed: &mut [u8]) -> Option<OpenedRecord> {
        let length = sealed.len().checked_sub(TAG)?;
        self.unseal(self.nonce_of_number(number), &record.header, sealed)?;
        let last = sealed[..length].iter().rposition(|byte| *byte != 0)?;
        Some(OpenedRecord { kind: sealed[last], range: 0..last })
    }

    fn unseal(&self, nonce: [u8; 12], additional: &[u8], sealed: &mut [u8]) -> Option<()> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.open_in_place(nonce, Aad::from(additional), sealed).ok().map(|_| ())
    }

    /// Whether it opens records of TLS 1.3.
    pub fn is_tls13(&self) -> bool {
        self.tls13
    }

    /// Bytes of a record beyond its header and its content.
    pub fn overhead(&self) -> u64 {
        (TAG + if self.tls13 { 1 } else { self.explicit }) as u64
    }

    /// The nonce of a record that sends none: its number, padded on the left, XOR the static IV
    /// (RFC 8446 section 5.3, RFC 7905 section 2).
    fn nonce_of_number(&self, number: u64) -> [u8; 12] {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(number.to_be_bytes()).for_each(|(byte, digit)| *byte ^= digit);
        nonce
    }

    /// The nonce of GCM in TLS 1.2: four bytes of the key block, eight of the record (RFC 5288
    /// section 3).
    fn nonce_with_explicit(&self, explicit: &[u8]) -> [u8; 12] {
        let mut nonce = self.iv;
        nonce[4..].copy_from_slice(explicit);
        nonce
    }
}

/// The additional data of TLS 1.2: number, type, version and length of the content.
fn additional_data(number: u64, record: Record, length: usize) -> [u8; 13] {
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

    /// RFC 8448 section 3: the client's application data, and the alert that closes the connection.
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
