//! The visible rows of a list of messages: without those of folded groups, and with the notes
//! between them.
//!
//! A list counts its rows as the store does. The screen counts the visible ones. This file converts
//! between the two. The first row of a folded group represents the others.

use std::collections::BTreeMap;
use std::ops::Range;

/// The folded groups of a list of messages.
#[derive(Clone, Debug, Default)]
pub struct Folds {
    /// The hidden rows of each group, by its first row.
    groups: BTreeMap<usize, Vec<usize>>,
    /// All hidden rows as ranges in order, each with the number of hidden rows before it.
    hidden: Vec<(Range<usize>, usize)>,
    /// The rows that the notes precede, in order.
    notes: Vec<usize>,
    /// The same as rows of the screen without the notes.
    places: Vec<usize>,
}

impl Folds {
    /// Folds groups, each given by its rows in order. The first row of each stays visible.
    pub fn fold_all(&mut self, groups: impl IntoIterator<Item = Vec<usize>>) {
        for mut group in groups {
            if group.len() > 1 {
                let rest = group.split_off(1);
                self.groups.insert(group[0], rest);
            }
        }
        self.update_hidden();
    }

    /// Unfolds the group of its first row. Returns whether that row had a folded group.
    pub fn unfold(&mut self, row: usize) -> bool {
        let was_folded = self.groups.remove(&row).is_some();
        self.update_hidden();
        was_folded
    }

    /// Unfolds all groups that hide a row.
    pub fn reveal(&mut self, row: usize) {
        if self.is_hidden(row) {
            self.groups.retain(|_, rest| rest.binary_search(&row).is_err());
            self.update_hidden();
        }
    }

    /// Unfolds everything. Returns whether anything was folded.
    pub fn clear(&mut self) -> bool {
        let any = !self.groups.is_empty();
        self.groups.clear();
        self.update_hidden();
        any
    }

    /// Shows notes before these rows, which are in order.
    pub fn set_notes(&mut self, before: impl Iterator<Item = usize>) {
        self.notes.clear();
        self.notes.extend(before);
        self.update_places();
    }

    /// The note in a visible row.
    pub fn note(&self, visible: usize) -> Option<usize> {
        let note = self.first_note_from(visible);
        (note < self.places.len() && self.places[note] + note == visible).then_some(note)
    }

