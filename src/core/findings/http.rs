//! Rules about Streamable HTTP: heads, statuses, session ids, streams. HTTP+SSE of 2024-11-05, whose POSTs are only taken in and
//! answered elsewhere, is none of their business.

pub(super) mod modern;
pub(super) mod requests;
pub(super) mod responses;
pub(super) mod session_id;
pub(super) mod streams;

use super::History;
use crate::mcp::Transport;

/// Whether these rules are about this session.
pub(super) fn is_streamable(history: &History) -> bool {
    matches!(history.transport, Transport::StreamableHttp | Transport::Http)
}
