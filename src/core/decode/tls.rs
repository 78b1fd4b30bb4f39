//! TLS records and the handshake (RFC 8446, RFC 5246). Without keys a connection is explained.
//! With the secrets of a key log its records are opened too.
//!
//! ```text
//!  bytes of one direction ─► record.rs ─► records ─► interpreter.rs ─► handshake.rs
//!                                                      │  │  │         messages in the clear
//!                                                      │  │  └──► record_groups.rs
//!                                                      │  │       rows of the layer view
//!                                                      │  └─────► TlsEvent: plaintext
//!                                                      ▼
//!   key log ─► keylog.rs ─► direction_keys.rs    which keys, which record number
//!                   search.rs ◄─┤                a session without its ClientHello
//!                               ├─► secrets.rs   secret to keys      suite.rs   cipher suites
//!                               └─► protect.rs   opens one record
//! ```
//!
//! **Secrets that arrive late.** Applications write secrets to the key log during the handshake. A
//! live reader of the log may therefore receive records before their secrets. From the first record
//! whose secrets are missing, all records of the connection are buffered. They are explained
//! without keys meanwhile. When the secrets arrive, the connection returns to its state before that
//! record and reads the buffered records again.

mod direction_keys;
mod early;
mod fuzz;
mod handshake;
mod interpreter;
pub mod keylog;
mod protect;
mod record;
mod record_groups;
mod reread;
mod search;
mod secrets;
mod suite;
#[cfg(test)]
mod tests;
pub mod unnamed;

use self::interpreter::Interpreter;
use self::keylog::{KeyLog, Label, Random, Secret};
use self::record::{ContentType, Cursor, HEADER, Record, RecordFragment, Records};
use self::reread::{BufferedInput, RereadBuffer};
use self::unnamed::UnnamedSecrets;
use super::{Anomaly, Direction, Ending, Piece};
use crate::capture::{Limits, PacketNumber, PacketRange, Time};

pub use self::fuzz::{fuzz_tls, sealed_under};
pub use self::keylog::fuzz_keylog;

/// Records of a TLS connection that the layer view shows as one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordGroup {
    /// The kind of the records.
    pub kind: RecordGroupKind,
    /// Time of the first record.
    pub time: Time,
    /// The packets that carried the records, in order of capture, each once.
    pub packets: Vec<PacketNumber>,
    /// A summary for people: `ClientHello, ServerHello, Finished`, versions, names and so on.
    pub detail: String,
}

/// The kind of a group of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordGroupKind {
    /// Records up to the last handshake message before application data.
    Handshake,
    /// Application data of both sides that was not opened.
    ApplicationData,
    /// Session tickets of TLS 1.3. They look like application data.
    SessionTickets,
    /// An alert, encrypted or not.
    Alert,
    /// Application data of both sides that was opened.
    Decrypted,
}

/// The parameters that the two hellos negotiated, as text for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The protocol version, such as `TLS 1.3`.
    pub version: Option<String>,
    /// The name of the cipher suite in the IANA registry.
    pub cipher_suite: Option<String>,
    /// The server name that the client requested (SNI, RFC 6066), in lower case.
    pub server_name: Option<String>,
    /// The application protocol that was chosen (ALPN, RFC 7301).
    pub alpn: Option<String>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

/// Whether the records of a connection could be opened, and if not, why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrecy {
    /// Nothing was protected so far.
    #[default]
    Clear,
    /// Records were opened.
    Opened,
    /// The key log has no secrets of this session.
    NoSecrets,
    /// The ClientHello was not captured. Without it nothing shows which secrets belong
    /// to the session.
    Late,
    /// There are secrets of this session, but they do not open its records.
    WrongSecrets,
    /// There are secrets, but the cipher suite or the version is not supported.
    Unsupported,
}

