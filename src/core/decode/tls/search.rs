//! Which session a connection carries whose ClientHello was not captured.
//!
//! The ClientHello says which secrets of a key log are a connection's. Where the capture begins behind it, all of them are tried, and a record that
//! opens is the proof: no other key and no other number opens it. What is not known beside is tried too:
//!
//! ```text
//!                     suite     keys of                         number
//! ServerHello seen    known     either side of the handshake    0 ..
//! nothing seen        each      both sides, since who is the    0 .., of application data further on, from record to record
//!                     of 1.3    client is not known either
//! ```
//!
//! The keys of TLS 1.2 are made of the ServerHello's random too: without it nothing is tried. Attempts are paid for from an allowance, that of
//! the connection and that of the capture, so that no capture and no key log makes the search endless.

use super::handshake::Version;
use super::keylog::{KeyLog, Label, Random, Secrets};
use super::opening::{Epoch, Keys};
use super::record::Record;
use super::steps::Negotiation;
use super::suite::Suite;
use crate::decode::Direction;

/// Numbers that are tried of every record with all keys: a flight of the handshake has few records, and where it ends numbers begin anew.
const FIRST: u64 = 8;
/// The longest record of which higher numbers are tried: each attempt reads it whole, and shorter ones will come.
const SHORT: usize = 4 << 10;
/// Higher numbers tried of one record with one key: a connection that is used for long before it is captured.
const WINDOW: u64 = 16_384;
/// What attempts for one connection may cost, in bytes read: a tenth of a second.
const ALLOWANCE: u64 = 64 << 20;
/// One of so many parts of what is left is spent on one record.
const SHARE: u64 = 4;
/// What an attempt costs beside its bytes, and what it costs to make keys of a secret.
const ATTEMPT: u64 = 128;
const DERIVATION: u64 = 4 << 10;

/// A search, and what it may still cost.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// For each direction in which no record was opened so far, the lowest number that its next record can have beyond the first few.
    sought: [Option<u64>; 2],
    /// What may still be spent for this connection, and for all of the capture.
    left: u64,
    pub total: u64,
}

/// The session, proven by a record.
#[derive(Debug)]
pub(super) struct Found {
    pub random: Random,
    /// Which way the record really went.
    pub direction: Direction,
    /// The keys of that direction; their number is that of the record.
    pub keys: Keys,
}

/// Keys that a record may be under.
struct Candidate<'a> {
    random: &'a Random,
    secrets: &'a Secrets,
    direction: Direction,
    epoch: Epoch,
    suite: Option<Suite>,
}

impl Default for Search {
    fn default() -> Search {
        Search { sought: [None; 2], left: ALLOWANCE, total: ALLOWANCE }
    }
}

impl Search {
    /// A protected record came and no ClientHello before it: from here on records of both directions are looked at.
    pub fn begin(&mut self) {
        self.sought = [Some(0); 2];
    }

    /// Whether no record of this direction was found so far.
    pub fn seeks(&self, direction: Direction) -> bool {
        self.sought[direction as usize].is_some()
    }

    /// The session was found the other way round.
    pub fn reverse(&mut self) {
        self.sought.reverse();
    }

    /// Looks for the keys that open a record. A session that was found by the other direction is the only one tried.
    pub fn find(
        &mut self,
        direction: Direction,
        record: Record,
        sealed: &[u8],
        negotiation: &Negotiation,
        log: &KeyLog,
        scratch: &mut Vec<u8>,
    ) -> Option<Found> {
        let next = self.sought[direction as usize]?;
        let budget = self.left.min(self.total) / SHARE;
        let attempt = sealed.len() as u64 + ATTEMPT;
        let least = DERIVATION + FIRST * attempt;
        if budget < least {
            // Not even a look at what could be tried: the log may have thousands of sessions, and the connection millions of records.
            self.sought[direction as usize] = Some(next + 1);
            return None;
        }
        let candidates = || candidates(negotiation, log, direction);
        let (all, deep) = candidates().fold((0, 0), |(all, deep), key| (all + 1, deep + u64::from(key.is_deep())));
        let count = all.min(budget / least);
        let window = match (budget - count * least).checked_div(deep) {
            Some(each) if count == all && sealed.len() <= SHORT => (each / attempt).min(WINDOW),
            _ => 0,
        };
        let from = next.max(FIRST);
        for candidate in candidates().take(count as usize) {
            self.spend(DERIVATION);
            let Some(mut keys) = candidate.keys(negotiation) else { continue };
            let behind = if candidate.is_deep() { from + window } else { from };
            for number in (0..FIRST).chain(from..behind) {
                scratch.clear();
                scratch.extend_from_slice(sealed);
                self.spend(attempt);
                if keys.opens(number, record, scratch) {
                    keys.number = number;
                    self.sought[direction as usize] = None;
                    return Some(Found { random: *candidate.random, direction: candidate.direction, keys });
                }
            }
        }
        self.sought[direction as usize] = Some(if count == all { from + window } else { next } + 1);
        None
    }

    fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
        self.total = self.total.saturating_sub(cost);
    }
}

/// All keys that a record may be under, those of the latest sessions first.
fn candidates<'a>(
    negotiation: &'a Negotiation,
    log: &'a KeyLog,
    direction: Direction,
) -> impl Iterator<Item = Candidate<'a>> {
    let known = negotiation.client_random.as_ref();
    let is_old = negotiation.version.is_some_and(|version| version < Version::TLS_1_3);
    // A ServerHello, or a record that was opened, says who is who.
    let is_certain = known.is_some() || negotiation.version.is_some();
    let directions = [direction, direction.reversed()];
    let directions = directions.into_iter().take(if is_certain { 1 } else { 2 });
    let chosen = negotiation.cipher_suite.and_then(Suite::of);
    let suites: Vec<Suite> = if is_old {
        Vec::new()
    } else {
        Suite::newest().filter(|suite| chosen.is_none_or(|chosen| chosen == *suite)).collect()
    };
    let sessions = log.sessions().filter(move |(random, _)| known.is_none_or(|known| known == *random));
    sessions.flat_map(move |(random, secrets)| {
        let (directions, suites) = (directions.clone(), suites.clone());
        let of_direction = move |direction: Direction| {
            let old = (is_old && secrets.get(Label::Master).is_some()).then_some((Epoch::Application, None));
            let epochs = [Epoch::Application, Epoch::Handshake].into_iter();
            let newest = epochs.filter_map(move |epoch| Some((epoch, secrets.get(Keys::label(epoch, direction)?)?)));
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
    /// Whether higher numbers are tried: those of application data.
    fn is_deep(&self) -> bool {
        self.epoch == Epoch::Application
    }

    fn keys(&self, negotiation: &Negotiation) -> Option<Keys> {
        match self.suite {
            Some(suite) => {
                let secret = self.secrets.get(Keys::label(self.epoch, self.direction)?)?;
                Keys::of_traffic(self.epoch, suite, *secret)
            }
            None => Keys::of_master(negotiation, self.random, self.secrets, self.direction),
        }
    }
}
