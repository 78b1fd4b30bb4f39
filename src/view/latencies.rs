//! A sample of latencies and its percentiles, in bounded memory.

/// Maximum number of samples. When it is reached, every second sample is discarded and only every
/// second latency is sampled from then on.
const MAX_SAMPLES: usize = 65_536;

/// Latencies in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    samples: Vec<i64>,
    sorted: bool,
    /// One of so many latencies is sampled.
    step: u64,
    added: u64,
}

impl Latencies {
    /// Adds a latency.
    pub fn add(&mut self, latency: i64) {
        if self.added.is_multiple_of(self.step.max(1)) {
            self.samples.push(latency);
            self.sorted = false;
            if self.samples.len() >= MAX_SAMPLES {
                let mut keep = false;
                self.samples.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.step = self.step.max(1) * 2;
            }
        }
        self.added += 1;
    }

    /// The latency that so many percent of the samples do not exceed (nearest rank below).
    /// `None` without samples.
    pub fn percentile(&mut self, percent: usize) -> Option<i64> {
        if !self.sorted {
            self.samples.sort_unstable();
            self.sorted = true;
        }
        self.samples.get(self.samples.len().checked_sub(1)? * percent.min(100) / 100).copied()
    }
}

impl FromIterator<i64> for Latencies {
    fn from_iter<I: IntoIterator<Item = i64>>(latencies: I) -> Latencies {
        let mut all = Latencies::default();
        latencies.into_iter().for_each(|latency| all.add(latency));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_and_stay_close_when_samples_are_discarded() {
        let mut few: Latencies = (1..=100).rev().collect();
        assert_eq!((few.percentile(0), few.percentile(50), few.percentile(95)), (Some(1), Some(50), Some(95)));
        assert_eq!(few.percentile(100), Some(100));
        let mut many: Latencies = (0..1_000_000).collect();
        assert!(many.samples.len() < MAX_SAMPLES);
        assert!(many.percentile(50).is_some_and(|median| (median - 500_000).abs() < 100));
        assert_eq!(Latencies::default().percentile(50), None);
    }
}
