//! Lists as a server gave them, page by page: what a later listing is compared with.

use std::collections::BTreeMap;

use super::fingerprint;
use crate::decode::json::{self, Object};
use crate::decode::jsonrpc::Kind;
use crate::findings::seen::Facts;
use crate::mcp::MessageNumber;
use crate::mcp::contract::TOOLS;
use crate::mcp::method::Method;

/// Bytes of a name or cursor that is kept; a listing with longer ones is not compared.
const TEXT: usize = 4_096;

/// What a tool looked like: its name, and its definition in short.
pub type Listed = (String, u64);

/// The tools of one listing, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The page that completed it.
    pub number: MessageNumber,
    /// They.
    pub tools: Vec<Listed>,
}

/// The page of a list that came last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The message.
    pub number: MessageNumber,
    /// `nextCursor`, as JSON text.
    pub next: Option<String>,
    /// `cacheScope`, as JSON text (2026-07-28).
    pub scope: Option<String>,
}

/// The listings of a session.
#[derive(Debug, Default)]
pub struct Listings {
    /// The last complete listing of the tools.
    pub tools: Option<Listing>,
    /// Whether the server said since it began that the tools changed.
    pub is_announced: bool,
    /// The pages so far of one that is not complete.
    open: Option<Listing>,
    /// The last page of each list.
    pages: BTreeMap<&'static str, Page>,
}

impl Listings {
    /// The page that a request of this method and cursor goes on from.
    pub fn before(&self, method: Method, cursor: Option<&str>) -> Option<&Page> {
        let page = self.pages.get(method.definition()?.name)?;
        (cursor.is_some() && page.next.as_deref() == cursor).then_some(page)
    }

    /// The listing that a `tools/list` result completes. `cursor` is that of its request.
    pub fn completed(&self, facts: &Facts<'_>, cursor: Option<&str>) -> Option<Listing> {
        let listing = self.with(facts, cursor)?;
        is_last(facts).then_some(listing)
    }

    /// The pages up to this one; `None` where they do not follow each other or are too many.
    fn with(&self, facts: &Facts<'_>, cursor: Option<&str>) -> Option<Listing> {
        let mut listing = match cursor {
            None => Listing::default(),
            Some(_) => self.before(Method::ToolsList, cursor).and(self.open.clone())?,
        };
        listing.number = facts.message.number;
        for tool in json::array(facts.body().get("tools")?, TOOLS + 1) {
            let name = Object::read(tool).text("name").filter(|name| name.len() <= TEXT)?;
            listing.tools.push((name.into_owned(), fingerprint(tool, &["_meta"])?));
        }
        (listing.tools.len() <= TOOLS).then_some(listing)
    }

    pub(super) fn observe(&mut self, facts: &Facts<'_>, cursor: Option<&str>) {
        if facts.message.kind == Kind::Notification {
            self.is_announced |= facts.method == Method::ToolsListChanged;
            return;
        }
        let is_list = matches!(
            facts.method,
            Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::ResourcesTemplatesList
        );
        if facts.message.kind != Kind::Response || !is_list {
            return;
        }
        if facts.method == Method::ToolsList {
            self.open = self.with(facts, cursor);
            if is_last(facts) {
                // What was announced while the pages came is news for the next listing.
                self.tools = self.open.take();
                self.is_announced = false;
            }
        }
        let short = |name: &str| facts.body().get(name).filter(|text| text.len() <= TEXT).map(str::to_owned);
        let page = Page { number: facts.message.number, next: short("nextCursor"), scope: short("cacheScope") };
        if let Some(definition) = facts.method.definition() {
            self.pages.insert(definition.name, page);
        }
    }
}

fn is_last(facts: &Facts<'_>) -> bool {
    facts.body().get("nextCursor").is_none_or(|cursor| cursor == "null")
}
