//! The time of an operation, and NCCL's choice for it (`ncclTopoGetAlgoTime`, `ncclGetAlgoInfo`).

use std::fmt;

use serde::Serialize;

use crate::JsonSchema;
use crate::algorithm::Algorithm;
use crate::cost::operation::{DataType, Registration, TunedOperation};
use crate::cost::table::CostTable;
use program::{Collective, Protocol};

/// Most ranks of one node that CollNet algorithms serve.
const MAX_COLLNET_LOCAL_RANKS: u32 = 8;

/// Most ranks of one node for which NVLS gathers and scatters.
const MAX_NVLS_LOCAL_RANKS: u32 = 32;

/// Operations that other algorithms than rings pass in the time a ring passes one.
const OPERATIONS_PER_TURN: u32 = 8;

/// NCCL's penalty on rings of more than eight ranks for 8-bit floating-point numbers, because a
/// long sum loses too much precision.
const FP8_RING_PENALTY: f32 = 1024.0;

/// Compute capability × 10 from which GPUs reduce 8-bit floating-point numbers.
pub const FP8_CC: i32 = 90;

/// The time of what is not to be taken, µs.
const FOREVER_US: f32 = f32::MAX / 2.0;

/// An algorithm with a protocol.
pub type AlgorithmProtocol = (Algorithm, Protocol);

/// NVLS with its only protocol.
const NVLS_SIMPLE: AlgorithmProtocol = (Algorithm::Nvls, Protocol::Simple);

/// An algorithm and a protocol with their time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Predicted time, µs.
    pub time_us: f64,
}

impl From<(AlgorithmProtocol, f32)> for Candidate {
    fn from(((algorithm, protocol), time_us): (AlgorithmProtocol, f32)) -> Self {
        let time_us = time_us.into();
        Self {
            algorithm,
            protocol,
            time_us,
        }
    }
}

/// The choice for an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationChoice {
    /// The operation.
    pub operation: TunedOperation,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Predicted time of all calls, µs.
    pub time_us: f32,
    /// Channels used.
    pub channels: u32,
    /// Warps of 32 threads on each channel.
    pub warps: u32,
    /// The second best.
    pub runner_up: Option<Candidate>,
    /// Message bytes per time, GB/s; `None` if the time is 0.
    pub algorithm_bandwidth: Option<f64>,
    /// Bus bandwidth, GB/s, as nccl-tests reports it; `None` if the time is 0.
    pub bus_bandwidth: Option<f64>,
}

/// No algorithm is left for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoChoice {
    /// The collective.
    pub collective: Collective,
    /// `NCCL_ALGO` or `NCCL_PROTO` were set.
    pub restricted: bool,
    /// NCCL refuses the type on these GPUs.
    pub unfit_type: Option<DataType>,
}

impl fmt::Display for NoChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collective = self.collective;
        if !Collective::TUNED.contains(&collective) {
            return write!(
                f,
                "{collective} is made of point-to-point transfers; expected a collective with algorithms to choose from"
            );
        }
        if let Some(unfit) = self.unfit_type
            && matches!(collective, Collective::AllGather | Collective::Broadcast)
        {
            return write!(
                f,
                "NCCL 2.27 refuses {unfit} on GPUs before compute capability 9.0; expected another type for {collective}, or \
                 NCCL 2.28"
            );
        }
        if let Some(unfit) = self.unfit_type {
            return write!(
                f,
                "GPUs before compute capability 9.0 do not reduce {unfit}; expected another type for {collective}"
            );
        }
        write!(
            f,
            "no algorithm and protocol is left for {collective}; expected at least one"
        )?;
        if self.restricted {
            write!(f, "; NCCL_ALGO or NCCL_PROTO exclude the others")?;
        }
        Ok(())
    }
}

impl std::error::Error for NoChoice {}

/// ⌊log₂(bytes / 64)⌋, the index into correction factors; -1 below 64 bytes.
const fn size_index(bytes: u64) -> i64 {
    match (bytes / 64).checked_ilog2() {
        Some(log) => log as i64,
        None => -1,
    }
}

