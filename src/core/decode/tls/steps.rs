//! The steps of a connection as the layer view shows them: which packets, what was said.

use std::fmt::{self, Write};

use super::handshake::Version;
use super::keylog::Random;
use super::suite;
use super::{Agreed, Step, StepKind};
use crate::capture::{PacketNumber, Time};
use crate::decode::Direction;

/// What the hellos agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Negotiation {
    pub client_random: Option<Random>,
    pub server_random: Option<Random>,
    pub resumed: bool,
    pub server_name: Option<String>,
    pub offered_versions: Vec<Version>,
    pub offered_alpn: Vec<String>,
    pub version: Option<Version>,
    pub cipher_suite: Option<u16>,
    pub alpn: Option<String>,
}

/// A record that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub direction: Direction,
    pub time: Time,
    pub length: u16,
    /// The packets that carried it, in the order of its bytes.
    pub packets: Vec<PacketNumber>,
}

/// The steps so far, in order of their first packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub list: Vec<Step>,
    /// For each step, what each side sent in it.
    amounts: Vec<[Amount; 2]>,
    /// Steps that may be listed, and packets over all of them.
    limit: usize,
    listed: usize,
    /// The handshake that records are counted to, and what was said in it.
    handshake: Option<usize>,
    messages: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    records: u64,
    bytes: u64,
}

impl Steps {
    pub fn new(packets_listed: usize) -> Steps {
        Steps { limit: packets_listed, ..Steps::default() }
    }

    /// A record of the handshake. One that comes after the handshake was over (`again`) opens another.
    pub fn handshake(&mut self, seen: &Seen, again: bool) {
        if again && self.list.last().is_some_and(|last| last.kind != StepKind::Handshake) {
            self.handshake = None;
            self.messages.clear();
        }
        self.handshake = self.handshake.or_else(|| self.open(StepKind::Handshake, seen));
        self.add(self.handshake, seen);
    }

    /// A handshake message was said: the detail lists each name once.
    pub fn message(&mut self, name: &'static str, negotiation: &Negotiation) {
        // There are no more names than fit on a line.
        if !self.messages.contains(&name) {
            self.messages.push(name);
        }
        if let Some(step) = self.handshake.and_then(|index| self.list.get_mut(index)) {
            step.detail = format!("{}{}", self.messages.join(", "), summary(negotiation));
        }
    }

    /// A record of application data. It belongs to the run before it, or behind it where it was set aside for a while;
    /// only tickets stand between records of one run.
    pub fn application(&mut self, seen: &Seen, opened: bool) {
        let kind = if opened { StepKind::Decrypted } else { StepKind::ApplicationData };
        let place = self.place(seen);
        let run = |step: &Step| (step.kind != StepKind::SessionTickets).then_some(step.kind);
        let before = self.list[..place].iter().rposition(|step| run(step).is_some());
        let behind = self.list[place..].iter().position(|step| run(step).is_some()).map(|index| place + index);
        let runs = [before, behind].into_iter().flatten();
        let open = { runs }.find(|index| self.list[*index].kind == kind);
        let index = open.or_else(|| self.open(kind, seen));
        self.add(index, seen);
        if let Some(index) = index {
            self.tell_amounts(index);
        }
    }

    fn tell_amounts(&mut self, index: usize) {
        let [client, server] = self.amounts[index];
        let step = &mut self.list[index];
        step.detail.clear();
        // Writing to a string cannot fail.
        let _ = write!(step.detail, "Application Data: {client} from the client, {server} from the server");
    }

    /// Client and server were taken for each other so far.
    pub fn reverse(&mut self) {
        for index in 0..self.list.len() {
            self.amounts[index].reverse();
            match self.list[index].kind {
                StepKind::ApplicationData | StepKind::Decrypted => self.tell_amounts(index),
                StepKind::Alert => {
                    let detail = &mut self.list[index].detail;
                    *detail = match detail.strip_suffix("client") {
                        Some(before) => format!("{before}server"),
                        None => detail.replace("from the server", "from the client"),
                    };
                }
                StepKind::Handshake | StepKind::SessionTickets => {}
            }
        }
    }

