//! A selected row in a list of which a window is seen.

use super::super::keys::Motion;

/// The cursor of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The selected row.
    pub selected: usize,
    /// The first row in view.
    pub top: usize,
}

impl Cursor {
    /// Moves in a list of `total` rows, `height` of them in view.
    pub fn go(&mut self, motion: Motion, total: usize, height: usize) {
        let page = height.saturating_sub(1).max(1);
        self.selected = match motion {
            Motion::Up => self.selected.saturating_sub(1),
            Motion::Down => self.selected.saturating_add(1),
            Motion::PageUp => self.selected.saturating_sub(page),
            Motion::PageDown => self.selected.saturating_add(page),
            Motion::Home => 0,
            Motion::End => usize::MAX,
        };
        self.fit(total, height);
    }

    /// Selects a row, in the middle of the view where it was not in view.
    pub fn select(&mut self, row: usize, total: usize, height: usize) {
        if row < self.top || row >= self.top + height {
            self.top = row.saturating_sub(height / 2);
        }
        self.selected = row;
        self.fit(total, height);
    }

    /// Keeps the cursor in the list, and in view.
    pub fn fit(&mut self, total: usize, height: usize) {
        let height = height.max(1);
        self.selected = self.selected.min(total.saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(height));
        // No empty rows below the last one as long as there are rows above.
        self.top = self.top.min(total.saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Whatever the keys and however the list shrinks and grows: the cursor is in the list and in view, the view is full.
        #[test]
        fn the_cursor_stays_in_view(steps in prop::collection::vec((0..7usize, 0..60usize, 1..20usize), 1..40)) {
            const MOTIONS: [Motion; 6] =
                [Motion::Up, Motion::Down, Motion::PageUp, Motion::PageDown, Motion::Home, Motion::End];
            let mut cursor = Cursor::default();
            for (motion, total, height) in steps {
                match MOTIONS.get(motion) {
                    Some(motion) => cursor.go(*motion, total, height),
                    None => cursor.select(total / 2, total, height),
                }
                prop_assert!(cursor.selected < total.max(1));
                prop_assert!((cursor.top..cursor.top + height).contains(&cursor.selected));
                prop_assert!(total < height || cursor.top + height <= total);
            }
        }
    }
}
