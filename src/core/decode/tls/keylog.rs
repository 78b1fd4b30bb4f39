//! The secrets of sessions, and the NSS key log format (`SSLKEYLOGFILE`) in which applications log
//! them. The decryption secrets blocks of pcapng contain the same format.
//!
//! ```text
//! CLIENT_RANDOM                    <client random> <master secret>      TLS 1.2
//! CLIENT_EARLY_TRAFFIC_SECRET      <client random> <secret>             TLS 1.3, 0-RTT
//! CLIENT_HANDSHAKE_TRAFFIC_SECRET  <client random> <secret>             TLS 1.3
//! SERVER_HANDSHAKE_TRAFFIC_SECRET  <client random> <secret>
//! CLIENT_TRAFFIC_SECRET_0          <client random> <secret>
//! SERVER_TRAFFIC_SECRET_0          <client random> <secret>
//! ```
//!
//! (draft-ietf-tls-keylogfile.) Lines with other labels, such as `EXPORTER_SECRET`, open no record
//! and are skipped.

use std::collections::VecDeque;
use std::fmt;

use rustc_hash::FxHashMap;

/// Sessions whose secrets are retained; the oldest is evicted first. One takes less than a
/// kilobyte. The log of a browser grows by some thousand sessions a day.
const SESSIONS: usize = 131_072;

/// The random bytes of a ClientHello, which identify its session.
pub type Random = [u8; 32];

/// A secret: as long as a hash, or 48 bytes for the master secret of TLS 1.2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    bytes: [u8; 48],
    length: u8,
}

impl Secret {
    /// A secret with these bytes; `None` if there are more than 48.
    pub fn new(bytes: &[u8]) -> Option<Secret> {
        let mut secret = Secret { bytes: [0; 48], length: u8::try_from(bytes.len()).ok()? };
        secret.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(secret)
    }

    /// The bytes of the secret.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Secret {
    /// Prints the length only, so that no secret gets into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.length)
    }
}

words! {
    /// The purpose of a secret, as a line of a key log names it.
    pub enum Label {
        /// The master secret of TLS 1.2.
        Master = "CLIENT_RANDOM",
        /// The traffic secret of the client's early data.
        ClientEarly = "CLIENT_EARLY_TRAFFIC_SECRET",
        /// The traffic secret of the client's encrypted handshake.
        ClientHandshake = "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        /// The traffic secret of the server's encrypted handshake.
        ServerHandshake = "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        /// The traffic secret of the client's application data, before any key update.
        ClientTraffic = "CLIENT_TRAFFIC_SECRET_0",
        /// The traffic secret of the server's application data, before any key update.
        ServerTraffic = "SERVER_TRAFFIC_SECRET_0",
    }
}

/// The secrets of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets([Option<Secret>; 6]);

impl Secrets {
    /// The secret for this purpose.
    pub fn get(&self, label: Label) -> Option<&Secret> {
        self.0[label as usize].as_ref()
    }

    /// One secret alone.
    pub(super) fn of(label: Label, secret: Secret) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.0[label as usize] = Some(secret);
        secrets
    }

    /// The secrets as lines of a key log.
    pub fn lines(&self, random: &Random) -> String {
        let mut lines = String::new();
        for label in Label::ALL {
            let name = label.name();
            if let Some(secret) = self.get(label) {
                lines += &format!("{name} {} {}\n", hex(random), hex(secret.as_bytes()));
            }
        }
        lines
    }
}

/// The secrets of all sessions of a capture.
#[derive(Clone, Debug, Default)]
pub struct KeyLog {
    sessions: FxHashMap<Random, Secrets>,
    /// The client randoms of the sessions in order of arrival.
    order: VecDeque<Random>,
}

impl KeyLog {
    /// Reads whole lines. Returns whether any of them was new. Anything that is no line of a key
    /// log is skipped. Where a session has two secrets for one purpose, the first counts: no writer
    /// has a reason to change a secret.
    pub fn add(&mut self, lines: &[u8]) -> bool {
        let mut new = false;
        for line in lines.split(|byte| matches!(byte, b'\n' | b'\r')) {
            if let Some((label, random, secret)) = read(line) {
                new |= self.insert(label, random, secret);
            }
        }
        new
    }

    /// The secrets of the session with this client random.
    pub fn get(&self, random: &Random) -> Option<&Secrets> {
        self.sessions.get(random)
    }

    /// All sessions, the latest first.
    pub fn sessions(&self) -> impl Iterator<Item = (&Random, &Secrets)> {
        self.order.iter().rev().filter_map(|random| self.sessions.get_key_value(random))
    }

    /// Whether there are no sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Adds one secret. Returns whether it was new.
    pub fn insert(&mut self, label: Label, random: Random, secret: Secret) -> bool {
        if !self.sessions.contains_key(&random) {
            if self.order.len() >= SESSIONS
                && let Some(oldest) = self.order.pop_front()
            {
                self.sessions.remove(&oldest);
            }
            self.order.push_back(random);
        }
        let place = &mut self.sessions.entry(random).or_default().0[label as usize];
        let new = place.is_none();
        place.get_or_insert(secret);
        new
    }
}

