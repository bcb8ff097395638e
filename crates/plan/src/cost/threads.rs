//! Channels and threads for a size: small messages take fewer of both.

use crate::algorithm::Algorithm;
use crate::cost::choose::AlgorithmProtocol;
use crate::cost::operation::TunedOperation;
use crate::cost::table::CostTable;
use program::{Collective, Protocol};

/// Threads of a warp.
pub const WARP: i32 = 32;

/// Fewest threads of a channel: three warps.
const FEWEST: i32 = 3 * WARP;

/// Threads of trees and of PAT, whose kernels split them between the phases.
const TREE_THREADS: i32 = 640;

/// The number of channels at which CollNetDirect compares with its threshold again.
const COLLNET_SWITCH: i32 = 16;

/// Whether a message has too few bytes for a number of threads. Like NCCL, it multiplies in 32 bits
/// and compares the result as an unsigned 64-bit number.
fn too_small(bytes: u64, factors: [i32; 4]) -> bool {
    let product = factors.into_iter().fold(1_i32, i32::wrapping_mul);
    bytes < i64::from(product) as u64
}

/// Channels of rings and trees that saturate one node where the buffers are registered. NCCL takes
/// them instead of more, up to [`MANY_CHANNELS`].
const REGISTERED: u32 = 16;
const MANY_CHANNELS: u32 = 24;

impl CostTable {
    /// Channels of an operation whose buffers are registered, of those for a size: fewer are enough
    /// where GPUs, or ports with GPUDirect RDMA on nodes of one GPU, reach the buffers directly.
    /// Source: NCCL's public source (`ncclRegisterCollBuffers`).
    pub(super) fn registered_channels(
        &self,
        operation: &TunedOperation,
        (algorithm, protocol): AlgorithmProtocol,
        channels: u32,
    ) -> u32 {
        let job = &self.job;
        let collective = operation.collective;
        if matches!(algorithm, Algorithm::Nvls | Algorithm::NvlsTree) {
            let registered = job.registered.nvls;
            return registered.map_or(channels, |nvls| nvls.of(collective));
        }
        let is_alone = job.nodes == job.ranks && job.nodes > 1;
        if is_alone
            && (algorithm, protocol) == (Algorithm::Ring, Protocol::Simple)
            && matches!(collective, Collective::AllGather | Collective::Broadcast)
        {
            let [least, most] = job.calls.blocks;
            let of_ring = job.registered.one_gpu_ring;
            let of_ring = of_ring.unwrap_or_else(|| 1.min(most).max(least));
            if of_ring > 0 {
                return of_ring;
            }
        }
        let reads_directly = match algorithm {
            Algorithm::Ring => {
                !matches!(collective, Collective::Reduce | Collective::ReduceScatter)
            }
            Algorithm::Tree => true,
            _ => false,
        };
        // Peers would overwrite the input.
        let overwrites = operation.calls.in_place && collective == Collective::AllReduce;
        let reads_directly = reads_directly && !overwrites;
        let many = channels > REGISTERED && channels <= MANY_CHANNELS;
        match reads_directly && protocol == Protocol::Simple && job.registered.direct_peers && many
        {
            true => REGISTERED,
            false => channels,
        }
    }

    /// Warps of a channel, for messages that need them all.
    pub(super) fn most_warps(&self, (algorithm, protocol): AlgorithmProtocol) -> u32 {
        let most = self.threads(algorithm).most[protocol as usize];
        (most.max(0) / WARP) as u32
    }

    /// Channels and warps per channel for a message of `bytes` bytes.
    pub fn size(&self, bytes: u64, algorithm: Algorithm, protocol: Protocol) -> (u32, u32) {
        let row = self.threads(algorithm);
        let mut threads = row.most[protocol as usize];
        // NCCL keeps thresholds in 64 bits and computes with 32.
        let mut threshold = row.threshold[protocol as usize] as i32;
        let all = i32::try_from(self.job.channels).unwrap_or(i32::MAX);
        let mut channels = all;
        match algorithm {
            Algorithm::CollNetDirect => {
                let heads = self.job.collnet.as_ref().map_or(0, |collnet| collnet.heads);
                let heads = i32::try_from(heads).unwrap_or(i32::MAX);
                let mut switch = COLLNET_SWITCH;
                loop {
                    let mut few;
                    loop {
                        few = too_small(bytes, [channels, threads, heads, threshold]);
                        if !few || channels <= switch {
                            break;
                        }
                        if channels == switch + switch / 2 {
                            threshold /= 2;
                        }
                        channels -= 1;
                    }
                    switch /= 2;
                    if switch < 1 || !few {
                        break;
                    }
                }
            }
            Algorithm::Nvls | Algorithm::NvlsTree => {
                let nvls = self.job.nvls.as_ref().map_or(0, |nvls| nvls.channels);
                channels = i32::try_from(nvls).unwrap_or(i32::MAX);
                if algorithm == Algorithm::Nvls && self.job.nodes > 1 {
                    channels = channels.min(all);
                }
            }
            _ => {
                while channels >= 2 && too_small(bytes, [channels, threads, 1, threshold]) {
                    channels -= 1;
                }
                while threads % 128 == 0
                    && threads > 0
                    && too_small(bytes, [channels, threads, 1, threshold])
                {
                    threads /= 2;
                }
            }
        }
        if protocol == Protocol::Simple && algorithm == Algorithm::Ring {
            // One more warp waits while the others copy.
            threads += WARP;
        }
        threads = threads.max(FEWEST);
        if matches!(algorithm, Algorithm::Tree | Algorithm::Pat) {
            threads = TREE_THREADS;
        }
        (channels.max(0) as u32, (threads / WARP) as u32)
    }
}
