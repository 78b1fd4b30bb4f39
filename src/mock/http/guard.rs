//! Checks which clients may use the server. A page in a browser must not reach it under a domain of
//! the page's owner (DNS rebinding).

use std::net::IpAddr;

use crate::decode::uri;
use crate::http::listen::is_own_name;
use crate::mcp::revision::Revision;

/// Checks of the header fields `Host`, `Origin` and `MCP-Protocol-Version`.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    /// Names for this server that clients may use.
    pub(super) names: Vec<String>,
    /// The recorded revision. It can be one that was never published.
    pub(super) revision: Option<String>,
}

impl Guard {
    /// Whether a request may name this revision. "If the server receives a request with an invalid
    /// or unsupported MCP-Protocol-Version, it MUST respond with 400 Bad Request".
    ///
    /// All published revisions are accepted, so that a client of the other era gets a response that
    /// it can parse.
    pub(super) fn allows_revision(&self, revision: &str) -> bool {
        Revision::named(revision).is_some() || self.revision.as_deref() == Some(revision)
    }

    /// Whether a web page of this origin may send requests. "Servers MUST validate the Origin
    /// header on all incoming connections to prevent DNS rebinding attacks" (basic/transports,
    /// "Security Warning").
    ///
    /// Allowed are pages of this machine, and pages that this server itself would serve.
    pub(super) fn allows_origin(&self, origin: &str, host: &str) -> bool {
        let lower = origin.to_ascii_lowercase();
        let Some(authority) = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://")) else {
            return false;
        };
        match uri::host_name(authority).parse::<IpAddr>() {
            Ok(address) if address.is_loopback() => true,
            Err(_) if is_own_name(authority, &self.names) => true,
            _ => authority == host.to_ascii_lowercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_origins_are_refused() {
        let guard = Guard { names: Vec::new(), revision: None };
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
