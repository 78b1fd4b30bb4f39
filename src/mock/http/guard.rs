//! Who may ask: a page in a browser must not reach a server of this machine under a name of its own (DNS rebinding).

use std::net::IpAddr;

use crate::mcp::revision::Revision;

/// What a request may say of the server, of its own origin and of the protocol.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Names by which the server may be called.
    names: Vec<String>,
    /// The recorded revision, which need not be one that was published.
    revision: Option<String>,
}

impl Guard {
    pub(super) fn new(names: &[String], revision: Option<String>) -> Guard {
        Guard { names: names.iter().map(|name| name.to_ascii_lowercase()).collect(), revision }
    }

    /// Whether `MCP-Protocol-Version` may name this revision. "If the server receives a request with an invalid or unsupported
    /// MCP-Protocol-Version, it MUST respond with 400 Bad Request"; what is published is let through, so that a client of another era gets an
    /// answer that it understands.
    pub(super) fn allows_revision(&self, revision: &str) -> bool {
        Revision::named(revision).is_some() || self.revision.as_deref() == Some(revision)
    }

    /// Whether a `Host` field names this server. An address cannot be bound to another one, so only names are in doubt.
    pub(super) fn allows_host(&self, host: &str) -> bool {
        let name = name(host);
        name.parse::<IpAddr>().is_ok() || self.knows(&name)
    }

    /// Whether a page from this origin may ask. "Servers MUST validate the Origin header on all incoming connections to prevent DNS rebinding
    /// attacks" (basic/transports, "Security Warning"): pages of this machine may, and those that this server's address itself would serve.
    pub(super) fn allows_origin(&self, origin: &str, host: &str) -> bool {
        let lower = origin.to_ascii_lowercase();
        let Some(authority) = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://")) else {
            return false;
        };
        let name = name(authority);
        let is_own = name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        is_own || self.knows(&name) || authority == host.to_ascii_lowercase()
    }

    fn knows(&self, name: &str) -> bool {
        name == "localhost" || self.names.iter().any(|known| known == name)
    }
}

/// The name or address of an authority, without its port.
fn name(authority: &str) -> String {
    let name = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    };
    name.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_refused() {
        let guard = Guard::new(&["Mock.internal".into()], None);
        for host in ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "192.0.2.7", "mock.internal:80"] {
            assert!(guard.allows_host(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example", "", "[", "[evil]"] {
            assert!(!guard.allows_host(host), "{host}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        let guard = Guard::new(&[], None);
        let host = "192.0.2.7:8000";
        for origin in ["http://localhost", "http://127.0.0.1:6274", "https://[::1]", "http://192.0.2.7:8000"] {
            assert!(guard.allows_origin(origin, host), "{origin}");
        }
        for origin in
            ["null", "", "http://evil.example", "http://192.0.2.8", "file://", "http://localhost.evil.example"]
        {
            assert!(!guard.allows_origin(origin, host), "{origin}");
        }
    }
}
