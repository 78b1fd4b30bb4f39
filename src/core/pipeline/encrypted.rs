//! TLS connections whose content could not be decrypted. One finding reports all of them and the
//! remedy.

use super::connection_state::ConnectionState;
use crate::capture::PacketNumber;
use crate::decode::tls::Secrecy;
use crate::findings::{Finding, tls};

/// Server names and packets that a finding lists. They are enough to recognise the connections.
const LISTED: usize = 8;

/// The connections without secrets, and those whose handshake was not captured.
#[derive(Debug, Default)]
pub(super) struct Encrypted {
    no_secrets: Connections,
    late: Connections,
}

#[derive(Debug, Default)]
struct Connections {
    count: u64,
    /// Host names of the servers.
    names: Vec<String>,
    /// The first packet of each connection.
    packets: Vec<PacketNumber>,
}

impl Encrypted {
    /// Counts a connection that ended.
    pub(super) fn count(&mut self, state: &ConnectionState) {
        let connections = match state.secrecy {
            Secrecy::NoSecrets => &mut self.no_secrets,
            Secrecy::Late => &mut self.late,
            Secrecy::Clear | Secrecy::Opened | Secrecy::WrongSecrets | Secrecy::Unsupported => return,
        };
        connections.count += 1;
        if let Some(name) = &state.record.host
            && connections.names.len() < LISTED
            && !connections.names.contains(name)
        {
            connections.names.push(name.clone());
        }
        let first = state.record.tls.first().and_then(|step| step.packets.first());
        if connections.packets.len() < LISTED {
            connections.packets.extend(first);
        }
    }

    /// The findings, at the end of the capture.
    pub(super) fn findings(&mut self) -> impl Iterator<Item = Finding> {
        let Encrypted { no_secrets, late } = std::mem::take(self);
        let no_secrets = no_secrets.finding(&tls::NO_SECRETS, "is encrypted, and no TLS secrets for it were given");
        let late = late.finding(
            &tls::LATE,
            "began before the capture, and none of the given TLS secrets decrypts it: start the capture first",
        );
        no_secrets.into_iter().chain(late)
    }
}

impl Connections {
    fn finding(self, rule: &'static crate::findings::Rule, problem: &str) -> Option<Finding> {
        let count = match self.count {
            0 => return None,
            1 => "1 TLS connection".to_owned(),
            count => format!("each of {count} TLS connections"),
        };
        let names = if self.names.is_empty() { String::new() } else { format!(" ({})", self.names.join(", ")) };
        let text = format!("{count}{names} {problem}; to see it, {}", tls::DECRYPTION_ADVICE);
        Some(Finding { packets: self.packets, text, ..Finding::of(rule) })
    }
}
