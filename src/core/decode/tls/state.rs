//! What each record of a TLS connection means, and the state that follows from it.
//!
//! In TLS 1.3, every record after the ServerHello has the type "application data". Without keys its
//! real type is inferred from its position and length (`interpreter/inference.rs`). Such a guess
//! can be wrong, so the text of the layer view names what it is based on.

mod guess;
mod late;

use super::early::Early;
use super::handshake::{ClientHello, Message, Messages, ServerHello, Version, alert_length};
use super::keylog::{KeyLog, Label};
use super::opening::{Epoch, Opening, Place, Skipped};
use super::protect::Content;
use super::record::ContentType;
use super::search::Search;
use super::steps::{self, Negotiation, Seen, Steps};
use super::suite::{self, Suite};
use super::{Secrecy, Sink, TlsEvent, Whole};
use crate::capture::Time;
use crate::decode::{Anomaly, Direction, Ending};

/// Consecutive records that fail to open before this is reported. A handshake whose secrets are
/// missing has fewer records.
const FAILURES: u32 = 8;

/// The state of a connection after the records so far.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    halves: [Half; 2],
    pub negotiation: Negotiation,
    pub steps: Steps,
    /// Time of the last ClientHello.
    asked: Option<Time>,
    /// Nanoseconds from the ClientHello to its ServerHello.
    round_trip: Option<i64>,
    /// Time of the client's Finished in TLS 1.3.
    finished: Option<Time>,
    pub secrecy: Secrecy,
    pub early: Early,
    /// The search for the session, where the ClientHello was not captured.
    pub search: Search,
    /// A buffer for attempts to open a record.
    scratch: Vec<u8>,
}

/// The state of one direction.
#[derive(Clone, Debug, Default)]
struct Half {
    messages: Messages,
    phase: Phase,
    opening: Opening,
    /// TLS 1.3 records that were counted as part of the encrypted handshake.
    encrypted: u8,
    /// Whether application data or tickets were sent.
    used: bool,
    /// The last record, while only later records can show whether it is application data, a ticket
    /// or an alert.
    aside: Option<Seen>,
    /// The length of the records that are tickets.
    ticket: Option<u16>,
    /// Whether the end was emitted.
    ended: bool,
    /// Whether it was reported that the records of this direction do not open.
    complained: bool,
}

/// The progress of the handshake in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Messages are in the clear.
    #[default]
    Clear,
    /// Messages are encrypted.
    Encrypted,
    /// The Finished of this direction was sent.
    Over,
}

impl State {
    pub fn new(packets_listed: usize) -> State {
        State { steps: Steps::new(packets_listed), ..State::default() }
    }

    /// Whether records are being opened.
    pub fn is_opening(&self) -> bool {
        self.secrecy == Secrecy::Opened
    }

    /// Whether the key log has any secret of this session.
    pub fn has_secrets(&self, keys: &KeyLog) -> bool {
        self.negotiation.client_random.is_some_and(|random| keys.get(&random).is_some())
    }

    /// Whether a record is protected, its session is known, and the secret of the session's
    /// application data is still missing.
    pub fn must_wait(&self, direction: Direction, whole: &Whole, keys: &KeyLog) -> bool {
        let Some(random) = self.negotiation.client_random.filter(|_| self.is_protected(direction, whole)) else {
            return false;
        };
        let label = match (self.negotiation.version, direction) {
            (Some(version), _) if version < Version::TLS_1_3 => Label::Master,
            (_, Direction::ClientToServer) => Label::ClientTraffic,
            (_, Direction::ServerToClient) => Label::ServerTraffic,
        };
        keys.get(&random).is_none_or(|secrets| secrets.get(label).is_none())
    }

    /// Notes that bytes of a direction were not captured.
    pub fn lose(&mut self, direction: Direction) {
        let half = self.half(direction);
        half.messages.lose();
        half.opening.lose();
        if half.phase == Phase::Encrypted {
            half.phase = Phase::Over;
        }
    }

