//! The keys of one direction: which of them open the next record.
//!
//! ```text
//! TLS 1.3   client   early ─► handshake ─► application ─► after a key update ─► ...
//!           server            handshake ─► application ─► ...
//! TLS 1.2                     application, anew after each ChangeCipherSpec
//! ```
//!
//! While nothing is lost, the handshake messages show when the keys change, and records are
//! counted. One attempt then opens each record. After a loss neither is known, so all numbers and
//! keys that can be next are tried, see [`DirectionKeys::try_all`]. The cost of attempts is taken
//! from an allowance that grows with the bytes received. The cost of a connection therefore stays
//! linear in its bytes, whatever they are.

use super::keylog::{Label, Random, Secret, Secrets};
use super::protect::{OpenedRecord, Opener};
use super::record::{HEADER, Record};
use super::record_groups::Negotiation;
use super::secrets;
use super::suite::Suite;
use crate::decode::Direction;

/// Record numbers tried after a loss: 64 MiB of full records.
const WINDOW: u64 = 4_096;
/// Bytes of failed attempts that are allowed at the start of a connection: 8 MiB.
const ALLOWANCE: u64 = 8 << 20;
/// Bytes of failed attempts that are allowed in addition for each byte received.
const ALLOWANCE_RATIO: u64 = 16;
/// The length of the shortest protected record: a header, a short tag and the content type.
const LEAST: u64 = HEADER as u64 + 8 + 1;

/// The stages of a direction's keys, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Epoch {
    /// Early data of a client.
    Early,
    /// The encrypted part of the handshake.
    #[default]
    Handshake,
    /// Application data, and in TLS 1.2 everything that is protected.
    Application,
}

/// The keys of one epoch, and the next record number.
#[derive(Clone, Debug)]
pub(super) struct EpochKeys {
    pub epoch: Epoch,
    pub suite: Suite,
    /// The traffic secret. The secret of the next key update is derived from it.
    secret: Secret,
    opener: Opener,
    /// Number of the next record.
    pub number: u64,
}

/// The keys of one direction, and the position up to which they were used.
#[derive(Clone, Debug)]
pub(super) struct DirectionKeys {
    keys: Option<EpochKeys>,
    /// The earliest epoch that the next record can belong to.
    epoch: Epoch,
    /// Whether bytes were missed, or a record failed to open. Then number and keys are uncertain.
    uncertain: bool,
    /// The record number after the last record that opened.
    number: u64,
    /// Offset in the stream after the last record that opened or was in the clear.
    end: u64,
    /// Bytes that failed attempts may still cost.
    allowance: u64,
    /// Consecutive records that failed to open.
    pub failures: u32,
    /// Whether any record opened.
    pub opened: bool,
}

/// Records that were lost before a record that opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Skipped {
    /// The number of records under the same keys.
    pub records: u64,
    /// The offset in the stream at which they began.
    pub start: u64,
    /// Bytes of content in them. The number is exact unless padding was added.
    pub content: u64,
}

/// The direction of a record, and its range in the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordLocation {
    pub direction: Direction,
    /// Offset of its header.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
}

impl Default for DirectionKeys {
    fn default() -> DirectionKeys {
        DirectionKeys {
            keys: None,
            epoch: Epoch::default(),
            uncertain: false,
            number: 0,
            end: 0,
            allowance: ALLOWANCE,
            failures: 0,
            opened: false,
        }
    }
}

impl DirectionKeys {
    /// Notes that early data may follow.
    pub fn begin_early(&mut self) {
        if self.keys.is_none() {
            self.epoch = Epoch::Early;
        }
    }

    /// Switches to the keys of a later epoch.
    pub fn advance(&mut self, epoch: Epoch) {
        if self.epoch < epoch {
            (self.epoch, self.keys, self.number) = (epoch, None, 0);
        }
    }

    /// Handles a ChangeCipherSpec of TLS 1.2: switches to the keys of the newest handshake.
    pub fn change_cipher_spec(&mut self) {
        (self.epoch, self.keys, self.number) = (Epoch::Application, None, 0);
    }

