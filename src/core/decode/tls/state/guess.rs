//! What records of TLS 1.3 are that were not opened: told by their place and length.

use super::super::handshake::{alert_length, finished_length};
use super::super::steps::Seen;
use super::{Phase, State};
use crate::decode::Direction;

/// How a ticket is told that was not opened.
const GUESSED: &str = "NewSessionTicket (encrypted; told by equal lengths right after the handshake)";

impl State {
    /// A record of TLS 1.3 that says it is application data, as all encrypted ones do. Without keys:
    ///
    /// - Before the client's Finished the server has nothing but its handshake to send, so far as servers do. Finished is
    ///   told by its length; at the most it is the third record, behind a certificate and its proof.
    /// - The server's first records, of one length in a row, before the client asks for anything or within two round trips
    ///   of its Finished, are tickets: servers send two or more as soon as they may (RFC 8446 section 4.6.1).
    /// - A record just as long as an alert, the last of its direction, is the alert that closes it (section 6.1).
    pub(super) fn application_data(&mut self, seen: Seen) {
        /// Certificate, CertificateVerify and Finished of a client.
        const CLIENT_FLIGHT: u8 = 3;
        /// More than the messages of a server, a chain of certificates over several records; where the client's direction
        /// was not captured, its Finished never comes.
        const SERVER_FLIGHT: u8 = 8;
        /// EndOfEarlyData has no content (section 4.5).
        const END_OF_EARLY_DATA: u16 = 4 + 1 + 16;
        let finished = self.negotiation.cipher_suite.map(finished_length) == Some(seen.length);
        let [client, server] = &mut self.halves;
        match seen.direction {
            Direction::ClientToServer if client.phase == Phase::Encrypted => {
                let early = client.used && !finished && seen.length != END_OF_EARLY_DATA;
                if early {
                    return self.steps.application(&seen, false);
                }
                client.encrypted += 1;
                if finished || client.encrypted == CLIENT_FLIGHT {
                    client.phase = Phase::Over;
                    self.finished = Some(seen.time);
                }
                self.steps.handshake(&seen, false);
                self.said(if finished { "Finished" } else { "encrypted messages" });
            }
            Direction::ServerToClient if client.phase != Phase::Over && server.encrypted < SERVER_FLIGHT => {
                server.encrypted += 1;
                self.steps.handshake(&seen, false);
                self.said("encrypted messages");
            }
            _ => self.behind_handshake(seen),
        }
    }

    /// A record of TLS 1.3 behind the handshake, see [`State::application_data`].
    fn behind_handshake(&mut self, seen: Seen) {
        /// The head of a ticket and a short reference to what the server remembers, up to all that it needs to know.
        const TICKET: std::ops::Range<u16> = 50..1_024;
        let soon = self.finished.zip(self.round_trip).is_some_and(|(finished, round_trip)| {
            (0..=round_trip.saturating_mul(2)).contains(&seen.time.since(finished))
        });
        let unasked = self.finished.is_some() && !self.halves[Direction::ClientToServer as usize].used;
        let early = soon || unasked;
        let alert = self.negotiation.cipher_suite.map(alert_length) == Some(seen.length);
        let half = &mut self.halves[seen.direction as usize];
        if half.ticket == Some(seen.length) && early {
            return self.steps.ticket(&seen, GUESSED);
        }
        half.ticket = None;
        let unused = !std::mem::replace(&mut half.used, true);
        match half.aside.take() {
            Some(first) if TICKET.contains(&first.length) && first.length == seen.length && early => {
                half.ticket = Some(seen.length);
                self.steps.ticket(&first, GUESSED);
                return self.steps.ticket(&seen, GUESSED);
            }
            Some(data) => self.steps.application(&data, false),
            None => {}
        }
        let ticket = seen.direction == Direction::ServerToClient && unused && early && TICKET.contains(&seen.length);
        if ticket || alert {
            half.aside = Some(seen);
        } else {
            self.steps.application(&seen, false);
        }
    }
}