    /// Handles the end of a direction.
    pub fn end(&mut self, direction: Direction, ending: Ending, time: Time, sink: &mut Sink<'_>) {
        let alert = self.negotiation.cipher_suite.map(alert_length);
        match self.half(direction).aside.take() {
            Some(seen) if Some(seen.length) == alert && ending != Ending::Cut => {
                self.steps.alert(&seen, "encrypted alert (told by its length and place)");
            }
            Some(seen) => self.steps.application(&seen, false),
            None => {}
        }
        if direction == Direction::ClientToServer {
            // The client can no longer reveal that the early data was rejected.
            self.early.decide(true, sink);
        }
        self.over(direction, ending, time, sink);
    }

    /// Emits the end of a direction, once.
    fn over(&mut self, direction: Direction, ending: Ending, time: Time, sink: &mut Sink<'_>) {
        if self.is_opening() && !std::mem::replace(&mut self.half(direction).ended, true) {
            sink(TlsEvent::End { direction, ending, time });
        }
    }

    fn half(&mut self, direction: Direction) -> &mut Half {
        &mut self.halves[direction as usize]
    }

    /// Whether TLS 1.3 was chosen.
    fn is_newest(&self) -> bool {
        self.negotiation.is_newest()
    }

    fn is_unsupported(&self) -> bool {
        let old = self.negotiation.version.is_some_and(|version| version < Version::TLS_1_2);
        old || self.negotiation.cipher_suite.is_some_and(|suite| Suite::of(suite).is_none())
    }

    /// Whether a record is encrypted. In TLS 1.3, and before any ServerHello, only
    /// application data is.
    fn is_protected(&self, direction: Direction, whole: &Whole) -> bool {
        match whole.record.content {
            ContentType::ApplicationData => true,
            _ => {
                self.negotiation.version.is_some()
                    && !self.is_newest()
                    && self.halves[direction as usize].phase != Phase::Clear
            }
        }
    }

    /// Interprets a record. Without `keys` no record is opened.
    pub fn record(&mut self, direction: Direction, whole: &mut Whole, keys: Option<&KeyLog>, sink: &mut Sink<'_>) {
        let protected = self.is_protected(direction, whole);
        let opened = if protected { self.open(direction, whole, keys, sink) } else { None };
        let seen = Seen {
            direction,
            time: whole.began,
            length: whole.record.length,
            packets: std::mem::take(&mut whole.packets),
        };
        match opened {
            Some(content) => self.opened(seen, whole, &content, sink),
            None if protected || whole.record.content == ContentType::ChangeCipherSpec => self.sealed(seen, whole),
            None => self.clear(seen, whole, sink),
        }
    }

    /// Opens a protected record in place.
    fn open(
        &mut self,
        direction: Direction,
        whole: &mut Whole,
        keys: Option<&KeyLog>,
        sink: &mut Sink<'_>,
    ) -> Option<Content> {
        let unsupported = self.is_unsupported();
        let State { halves, negotiation, scratch, .. } = self;
        let Some(random) = negotiation.client_random else {
            self.secrecy = Secrecy::Late;
            return None;
        };
        let Some(secrets) = keys.and_then(|keys| keys.get(&random)) else {
            if !self.is_opening() {
                self.secrecy = Secrecy::NoSecrets;
            }
            return None;
        };
        if self.search.seeks(direction) {
            return None;
        }
        let half = &mut halves[direction as usize];
        let place = Place { direction, start: whole.start, end: whole.end };
        if !whole.complete {
            half.opening.lose();
            return None;
        }
        let found = half.opening.open(negotiation, secrets, place, whole.record, &mut whole.body, scratch);
        let record = (whole.start, whole.end);
        match found {
            Some((content, skipped)) => {
                self.secrecy = Secrecy::Opened;
                if let Some(suite) = half.opening.newest_suite() {
                    // Where the ServerHello was not captured, the keys reveal the version and the
                    // suite.
                    negotiation.version.get_or_insert(Version::TLS_1_3);
                    negotiation.cipher_suite.get_or_insert(suite.number);
                }
                if let Some(Skipped { records, start, content }) = skipped {
                    let anomaly =
                        Anomaly::TlsRecordsLost { offset: start, length: whole.start.saturating_sub(start), records };
                    sink(TlsEvent::Anomaly { direction, record: (start, whole.start), anomaly });
                    sink(TlsEvent::Lost { direction, length: content, time: whole.time });
                }
                Some(content)
            }
            None => {
                let hopeless = unsupported || half.opening.failures >= FAILURES;
                if hopeless && !std::mem::replace(&mut half.complained, true) {
                    // A suite that is not supported concerns both directions.
                    self.half(direction.reversed()).complained |= unsupported;
                    self.complain(direction, record, sink);
                }
                None
            }
        }
    }

