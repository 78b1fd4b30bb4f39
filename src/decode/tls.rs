//! TLS records without keys (RFC 8446, 5246): handshake, names, sizes and times.
//!
//! ```text
//!  bytes of one direction ──► record.rs ──► a record is over ──► steps.rs
//!                                 │               ▲ what it is
//!                                 └► handshake.rs ┘
//! ```
//!
//! From TLS 1.3 on, records say "application data" of everything behind the ServerHello. What they are is then told by
//! their place and length, see [`Tls::application_data`]: a step may be wrong about a record, and says what it went by.

mod handshake;
mod record;
mod steps;
#[cfg(test)]
mod tests;

use self::handshake::{Message, Messages, Version, alert_length, finished_length};
use self::record::{ContentType, Cursor, Fragment, Record, Records};
use self::steps::{Negotiation, Seen, Steps};
use super::{Direction, Ending, Piece};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};

/// A step of a TLS connection, as the layer view shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// Time of its first record.
    pub time: Time,
    /// Packets that carried its records, in order of capture.
    pub packets: Vec<PacketNumber>,
    /// What it says: `ClientHello, ServerHello, Finished`, versions, names ...
    pub detail: String,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Up to the last handshake message before application data.
    Handshake,
    /// Application data of both sides.
    ApplicationData,
    /// Session tickets of TLS 1.3, which look like application data and are none.
    SessionTickets,
    /// An alert.
    Alert,
}

/// Whether a stream begins with a TLS record; `None` while there are too few bytes (five) to say.
pub fn sniff(bytes: &[u8]) -> Option<bool> {
    record::sniff(bytes)
}

/// What the ClientHello offers that a handshake begins with, once it is whole: the server's name (SNI), and protocols (ALPN).
pub fn client_hello(handshake: &[u8]) -> Option<(Option<String>, Vec<String>)> {
    handshake::offer(handshake)
}

/// Whether a TLS record that begins here holds a ClientHello (RFC 8446 section 4: msg_type 1 behind the five bytes of the record).
pub fn is_client_hello(bytes: &[u8]) -> bool {
    bytes.first() == Some(&22) && bytes.get(5) == Some(&1)
}

/// One TLS connection.
#[derive(Clone, Debug)]
pub struct Tls {
    halves: [Half; 2],
    negotiation: Negotiation,
    steps: Steps,
    /// When the last ClientHello was sent.
    asked: Option<Time>,
    /// From the ClientHello to its ServerHello.
    round_trip: Option<i64>,
    /// When the client's Finished of TLS 1.3 was sent.
    finished: Option<Time>,
}

/// One direction.
#[derive(Clone, Debug, Default)]
struct Half {
    records: Records,
    messages: Messages,
    phase: Phase,
    /// The record that is being read.
    current: Option<Current>,
    /// Records of TLS 1.3 that were counted to the encrypted handshake.
    encrypted: u8,
    /// Whether application data or tickets were seen.
    used: bool,
    /// The last record, where only what follows tells what it is: application data, a ticket or an alert.
    aside: Option<Seen>,
    /// Length of the records that are tickets.
    ticket: Option<u16>,
}

/// How far the handshake of one direction got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Messages can be read.
    #[default]
    Clear,
    /// Messages are encrypted.
    Encrypted,
    /// Its Finished was sent.
    Over,
}

#[derive(Clone, Debug)]
struct Current {
    record: Record,
    time: Time,
    packets: Vec<PacketNumber>,
    /// Its first two bytes, for an alert.
    start: [Option<u8>; 2],
    /// Whether handshake messages in it can be read.
    readable: bool,
}

impl Tls {
    /// A connection of which nothing was seen yet.
    pub fn new(limits: Limits) -> Tls {
        Tls {
            halves: Default::default(),
            negotiation: Negotiation::default(),
            steps: Steps::new(limits.packets_listed),
            asked: None,
            round_trip: None,
            finished: None,
        }
    }

