//! The state of a graph during the search: the constraints that are tried, and the best solution so
//! far.

use plan::{Graph, Pattern, Summary};
use topology::PathType;

use super::route_map::NONE;

/// Most channels of a graph.
pub(super) const MAX_CHANNELS: usize = 64;

/// Constraints and channels.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub pattern: Pattern,
    pub collnet: bool,
    pub cross_nic: i32,
    pub same_channels: bool,
    pub min_channels: usize,
    pub max_channels: usize,
    pub channels: usize,
    pub bw_intra: f32,
    pub bw_inter: f32,
    pub latency_inter: f32,
    pub type_intra: PathType,
    pub type_inter: PathType,
    /// Links used by all channels together. Fractions are cut off, as in NCCL.
    pub hops: i32,
    /// GPUs by position, channel after channel.
    pub intra: Vec<u32>,
    /// Ports by position (the first of those with equal id): where the channel enters and leaves.
    pub inter: Vec<[u32; 2]>,
}

impl Record {
    pub(super) fn new(
        pattern: Pattern,
        collnet: bool,
        min_channels: usize,
        max_channels: usize,
        gpus: usize,
    ) -> Self {
        Self {
            pattern,
            collnet,
            cross_nic: 0,
            same_channels: false,
            min_channels,
            max_channels,
            channels: 0,
            bw_intra: 0.0,
            bw_inter: 0.0,
            latency_inter: 0.0,
            type_intra: PathType::Loc,
            type_inter: PathType::Loc,
            hops: 0,
            intra: vec![0; gpus * MAX_CHANNELS],
            inter: vec![[NONE; 2]; MAX_CHANNELS],
        }
    }

    /// Copies another record with the channels that it has.
    pub(super) fn assign(&mut self, other: &Self, gpus: usize) {
        let Self { intra, inter, .. } = other;
        let channels = other.channels.min(MAX_CHANNELS);
        self.intra[..channels * gpus].copy_from_slice(&intra[..channels * gpus]);
        self.inter[..channels].copy_from_slice(&inter[..channels]);
        self.pattern = other.pattern;
        self.collnet = other.collnet;
        self.cross_nic = other.cross_nic;
        self.same_channels = other.same_channels;
        self.min_channels = other.min_channels;
        self.max_channels = other.max_channels;
        self.channels = other.channels;
        self.bw_intra = other.bw_intra;
        self.bw_inter = other.bw_inter;
        self.latency_inter = other.latency_inter;
        self.type_intra = other.type_intra;
        self.type_inter = other.type_inter;
        self.hops = other.hops;
    }

    /// Whether routes are used in both directions, as in trees.
    pub(super) const fn uses_both_directions(&self) -> bool {
        matches!(
            self.pattern,
            Pattern::BalancedTree | Pattern::SplitTree | Pattern::Tree
        )
    }

    /// Starts from what a graph without channels says, as NCCL does.
    pub(super) const fn follow(&mut self, advice: &Graph) {
        self.pattern = advice.pattern;
        self.cross_nic = advice.cross_nic;
        self.same_channels = advice.same_channels;
        self.bw_intra = advice.bw_intra;
        self.bw_inter = advice.bw_inter;
        self.latency_inter = advice.latency_inter;
        self.type_intra = advice.type_intra;
        self.type_inter = advice.type_inter;
    }

    pub(super) fn set_bw(&mut self, bw: f32) {
        self.bw_intra = bw;
        self.bw_inter = bw;
    }

    /// The record in short.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            channels: self.channels as u32,
            bw_intra: self.bw_intra,
            bw_inter: self.bw_inter,
            type_intra: self.type_intra,
            type_inter: self.type_inter,
            pattern: self.pattern,
            cross_nic: self.cross_nic,
            hops: self.hops,
        }
    }

    /// Channels × bandwidth, GB/s; solutions are compared by it.
    pub(super) fn product(&self) -> f32 {
        self.product_of(self.channels)
    }

    /// The product with this many channels.
    pub(super) fn product_of(&self, channels: usize) -> f32 {
        channels as f32 * self.bw_that_counts(self.pattern)
    }

    /// The product as it counts for another pattern.
    pub(super) fn product_as(&self, pattern: Pattern) -> f32 {
        self.channels as f32 * self.bw_that_counts(pattern)
    }

    /// NVLS solutions are compared by their bandwidth to the network.
    fn bw_that_counts(&self, pattern: Pattern) -> f32 {
        if pattern == Pattern::Nvls {
            self.bw_inter
        } else {
            self.bw_intra
        }
    }

    /// Whether this solution replaces `best`.
    pub(super) fn better_than(&self, best: &Self, gpus: usize) -> bool {
        if self.channels < self.min_channels {
            return false;
        }
        let (mine, other) = (self.product(), best.product_as(self.pattern));
        if self.pattern == Pattern::Nvls {
            return self.channels > best.channels && self.channels <= gpus || mine > other;
        }
        if mine != other {
            return mine > other;
        }
        self.pattern == best.pattern && self.cross_nic == best.cross_nic && self.hops < best.hops
    }
}
