//! The time of collectives.

use records::nccl_log::Log;

/// Says how long a collective takes.
pub trait Predict {
    /// The time of a call, ms, and where that is known from.
    fn time(&self, call: &Call<'_>) -> (f64, String);
}

/// A call of a job.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The function in PyTorch's words, such as `ALLREDUCE` or `_ALLGATHER_BASE`.
    pub function: &'a str,
    /// Bytes of the whole message: all ranks' pieces together where they are gathered or scattered.
    pub bytes: u64,
    /// What NCCL logged in the job: its version, settings, ranks and hosts.
    pub log: &'a Log,
    /// Ranks of the job that are known at least.
    pub ranks: u32,
}

/// A lower bound on speed, where no machine is known.
#[derive(Debug, Clone, Copy, Default)]
pub struct Floor;

/// The bandwidth that any network of a job has, bytes per ms: 1 GB/s.
const FLOOR: f64 = 1e6;

impl Predict for Floor {
    fn time(&self, call: &Call<'_>) -> (f64, String) {
        // An all-reduce moves each byte twice.
        (
            2.0 * call.bytes as f64 / FLOOR + 1.0,
            "at 1 GB/s".to_owned(),
        )
    }
}