    /// Reports that records do not open, and why.
    fn complain(&mut self, direction: Direction, record: (u64, u64), sink: &mut Sink<'_>) {
        let anomaly = if self.is_unsupported() {
            self.secrecy = Secrecy::Unsupported;
            let version = self.negotiation.version.map(Version::name).unwrap_or_default();
            let suite = self.negotiation.cipher_suite.map(suite::name).unwrap_or_default();
            Anomaly::TlsUnsupported { what: format!("{suite} of {version}") }
        } else {
            if !self.is_opening() {
                self.secrecy = Secrecy::WrongSecrets;
            }
            Anomaly::TlsNotOpened { offset: record.0, before: self.half(direction).opening.opened }
        };
        sink(TlsEvent::Anomaly { direction, record, anomaly });
    }

    /// Interprets a record that was opened.
    fn opened(&mut self, seen: Seen, whole: &mut Whole, content: &Content, sink: &mut Sink<'_>) {
        let direction = seen.direction;
        let bytes = &whole.body[content.range.clone()];
        match content.kind {
            22 => {
                let half = &mut self.halves[direction as usize];
                let again = half.phase == Phase::Over;
                half.messages.push(bytes);
                self.messages(&seen, false, again, sink);
            }
            23 => {
                self.half(direction).used = true;
                self.steps.application(&seen, true);
                let (time, acknowledged, record) = (whole.time, whole.acknowledged, (whole.start, whole.end));
                if self.halves[direction as usize].opening.is_early() {
                    self.early.push(bytes, record, time, acknowledged, sink);
                } else {
                    sink(TlsEvent::Data { direction, bytes, record, time, acknowledged });
                }
            }
            21 => {
                if let [level, description, ..] = *bytes {
                    self.steps.alert(&seen, &steps::alert(level, description));
                    if description == steps::CLOSE_NOTIFY {
                        self.over(direction, Ending::Finished, whole.time, sink);
                    }
                }
            }
            20 => self.change_cipher_spec(&seen),
            _ => {}
        }
        whole.packets = seen.packets;
    }

    /// Interprets a record in the clear.
    fn clear(&mut self, seen: Seen, whole: &Whole, sink: &mut Sink<'_>) {
        self.half(seen.direction).opening.pass(whole.end);
        match whole.record.content {
            ContentType::Handshake => {
                self.steps.handshake(&seen, false);
                if whole.complete {
                    self.half(seen.direction).messages.push(&whole.body);
                    self.messages(&seen, true, false, sink);
                }
            }
            _ => match whole.body[..] {
                [level, description] => self.steps.alert(&seen, &steps::alert(level, description)),
                _ => self.steps.alert(&seen, "encrypted alert"),
            },
        }
    }

    /// Interprets a ChangeCipherSpec.
    fn change_cipher_spec(&mut self, seen: &Seen) {
        let newest = self.is_newest();
        let older = !newest && self.negotiation.version.is_some();
        let half = self.half(seen.direction);
        let phase = half.phase;
        // TLS 1.3 sends it for the sake of middleboxes, without meaning (RFC 8446 appendix D.4).
        if !newest && phase == Phase::Clear {
            half.phase = Phase::Encrypted;
        }
        // Before the ServerHello it can only be one of TLS 1.3, sent before early data.
        if older {
            half.opening.change_cipher_spec();
        }
        self.steps.handshake(seen, phase == Phase::Over);
        self.said("ChangeCipherSpec");
    }

