//! Who talks in a session, by the best name there is.

use crate::mcp::{Party, Peers, Session};

/// Name and version, where it said them.
pub fn party(party: &Option<Party>) -> Option<String> {
    let party = party.as_ref()?;
    Some(format!("{} {}", party.name, party.version).trim_end().to_owned())
}

/// The server: what it says it is, else what it was called, started by, or reached at.
pub fn server(session: &Session) -> String {
    party(&session.server).unwrap_or_else(|| match &session.peers {
        Peers::Process { name: Some(name), .. } => name.clone(),
        Peers::Process { command, .. } => command.join(" "),
        Peers::Network { server, host: Some(host), .. } => format!("{host} ({server})"),
        Peers::Network { server, .. } => server.to_string(),
    })
}
