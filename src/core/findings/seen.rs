//! A message as a rule sees it: what is asked again and again is computed once, what is rarely asked only when it is.

use std::cell::{OnceCell, RefCell};
use std::ops::Deref;

use super::carried::Carried;
use super::history::{Asked, History};
use super::lifecycle::versions::Versions;
use crate::decode::Direction;
use crate::decode::json::{self, Object};
use crate::decode::jsonrpc::Kind;
use crate::mcp::content::body;
use crate::mcp::contract::{self, TOOLS};
use crate::mcp::method::Method;
use crate::mcp::revision::Revisions;
use crate::mcp::shape::{self, Mismatch, Role};
use crate::mcp::{Message, Transport};

/// By what the revision in force for a message is known, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The request itself says it (`_meta`, 2026-07-28 on).
    Meta,
    /// The answer to `initialize` said it.
    Negotiated,
    /// `initialize` asked for it and is not answered yet.
    Requested,
    /// The header `MCP-Protocol-Version` says it.
    Header,
    /// It is among those of this era: the transport or other requests of the session say so.
    Era,
    /// Nothing says it.
    None,
}

/// The revisions that may be in force for a message, and why these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// They: one, where it is known.
    pub revisions: Revisions,
    /// Why.
    pub evidence: Evidence,
}

impl InForce {
    /// Nothing is known.
    pub const UNKNOWN: InForce = InForce { revisions: Revisions::ALL, evidence: Evidence::None };
}

/// What is computed of a message alone.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The message.
    pub message: &'a Message,
    /// Its method; for an answer that of the request it answers.
    pub method: Method,
    /// The revision in force.
    pub in_force: InForce,
    body: OnceCell<Object<'a>>,
    meta: OnceCell<Object<'a>>,
    tools: OnceCell<Vec<Object<'a>>>,
    mismatches: OnceCell<Vec<Mismatch>>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(message: &'a Message) -> Facts<'a> {
        let method = message.method.as_deref().map_or(Method::Other, Method::named);
        let in_force = InForce::UNKNOWN;
        let (body, meta, tools, mismatches) = Default::default();
        Facts { message, method, in_force, body, meta, tools, mismatches }
    }

    /// The revisions that may be in force.
    pub fn revisions(&self) -> Revisions {
        self.in_force.revisions
    }

    /// The text of `params`, `result` or `error`: whatever makes the message what it is.
    pub fn text(&self) -> Option<&'a str> {
        self.message.envelope.place_of_body().map(|_| self.body().json())
    }

    /// The members of that; empty where it is no object.
    pub fn body(&self) -> &Object<'a> {
        self.body.get_or_init(|| body(self.message))
    }

    /// The members of its `_meta`.
    pub fn meta(&self) -> &Object<'a> {
        self.meta.get_or_init(|| self.body().object("_meta"))
    }

    /// The tools that a `tools/list` result lists; one more than are kept of a session, at most.
    pub fn tools(&self) -> &[Object<'a>] {
        self.tools.get_or_init(|| {
            let listed = self.body().get("tools").unwrap_or_default();
            json::array(listed, TOOLS + 1).into_iter().map(Object::read).collect()
        })
    }

    /// How it differs from its definition, whichever revision is in force: what one of several possible revisions allows is no
    /// difference. Ids and the version field have rules of their own, as has a body that is no object.
    pub fn mismatches(&self) -> &[Mismatch] {
        self.mismatches.get_or_init(|| {
            let role = match self.message.kind {
                Kind::Request | Kind::Notification => Role::Method(self.method_name()),
                Kind::Response if self.message.answers.is_some() => Role::AnswerTo(self.method_name()),
                _ => return Vec::new(),
            };
            if self.text().is_some_and(|text| !text.starts_with('{')) {
                return Vec::new();
            }
            let mut found = Vec::new();
            for revision in self.revisions().iter() {
                found = shape::check(revision, role, self.message.raw.text().unwrap_or_default());
                found.retain(|mismatch| !matches!(mismatch.path.as_str(), "/jsonrpc" | "/id"));
                if found.is_empty() {
                    break;
                }
            }
            found
        })
    }

    /// The JSON-RPC id as text, for people.
    pub fn id(&self) -> &'a str {
        self.message.id.as_deref().unwrap_or("null")
    }

    /// Whether the client sent it.
    pub fn is_from_client(&self) -> bool {
        self.message.direction == Direction::ClientToServer
    }

    /// The name of its method as sent.
    pub fn method_name(&self) -> &'a str {
        self.message.method.as_deref().unwrap_or_default()
    }
}

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
    pub versions: &'s RefCell<Versions>,
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
