//! What every cost model can be asked.

use program::Collective;

/// What one way would take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate<W> {
    /// Algorithm, and protocol where there is one.
    pub way: W,
    /// Predicted time, µs.
    pub time_us: f64,
}

/// The fastest way, and what would be taken if it were not there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best<W> {
    /// The fastest.
    pub best: Estimate<W>,
    /// The next one.
    pub runner_up: Option<Estimate<W>>,
}

/// Sizes for which one way is the best.
#[derive(Debug, Clone, PartialEq)]
pub struct Range<W> {
    /// Smallest of the sizes asked, bytes.
    pub from_bytes: u64,
    /// Largest of the sizes asked, bytes.
    pub to_bytes: u64,
    /// The best way, or `None` where there is none at all.
    pub way: Option<W>,
}

/// A model of the time of collectives. Sizes are those of the whole message in bytes: for collectives that gather or
/// scatter, all ranks' pieces together.
pub trait CostModel {
    /// Algorithm, and protocol where there is one.
    type Choice: Copy + PartialEq;

    /// Ranks of the communicator.
    fn ranks(&self) -> u32;

    /// Every way that can carry out the collective; of equal times the first counts.
    fn estimates(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Self::Choice>>;

    /// The fastest way and the one after it.
    fn best(&self, collective: Collective, bytes: u64) -> Option<Best<Self::Choice>> {
        let mut estimates = self.estimates(collective, bytes);
        // The sort is stable, so the first of equals stays first.
        estimates.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        let mut estimates = estimates.into_iter();
        Some(Best {
            best: estimates.next()?,
            runner_up: estimates.next(),
        })
    }

    /// The best way for each of the sizes, which must ascend; neighbours with the same way are one range.
    fn sweep(
        &self,
        collective: Collective,
        sizes: impl IntoIterator<Item = u64>,
    ) -> Vec<Range<Self::Choice>>
    where
        Self: Sized,
    {
        let mut ranges: Vec<Range<Self::Choice>> = Vec::new();
        for bytes in sizes {
            let way = self.best(collective, bytes).map(|found| found.best.way);
            match ranges.last_mut() {
                Some(last) if last.way == way => last.to_bytes = bytes,
                _ => ranges.push(Range {
                    from_bytes: bytes,
                    to_bytes: bytes,
                    way,
                }),
            }
        }
        ranges
    }

    /// Message bytes per time, GB/s; `None` when it takes no time.
    fn algorithm_bandwidth(&self, bytes: u64, time_us: f64) -> Option<f64> {
        (time_us > 0.0).then(|| bytes as f64 / time_us / 1000.0)
    }

    /// What the busiest link carries, GB/s, as nccl-tests reports it; `None` when it takes no time.
    fn bus_bandwidth(&self, collective: Collective, bytes: u64, time_us: f64) -> Option<f64> {
        let bandwidth = self.algorithm_bandwidth(bytes, time_us)?;
        Some(bandwidth * collective.bus_factor(self.ranks()))
    }
}

/// Sizes from `from` to `to`, each twice the one before.
pub fn doubling(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from.max(1)), |size| size.checked_mul(2))
        .take_while(move |size| *size <= to)
}
