//! What each record of a TLS connection means, and the state that follows from it.
//!
//! In TLS 1.3, every record after the ServerHello has the type "application data". Without keys its
//! real type is inferred from its position and length (`interpreter/inference.rs`). Such a guess
//! can be wrong, so the text of the layer view names what it is based on.

mod inference;
mod missing_hello;

use super::direction_keys::{DirectionKeys, Epoch, RecordLocation, Skipped};
use super::early::EarlyData;
use super::handshake::{ClientHello, Message, Messages, ServerHello, Version, alert_length};
use super::keylog::{KeyLog, Label, Random};
use super::protect::OpenedRecord;
use super::record::ContentType;
use super::record_groups::{self, Negotiation, RecordGroups, RecordSummary};
use super::search::SessionSearch;
use super::suite::{self, Suite};
use super::{ReceivedRecord, Secrecy, TlsEvent, TlsEventSink};
use crate::capture::Time;
use crate::decode::{Anomaly, Direction, Ending};

/// Consecutive records that fail to open before this is reported. A handshake whose secrets are
/// missing has fewer records.
const FAILURES: u32 = 8;

/// Renegotiations whose secrets are stored. Servers allow few.
const RENEGOTIATIONS: usize = 64;

/// The state of a connection after the records so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Interpreter {
    halves: [DirectionState; 2],
    pub negotiation: Negotiation,
    /// The client randoms before a renegotiation.
    pub earlier_randoms: Vec<Random>,
    pub groups: RecordGroups,
    /// Time of the last ClientHello.
    client_hello_time: Option<Time>,
    /// Nanoseconds from the ClientHello to its ServerHello.
    round_trip: Option<i64>,
    /// Time of the client's Finished in TLS 1.3.
    client_finished_time: Option<Time>,
    pub secrecy: Secrecy,
    pub early_data: EarlyData,
    /// The search for the session, where the ClientHello was not captured.
    pub search: SessionSearch,
    /// A buffer for attempts to open a record.
    scratch: Vec<u8>,
}

/// The state of one direction.
#[derive(Clone, Debug, Default)]
struct DirectionState {
    messages: Messages,
    phase: HandshakePhase,
    keys: DirectionKeys,
    /// TLS 1.3 records that were counted as part of the encrypted handshake.
    handshake_records: u8,
    /// Whether application data or tickets were sent.
    carried_data: bool,
    /// The last record, while only later records can show whether it is application data, a ticket
    /// or an alert.
    undecided: Option<RecordSummary>,
    /// The length of the records that are tickets.
    ticket_length: Option<u16>,
    /// Whether the end was emitted.
    ended: bool,
    /// Whether it was reported that the records of this direction do not open.
    reported: bool,
}

/// The progress of the handshake in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HandshakePhase {
    /// Messages are in the clear.
    #[default]
    Clear,
    /// Messages are encrypted.
    Encrypted,
    /// The Finished of this direction was sent.
    Over,
}

