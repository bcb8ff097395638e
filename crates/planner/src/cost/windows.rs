//! Kernels and copy engines for symmetric windows: which of them a job may take, and the constants
//! of their costs.
//!
//! Source: NCCL's public source of 2.29 to 2.32; the binaries of 2.27, 2.28 and 2.32.

use std::sync::LazyLock;

use plan::NcclVersion;
use plan::cost::{
    CallTime, EngineCopy, EngineCosts, KernelCosts, KernelTime, WindowCosts, WindowKernel,
};
use program::Collective;
use serde::Deserialize;
use topology::CpuArch;
use topology::bandwidth::is_rubin;

use super::inputs::Inputs;
use super::tables::TableModel;
use crate::rules::{Rules, WindowReach};
use crate::settings::CtaPolicy;

/// Most thread blocks of a kernel (`ncclSymkMaxBlocks`).
const MOST_BLOCKS: u32 = 64;

/// Bytes of a cell (`NCCL_SYM_KERNEL_CELL_SIZE`).
const CELL: u64 = 1024;

/// A choice pays this share of its time for each thread block.
const BLOCK_PRICE: f32 = 0.025;

/// The same of a single call that reduces on Rubin.
const RUBIN_PRICE: f32 = 0.01;

/// Compute capability × 10 of Rubin.
const RUBIN: i32 = 107;

/// Elements of a rank above which an all-gather on windows goes by copy engines on Blackwell
/// (`NCCL_SYM_CE_THRESHOLD`).
const ENGINE_ELEMENTS: i64 = 8 << 20;

/// Bandwidth of a GPU's two copy engines to the memory of an x86 host, GB/s.
const HOST_BANDWIDTH: f32 = 106.0;

/// The first driver, as CUDA's number, whose copies to all ranks do not pass the host's memory.
const ENGINE_DRIVER: u32 = 13_040;

/// First compute capability × 10 of Blackwell.
const BLACKWELL: i32 = 100;

impl TableModel<'_> {
    /// The costs of kernels for symmetric windows; `None` where NCCL has none for the job. Those
    /// that cross the network need a plug-in that GPUs drive, which is not modelled.
    pub(super) fn windows(&self) -> Option<WindowCosts> {
        let (inputs, rules) = (self.inputs, self.rules.windows);
        let settings = &self.tuning.windows;
        let joined = match rules.reach {
            WindowReach::DirectPeers => inputs.direct_peers,
            WindowReach::OneNode => inputs.nodes == 1,
            WindowReach::DirectNvlink => inputs.direct_nvlink,
        };
        let zero = self.tuning.cta_policy == CtaPolicy::Zero && inputs.nodes == 1;
        let enabled = settings.enabled && (inputs.registers || rules.registers_apart);
        if !enabled || !joined && !zero {
            return None;
        }
        let blackwell = inputs.min_cc >= BLACKWELL;
        let tma = rules.has_tma && settings.tma.unwrap_or(rules.uses_tma);
        let multicast = inputs.nvls.is_some() && inputs.ranks > 2;
        let allowed = self.kernels();
        let kernels = WindowKernel::ALL.into_iter().filter(|it| {
            joined
                && (multicast || !it.writes_to_all() && !it.reads_reduced())
                && (!it.is_tma() || tma && blackwell)
                && allowed.as_ref().is_none_or(|all| all.contains(it))
        });
        // Kernels with TMA are faster: without multicast copy engines take over later.
        let later = rules.prices_anew && tma && !multicast;
        let usual = if later {
            4 * ENGINE_ELEMENTS
        } else {
            ENGINE_ELEMENTS
        };
        let above = match zero {
            true => Some(-1),
            false => (rules.engines && blackwell && joined)
                .then(|| settings.engine_elements.unwrap_or(usual)),
        };
        Some(WindowCosts {
            kernels: kernels.map(|it| costs(it, inputs, self.rules)).collect(),
            takes_last: rules.prices_anew,
            blocks: settings.blocks,
            block_step: if rules.prices_anew { 2 } else { 1 },
            cell_bytes: rules.cuts.then_some(CELL),
            most_calls: rules.most_calls,
            averages: rules.averages,
            forced: settings.kernels.is_some(),
            engines: above.map(|above_elements| EngineCosts {
                above_elements,
                copies: match rules.times_engines {
                    true => copies(inputs, multicast, self.tuning.driver),
                    false => Vec::new(),
                },
            }),
        })
    }
}

/// How copy engines gather, not in a captured graph. Source: NCCL's public source of 2.31
/// (`ce_model.cc`). A driver whose version is not known is taken for one before CUDA 13.4.
fn copies(inputs: &Inputs, multicast: bool, driver: Option<u32>) -> Vec<EngineCopy> {
    let ranks = inputs.ranks as f32;
    let (bandwidth, each, shared) = match inputs.min_cc >= BLACKWELL {
        false => (392.0, (17.5, 1.957), (14.9, 0.726)),
        true => (779.0, (32.04, 0.13), (29.14, 0.137)),
    };
    // Processors on Arm are coherent with their GPUs.
    let coherent = inputs.cpu_arch.is(CpuArch::Arm);
    let latency = |(base, of_rank): (f32, f32)| base + of_rank * ranks;
    let one = EngineCopy {
        multicast: false,
        latency: latency(each),
        bandwidth,
        own_bandwidth: (!coherent).then_some(HOST_BANDWIDTH),
    };
    let all = EngineCopy {
        multicast: true,
        latency: latency(shared),
        bandwidth: match coherent || driver >= Some(ENGINE_DRIVER) {
            true => bandwidth,
            false => HOST_BANDWIDTH.min(bandwidth / ranks) * ranks,
        },
        own_bandwidth: None,
    };
    if multicast { vec![one, all] } else { vec![one] }
}

