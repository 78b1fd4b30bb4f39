//! Names of the two sides of a session.

use std::net::SocketAddr;

use crate::capture::above_tls;
use crate::capture::pipe::FIRST_IMPORTED;
use crate::mcp::{Party, Peers, Session};

/// The name and version that a party gave itself.
pub fn party(party: &Option<Party>) -> Option<String> {
    let party = party.as_ref()?;
    Some(format!("{} {}", party.name, party.version).trim_end().to_owned())
}

/// The best name of the server: the one that it gave itself, else the one given with `--name`, its
/// command, or its address.
pub fn server(session: &Session) -> String {
    party(&session.server).or_else(|| session.name.clone()).unwrap_or_else(|| match &session.peers {
        Peers::Process { command, .. } => command.join(" "),
        Peers::Network { client, server, host: Some(host) } => format!("{host} ({})", place(*client, *server)),
        Peers::Network { client, server, host: None } => place(*client, *server),
    })
}

/// The address of a server, or the process in which its text above TLS was recorded.
pub fn place(client: SocketAddr, server: SocketAddr) -> String {
    let process = above_tls::process(&[client, server]);
    process.map_or(server.to_string(), |process| format!("above TLS in process {process}"))
}

/// A process in a few words. An imported session has none.
pub fn process_name(process: u32) -> String {
    if process >= FIRST_IMPORTED { "imported".to_owned() } else { format!("pid {process}") }
}
