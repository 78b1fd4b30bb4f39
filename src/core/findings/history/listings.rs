//! Lists as a server returned them, page by page. Later listings are compared with them.

use std::collections::BTreeMap;

use crate::decode::Kind;
use crate::findings::message_facts::MessageFacts;
use crate::mcp::contract::TOOLS;
use crate::mcp::{MessageNumber, Method};

/// Limit of the bytes of a cursor. Longer ones are not compared.
const CURSOR: usize = 4_096;

/// A listed tool: its name, and a hash of its definition.
pub type ListedTool = (String, u64);

/// The tools of one listing, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The request of the first page, if it is known.
    pub request: Option<MessageNumber>,
    /// The message of the last page.
    pub number: MessageNumber,
    pub tools: Vec<ListedTool>,
}

/// The latest page of a list.
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
    /// The last notification that the tools changed.
    announced: Option<MessageNumber>,
    /// The pages so far of an incomplete listing.
    open: Option<Listing>,
    /// The last page of each list.
    pages: BTreeMap<&'static str, Page>,
}

impl Listings {
    /// Whether the server announced a change of the tools after this listing was requested.
    pub fn is_announced_since(&self, listing: &Listing) -> bool {
        self.announced.is_some_and(|number| number > listing.request.unwrap_or_default())
    }

    /// The page whose `nextCursor` a request of this method uses.
    pub fn before(&self, method: Method, cursor: Option<&str>) -> Option<&Page> {
        let page = self.pages.get(method.definition()?.name)?;
        (cursor.is_some() && page.next.as_deref() == cursor).then_some(page)
    }

    /// The listing that a `tools/list` result completes. `cursor` is that of its request.
    pub fn completed(&self, facts: &MessageFacts<'_>, cursor: Option<&str>) -> Option<Listing> {
        let listing = self.with(facts, cursor)?;
        is_last(facts).then_some(listing)
    }

    /// The listing up to this page. `None` if the pages do not follow each other or have
    /// too many tools.
    fn with(&self, facts: &MessageFacts<'_>, cursor: Option<&str>) -> Option<Listing> {
        let mut listing = match cursor {
            None => Listing { request: facts.message.answers, ..Listing::default() },
            Some(_) => self.before(Method::ToolsList, cursor).and(self.open.clone())?,
        };
        listing.number = facts.message.number;
        listing.tools.extend_from_slice(facts.listed_tools()?);
        (listing.tools.len() <= TOOLS).then_some(listing)
    }

    pub(super) fn observe(&mut self, facts: &MessageFacts<'_>, cursor: Option<&str>) {
        if facts.message.kind == Kind::Notification {
            if facts.method == Method::ToolsListChanged {
                self.announced = Some(facts.message.number);
            }
            return;
        }
        if !facts.is_listing() {
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
