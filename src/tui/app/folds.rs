//! Groups of rows that are folded: one row stands for all of them.
//!
//! A list counts its rows as the store does; the screen counts those that are seen. Here one is made into the other.

use std::collections::BTreeMap;
use std::ops::Range;

/// What is folded in a list of messages.
#[derive(Clone, Debug, Default)]
pub struct Folds {
    /// The rows of each group behind the one that stands for it, by that one.
    groups: BTreeMap<usize, Vec<usize>>,
    /// All rows that are not seen, as ranges in order, each with the number of hidden rows before it.
    hidden: Vec<(Range<usize>, usize)>,
}

impl Folds {
    /// Folds a group: its rows in order, the first one stays.
    pub fn fold(&mut self, group: Vec<usize>) {
        self.fold_all(std::iter::once(group));
    }

    /// Folds many groups.
    pub fn fold_all(&mut self, groups: impl IntoIterator<Item = Vec<usize>>) {
        for mut group in groups {
            if group.len() > 1 {
                let rest = group.split_off(1);
                self.groups.insert(group[0], rest);
            }
        }
        self.lay_out();
    }

    /// Unfolds the group that a row stands for; whether it did for one.
    pub fn unfold(&mut self, row: usize) -> bool {
        let known = self.groups.remove(&row).is_some();
        self.lay_out();
        known
    }

    /// Unfolds whatever hides a row.
    pub fn reveal(&mut self, row: usize) {
        if self.is_hidden(row) {
            self.groups.retain(|_, rest| rest.binary_search(&row).is_err());
            self.lay_out();
        }
    }

    /// Unfolds everything; whether anything was folded.
    pub fn clear(&mut self) -> bool {
        let any = !self.groups.is_empty();
        *self = Folds::default();
        any
    }

    /// How many rows a row stands for beside itself.
    pub fn behind(&self, row: usize) -> usize {
        self.groups.get(&row).map_or(0, Vec::len)
    }

    /// Rows that are seen of a list of so many.
    pub fn seen(&self, total: usize) -> usize {
        total.saturating_sub(self.hidden.last().map_or(0, |(range, before)| before + range.len()))
    }

    /// The row of the list that is seen in this row of the screen.
    pub fn row(&self, seen: usize) -> usize {
        // Hidden ranges that begin at or before it push it on.
        let before = self.hidden.partition_point(|(range, hidden)| range.start - hidden <= seen);
        seen + before.checked_sub(1).map_or(0, |last| self.hidden[last].1 + self.hidden[last].0.len())
    }

    /// Where a row of the list is seen: a hidden one where the row before its range is.
    pub fn seen_row(&self, row: usize) -> usize {
        let before = self.hidden.partition_point(|(range, _)| range.start <= row);
        match before.checked_sub(1).map(|last| &self.hidden[last]) {
            Some((range, hidden)) if range.contains(&row) => (range.start - hidden).saturating_sub(1),
            Some((range, hidden)) => row - hidden - range.len(),
            None => row,
        }
    }

    fn is_hidden(&self, row: usize) -> bool {
        let before = self.hidden.partition_point(|(range, _)| range.start <= row);
        before > 0 && self.hidden[before - 1].0.contains(&row)
    }

    fn lay_out(&mut self) {
        let mut rows: Vec<usize> = self.groups.values().flatten().copied().collect();
        rows.sort_unstable();
        rows.dedup();
        self.hidden.clear();
        for (count, row) in rows.into_iter().enumerate() {
            match self.hidden.last_mut() {
                Some((range, _)) if range.end == row => range.end += 1,
                _ => self.hidden.push((row..row + 1, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::test_runner::TestCaseError;

    use super::*;

    /// The rows that are seen are those that are not hidden, in order, and each is found where it is seen.
    fn in_order(groups: &[BTreeSet<usize>], total: usize) -> Result<(), TestCaseError> {
        let mut folds = Folds::default();
        folds.fold_all(groups.iter().map(|group| group.iter().copied().collect()));
        let hidden: Vec<usize> = (0..total).filter(|row| folds.is_hidden(*row)).collect();
        let left: Vec<usize> = (0..total).filter(|row| !hidden.contains(row)).collect();
        prop_assert_eq!(folds.seen(total), left.len());
        for (seen, row) in left.iter().enumerate() {
            prop_assert_eq!(folds.row(seen), *row);
            prop_assert_eq!(folds.seen_row(*row), seen);
        }
        for row in hidden {
            prop_assert!(folds.seen_row(row) < left.len().max(1));
            let mut folds = folds.clone();
            folds.reveal(row);
            prop_assert!(!folds.is_hidden(row));
        }
        Ok(())
    }

    /// Found by the law below: the first row of one group is hidden by the other.
    #[test]
    fn groups_that_lie_inside_each_other() {
        in_order(&[[1, 2, 6, 7, 8, 59].into(), [0, 3, 9, 10, 11, 12].into()], 60).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_not_hidden_is_seen_in_order(
            groups in prop::collection::vec(prop::collection::btree_set(0usize..60, 2..12), 0..6), total in 60usize..80,
        ) {
            in_order(&groups, total)?;
        }

        #[test]
        fn folding_and_unfolding_is_nothing(group in prop::collection::btree_set(0usize..60, 2..12)) {
            let mut folds = Folds::default();
            let rows: Vec<usize> = group.into_iter().collect();
            folds.fold(rows.clone());
            prop_assert_eq!(folds.behind(rows[0]), rows.len() - 1);
            prop_assert!(folds.unfold(rows[0]));
            prop_assert_eq!((folds.seen(100), folds.row(70), folds.seen_row(70)), (100, 70, 70));
        }
    }
}
