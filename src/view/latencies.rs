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

    /// A percentile of the samples by the method of [`nearest_rank`]. `None` without samples.
    pub fn percentile(&mut self, percent: usize) -> Option<i64> {
        if !self.sorted {
            self.samples.sort_unstable();
            self.sorted = true;
        }
        nearest_rank(&self.samples, percent)
    }
}

/// A percentile by the nearest-rank method: the smallest of the sorted values that at least
/// `percent` percent of the values do not exceed. It is always one of the values: of three values,
/// the largest is the 95th percentile. `None` without values.
pub fn nearest_rank(sorted: &[i64], percent: usize) -> Option<i64> {
    let rank = (sorted.len() * percent.min(100)).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
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
        let mut three: Latencies = [3, 1, 2].into_iter().collect();
        assert_eq!([0, 50, 95, 99, 100].map(|percent| three.percentile(percent)), [1, 2, 3, 3, 3].map(Some));
        let mut many: Latencies = (0..1_000_000).collect();
        assert!(many.samples.len() < MAX_SAMPLES);
        assert!(many.percentile(50).is_some_and(|median| (median - 500_000).abs() < 100));
        assert_eq!(Latencies::default().percentile(50), None);
    }
}
