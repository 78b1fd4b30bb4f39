//! Infers the type of TLS 1.3 records that were not opened, from their position and length.

use super::super::handshake::{alert_length, finished_length};
use super::super::record_groups::RecordSummary;
use super::{HandshakePhase, Interpreter};
use crate::decode::Direction;

/// The text for a ticket that was recognised without opening it.
const TICKET_TEXT: &str = "NewSessionTicket (encrypted; recognised by equal lengths right after the handshake)";

impl Interpreter {
    /// Infers the type of a TLS 1.3 record whose type is "application data", as of all encrypted
    /// ones:
    ///
    /// - Before the client's Finished, a server sends nothing but its handshake. A Finished is
    ///   recognised by its length. It is the third record at the latest, after a certificate
    ///   and its proof.
    /// - Tickets are the server's first records, two or more of equal length in a row. They arrive
    ///   before the client's first request or within two round trips of its Finished: servers send
    ///   them as soon as they may (RFC 8446 section 4.6.1).
    /// - A record with exactly the length of an alert, the last of its direction, is the alert that
    ///   closes it (section 6.1).
    pub(super) fn encrypted_record(&mut self, summary: RecordSummary) {
        /// The records of a client's last flight: Certificate, CertificateVerify and Finished.
        const CLIENT_FLIGHT: u8 = 3;
        /// More records than a server's handshake has, even with a chain of certificates over
        /// several records. The limit matters where the client's direction was not captured: then
        /// no Finished ever ends the server's handshake.
        const SERVER_FLIGHT: u8 = 8;
        /// Length of the record with EndOfEarlyData, which has no content (section 4.5).
        const END_OF_EARLY_DATA: u16 = 4 + 1 + 16;
        let finished = self.negotiation.cipher_suite.map(finished_length) == Some(summary.length);
        let [client, server] = &mut self.halves;
        match summary.direction {
            Direction::ClientToServer if client.phase == HandshakePhase::Encrypted => {
                let early = client.carried_data && !finished && summary.length != END_OF_EARLY_DATA;
                if early {
                    return self.groups.add_application_data(&summary, false);
                }
                client.handshake_records += 1;
                if finished || client.handshake_records == CLIENT_FLIGHT {
                    client.phase = HandshakePhase::Over;
                    self.client_finished_time = Some(summary.time);
                }
                self.groups.add_handshake(&summary, false);
                self.add_message_name(if finished { "Finished" } else { "encrypted messages" });
            }
            Direction::ServerToClient
                if client.phase != HandshakePhase::Over && server.handshake_records < SERVER_FLIGHT =>
            {
                server.handshake_records += 1;
                self.groups.add_handshake(&summary, false);
                self.add_message_name("encrypted messages");
            }
            _ => self.encrypted_record_after_handshake(summary),
        }
    }

    /// Infers the type of a record after the handshake, see [`Interpreter::encrypted_record`].
    fn encrypted_record_after_handshake(&mut self, summary: RecordSummary) {
        /// Lengths of tickets: from a header with a short reference up to the server's whole state.
        const TICKET: std::ops::Range<u16> = 50..1_024;
        let soon = self.client_finished_time.zip(self.round_trip).is_some_and(|(finished, round_trip)| {
            (0..=round_trip.saturating_mul(2)).contains(&summary.time.since(finished))
        });
        let unasked =
            self.client_finished_time.is_some() && !self.halves[Direction::ClientToServer as usize].carried_data;
        let early = soon || unasked;
        let alert = self.negotiation.cipher_suite.map(alert_length) == Some(summary.length);
        let half = &mut self.halves[summary.direction as usize];
        if half.ticket_length == Some(summary.length) && early {
            return self.groups.add_ticket(&summary, TICKET_TEXT);
        }
        half.ticket_length = None;
        let unused = !std::mem::replace(&mut half.carried_data, true);
        match half.undecided.take() {
            Some(first) if TICKET.contains(&first.length) && first.length == summary.length && early => {
                half.ticket_length = Some(summary.length);
                self.groups.add_ticket(&first, TICKET_TEXT);
                return self.groups.add_ticket(&summary, TICKET_TEXT);
            }
            Some(data) => self.groups.add_application_data(&data, false),
            None => {}
        }
        let ticket =
            summary.direction == Direction::ServerToClient && unused && early && TICKET.contains(&summary.length);
        if ticket || alert {
            half.undecided = Some(summary);
        } else {
            self.groups.add_application_data(&summary, false);
        }
    }
}