/// An event that the records of a connection caused.
#[derive(Debug)]
pub enum TlsEvent<'a> {
    /// The application data of one record.
    Data {
        /// The direction of the record.
        direction: Direction,
        /// The plaintext of the record.
        bytes: &'a [u8],
        /// The range of the record in the connection's stream: from the first byte of its header to
        /// the offset after its last byte.
        record: (u64, u64),
        /// Capture time of the last byte.
        time: Time,
        /// The offset in the other direction up to which the sender had acknowledged.
        acknowledged: u64,
    },
    /// Application data that was not captured. The length follows from the number of lost records.
    /// It is exact unless they were padded.
    Lost {
        /// The direction of the data.
        direction: Direction,
        /// The number of bytes.
        length: u64,
        /// The capture time at which the loss was found.
        time: Time,
    },
    /// The direction carries no more data: `close_notify`, or the end of the connection.
    End {
        /// The direction that ended.
        direction: Direction,
        /// The way in which it ended.
        ending: Ending,
        /// The capture time of the end.
        time: Time,
    },
    /// Client and server were confused so far. From this event on, all directions are swapped.
    Reversed,
    /// An anomaly in the records.
    Anomaly {
        /// The direction of the record.
        direction: Direction,
        /// The range in the connection's stream.
        record: (u64, u64),
        /// The anomaly itself.
        anomaly: Anomaly,
    },
}

/// Receives the events of a connection.
pub type TlsEventSink<'s> = dyn FnMut(TlsEvent<'_>) + 's;

/// The circumstances in which a piece was captured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival<'a> {
    /// The packets that carried its bytes, in order.
    pub packets: &'a [PacketRange],
    /// The capture time.
    pub time: Time,
    /// The offset in the other direction up to which the sender had acknowledged.
    pub acknowledged: u64,
}

/// Whether a stream begins with a TLS record. `None` while there are too few bytes to decide.
///
/// Five bytes are enough for most records. A handshake record needs six, since the type of its
/// first message shows which side sent it.
pub fn sniff(bytes: &[u8]) -> Option<bool> {
    record::sniff(bytes).filter(|is_record| !is_record || bytes[0] != 22 || bytes.len() > 5)
}

/// Whether bytes look like a record of application data. A connection joined in the middle is
/// recognised by such records only.
pub fn sniff_application_data(bytes: &[u8]) -> bool {
    bytes.starts_with(&[23, 3, 3]) && record::sniff(bytes) == Some(true)
}

/// Whether a TLS record that begins here holds a ClientHello: `msg_type` 1 after the five bytes of
/// the record header (RFC 8446 section 4).
pub fn is_client_hello(bytes: &[u8]) -> bool {
    bytes.first() == Some(&22) && bytes.get(5) == Some(&1)
}

/// The decoder of one TLS connection.
#[derive(Debug)]
pub struct Tls {
    assemblies: [RecordAssembly; 2],
    interpreter: Interpreter,
    reread: Option<RereadBuffer>,
    /// Memory ran out while records waited for their secrets. No record is buffered any more.
    stopped_waiting: bool,
}

/// Assembles the bytes of one direction to records.
#[derive(Debug, Default)]
struct RecordAssembly {
    records: Records,
    /// Offset of the next byte in the stream.
    offset: u64,
    /// Whether `current` is incomplete.
    open: bool,
    current: ReceivedRecord,
    ended: bool,
}

/// A record, as far as it was received.
#[derive(Clone, Debug, Default)]
struct ReceivedRecord {
    record: Record,
    /// Offset of its header.
    start: u64,
    /// Offset after the bytes received so far.
    end: u64,
    /// Capture times of its first byte and of its last.
    began: Time,
    time: Time,
    acknowledged: u64,
    /// The packets that carried it, in order.
    packets: Vec<PacketNumber>,
    /// Its bytes without the header, where `wanted`.
    body: Vec<u8>,
    /// Whether `body` is filled: somebody may read or open the record.
    needs_body: bool,
    /// Whether no byte was missing so far.
    complete: bool,
}

impl Tls {
    /// A decoder for a connection that begins at offset 0 of both directions.
    pub fn new(limits: Limits) -> Tls {
        Tls {
            assemblies: Default::default(),
            interpreter: Interpreter::new(limits.packets_listed),
            reread: None,
            stopped_waiting: false,
        }
    }

    /// A decoder for a connection whose directions begin at these offsets.
    pub fn at_offsets(limits: Limits, offsets: [u64; 2]) -> Tls {
        let mut tls = Tls::new(limits);
        tls.assemblies.iter_mut().zip(offsets).for_each(|(assembly, offset)| assembly.offset = offset);
        tls
    }

