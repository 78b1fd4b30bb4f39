//! The pages of lists: which cursors a server issued, and where each came from (server/utilities/pagination).

use rustc_hash::FxHashMap;

use super::fingerprint::content_hash;
use super::open_requests::OpenRequest;
use crate::mcp::MessageNumber;
use crate::mcp::method::Method;

/// Cursors remembered. Lists have tens of pages; beyond, all are forgotten at once, and rules about unknown ones stay silent.
const REMEMBERED: usize = 8_192;

/// A cursor of one list, as a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Cursor(Method, u64);

impl Cursor {
    fn of(method: Method, cursor: &str) -> Cursor {
        Cursor(method, content_hash(cursor))
    }
}

/// A page that has another one behind it.
#[derive(Clone, Copy, Debug)]
pub struct UnreadPage {
    pub method: Method,
    /// The result whose `nextCursor` nobody asked with so far.
    pub page: MessageNumber,
    cursor: Cursor,
}

/// The lists of a session.
#[derive(Debug, Default)]
pub struct Cursors {
    /// The cursor that each cursor was issued in answer to; `None` for the first page's.
    issued: FxHashMap<Cursor, Option<Cursor>>,
    /// Whether cursors were forgotten.
    forgot: bool,
    unread: Vec<UnreadPage>,
}

impl Cursors {
    /// Whether the server ever issued this cursor (JSON text) for this list; `None` where that was forgotten.
    pub fn issued(&self, method: Method, cursor: &str) -> Option<bool> {
        match self.issued.contains_key(&Cursor::of(method, cursor)) {
            false if self.forgot => None,
            known => Some(known),
        }
    }

    /// Whether `next`, issued in answer to `asked`, leads back to a page on the way to that one.
    pub fn leads_back(&self, method: Method, request: Option<&str>, next: &str) -> bool {
        let next = Cursor::of(method, next);
        let mut way = request.map(|request| Cursor::of(method, request));
        // The way has no circle, since `page` takes none in; the bound holds nevertheless.
        for _ in 0..=self.issued.len() {
            match way {
                Some(cursor) if cursor == next => return true,
                Some(cursor) => way = self.issued.get(&cursor).copied().flatten(),
                None => return false,
            }
        }
        false
    }

    /// Last pages so far whose `nextCursor` was not used: one a list.
    pub fn unread(&self) -> &[UnreadPage] {
        &self.unread
    }

    /// A request for a page.
    pub(super) fn request_page(&mut self, method: Method, cursor: Option<&str>) {
        if let Some(cursor) = cursor.map(|cursor| Cursor::of(method, cursor)) {
            self.unread.retain(|unread| unread.cursor != cursor);
        }
    }

    /// A page: the answer to `asked`, with its `nextCursor` as JSON text.
    pub(super) fn add_page(&mut self, request: &OpenRequest, number: MessageNumber, next: Option<&str>) {
        let method = request.method;
        self.unread.retain(|unread| unread.method != method);
        let Some(next) = next.filter(|next| *next != "null") else { return };
        if self.leads_back(method, request.cursor.as_deref(), next) {
            return;
        }
        if self.issued.len() >= REMEMBERED {
            self.issued.clear();
            self.forgot = true;
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
    fn ways_are_followed_back_and_bounded() {
        let mut cursors = Cursors::default();
        let list = Method::ToolsList;
        let mut request = OpenRequest::blank(list);
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
