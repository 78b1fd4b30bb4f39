//! Rules about Streamable HTTP: heads, statuses, session ids, streams. They do not apply to
//! HTTP+SSE (2024-11-05), whose POSTs are answered on another stream.

pub(super) mod modern;
pub(super) mod requests;
pub(super) mod responses;
pub(super) mod session_id;
pub(super) mod streams;

use super::{History, Rule};
use crate::mcp::Transport;

/// Whether these rules apply to this session.
pub(super) fn is_streamable(history: &History) -> bool {
    matches!(history.transport, Transport::StreamableHttp | Transport::Http)
}

/// Rules that report a header field as missing.
const ABSENCE: [&str; 11] = [
    "http-accept-get",
    "http-accept-post",
    "http-401-no-challenge",
    "http-authorization-dropped",
    "http-content-type-post",
    "http-response-content-type",
    "http-header-method",
    "http-header-name",
    "http-header-param",
    "http-protocol-version-missing",
    "http-session-id-missing",
];

/// Whether a rule reports a header field as missing. HTTP/2 refers to fields that were sent earlier
/// (RFC 7541). If these were not captured, such a rule cannot be judged.
pub(super) fn reports_absence(rule: &Rule) -> bool {
    ABSENCE.contains(&rule.id)
}

#[cfg(test)]
mod tests {
    #[test]
    fn rules_about_absent_fields_exist() {
        for id in super::ABSENCE {
            assert!(crate::findings::rule(id).is_some(), "{id}");
        }
    }
}