    /// The next piece of one direction: `packets` carried its bytes, in order, and it was captured at `time`.
    pub fn push(&mut self, direction: Direction, piece: Piece<'_>, packets: &[PacketRange], time: Time) {
        match piece {
            Piece::Data(bytes) => {
                let mut cursor = Cursor::new(bytes, packets);
                while let Some(fragment) = self.half(direction).records.next(&mut cursor) {
                    self.fragment(direction, &fragment, time);
                }
            }
            Piece::Gap(length) => self.gap(direction, length),
            Piece::End(ending) => self.end(direction, ending),
        }
    }

    /// Whether all bytes so far could be TLS records. Once they could not, nothing further is read of that direction.
    pub fn is_tls(&self) -> bool {
        self.halves.iter().all(|half| !half.records.foreign)
    }

    /// The server's name that the client asked for (SNI, RFC 6066), lower case.
    pub fn server_name(&self) -> Option<&str> {
        self.negotiation.server_name.as_deref()
    }

    /// The steps so far. The last ones may still change.
    pub fn steps(&self) -> &[Step] {
        &self.steps.list
    }

    fn half(&mut self, direction: Direction) -> &mut Half {
        &mut self.halves[direction as usize]
    }

    fn fragment(&mut self, direction: Direction, fragment: &Fragment<'_>, time: Time) {
        let half = self.half(direction);
        let current = half.current.get_or_insert_with(|| Current {
            record: fragment.record,
            time,
            packets: Vec::new(),
            start: [None; 2],
            readable: fragment.record.content == ContentType::Handshake && half.phase == Phase::Clear,
        });
        let carriers = fragment.packets.iter().map(|range| range.packet);
        for packet in fragment.header.into_iter().flatten().chain(carriers) {
            if current.packets.last() != Some(&packet) {
                current.packets.push(packet);
            }
        }
        let empty = current.start.iter_mut().filter(|byte| byte.is_none());
        empty.zip(fragment.bytes).for_each(|(start, byte)| *start = Some(*byte));
        if current.readable {
            half.messages.push(fragment.bytes);
        }
        if fragment.last {
            self.record(direction);
        }
    }

    /// The current record of a direction is over, or will not be.
    fn record(&mut self, direction: Direction) {
        let newest = self.is_newest();
        let half = self.half(direction);
        let Some(Current { record, time, packets, start, readable }) = half.current.take() else { return };
        let phase = half.phase;
        let seen = Seen { direction, time, length: record.length, packets };
        match record.content {
            ContentType::ChangeCipherSpec => {
                // TLS 1.3 sends it for the sake of middleboxes, without meaning (RFC 8446 appendix D.4).
                if phase == Phase::Clear && !newest {
                    half.phase = Phase::Encrypted;
                }
                self.steps.handshake(&seen, phase == Phase::Over);
                self.said("ChangeCipherSpec");
            }
            ContentType::Handshake if phase == Phase::Clear => {
                self.steps.handshake(&seen, false);
                if readable {
                    self.messages(direction, time);
                }
            }
            // RFC 5246 section 7.4.9: "A Finished message is always sent immediately after a change cipher spec message".
            ContentType::Handshake => {
                half.phase = Phase::Over;
                self.steps.handshake(&seen, phase == Phase::Over);
                self.said(if phase == Phase::Encrypted && !newest { "Finished" } else { "encrypted messages" });
            }
            ContentType::ApplicationData if newest => self.application_data(seen),
            ContentType::ApplicationData => {
                half.used = true;
                self.steps.application(&seen);
            }
            ContentType::Alert => match start {
                [Some(level), Some(description)] if phase == Phase::Clear && record.length == 2 => {
                    self.steps.alert(&seen, &steps::alert(level, description));
                }
                _ => self.steps.alert(&seen, "encrypted alert"),
            },
        }
    }

