//! Most threads of each algorithm and protocol, and the bytes that make a thread worthwhile.

use plan::Algorithm;
use plan::cost::Threads;
use program::Protocol;

use super::inputs::Inputs;
use super::profile::CostProfile;
use crate::rules::Rules;
use crate::settings::Tuning;

/// Threads of a warp.
const WARP: i32 = 32;

/// Threads of PAT in 2.32 (binary): a message has 40 KiB for each channel.
const PAT_THREADS: i32 = 640;

/// Bounds that NCCL sets to `NCCL_NTHREADS`.
const BOUNDS: (i32, i32) = (64, 512);

/// Bounds that NCCL sets to `NCCL_LL128_NTHREADS`.
const LL128_BOUNDS: (i32, i32) = (160, 640);

/// A number of threads as NCCL understands the user's.
const fn threads(asked: i64, (least, most): (i32, i32), default: i32) -> i32 {
    // NCCL keeps the setting in 64 bits and uses 32 of them.
    let asked = asked as i32;
    if asked <= 0 {
        default
    } else if asked % WARP != 0 || asked > most {
        most
    } else if asked < least {
        least
    } else {
        asked
    }
}

/// The rows of all algorithms.
pub(super) fn rows(
    inputs: &Inputs,
    tuning: &Tuning,
    profile: &CostProfile,
    rules: Rules,
) -> Vec<Threads> {
    let limits = &profile.threads;
    let int = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let ring_gbps = inputs.ring.bw_intra * inputs.ring.channels as f32;
    let ring_simple = if f64::from(ring_gbps) <= limits.ring_simple_slow_gbps {
        int(limits.ring_simple_slow)
    } else {
        int(limits.simple)
    };
    let ll = threads(tuning.threads, BOUNDS, int(limits.ll));
    let ll128 = threads(tuning.ll128_threads, LL128_BOUNDS, int(limits.ll128));
    let row = |algorithm| {
        let most = match algorithm {
            Algorithm::Ring => [ll, ll128, threads(tuning.threads, BOUNDS, ring_simple)],
            Algorithm::Tree => [
                ll,
                ll128,
                threads(tuning.threads, BOUNDS, int(limits.simple)),
            ],
            Algorithm::Pat if rules.counts_pat_threads => [0, 0, PAT_THREADS],
            Algorithm::Pat => [0; 3],
            _ => [0, 0, int(limits.switch)],
        };
        Threads {
            algorithm,
            most,
            threshold: thresholds(inputs, tuning, profile, rules, algorithm),
        }
    };
    Algorithm::ALL.map(row).to_vec()
}

fn thresholds(
    inputs: &Inputs,
    tuning: &Tuning,
    profile: &CostProfile,
    rules: Rules,
    algorithm: Algorithm,
) -> [i64; 3] {
    if inputs.ranks <= 1 && !rules.single_rank_thresholds {
        return [0; 3];
    }
    let limits = &profile.threads;
    let ranks = if algorithm == Algorithm::Ring {
        i64::from(inputs.ranks)
    } else {
        1
    };
    let simple = if algorithm.is_collnet() {
        limits.threshold_collnet
    } else {
        limits.threshold_simple
    };
    let default = [
        i64::from(limits.threshold_ll) * ranks,
        i64::from(limits.threshold_ll128),
        i64::from(simple),
    ];
    let asked = match algorithm {
        Algorithm::Tree => tuning.thresholds[0],
        Algorithm::Ring => tuning.thresholds[1],
        _ => [None; 3],
    };
    Protocol::ALL.map(|protocol| asked[protocol as usize].unwrap_or(default[protocol as usize]))
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS, threads};

    #[test]
    fn asked_threads() {
        for (asked, expected) in [
            (-2, 256),
            (0, 256),
            (32, 64),
            (96, 96),
            (100, 512),
            (512, 512),
            (1024, 512),
        ] {
            assert_eq!(threads(asked, BOUNDS, 256), expected, "{asked}");
        }
    }
}
