//! Rules about Streamable HTTP: heads, statuses, session ids, streams. They do not apply to
//! HTTP+SSE (2024-11-05), whose POSTs are answered on another stream.

pub(super) mod modern;
pub(super) mod requests;
pub(super) mod responses;
pub(super) mod session_id;
pub(super) mod streams;

use super::History;
use crate::mcp::Transport;

/// Whether these rules apply to this session.
pub(super) fn is_streamable(history: &History) -> bool {
    matches!(history.transport, Transport::StreamableHttp | Transport::Http)
}
