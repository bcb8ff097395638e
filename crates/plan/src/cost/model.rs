//! The interface of cost models.

use program::Collective;

/// The predicted time of one choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate<W> {
    /// The algorithm, with a protocol if the model has one.
    pub choice: W,
    /// Predicted time, µs.
    pub time_us: f64,
}

/// The fastest choice and the next one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best<W> {
    /// The fastest.
    pub best: Estimate<W>,
    /// The next one.
    pub runner_up: Option<Estimate<W>>,
}

/// A range of sizes with the same best choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Range<W> {
    /// Smallest of the sizes asked, bytes.
    pub from_bytes: u64,
    /// Largest of the sizes asked, bytes.
    pub to_bytes: u64,
    /// The best choice; `None` if there is none.
    pub choice: Option<W>,
}

/// A model of the time of collectives. Sizes are those of the whole message in bytes: for
/// collectives that gather or scatter, all ranks' pieces together.
pub trait CostModel {
    /// The algorithm, with a protocol if the model has one.
    type Choice: Copy + PartialEq;

    /// Ranks of the communicator.
    fn ranks(&self) -> u32;

    /// Every choice for a collective; of equal times the first counts.
    fn estimates(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Self::Choice>>;

    /// The fastest choice and the next one.
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

    /// The best choice for each of the sizes, which must ascend. Neighbors with the same choice are
    /// one range.
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
            let choice = self.best(collective, bytes).map(|found| found.best.choice);
            match ranges.last_mut() {
                Some(last) if last.choice == choice => last.to_bytes = bytes,
                _ => ranges.push(Range {
                    from_bytes: bytes,
                    to_bytes: bytes,
                    choice,
                }),
            }
        }
        ranges
    }

    /// Message bytes per time, GB/s; `None` if the time is 0.
    fn algorithm_bandwidth(&self, bytes: u64, time_us: f64) -> Option<f64> {
        (time_us > 0.0).then(|| bytes as f64 / time_us / 1000.0)
    }

    /// Bus bandwidth, GB/s, as nccl-tests reports it; `None` if the time is 0.
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
