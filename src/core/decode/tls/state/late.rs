//! Connections whose ClientHello was not captured: the session is found by trying.

use super::super::handshake::Version;
use super::super::keylog::KeyLog;
use super::super::opening::Epoch;
use super::super::search::Found;
use super::{Phase, State, Whole};
use crate::decode::Direction;

impl State {
    /// Searches the session of a connection whose ClientHello was not captured, with the help of
    /// this record. Returns whether client and server were confused so far.
    pub fn find(&mut self, direction: Direction, whole: &Whole, log: &KeyLog) -> bool {
        if log.is_empty() || !whole.complete || !self.is_protected(direction, whole) {
            return false;
        }
        if self.negotiation.client_random.is_none() && !self.search.seeks(direction) {
            self.search.begin();
        }
        let State { search, negotiation, scratch, .. } = self;
        let found = search.find(direction, whole.record, &whole.body, negotiation, log, scratch);
        let Some(Found { random, direction: way, keys }) = found else { return false };
        negotiation.client_random = Some(random);
        if negotiation.version.is_none() {
            negotiation.version = Some(Version::TLS_1_3);
            negotiation.cipher_suite = Some(keys.suite.number);
            let phase = if keys.epoch == Epoch::Handshake { Phase::Encrypted } else { Phase::Over };
            self.halves.iter_mut().for_each(|half| half.phase = phase);
        }
        let reversed = way != direction;
        if reversed {
            self.halves.reverse();
            self.search.reverse();
            self.steps.reverse();
        }
        self.halves[way as usize].opening.join(keys, whole.start);
        reversed
    }
}
