//! The cursor of a list, of which a window is visible.

use super::keys::Motion;

/// Where a cursor goes.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    Key(Motion),
    /// To this column and line of the window.
    Click(u16, usize),
}

/// A selected row, and the window of rows that is visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub selected: usize,
    /// The first visible row.
    pub top: usize,
}

impl Cursor {
    /// Moves in a list of `total` rows, of which `height` are visible.
    pub fn move_by(&mut self, motion: Motion, total: usize, height: usize) {
        self.selected = self.selected.saturating_add_signed(motion.rows(height));
        self.keep_visible(total, height);
    }

    /// Moves in such a list by a key or a click.
    pub fn go(&mut self, to: Goal, total: usize, height: usize) {
        match to {
            Goal::Key(motion) => self.move_by(motion, total, height),
            Goal::Click(_, line) => self.select(self.top + line, total, height),
        }
    }

    /// Selects a row. A row outside of the window is put into its middle.
    pub fn select(&mut self, row: usize, total: usize, height: usize) {
        if row < self.top || row >= self.top + height {
            self.top = row.saturating_sub(height / 2);
        }
        self.selected = row;
        self.keep_visible(total, height);
    }

    /// Puts the cursor into the list and into the window.
    pub fn keep_visible(&mut self, total: usize, height: usize) {
        let height = height.max(1);
        self.selected = self.selected.min(total.saturating_sub(1));
        self.top = self.top.min(self.selected).max((self.selected + 1).saturating_sub(height));
        // No empty rows below the last one while rows above it are hidden.
        self.top = self.top.min(total.saturating_sub(height));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// After any keys, in a list that shrinks and grows, the cursor is in the list and visible,
        /// and the window is full.
        #[test]
        fn the_cursor_stays_in_view(steps in prop::collection::vec((0..7usize, 0..60usize, 1..20usize), 1..40)) {
            const MOTIONS: [Motion; 6] =
                [Motion::Up, Motion::Down, Motion::PageUp, Motion::PageDown, Motion::Home, Motion::End];
            let mut cursor = Cursor::default();
            for (motion, total, height) in steps {
                match MOTIONS.get(motion) {
                    Some(motion) => cursor.move_by(*motion, total, height),
                    None => cursor.select(total / 2, total, height),
                }
                prop_assert!(cursor.selected < total.max(1));
                prop_assert!((cursor.top..cursor.top + height).contains(&cursor.selected));
                prop_assert!(total < height || cursor.top + height <= total);
            }
        }
    }
}
