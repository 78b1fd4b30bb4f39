//! TLS records and the handshake (RFC 8446, 5246): explained without keys, opened with the secrets of a key log.
//!
//! ```text
//!  bytes of one direction ─► record.rs ─► a record is over ─► state.rs ─► handshake.rs   what was agreed on
//!                                                               │  │  └──► steps.rs       what the layer view shows
//!                  key log ─► keylog.rs ─► opening.rs ◄─────────┘  └─────► TlsEvent       plaintext
//!                               search.rs ◄─┤ which keys, which number
//!                                           ├─► secrets.rs   secret to keys      suite.rs   what a suite needs
//!                                           └─► protect.rs   one record, opened
//! ```
//!
//! **Secrets that come later.** Applications log secrets while they shake hands, so whoever reads the log live may see records first. From the
//! first record that waits for its secrets, all records of the connection are held, beside being explained without keys; when the
//! secrets come, the connection is set back to where it began to wait and the records are read again.

mod early;
mod fuzz;
mod handshake;
pub mod keylog;
mod opening;
mod protect;
mod record;
mod search;
mod secrets;
mod state;
mod steps;
mod suite;
#[cfg(test)]
mod tests;

use self::keylog::KeyLog;
use self::record::{ContentType, Cursor, Fragment, HEADER, Record, Records};
use self::state::State;
use super::{Anomaly, Direction, Ending, Piece};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};

pub use self::fuzz::fuzz_tls;
pub use self::keylog::fuzz_keylog;

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
    /// Application data of both sides that was not opened.
    ApplicationData,
    /// Session tickets of TLS 1.3, which look like application data and are none.
    SessionTickets,
    /// An alert.
    Alert,
    /// Application data of both sides that was opened.
    Decrypted,
}

/// What the hellos agreed on, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// `TLS 1.3`.
    pub version: Option<String>,
    /// As the IANA registry names it.
    pub cipher_suite: Option<String>,
    /// The server's name that the client asked for (SNI, RFC 6066), lower case.
    pub server_name: Option<String>,
    /// The protocol chosen (ALPN, RFC 7301).
    pub alpn: Option<String>,
    /// An earlier session was resumed.
    pub resumed: bool,
}

/// Whether the records of a connection could be opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrecy {
    /// Nothing was protected so far.
    #[default]
    Clear,
    /// Records were opened.
    Opened,
    /// No secrets of this session are at hand.
    NoSecrets,
    /// The ClientHello was not captured, without which nobody can tell which secrets to take.
    Late,
    /// There are secrets, and they do not open its records.
    WrongSecrets,
    /// There are secrets, and a cipher suite or version that is not opened.
    Unsupported,
}

/// What TLS carried.
#[derive(Debug)]
pub enum TlsEvent<'a> {
    /// The application data of one record.
    Data {
        /// Which way.
        direction: Direction,
        /// The plaintext.
        bytes: &'a [u8],
        /// Where the record stands in the connection's stream: its header's first byte, and behind its last.
        record: (u64, u64),
        /// When its last byte was captured.
        time: Time,
        /// Offset of the other direction that its sender had seen.
        acknowledged: u64,
    },
    /// Application data that was never seen; its length is exact where only its records' number was lost.
    Lost {
        /// Which way.
        direction: Direction,
        /// How many bytes.
        length: u64,
        /// When that was found.
        time: Time,
    },
    /// Nothing follows: `close_notify`, or the end of the connection.
    End {
        /// Which way.
        direction: Direction,
        /// How.
        ending: Ending,
        /// When.
        time: Time,
    },
    /// Client and server were taken for each other so far: from here on, this event included, directions are the other way round.
    Reversed,
    /// Something odd.
    Anomaly {
        /// Which way.
        direction: Direction,
        /// Where, in the connection's stream.
        record: (u64, u64),
        /// What.
        anomaly: Anomaly,
    },
}

/// Where events go.
pub type Sink<'s> = dyn FnMut(TlsEvent<'_>) + 's;

/// What goes with a piece.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival<'a> {
    /// The packets that carried its bytes, in order.
    pub packets: &'a [PacketRange],
    /// When it was captured.
    pub time: Time,
    /// Offset in the other direction up to which the sender had seen.
    pub acknowledged: u64,
}

/// Whether a stream begins with a TLS record; `None` while there are too few bytes to say: five, or of a handshake six, since the first message tells
/// whose side this is.
pub fn sniff(bytes: &[u8]) -> Option<bool> {
    record::sniff(bytes).filter(|is_record| !is_record || bytes[0] != 22 || bytes.len() > 5)
}

/// Whether bytes look like a record of application data: in the middle of a connection, the only ones that are looked for.
pub fn sniff_application_data(bytes: &[u8]) -> bool {
    bytes.starts_with(&[23, 3, 3]) && record::sniff(bytes) == Some(true)
}

/// Whether a TLS record that begins here holds a ClientHello (RFC 8446 section 4: msg_type 1 behind the five bytes of the record).
pub fn is_client_hello(bytes: &[u8]) -> bool {
    bytes.first() == Some(&22) && bytes.get(5) == Some(&1)
}

