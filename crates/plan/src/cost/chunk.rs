//! Chunk sizes: the data of one step of a channel, and the steps that a proxy expects.

use crate::algorithm::Algorithm;
use crate::cost::choose::OperationChoice;
use crate::cost::table::CostTable;
use program::{Collective, Protocol};

/// Slots of a channel's buffer (`NCCL_STEPS`).
const SLOTS: i64 = 8;

/// Largest chunk of CollNetChain, bytes.
const COLLNET_CHAIN_CHUNK: i64 = 262_144;

/// Chunk of NVLS between nodes when its all-reduce is slower than [`NVLS_SLOW`], bytes.
const NVLS_SLOW_CHUNK: i64 = 32_768;

/// Bandwidth of an NVLS all-reduce below which its chunks stay small, GB/s.
const NVLS_SLOW: f32 = 150.0;

/// The chunks of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// Bytes of user data in a chunk.
    pub chunk_bytes: u64,
    /// Bytes of user data in a slice, after which the next rank is told.
    pub slice_bytes: u64,
    /// Buffer slots of a chunk.
    pub chunk_steps: u32,
    /// Buffer slots of a slice.
    pub slice_steps: u32,
    /// Turns over all channels for the whole message.
    pub loops: u64,
    /// Steps of each connection, which its proxy counts.
    pub steps: u64,
}

/// A protocol's buffer is smaller than one grain per slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {protocol} buffer of {buffer_bytes} bytes is too small; expected at least {least_bytes} bytes"
)]
pub struct BufferTooSmall {
    /// The protocol.
    pub protocol: Protocol,
    /// Its buffer.
    pub buffer_bytes: i64,
    /// The smallest buffer.
    pub least_bytes: i64,
}

/// Chunks are multiples of this many bytes.
const fn grain(protocol: Protocol) -> i64 {
    match protocol {
        Protocol::Ll => 16,
        Protocol::Ll128 => 1920,
        Protocol::Simple => 512,
    }
}

/// Slots of a chunk and of a slice: rings that pass pieces on overlap two slices.
const fn steps(collective: Collective, pair: (Algorithm, Protocol)) -> (u32, u32) {
    match (collective, pair) {
        (
            Collective::AllReduce | Collective::AllGather | Collective::ReduceScatter,
            (Algorithm::Ring, Protocol::Simple),
        ) => (4, 2),
        _ => (1, 1),
    }
}

/// Halves a chunk while it is above `floor` and `holds` says so.
fn halve(chunk: &mut i64, floor: i64, holds: impl Fn(u64) -> bool) {
    while *chunk > floor && holds(*chunk as u64) {
        *chunk /= 2;
    }
}

/// Lowers a chunk to `limit` if it is above and `holds` says so.
fn lower(chunk: &mut i64, limit: i64, holds: impl Fn(u64) -> bool) {
    if *chunk > limit && holds(*chunk as u64) {
        *chunk = limit;
    }
}

impl CostTable {
    /// The chunks of a chosen operation. `registered`: NVSwitches reach its registered buffers
    /// directly.
    ///
    /// # Errors
    /// The buffer of the protocol is too small.
    pub fn chunking(
        &self,
        choice: &OperationChoice,
        registered: bool,
    ) -> Result<Chunking, BufferTooSmall> {
        let (algorithm, protocol) = (choice.algorithm, choice.protocol);
        let collective = choice.operation.collective;
        let (chunk_steps, slice_steps) = steps(collective, (algorithm, protocol));
        let slot = self.job.buffer_bytes[protocol as usize] / SLOTS;
        let simple_slot = self.job.buffer_bytes[Protocol::Simple as usize] / SLOTS;
        let mut chunk = slot.saturating_mul(i64::from(chunk_steps));
        match protocol {
            Protocol::Ll => chunk /= 2,
            Protocol::Ll128 => chunk = chunk / 16 * 15,
            Protocol::Simple => {}
        }
        self.adjust(
            &mut chunk,
            choice,
            registered,
            simple_slot.saturating_mul(i64::from(chunk_steps)),
        );
        chunk = chunk / grain(protocol) * grain(protocol);
        if chunk <= 0 {
            return Err(BufferTooSmall {
                protocol,
                buffer_bytes: self.job.buffer_bytes[protocol as usize],
                least_bytes: 2 * SLOTS * grain(protocol),
            });
        }
        let ranks = u64::from(self.job.ranks.max(1));
        let chunks_per_loop = match algorithm {
            Algorithm::Ring => ranks,
            Algorithm::Nvls | Algorithm::NvlsTree | Algorithm::CollNetDirect => {
                self.heads(algorithm).max(1)
            }
            _ => 1,
        };
        let chunk_bytes = chunk as u64;
        let loop_bytes = u64::from(choice.channels.max(1))
            .saturating_mul(chunks_per_loop)
            .saturating_mul(chunk_bytes);
        let loops = choice.operation.bytes.div_ceil(loop_bytes);
        let passes = match (algorithm, collective) {
            (Algorithm::Ring, Collective::AllGather | Collective::ReduceScatter) => ranks - 1,
            (Algorithm::Ring, Collective::AllReduce) => 2 * (ranks - 1),
            _ => 1,
        };
        Ok(Chunking {
            chunk_bytes,
            slice_bytes: chunk_bytes / u64::from(chunk_steps) * u64::from(slice_steps),
            chunk_steps,
            slice_steps,
            loops,
            steps: passes
                .saturating_mul(loops)
                .saturating_mul(u64::from(chunk_steps)),
        })
    }

