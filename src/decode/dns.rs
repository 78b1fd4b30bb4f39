//! Names of servers, from DNS answers (RFC 1035).

use std::net::IpAddr;

/// The name asked for and an address it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name of the question, lower case, without the final dot.
    pub name: String,
    /// An address of the answer, directly or behind aliases (CNAME).
    pub address: IpAddr,
}

/// The names that a DNS message tells; empty for a query, an error or bytes that are no DNS.
pub fn names(message: &[u8]) -> Vec<Name> {
    let _ = message;
    Vec::new()
}
