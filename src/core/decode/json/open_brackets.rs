//! The objects and arrays that are open while a value is checked.

/// A stack of opening brackets. Each is one bit, so only deep nesting needs memory of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenBrackets {
    /// The latest brackets, the last one in the lowest bit. An object is 1.
    latest: u64,
    depth: usize,
    /// The brackets before them, in words of 64.
    earlier: Vec<u64>,
}

impl OpenBrackets {
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn clear(&mut self) {
        self.depth = 0;
        self.earlier.clear();
    }

    /// Adds a bracket, which this byte will close.
    pub(super) fn push(&mut self, closing: u8) {
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.earlier.push(self.latest);
        }
        self.latest = self.latest << 1 | u64::from(closing == b'}');
        self.depth += 1;
    }

    /// The byte that closes the last bracket.
    pub(super) fn closing(&self) -> Option<u8> {
        let closing = if self.latest & 1 == 1 { b'}' } else { b']' };
        (self.depth > 0).then_some(closing)
    }

    /// Removes the last bracket.
    pub(super) fn pop(&mut self) {
        self.depth -= 1;
        self.latest >>= 1;
        if self.depth > 0 && self.depth.is_multiple_of(64) {
            self.latest = self.earlier.pop().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_stack(steps in prop::collection::vec(0..5, 0..600)) {
            let (mut open, mut expected) = (OpenBrackets::default(), Vec::new());
            for step in steps {
                match step {
                    0 if !expected.is_empty() => {
                        open.pop();
                        expected.pop();
                    }
                    0..=2 => {
                        open.push(b'}');
                        expected.push(b'}');
                    }
                    _ => {
                        open.push(b']');
                        expected.push(b']');
                    }
                }
                prop_assert_eq!((open.depth(), open.closing()), (expected.len(), expected.last().copied()));
            }
            for left in (0..expected.len()).rev() {
                open.pop();
                prop_assert_eq!((open.depth(), open.closing()), (left, expected[..left].last().copied()));
            }
        }
    }
}
