//! Pages: the part of a list that one call reads, and the list that it belongs to.

use super::CaptureId;
use crate::mcp::SessionNumber;

/// The largest number of rows in one page. A screen shows a hundred, and an export reads
/// page after page.
pub(super) const PAGE_ROWS: usize = 10_000;

/// Bytes of text or packets after which a page ends early. A single message may have
/// a hundred megabytes.
pub(super) const PAGE_BYTES: usize = 16 << 20;

/// The part of the database that a list covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole database, capture by capture.
    All,
    /// The given capture only.
    Capture(CaptureId),
    /// The given session only.
    Session(SessionNumber),
}

/// The order of rows in a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest number first.
    #[default]
    Forward,
    /// Largest number first.
    Backward,
}

/// A part of a list: where it begins, in which order, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// The first row, or the nearest one in `order` if that is not in the list. `None`: the end of
    /// the list at which `order` begins.
    pub from: Option<K>,
    /// Forward or backward from there.
    pub order: SortOrder,
    /// The largest number of rows, never more than 10,000.
    pub limit: usize,
}

impl<K> Page<K> {
    /// The first rows of the list.
    pub fn first(limit: usize) -> Page<K> {
        Page { from: None, order: SortOrder::Forward, limit }
    }

    /// The last rows of the list, last one first.
    pub fn last(limit: usize) -> Page<K> {
        Page { from: None, order: SortOrder::Backward, limit }
    }

    /// Rows from this one on, forward.
    pub fn from(from: K, limit: usize) -> Page<K> {
        Page { from: Some(from), order: SortOrder::Forward, limit }
    }

    /// Rows from this one on, backward.
    pub fn back_from(from: K, limit: usize) -> Page<K> {
        Page { from: Some(from), order: SortOrder::Backward, limit }
    }

    /// The range of numbers to be read, both ends included, given the range of the whole list.
    pub(super) fn range(&self, (first, last): (i64, i64), number: impl FnOnce(&K) -> i64) -> (i64, i64) {
        match (self.from.as_ref().map(number), self.order) {
            (None, _) => (first, last),
            (Some(from), SortOrder::Forward) => (from.max(first), last),
            (Some(from), SortOrder::Backward) => (first, from.min(last)),
        }
    }

    pub(super) fn limit(&self) -> i64 {
        self.limit.min(PAGE_ROWS) as i64
    }
}

impl SortOrder {
    pub(super) fn sql(self) -> &'static str {
        match self {
            SortOrder::Forward => "ASC",
            SortOrder::Backward => "DESC",
        }
    }
}

/// The range of all row keys.
pub(super) const ALL: (i64, i64) = (0, i64::MAX);