    /// A record of TLS 1.3 that says it is application data, as all encrypted ones do. Without keys:
    ///
    /// - Before the client's Finished the server has nothing but its handshake to send, so far as servers do. Finished is
    ///   told by its length; at the most it is the third record, behind a certificate and its proof.
    /// - The server's first records, of one length in a row, before the client asks for anything or within two round trips
    ///   of its Finished, are tickets: servers send two or more as soon as they may (RFC 8446 section 4.6.1).
    /// - A record just as long as an alert, the last of its direction, is the alert that closes it (section 6.1).
    fn application_data(&mut self, seen: Seen) {
        /// Certificate, CertificateVerify and Finished of a client.
        const CLIENT_FLIGHT: u8 = 3;
        /// More than the messages of a server, a chain of certificates over several records; where the client's direction
        /// was not captured, its Finished never comes.
        const SERVER_FLIGHT: u8 = 8;
        /// EndOfEarlyData has no content (section 4.5).
        const END_OF_EARLY_DATA: u16 = 4 + 1 + 16;
        let finished = self.negotiation.cipher_suite.map(finished_length) == Some(seen.length);
        let [client, server] = &mut self.halves;
        match seen.direction {
            Direction::ClientToServer if client.phase == Phase::Encrypted => {
                let early = client.used && !finished && seen.length != END_OF_EARLY_DATA;
                if early {
                    return self.steps.application(&seen);
                }
                client.encrypted += 1;
                if finished || client.encrypted == CLIENT_FLIGHT {
                    client.phase = Phase::Over;
                    self.finished = Some(seen.time);
                }
                self.steps.handshake(&seen, false);
                self.said(if finished { "Finished" } else { "encrypted messages" });
            }
            Direction::ServerToClient if client.phase != Phase::Over && server.encrypted < SERVER_FLIGHT => {
                server.encrypted += 1;
                self.steps.handshake(&seen, false);
                self.said("encrypted messages");
            }
            _ => self.behind_handshake(seen),
        }
    }

    /// A record of TLS 1.3 behind the handshake, see [`Tls::application_data`].
    fn behind_handshake(&mut self, seen: Seen) {
        /// The head of a ticket and a short reference to what the server remembers, up to all that it needs to know.
        const TICKET: std::ops::Range<u16> = 50..1_024;
        let soon = self.finished.zip(self.round_trip).is_some_and(|(finished, round_trip)| {
            (0..=round_trip.saturating_mul(2)).contains(&seen.time.since(finished))
        });
        let unasked = self.finished.is_some() && !self.halves[Direction::ClientToServer as usize].used;
        let early = soon || unasked;
        let alert = self.negotiation.cipher_suite.map(alert_length) == Some(seen.length);
        let half = &mut self.halves[seen.direction as usize];
        if half.ticket == Some(seen.length) && early {
            return self.steps.ticket(&seen);
        }
        half.ticket = None;
        let unused = !std::mem::replace(&mut half.used, true);
        match half.aside.take() {
            Some(first) if TICKET.contains(&first.length) && first.length == seen.length && early => {
                half.ticket = Some(seen.length);
                self.steps.ticket(&first);
                return self.steps.ticket(&seen);
            }
            Some(data) => self.steps.application(&data),
            None => {}
        }
        let ticket = seen.direction == Direction::ServerToClient && unused && early && TICKET.contains(&seen.length);
        if ticket || alert {
            half.aside = Some(seen);
        } else {
            self.steps.application(&seen);
        }
    }

    fn gap(&mut self, direction: Direction, length: u64) {
        let half = self.half(direction);
        half.messages.lose();
        if let Some(current) = &mut half.current {
            current.readable = false;
        }
        if half.phase == Phase::Encrypted {
            half.phase = Phase::Over;
        }
        if !half.records.gap(length) {
            self.record(direction);
        }
    }

    fn end(&mut self, direction: Direction, ending: Ending) {
        self.record(direction);
        let alert = self.negotiation.cipher_suite.map(alert_length);
        match self.half(direction).aside.take() {
            Some(seen) if Some(seen.length) == alert && ending != Ending::Cut => {
                self.steps.alert(&seen, "encrypted alert (told by its length and place)");
            }
            Some(seen) => self.steps.application(&seen),
            None => {}
        }
    }

