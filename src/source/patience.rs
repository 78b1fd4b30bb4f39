//! Growing waits for a source that may be quiet for a long time.

use std::time::Duration;

/// The first wait. A pause of this length in the traffic is the moment to show and write
/// what was buffered.
const FIRST: Duration = Duration::from_millis(20);

/// The longest wait. A writer gives its sign of life at such pauses, every few seconds.
const LONGEST: Duration = Duration::from_secs(1);

/// Waits that double while nothing comes, so that an idle source costs nothing. Data that arrives
/// ends any wait at once.
#[derive(Debug)]
pub struct Patience(Duration);

impl Default for Patience {
    fn default() -> Patience {
        Patience(FIRST)
    }
}

impl Patience {
    /// The duration to wait now. The next wait is twice as long, up to one second.
    pub fn wait(&mut self) -> Duration {
        let next = LONGEST.min(2 * self.0);
        std::mem::replace(&mut self.0, next)
    }

    /// Starts again with the shortest wait, because something came and more may follow.
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