    /// Interprets a record that was not opened, or a ChangeCipherSpec, which needs no opening.
    fn sealed(&mut self, seen: Seen, whole: &Whole) {
        let newest = self.is_newest();
        let half = self.half(seen.direction);
        let phase = half.phase;
        match whole.record.content {
            ContentType::ChangeCipherSpec => {
                half.opening.pass(whole.end);
                self.change_cipher_spec(&seen);
            }
            // RFC 5246 section 7.4.9: "A Finished message is always sent immediately after a change
            // cipher spec message".
            ContentType::Handshake => {
                half.phase = Phase::Over;
                self.steps.handshake(&seen, phase == Phase::Over);
                self.said(if phase == Phase::Encrypted && !newest { "Finished" } else { "encrypted messages" });
            }
            ContentType::ApplicationData if newest => self.application_data(seen),
            ContentType::ApplicationData => {
                half.used = true;
                self.steps.application(&seen, false);
            }
            ContentType::Alert => self.steps.alert(&seen, "encrypted alert"),
        }
    }

    /// Adds a message's name to the current handshake group.
    fn said(&mut self, name: &'static str) {
        self.steps.message(name, &self.negotiation);
    }

    /// Reads the handshake messages that this record completes.
    ///
    /// `counted`: the record was already added to a group. `again`: the handshake was over before.
    fn messages(&mut self, seen: &Seen, mut counted: bool, again: bool, sink: &mut Sink<'_>) {
        let direction = seen.direction;
        while let Some(message) = self.half(direction).messages.next() {
            let name = match message {
                Message::NewSessionTicket if self.is_newest() => {
                    self.steps.ticket(seen, "NewSessionTicket");
                    counted = true;
                    continue;
                }
                Message::KeyUpdate => {
                    self.half(direction).opening.update();
                    "KeyUpdate"
                }
                Message::EndOfEarlyData => {
                    self.early.decide(true, sink);
                    self.half(direction).opening.advance(Epoch::Handshake);
                    "EndOfEarlyData"
                }
                Message::Finished => {
                    if direction == Direction::ClientToServer {
                        self.early.decide(false, sink);
                    }
                    self.finish(seen);
                    "Finished"
                }
                Message::EncryptedExtensions(alpn, early) => {
                    self.early.decide(early, sink);
                    self.negotiation.alpn = alpn.or(self.negotiation.alpn.take());
                    "EncryptedExtensions"
                }
                Message::ClientHello(hello) => {
                    self.client_hello(*hello, seen.time);
                    "ClientHello"
                }
                Message::ServerHello(hello) => self.server_hello(hello, seen.time),
                Message::NewSessionTicket => "NewSessionTicket",
                Message::Other(name) => name,
            };
            // A record with nothing but tickets is not part of the handshake.
            if !std::mem::replace(&mut counted, true) {
                self.steps.handshake(seen, again);
            }
            self.said(name);
        }
        if !counted && !again {
            self.steps.handshake(seen, false);
        }
    }

    fn client_hello(&mut self, hello: ClientHello, time: Time) {
        self.asked = Some(time);
        let negotiation = &mut self.negotiation;
        negotiation.client_random = Some(hello.random);
        negotiation.server_name = hello.server_name.or(negotiation.server_name.take());
        negotiation.offered_versions = hello.versions;
        negotiation.offered_alpn = hello.alpn;
        if hello.early_data {
            self.half(Direction::ClientToServer).opening.begin_early();
        }
    }

    fn server_hello(&mut self, hello: ServerHello, time: Time) -> &'static str {
        let negotiation = &mut self.negotiation;
        negotiation.version = Some(hello.version);
        negotiation.cipher_suite = Some(hello.cipher_suite);
        negotiation.alpn = hello.alpn;
        if hello.retry {
            return "HelloRetryRequest";
        }
        negotiation.server_random = Some(hello.random);
        negotiation.resumed = hello.resumed;
        self.round_trip = self.asked.map(|asked| time.since(asked));
        if hello.version >= Version::TLS_1_3 {
            // RFC 8446 section 2: "All handshake messages after the ServerHello are now encrypted."
            self.halves.iter_mut().for_each(|half| half.phase = Phase::Encrypted);
        }
        "ServerHello"
    }

    /// Handles a Finished that was read. In TLS 1.3 other keys follow it (RFC 8446 section 7.3).
    fn finish(&mut self, seen: &Seen) {
        let newest = self.is_newest();
        let half = self.half(seen.direction);
        half.phase = Phase::Over;
        if newest {
            half.opening.advance(Epoch::Application);
            if seen.direction == Direction::ClientToServer {
                self.finished = Some(seen.time);
            }
        }
    }
}
