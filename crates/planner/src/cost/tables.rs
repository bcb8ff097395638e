//! The table of a communicator: every collective, algorithm and protocol (NCCL's
//! `ncclTopoTuneModel`).

use plan::cost::table::{CHANNEL_TRAFFIC, NARROW_CHANNEL_TRAFFIC};
use plan::cost::{
    CallLimits, Collnet, CostEntry, CostJob, CostTable, FP8_CC, LatencyFactors, NvlsCosts, Off,
    PatCosts, TreeCorrection,
};
use plan::{Algorithm, NcclVersion};
use program::{Collective, Protocol};
use topology::CpuArch;

use super::inputs::Inputs;
use super::profile::CostProfile;
use super::restrict::{RestrictError, Restriction};
use super::{pipeline, plateau, registered, threads};
use crate::rules::Rules;
use crate::settings::Tuning;

/// Bytes of a channel's buffer with LL, LL128 and Simple (`NCCL_LL_BUFFSIZE` and so on when unset):
/// 8 slots of 512 threads × 8 lines × 16 bytes, of 640 threads × 120 words × 8 bytes, and 4 MiB.
pub const BUFFER_BYTES: [i64; 3] = [524_288, 4_915_200, 4_194_304];

/// Makes the cost table of a communicator by the rules of a version of NCCL.
///
/// # Errors
/// NCCL refuses `NCCL_ALGO` or `NCCL_PROTO`.
pub fn table(
    inputs: &Inputs,
    tuning: &Tuning,
    profile: &CostProfile,
    rules: Rules,
) -> Result<CostTable, RestrictError> {
    // A single rank never reads the settings.
    let (entries, windows) = if inputs.ranks > 1 {
        let model = TableModel::new(inputs, tuning, profile, rules)?;
        (model.entries(), model.windows())
    } else {
        (Vec::new(), None)
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
        job: CostJob {
            ranks: inputs.ranks,
            nodes: inputs.nodes,
            max_local_ranks: inputs.max_local_ranks,
            min_cc: inputs.min_cc,
            refuses_fp8: !rules.moves_fp8 && inputs.min_cc < FP8_CC,
            x86: inputs.cpu_arch.is(CpuArch::X86),
            channels: inputs.channels,
            nvls: inputs.nvls.map(|nvls| NvlsCosts {
                channels: nvls.channels,
                heads: nvls.heads,
                chunk_bytes: nvls.chunk_bytes,
                tree_chunk_bytes: nvls.tree_chunk_bytes,
            }),
            collnet: inputs.collnet.map(|collnet| Collnet {
                heads: collnet.heads,
                depth: collnet.depth,
            }),
            buffer_bytes: [buffer(0), buffer(1), buffer(2)],
            calls: CallLimits {
                channel_traffic: match rules.wider_channels {
                    true => CHANNEL_TRAFFIC,
                    false => NARROW_CHANNEL_TRAFFIC,
                },
                blocks: inputs.blocks,
                fewest_channels: match rules.forces_collectives {
                    true => inputs.blocks[0],
                    false => 1,
                },
            },
            registered: registered::of(inputs, tuning, rules, &entries),
            restricted: tuning.algorithms.is_some() || tuning.protocols.is_some(),
        },
        pipeline: pipeline::of(inputs, profile, rules),
        entries,
        threads: threads::rows(inputs, tuning, profile, rules),
        tree_correction: TreeCorrection {
            ll: narrow(profile.tree_correction.ll),
            ll128: narrow(profile.tree_correction.ll128),
            simple: narrow(profile.tree_correction.simple),
            nvls_tree: rules.corrects_nvls_tree,
            nvls_tree_on_arm: tray_limit(inputs, rules),
        },
        latency_factors: LatencyFactors {
            ring_simple,
            ring_simple_bytes: profile.latency.ring_simple_bytes,
            ring_growth: plateau::of(inputs, rules),
        },
        pat: PatCosts {
            last: rules.gathers_by_heads && inputs.nodes != inputs.ranks,
            averages: rules.pat_averages,
        },
        windows,
    })
}

/// The message size, bytes, below which NVLSTree follows the trees' correction in hosts of 4 GPUs
/// on Arm whose paths to their ports have 96 GB/s (800 Gb/s). Source: NCCL 2.32.3's public source;
/// of 2.31.2, also the times that its binary predicts.
fn tray_limit(inputs: &Inputs, rules: Rules) -> Option<u64> {
    let ranks = [inputs.min_local_ranks, inputs.max_local_ranks];
    let fast = inputs.min_net_bw >= 96.0;
    if !rules.corrects_nvls_tree_on_arm
        || !inputs.cpu_arch.is(CpuArch::Arm)
        || ranks != [4, 4]
        || !fast
    {
        return None;
    }
    let newer = rules.version() >= NcclVersion::V2_32;
    Some(match inputs.nodes {
        2 if newer => 64 << 20,
        2 => 512 << 20,
        _ => u64::MAX,
    })
}

/// The inputs that all parts of the computation share.
pub(super) struct TableModel<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) tuning: &'a Tuning,
    pub(super) profile: &'a CostProfile,
    pub(super) rules: Rules,
    pub(super) algorithms: Restriction<7>,
    pub(super) protocols: Restriction<3>,
    pub(super) kernels: Restriction<18>,
    /// Ranks per node.
    pub(super) ppn: f32,
}

impl<'a> TableModel<'a> {
    fn new(
        inputs: &'a Inputs,
        tuning: &'a Tuning,
        profile: &'a CostProfile,
        rules: Rules,
    ) -> Result<Self, RestrictError> {
        let protocols = tuning
            .protocols
            .as_deref()
            .map(Restriction::protocols)
            .transpose()?
            .unwrap_or_default();
        let algorithms = tuning
            .algorithms
            .as_deref()
            .map(Restriction::algorithms)
            .transpose()?
            .unwrap_or_default();
        let kernels = tuning.windows.kernels.as_deref();
        let kernels = kernels.filter(|_| rules.forces_collectives);
        let kernels = kernels.map(Restriction::kernels).transpose()?;
        let ppn = inputs.ranks_per_node();
        Ok(Self {
            inputs,
            tuning,
            profile,
            rules,
            algorithms,
            protocols,
            kernels: kernels.unwrap_or_default(),
            ppn,
        })
    }

    fn entries(&self) -> Vec<CostEntry> {
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
    ) -> Option<CostEntry> {
        let simple_only = algorithm.is_nvls() || algorithm == Algorithm::Pat;
        if !algorithm.serves(collective)
            || simple_only && protocol != Protocol::Simple
            || algorithm == Algorithm::Pat && !self.pat()
            || algorithm.is_nvls()
                && self.inputs.nvls_graph.channels < self.rules.least_nvls_channels()
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
        Some(CostEntry {
            collective,
            algorithm,
            protocol,
            bandwidth,
            latency,
            off,
        })
    }

    /// Steps of a ring.
    pub(super) fn steps(&self, collective: Collective) -> u32 {
        let ranks = self.inputs.ranks;
        match collective {
            Collective::AllReduce => (ranks - 1).saturating_mul(2),
            Collective::AllGather | Collective::ReduceScatter => ranks - 1,
            _ => ranks,
        }
    }
}
