//! Everything that a rule may look at when a message is checked.

use std::cell::RefCell;
use std::ops::Deref;

use super::history::{History, OpenRequest};
use super::mcp_exchange::McpExchange;
use super::message_facts::MessageFacts;
use super::server_versions::ServerVersions;
use crate::mcp::Transport;
use crate::mcp::contract;

/// A message with everything a rule may look at.
pub struct MessageContext<'s, 'a> {
    pub(super) facts: &'s MessageFacts<'a>,
    /// The request it answers, where that is known and still remembered.
    pub request: Option<&'s OpenRequest>,
    /// The HTTP exchange that carries it.
    pub mcp: Option<&'s McpExchange>,
    /// Schemas of tools, compiled when first asked for.
    pub schemas: &'s RefCell<contract::SchemaChecker>,
    /// Which versions the servers of this capture gave.
    pub versions: &'s RefCell<ServerVersions>,
    /// The session before this message.
    pub history: &'s History,
}

impl MessageContext<'_, '_> {
    /// Whether all that the history holds is one client's: a server that keeps no session is known by its client's address alone,
    /// which several clients may share.
    pub fn is_one_client(&self) -> bool {
        match self.history.transport {
            Transport::Stdio | Transport::HttpSse => true,
            Transport::StreamableHttp | Transport::Http | Transport::WebSocket => {
                self.mcp.is_some_and(|mcp| mcp.names_session)
            }
        }
    }
}

impl<'a> Deref for MessageContext<'_, 'a> {
    type Target = MessageFacts<'a>;

    fn deref(&self) -> &MessageFacts<'a> {
        self.facts
    }
}
