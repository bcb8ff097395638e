//! The effect of registered buffers.

use plan::Algorithm;
use plan::cost::{CostEntry, RegisteredBuffers, RegisteredNvls};
use program::Collective;

use super::inputs::{Inputs, NvlsInputs};
use crate::rules::Rules;
use crate::settings::{CtaPolicy, Tuning};

/// First compute capability × 10 of Blackwell.
const BLACKWELL: i32 = 100;

/// Heads for which the numbers of channels below are given.
const HEADS: u32 = 8;

/// Bandwidth of NVLS above which a reduce-scatter of several nodes uses a channel more, GB/s.
const FAST_SCATTER: f32 = 400.0;

/// Bandwidth of a fast port, GB/s.
const FAST_PORT: f32 = 96.0;

/// How a communicator uses registered buffers.
pub(super) fn of(
    inputs: &Inputs,
    tuning: &Tuning,
    rules: Rules,
    entries: &[CostEntry],
) -> RegisteredBuffers {
    let restricted = tuning.algorithms.is_some() || tuning.protocols.is_some();
    let registers = inputs.registers;
    let nvls = inputs.nvls.filter(|_| registers && !inputs.spans_hosts);
    let [least, most] = match rules.counts_registered_ports {
        true => inputs.blocks,
        false => [1, 1],
    };
    let ports = inputs.registered_ports.filter(|_| registers);
    let of_ring = ports.map_or(0, |ports| ports.min(most).max(least));
    let is_alone = inputs.nodes == inputs.ranks && inputs.nodes > 1;
    RegisteredBuffers {
        direct_peers: registers && inputs.direct_peers,
        one_gpu_ring: is_alone.then_some(of_ring),
        nvls: nvls.map(|nvls| channels(nvls, inputs, rules, entries)),
        prefers_nvls: registers && tuning.cta_policy == CtaPolicy::Efficiency && !restricted,
        windows: registers
            && tuning.windows.enabled
            && (inputs.nodes == 1 || !rules.windows.needs_one_node),
    }
}

/// Channels of NVLS (`ncclNvlsRegResourcesQuery`).
fn channels(
    nvls: NvlsInputs,
    inputs: &Inputs,
    rules: Rules,
    entries: &[CostEntry],
) -> RegisteredNvls {
    let blackwell = inputs.min_cc >= BLACKWELL;
    let fast = rules.widens_registered_nvls && inputs.min_net_bw >= FAST_PORT;
    let scatter = entries
        .iter()
        .find(|it| (it.collective, it.algorithm) == (Collective::ReduceScatter, Algorithm::Nvls));
    let scatter_fast = scatter.is_some_and(|it| it.bandwidth > FAST_SCATTER);
    let several = inputs.nodes > 1;
    let of_heads = |channels: u32| {
        let [least, most] = inputs.blocks;
        (channels * HEADS)
            .div_ceil(nvls.heads.max(1))
            .min(most)
            .max(least)
    };
    RegisteredNvls {
        all_reduce: of_heads(match (several, blackwell) {
            (false, false) => 4,
            (false, true) => 8,
            (true, false) => 6,
            (true, true) if fast => 10,
            (true, true) => 7,
        }),
        all_gather: of_heads(if several { 6 } else { 4 }),
        reduce_scatter: of_heads(match several {
            false if blackwell => 6,
            false => 5,
            true if scatter_fast => 7,
            true => 6,
        }),
    }
}
