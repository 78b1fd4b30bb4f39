//! Names in `_meta` that MCP reserves (basic/index "_meta").

/// The prefix of reserved names.
pub const PREFIX: &str = "io.modelcontextprotocol/";
/// In a request: its revision. This name and the next four exist from 2026-07-28 on.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// In a request: name and version of the client.
pub const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
/// In a request: the capabilities of the client.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// In a request: the lowest level of log messages that the client wants.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// In a result: name and version of the server.
pub const SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// The id of the `subscriptions/listen` request that a message belongs to (2026-07-28
/// basic/patterns "subscriptions").
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a message belongs to (2025-11-25 basic/utilities/tasks "Related Task Metadata").
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