    /// Whether TLS 1.3 was chosen.
    fn is_newest(&self) -> bool {
        self.negotiation.version.is_some_and(|version| version >= Version::TLS_1_3)
    }

    fn said(&mut self, name: &'static str) {
        self.steps.message(name, &self.negotiation);
    }

    /// Reads the handshake messages that are complete.
    fn messages(&mut self, direction: Direction, time: Time) {
        while let Some(message) = self.half(direction).messages.next() {
            let name = match message {
                Message::ClientHello(hello) => {
                    self.asked = Some(time);
                    self.negotiation.server_name = hello.server_name.or(self.negotiation.server_name.take());
                    self.negotiation.offered_versions = hello.versions;
                    self.negotiation.offered_alpn = hello.alpn;
                    "ClientHello"
                }
                Message::ServerHello(hello) => {
                    self.negotiation.version = Some(hello.version);
                    self.negotiation.cipher_suite = Some(hello.cipher_suite);
                    self.negotiation.alpn = hello.alpn;
                    if hello.retry {
                        "HelloRetryRequest"
                    } else {
                        self.round_trip = self.asked.map(|asked| time.since(asked));
                        if hello.version >= Version::TLS_1_3 {
                            // RFC 8446 section 2: "All handshake messages after the ServerHello are now encrypted."
                            self.halves.iter_mut().for_each(|half| half.phase = Phase::Encrypted);
                        }
                        "ServerHello"
                    }
                }
                Message::Other(name) => name,
            };
            self.said(name);
        }
    }
}

/// The body of the fuzz target of this module: any bytes are the two directions of a TLS connection. However they are cut
/// into pieces, the steps are the same; packets are listed once and in order, within their limit.
///
/// The first byte is the length of the pieces, the second chooses where bytes are missing; the rest is split between client
/// and server in turns, each behind a byte that says whose it is and how much.
pub fn fuzz_tls(data: &[u8]) {
    let [size, gap, rest @ ..] = data else { return };
    let limits = Limits { packets_listed: 64, ..Limits::default() };
    let [mut whole, mut cut] = [Tls::new(limits), Tls::new(limits)];
    let mut rest = rest;
    let mut turn = 0_u64;
    while let [head, behind @ ..] = rest {
        let direction = if head & 1 == 0 { Direction::ClientToServer } else { Direction::ServerToClient };
        let (bytes, behind) = behind.split_at(usize::from(head >> 1).min(behind.len()));
        rest = behind;
        turn += 1;
        let time = Time(turn as i64);
        let range = |start: usize, end: usize| {
            [PacketRange { packet: PacketNumber(turn), start: start as u32, end: end as u32 }]
        };
        if u64::from(*gap) == turn {
            whole.push(direction, Piece::Gap(9), &[], time);
            cut.push(direction, Piece::Gap(9), &[], time);
        }
        whole.push(direction, Piece::Data(bytes), &range(0, bytes.len()), time);
        let size = usize::from(*size).max(1);
        for (index, piece) in bytes.chunks(size).enumerate() {
            let start = index * size;
            cut.push(direction, Piece::Data(piece), &range(start, start + piece.len()), time);
        }
    }
    for tls in [&mut whole, &mut cut] {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            tls.push(direction, Piece::End(Ending::Finished), &[], Time(turn as i64));
        }
    }
    assert_eq!(whole.steps(), cut.steps(), "cutting changes nothing");
    assert_eq!((whole.is_tls(), whole.server_name()), (cut.is_tls(), cut.server_name()));
    assert!(whole.steps().len() <= limits.packets_listed);
    assert!(whole.steps().iter().map(|step| step.packets.len()).sum::<usize>() <= limits.packets_listed);
    assert!(whole.steps().iter().all(|step| step.packets.is_sorted_by(|one, next| one < next)), "each once, in order");
}
