//! Published times that communicators needed to start, as NCCL logs them (`Init timings`).

use plan::cost::CostJob;

/// A start that its operator published.
#[derive(Debug, PartialEq)]
pub struct PublishedStart {
    /// The machine.
    pub name: &'static str,
    /// Where it is published.
    pub source: &'static str,
    /// Ranks.
    pub ranks: u32,
    /// Hosts.
    pub hosts: u32,
    /// Seconds from the call until it returned, of the slowest rank that is shown.
    pub seconds: f64,
    /// The part of it in which kernels were loaded, seconds. Only the first communicator of a
    /// process needs it.
    pub kernels: f64,
}

/// The starts. Those of which kernels took many seconds are a fault, which has a cause of its own.
pub static STARTS: [PublishedStart; 5] = [
    PublishedStart {
        name: "2 ranks on one host, H200",
        source: "a log of NCCL 2.32.3 (crates/answers/tests/h200)",
        ranks: 2,
        hosts: 1,
        seconds: 0.36,
        kernels: 0.28,
    },
    PublishedStart {
        name: "8 ranks on one host",
        source: "https://github.com/NVIDIA/nccl-tests/issues/273",
        ranks: 8,
        hosts: 1,
        seconds: 0.66,
        kernels: 0.42,
    },
    PublishedStart {
        name: "8 ranks on one host, RTX 5090",
        source: "https://github.com/tinygrad/open-gpu-kernel-modules/issues/29",
        ranks: 8,
        hosts: 1,
        seconds: 0.96,
        kernels: 0.74,
    },
    PublishedStart {
        name: "16 ranks on two hosts, InfiniBand",
        source: "https://github.com/NVIDIA/nccl/issues/1412",
        ranks: 16,
        hosts: 2,
        seconds: 1.08,
        kernels: 0.51,
    },
    PublishedStart {
        name: "16 ranks on two hosts",
        source: "https://github.com/NVIDIA/nccl-tests/issues/319",
        ranks: 16,
        hosts: 2,
        seconds: 1.99,
        kernels: 0.27,
    },
];

/// Runs with up to this many times more or fewer ranks count for a job.
const ALIKE: u32 = 4;

/// The time that a communicator of a job needs to start.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedStart {
    /// The least and the most of the published starts, seconds.
    pub seconds: [f64; 2],
    /// The same without the load of kernels: for further communicators of a process.
    pub further: [f64; 2],
    /// The starts.
    pub like: Vec<&'static PublishedStart>,
}

impl ExpectedStart {
    /// The time for a job: from starts on one host for one host, on several for several, with
    /// numbers of ranks that are not too far off. `None` if there is none.
    pub fn of(job: &CostJob, hosts: u32) -> Option<Self> {
        let is_like = |it: &&PublishedStart| {
            let (few, many) = (it.ranks.min(job.ranks), it.ranks.max(job.ranks));
            (it.hosts > 1) == (hosts > 1) && many <= few.saturating_mul(ALIKE)
        };
        let like: Vec<&PublishedStart> = STARTS.iter().filter(is_like).collect();
        let range = |of: fn(&PublishedStart) -> f64| {
            let all = like.iter().map(|it| of(it));
            let least = all.clone().fold(f64::INFINITY, f64::min);
            [least, all.fold(0.0, f64::max)]
        };
        (!like.is_empty()).then(|| Self {
            seconds: range(|it| it.seconds),
            // Logs have hundredths.
            further: range(|it| ((it.seconds - it.kernels) * 100.0).round() / 100.0),
            like: like.clone(),
        })
    }
}
