//! Secrets without the client random of their session, as they are taken from a running process.
//!
//! ```text
//! CLIENT_TRAFFIC_SECRET_0 - <secret>      a line of a key log with a dash for the random
//! ```
//!
//! Records that wait for secrets prove which session one belongs to: the first record of its epoch
//! has the number 0, and no other secret opens it (decision 34). Then the secret is in the key log,
//! like any other.

use std::collections::VecDeque;

use super::direction_keys::{Epoch, EpochKeys};
use super::keylog::{Label, Random, Secret, Secrets, read_unnamed};
use super::record::ContentType;
use super::record_groups::Negotiation;
use super::reread::{BufferedInput, RereadBuffer};
use super::suite::Suite;
use crate::decode::Direction;

/// Secrets that wait for their session; the oldest is evicted first. A process has few handshakes
/// at once, and those of connections that are not captured stay.
const WAITING: usize = 256;

/// Protected records of one direction that are tried. The handshake has fewer, and the first record
/// of application data follows it.
const TRIED: usize = 16;

/// Bytes of attempts that one connection may cost: those that are not of the process are tried too.
const ALLOWANCE: u64 = 16 << 20;

/// The secrets that are not assigned to a session.
#[derive(Debug, Default)]
pub struct UnnamedSecrets {
    waiting: VecDeque<UnnamedSecret>,
    /// Secrets that came so far.
    pub arrived: u64,
}

/// A secret that waits.
#[derive(Debug)]
struct UnnamedSecret {
    label: Label,
    secret: Secret,
    /// Its connections that are not known yet. Only a master secret has several: TLS 1.2 uses it
    /// again when a session is resumed, and the process gives it once for each connection.
    connections: u64,
}

impl UnnamedSecrets {
    /// Takes the lines that name no session. Returns whether there were any new ones.
    pub fn add(&mut self, lines: &[u8]) -> bool {
        let before = self.arrived;
        for (label, secret) in lines.split(|byte| *byte == b'\n').filter_map(read_unnamed) {
            match self.place(label, secret) {
                Some(place) if label == Label::Master => self.waiting[place].connections += 1,
                // The other end of the connection gave it.
                Some(_) => continue,
                None => {
                    if self.waiting.len() == WAITING {
                        self.waiting.pop_front();
                    }
                    self.waiting.push_back(UnnamedSecret { label, secret, connections: 1 });
                }
            }
            self.arrived += 1;
        }
        self.arrived != before
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// One connection of a secret is known now. If it was the last one, the secret is removed.
    pub fn remove(&mut self, label: Label, secret: Secret) {
        let Some(place) = self.place(label, secret) else { return };
        self.waiting[place].connections -= 1;
        if self.waiting[place].connections == 0 {
            self.waiting.remove(place);
        }
    }

    fn place(&self, label: Label, secret: Secret) -> Option<usize> {
        self.waiting.iter().position(|waiting| (waiting.label, waiting.secret) == (label, secret))
    }
}

/// The attempts of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    /// The records and secrets that the last attempts knew.
    tried: Option<(usize, u64)>,
    /// Bytes that attempts have cost.
    cost: u64,
}

impl RereadBuffer {
    /// Finds the secrets that open the first record of their epoch.
    pub(super) fn prove(
        &mut self,
        negotiation: &Negotiation,
        unnamed: &UnnamedSecrets,
        scratch: &mut Vec<u8>,
    ) -> Vec<(Label, Random, Secret)> {
        let now = (self.inputs.len(), unnamed.arrived);
        let Some(random) = negotiation.client_random else { return Vec::new() };
        if unnamed.is_empty() || self.attempts.tried.replace(now) == Some(now) {
            return Vec::new();
        }
        let RereadBuffer { inputs, attempts, .. } = self;
        let records = |direction: Direction| {
            let own = inputs.iter().filter(move |(of, _)| *of == direction);
            let records = own.filter_map(|(_, input)| match input {
                BufferedInput::Record(received) if received.complete => Some(received),
                _ => None,
            });
            records.filter(|received| received.record.content != ContentType::ChangeCipherSpec).take(TRIED)
        };
        let mut proved = Vec::new();
        for UnnamedSecret { label, secret, .. } in &unnamed.waiting {
            let (direction, epoch) = label.direction_and_epoch();
            for keys in keys(negotiation, &random, *label, epoch, direction, *secret) {
                for received in records(direction) {
                    let length = received.body.len() as u64;
                    if attempts.cost.saturating_add(length) > ALLOWANCE {
                        return proved;
                    }
                    attempts.cost += length;
                    scratch.clear();
                    scratch.extend_from_slice(&received.body);
                    if keys.opens(0, received.record, scratch) {
                        proved.push((*label, random, *secret));
                        break;
                    }
                }
            }
        }
        proved
    }
}

/// The keys that derive from a secret for a direction: one, or of early data each that fits.
fn keys(
    negotiation: &Negotiation,
    random: &Random,
    label: Label,
    epoch: Epoch,
    direction: Direction,
    secret: Secret,
) -> Vec<EpochKeys> {
    if label == Label::Master {
        let secrets = Secrets::of(label, secret);
        return EpochKeys::of_master(negotiation, random, &secrets, direction).into_iter().collect();
    }
    let chosen = negotiation.cipher_suite.filter(|_| epoch != Epoch::Early);
    let suites = Suite::tls13().filter(|suite| chosen.is_none_or(|chosen| chosen == suite.number));
    let fitting = suites.filter(|suite| suite.hash_length() == secret.as_bytes().len());
    fitting.filter_map(|suite| EpochKeys::of_traffic(epoch, suite, secret)).collect()
}

impl Label {
    /// The direction and the epoch whose records a secret opens. The master secret opens both
    /// directions. The client's first record is tried.
    fn direction_and_epoch(self) -> (Direction, Epoch) {
        match self {
            Label::Master | Label::ClientTraffic => (Direction::ClientToServer, Epoch::Application),
            Label::ServerTraffic => (Direction::ServerToClient, Epoch::Application),
            Label::ClientEarly => (Direction::ClientToServer, Epoch::Early),
            Label::ClientHandshake => (Direction::ClientToServer, Epoch::Handshake),
            Label::ServerHandshake => (Direction::ServerToClient, Epoch::Handshake),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_secret_waits_once_for_each_connection_that_resumes_its_session() {
        let mut unnamed = UnnamedSecrets::default();
        let [master, traffic] = ["CLIENT_RANDOM", "CLIENT_TRAFFIC_SECRET_0"];
        let line = |label, digit: &str| format!("{label} - {}\n", digit.repeat(96));
        let both = [line(master, "1"), line(traffic, "2"), line(master, "1"), line(traffic, "2")].concat();
        assert!(unnamed.add(both.as_bytes()));
        assert_eq!(unnamed.arrived, 3);
        let secrets: Vec<_> = unnamed.waiting.iter().map(|waiting| (waiting.label, waiting.secret)).collect();
        for (left, (label, secret)) in [(2, secrets[0]), (1, secrets[0]), (0, secrets[1])] {
            assert!(!unnamed.is_empty());
            unnamed.remove(label, secret);
            assert_eq!(unnamed.waiting.len(), left);
        }
    }
}
