//! Everything that a rule may look at when a message is checked.

use std::cell::RefCell;
use std::ops::Deref;

use super::carried::Carried;
use super::history::{Asked, History};
use super::message_facts::Facts;
use super::server_versions::ServerVersions;
use crate::mcp::Transport;
use crate::mcp::contract;

/// A message with everything a rule may look at.
pub struct Seen<'s, 'a> {
    pub(super) facts: &'s Facts<'a>,
    /// The request it answers, where that is known and still remembered.
    pub asked: Option<&'s Asked>,
    /// The HTTP exchange that carries it.
    pub carried: Option<&'s Carried>,
    /// Schemas of tools, compiled when first asked for.
    pub schemas: &'s RefCell<contract::Checker>,
    /// Which versions the servers of this capture gave.
    pub versions: &'s RefCell<ServerVersions>,
    /// The session before this message.
    pub history: &'s History,
}

impl Seen<'_, '_> {
    /// Whether all that the history holds is one client's: a server that keeps no session is known by its client's address alone,
    /// which several clients may share.
    pub fn is_one_client(&self) -> bool {
        match self.history.transport {
            Transport::Stdio | Transport::HttpSse => true,
            Transport::StreamableHttp | Transport::Http | Transport::WebSocket => {
                self.carried.is_some_and(|carried| carried.names_session)
            }
        }
    }
}

impl<'a> Deref for Seen<'_, 'a> {
    type Target = Facts<'a>;

    fn deref(&self) -> &Facts<'a> {
        self.facts
    }
}
