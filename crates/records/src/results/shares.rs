//! Shares of the bus bandwidth that NCCL's cost model predicts which published all-reduces reached.
//! They bound how much a predicted gain can be worth.

use plan::Algorithm;

/// The shares of a run.
#[derive(Debug, PartialEq)]
struct RunShares {
    /// Whether the ranks are on several nodes, which the network joins.
    is_networked: bool,
    /// Whether NVSwitches or the network reduce.
    reduces_in_switches: bool,
    /// Sizes of the message, bytes, ascending, with the share of the predicted bus bandwidth.
    shares: &'static [(u64, f64)],
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The runs. Shares are measured by predicted bus bandwidths of NCCL 2.32's constants; the sources
/// are those of [`published`](super::published).
static RUNS: [RunShares; 7] = [
    // 8 × A100 (Azure ND A100 v4).
    RunShares {
        is_networked: false,
        reduces_in_switches: false,
        shares: &[
            (MIB, 0.71),
            (16 * MIB, 0.65),
            (64 * MIB, 0.77),
            (256 * MIB, 0.92),
            (GIB, 0.957),
            (8 * GIB, 0.966),
        ],
    },
    // 8 × H100 (Azure ND H100 v5).
    RunShares {
        is_networked: false,
        reduces_in_switches: true,
        shares: &[
            (MIB, 0.67),
            (8 * MIB, 0.66),
            (32 * MIB, 0.75),
            (128 * MIB, 0.88),
            (512 * MIB, 0.933),
            (GIB, 0.986),
            (8 * GIB, 1.0),
        ],
    },
    // 8 × B300, NVLink SHARP.
    RunShares {
        is_networked: false,
        reduces_in_switches: true,
        shares: &[(GIB, 1.175)],
    },
    // 8 × B300, rings.
    RunShares {
        is_networked: false,
        reduces_in_switches: false,
        shares: &[(GIB, 0.98)],
    },
    // 72 × GB200 in one NVLink domain (CoreWeave).
    RunShares {
        is_networked: false,
        reduces_in_switches: true,
        shares: &[
            (512 * MIB, 0.647),
            (GIB, 0.773),
            (2 * GIB, 0.838),
            (4 * GIB, 0.915),
            (8 * GIB, 0.917),
        ],
    },
    // 2 × 8 A100 (OCI BM.GPU.B4.8).
    RunShares {
        is_networked: true,
        reduces_in_switches: false,
        shares: &[(GIB, 0.99), (8 * GIB, 0.99)],
    },
    // 8 × 8 H100, SHARP (CoreWeave).
    RunShares {
        is_networked: true,
        reduces_in_switches: true,
        shares: &[
            (512 * MIB, 0.942),
            (GIB, 0.954),
            (4 * GIB, 0.992),
            (8 * GIB, 1.006),
        ],
    },
];

/// The shares of their predictions that published runs reached at a size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharesAtSize {
    /// The least.
    pub low: f64,
    /// The greatest.
    pub high: f64,
    /// How many runs there are.
    pub runs: usize,
    /// All of them are of jobs that are joined alike and reduce alike. Otherwise there are fewer
    /// than two such runs, and these are of jobs of all kinds.
    pub alike: bool,
}

impl SharesAtSize {
    /// The shares at a size, bytes, of jobs of one node or of several with an algorithm; `None` if
    /// fewer than two runs measured messages of this size.
    pub fn of(several_nodes: bool, algorithm: Algorithm, bytes: u64) -> Option<Self> {
        let measured = |run: &&RunShares| run.shares.first().is_some_and(|it| it.0 <= bytes);
        let is_like = |run: &&RunShares| {
            run.is_networked == several_nodes
                && run.reduces_in_switches == algorithm.reduces_in_switches()
        };
        let all = || RUNS.iter().filter(measured);
        let alike = all().filter(is_like).count() >= 2;
        let shares = all().filter(|run| !alike || is_like(run));
        let shares: Vec<f64> = shares.map(|run| run.share(bytes)).collect();
        (shares.len() >= 2).then(|| Self {
            low: shares.iter().copied().fold(f64::INFINITY, f64::min),
            high: shares.iter().copied().fold(0.0, f64::max),
            runs: shares.len(),
            alike,
        })
    }
}

/// The least and the greatest share that any run reached at any size.
pub fn all_shares() -> [f64; 2] {
    let shares = || RUNS.iter().flat_map(|run| run.shares).map(|it| it.1);
    [
        shares().fold(f64::INFINITY, f64::min),
        shares().fold(0.0, f64::max),
    ]
}

impl RunShares {
    /// The share at a size, bytes: between two sizes by the logarithm, outside as at the last one.
    fn share(&self, bytes: u64) -> f64 {
        let [first, .., last] = self.shares else {
            return self.shares.first().map_or(1.0, |it| it.1);
        };
        if bytes <= first.0 {
            return first.1;
        }
        let pairs = self.shares.windows(2).map(|pair| (pair[0], pair[1]));
        let mut around = pairs.filter(|(_, above)| bytes <= above.0);
        let Some(((from, low), (to, high))) = around.next() else {
            return last.1;
        };
        let position = |bytes: u64| (bytes as f64).log2();
        let part = (position(bytes) - position(from)) / (position(to) - position(from));
        low + part * (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_at_a_size_are_of_runs_alike_if_there_are_two() {
        let of = SharesAtSize::of;
        assert_eq!(of(false, Algorithm::Ring, 512 << 10), None);
        let at = of(false, Algorithm::Ring, MIB);
        let at = at.map(|it| (it.low, it.high, it.runs, it.alike));
        assert_eq!(at, Some((0.67, 0.71, 2, false)));
        let at = of(false, Algorithm::Ring, GIB);
        let at = at.map(|it| (it.low, it.high, it.runs, it.alike));
        assert_eq!(at, Some((0.957, 0.98, 2, true)));
        let at = of(false, Algorithm::Nvls, GIB);
        assert_eq!(at.map(|it| (it.runs, it.alike)), Some((3, true)));
    }

    #[test]
    fn shares_lie_between_those_of_the_next_sizes() {
        for run in &RUNS {
            let all: Vec<u64> = run.shares.iter().map(|it| it.0).collect();
            assert!(all.is_sorted(), "{run:?}");
            for pair in run.shares.windows(2) {
                let between = run.share((pair[0].0 + pair[1].0) / 2);
                let (low, high) = (pair[0].1.min(pair[1].1), pair[0].1.max(pair[1].1));
                assert!((low..=high).contains(&between), "{run:?}");
            }
            for (bytes, share) in run.shares {
                assert!((run.share(*bytes) - share).abs() < 1e-12, "{run:?}");
            }
            assert!(run.share(u64::MAX).is_finite() && run.share(0) > 0.0);
        }
    }
}
