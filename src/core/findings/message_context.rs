//! The input of the check functions for messages.

use std::cell::{OnceCell, RefCell};
use std::ops::Deref;

use super::history::{History, OpenRequest};
use super::mcp_exchange::McpExchange;
use super::message_facts::MessageFacts;
use super::server_versions::ServerVersions;
use crate::mcp::Transport;
use crate::mcp::contract::{self, Verdict};

/// A message, its request and exchange, and the state of its session.
pub struct MessageContext<'s, 'a> {
    pub(super) facts: &'s MessageFacts<'a>,
    /// The request that the message answers, if it is known and still remembered.
    pub request: Option<&'s OpenRequest>,
    /// The HTTP exchange that carries the message.
    pub exchange: Option<&'s McpExchange>,
    /// Compiled schemas of tools.
    pub schemas: &'s RefCell<contract::SchemaChecker>,
    /// The versions to which the servers of this capture agreed.
    pub versions: &'s RefCell<ServerVersions>,
    /// The state of the session before this message.
    pub history: &'s History,
    /// The verdict on the arguments or the structured content of a call. Two rules need it.
    pub(super) call_verdict: OnceCell<Option<Verdict>>,
}

impl MessageContext<'_, '_> {
    /// Whether the history belongs to one client only. A server without sessions is identified by
    /// its client's address, which several clients may share.
    pub fn is_one_client(&self) -> bool {
        match self.history.transport {
            Transport::Stdio | Transport::HttpSse => true,
            Transport::StreamableHttp | Transport::Http | Transport::WebSocket => {
                self.exchange.is_some_and(|mcp| mcp.names_session)
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
