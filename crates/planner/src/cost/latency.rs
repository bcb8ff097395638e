//! Latency of an algorithm with a protocol: the time to start it, and its steps one after the
//! other.
//!
//! NCCL stores in 32 bits and computes in 64 wherever a decimal constant takes part. So does this:
//! the order of operations and the roundings are part of the result.

use plan::Algorithm;
use program::{Collective, Protocol};
use topology::{CpuArch, CpuVendor, PathType};

use super::profile::{ExtraLatency, Hardware};
use super::tables::TableModel;
use crate::settings::Tuning;

/// The processor's time for the messages of one step of a ring between hosts, µs. `amd`: the
/// processors are of x86 and AMD.
pub fn net_overhead_us(
    latency: &ExtraLatency,
    tuning: &Tuning,
    amd: bool,
    protocol: Protocol,
) -> f32 {
    let message = match tuning.net_overhead_ns {
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

impl TableModel<'_> {
    /// Time of one step, µs.
    fn step_us(&self, hardware: Hardware, algorithm: Algorithm, protocol: Protocol) -> f32 {
        let power = self.rules.slows_power_trees && self.inputs.cpu_arch.is(CpuArch::Power);
        // On POWER, trees cross the host as slowly as rings, until NCCL 2.31.
        let row = match (hardware, algorithm, protocol) {
            (Hardware::Pci, Algorithm::Tree, Protocol::Simple) if power => Algorithm::Ring,
            _ => algorithm,
        };
        self.profile
            .hardware_latency_us
            .of(hardware)
            .of(row, protocol) as f32
    }

    /// Time of an empty message, µs.
    pub(super) fn latency(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> f32 {
        let inputs = self.inputs;
        let graph = inputs.graph(algorithm);
        let nodes = inputs.nodes.max(1);
        let nvlink = graph.type_intra == PathType::Nvl;
        let inside = if nvlink {
            Hardware::Nvlink
        } else {
            Hardware::Pci
        };
        let hardware = if nodes == 1 { inside } else { Hardware::Net };
        let base = self.profile.base_latency_us.of(algorithm, protocol) as f32;
        let intra = self.step_us(inside, algorithm, protocol);
        let exposed = algorithm == Algorithm::Ring || !self.rules.lends_rings_latency;
        let outer = if self.ppn == 1.0 && exposed {
            Algorithm::Tree
        } else {
            algorithm
        };
        let mut inter = self.step_us(Hardware::Net, outer, protocol) + graph.latency_inter;
        let once = algorithm == Algorithm::Pat && self.rules.counts_links_outside;
        if protocol == Protocol::Simple && !once {
            // Data and its counter are two messages.
            inter += graph.latency_inter;
        }
        let levels = inputs.levels();
        let others = (inputs.ranks / nodes).saturating_sub(1);
        let extra = &self.profile.latency;
        let wide = |value: f32| f64::from(value);
        match algorithm {
            Algorithm::Ring => {
                base + self.ring_latency(collective, protocol, hardware, intra, inter)
            }
            Algorithm::Tree => base + 2.0 * (others as f32 * intra + levels as f32 * inter),
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
        let overhead = if nodes == 1 {
            0.0
        } else {
            let amd =
                self.inputs.cpu_arch.is(CpuArch::X86) && self.inputs.cpu_vendor.is(CpuVendor::Amd);
            net_overhead_us(&self.profile.latency, self.tuning, amd, protocol)
        };
        let between = match collective {
            _ if nodes == 1 => 0,
            Collective::AllReduce => (nodes - 1).saturating_mul(2),
            _ => nodes - 1,
        };
        let within = steps.saturating_sub(between);
        within as f32 * intra.max(overhead) + between as f32 * inter
    }
}