impl CostTable {
    /// Predicted time, µs; `None` if the algorithm with the protocol is unavailable.
    ///
    /// Computed in 32 bits like NCCL, so that equal times are equal there too.
    pub fn time_us(&self, operation: &TunedOperation, choice: AlgorithmProtocol) -> Option<f32> {
        let (algorithm, protocol) = choice;
        let entry = self.entry(operation.collective, algorithm, protocol)?;
        if entry.bandwidth <= 0.0 {
            return None;
        }
        let (mut bandwidth, mut latency) = (entry.bandwidth, entry.latency);
        let job = &self.job;
        let bytes = operation.all_bytes();
        let index = size_index(bytes);
        let all_reduce = operation.collective == Collective::AllReduce;
        // NCCL leaves the last factor of trees unused.
        let corrected = match algorithm {
            Algorithm::Tree => index < 23,
            Algorithm::NvlsTree => {
                let correction = &self.tree_correction;
                let on_arm = correction.nvls_tree_on_arm;
                let follows =
                    correction.nvls_tree && job.x86 || on_arm.is_some_and(|below| bytes < below);
                follows && index < 24 && job.min_cc >= 100
            }
            _ => false,
        };
        if all_reduce
            && corrected
            && let Ok(index) = usize::try_from(index)
            && let Some(factor) = self.tree_correction.of(protocol).get(index)
        {
            bandwidth *= factor;
        }
        let factors = &self.latency_factors;
        if algorithm == Algorithm::Pat && self.pat.last {
            return Some(FOREVER_US);
        }
        let pieces = u64::from(job.channels)
            .saturating_mul(u64::from(job.ranks))
            .max(1);
        let piece = bytes / pieces;
        if choice == (Algorithm::Ring, Protocol::Simple) && piece >= factors.ring_simple_bytes {
            let factor = if all_reduce && job.nodes > 1 {
                factors.ring_simple
            } else {
                let growth = factors.ring_growth;
                growth.map_or(1.0, |it| it.factor(operation.collective, job.ranks, piece))
            };
            latency = (f64::from(latency) * factor) as f32;
        }
        // Calls of each channel, one after the other, roughly.
        let pipelined = operation.calls.number.div_ceil(job.channels.max(1));
        let turns = match algorithm {
            Algorithm::Ring => pipelined,
            _ => pipelined.div_ceil(OPERATIONS_PER_TURN),
        };
        let mut time = latency * turns as f32 + bytes as f32 / (1000.0 * bandwidth);
        if let Some(pipeline) = &self.pipeline
            && let Some(entry) = pipeline.entry(choice)
        {
            let (channels, _) = self.size(bytes, algorithm, protocol);
            time = pipeline.time_us(job, entry, operation, channels)? as f32;
        }
        // Collectives without a reduction move bytes.
        let moves = matches!(
            operation.collective,
            Collective::AllGather | Collective::Broadcast
        );
        if operation.calls.data_type.is_fp8()
            && !moves
            && algorithm == Algorithm::Ring
            && job.ranks > 8
        {
            time *= FP8_RING_PENALTY;
        }
        Some(time)
    }

    /// The type of an operation, if NCCL refuses it on these GPUs.
    pub(super) fn unfit_type(&self, operation: &TunedOperation) -> Option<DataType> {
        let TunedOperation {
            collective, calls, ..
        } = operation;
        let reduces = !matches!(collective, Collective::AllGather | Collective::Broadcast);
        let refuses = reduces && self.job.min_cc < FP8_CC || self.job.refuses_fp8;
        let unfit = refuses && calls.data_type.is_fp8();
        unfit.then_some(calls.data_type)
    }

    /// Whether NCCL considers an algorithm for the operation, apart from the table.
    fn considers(&self, operation: &TunedOperation, algorithm: Algorithm) -> bool {
        let job = &self.job;
        let collective = operation.collective;
        // A gather has no reduction.
        let gathers = collective == Collective::AllGather;
        let network = job.collnet.is_some() && (gathers || operation.calls.network_reduces());
        match algorithm {
            Algorithm::CollNetDirect | Algorithm::CollNetChain => {
                network && job.max_local_ranks <= MAX_COLLNET_LOCAL_RANKS
            }
            Algorithm::Nvls | Algorithm::NvlsTree => {
                job.nvls.is_some()
                    && (gathers || operation.calls.switch_reduces())
                    && (collective == Collective::AllReduce
                        || job.max_local_ranks <= MAX_NVLS_LOCAL_RANKS)
                    && (algorithm == Algorithm::NvlsTree || job.nodes == 1 || network)
            }
            Algorithm::Pat if collective == Collective::ReduceScatter => match self.pat.last {
                true => operation.calls.switch_reduces(),
                false => self.pat.averages || !operation.calls.scales(),
            },
            Algorithm::Pat => true,
            Algorithm::Tree | Algorithm::Ring => true,
        }
    }

