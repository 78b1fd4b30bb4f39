//! Connections whose ClientHello was not captured: the session is found by trying.

use super::super::direction_keys::Epoch;
use super::super::handshake::Version;
use super::super::keylog::KeyLog;
use super::super::search::FoundSession;
use super::{HandshakePhase, Interpreter, ReceivedRecord};
use crate::decode::Direction;

impl Interpreter {
    /// Searches the session of a connection whose ClientHello was not captured, with the help of
    /// this record. Returns whether client and server were confused so far.
    pub fn find_session(&mut self, direction: Direction, received: &ReceivedRecord, log: &KeyLog) -> bool {
        if log.is_empty() || !received.complete || !self.is_protected(direction, received) {
            return false;
        }
        if self.negotiation.client_random.is_none() && !self.search.is_searching(direction) {
            self.search.begin();
        }
        let Interpreter { search, negotiation, scratch, .. } = self;
        let found = search.find(direction, received.record, &received.body, negotiation, log, scratch);
        let Some(FoundSession { random, direction: way, keys }) = found else { return false };
        negotiation.client_random = Some(random);
        if negotiation.version.is_none() {
            negotiation.version = Some(Version::TLS_1_3);
            negotiation.cipher_suite = Some(keys.suite.number);
            let phase = if keys.epoch == Epoch::Handshake { HandshakePhase::Encrypted } else { HandshakePhase::Over };
            self.halves.iter_mut().for_each(|half| half.phase = phase);
        }
        let reversed = way != direction;
        if reversed {
            self.halves.reverse();
            self.search.reverse();
            self.groups.reverse();
        }
        self.halves[way as usize].keys.set_found_keys(keys, received.start);
        reversed
    }
}