/// One TLS connection.
#[derive(Debug)]
pub struct Tls {
    framing: [Framing; 2],
    state: State,
    waiting: Option<Waiting>,
    /// It waited in vain: records are held no more.
    gave_up: bool,
}

/// The bytes of one direction on their way to records.
#[derive(Debug, Default)]
struct Framing {
    records: Records,
    /// Offset of the next byte.
    offset: u64,
    /// The record that is being read.
    open: bool,
    current: Whole,
    ended: bool,
}

/// A record, as far as it came.
#[derive(Clone, Debug, Default)]
struct Whole {
    record: Record,
    /// Offset of its header.
    start: u64,
    /// Offset behind what came of it.
    end: u64,
    /// Of its first byte, and of its last.
    began: Time,
    time: Time,
    acknowledged: u64,
    /// The packets that carried it, in order.
    packets: Vec<PacketNumber>,
    /// Its bytes, where anybody can make something of them.
    body: Vec<u8>,
    /// Whether `body` is to be filled.
    wanted: bool,
    /// Whether all its bytes were seen.
    complete: bool,
}

/// A connection whose secrets may still come.
#[derive(Debug)]
struct Waiting {
    /// What was known when it began to wait.
    before: Box<State>,
    held: Vec<(Direction, Held)>,
    /// Bytes of them.
    bytes: usize,
}

#[derive(Debug)]
enum Held {
    Record(Box<Whole>),
    Lost,
    End(Ending, Time),
}

/// What a held record takes beside its bytes.
const HELD_RECORD: usize = 256;

impl Tls {
    /// A connection of which nothing was seen yet.
    pub fn new(limits: Limits) -> Tls {
        Tls { framing: Default::default(), state: State::new(limits.packets_listed), waiting: None, gave_up: false }
    }

    /// The same, where the directions begin at these offsets.
    pub fn behind(limits: Limits, offsets: [u64; 2]) -> Tls {
        let mut tls = Tls::new(limits);
        tls.framing.iter_mut().zip(offsets).for_each(|(framing, offset)| framing.offset = offset);
        tls
    }

    /// The next piece of one direction.
    pub fn push(
        &mut self,
        direction: Direction,
        piece: Piece<'_>,
        arrival: Arrival<'_>,
        keys: &KeyLog,
        sink: &mut Sink<'_>,
    ) {
        let mut direction = direction;
        match piece {
            Piece::Data(bytes) => {
                let mut cursor = Cursor::new(bytes, arrival.packets);
                let end = self.framing[direction as usize].offset + bytes.len() as u64;
                while let Some(fragment) = self.framing[direction as usize].records.next(&mut cursor) {
                    let at = end - cursor.bytes.len() as u64;
                    if self.fragment(direction, &fragment, at, arrival, keys) {
                        direction = self.record(direction, keys, sink);
                    }
                }
                self.framing[direction as usize].offset = end;
            }
            Piece::Gap(length) => self.gap(direction, length, keys, sink),
            Piece::End(ending) => {
                direction = self.record(direction, keys, sink);
                if !std::mem::replace(&mut self.framing[direction as usize].ended, true) {
                    self.state.end(direction, ending, arrival.time, sink);
                    self.hold(direction, || Held::End(ending, arrival.time));
                }
            }
        }
    }

    /// Secrets came that were not known before: what waited for them is read again.
    pub fn retry(&mut self, keys: &KeyLog, sink: &mut Sink<'_>) {
        if self.waiting.is_none() || !self.state.has_secrets(keys) {
            return;
        }
        let Some(Waiting { before, held, .. }) = self.waiting.take() else { return };
        self.state = *before;
        for (direction, held) in held {
            match held {
                Held::Record(mut whole) => self.whole(direction, &mut whole, keys, sink),
                Held::Lost => {
                    self.state.lose(direction);
                    self.hold(direction, || Held::Lost);
                }
                Held::End(ending, time) => {
                    self.state.end(direction, ending, time, sink);
                    self.hold(direction, || Held::End(ending, time));
                }
            }
        }
    }

    /// Whether records wait for secrets that may still come.
    pub fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Bytes of records that are held until their secrets come, or until they are whole.
    pub fn held(&self) -> usize {
        let framing = self.framing.iter().map(|framing| framing.current.body.capacity()).sum::<usize>();
        framing + self.waiting.as_ref().map_or(0, |waiting| waiting.bytes)
    }

    /// Memory is needed elsewhere: nothing is held any longer. Records of which bytes are given up count as lost.
    pub fn give_up(&mut self) {
        self.gave_up |= self.waiting.take().is_some();
        for (framing, direction) in self.framing.iter_mut().zip([Direction::ClientToServer, Direction::ServerToClient])
        {
            if !framing.current.body.is_empty() {
                framing.current.complete = false;
                self.state.lose(direction);
            }
            framing.current.body = Vec::new();
            framing.current.wanted = false;
        }
    }

