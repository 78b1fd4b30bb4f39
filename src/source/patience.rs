//! How long to wait for what may not come for a long time.

use std::time::Duration;

/// The first wait: a pause in traffic, at which what was held back is shown and written.
const FIRST: Duration = Duration::from_millis(20);

/// The longest: a writer says once a second that it lives.
const LONGEST: Duration = Duration::from_secs(1);

/// Waits that grow while nothing comes, so that a rest costs nothing: what comes ends any of them at once.
#[derive(Debug)]
pub struct Patience(Duration);

impl Default for Patience {
    fn default() -> Patience {
        Patience(FIRST)
    }
}

impl Patience {
    /// How long to wait now. Where that is in vain, the next wait is twice as long.
    pub fn wait(&mut self) -> Duration {
        let next = LONGEST.min(2 * self.0);
        std::mem::replace(&mut self.0, next)
    }

    /// Something came: more of it may be near.
    pub fn reset(&mut self) {
        *self = Patience::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_noticed_at_once_and_then_costs_ever_less() {
        let mut patience = Patience::default();
        for _ in 0..2 {
            let waits: Vec<_> = (0..8).map(|_| patience.wait().as_millis()).collect();
            assert_eq!(waits, [20, 40, 80, 160, 320, 640, 1_000, 1_000]);
            patience.reset();
        }
    }
}