    /// The time and the channels of NVLS where the policy of efficiency takes it instead of another
    /// choice with so many channels (`NCCL_CTA_POLICY`).
    fn efficient_nvls(&self, operation: &TunedOperation, channels: u32) -> Option<(f32, u32)> {
        let registered = &self.job.registered;
        let nvls = registered.nvls.filter(|_| registered.prefers_nvls)?;
        let splits = matches!(
            operation.collective,
            Collective::AllGather | Collective::ReduceScatter
        );
        let own = nvls.of(operation.collective);
        if !splits || own > channels || !self.considers(operation, Algorithm::Nvls) {
            return None;
        }
        Some((self.time_us(operation, NVLS_SIMPLE)?, own))
    }

    /// Every algorithm and protocol that NCCL considers for an operation, in its order.
    pub fn candidates(&self, operation: &TunedOperation) -> Vec<(AlgorithmProtocol, f32)> {
        if !Collective::TUNED.contains(&operation.collective) {
            return Vec::new();
        }
        if self.unfit_type(operation).is_some() {
            return Vec::new();
        }
        if self.job.ranks <= 1 {
            // A single rank only copies.
            return vec![((Algorithm::Ring, Protocol::Simple), 0.0)];
        }
        let mut candidates: Vec<(AlgorithmProtocol, f32)> = self
            .entries
            .iter()
            .filter(|entry| entry.collective == operation.collective)
            .filter(|entry| self.considers(operation, entry.algorithm))
            .filter_map(|entry| {
                let choice = (entry.algorithm, entry.protocol);
                Some((choice, self.time_us(operation, choice)?))
            })
            .collect();
        // Of equal times NCCL takes the one with the lower numbers. The order of a file does not
        // matter.
        candidates.sort_by_key(|(choice, _)| *choice);
        candidates
    }

    /// NCCL's choice for a message of `bytes` bytes: a single sum of 32-bit numbers.
    ///
    /// # Errors
    /// No algorithm is left.
    pub fn choose(&self, collective: Collective, bytes: u64) -> Result<OperationChoice, NoChoice> {
        self.choose_for(&TunedOperation::new(collective, bytes))
    }

    /// NCCL's choice for an operation.
    ///
    /// # Errors
    /// No algorithm is left.
    pub fn choose_for(&self, operation: &TunedOperation) -> Result<OperationChoice, NoChoice> {
        if let Some(unfit) = self.unfit_type(operation) {
            return Err(NoChoice {
                collective: operation.collective,
                restricted: false,
                unfit_type: Some(unfit),
            });
        }
        let mut best: Option<(AlgorithmProtocol, f32)> = None;
        let mut second: Option<(AlgorithmProtocol, f32)> = None;
        for (choice, time) in self.candidates(operation) {
            if best.is_none_or(|(_, least)| time < least) {
                second = best.replace((choice, time));
            } else if second.is_none_or(|(_, least)| time < least) {
                second = Some((choice, time));
            }
        }
        let Some(mut best) = best else {
            return Err(NoChoice {
                collective: operation.collective,
                restricted: self.job.restricted,
                unfit_type: None,
            });
        };
        let (mut channels, mut warps) = self.size(operation.all_bytes(), best.0.0, best.0.1);
        let registered = match operation.calls.registration {
            Registration::None => false,
            Registration::Local => true,
            Registration::Symmetric => self.job.registered.windows,
        };
        if registered {
            if let Some((time, most)) = self.efficient_nvls(operation, channels) {
                second = Some(best)
                    .filter(|(choice, _)| *choice != NVLS_SIMPLE)
                    .or(second);
                best = (NVLS_SIMPLE, time);
                channels = most;
                warps = self.most_warps(NVLS_SIMPLE);
            }
            channels = self.registered_channels(operation, best.0, channels);
        }
        let ((algorithm, protocol), time_us) = best;
        let time = f64::from(time_us);
        Ok(OperationChoice {
            operation: *operation,
            algorithm,
            protocol,
            time_us,
            channels,
            warps,
            runner_up: second.map(Candidate::from),
            algorithm_bandwidth: self.algorithm_bandwidth(operation.all_bytes(), time),
            bus_bandwidth: self.bus_bandwidth(operation.collective, operation.all_bytes(), time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::size_index;

    #[test]
    fn size_indices() {
        for (bytes, index) in [
            (0, -1),
            (63, -1),
            (64, 0),
            (127, 0),
            (128, 1),
            (1 << 30, 24),
        ] {
            assert_eq!(size_index(bytes), index, "{bytes}");
        }
    }
}
