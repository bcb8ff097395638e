//! Bandwidth of an algorithm with a protocol: from the graph's bandwidth, the efficiency of both,
//! and upper bounds.
//!
//! NCCL stores in 32 bits and computes in 64 wherever a decimal constant takes part. So does this:
//! the order of operations and the roundings are part of the result.

use plan::{Algorithm, Pattern};
use program::{Collective, Protocol};
use topology::CpuVendor;

use super::inputs::Merged;
use super::pipeline;
use super::profile::{PerGeneration, PerScale};
use super::tables::TableModel;

/// Share of the links' bandwidth that messages have with NVLS, before NCCL 2.28.
const NVLS_SHARE: f32 = (5.0 / 6.0) as f32;

/// Share of the network's bandwidth that NVLS reaches when it gathers or scatters, before NCCL
/// 2.28.
const NVLS_GATHER: f32 = 0.9;

/// First compute capability (× 10) whose rings and trees NCCL models by their slower links.
const BLACKWELL: i32 = 100;

impl TableModel<'_> {
    /// The column for the number of nodes.
    fn scale(&self, row: &PerScale) -> f64 {
        row[self.inputs.nodes.clamp(1, 3) as usize - 1]
    }

    fn limit(&self, rows: &PerGeneration<PerScale>) -> f64 {
        self.scale(rows.of(self.inputs.min_cc))
    }

    /// Most bandwidth of LL, GB/s.
    fn ll_limit(&self) -> f64 {
        let rows = &self.profile.bandwidth_limits_gbps.ll;
        let amd_or_mixed =
            self.inputs.cpu_vendor.is(CpuVendor::Amd) || self.inputs.cpu_vendor == Merged::Mixed;
        if self.inputs.nodes <= 1 {
            self.limit(rows)
        } else if amd_or_mixed {
            self.scale(&rows.ampere)
        } else {
            self.scale(&rows.volta)
        }
    }

    /// Bandwidth of one channel of rings, trees, PAT and CollNet, GB/s.
    fn link_bandwidth(&self, algorithm: Algorithm) -> f32 {
        let graph = self.inputs.graph(algorithm);
        let nodes = self.inputs.nodes;
        let anew = self.rules.counts_links_outside;
        let slower = graph.bw_intra.min(graph.bw_inter);
        match algorithm {
            Algorithm::CollNetChain | Algorithm::CollNetDirect => graph.bw_intra,
            Algorithm::Pat if anew => slower,
            Algorithm::Tree if anew && self.inputs.min_cc >= BLACKWELL => slower,
            Algorithm::Ring if anew && self.inputs.min_cc >= BLACKWELL && nodes == 2 => {
                graph.bw_inter
            }
            _ if nodes <= 2 => graph.bw_intra,
            _ => graph.bw_inter,
        }
    }

    /// Bandwidth of one channel, GB/s.
    fn channel_bandwidth(&self, collective: Collective, algorithm: Algorithm) -> f32 {
        let graph = self.inputs.graph(algorithm);
        if !algorithm.is_nvls() {
            return self.link_bandwidth(algorithm);
        }
        if !self.rules.models_nvls_heads {
            return self.nvls_channel_bandwidth(collective, algorithm);
        }
        let efficiency = match pipeline::holds(self.inputs, self.rules) {
            true => pipeline::NVLS_EFFICIENCY as f32,
            false => *self.profile.efficiency.nvls.of(self.inputs.min_cc) as f32,
        };
        let channels = graph.channels as f32;
        let mut inside = graph.bw_intra * efficiency * (channels - 1.0) / channels;
        if collective == Collective::AllReduce {
            inside *= 2.0;
        } else {
            let ranks = match self.rules.gathers_as_smallest_node {
                true => self.inputs.min_local_ranks as f32,
                false => self.ppn,
            };
            inside *= (ranks - 1.0) / ranks;
        }
        let tree = algorithm == Algorithm::NvlsTree;
        let outside = graph.bw_inter
            * if tree && self.inputs.nodes <= 2 {
                2.0
            } else {
                1.0
            };
        let bandwidth = inside.min(outside);
        if tree {
            let limit = self.limit(&self.profile.bandwidth_limits_gbps.nvls_tree_channel);
            bandwidth.min(limit as f32)
        } else {
            bandwidth
        }
    }

    /// Bandwidth of one channel of NVLS before NCCL 2.28, GB/s.
    fn nvls_channel_bandwidth(&self, collective: Collective, algorithm: Algorithm) -> f32 {
        let graph = self.inputs.graph(algorithm);
        let outside = match (algorithm, self.inputs.nodes) {
            (Algorithm::NvlsTree, 3..) => graph.bw_inter / 2.0,
            _ => graph.bw_inter,
        };
        if algorithm == Algorithm::NvlsTree || collective == Collective::AllReduce {
            graph.bw_intra.min(outside)
        } else {
            let inside = graph.bw_intra * (self.ppn - 1.0) / self.ppn;
            inside.min(outside * NVLS_GATHER)
        }
    }

    /// Bandwidth on the links, GB/s.
    fn bus_bandwidth(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f32 {
        let graph = self.inputs.graph(algorithm);
        let limits = &self.profile.bandwidth_limits_gbps;
        let efficiency = &self.profile.efficiency;
        let channels = f64::from(graph.channels);
        let mut bus = graph.channels as f32 * self.channel_bandwidth(collective, algorithm);
        let mut set = |value: &dyn Fn(f64) -> f64| bus = value(f64::from(bus)) as f32;
        let gathers = matches!(
            collective,
            Collective::AllGather | Collective::ReduceScatter
        );
        match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => {
                set(&|bus| self.ll_limit().min(bus * efficiency.ring_ll));
            }
            (Algorithm::Ring, Protocol::Ll128) => set(&|bus| {
                let limit = channels * self.limit(&limits.ring_ll128_channel);
                (bus * efficiency.ring_ll128).min(limit)
            }),
            (Algorithm::Ring, Protocol::Simple) => set(&|bus| bus * efficiency.ring_simple),
            (Algorithm::Tree, _) => {
                set(&|bus| {
                    (bus * efficiency.tree).min(channels * self.limit(&limits.tree_channel))
                });
                match protocol {
                    Protocol::Ll => {
                        set(&|bus| (bus / efficiency.tree_ll_divisor).min(self.ll_limit()));
                    }
                    Protocol::Ll128 => set(&|bus| {
                        let share = if self.inputs.nodes == 1 {
                            efficiency.tree_ll128_one_node
                        } else {
                            efficiency.tree_ll128_several_nodes
                        };
                        (bus * share).min(channels * self.limit(&limits.tree_ll128_channel))
                    }),
                    Protocol::Simple => {}
                }
                if self.inputs.max_tree_pattern == Pattern::Tree {
                    set(&|bus| bus * efficiency.tree_on_one_gpu);
                }
            }
            (Algorithm::Pat, _) => set(&|bus| bus * efficiency.pat),
            (
                Algorithm::CollNetDirect | Algorithm::CollNetChain,
                Protocol::Ll | Protocol::Ll128,
            ) => {
                bus = 0.0;
            }
            (Algorithm::CollNetDirect, Protocol::Simple) if gathers => {
                let outside = graph.bw_inter * efficiency.collnet_direct_gather as f32;
                bus = self.ppn * graph.bw_intra.min(outside);
            }
            (Algorithm::CollNetDirect, Protocol::Simple) => {
                let mut spread = (f64::from(self.ppn) / channels) as f32;
                spread -= (spread - 1.0) / 2.0;
                bus /= spread;
                if self.inputs.min_cc >= 90 {
                    bus = (f64::from(bus) * efficiency.collnet_direct_hopper) as f32;
                }
            }
            _ => {}
        }
        let networked = matches!(algorithm, Algorithm::Nvls | Algorithm::CollNetDirect);
        if networked && gathers && self.inputs.nodes > 1 && !self.network_does(collective) {
            bus = 0.0;
        }
        bus
    }

    /// Whether the network can gather or scatter for every rank.
    fn network_does(&self, collective: Collective) -> bool {
        self.inputs.collnet.is_some_and(|collnet| {
            let able = match collective {
                Collective::AllGather => collnet.gathers,
                _ => collnet.reduce_scatters,
            };
            able && self.inputs.max_local_ranks <= collnet.heads
        })
    }

    /// Message bytes per time, GB/s.
    pub(super) fn bandwidth(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f32 {
        let bus = self.bus_bandwidth(collective, algorithm, protocol);
        let gathers = matches!(
            collective,
            Collective::AllGather | Collective::ReduceScatter
        );
        if gathers && algorithm != Algorithm::Ring {
            return bus;
        }
        let share = match algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree if !self.rules.models_nvls_heads => NVLS_SHARE,
            Algorithm::Ring | Algorithm::Nvls | Algorithm::NvlsTree => {
                (f64::from(self.inputs.ranks) / f64::from(self.steps(collective))) as f32
            }
            _ => 0.5,
        };
        bus * share
    }
}
