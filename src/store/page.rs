//! Pages: the part of a list that one call reads, and which list.

use super::CaptureId;
use crate::mcp::SessionNumber;

/// Rows of one page at most: a screen has a hundred, an export reads on.
pub(super) const PAGE_ROWS: usize = 10_000;

/// Bytes of text or packets after which a page ends early: single messages may have
/// a hundred megabytes.
pub(super) const PAGE_BYTES: usize = 16 << 20;

/// Of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole database, capture by capture.
    All,
    /// One capture.
    Capture(CaptureId),
    /// One session.
    Session(SessionNumber),
}

/// Which way a page goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Numbers grow.
    #[default]
    Forward,
    /// Numbers fall.
    Backward,
}

/// Part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<K> {
    /// The first row, or where that is not in the list the next one; `None`: the end of the list
    /// where `order` begins.
    pub from: Option<K>,
    /// Which way.
    pub order: SortOrder,
    /// Rows at most; never more than 10,000.
    pub limit: usize,
}

impl<K> Page<K> {
    /// The first rows.
    pub fn first(limit: usize) -> Page<K> {
        Page { from: None, order: SortOrder::Forward, limit }
    }

    /// The last rows, last one first.
    pub fn last(limit: usize) -> Page<K> {
        Page { from: None, order: SortOrder::Backward, limit }
    }

    /// Rows from this one on.
    pub fn from(from: K, limit: usize) -> Page<K> {
        Page { from: Some(from), order: SortOrder::Forward, limit }
    }

    /// Rows from this one back.
    pub fn back_from(from: K, limit: usize) -> Page<K> {
        Page { from: Some(from), order: SortOrder::Backward, limit }
    }

    /// The range of numbers to look in, both ends included, given that of the whole list.
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

/// The keys of all captures.
pub(super) const ALL: (i64, i64) = (0, i64::MAX);
