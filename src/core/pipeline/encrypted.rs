//! TLS connections whose content was not seen: said once for all of them, with what to do about it.

use super::known::Known;
use crate::capture::PacketNumber;
use crate::decode::tls::Secrecy;
use crate::findings::{Finding, tls};

/// Names and packets that are listed: enough to recognise the connections by.
const LISTED: usize = 8;

/// Those without secrets, and those whose handshake was not captured.
#[derive(Debug, Default)]
pub(super) struct Encrypted {
    no_secrets: Connections,
    late: Connections,
}

#[derive(Debug, Default)]
struct Connections {
    count: u64,
    /// Names of servers.
    names: Vec<String>,
    /// The first packet of each.
    packets: Vec<PacketNumber>,
}

impl Encrypted {
    /// A connection is over.
    pub(super) fn count(&mut self, known: &Known) {
        let connections = match known.secrecy {
            Secrecy::NoSecrets => &mut self.no_secrets,
            Secrecy::Late => &mut self.late,
            Secrecy::Clear | Secrecy::Opened | Secrecy::WrongSecrets | Secrecy::Unsupported => return,
        };
        connections.count += 1;
        if let Some(name) = &known.record.host
            && connections.names.len() < LISTED
            && !connections.names.contains(name)
        {
            connections.names.push(name.clone());
        }
        let first = known.record.tls.first().and_then(|step| step.packets.first());
        if connections.packets.len() < LISTED {
            connections.packets.extend(first);
        }
    }

    /// What is to be said at the end.
    pub(super) fn findings(&mut self) -> impl Iterator<Item = Finding> {
        let Encrypted { no_secrets, late } = std::mem::take(self);
        let no_secrets = no_secrets.finding(&tls::NO_SECRETS, "is encrypted and no secrets for it are at hand");
        let late = late.finding(
            &tls::LATE,
            "began before the capture, and none of the secrets at hand was found to open it: start the capture first",
        );
        no_secrets.into_iter().chain(late)
    }
}

impl Connections {
    fn finding(self, rule: &'static crate::findings::Rule, what: &str) -> Option<Finding> {
        let count = match self.count {
            0 => return None,
            1 => "1 TLS connection".to_owned(),
            count => format!("each of {count} TLS connections"),
        };
        let names = if self.names.is_empty() { String::new() } else { format!(" ({})", self.names.join(", ")) };
        let text = format!("{count}{names} {what}; to see it, {}", tls::DECRYPTION_ADVICE);
        Some(Finding { packets: self.packets, text, ..Finding::of(rule) })
    }
}