/// The costs of a kernel.
fn costs(kernel: WindowKernel, inputs: &Inputs, rules: Rules) -> KernelCosts {
    let version = rules.version();
    let rules = rules.windows;
    let blackwell = inputs.min_cc >= BLACKWELL;
    let (least_bytes, least_block_bytes) = match kernel {
        _ if !rules.prices_anew || !kernel.is_tma() => (0, 0),
        WindowKernel::AllGatherTma => (0, 8192),
        WindowKernel::AllGatherTmaMulticast => (4096, 0),
        _ => (0, 16_384 * u64::from(inputs.ranks)),
    };
    let switched = !kernel.is_ll() && (kernel.writes_to_all() || kernel.reads_reduced());
    let all_switched = if blackwell { 32_u32 } else { 16 };
    KernelCosts {
        kernel,
        most_blocks: match switched && rules.limits_switched {
            true => all_switched.div_ceil(inputs.ranks),
            false => MOST_BLOCKS,
        },
        block_price: BLOCK_PRICE,
        least_bytes,
        least_block_bytes,
        time: smooth(kernel, inputs, rules.prices_anew),
        single: single_calls(kernel, inputs.min_cc, version),
    }
}

/// A row of `profiles/windows.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    kernel: WindowKernel,
    #[serde(default = "first_version")]
    since: NcclVersion,
    /// Compute capabilities × 10.
    gpus: Vec<i32>,
    time: CallTime,
}

const fn first_version() -> NcclVersion {
    NcclVersion::V2_32
}

static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        rows: Vec<Row>,
    }
    let file = toml::from_str::<File>(include_str!("../../profiles/windows.toml"));
    file.map_or_else(|_| Vec::new(), |file| file.rows)
});

/// NCCL's model of a single call of a kernel: a row for each kind of sums that has one.
fn single_calls(kernel: WindowKernel, min_cc: i32, version: NcclVersion) -> Vec<CallTime> {
    let row_of = if is_rubin(min_cc) { RUBIN } else { min_cc };
    let mut found: Vec<CallTime> = Vec::new();
    let rows = ROWS
        .iter()
        .filter(|row| row.kernel == kernel && version >= row.since && row.gpus.contains(&row_of));
    for row in rows {
        let mut time = row.time;
        if min_cc == RUBIN && kernel.collective() != Collective::AllGather {
            time.block_price = RUBIN_PRICE;
        }
        found.retain(|known| known.sums != time.sums);
        found.push(time);
    }
    found
}

/// NCCL's model of a kernel.
fn smooth(kernel: WindowKernel, inputs: &Inputs, newer: bool) -> KernelTime {
    let ranks = f64::from(inputs.ranks);
    let (latency, block, peak) = speed(newer, kernel, inputs.min_cc >= BLACKWELL);
    let fan_out = match kernel {
        // A little above 1, so that they are preferred.
        WindowKernel::AllReduceLlMulticast | WindowKernel::AllGatherLlMulticast => 1.1,
        WindowKernel::AllReduceMulticast => ranks,
        WindowKernel::AllGatherTmaMulticast if newer => 0.99 * 0.55 * ranks,
        WindowKernel::AllGatherTmaMulticast
        | WindowKernel::AllGatherMulticast
        | WindowKernel::ReduceScatterMulticast => 0.55 * ranks,
        _ => 1.0,
    };
    KernelTime::Smooth {
        latency,
        block,
        fan_out,
        peak,
    }
}

/// Time of an empty message, µs; bandwidth of a thread block, and of the links, GiB/s.
fn speed(newer: bool, kernel: WindowKernel, blackwell: bool) -> (f64, f64, f64) {
    let (is_ll, collective) = (kernel.is_ll(), kernel.collective());
    let reduces_all = collective == Collective::AllReduce;
    let in_switch = kernel == WindowKernel::AllReduceMulticast;
    let (mut latency, block, mut peak) = match blackwell {
        false => (
            if is_ll { 4.5 } else { 7.8 },
            if reduces_all { 65.0 } else { 44.0 },
            if in_switch { 480.0 } else { 320.0 },
        ),
        true => (
            match (is_ll, collective) {
                (true, Collective::AllGather) => 8.5,
                (true, Collective::ReduceScatter) if newer => 10.5,
                (true, _) => 11.0,
                (false, Collective::AllReduce) => 19.5,
                (false, _) => 13.0,
            },
            55.0,
            match collective {
                _ if in_switch => 1000.0,
                Collective::ReduceScatter if newer => 650.0,
                _ => 600.0,
            },
        ),
    };
    if blackwell && newer && kernel.is_tma() {
        latency += 4.0;
        if kernel == WindowKernel::AllGatherTma {
            peak = 700.0;
            latency += 19.0;
        }
        if kernel != WindowKernel::AllGatherTmaMulticast {
            peak *= 1.07;
        }
    }
    (latency, block, peak)
}