impl Interpreter {
    pub fn new(packets_listed: usize) -> Interpreter {
        Interpreter { groups: RecordGroups::new(packets_listed), ..Interpreter::default() }
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
    pub fn lacks_secrets(&self, direction: Direction, received: &ReceivedRecord, keys: &KeyLog) -> bool {
        let Some(random) = self.negotiation.client_random.filter(|_| self.is_protected(direction, received)) else {
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
        half.keys.lose();
        if half.phase == HandshakePhase::Encrypted {
            half.phase = HandshakePhase::Over;
        }
    }

    /// Handles the end of a direction.
    pub fn end(&mut self, direction: Direction, ending: Ending, time: Time, sink: &mut TlsEventSink<'_>) {
        let alert = self.negotiation.cipher_suite.map(alert_length);
        match self.half(direction).undecided.take() {
            Some(summary) if Some(summary.length) == alert && ending != Ending::Cut => {
                self.groups.add_alert(&summary, "encrypted alert (recognised by its length and position)");
            }
            Some(summary) => self.groups.add_application_data(&summary, false),
            None => {}
        }
        if direction == Direction::ClientToServer {
            // The client can no longer reveal that the early data was rejected.
            self.early_data.set_accepted(true, sink);
        }
        self.emit_end(direction, ending, time, sink);
    }

    /// Emits the end of a direction, once.
    fn emit_end(&mut self, direction: Direction, ending: Ending, time: Time, sink: &mut TlsEventSink<'_>) {
        if self.is_opening() && !std::mem::replace(&mut self.half(direction).ended, true) {
            sink(TlsEvent::End { direction, ending, time });
        }
    }

    fn half(&mut self, direction: Direction) -> &mut DirectionState {
        &mut self.halves[direction as usize]
    }

    /// Whether TLS 1.3 was chosen.
    fn is_tls13(&self) -> bool {
        self.negotiation.is_tls13()
    }

    fn is_unsupported(&self) -> bool {
        let old = self.negotiation.version.is_some_and(|version| version < Version::TLS_1_2);
        old || self.negotiation.cipher_suite.is_some_and(|suite| Suite::of(suite).is_none())
    }

    /// Whether a record is encrypted. In TLS 1.3, and before any ServerHello, only
    /// application data is.
    fn is_protected(&self, direction: Direction, received: &ReceivedRecord) -> bool {
        match received.record.content {
            ContentType::ApplicationData => true,
            _ => {
                self.negotiation.version.is_some()
                    && !self.is_tls13()
                    && self.halves[direction as usize].phase != HandshakePhase::Clear
            }
        }
    }

    /// Interprets a record. Without `keys` no record is opened.
    pub fn interpret(
        &mut self,
        direction: Direction,
        received: &mut ReceivedRecord,
        keys: Option<&KeyLog>,
        sink: &mut TlsEventSink<'_>,
    ) {
        let protected = self.is_protected(direction, received);
        let opened = if protected { self.open_record(direction, received, keys, sink) } else { None };
        let summary = RecordSummary {
            direction,
            time: received.began,
            length: received.record.length,
            packets: std::mem::take(&mut received.packets),
        };
        match opened {
            Some(content) => self.interpret_opened(summary, received, &content, sink),
            None if protected || received.record.content == ContentType::ChangeCipherSpec => {
                self.interpret_unopened(summary, received)
            }
            None => self.interpret_clear(summary, received, sink),
        }
    }

    /// Opens a protected record in place.
    fn open_record(
        &mut self,
        direction: Direction,
        received: &mut ReceivedRecord,
        keys: Option<&KeyLog>,
        sink: &mut TlsEventSink<'_>,
    ) -> Option<OpenedRecord> {
        let unsupported = self.is_unsupported();
        let Interpreter { halves, negotiation, scratch, .. } = self;
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
        if self.search.is_searching(direction) {
            return None;
        }
        let half = &mut halves[direction as usize];
        let location = RecordLocation { direction, start: received.start, end: received.end };
        if !received.complete {
            half.keys.lose();
            return None;
        }
        let found = half.keys.open(negotiation, secrets, location, received.record, &mut received.body, scratch);
        let record = (received.start, received.end);
        match found {
            Some((content, skipped)) => {
                self.secrecy = Secrecy::Opened;
                if let Some(suite) = half.keys.tls13_suite() {
                    // Where the ServerHello was not captured, the keys reveal the version and the
                    // suite.
                    negotiation.version.get_or_insert(Version::TLS_1_3);
                    negotiation.cipher_suite.get_or_insert(suite.number);
                }
                if let Some(Skipped { records, start, content }) = skipped {
                    let anomaly = Anomaly::TlsRecordsLost {
                        offset: start,
                        length: received.start.saturating_sub(start),
                        records,
                    };
                    sink(TlsEvent::Anomaly { direction, record: (start, received.start), anomaly });
                    sink(TlsEvent::Lost { direction, length: content, time: received.time });
                }
                Some(content)
            }
            None => {
                let hopeless = unsupported || half.keys.failures >= FAILURES;
                if hopeless && !std::mem::replace(&mut half.reported, true) {
                    // A suite that is not supported concerns both directions.
                    self.half(direction.reversed()).reported |= unsupported;
                    self.report_unopened(direction, record, sink);
                }
                None
            }
        }
    }

    /// Reports that records do not open, and why.
    fn report_unopened(&mut self, direction: Direction, record: (u64, u64), sink: &mut TlsEventSink<'_>) {
        let anomaly = if self.is_unsupported() {
            self.secrecy = Secrecy::Unsupported;
            let version = self.negotiation.version.map(Version::name).unwrap_or_default();
            let suite = self.negotiation.cipher_suite.map(suite::name).unwrap_or_default();
            Anomaly::TlsUnsupported { what: format!("{suite} of {version}") }
        } else {
            if !self.is_opening() {
                self.secrecy = Secrecy::WrongSecrets;
            }
            Anomaly::TlsNotOpened { offset: record.0, before: self.half(direction).keys.opened }
        };
        sink(TlsEvent::Anomaly { direction, record, anomaly });
    }

    /// Interprets a record that was opened.
    fn interpret_opened(
        &mut self,
        summary: RecordSummary,
        received: &mut ReceivedRecord,
        content: &OpenedRecord,
        sink: &mut TlsEventSink<'_>,
    ) {
        let direction = summary.direction;
        let bytes = &received.body[content.range.clone()];
        match content.kind {
            22 => {
                let half = &mut self.halves[direction as usize];
                let again = half.phase == HandshakePhase::Over;
                half.messages.push(bytes);
                self.read_messages(&summary, false, again, sink);
            }
            23 => {
                self.half(direction).carried_data = true;
                self.groups.add_application_data(&summary, true);
                let (time, acknowledged, record) =
                    (received.time, received.acknowledged, (received.start, received.end));
                if self.halves[direction as usize].keys.is_early() {
                    self.early_data.push(bytes, record, time, acknowledged, sink);
                } else {
                    sink(TlsEvent::Data { direction, bytes, record, time, acknowledged });
                }
            }
            21 => {
                if let [level, description, ..] = *bytes {
                    self.groups.add_alert(&summary, &record_groups::alert_text(level, description));
                    if description == record_groups::CLOSE_NOTIFY {
                        self.emit_end(direction, Ending::Finished, received.time, sink);
                    }
                }
            }
            20 => self.change_cipher_spec(&summary),
            _ => {}
        }
        received.packets = summary.packets;
    }

    /// Interprets a record in the clear.
    fn interpret_clear(&mut self, summary: RecordSummary, received: &ReceivedRecord, sink: &mut TlsEventSink<'_>) {
        self.half(summary.direction).keys.skip_clear_record(received.end);
        match received.record.content {
            ContentType::Handshake => {
                self.groups.add_handshake(&summary, false);
                if received.complete {
                    self.half(summary.direction).messages.push(&received.body);
                    self.read_messages(&summary, true, false, sink);
                }
            }
            _ => match received.body[..] {
                [level, description] => self.groups.add_alert(&summary, &record_groups::alert_text(level, description)),
                _ => self.groups.add_alert(&summary, "encrypted alert"),
            },
        }
    }

    /// Interprets a ChangeCipherSpec.
    fn change_cipher_spec(&mut self, summary: &RecordSummary) {
        let newest = self.is_tls13();
        let older = !newest && self.negotiation.version.is_some();
        let half = self.half(summary.direction);
        let phase = half.phase;
        // TLS 1.3 sends it for the sake of middleboxes, without meaning (RFC 8446 appendix D.4).
        if !newest && phase == HandshakePhase::Clear {
            half.phase = HandshakePhase::Encrypted;
        }
        // Before the ServerHello it can only be one of TLS 1.3, sent before early data.
        if older {
            half.keys.change_cipher_spec();
        }
        self.groups.add_handshake(summary, phase == HandshakePhase::Over);
        self.add_message_name("ChangeCipherSpec");
    }

    /// Interprets a record that was not opened, or a ChangeCipherSpec, which needs no opening.
    fn interpret_unopened(&mut self, summary: RecordSummary, received: &ReceivedRecord) {
        let newest = self.is_tls13();
        let half = self.half(summary.direction);
        let phase = half.phase;
        match received.record.content {
            ContentType::ChangeCipherSpec => {
                half.keys.skip_clear_record(received.end);
                self.change_cipher_spec(&summary);
            }
            // RFC 5246 section 7.4.9: "A Finished message is always sent immediately after a change
            // cipher spec message".
            ContentType::Handshake => {
                half.phase = HandshakePhase::Over;
                self.groups.add_handshake(&summary, phase == HandshakePhase::Over);
                self.add_message_name(if phase == HandshakePhase::Encrypted && !newest {
                    "Finished"
                } else {
                    "encrypted messages"
                });
            }
            ContentType::ApplicationData if newest => self.encrypted_record(summary),
            ContentType::ApplicationData => {
                half.carried_data = true;
                self.groups.add_application_data(&summary, false);
            }
            ContentType::Alert => self.groups.add_alert(&summary, "encrypted alert"),
        }
    }

    /// Adds a message's name to the current handshake group.
    fn add_message_name(&mut self, name: &'static str) {
        self.groups.add_message_name(name, &self.negotiation);
    }

    /// Reads the handshake messages that this record completes.
    ///
    /// `counted`: the record was already added to a group. `again`: the handshake was over before.
    fn read_messages(&mut self, summary: &RecordSummary, mut counted: bool, again: bool, sink: &mut TlsEventSink<'_>) {
        let direction = summary.direction;
        while let Some(message) = self.half(direction).messages.next() {
            let name = match message {
                Message::NewSessionTicket if self.is_tls13() => {
                    self.groups.add_ticket(summary, "NewSessionTicket");
                    counted = true;
                    continue;
                }
                Message::KeyUpdate => {
                    self.half(direction).keys.update();
                    "KeyUpdate"
                }
                Message::EndOfEarlyData => {
                    self.early_data.set_accepted(true, sink);
                    self.half(direction).keys.advance(Epoch::Handshake);
                    "EndOfEarlyData"
                }
                Message::Finished => {
                    if direction == Direction::ClientToServer {
                        self.early_data.set_accepted(false, sink);
                    }
                    self.finish_handshake(summary);
                    "Finished"
                }
                Message::EncryptedExtensions(alpn, early) => {
                    self.early_data.set_accepted(early, sink);
                    self.negotiation.alpn = alpn.or(self.negotiation.alpn.take());
                    "EncryptedExtensions"
                }
                Message::ClientHello(hello) => {
                    self.client_hello(*hello, summary.time);
                    "ClientHello"
                }
                Message::ServerHello(hello) => self.server_hello(hello, summary.time),
                Message::NewSessionTicket => "NewSessionTicket",
                Message::Other(name) => name,
            };
            // A record with nothing but tickets is not part of the handshake.
            if !std::mem::replace(&mut counted, true) {
                self.groups.add_handshake(summary, again);
            }
            self.add_message_name(name);
        }
        if !counted && !again {
            self.groups.add_handshake(summary, false);
        }
    }

    fn client_hello(&mut self, hello: ClientHello, time: Time) {
        self.client_hello_time = Some(time);
        let negotiation = &mut self.negotiation;
        let earlier = negotiation.client_random.replace(hello.random).filter(|earlier| *earlier != hello.random);
        if self.earlier_randoms.len() < RENEGOTIATIONS {
            self.earlier_randoms.extend(earlier);
        }
        negotiation.server_name = hello.server_name.or(negotiation.server_name.take());
        negotiation.offered_versions = hello.versions;
        negotiation.offered_alpn = hello.alpn;
        if hello.early_data {
            self.half(Direction::ClientToServer).keys.begin_early();
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
        self.round_trip = self.client_hello_time.map(|client_hello_time| time.since(client_hello_time));
        if hello.version >= Version::TLS_1_3 {
            // RFC 8446 section 2: "All handshake messages after the ServerHello are now encrypted."
            self.halves.iter_mut().for_each(|half| half.phase = HandshakePhase::Encrypted);
        }
        "ServerHello"
    }

    /// Handles a Finished that was read. In TLS 1.3 other keys follow it (RFC 8446 section 7.3).
    fn finish_handshake(&mut self, summary: &RecordSummary) {
        let newest = self.is_tls13();
        let half = self.half(summary.direction);
        half.phase = HandshakePhase::Over;
        if newest {
            half.keys.advance(Epoch::Application);
            if summary.direction == Direction::ClientToServer {
                self.client_finished_time = Some(summary.time);
            }
        }
    }
}
