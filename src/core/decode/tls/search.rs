//! Finds the session of a connection whose ClientHello was not captured.
//!
//! The ClientHello identifies the secrets of a connection in a key log. Where the capture begins
//! after it, all secrets are tried. A record that opens is the proof: no other key and no other
//! number opens it. Other unknown values are tried too:
//!
//! ```text
//!                     suite     keys of                         number
//! ServerHello seen    known     either side of the handshake    from 0
//! nothing seen        each      both sides: it is unknown       from 0; for application data also
//!                     of 1.3    which one is the client         higher, from record to record
//! ```
//!
//! The keys of TLS 1.2 also depend on the ServerHello's random, so nothing is tried without it.
//! Attempts are paid from an allowance of the connection and one of the whole capture. No capture
//! and no key log can make the search endless.

use super::direction_keys::{Epoch, EpochKeys};
use super::handshake::Version;
use super::keylog::{KeyLog, Label, Random, Secrets};
use super::record::Record;
use super::record_groups::Negotiation;
use super::suite::Suite;
use crate::decode::Direction;

/// Record numbers that are tried with all keys. A flight of the handshake has few records, and the
/// numbers restart after it.
const FIRST: u64 = 8;
/// The longest record for which higher numbers are tried: 4 KiB. Each attempt reads the whole
/// record, and shorter records will follow.
const SHORT: usize = 4 << 10;
/// Higher numbers that are tried per record and key, for a connection in use long
/// before the capture.
const WINDOW: u64 = 16_384;
/// The cost of all attempts for one connection, in bytes read: about a tenth of a second.
const ALLOWANCE: u64 = 64 << 20;
/// The share of the remaining budget that one record may cost: a quarter.
const SHARE: u64 = 4;
/// The cost of an attempt in addition to its bytes, and the cost of deriving keys from a secret.
const ATTEMPT: u64 = 128;
const DERIVATION: u64 = 4 << 10;

/// A search, and its remaining budget in bytes.
#[derive(Clone, Debug)]
pub(super) struct SessionSearch {
    /// For each direction without an opened record: the lowest number beyond the first ones that
    /// its next record can have.
    sought: [Option<u64>; 2],
    /// The remaining budget of this connection, and that of the capture.
    connection_budget: u64,
    pub capture_budget: u64,
}

/// A session, proven by a record.
#[derive(Debug)]
pub(super) struct FoundSession {
    pub random: Random,
    /// The real direction of the record.
    pub direction: Direction,
    /// The keys of that direction. Their number is that of the record.
    pub keys: EpochKeys,
}

/// A way in which a record may be protected.
struct Candidate<'a> {
    random: &'a Random,
    secrets: &'a Secrets,
    direction: Direction,
    epoch: Epoch,
    suite: Option<Suite>,
}

impl Default for SessionSearch {
    fn default() -> SessionSearch {
        SessionSearch { sought: [None; 2], connection_budget: ALLOWANCE, capture_budget: ALLOWANCE }
    }
}

impl SessionSearch {
    /// Starts the search: a protected record arrived, and no ClientHello before it.
    pub fn begin(&mut self) {
        self.sought = [Some(0); 2];
    }

    /// Whether no record of this direction was opened so far.
    pub fn is_searching(&self, direction: Direction) -> bool {
        self.sought[direction as usize].is_some()
    }

    /// Swaps the directions, which were confused.
    pub fn reverse(&mut self) {
        self.sought.reverse();
    }

