//! Lists as a server gave them, page by page: what a later listing is compared with.

use std::collections::BTreeMap;

use super::fingerprint::fingerprint_without;
use crate::decode::jsonrpc::Kind;
use crate::findings::message_facts::MessageFacts;
use crate::mcp::MessageNumber;
use crate::mcp::contract::TOOLS;
use crate::mcp::method::Method;

/// Bytes of a name, and of a cursor, that is kept: names have at most 128. What is longer is not compared.
const NAME: usize = 256;
const CURSOR: usize = 4_096;

/// What a tool looked like: its name, and its definition in short.
pub type ListedTool = (String, u64);

/// The tools of one listing, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The request of its first page, where known.
    pub request: Option<MessageNumber>,
    /// The page that completed it.
    pub number: MessageNumber,
    pub tools: Vec<ListedTool>,
}

/// The page of a list that came last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
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
    /// When the server last said that the tools changed.
    announced: Option<MessageNumber>,
    /// The pages so far of one that is not complete.
    open: Option<Listing>,
    /// The last page of each list.
    pages: BTreeMap<&'static str, Page>,
}

impl Listings {
    /// Whether the server said since a listing was asked for that the tools changed.
    pub fn is_announced_since(&self, listing: &Listing) -> bool {
        self.announced.is_some_and(|number| number > listing.request.unwrap_or_default())
    }

    /// The page that a request of this method and cursor goes on from.
    pub fn before(&self, method: Method, cursor: Option<&str>) -> Option<&Page> {
        let page = self.pages.get(method.definition()?.name)?;
        (cursor.is_some() && page.next.as_deref() == cursor).then_some(page)
    }

    /// The listing that a `tools/list` result completes. `cursor` is that of its request.
    pub fn completed(&self, facts: &MessageFacts<'_>, cursor: Option<&str>) -> Option<Listing> {
        let listing = self.with(facts, cursor)?;
        is_last(facts).then_some(listing)
    }

    /// The pages up to this one; `None` where they do not follow each other or are too many.
    fn with(&self, facts: &MessageFacts<'_>, cursor: Option<&str>) -> Option<Listing> {
        let mut listing = match cursor {
            None => Listing { request: facts.message.answers, ..Listing::default() },
            Some(_) => self.before(Method::ToolsList, cursor).and(self.open.clone())?,
        };
        listing.number = facts.message.number;
        facts.body().get("tools")?;
        for tool in facts.tools() {
            let name = tool.text("name").filter(|name| name.len() <= NAME)?;
            listing.tools.push((name.into_owned(), fingerprint_without(tool, &["_meta"])?));
        }
        (listing.tools.len() <= TOOLS).then_some(listing)
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, cursor: Option<&str>) {
        if facts.message.kind == Kind::Notification {
            if facts.method == Method::ToolsListChanged {
                self.announced = Some(facts.message.number);
            }
            return;
        }
        if facts.message.kind != Kind::Response || !facts.method.is_paged() {
            return;
        }
        if facts.method == Method::ToolsList {
            self.open = self.with(facts, cursor);
            if is_last(facts) {
                self.tools = self.open.take();
            }
        }
        let short = |name: &str| facts.body().get(name).filter(|text| text.len() <= CURSOR).map(str::to_owned);
        let page = Page { number: facts.message.number, next: short("nextCursor"), scope: short("cacheScope") };
        if let Some(definition) = facts.method.definition() {
            self.pages.insert(definition.name, page);
        }
    }
}

fn is_last(facts: &MessageFacts<'_>) -> bool {
    facts.body().get("nextCursor").is_none_or(|cursor| cursor == "null")
}
