//! Progress tokens that were given, the progress last reported for each, and cursors of lists.

use rustc_hash::FxHashMap;

use crate::decode::Direction;
use crate::mcp::method::Method;

/// Tokens and cursors remembered of one session. Beyond it, all are dropped at once, and what refers to them is not judged.
const REMEMBERED: usize = 1_024;

/// Tokens by the side that gave them.
#[derive(Debug, Default)]
pub struct Progress {
    last: FxHashMap<(Direction, String), Option<f64>>,
    /// Some were dropped: what is not there may have been.
    has_forgotten: bool,
}

impl Progress {
    /// Whether a request of this side gave the token at any time, or that cannot be known.
    pub fn is_known(&self, giver: Direction, token: &str) -> bool {
        self.has_forgotten || self.last.contains_key(&(giver, token.to_owned()))
    }

    /// The progress last reported for the token.
    pub fn last(&self, giver: Direction, token: &str) -> Option<f64> {
        self.last.get(&(giver, token.to_owned())).copied().flatten()
    }

    /// A request gave it: what was reported for an earlier one of the same token is over.
    pub(super) fn given(&mut self, giver: Direction, token: &str) {
        if self.last.len() >= REMEMBERED {
            self.last.clear();
            self.has_forgotten = true;
        }
        self.last.insert((giver, token.to_owned()), None);
    }

    pub(super) fn reported(&mut self, giver: Direction, token: &str, progress: f64) {
        if let Some(last) = self.last.get_mut(&(giver, token.to_owned())) {
            *last = Some(progress);
        }
    }
}

/// Cursors by list, and whether they were asked for.
#[derive(Debug, Default)]
pub struct Cursors {
    given: FxHashMap<(Method, String), bool>,
    has_forgotten: bool,
}

impl Cursors {
    /// Whether the server gave this cursor, as JSON text, or that cannot be known.
    pub fn was_given(&self, list: Method, cursor: &str) -> bool {
        self.has_forgotten || self.given.contains_key(&(list, cursor.to_owned()))
    }

    /// Whether the client went on from it since the list was last begun.
    pub fn was_visited(&self, list: Method, cursor: &str) -> bool {
        self.given.get(&(list, cursor.to_owned())).copied().unwrap_or(false)
    }

    /// A page was asked for: the first one begins anew.
    pub(super) fn asked(&mut self, list: Method, cursor: Option<&str>) {
        match cursor {
            Some(cursor) => {
                if let Some(visited) = self.given.get_mut(&(list, cursor.to_owned())) {
                    *visited = true;
                }
            }
            None => self.given.iter_mut().filter(|((of, _), _)| *of == list).for_each(|(_, visited)| *visited = false),
        }
    }

    pub(super) fn gave(&mut self, list: Method, cursor: &str) {
        if self.given.len() >= REMEMBERED {
            self.given.clear();
            self.has_forgotten = true;
        }
        self.given.entry((list, cursor.to_owned())).or_insert(false);
    }
}