    /// Searches the keys that open a record. Once the other direction has revealed the session,
    /// only that session is tried.
    pub fn find(
        &mut self,
        direction: Direction,
        record: Record,
        sealed: &[u8],
        negotiation: &Negotiation,
        log: &KeyLog,
        scratch: &mut Vec<u8>,
    ) -> Option<FoundSession> {
        let next = self.sought[direction as usize]?;
        let budget = self.connection_budget.min(self.capture_budget) / SHARE;
        let attempt = sealed.len() as u64 + ATTEMPT;
        let least = DERIVATION + FIRST * attempt;
        if budget < least {
            // Even to list the candidates would cost too much: the log may have thousands of
            // sessions, and the connection millions of records.
            self.sought[direction as usize] = Some(next + 1);
            return None;
        }
        let candidates = || candidates(negotiation, log, direction);
        let (all, deep) =
            candidates().fold((0, 0), |(all, deep), key| (all + 1, deep + u64::from(key.tries_higher_numbers())));
        let count = all.min(budget / least);
        let window = match (budget - count * least).checked_div(deep) {
            Some(each) if count == all && sealed.len() <= SHORT => (each / attempt).min(WINDOW),
            _ => 0,
        };
        let from = next.max(FIRST);
        for candidate in candidates().take(count as usize) {
            self.spend(DERIVATION);
            let Some(mut keys) = candidate.keys(negotiation) else { continue };
            let behind = if candidate.tries_higher_numbers() { from + window } else { from };
            for number in (0..FIRST).chain(from..behind) {
                scratch.clear();
                scratch.extend_from_slice(sealed);
                self.spend(attempt);
                if keys.opens(number, record, scratch) {
                    keys.number = number;
                    self.sought[direction as usize] = None;
                    return Some(FoundSession { random: *candidate.random, direction: candidate.direction, keys });
                }
            }
        }
        self.sought[direction as usize] = Some(if count == all { from + window } else { next } + 1);
        None
    }

    fn spend(&mut self, cost: u64) {
        self.connection_budget = self.connection_budget.saturating_sub(cost);
        self.capture_budget = self.capture_budget.saturating_sub(cost);
    }
}

/// All keys that may protect a record, those of the latest sessions first.
fn candidates<'a>(
    negotiation: &'a Negotiation,
    log: &'a KeyLog,
    direction: Direction,
) -> impl Iterator<Item = Candidate<'a>> {
    let known = negotiation.client_random.as_ref();
    let is_old = negotiation.version.is_some_and(|version| version < Version::TLS_1_3);
    // A ServerHello, or a record that was opened, shows which side is the client.
    let is_certain = known.is_some() || negotiation.version.is_some();
    let directions = [direction, direction.reversed()];
    let directions = directions.into_iter().take(if is_certain { 1 } else { 2 });
    let chosen = negotiation.cipher_suite.and_then(Suite::of);
    let suites: Vec<Suite> = if is_old {
        Vec::new()
    } else {
        Suite::tls13().filter(|suite| chosen.is_none_or(|chosen| chosen == *suite)).collect()
    };
    let sessions = log.sessions().filter(move |(random, _)| known.is_none_or(|known| known == *random));
    sessions.flat_map(move |(random, secrets)| {
        let (directions, suites) = (directions.clone(), suites.clone());
        let of_direction = move |direction: Direction| {
            let old = (is_old && secrets.get(Label::Master).is_some()).then_some((Epoch::Application, None));
            let epochs = [Epoch::Application, Epoch::Handshake].into_iter();
            let newest =
                epochs.filter_map(move |epoch| Some((epoch, secrets.get(EpochKeys::label(epoch, direction)?)?)));
            let suites = suites.clone();
            let newest = newest.flat_map(move |(epoch, secret)| {
                let fitting = suites.clone().into_iter().filter(|suite| suite.hash_length() == secret.as_bytes().len());
                fitting.map(move |suite| (epoch, Some(suite)))
            });
            let keys = old.into_iter().chain(newest);
            keys.map(move |(epoch, suite)| Candidate { random, secrets, direction, epoch, suite })
        };
        directions.flat_map(of_direction)
    })
}

impl Candidate<'_> {
    /// Whether higher numbers are tried, as for application data.
    fn tries_higher_numbers(&self) -> bool {
        self.epoch == Epoch::Application
    }

    fn keys(&self, negotiation: &Negotiation) -> Option<EpochKeys> {
        match self.suite {
            Some(suite) => {
                let secret = self.secrets.get(EpochKeys::label(self.epoch, self.direction)?)?;
                EpochKeys::of_traffic(self.epoch, suite, *secret)
            }
            None => EpochKeys::of_master(negotiation, self.random, self.secrets, self.direction),
        }
    }
}
