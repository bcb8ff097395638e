//! Bandwidths of copies between all pairs of GPUs.

use std::time::Duration;

use crate::JsonSchema;
use answers::report::Report;
use anyhow::{Result, anyhow, bail};
use backend_cuda::pairs::{CopyPlan, PairBandwidths, TimedPairs};
use serde::Serialize;

use super::open::{describe, open_all};

/// Copies of a pair that are timed together.
pub const COPIES: u32 = 8;

/// Bandwidths of copies between the GPUs of this machine, GB/s, by the GPU that holds the data
/// (row) and the one that gets it (column), as the driver numbers them; null for a GPU and itself,
/// and where the first cannot access the memory of the second.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PairsJson {
    /// The GPUs.
    gpus: Vec<String>,
    /// Bytes of a copy.
    bytes: u64,
    /// One pair at a time.
    one_direction_gbps: PairBandwidths,
    /// A pair in both directions at once: the sum.
    both_directions_gbps: PairBandwidths,
    /// All pairs at once: the bandwidth of each.
    at_once_gbps: PairBandwidths,
}

impl Report for PairsJson {
    const FORMAT: &'static str = "topo-pairs";
    const VERSION: u32 = 1;
}

/// Times copies between all GPUs of this machine.
///
/// # Errors
/// There are no two GPUs with peer access, they have too little memory, or copies fail or do not
/// end in time (`patience`, for those that run at once).
pub fn time_pairs(bytes: u64, patience: Duration) -> Result<PairsJson> {
    let cuda = open_all()?;
    let gpus: Vec<String> = describe(&cuda).lines().map(str::to_owned).collect();
    if gpus.len() < 2 {
        bail!(
            "pairs need two GPUs, and this machine has {}; expected a machine with several, all of which \
             CUDA_VISIBLE_DEVICES shows",
            gpus.len()
        );
    }
    let plan = CopyPlan {
        bytes,
        copies: COPIES,
        patience,
    };
    let TimedPairs { one, both, all } = cuda.time_pairs(&plan).map_err(|why| anyhow!(why))?;
    Ok(PairsJson {
        gpus,
        bytes,
        one_direction_gbps: one,
        both_directions_gbps: both,
        at_once_gbps: all,
    })
}

impl PairsJson {
    /// The matrices as p2pBandwidthLatencyTest prints them, and one of all pairs at once in the
    /// same form.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for gpu in &self.gpus {
            text.push_str(gpu);
            text.push('\n');
        }
        text.push_str(&format!(
            "Copies of {} bytes, {COPIES} at a time\n",
            self.bytes
        ));
        let matrices = [
            ("Unidirectional", &self.one_direction_gbps),
            ("Bidirectional", &self.both_directions_gbps),
            ("Simultaneous", &self.at_once_gbps),
        ];
        for (which, values) in matrices {
            text.push_str(&format!(
                "\n{which} P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D"
            ));
            for (to, _) in values.iter().enumerate() {
                text.push_str(&format!("{to:>8}"));
            }
            text.push('\n');
            for (from, row) in values.iter().enumerate() {
                text.push_str(&format!("{from:>6}"));
                for value in row {
                    text.push_str(&match value {
                        Some(gbps) => format!("{gbps:>8.2}"),
                        None => format!("{:>8}", "N/A"),
                    });
                }
                text.push('\n');
            }
        }
        text
    }
}