    /// Decodes the next piece of one direction.
    pub fn push(
        &mut self,
        direction: Direction,
        piece: Piece<'_>,
        arrival: Arrival<'_>,
        keys: &KeyLog,
        sink: &mut TlsEventSink<'_>,
    ) {
        let mut direction = direction;
        match piece {
            Piece::Data(bytes) => {
                let mut cursor = Cursor::new(bytes, arrival.packets);
                let end = self.assemblies[direction as usize].offset + bytes.len() as u64;
                while let Some(fragment) = self.assemblies[direction as usize].records.next(&mut cursor) {
                    let at = end - cursor.bytes.len() as u64;
                    if self.add_fragment(direction, &fragment, at, arrival, keys) {
                        direction = self.finish_record(direction, keys, sink);
                    }
                }
                self.assemblies[direction as usize].offset = end;
            }
            Piece::Gap(length) => self.gap(direction, length, keys, sink),
            Piece::End(ending) => {
                direction = self.finish_record(direction, keys, sink);
                if !std::mem::replace(&mut self.assemblies[direction as usize].ended, true) {
                    self.interpreter.end(direction, ending, arrival.time, sink);
                    self.buffer_input(direction, || BufferedInput::End(ending, arrival.time));
                }
            }
        }
    }

    /// Reads the buffered records again if their secrets are now in the key log.
    pub fn retry(&mut self, keys: &KeyLog, sink: &mut TlsEventSink<'_>) {
        // The session is that of the first record. A ClientHello among the others can name another.
        let Some(RereadBuffer { before, inputs, .. }) = self.reread.take_if(|waiting| waiting.before.has_secrets(keys))
        else {
            return;
        };
        self.interpreter = *before;
        for (direction, held) in inputs {
            match held {
                BufferedInput::Record(mut received) => self.interpret_record(direction, &mut received, keys, sink),
                BufferedInput::Lost => {
                    self.interpreter.lose(direction);
                    self.buffer_input(direction, || BufferedInput::Lost);
                }
                BufferedInput::End(ending, time) => {
                    self.interpreter.end(direction, ending, time, sink);
                    self.buffer_input(direction, || BufferedInput::End(ending, time));
                }
            }
        }
    }

    /// The secrets among `unnamed` that open records which wait here, with the session's random.
    pub fn prove(&mut self, unnamed: &UnnamedSecrets) -> Vec<(Label, Random, Secret)> {
        let Some(waiting) = &mut self.reread else { return Vec::new() };
        waiting.prove(&self.interpreter.negotiation, unnamed, &mut Vec::new())
    }

    /// Whether records wait for secrets that may still arrive.
    pub fn waits(&self) -> bool {
        self.reread.is_some()
    }

    /// Bytes of records that are held: those that wait for secrets, and the incomplete ones.
    pub fn held(&self) -> usize {
        let incomplete = self.assemblies.iter().map(|assembly| assembly.current.body.capacity()).sum::<usize>();
        incomplete + self.reread.as_ref().map_or(0, |waiting| waiting.bytes)
    }

    /// Releases all held memory because it is needed elsewhere. Records whose bytes are dropped
    /// count as lost, and no record waits for secrets any more.
    pub fn give_up(&mut self) {
        self.stopped_waiting |= self.reread.take().is_some();
        for (assembly, direction) in
            self.assemblies.iter_mut().zip([Direction::ClientToServer, Direction::ServerToClient])
        {
            if !assembly.current.body.is_empty() {
                assembly.current.complete = false;
                self.interpreter.lose(direction);
            }
            assembly.current.body = Vec::new();
            assembly.current.needs_body = false;
        }
    }

    /// The budget, shared by all connections, for finding sessions whose ClientHello
    /// was not captured.
    pub fn search_left(&mut self) -> &mut u64 {
        &mut self.interpreter.search.capture_budget
    }

    /// The groups of records so far. The last ones may still change.
    pub fn record_groups(&self) -> &[RecordGroup] {
        &self.interpreter.groups.list
    }

    /// The parameters negotiated so far.
    pub fn agreed(&self) -> Agreed {
        self.interpreter.negotiation.agreed()
    }

    /// The server name that the client requested.
    pub fn server_name(&self) -> Option<&str> {
        self.interpreter.negotiation.server_name.as_deref()
    }

    /// The client randoms, which identify the sessions in a key log. After a renegotiation
    /// there are several.
    pub fn client_randoms(&self) -> impl Iterator<Item = &keylog::Random> {
        self.interpreter.earlier_randoms.iter().chain(&self.interpreter.negotiation.client_random)
    }

