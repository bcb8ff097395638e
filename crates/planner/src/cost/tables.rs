//! Bandwidth and latency of every collective, algorithm and protocol (NCCL's `ncclTopoTuneModel`).
//!
//! NCCL stores in 32 bits and computes in 64 wherever a decimal constant takes part. So does this: the order of
//! operations and the roundings are part of the result.

use plan::cost::{Collnet, CostTable, Entry, Job, LatencyFactors, Nvls, Off, TreeCorrection};
use plan::{Algorithm, Collective, Pattern, Protocol};
use topology::{CpuArch, CpuVendor, PathType};

use super::inputs::{Inputs, Merged};
use super::profile::{Hardware, PerGeneration, PerScale, Profile};
use super::restrict::{RestrictError, Restriction};
use super::threads;
use crate::settings::Tuning;

/// Bytes of a channel's buffer with LL, LL128 and Simple (`NCCL_LL_BUFFSIZE` and so on when unset): 8 slots of 512
/// threads × 8 lines × 16 bytes, of 640 threads × 120 words × 8 bytes, and 4 MiB.
pub const BUFFER_BYTES: [i64; 3] = [524_288, 4_915_200, 4_194_304];

/// Makes the cost table of a communicator.
///
/// # Errors
/// NCCL refuses `NCCL_ALGO` or `NCCL_PROTO`.
pub fn table(
    inputs: &Inputs,
    tuning: &Tuning,
    profile: &Profile,
) -> Result<CostTable, RestrictError> {
    // A rank on its own never reads the settings.
    let entries = if inputs.ranks > 1 {
        Model::new(inputs, tuning, profile)?.entries()
    } else {
        Vec::new()
    };
    let ring_simple = if inputs.min_cc < 80 {
        profile.latency.ring_simple_volta_factor
    } else {
        profile.latency.ring_simple_factor
    };
    let narrow = |factors: [f64; 24]| factors.map(|factor| factor as f32);
    let buffer = |index: usize| tuning.buffer_bytes[index].unwrap_or(BUFFER_BYTES[index]);
    Ok(CostTable {
        profile: profile.name.clone(),
        job: Job {
            ranks: inputs.ranks,
            nodes: inputs.nodes,
            max_local_ranks: inputs.max_local_ranks,
            min_cc: inputs.min_cc,
            x86: inputs.cpu_arch.is(CpuArch::X86),
            channels: inputs.channels,
            nvls: inputs.nvls.map(|nvls| Nvls {
                channels: nvls.channels,
                heads: nvls.heads,
                chunk_bytes: nvls.chunk_bytes,
                tree_chunk_bytes: nvls.tree_chunk_bytes,
            }),
            collnet: inputs
                .collnet
                .map(|collnet| Collnet { heads: collnet.heads, depth: collnet.depth }),
            buffer_bytes: [buffer(0), buffer(1), buffer(2)],
            restricted: tuning.algorithms.is_some() || tuning.protocols.is_some(),
        },
        entries,
        threads: threads::rows(inputs, tuning, profile),
        tree_correction: TreeCorrection {
            ll: narrow(profile.tree_correction.ll),
            ll128: narrow(profile.tree_correction.ll128),
            simple: narrow(profile.tree_correction.simple),
        },
        latency_factors: LatencyFactors {
            ring_simple,
            ring_simple_bytes: profile.latency.ring_simple_bytes,
        },
    })
}

struct Model<'a> {
    inputs: &'a Inputs,
    tuning: &'a Tuning,
    profile: &'a Profile,
    algorithms: Restriction<7>,
    protocols: Restriction<3>,
    /// Ranks per node.
    ppn: f32,
}