/// Parses a line: `label`, 64 hexadecimal digits, then those of the secret. `None`
/// for anything else.
fn read(line: &[u8]) -> Option<(Label, Random, Secret)> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let label = Label::named(std::str::from_utf8(words.next()?).ok()?)?;
    let mut random = [0; 32];
    unhex(words.next()?, &mut random).filter(|length| *length == 32)?;
    let mut secret = [0; 48];
    let length = unhex(words.next()?, &mut secret)?;
    // RFC 5246 section 8.1: "The master secret is always exactly 48 bytes in length"; RFC 8446
    // section 7.1: the others are as long as the hash, SHA-256 or SHA-384.
    let fits = if label == Label::Master { length == 48 } else { matches!(length, 32 | 48) };
    (fits && words.next().is_none()).then_some(())?;
    Some((label, random, Secret::new(&secret[..length])?))
}

/// Parses a line with a dash for the client random. `None` for anything else.
pub(super) fn read_unnamed(line: &[u8]) -> Option<(Label, Secret)> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    let name = words.next()?;
    words.next().filter(|random| *random == b"-")?;
    // As a line of a session that does not exist.
    let named = [name, b" ", &[b'0'; 64], b" ", words.next()?].concat();
    let (label, _, secret) = read(&named).filter(|_| words.next().is_none())?;
    Some((label, secret))
}

/// Decodes hexadecimal digits into `out`. Returns the number of bytes.
fn unhex(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let length = text.len() / 2;
    let out = out.get_mut(..length).filter(|_| text.len().is_multiple_of(2))?;
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(length)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The body of the fuzz target of this module: any bytes are a key log.
///
/// Lines that were read, written and read again give the same secrets. The order of lines of
/// different sessions does not matter.
pub fn fuzz_keylog(data: &[u8]) {
    let mut log = KeyLog::default();
    log.add(data);
    assert_eq!(log.sessions.len(), log.order.len());
    assert!(log.sessions.len() <= data.len() / 64 + 1, "a session takes a line");
    let written: String = log.sessions.iter().map(|(random, secrets)| secrets.lines(random)).collect();
    let mut again = KeyLog::default();
    assert_eq!(again.add(written.as_bytes()), !log.is_empty());
    assert_eq!(again.sessions, log.sessions);
    assert!(!again.add(data), "nothing is new the second time");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(label: &str, random: u8, secret: u8, length: usize) -> String {
        format!("{label} {} {}\n", hex(&[random; 32]), hex(&vec![secret; length]))
    }

    #[test]
    fn lines_as_applications_write_them() {
        let mut log = KeyLog::default();
        let text = [
            "# SSL/TLS secrets log file, generated by NSS\r\n",
            &line("CLIENT_RANDOM", 1, 0xaa, 48).to_uppercase(),
            &line("SERVER_TRAFFIC_SECRET_0", 2, 0xbb, 32).replace(' ', "\t "),
            &line("EXPORTER_SECRET", 2, 0xcc, 32),
            "CLIENT_RANDOM zz zz\n",
            line("CLIENT_TRAFFIC_SECRET_0", 2, 0xdd, 48).trim_end(),
        ]
        .concat();
        assert!(log.add(text.as_bytes()));
        assert_eq!(log.get(&[1; 32]).and_then(|s| s.get(Label::Master)), Secret::new(&[0xaa; 48]).as_ref());
        let second = log.get(&[2; 32]).expect("a session");
        assert_eq!(second.0.iter().flatten().count(), 2);
        assert_eq!(second.get(Label::ClientTraffic), Secret::new(&[0xdd; 48]).as_ref());
        assert!(!log.add(text.as_bytes()), "nothing new");
    }

    #[test]
    fn what_is_no_line_is_passed_over() {
        let mut log = KeyLog::default();
        for text in [
            line("CLIENT_RANDOM", 1, 1, 32),
            line("CLIENT_TRAFFIC_SECRET_0", 1, 1, 47),
            line("CLIENT_TRAFFIC_SECRET_0", 1, 1, 32).replace('\n', " more\n"),
            line("RSA", 1, 1, 48),
            "CLIENT_RANDOM".to_owned(),
            format!("CLIENT_RANDOM {} {}", "01".repeat(31), "01".repeat(48)),
            format!("CLIENT_RANDOM {} {}", "01".repeat(4000), "01".repeat(48)),
        ] {
            assert!(!log.add(text.as_bytes()), "{text}");
        }
        assert!(log.is_empty());
    }

    #[test]
    fn the_oldest_session_is_forgotten() {
        let mut log = KeyLog::default();
        for number in 0..=SESSIONS {
            let mut random = [0; 32];
            random[..8].copy_from_slice(&(number as u64).to_be_bytes());
            log.insert(Label::Master, random, Secret::new(&[1; 48]).expect("48 bytes"));
        }
        assert_eq!((log.sessions.len(), log.order.len()), (SESSIONS, SESSIONS));
        assert!(log.get(&[0; 32]).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_key_log(data: Vec<u8>) {
            fuzz_keylog(&data);
        }

        #[test]
        fn damaged_lines_are_a_key_log(at in any::<prop::sample::Index>(), byte: u8, random: u8) {
            let mut text = [line("CLIENT_RANDOM", random, 7, 48), line("CLIENT_TRAFFIC_SECRET_0", 1, 8, 32)].concat().into_bytes();
            let at = at.index(text.len());
            text[at] = byte;
            fuzz_keylog(&text);
        }
    }
}
