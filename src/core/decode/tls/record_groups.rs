//! Groups of records as the layer view shows them: their packets and a summary of their content.

use std::fmt::{self, Write};

use super::handshake::Version;
use super::keylog::Random;
use super::suite;
use super::{Agreed, RecordGroup, RecordGroupKind};
use crate::capture::{PacketNumber, Time};
use crate::decode::Direction;

/// The offers and choices of the two hellos.
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

/// A record, as far as the layer view needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordSummary {
    pub direction: Direction,
    pub time: Time,
    pub length: u16,
    /// The packets that carried it, in the order of its bytes.
    pub packets: Vec<PacketNumber>,
}

/// The groups of records so far, in order of their first packets.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordGroups {
    pub list: Vec<RecordGroup>,
    /// For each group, the amount that client and server sent in it.
    amounts: Vec<[Amount; 2]>,
    /// The limit for the number of groups, and for the packets listed in all of them together.
    limit: usize,
    /// Number of packets listed so far.
    listed: usize,
    /// The index of the current handshake group.
    handshake: Option<usize>,
    /// The names of the messages in it.
    messages: Vec<&'static str>,
}

/// The number of records and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    records: u64,
    bytes: u64,
}

impl RecordGroups {
    pub fn new(packets_listed: usize) -> RecordGroups {
        RecordGroups { limit: packets_listed, ..RecordGroups::default() }
    }

    /// Adds a record of the handshake. With `again`, the previous handshake was over and a
    /// new group begins.
    pub fn add_handshake(&mut self, summary: &RecordSummary, again: bool) {
        if again && self.list.last().is_some_and(|last| last.kind != RecordGroupKind::Handshake) {
            self.handshake = None;
            self.messages.clear();
        }
        self.handshake = self.handshake.or_else(|| self.insert_group(RecordGroupKind::Handshake, summary));
        self.add_record(self.handshake, summary);
    }

    /// Adds the name of a handshake message. The summary lists each name once.
    pub fn add_message_name(&mut self, name: &'static str, negotiation: &Negotiation) {
        // The number of names is fixed, so they fit on a line.
        if !self.messages.contains(&name) {
            self.messages.push(name);
        }
        if let Some(step) = self.handshake.and_then(|index| self.list.get_mut(index)) {
            step.detail = format!("{}{}", self.messages.join(", "), negotiation_text(negotiation));
        }
    }

    /// Adds a record of application data. It belongs to the group before it. A record that was set
    /// aside for a while may also belong to the group after it. Only tickets can lie between the
    /// records of one group.
    pub fn add_application_data(&mut self, summary: &RecordSummary, opened: bool) {
        let kind = if opened { RecordGroupKind::Decrypted } else { RecordGroupKind::ApplicationData };
        let place = self.insertion_index(summary);
        let run = |step: &RecordGroup| (step.kind != RecordGroupKind::SessionTickets).then_some(step.kind);
        let before = self.list[..place].iter().rposition(|step| run(step).is_some());
        let behind = self.list[place..].iter().position(|step| run(step).is_some()).map(|index| place + index);
        let runs = [before, behind].into_iter().flatten();
        let open = { runs }.find(|index| self.list[*index].kind == kind);
        let index = open.or_else(|| self.insert_group(kind, summary));
        self.add_record(index, summary);
        if let Some(index) = index {
            self.describe_amounts(index);
        }
    }

    /// Writes the summary of a group of application data.
    fn describe_amounts(&mut self, index: usize) {
        let [client, server] = self.amounts[index];
        let step = &mut self.list[index];
        step.detail.clear();
        // Writing to a string cannot fail.
        let _ = write!(step.detail, "Application Data: {client} from the client, {server} from the server");
    }

    /// Swaps the sides after client and server were confused.
    pub fn reverse(&mut self) {
        for index in 0..self.list.len() {
            self.amounts[index].reverse();
            match self.list[index].kind {
                RecordGroupKind::ApplicationData | RecordGroupKind::Decrypted => self.describe_amounts(index),
                RecordGroupKind::Alert => {
                    let detail = &mut self.list[index].detail;
                    *detail = match detail.strip_suffix("client") {
                        Some(before) => format!("{before}server"),
                        None => detail.replace("from the server", "from the client"),
                    };
                }
                RecordGroupKind::Handshake | RecordGroupKind::SessionTickets => {}
            }
        }
    }

    /// Adds a ticket. All tickets are one group.
    pub fn add_ticket(&mut self, summary: &RecordSummary, detail: &str) {
        let open = self.list.iter().rposition(|step| step.kind == RecordGroupKind::SessionTickets);
        let index = open.or_else(|| self.insert_group(RecordGroupKind::SessionTickets, summary));
        self.add_record(index, summary);
        if let Some(step) = index.and_then(|index| self.list.get_mut(index)) {
            detail.clone_into(&mut step.detail);
        }
    }

    /// Adds an alert as a group of its own.
    pub fn add_alert(&mut self, summary: &RecordSummary, what: &str) {
        let index = self.insert_group(RecordGroupKind::Alert, summary);
        self.add_record(index, summary);
        if let Some(step) = index.and_then(|index| self.list.get_mut(index)) {
            let sender = match summary.direction {
                Direction::ClientToServer => "client",
                Direction::ServerToClient => "server",
            };
            step.detail = format!("{what} from the {sender}");
        }
    }

    /// The index in the list for a group that begins with this record.
    fn insertion_index(&self, summary: &RecordSummary) -> usize {
        let first = summary.packets.first();
        let earlier = self.list.iter().rposition(|step| step.packets.first() <= first);
        earlier.map_or(0, |index| index + 1)
    }

    /// Inserts a new group; `None` at the limit.
    fn insert_group(&mut self, kind: RecordGroupKind, summary: &RecordSummary) -> Option<usize> {
        if self.list.len() >= self.limit {
            return None;
        }
        let place = self.insertion_index(summary);
        self.list.insert(place, RecordGroup { kind, time: summary.time, packets: Vec::new(), detail: String::new() });
        self.amounts.insert(place, [Amount::default(); 2]);
        self.handshake = self.handshake.map(|index| if index >= place { index + 1 } else { index });
        Some(place)
    }

    /// Adds a record to a group. The two directions interleave, so each packet is inserted in the
    /// order of capture, once.
    fn add_record(&mut self, index: Option<usize>, summary: &RecordSummary) {
        let Some(index) = index else { return };
        let step = &mut self.list[index];
        step.time = step.time.min(summary.time);
        let amount = &mut self.amounts[index][summary.direction as usize];
        amount.records += 1;
        amount.bytes += u64::from(summary.length);
        for packet in &summary.packets {
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
    /// Whether TLS 1.3 was negotiated.
    pub fn is_tls13(&self) -> bool {
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

/// The description of the alert that closes one direction.
pub(super) const CLOSE_NOTIFY: u8 = 0;

/// The text of an alert (RFC 8446 section 6, RFC 5246 section 7.2).
pub(super) fn alert_text(level: u8, description: u8) -> String {
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

/// The negotiated parameters, or the client's offers where no ServerHello was captured.
fn negotiation_text(negotiation: &Negotiation) -> String {
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