impl<'a> Model<'a> {
    fn new(
        inputs: &'a Inputs,
        tuning: &'a Tuning,
        profile: &'a Profile,
    ) -> Result<Self, RestrictError> {
        let protocols =
            tuning.protocols.as_deref().map(Restriction::protocols).transpose()?.unwrap_or_default();
        let algorithms = tuning
            .algorithms
            .as_deref()
            .map(Restriction::algorithms)
            .transpose()?
            .unwrap_or_default();
        let ppn = inputs.ranks_per_node();
        Ok(Self { inputs, tuning, profile, algorithms, protocols, ppn })
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for collective in Collective::TUNED {
            for algorithm in Algorithm::ALL {
                for protocol in Protocol::ALL {
                    entries.extend(self.entry(collective, algorithm, protocol));
                }
            }
        }
        entries
    }

    fn entry(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<Entry> {
        let simple_only = algorithm.is_nvls() || algorithm == Algorithm::Pat;
        if !algorithm.serves(collective)
            || simple_only && protocol != Protocol::Simple
            || algorithm == Algorithm::Pat && !self.pat()
            || algorithm.is_nvls() && self.inputs.nvls_graph.channels < 2
        {
            return None;
        }
        let mut bandwidth = self.bandwidth(collective, algorithm, protocol);
        let latency = self.latency(collective, algorithm, protocol);
        let mut off = self.off(collective, algorithm, protocol);
        if off.is_some() {
            bandwidth = 0.0;
        } else if bandwidth <= 0.0 || bandwidth.is_nan() {
            let gathers = collective != Collective::AllReduce;
            off = Some(match algorithm {
                _ if algorithm.is_collnet() && protocol != Protocol::Simple => Off::ProtocolUnfit,
                Algorithm::Nvls | Algorithm::CollNetDirect if gathers => {
                    Off::NetworkLacksCollective
                }
                _ => Off::NoChannels,
            });
            bandwidth = 0.0;
        }
        Some(Entry { collective, algorithm, protocol, bandwidth, latency, off })
    }

    /// Whether PAT is enabled.
    fn pat(&self) -> bool {
        match self.tuning.pat {
            _ if self.inputs.min_cc < 60 => false,
            2 => self.inputs.nodes == self.inputs.ranks && self.inputs.net_on_host,
            asked => asked != 0,
        }
    }

    /// Why a way is switched off, if it is.
    fn off(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<Off> {
        let inputs = self.inputs;
        if self.algorithms.algorithm(collective, algorithm) == Some(false) {
            return Some(Off::AlgorithmSetting);
        }
        let asked = self.protocols.protocol(collective, protocol);
        if asked == Some(false) {
            return Some(Off::ProtocolSetting);
        }
        match algorithm {
            Algorithm::NvlsTree if inputs.nodes == 1 => return Some(Off::OneNode),
            Algorithm::Nvls if inputs.nodes > 1 && inputs.collnet.is_none() => {
                return Some(Off::NoCollnet);
            }
            Algorithm::CollNetDirect | Algorithm::CollNetChain => match inputs.collnet {
                None => return Some(Off::NoCollnet),
                Some(collnet) if algorithm == Algorithm::CollNetChain && !collnet.chain => {
                    return Some(Off::ChainHeads);
                }
                Some(_) if algorithm == Algorithm::CollNetDirect && !inputs.has_nvswitch => {
                    return Some(Off::NoNvSwitch);
                }
                Some(_) => {}
            },
            _ => {}
        }
        let unsafe_ll128 =
            protocol == Protocol::Ll128 && asked.is_none() && !self.ll128(collective, algorithm);
        unsafe_ll128.then_some(Off::Ll128Unsafe)
    }

    /// Whether 128 bytes arrive in order, as far as NCCL trusts links and GPUs.
    fn ll128(&self, collective: Collective, algorithm: Algorithm) -> bool {
        let inputs = self.inputs;
        let graph = inputs.graph(algorithm);
        let hopper = inputs.min_cc >= 90;
        let farthest =
            if self.tuning.ll128_c2c && hopper { PathType::Pxn } else { PathType::Pxb };
        let broken = inputs.cuda_11_8
            && inputs.min_cc == 90
            && collective == Collective::AllReduce
            && algorithm == Algorithm::Ring
            && inputs.ranks == 2;
        graph.type_inter <= farthest
            && graph.type_intra <= PathType::Nvb
            && (inputs.min_cc == inputs.max_cc || hopper)
            && inputs.min_cc >= 70
            && !broken
    }

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
        let amd_or_mixed = self.inputs.cpu_vendor.is(CpuVendor::Amd)
            || self.inputs.cpu_vendor == Merged::Mixed;
        if self.inputs.nodes <= 1 {
            self.limit(rows)
        } else if amd_or_mixed {
            self.scale(&rows.ampere)
        } else {
            self.scale(&rows.volta)
        }
    }

    /// Bandwidth of one channel, GB/s.
    fn channel_bandwidth(&self, collective: Collective, algorithm: Algorithm) -> f32 {
        let graph = self.inputs.graph(algorithm);
        if !algorithm.is_nvls() {
            let inside = self.inputs.nodes <= 2 || algorithm.is_collnet();
            return if inside { graph.bw_intra } else { graph.bw_inter };
        }
        let efficiency = *self.profile.efficiency.nvls.of(self.inputs.min_cc) as f32;
        let channels = graph.channels as f32;
        let mut inside = graph.bw_intra * efficiency * (channels - 1.0) / channels;
        if collective == Collective::AllReduce {
            inside *= 2.0;
        } else {
            inside *= (self.ppn - 1.0) / self.ppn;
        }
        let tree = algorithm == Algorithm::NvlsTree;
        let outside = graph.bw_inter * if tree && self.inputs.nodes <= 2 { 2.0 } else { 1.0 };
        let bandwidth = inside.min(outside);
        if tree {
            let limit = self.limit(&self.profile.bandwidth_limits_gbps.nvls_tree_channel);
            bandwidth.min(limit as f32)
        } else {
            bandwidth
        }
    }

    /// What the links carry, GB/s.
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
        let gathers = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
        match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => {
                set(&|bus| self.ll_limit().min(bus * efficiency.ring_ll));
            }
            (Algorithm::Ring, Protocol::Ll128) => set(&|bus| {
                let limit = channels * self.limit(&limits.ring_ll128_channel);
                (bus * efficiency.ring_ll128).min(limit)
            }),
            (Algorithm::Tree, _) => {
                set(&|bus| (bus * efficiency.tree).min(channels * self.limit(&limits.tree_channel)));
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
            (Algorithm::CollNetDirect | Algorithm::CollNetChain, Protocol::Ll | Protocol::Ll128) => {
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
    fn bandwidth(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f32 {
        let bus = self.bus_bandwidth(collective, algorithm, protocol);
        let gathers = matches!(collective, Collective::AllGather | Collective::ReduceScatter);
        if gathers && algorithm != Algorithm::Ring {
            return bus;
        }
        let share = match algorithm {
            Algorithm::Ring | Algorithm::Nvls | Algorithm::NvlsTree => {
                (f64::from(self.inputs.ranks) / f64::from(self.steps(collective))) as f32
            }
            _ => 0.5,
        };
        bus * share
    }

    /// Steps of a ring.
    fn steps(&self, collective: Collective) -> u32 {
        let ranks = self.inputs.ranks;
        match collective {
            Collective::AllReduce => 2 * (ranks - 1),
            Collective::AllGather | Collective::ReduceScatter => ranks - 1,
            _ => ranks,
        }
    }

    /// Time of one step, µs.
    fn step_us(&self, hardware: Hardware, algorithm: Algorithm, protocol: Protocol) -> f32 {
        let power = self.inputs.cpu_arch.is(CpuArch::Power);
        // On POWER, trees cross the host as slowly as rings.
        let row = match (hardware, algorithm, protocol) {
            (Hardware::Pci, Algorithm::Tree, Protocol::Simple) if power => Algorithm::Ring,
            _ => algorithm,
        };
        self.profile.hardware_latency_us.of(hardware).of(row, protocol) as f32
    }

    /// The processor's time for the messages of one step, µs.
    fn net_overhead_us(&self, protocol: Protocol) -> f32 {
        let latency = &self.profile.latency;
        let amd = self.inputs.cpu_arch.is(CpuArch::X86) && self.inputs.cpu_vendor.is(CpuVendor::Amd);
        let message = match self.tuning.net_overhead_ns {
            Some(asked) => asked as f64 * 0.001,
            None if amd => latency.net_overhead_amd_us,
            None => latency.net_overhead_us,
        } as f32;
        if protocol == Protocol::Simple {
            message * latency.net_overhead_simple_factor as f32
        } else {
            message
        }
    }

    /// Time of an empty message, µs.
    fn latency(&self, collective: Collective, algorithm: Algorithm, protocol: Protocol) -> f32 {
        let inputs = self.inputs;
        let graph = inputs.graph(algorithm);
        let nodes = inputs.nodes.max(1);
        let nvlink = graph.type_intra == PathType::Nvl;
        let inside = if nvlink { Hardware::Nvlink } else { Hardware::Pci };
        let hardware = if nodes == 1 { inside } else { Hardware::Net };
        let base = self.profile.base_latency_us.of(algorithm, protocol) as f32;
        let intra = self.step_us(inside, algorithm, protocol);
        let outer = if self.ppn == 1.0 { Algorithm::Tree } else { algorithm };
        let mut inter = self.step_us(Hardware::Net, outer, protocol) + graph.latency_inter;
        if protocol == Protocol::Simple {
            // Data and its counter are two messages.
            inter += graph.latency_inter;
        }
        let levels = inputs.levels();
        let others = (inputs.ranks / nodes).saturating_sub(1);
        let extra = &self.profile.latency;
        let wide = |value: f32| f64::from(value);
        match algorithm {
            Algorithm::Ring => base + self.ring_latency(collective, protocol, hardware, intra, inter),
            Algorithm::Tree => {
                base + 2.0 * (others as f32 * intra + levels as f32 * inter)
            }
            Algorithm::CollNetDirect => {
                let exchange = others.min(1) as f32 * intra;
                let gpus = f64::from(others) * extra.collnet_direct_gpu_us;
                (wide(base) + 2.0 * (wide(exchange) + gpus) + wide(inter)) as f32
            }
            Algorithm::CollNetChain => base + 2.0 * others as f32 * intra + inter,
            Algorithm::Nvls if nodes > 1 => intra + inter,
            Algorithm::Nvls => intra,
            Algorithm::NvlsTree => base + intra + 2.0 * levels as f32 * inter,
            Algorithm::Pat => {
                let rounds = f64::from(levels) * (wide(inter) / extra.pat_overlap);
                (wide(base) + rounds + f64::from(inputs.ranks) * extra.pat_rank_us) as f32
            }
        }
    }

    /// What a ring adds to the base latency, µs.
    fn ring_latency(
        &self,
        collective: Collective,
        protocol: Protocol,
        hardware: Hardware,
        intra: f32,
        inter: f32,
    ) -> f32 {
        let nodes = self.inputs.nodes.max(1);
        let steps = self.steps(collective);
        if matches!(collective, Collective::Broadcast | Collective::Reduce) {
            return if self.inputs.ring.same_channels {
                self.step_us(hardware, Algorithm::Ring, protocol)
            } else if protocol == Protocol::Simple {
                steps as f32 * self.step_us(hardware, Algorithm::Tree, protocol)
            } else {
                steps as f32 * self.step_us(hardware, Algorithm::Ring, protocol)
            };
        }
        let overhead = if nodes == 1 { 0.0 } else { self.net_overhead_us(protocol) };
        let between = match collective {
            _ if nodes == 1 => 0,
            Collective::AllReduce => 2 * (nodes - 1),
            _ => nodes - 1,
        };
        let within = steps.saturating_sub(between);
        within as f32 * intra.max(overhead) + between as f32 * inter
    }
}