    /// Heads of an algorithm that divides the message among them.
    fn heads(&self, algorithm: Algorithm) -> u64 {
        match algorithm {
            Algorithm::CollNetDirect => self
                .job
                .collnet
                .as_ref()
                .map_or(0, |collnet| u64::from(collnet.heads)),
            _ => self
                .job
                .nvls
                .as_ref()
                .map_or(0, |nvls| u64::from(nvls.heads)),
        }
    }

    /// Fits the chunk to the size, so that small messages still use all channels and stages.
    fn adjust(
        &self,
        chunk: &mut i64,
        choice: &OperationChoice,
        registered: bool,
        simple_chunk: i64,
    ) {
        let (algorithm, protocol) = (choice.algorithm, choice.protocol);
        let bytes = choice.operation.bytes;
        let channels = u64::from(choice.channels.max(1));
        let job = &self.job;
        let parts = channels.saturating_mul(self.heads(algorithm).max(1));
        let turns = |parts: u64, chunk: u64| bytes / parts.saturating_mul(chunk).max(1);
        let fewer =
            |factor: u64, chunk: u64| bytes < factor.saturating_mul(parts).saturating_mul(chunk);
        match (algorithm, choice.operation.collective) {
            (Algorithm::CollNetDirect, _) => {
                let depth: u64 = job.collnet.as_ref().map_or(1, |net| net.depth.into());
                halve(chunk, 131_072, |c| turns(parts, c) < 64 * depth);
                halve(chunk, 65_536, |c| turns(parts, c) < 8 * depth);
                halve(chunk, 32_768, |c| turns(parts, c) < 8 * depth);
            }
            (Algorithm::CollNetChain, _) => {
                let depth = u64::from(job.ranks / job.nodes.max(1));
                *chunk = simple_chunk.min(COLLNET_CHAIN_CHUNK);
                halve(chunk, 131_072, |c| turns(channels, c) < 64 * depth);
                halve(chunk, 65_536, |c| turns(channels, c) < 8 * depth);
                halve(chunk, 32_768, |c| turns(channels, c) < depth);
            }
            (Algorithm::Nvls, Collective::AllGather | Collective::ReduceScatter) if registered => {
                *chunk = job.buffer_bytes[Protocol::Simple as usize] / SLOTS;
            }
            (Algorithm::Nvls, _) => {
                let mut limit = job.nvls.as_ref().map_or(*chunk, |nvls| nvls.chunk_bytes);
                let all_reduce =
                    self.entry(Collective::AllReduce, Algorithm::Nvls, Protocol::Simple);
                let slow = all_reduce.is_none_or(|entry| entry.bandwidth < NVLS_SLOW);
                if job.nodes > 1 && slow {
                    limit = NVLS_SLOW_CHUNK;
                }
                *chunk = limit.min(*chunk);
                lower(chunk, 65_536, |c| fewer(64, c));
                lower(chunk, 32_768, |c| fewer(8, c));
                lower(chunk, 16_384, |c| fewer(2, c));
            }
            (Algorithm::NvlsTree, _) => {
                if let Some(nvls) = &job.nvls {
                    *chunk = nvls.chunk_bytes.min(nvls.tree_chunk_bytes);
                }
                lower(chunk, 262_144, |c| fewer(32, c));
                lower(chunk, 131_072, |c| fewer(16, c));
                lower(chunk, 65_536, |c| fewer(4, c));
                lower(chunk, 32_768, |c| fewer(1, c));
            }
            (Algorithm::Tree, _) if protocol == Protocol::Ll128 => {
                let per_node = job.ranks as f32 / job.nodes.max(1) as f32;
                let levels = 1.0 + f64::from(job.nodes.max(1).ilog2()) + 0.1 * f64::from(per_node);
                let stages = levels as f32 / per_node;
                halve(chunk, 131_072, |c| {
                    (turns(channels, c) as f32) < stages * 64.0
                });
                halve(chunk, 32_768, |c| {
                    (turns(channels, c) as f32) < stages * 16.0
                });
            }
            (Algorithm::Pat, collective) => {
                let factor = if collective == Collective::AllGather {
                    32
                } else {
                    16
                };
                halve(chunk, 65_536, |c| {
                    bytes < channels.saturating_mul(c).saturating_mul(factor)
                });
            }
            _ => {}
        }
    }
}
