//! A message with everything that is derived from it alone. Each value is computed when it
//! is first used.

use std::cell::OnceCell;
use std::sync::Arc;

use super::history::{ListedTool, fingerprint_without};
use super::known_lists::KnownList;
use crate::decode::json::{self, Object};
use crate::decode::{Direction, Kind};
use crate::mcp::content::body;
use crate::mcp::contract::TOOLS;
use crate::mcp::shape::{self, Mismatch, Role};
use crate::mcp::{Message, Method, Revisions};

/// Limit of the bytes of a tool's name. Names have at most 128 characters, so lists with longer
/// ones are not compared.
const NAME: usize = 256;

/// The source that names the revision in force, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Evidence {
    /// The `_meta` of the request (2026-07-28 on).
    Meta,
    /// The response to `initialize`.
    Negotiated,
    /// The version that `initialize` requests, while it has no response.
    Requested,
    /// The header `MCP-Protocol-Version`.
    Header,
    /// The era, which the transport or other requests of the session show.
    Era,
    /// No source names a revision.
    None,
}

/// The revisions that may be in force for a message, and the source that names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InForce {
    /// The candidates. There is only one if the revision is known.
    pub revisions: Revisions,
    pub evidence: Evidence,
}

impl Default for InForce {
    /// Any revision may be in force.
    fn default() -> InForce {
        InForce { revisions: Revisions::ALL, evidence: Evidence::None }
    }
}

/// A message with its lazily parsed parts.
#[derive(Debug)]
pub struct MessageFacts<'a> {
    pub message: &'a Message,
    /// The method. For a response, the method of its request.
    pub method: Method,
    pub in_force: InForce,
    body: OnceCell<Object<'a>>,
    meta: OnceCell<Object<'a>>,
    tools: OnceCell<Vec<Object<'a>>>,
    mismatches: OnceCell<Vec<Mismatch>>,
    listed_tools: OnceCell<Option<Arc<[ListedTool]>>>,
}

impl<'a> MessageFacts<'a> {
    pub(super) fn new(message: &'a Message) -> MessageFacts<'a> {
        let method = message.method.as_deref().map_or(Method::Other, Method::named);
        let (in_force, body, meta, tools, mismatches, listed_tools) = Default::default();
        MessageFacts { message, method, in_force, body, meta, tools, mismatches, listed_tools }
    }

    pub fn revisions(&self) -> Revisions {
        self.in_force.revisions
    }

    /// The JSON text of `params`, `result` or `error`. `None` if the message has none of them.
    pub fn body_text(&self) -> Option<&'a str> {
        self.message.envelope.place_of_body().map(|_| self.body().json())
    }

    /// The members of the body. Empty if the body is not an object.
    pub fn body(&self) -> &Object<'a> {
        self.body.get_or_init(|| body(self.message))
    }

    /// The members of `_meta` in the body.
    pub fn meta(&self) -> &Object<'a> {
        self.meta.get_or_init(|| self.body().object("_meta"))
    }

    /// The tools of a `tools/list` result: at most one more than [`TOOLS`], so that an
    /// excess is noticed.
    pub fn tools(&self) -> &[Object<'a>] {
        self.tools.get_or_init(|| {
            let listed = self.body().get("tools").unwrap_or_default();
            json::array(listed, TOOLS + 1).into_iter().map(Object::read).collect()
        })
    }

    /// The names of the tools of a `tools/list` result, each with a hash of its definition. `None`
    /// if the result has no tools, or some that cannot be compared.
    pub fn listed_tools(&self) -> Option<&Arc<[ListedTool]>> {
        let listed = || {
            self.body().get("tools")?;
            let listed = self.tools().iter().map(|tool| {
                let name = tool.text("name").filter(|name| name.len() <= NAME)?;
                Some((name.into_owned(), fingerprint_without(tool, &["_meta"])?))
            });
            listed.collect()
        };
        self.listed_tools.get_or_init(listed).as_ref()
    }

    /// Takes over what is known about a list of tools with the same text.
    pub(super) fn recall(&self, known: &KnownList) {
        self.listed_tools.get_or_init(|| known.tools.clone());
        if known.is_clean {
            self.mismatches.get_or_init(Vec::new);
        }
    }

    /// Whether it is the result of a paged request and holds the requested list. An error, or a
    /// result that asks for input (2026-07-28), holds none.
    pub fn is_listing(&self) -> bool {
        let list = match self.method {
            Method::ToolsList => "tools",
            Method::PromptsList => "prompts",
            Method::ResourcesList => "resources",
            Method::ResourcesTemplatesList => "resourceTemplates",
            Method::TasksList => "tasks",
            _ => return false,
        };
        self.message.kind == Kind::Response && self.body().get(list).is_some_and(|list| list.starts_with('['))
    }

    /// The differences from the definition of the message, in the revision in force. A message that
    /// is valid in one of several possible revisions has no differences.
    ///
    /// Ids, the version field and a body that is not an object have their own rules and
    /// are not included.
    pub fn mismatches(&self) -> &[Mismatch] {
        self.mismatches.get_or_init(|| {
            let role = match self.message.kind {
                Kind::Request | Kind::Notification => Role::Method(self.method_name()),
                Kind::Response if self.message.answers.is_some() => Role::AnswerTo(self.method_name()),
                _ => return Vec::new(),
            };
            if self.body_text().is_some_and(|text| !text.starts_with('{')) {
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

    /// Whether the result has this `resultType` (2026-07-28 on).
    pub fn has_result_type(&self, name: &str) -> bool {
        self.body().text("resultType").is_some_and(|kind| kind == name)
    }

    /// The params of each request of this method that an `input_required` result
    /// holds (2026-07-28 on).
    pub fn input_requests(&self, method: &str) -> Vec<Object<'a>> {
        if !self.has_result_type("input_required") {
            return Vec::new();
        }
        let requests = self.body().object("inputRequests");
        let requests = requests.iter().map(|(_, request)| Object::read(request));
        let is_wanted = |request: &Object<'a>| request.text("method").is_some_and(|name| name == method);
        requests.filter(is_wanted).map(|request| request.object("params")).collect()
    }

    /// The JSON-RPC id as text, for people.
    pub fn id(&self) -> &'a str {
        self.message.id.as_deref().unwrap_or("null")
    }

    /// Whether the client sent the message.
    pub fn is_from_client(&self) -> bool {
        self.message.direction == Direction::ClientToServer
    }

    /// The name of the method as sent. Empty if there is none.
    pub fn method_name(&self) -> &'a str {
        self.message.method.as_deref().unwrap_or_default()
    }
}
