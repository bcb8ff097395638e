//! The α–β model (Hockney) for what NCCL does not price: transfers between two ranks, and the
//! all-reduce kernels of inference engines. A message of n bytes takes α + nβ.

use plan::Algorithm;
use program::Protocol;
use topology::PathType;

use super::inputs::{GraphFigures, Inputs};
use super::profile::{CostProfile, Hardware};

/// The α–β model of one communicator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlphaBeta {
    alpha_us: f64,
    gbps: f64,
}

impl AlphaBeta {
    /// A model of a joined communicator: α is the time of a ring's step with Simple over its
    /// slowest hop, β that of all channels together. NCCL's bandwidths
    /// contain the reduction. `None` without ring channels.
    pub fn of(inputs: &Inputs, profile: &CostProfile) -> Option<Self> {
        Self::of_ring(inputs.nodes, &inputs.ring, profile)
    }

    /// The same from the merged ring graph alone, as a plan keeps it.
    pub fn of_ring(nodes: u32, ring: &GraphFigures, profile: &CostProfile) -> Option<Self> {
        let hardware = match (nodes, ring.type_intra) {
            (2.., _) => Hardware::Net,
            (_, PathType::Nvl) => Hardware::Nvlink,
            _ => Hardware::Pci,
        };
        let alpha = profile
            .hardware_latency_us
            .of(hardware)
            .of(Algorithm::Ring, Protocol::Simple);
        let inside = f64::from(ring.bw_intra);
        let channel = if nodes > 1 {
            inside.min(f64::from(ring.bw_inter))
        } else {
            inside
        };
        let gbps = channel * f64::from(ring.channels);
        let is_time = alpha.is_finite() && alpha >= 0.0 && gbps > 0.0;
        is_time.then_some(Self {
            alpha_us: alpha,
            gbps,
        })
    }

    /// α: time of a message without its bytes, µs.
    pub const fn alpha_us(&self) -> f64 {
        self.alpha_us
    }

    /// 1/β: bandwidth of all channels together, GB/s.
    pub const fn bandwidth(&self) -> f64 {
        self.gbps
    }
}