    /// A ticket; those in a row are one step.
    pub fn ticket(&mut self, seen: &Seen, detail: &str) {
        let open = self.list.iter().rposition(|step| step.kind == StepKind::SessionTickets);
        let index = open.or_else(|| self.open(StepKind::SessionTickets, seen));
        self.add(index, seen);
        if let Some(step) = index.and_then(|index| self.list.get_mut(index)) {
            detail.clone_into(&mut step.detail);
        }
    }

    /// An alert.
    pub fn alert(&mut self, seen: &Seen, what: &str) {
        let index = self.open(StepKind::Alert, seen);
        self.add(index, seen);
        if let Some(step) = index.and_then(|index| self.list.get_mut(index)) {
            let sender = match seen.direction {
                Direction::ClientToServer => "client",
                Direction::ServerToClient => "server",
            };
            step.detail = format!("{what} from the {sender}");
        }
    }

    /// Where in the list a step belongs that begins with this record.
    fn place(&self, seen: &Seen) -> usize {
        let first = seen.packets.first();
        let earlier = self.list.iter().rposition(|step| step.packets.first() <= first);
        earlier.map_or(0, |index| index + 1)
    }

    fn open(&mut self, kind: StepKind, seen: &Seen) -> Option<usize> {
        if self.list.len() >= self.limit {
            return None;
        }
        let place = self.place(seen);
        self.list.insert(place, Step { kind, time: seen.time, packets: Vec::new(), detail: String::new() });
        self.amounts.insert(place, [Amount::default(); 2]);
        self.handshake = self.handshake.map(|index| if index >= place { index + 1 } else { index });
        Some(place)
    }

    /// Adds a record to a step. Packets of the two directions come interleaved: each is put where it belongs in the
    /// capture, once.
    fn add(&mut self, index: Option<usize>, seen: &Seen) {
        let Some(index) = index else { return };
        let step = &mut self.list[index];
        step.time = step.time.min(seen.time);
        let amount = &mut self.amounts[index][seen.direction as usize];
        amount.records += 1;
        amount.bytes += u64::from(seen.length);
        for packet in &seen.packets {
            let place = match step.packets.last() {
                Some(last) if last >= packet => step.packets.binary_search(packet).err(),
                _ => Some(step.packets.len()),
            };
            if let Some(place) = place.filter(|_| self.listed < self.limit) {
                step.packets.insert(place, *packet);
                self.listed += 1;
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.records == 1 { "" } else { "s" };
        write!(f, "{} record{plural} ({} bytes)", self.records, self.bytes)
    }
}

impl Negotiation {
    /// Whether TLS 1.3 was chosen.
    pub fn is_newest(&self) -> bool {
        self.version.is_some_and(|version| version >= Version::TLS_1_3)
    }

    /// The same, for people.
    pub fn agreed(&self) -> Agreed {
        Agreed {
            version: self.version.map(Version::name),
            cipher_suite: self.cipher_suite.map(suite::name),
            server_name: self.server_name.clone(),
            alpn: self.alpn.clone(),
            resumed: self.resumed,
        }
    }
}

/// The alert that closes one direction.
pub(super) const CLOSE_NOTIFY: u8 = 0;

/// What an alert says (RFC 8446 section 6, RFC 5246 section 7.2).
pub(super) fn alert(level: u8, description: u8) -> String {
    let name = match description {
        CLOSE_NOTIFY => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        22 => "record_overflow",
        40 => "handshake_failure",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => return format!("alert {description}"),
    };
    format!("{} {name}", if level == 2 { "fatal" } else { "warning" })
}

/// What was agreed on, or offered where no answer was seen.
fn summary(negotiation: &Negotiation) -> String {
    let mut text = String::new();
    let mut add = |before: &str, what: &str| {
        text += if text.is_empty() { "; " } else { ", " };
        text += before;
        text += what;
    };
    match (negotiation.version, negotiation.offered_versions.iter().max()) {
        (Some(version), _) => add("", &version.name()),
        (None, Some(best)) => add("offers up to ", &best.name()),
        (None, None) => {}
    }
    if let Some(suite) = negotiation.cipher_suite {
        add("", &suite::name(suite));
    }
    if let Some(name) = &negotiation.server_name {
        add("server name ", name);
    }
    match &negotiation.alpn {
        Some(chosen) => add("ALPN ", chosen),
        None if !negotiation.offered_alpn.is_empty() => add("ALPN offered ", &negotiation.offered_alpn.join(" ")),
        None => {}
    }
    text
}
