//! Sweeps over sizes.

use program::Collective;

use super::choose::AlgorithmProtocol;
use super::{CostTable, TunedOperation};

/// A range of sizes with the same choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Range {
    /// Smallest of the sizes asked, bytes.
    pub from_bytes: u64,
    /// Largest of the sizes asked, bytes.
    pub to_bytes: u64,
    /// The choice; `None` if there is none.
    pub choice: Option<AlgorithmProtocol>,
}

impl CostTable {
    /// The fastest choice for each of the sizes of the whole message, bytes, which must ascend.
    /// Neighbors with the same choice are one range; of equal times the first counts.
    pub fn sweep(
        &self,
        collective: Collective,
        sizes: impl IntoIterator<Item = u64>,
    ) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        for bytes in sizes {
            let candidates = self.candidates(&TunedOperation::new(collective, bytes));
            let best = candidates.iter().min_by(|a, b| a.1.total_cmp(&b.1));
            let choice = best.map(|found| found.0);
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
    pub fn algorithm_bandwidth(&self, bytes: u64, time_us: f64) -> Option<f64> {
        (time_us > 0.0).then(|| bytes as f64 / time_us / 1000.0)
    }

    /// Bus bandwidth, GB/s, as nccl-tests reports it; `None` if the time is 0.
    pub fn bus_bandwidth(&self, collective: Collective, bytes: u64, time_us: f64) -> Option<f64> {
        let bandwidth = self.algorithm_bandwidth(bytes, time_us)?;
        Some(bandwidth * collective.bus_factor(self.job.ranks))
    }
}

/// Sizes from `from` to `to`, each twice the one before.
pub fn doubling(from: u64, to: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(from.max(1)), |size| size.checked_mul(2))
        .take_while(move |size| *size <= to)
}
