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
use super::protect::{Content, Opener};
use super::record::{HEADER, Record};
use super::secrets;
use super::steps::Negotiation;
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
pub(super) struct Keys {
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
pub(super) struct Opening {
    keys: Option<Keys>,
    /// The earliest epoch that the next record can belong to.
    epoch: Epoch,
    /// Whether bytes were missed, or a record failed to open. Then number and keys are uncertain.
    doubt: bool,
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
pub(super) struct Place {
    pub direction: Direction,
    /// Offset of its header.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening {
            keys: None,
            epoch: Epoch::default(),
            doubt: false,
            number: 0,
            end: 0,
            allowance: ALLOWANCE,
            failures: 0,
            opened: false,
        }
    }
}

impl Opening {
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
        if let Some(next) = self.keys.as_ref().and_then(Keys::updated) {
            self.keys = Some(next);
            self.number = 0;
        }
    }

    /// Sets the keys of the next record, which begins at `start`, as found by the session search.
    pub fn join(&mut self, keys: Keys, start: u64) {
        (self.epoch, self.number, self.end, self.doubt) = (keys.epoch, keys.number, start, false);
        self.keys = Some(keys);
        self.opened = true;
    }

    /// The suite of the TLS 1.3 keys that opened the last record. `None` for early data, whose
    /// suite is that of an earlier session.
    pub fn newest_suite(&self) -> Option<Suite> {
        let keys = self.keys.as_ref().filter(|keys| keys.epoch != Epoch::Early)?;
        keys.opener.is_newest().then_some(keys.suite)
    }

    /// Whether the record that opened last was early data.
    pub fn is_early(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.epoch == Epoch::Early)
    }

    /// Notes that bytes were missed.
    pub fn lose(&mut self) {
        self.doubt = true;
    }

    /// Notes the end of a record that is not protected.
    pub fn pass(&mut self, end: u64) {
        if !self.doubt {
            self.end = end;
        }
    }

    /// Opens a record in place. `scratch` is a buffer for attempts.
    pub fn open(
        &mut self,
        negotiation: &Negotiation,
        secrets: &Secrets,
        place: Place,
        record: Record,
        sealed: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(Content, Option<Skipped>)> {
        self.allowance = self.allowance.saturating_add(ALLOWANCE_RATIO * sealed.len() as u64);
        if let Some(keys) = self.keys.as_mut().filter(|keys| !self.doubt && keys.epoch != Epoch::Early) {
            let number = keys.number;
            keys.number += 1;
            match keys.opener.open(number, record, sealed) {
                Some(content) => {
                    (self.number, self.end) = (number + 1, place.end);
                    return Some((content, None));
                }
                None => {
                    (self.doubt, self.failures) = (true, self.failures + 1);
                    return None;
                }
            }
        }
        let lost = if self.doubt { place.start.saturating_sub(self.end) } else { 0 };
        let candidates = self.candidates(negotiation, secrets, place.direction);
        match self.try_all(candidates, lost, record, sealed, scratch) {
            Some((keys, content)) => {
                let records = keys.number - 1 - if self.is_same(&keys) { self.number } else { 0 };
                let skipped = (records > 0).then(|| Skipped {
                    records,
                    start: self.end,
                    content: lost.saturating_sub(records.saturating_mul(keys.opener.overhead() + HEADER as u64)).max(1),
                });
                (self.number, self.end, self.epoch) = (keys.number, place.end, keys.epoch);
                self.keys = Some(keys);
                (self.doubt, self.failures, self.opened) = (false, 0, true);
                Some((content, skipped))
            }
            None => {
                (self.doubt, self.failures) = (true, self.failures.saturating_add(1));
                None
            }
        }
    }

    /// Whether these are the keys in use.
    fn is_same(&self, keys: &Keys) -> bool {
        self.keys.as_ref().is_some_and(|known| known.epoch == keys.epoch && known.secret == keys.secret)
    }

    /// The keys that the next record may be protected with, the most likely first.
    fn candidates(&self, negotiation: &Negotiation, secrets: &Secrets, direction: Direction) -> Vec<Keys> {
        let mut candidates: Vec<Keys> = self.keys.iter().cloned().collect();
        if !negotiation.is_newest() && negotiation.version.is_some() {
            if candidates.is_empty() {
                let random = negotiation.client_random.as_ref();
                candidates.extend(random.and_then(|random| Keys::of_master(negotiation, random, secrets, direction)));
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
            let Some(secret) = Keys::label(epoch, direction).and_then(|label| secrets.get(label)) else { continue };
            // Early data precedes the choice of a suite; its suite is that of the earlier session.
            // The ServerHello may also be lost. In both cases every suite is possible.
            let chosen = negotiation.cipher_suite;
            let is_open = epoch == Epoch::Early || chosen.is_none();
            let suites = Suite::newest().filter(|suite| is_open || Some(suite.number) == chosen);
            candidates.extend(suites.filter_map(|suite| Keys::of_traffic(epoch, suite, *secret)));
        }
        candidates
    }

    /// Tries to open a record with each of `candidates`. Opens it in place where one fits. After a
    /// loss it also tries the record numbers that fit into the lost bytes.
    fn try_all(
        &mut self,
        candidates: Vec<Keys>,
        lost: u64,
        record: Record,
        sealed: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Option<(Keys, Content)> {
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

impl Keys {
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
    pub fn of_traffic(epoch: Epoch, suite: Suite, secret: Secret) -> Option<Keys> {
        Some(Keys { epoch, suite, secret, opener: Opener::of_traffic(suite, &secret)?, number: 0 })
    }

    /// The keys that derive from the master secret of TLS 1.2.
    pub fn of_master(
        negotiation: &Negotiation,
        client: &Random,
        secrets: &Secrets,
        direction: Direction,
    ) -> Option<Keys> {
        let suite = Suite::of(negotiation.cipher_suite?)?;
        let secret = *secrets.get(Label::Master)?;
        let server = negotiation.server_random?;
        let [to_server, to_client] = Opener::of_master(suite, &secret, client, &server)?;
        let opener = if direction == Direction::ClientToServer { to_server } else { to_client };
        Some(Keys { epoch: Epoch::Application, suite, secret, opener, number: 0 })
    }

    /// Whether the keys open a record with this number. The content of `sealed`
    /// is undefined afterwards.
    pub fn opens(&self, number: u64, record: Record, sealed: &mut [u8]) -> bool {
        self.opener.open(number, record, sealed).is_some()
    }

    /// The keys after the next key update of TLS 1.3.
    fn updated(&self) -> Option<Keys> {
        Keys::of_traffic(self.epoch, self.suite, secrets::updated(self.suite, &self.secret))
    }
}
