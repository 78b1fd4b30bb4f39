//! The cursors of paged lists: which ones a server issued, and in response
//! to which (server/utilities/pagination).

use rustc_hash::FxHashMap;

use super::fingerprint::content_hash;
use super::open_requests::OpenRequest;
use crate::mcp::{MessageNumber, Method};

/// Limit of remembered cursors. Lists have tens of pages. Beyond the limit all are discarded, and
/// rules about unknown cursors stay silent.
const REMEMBERED: usize = 8_192;

/// A cursor of one list, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cursor(Method, u64);

impl Cursor {
    fn of(method: Method, cursor: &str) -> Cursor {
        Cursor(method, content_hash(cursor))
    }
}

/// A page with a next page that was not requested.
#[derive(Clone, Copy, Debug)]
pub struct UnreadPage {
    pub method: Method,
    /// The result whose `nextCursor` no request has used so far.
    pub page: MessageNumber,
    cursor: Cursor,
}

/// The cursors of all lists of a session.
#[derive(Debug, Default)]
pub struct Cursors {
    /// For each issued cursor, the cursor of the request that it was issued for. `None` for
    /// the first page.
    issued: FxHashMap<Cursor, Option<Cursor>>,
    /// Whether cursors were discarded.
    discarded: bool,
    /// The last page of each list, if its `nextCursor` was not used.
    pub unread: Vec<UnreadPage>,
}

impl Cursors {
    /// Whether the server issued this cursor (JSON text) for this list. `None` if
    /// cursors were discarded.
    pub fn issued(&self, method: Method, cursor: &str) -> Option<bool> {
        match self.issued.contains_key(&Cursor::of(method, cursor)) {
            false if self.discarded => None,
            known => Some(known),
        }
    }

    /// Whether `next`, issued in response to a request with the cursor `request`, was already used
    /// on the way to that request.
    pub fn leads_back(&self, method: Method, request: Option<&str>, next: &str) -> bool {
        let next = Cursor::of(method, next);
        let mut chain = request.map(|request| Cursor::of(method, request));
        // `add_page` adds no circle. The bound is a second safeguard.
        for _ in 0..=self.issued.len() {
            match chain {
                Some(cursor) if cursor == next => return true,
                Some(cursor) => chain = self.issued.get(&cursor).copied().flatten(),
                None => return false,
            }
        }
        false
    }

    /// Records a request for a page.
    pub(super) fn request_page(&mut self, method: Method, cursor: Option<&str>) {
        if let Some(cursor) = cursor.map(|cursor| Cursor::of(method, cursor)) {
            self.unread.retain(|unread| unread.cursor != cursor);
        }
    }

    /// Records a page: the response to `request`, with its `nextCursor` as JSON text.
    pub(super) fn add_page(&mut self, request: &OpenRequest, number: MessageNumber, next: Option<&str>) {
        let method = request.method;
        self.unread.retain(|unread| unread.method != method);
        let Some(next) = next.filter(|next| *next != "null") else { return };
        if self.leads_back(method, request.cursor.as_deref(), next) {
            return;
        }
        if self.issued.len() >= REMEMBERED {
            self.issued.clear();
            self.discarded = true;
        }
        let cursor = Cursor::of(method, next);
        self.issued.insert(cursor, request.cursor.as_deref().map(|request| Cursor::of(method, request)));
        self.unread.push(UnreadPage { method, page: number, cursor });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_chains_are_followed_and_bounded() {
        let mut cursors = Cursors::default();
        let list = Method::ToolsList;
        let mut request = OpenRequest { method: list, ..OpenRequest::default() };
        for page in 0..3 * REMEMBERED as u64 {
            let next = format!("\"{page}\"");
            cursors.add_page(&request, MessageNumber(page), Some(&next));
            assert!(cursors.issued.len() <= REMEMBERED && cursors.unread.len() == 1);
            assert_eq!(cursors.issued(list, &next), Some(true));
            request.cursor = Some(next);
        }
        assert_eq!(cursors.issued(list, "\"0\""), None);
        assert!(cursors.leads_back(list, Some("\"24575\""), "\"24570\""));
        assert!(!cursors.leads_back(list, Some("\"24575\""), "\"24576\""));
        assert!(!cursors.leads_back(Method::PromptsList, Some("\"24575\""), "\"24570\""));
    }
}