    /// Handles a key update of the sender (RFC 8446 section 4.6.3).
    pub fn update(&mut self) {
        if let Some(next) = self.keys.as_ref().and_then(EpochKeys::updated) {
            self.keys = Some(next);
            self.number = 0;
        }
    }

    /// Sets the keys of the next record, which begins at `start`, as found by the session search.
    pub fn set_found_keys(&mut self, keys: EpochKeys, start: u64) {
        (self.epoch, self.number, self.end, self.uncertain) = (keys.epoch, keys.number, start, false);
        self.keys = Some(keys);
        self.opened = true;
    }

    /// The suite of the TLS 1.3 keys that opened the last record. `None` for early data, whose
    /// suite is that of an earlier session.
    pub fn tls13_suite(&self) -> Option<Suite> {
        let keys = self.keys.as_ref().filter(|keys| keys.epoch != Epoch::Early)?;
        keys.opener.is_tls13().then_some(keys.suite)
    }

    /// Whether the record that opened last was early data.
    pub fn is_early(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.epoch == Epoch::Early)
    }

    /// Notes that bytes were missed.
    pub fn lose(&mut self) {
        self.uncertain = true;
    }

    /// Notes the end of a record that is not protected.
    pub fn skip_clear_record(&mut self, end: u64) {
        if !self.uncertain {
            self.end = end;
        }
    }

    /// Opens a record in place. `scratch` is a buffer for attempts.
    pub fn open(
        &mut self,
        negotiation: &Negotiation,
        secrets: &Secrets,
        location: RecordLocation,
        record: Record,
        sealed: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(OpenedRecord, Option<Skipped>)> {
        self.allowance = self.allowance.saturating_add(ALLOWANCE_RATIO * sealed.len() as u64);
        if let Some(keys) = self.keys.as_mut().filter(|keys| !self.uncertain && keys.epoch != Epoch::Early) {
            let number = keys.number;
            keys.number += 1;
            match keys.opener.open(number, record, sealed) {
                Some(content) => {
                    (self.number, self.end) = (number + 1, location.end);
                    return Some((content, None));
                }
                None => {
                    (self.uncertain, self.failures) = (true, self.failures + 1);
                    return None;
                }
            }
        }
        let lost = if self.uncertain { location.start.saturating_sub(self.end) } else { 0 };
        let candidates = self.candidates(negotiation, secrets, location.direction);
        match self.try_all(candidates, lost, record, sealed, scratch) {
            Some((keys, content)) => {
                let records = keys.number - 1 - if self.is_current(&keys) { self.number } else { 0 };
                let skipped = (records > 0).then(|| Skipped {
                    records,
                    start: self.end,
                    content: lost.saturating_sub(records.saturating_mul(keys.opener.overhead() + HEADER as u64)).max(1),
                });
                (self.number, self.end, self.epoch) = (keys.number, location.end, keys.epoch);
                self.keys = Some(keys);
                (self.uncertain, self.failures, self.opened) = (false, 0, true);
                Some((content, skipped))
            }
            None => {
                (self.uncertain, self.failures) = (true, self.failures.saturating_add(1));
                None
            }
        }
    }

    /// Whether these are the keys in use.
    fn is_current(&self, keys: &EpochKeys) -> bool {
        self.keys.as_ref().is_some_and(|known| known.epoch == keys.epoch && known.secret == keys.secret)
    }

    /// The keys that the next record may be protected with, the most likely first.
    fn candidates(&self, negotiation: &Negotiation, secrets: &Secrets, direction: Direction) -> Vec<EpochKeys> {
        let mut candidates: Vec<EpochKeys> = self.keys.iter().cloned().collect();
        if !negotiation.is_tls13() && negotiation.version.is_some() {
            if candidates.is_empty() {
                let random = negotiation.client_random.as_ref();
                candidates
                    .extend(random.and_then(|random| EpochKeys::of_master(negotiation, random, secrets, direction)));
            }
            return candidates;
        }
        if let Some(keys) = self.keys.as_ref().filter(|keys| keys.epoch == Epoch::Application) {
            candidates.extend(keys.updated());
            return candidates;
        }
        for epoch in [Epoch::Early, Epoch::Handshake, Epoch::Application] {
            let known = self.keys.as_ref().is_some_and(|keys| keys.epoch >= epoch);
            if epoch < self.epoch || known {
                continue;
            }
            let Some(secret) = EpochKeys::label(epoch, direction).and_then(|label| secrets.get(label)) else {
                continue;
            };
            // Early data precedes the choice of a suite; its suite is that of the earlier session.
            // The ServerHello may also be lost. In both cases every suite is possible.
            let chosen = negotiation.cipher_suite;
            let is_open = epoch == Epoch::Early || chosen.is_none();
            let suites = Suite::tls13().filter(|suite| is_open || Some(suite.number) == chosen);
            candidates.extend(suites.filter_map(|suite| EpochKeys::of_traffic(epoch, suite, *secret)));
        }
        candidates
    }

    /// Tries to open a record with each of `candidates`. Opens it in place where one fits. After a
    /// loss it also tries the record numbers that fit into the lost bytes.
    fn try_all(
        &mut self,
        candidates: Vec<EpochKeys>,
        lost: u64,
        record: Record,
        sealed: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(EpochKeys, OpenedRecord)> {
        let window = (lost / LEAST).min(WINDOW);
        let length = sealed.len() as u64;
        for mut keys in candidates {
            for number in keys.number..=keys.number.saturating_add(window) {
                if self.allowance < length {
                    return None;
                }
                scratch.clear();
                scratch.extend_from_slice(sealed);
                if let Some(content) = keys.opener.open(number, record, scratch) {
                    sealed.copy_from_slice(scratch);
                    keys.number = number + 1;
                    return Some((keys, content));
                }
                self.allowance -= length;
            }
        }
        None
    }
}

impl EpochKeys {
    /// The label of the secret for an epoch of TLS 1.3. Servers send no early data.
    pub fn label(epoch: Epoch, direction: Direction) -> Option<Label> {
        Some(match (epoch, direction) {
            (Epoch::Early, Direction::ClientToServer) => Label::ClientEarly,
            (Epoch::Early, Direction::ServerToClient) => return None,
            (Epoch::Handshake, Direction::ClientToServer) => Label::ClientHandshake,
            (Epoch::Handshake, Direction::ServerToClient) => Label::ServerHandshake,
            (Epoch::Application, Direction::ClientToServer) => Label::ClientTraffic,
            (Epoch::Application, Direction::ServerToClient) => Label::ServerTraffic,
        })
    }

    /// The keys that derive from a traffic secret of TLS 1.3.
    pub fn of_traffic(epoch: Epoch, suite: Suite, secret: Secret) -> Option<EpochKeys> {
        Some(EpochKeys { epoch, suite, secret, opener: Opener::of_traffic(suite, &secret)?, number: 0 })
    }

    /// The keys that derive from the master secret of TLS 1.2.
    pub fn of_master(
        negotiation: &Negotiation,
        client: &Random,
        secrets: &Secrets,
        direction: Direction,
    ) -> Option<EpochKeys> {
        let suite = Suite::of(negotiation.cipher_suite?)?;
        let secret = *secrets.get(Label::Master)?;
        let server = negotiation.server_random?;
        let [to_server, to_client] = Opener::of_master(suite, &secret, client, &server)?;
        let opener = if direction == Direction::ClientToServer { to_server } else { to_client };
        Some(EpochKeys { epoch: Epoch::Application, suite, secret, opener, number: 0 })
    }

    /// Whether the keys open a record with this number. The content of `sealed`
    /// is undefined afterwards.
    pub fn opens(&self, number: u64, record: Record, sealed: &mut [u8]) -> bool {
        self.opener.open(number, record, sealed).is_some()
    }

    /// The keys after the next key update of TLS 1.3.
    fn updated(&self) -> Option<EpochKeys> {
        EpochKeys::of_traffic(self.epoch, self.suite, secrets::updated(self.suite, &self.secret))
    }
}
