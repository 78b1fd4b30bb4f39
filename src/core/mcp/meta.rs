//! Members of `_meta` whose names MCP keeps for itself (basic/index, "_meta").

/// How their names begin.
pub const PREFIX: &str = "io.modelcontextprotocol/";
/// The revision that a request is of (2026-07-28 on, as are the next four).
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who the client is.
pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// What the client can do.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The level of log messages that a request asks for.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Who the server is: in results.
pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// The `subscriptions/listen` that a message belongs to (2026-07-28 basic/patterns, "subscriptions").
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25 basic/utilities/tasks, "Related Task Metadata").
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