    /// Whether records could be opened.
    pub fn secrecy(&self) -> Secrecy {
        self.interpreter.secrecy
    }

    /// The lowest offset of this direction that a later event may refer to: the start of the
    /// incomplete record, of the first buffered one, or of early data that is not yet accepted.
    pub fn low_water(&self, direction: Direction) -> u64 {
        let assembly = &self.assemblies[direction as usize];
        let current = if assembly.open { assembly.current.start } else { assembly.offset };
        let held = self.reread.iter().flat_map(|waiting| &waiting.inputs);
        let mut own = held.filter(|(of, _)| *of == direction);
        let first = own
            .find_map(|(_, held)| if let BufferedInput::Record(received) = held { Some(received.start) } else { None });
        let early = self.interpreter.early_data.start().filter(|_| direction == Direction::ClientToServer);
        first.into_iter().chain(early).fold(current, u64::min)
    }

    /// Adds a fragment to the current record. Returns whether the record is now complete.
    fn add_fragment(
        &mut self,
        direction: Direction,
        fragment: &RecordFragment<'_>,
        end: u64,
        arrival: Arrival<'_>,
        keys: &KeyLog,
    ) -> bool {
        let RecordAssembly { open, current, .. } = &mut self.assemblies[direction as usize];
        if !std::mem::replace(open, true) {
            current.packets.clear();
            current.body.clear();
            current.record = fragment.record;
            current.start = end.saturating_sub((HEADER + fragment.bytes.len()) as u64);
            current.began = arrival.time;
            current.complete = true;
            current.needs_body = self.reread.is_some() || !self.stopped_waiting || self.interpreter.has_secrets(keys);
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
        // Records in the clear are always read.
        if current.needs_body || current.record.content != ContentType::ApplicationData {
            current.body.extend_from_slice(fragment.bytes);
        }
        fragment.last
    }

    /// Processes the current record of a direction, complete or not. Returns the direction, which
    /// is reversed where this record shows that client and server were confused.
    fn finish_record(&mut self, mut direction: Direction, keys: &KeyLog, sink: &mut TlsEventSink<'_>) -> Direction {
        let assembly = &mut self.assemblies[direction as usize];
        if !std::mem::take(&mut assembly.open) {
            return direction;
        }
        let mut received = std::mem::take(&mut assembly.current);
        received.complete &= received.body.len() == usize::from(received.record.length);
        if self.interpreter.find_session(direction, &received, keys) {
            self.assemblies.reverse();
            direction = direction.reversed();
            sink(TlsEvent::Reversed);
        }
        self.interpret_record(direction, &mut received, keys, sink);
        // The next record uses the same memory.
        self.assemblies[direction as usize].current = received;
        if !self.interpreter.is_opening() {
            self.assemblies[direction as usize].current.body = Vec::new();
        }
        direction
    }

    /// Gives a record to the interpreter, and buffers a copy where secrets are awaited.
    fn interpret_record(
        &mut self,
        direction: Direction,
        received: &mut ReceivedRecord,
        keys: &KeyLog,
        sink: &mut TlsEventSink<'_>,
    ) {
        if self.reread.is_none() && !self.stopped_waiting && self.interpreter.lacks_secrets(direction, received, keys) {
            self.reread = Some(RereadBuffer::new(&self.interpreter));
        }
        let waits = self.reread.is_some();
        self.buffer_input(direction, || BufferedInput::Record(Box::new(received.clone())));
        self.interpreter.interpret(direction, received, if waits { None } else { Some(keys) }, sink);
    }

    /// Buffers an input of the interpreter while secrets are awaited.
    fn buffer_input(&mut self, direction: Direction, input: impl FnOnce() -> BufferedInput) {
        if let Some(waiting) = &mut self.reread {
            waiting.push(direction, input());
        }
    }

    /// Handles bytes that were not captured.
    fn gap(&mut self, mut direction: Direction, length: u64, keys: &KeyLog, sink: &mut TlsEventSink<'_>) {
        let assembly = &mut self.assemblies[direction as usize];
        assembly.offset = assembly.offset.saturating_add(length);
        assembly.current.complete = false;
        if assembly.records.gap(length) {
            assembly.current.end = assembly.offset;
        } else {
            direction = self.finish_record(direction, keys, sink);
        }
        self.interpreter.lose(direction);
        self.buffer_input(direction, || BufferedInput::Lost);
    }
}