    /// What may be spent, over all connections, on finding the sessions of those whose ClientHello was not captured.
    pub fn search_left(&mut self) -> &mut u64 {
        &mut self.state.search.total
    }

    /// The steps so far. The last ones may still change.
    pub fn steps(&self) -> &[Step] {
        &self.state.steps.list
    }

    /// What was agreed on so far.
    pub fn agreed(&self) -> Agreed {
        self.state.negotiation.agreed()
    }

    /// The server's name that the client asked for.
    pub fn server_name(&self) -> Option<&str> {
        self.state.negotiation.server_name.as_deref()
    }

    /// The client random, which names the session in a key log.
    pub fn client_random(&self) -> Option<&keylog::Random> {
        self.state.negotiation.client_random.as_ref()
    }

    /// Whether records could be opened.
    pub fn secrecy(&self) -> Secrecy {
        self.state.secrecy
    }

    /// The lowest offset of this direction that may still be asked for: of the record that is being read, or the first that is held.
    pub fn low_water(&self, direction: Direction) -> u64 {
        let framing = &self.framing[direction as usize];
        let current = if framing.open { framing.current.start } else { framing.offset };
        let held = self.waiting.iter().flat_map(|waiting| &waiting.held);
        let mut own = held.filter(|(of, _)| *of == direction);
        let first = own.find_map(|(_, held)| if let Held::Record(whole) = held { Some(whole.start) } else { None });
        let early = self.state.early.start().filter(|_| direction == Direction::ClientToServer);
        first.into_iter().chain(early).fold(current, u64::min)
    }

    /// Takes a fragment in; says whether its record is over.
    fn fragment(
        &mut self,
        direction: Direction,
        fragment: &Fragment<'_>,
        end: u64,
        arrival: Arrival<'_>,
        keys: &KeyLog,
    ) -> bool {
        let Framing { open, current, .. } = &mut self.framing[direction as usize];
        if !std::mem::replace(open, true) {
            current.packets.clear();
            current.body.clear();
            current.record = fragment.record;
            current.start = end.saturating_sub((HEADER + fragment.bytes.len()) as u64);
            current.began = arrival.time;
            current.complete = true;
            current.wanted = self.waiting.is_some() || !self.gave_up || self.state.has_secrets(keys);
        }
        current.end = end;
        current.time = arrival.time;
        current.acknowledged = arrival.acknowledged;
        let carriers = fragment.packets.iter().map(|range| range.packet);
        for packet in fragment.header.into_iter().flatten().chain(carriers) {
            if current.packets.last() != Some(&packet) {
                current.packets.push(packet);
            }
        }
        // What is not encrypted is always looked at.
        if current.wanted || current.record.content != ContentType::ApplicationData {
            current.body.extend_from_slice(fragment.bytes);
        }
        fragment.last
    }

    /// The current record of a direction is over, or will not be. Says the direction, which it may turn out to be the other.
    fn record(&mut self, mut direction: Direction, keys: &KeyLog, sink: &mut Sink<'_>) -> Direction {
        let framing = &mut self.framing[direction as usize];
        if !std::mem::take(&mut framing.open) {
            return direction;
        }
        let mut whole = std::mem::take(&mut framing.current);
        whole.complete &= whole.body.len() == usize::from(whole.record.length);
        if self.state.find(direction, &whole, keys) {
            self.framing.reverse();
            direction = direction.reversed();
            sink(TlsEvent::Reversed);
        }
        self.whole(direction, &mut whole, keys, sink);
        // Its memory is used again for the next.
        self.framing[direction as usize].current = whole;
        if !self.state.is_opening() {
            self.framing[direction as usize].current.body = Vec::new();
        }
        direction
    }

    fn whole(&mut self, direction: Direction, whole: &mut Whole, keys: &KeyLog, sink: &mut Sink<'_>) {
        if self.waiting.is_none() && !self.gave_up && self.state.must_wait(direction, whole, keys) {
            let before = Box::new(self.state.clone());
            self.waiting = Some(Waiting { before, held: Vec::new(), bytes: size_of::<State>() });
        }
        let waits = self.waiting.is_some();
        self.hold(direction, || Held::Record(Box::new(whole.clone())));
        self.state.record(direction, whole, if waits { None } else { Some(keys) }, sink);
    }

    fn hold(&mut self, direction: Direction, held: impl FnOnce() -> Held) {
        if let Some(waiting) = &mut self.waiting {
            let held = held();
            waiting.bytes += HELD_RECORD;
            if let Held::Record(whole) = &held {
                waiting.bytes += whole.body.len();
            }
            waiting.held.push((direction, held));
        }
    }

    fn gap(&mut self, mut direction: Direction, length: u64, keys: &KeyLog, sink: &mut Sink<'_>) {
        let framing = &mut self.framing[direction as usize];
        framing.offset = framing.offset.saturating_add(length);
        framing.current.complete = false;
        if framing.records.gap(length) {
            framing.current.end = framing.offset;
        } else {
            direction = self.record(direction, keys, sink);
        }
        self.state.lose(direction);
        self.hold(direction, || Held::Lost);
    }
}
