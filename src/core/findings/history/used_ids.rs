//! The ids that each side has used. Whole numbers are stored as runs, because most implementations
//! count. Others are stored one by one.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::fingerprint::content_hash;
use crate::decode::Direction;

/// Limits of remembered runs and of other ids, for each sender. Clients that do not count use
/// random ids. Beyond the limit all are discarded, and reuse of them is not noticed.
const REMEMBERED: usize = 8_192;

/// The used ids of both sides.
#[derive(Debug, Default)]
pub struct UsedIds([SenderIds; 2]);

#[derive(Debug, Default)]
struct SenderIds {
    /// First and last number of each run.
    runs: BTreeMap<i64, i64>,
    /// Hashes of the ids that are not whole numbers.
    others: FxHashSet<u64>,
    /// Whether ids were discarded.
    discarded: bool,
}

impl UsedIds {
    /// Whether this side already used this id (JSON text).
    pub fn contains(&self, sender: Direction, id: &str) -> bool {
        let side = &self.0[sender as usize];
        match id.parse::<i64>() {
            Ok(number) => side.run_of(number).is_some(),
            Err(_) => side.others.contains(&content_hash(id)),
        }
    }

    /// Whether ids of this side were discarded. An id that is not found may have been used.
    pub fn has_discarded(&self, sender: Direction) -> bool {
        self.0[sender as usize].discarded
    }

    pub(super) fn insert(&mut self, sender: Direction, id: &str) {
        let side = &mut self.0[sender as usize];
        match id.parse::<i64>() {
            Ok(number) => side.insert(number),
            Err(_) => {
                if side.others.len() >= REMEMBERED {
                    side.others.clear();
                    side.discarded = true;
                }
                side.others.insert(content_hash(id));
            }
        }
    }

    /// Removes an id: its request was redirected and will be sent again.
    pub(super) fn forget(&mut self, sender: Direction, id: &str) {
        let side = &mut self.0[sender as usize];
        match id.parse::<i64>() {
            Ok(number) => side.remove(number),
            Err(_) => _ = side.others.remove(&content_hash(id)),
        }
    }
}

impl SenderIds {
    fn remove(&mut self, number: i64) {
        let Some((first, last)) = self.run_of(number) else { return };
        self.runs.remove(&first);
        if first < number {
            self.runs.insert(first, number - 1);
        }
        if number < last {
            self.runs.insert(number + 1, last);
        }
    }

    fn run_of(&self, number: i64) -> Option<(i64, i64)> {
        let (first, last) = self.runs.range(..=number).next_back()?;
        (number <= *last).then_some((*first, *last))
    }

    fn insert(&mut self, number: i64) {
        if self.run_of(number).is_some() {
            return;
        }
        if self.runs.len() >= REMEMBERED {
            self.runs.clear();
            self.discarded = true;
        }
        let before = number.checked_sub(1).and_then(|before| self.run_of(before));
        let after = number.checked_add(1).and_then(|after| self.runs.remove(&after));
        let first = before.map_or(number, |(first, _)| first);
        self.runs.insert(first, after.unwrap_or(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ClientToServer as C2S, ServerToClient as S2C};

    #[test]
    fn numbers_are_stored_as_runs() {
        let mut ids = UsedIds::default();
        for id in ["1", "2", "4", "3", "9223372036854775807", "\"1\"", "1.0"] {
            assert!(!ids.contains(C2S, id), "{id}");
            ids.insert(C2S, id);
            assert!(ids.contains(C2S, id), "{id}");
        }
        assert_eq!(ids.0[0].runs.iter().next(), Some((&1, &4)));
        assert_eq!(ids.0[0].runs.len(), 2);
        ids.forget(C2S, "3");
        assert!(!ids.contains(C2S, "3") && ids.contains(C2S, "2") && ids.contains(C2S, "4"));
        assert!(!ids.contains(S2C, "1") && !ids.contains(C2S, "5") && !ids.contains(C2S, "\"2\""));
    }

    #[test]
    fn memory_is_bounded() {
        let mut ids = UsedIds::default();
        for number in 0..100_000 {
            ids.insert(C2S, &(number * 2).to_string());
            ids.insert(C2S, &format!("\"{number}\""));
        }
        assert!(ids.0[0].runs.len() <= REMEMBERED && ids.0[0].others.len() <= REMEMBERED);
    }
}