    /// The first note that is in this visible row or below.
    fn first_note_from(&self, visible: usize) -> usize {
        // The rows of the notes ascend, so this is a binary search.
        let (mut low, mut high) = (0, self.places.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.places[middle] + middle < visible { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The number of hidden rows that a visible row represents.
    pub fn hidden_count(&self, row: usize) -> usize {
        self.groups.get(&row).map_or(0, Vec::len)
    }

    /// The number of visible rows in a list of `total` rows.
    pub fn visible_count(&self, total: usize) -> usize {
        self.unfolded_count(total) + self.places.len()
    }

    fn unfolded_count(&self, total: usize) -> usize {
        total.saturating_sub(self.hidden.last().map_or(0, |(range, index)| index + range.len()))
    }

    /// The row of the list that a visible row shows. For a note, the row that it precedes.
    pub fn list_row(&self, visible: usize) -> usize {
        self.unfolded_row(visible - self.first_note_from(visible))
    }

    fn unfolded_row(&self, visible: usize) -> usize {
        // Hidden ranges that begin at or before it shift it.
        let index = self.hidden.partition_point(|(range, hidden)| range.start - hidden <= visible);
        visible + index.checked_sub(1).map_or(0, |last| self.hidden[last].1 + self.hidden[last].0.len())
    }

    /// The visible row of a row of the list. For a hidden row it is that of the row
    /// before its range.
    pub fn visible_row(&self, row: usize) -> usize {
        let place = self.place(row);
        place + self.places.partition_point(|note| *note <= place)
    }

    /// The visible row without the notes.
    fn place(&self, row: usize) -> usize {
        let index = self.hidden.partition_point(|(range, _)| range.start <= row);
        match index.checked_sub(1).map(|last| &self.hidden[last]) {
            Some((range, hidden)) if range.contains(&row) => (range.start - hidden).saturating_sub(1),
            Some((range, hidden)) => row - hidden - range.len(),
            None => row,
        }
    }

    fn is_hidden(&self, row: usize) -> bool {
        let index = self.hidden.partition_point(|(range, _)| range.start <= row);
        index > 0 && self.hidden[index - 1].0.contains(&row)
    }

    fn update_hidden(&mut self) {
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
        self.update_places();
    }

    fn update_places(&mut self) {
        // A note before a hidden row stands before the next visible one.
        let place = |row: &usize| self.place(*row) + usize::from(self.is_hidden(*row));
        self.places = self.notes.iter().map(place).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::test_runner::TestCaseError;

    use super::*;

    /// The visible rows are those that are not hidden, in order. Both conversions agree.
    fn in_order(groups: &[BTreeSet<usize>], notes: &[usize], total: usize) -> Result<(), TestCaseError> {
        let mut folds = Folds::default();
        folds.fold_all(groups.iter().map(|group| group.iter().copied().collect()));
        let hidden: Vec<usize> = (0..total).filter(|row| folds.is_hidden(*row)).collect();
        let left: Vec<usize> = (0..total).filter(|row| !hidden.contains(row)).collect();
        prop_assert_eq!(folds.visible_count(total), left.len());
        for (visible, row) in left.iter().enumerate() {
            prop_assert_eq!(folds.list_row(visible), *row);
            prop_assert_eq!(folds.visible_row(*row), visible);
        }
        with_notes(folds.clone(), &left, notes, total)?;
        for row in hidden {
            prop_assert!(folds.visible_row(row) < left.len().max(1));
            let mut folds = folds.clone();
            folds.reveal(row);
            prop_assert!(!folds.is_hidden(row));
        }
        Ok(())
    }

    /// Between the rows that are left are the notes, in order: each before the row that it
    /// precedes, or before the next one that is left.
    fn with_notes(mut folds: Folds, left: &[usize], notes: &[usize], total: usize) -> Result<(), TestCaseError> {
        folds.set_notes(notes.iter().copied());
        let mut expected = Vec::new();
        let mut next = 0;
        for row in left.iter().map(|row| Some(*row)).chain([None]) {
            while next < notes.len() && row.is_none_or(|row| notes[next] <= row) {
                expected.push(Err(next));
                next += 1;
            }
            expected.extend(row.map(Ok));
        }
        prop_assert_eq!(folds.visible_count(total), expected.len());
        for (visible, row) in expected.into_iter().enumerate() {
            prop_assert_eq!(folds.note(visible), row.err());
            if let Ok(row) = row {
                prop_assert_eq!((folds.list_row(visible), folds.visible_row(row)), (row, visible));
            }
        }
        Ok(())
    }

    /// Found by the property below: the first row of one group is hidden by the other.
    #[test]
    fn groups_that_overlap() {
        in_order(&[[1, 2, 6, 7, 8, 59].into(), [0, 3, 9, 10, 11, 12].into()], &[], 60).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn rows_that_are_not_hidden_are_visible_in_order(
            groups in prop::collection::vec(prop::collection::btree_set(0usize..60, 2..12), 0..6),
            mut notes in prop::collection::vec(0usize..=60, 0..12),
            total in 60usize..80,
        ) {
            notes.sort_unstable();
            in_order(&groups, &notes, total)?;
        }

        #[test]
        fn unfolding_undoes_folding(group in prop::collection::btree_set(0usize..60, 2..12)) {
            let mut folds = Folds::default();
            let rows: Vec<usize> = group.into_iter().collect();
            folds.fold_all([rows.clone()]);
            prop_assert_eq!(folds.hidden_count(rows[0]), rows.len() - 1);
            prop_assert!(folds.unfold(rows[0]));
            prop_assert_eq!((folds.visible_count(100), folds.list_row(70), folds.visible_row(70)), (100, 70, 70));
        }
    }
}
