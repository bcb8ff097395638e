//! Kernels for symmetric windows (`ncclCommWindowRegister`): which one NCCL takes, with how many
//! thread blocks, and the time that its model predicts.
//!
//! Ranks read and write each other's windows over NVLink, so the kernels serve one NVLink domain.
//! Source: NCCL's public source of 2.29 to 2.31; the binaries of 2.27, 2.28 and 2.32. The model of
//! all-gathers on Blackwell in 2.32 is not public: [`gathered`] fits the choices of its binary.

use program::{Collective, Reduction, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cost::operation::{Calls, DataType, Registration, TunedOperation};
use crate::cost::table::CostTable;
use crate::version::NcclVersion;

/// Most thread blocks of a kernel (`ncclSymkMaxBlocks`).
const MOST_BLOCKS: u32 = 64;

/// Pieces of messages are multiples of this, bytes (`NCCL_SYM_KERNEL_CELL_SIZE`).
const CELL: u64 = 1024;

/// A message of LL moves so many times its bytes: flags, and no unrolled loops.
const LL_TRAFFIC: f64 = 9.0;

/// GiB/s in bytes per µs.
const GIB_PER_S: f64 = (1u64 << 30) as f64 / 1e6;

/// A choice pays this share of its time for each thread block.
const BLOCK_PENALTY: f32 = 0.025;

/// The same of all-gathers on Blackwell in NCCL 2.32.
const FITTED_PENALTY: f32 = 0.02;

/// A time within this factor of that of all blocks is as good.
const NEARLY: f64 = 1.025;

/// Bytes of all ranks' pieces from which kernels with LL, which count in 32 bits, are out; and from
/// which all are.
const MOST_LL_BYTES: u64 = 2 << 30;
const MOST_BYTES: u64 = 64 << 30;

/// What the kernels depend on, beside the job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Windows")]
pub struct WindowCosts {
    /// The version of NCCL.
    #[schemars(with = "String")]
    pub nccl: NcclVersion,
    /// Thread blocks of each kernel (`NCCL_SYM_CTAS`); absent: as many as suit the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u32>,
    /// Kernels may use the tensor memory accelerator, on Blackwell.
    pub tma: bool,
    /// An all-gather of more elements of a rank goes by copy engines, on Blackwell.
    pub engine_elements: i64,
    /// Only these kernels; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<Vec<WindowKernel>>,
    /// `NCCL_SYM_KERNEL` is set, so that kernels are taken for messages that do not suit them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}

/// A kernel, under NCCL's name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[expect(missing_docs, reason = "the names are NCCL's")]
pub enum WindowKernel {
    #[serde(rename = "AllReduce_AGxLL_R")]
    AllReduceLl = 0,
    #[serde(rename = "AllReduce_AGxLLMC_R")]
    AllReduceLlMulticast = 1,
    #[serde(rename = "AllReduce_RSxTmaLD_AGxTmaST")]
    AllReduceTma = 2,
    #[serde(rename = "AllReduce_RSxLD_AGxST")]
    AllReduceDirect = 3,
    #[serde(rename = "AllReduce_RSxLDMC_AGxSTMC")]
    AllReduceMulticast = 4,
    #[serde(rename = "AllGather_LL")]
    AllGatherLl = 5,
    #[serde(rename = "AllGather_LLMC")]
    AllGatherLlMulticast = 6,
    #[serde(rename = "AllGather_TmaST")]
    AllGatherTma = 7,
    #[serde(rename = "AllGather_ST")]
    AllGatherDirect = 8,
    #[serde(rename = "AllGather_TmaSTMC")]
    AllGatherTmaMulticast = 9,
    #[serde(rename = "AllGather_STMC")]
    AllGatherMulticast = 10,
    #[serde(rename = "ReduceScatter_LL")]
    ReduceScatterLl = 11,
    #[serde(rename = "ReduceScatter_TmaLD")]
    ReduceScatterTma = 12,
    #[serde(rename = "ReduceScatter_LD")]
    ReduceScatterDirect = 13,
    #[serde(rename = "ReduceScatter_LDMC")]
    ReduceScatterMulticast = 14,
}

named!(WindowKernel, "kernel", |known, text| known.name().eq_ignore_ascii_case(text), {
    AllReduceLl = "AllReduce_AGxLL_R",
    AllReduceLlMulticast = "AllReduce_AGxLLMC_R",
    AllReduceTma = "AllReduce_RSxTmaLD_AGxTmaST",
    AllReduceDirect = "AllReduce_RSxLD_AGxST",
    AllReduceMulticast = "AllReduce_RSxLDMC_AGxSTMC",
    AllGatherLl = "AllGather_LL",
    AllGatherLlMulticast = "AllGather_LLMC",
    AllGatherTma = "AllGather_TmaST",
    AllGatherDirect = "AllGather_ST",
    AllGatherTmaMulticast = "AllGather_TmaSTMC",
    AllGatherMulticast = "AllGather_STMC",
    ReduceScatterLl = "ReduceScatter_LL",
    ReduceScatterTma = "ReduceScatter_TmaLD",
    ReduceScatterDirect = "ReduceScatter_LD",
    ReduceScatterMulticast = "ReduceScatter_LDMC",
});

impl WindowKernel {
    /// The collective that it carries out.
    pub const fn collective(self) -> Collective {
        match self as u8 {
            0..=4 => Collective::AllReduce,
            5..=10 => Collective::AllGather,
            _ => Collective::ReduceScatter,
        }
    }

    /// It sends each word with a flag.
    const fn is_ll(self) -> bool {
        matches!(
            self,
            Self::AllReduceLl
                | Self::AllReduceLlMulticast
                | Self::AllGatherLl
                | Self::AllGatherLlMulticast
                | Self::ReduceScatterLl
        )
    }

    /// It moves data with the tensor memory accelerator.
    const fn is_tma(self) -> bool {
        matches!(
            self,
            Self::AllReduceTma
                | Self::AllGatherTma
                | Self::AllGatherTmaMulticast
                | Self::ReduceScatterTma
        )
    }

    /// NVSwitches copy what it writes.
    const fn writes_to_all(self) -> bool {
        matches!(
            self,
            Self::AllReduceLlMulticast
                | Self::AllReduceMulticast
                | Self::AllGatherLlMulticast
                | Self::AllGatherTmaMulticast
                | Self::AllGatherMulticast
        )
    }

    /// NVSwitches reduce what it reads.
    const fn reads_reduced(self) -> bool {
        matches!(
            self,
            Self::AllReduceMulticast | Self::ReduceScatterMulticast
        )
    }
}

/// How a collective on windows is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowWay {
    /// A kernel.
    Kernel {
        /// Which one.
        kernel: WindowKernel,
        /// Its thread blocks (CTAs).
        blocks: u32,
    },
    /// Copy engines, without a kernel.
    CopyEngines,
}

/// What NCCL takes for a collective on windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowChoice {
    /// The way.
    pub way: WindowWay,
    /// The time of all calls that NCCL's model predicts, µs; unknown for copy engines, and for
    /// all-gathers on Blackwell in 2.32.
    pub time_us: Option<f64>,
}

/// A kernel that can be taken.
struct Candidate {
    kernel: WindowKernel,
    blocks: u32,
    time_us: f32,
}

impl Candidate {
    /// What is compared: the time, and a price for the thread blocks.
    fn price(&self, penalty: f32) -> f32 {
        self.time_us * (1.0 + penalty * self.blocks as f32)
    }
}

impl CostTable {
    /// What NCCL takes because all buffers are symmetric windows; `None` if it takes an ordinary
    /// kernel.
    pub fn window_choice(&self, operation: &TunedOperation) -> Option<WindowChoice> {
        let windows = self.windows.as_ref()?;
        let job = &self.job;
        if operation.calls.registration != Registration::Symmetric
            || job.ranks <= 1
            || windows.nccl == NcclVersion::V2_27 && operation.calls.number > 1
            || !implements(windows.nccl, operation)
        {
            return None;
        }
        let width = u64::from(operation.calls.data_type.bytes());
        let bytes = match operation.collective.splits_message() {
            true => operation.bytes / u64::from(job.ranks),
            false => operation.bytes,
        };
        let elements = i64::try_from(bytes / width).unwrap_or(i64::MAX);
        if operation.collective == Collective::AllGather
            && job.min_cc >= 100
            && windows.nccl >= NcclVersion::V2_29
            && elements > windows.engine_elements
        {
            return Some(WindowChoice {
                way: WindowWay::CopyEngines,
                time_us: None,
            });
        }
        let calls = operation.calls.number.max(1);
        let most = most_calls(windows.nccl);
        let of_kernel = calls.min(most);
        let taken = self.window_kernel(windows, operation, bytes, of_kernel)?;
        // Blocks without a piece do not start.
        let all = bytes.next_multiple_of(CELL) * u64::from(of_kernel);
        let cells = all / CELL;
        let blocks = match windows.nccl {
            NcclVersion::V2_27 => taken.blocks.into(),
            _ => used_blocks(cells, taken.blocks),
        };
        let known = !self.is_fitted(windows, operation.collective);
        Some(WindowChoice {
            way: WindowWay::Kernel {
                kernel: taken.kernel,
                blocks: blocks as u32,
            },
            time_us: known.then(|| match calls {
                _ if calls <= most => taken.time_us.into(),
                _ => {
                    let rest = self.window_kernel(windows, operation, bytes, calls % most);
                    let rest = rest.filter(|_| calls % most > 0);
                    let full = f64::from(calls / most) * f64::from(taken.time_us);
                    full + rest.map_or(0.0, |rest| f64::from(rest.time_us))
                }
            }),
        })
    }

    fn window_kernel(
        &self,
        windows: &WindowCosts,
        operation: &TunedOperation,
        bytes: u64,
        calls: u32,
    ) -> Option<Candidate> {
        let ranks = u64::from(self.job.ranks);
        let one = match windows.nccl {
            NcclVersion::V2_27 => bytes,
            _ => bytes.next_multiple_of(CELL),
        };
        let all = one.saturating_mul(calls.into());
        let on_bus = match operation.collective {
            Collective::AllReduce => one,
            _ => one.saturating_mul(ranks),
        };
        let multicast = self.job.nvls.is_some() && ranks > 2;
        let reduces = multicast && reduces_in_switch(operation.calls, self.job.min_cc);
        let kernels = WindowKernel::ALL.into_iter();
        let kernels = kernels.filter(|it| {
            it.collective() == operation.collective
                && (multicast || !it.writes_to_all())
                && (reduces || !it.reads_reduced())
                && !(it.is_ll() && (calls > 1 || on_bus >= MOST_LL_BYTES))
                && (!it.is_tma() || windows.tma && self.job.min_cc >= 100)
                && windows.kernels.as_ref().is_none_or(|all| all.contains(it))
                && on_bus < MOST_BYTES
        });
        let newer = windows.nccl >= NcclVersion::V2_31;
        let fitted = self.is_fitted(windows, operation.collective);
        let (all, penalty) = match fitted {
            true => (bytes.saturating_mul(calls.into()), FITTED_PENALTY),
            false => (all, BLOCK_PENALTY),
        };
        let mut best: Option<Candidate> = None;
        for kernel in kernels {
            let Some(candidate) = self.priced_kernel(windows, kernel, all, bytes) else {
                continue;
            };
            let better = best.as_ref().is_none_or(|best| match newer {
                // Of equals the last is taken.
                true => candidate.price(penalty) <= best.price(penalty),
                false => candidate.price(penalty) < best.price(penalty),
            });
            if better {
                best = Some(candidate);
            }
        }
        best
    }

    /// The thread blocks and the time of a kernel for `bytes` bytes of all calls; `None` if it
    /// cannot be used. `largest` are the bytes of one call.
    fn priced_kernel(
        &self,
        windows: &WindowCosts,
        kernel: WindowKernel,
        bytes: u64,
        largest: u64,
    ) -> Option<Candidate> {
        let model = match self.is_fitted(windows, kernel.collective()) {
            true => gathered(kernel, self.job.ranks, bytes),
            false => self.kernel_model(windows.nccl, kernel, bytes),
        };
        let newer = windows.nccl >= NcclVersion::V2_31;
        let [least, most] = self.job.blocks;
        let (mut least, mut most) = match windows.blocks {
            Some(blocks) => (blocks, blocks),
            None => (least, most.min(model.most_blocks)),
        };
        least = least.min(most);
        if newer && least != most {
            // Even numbers, but for 1.
            if least != 1 {
                least = least.next_multiple_of(2);
            }
            if most != 1 {
                most = most / 2 * 2;
            }
        }
        if kernel.is_tma() && newer {
            let enough = |blocks: u32| largest >= self.tma_bytes(kernel, blocks);
            if !enough(least) {
                if !windows.forced {
                    return None;
                }
            } else {
                while most > least && !enough(most) {
                    most -= if most == 2 { 1 } else { 2 };
                }
            }
        }
        let mut blocks = most;
        let mut time_us = model.time_us(most) as f32;
        let mut fewer = least;
        while fewer < most {
            let time = model.time_us(fewer);
            if time <= NEARLY * f64::from(time_us) {
                (blocks, time_us) = (fewer, time as f32);
                break;
            }
            fewer += if newer && fewer > 1 { 2 } else { 1 };
        }
        Some(Candidate {
            kernel,
            blocks,
            time_us,
        })
    }

    /// Whether the model of a collective is a fit to choices.
    fn is_fitted(&self, windows: &WindowCosts, collective: Collective) -> bool {
        let newest = windows.nccl >= NcclVersion::V2_32;
        newest && self.job.min_cc >= 100 && collective == Collective::AllGather
    }

    /// Bytes of a call from which a kernel uses the tensor memory accelerator at all.
    fn tma_bytes(&self, kernel: WindowKernel, blocks: u32) -> u64 {
        let blocks = u64::from(blocks);
        match kernel {
            WindowKernel::AllGatherTma => 8192 * blocks,
            WindowKernel::AllGatherTmaMulticast => 4096,
            _ => 16_384 * u64::from(self.job.ranks) * blocks,
        }
    }

    fn kernel_model(&self, nccl: NcclVersion, kernel: WindowKernel, bytes: u64) -> KernelModel {
        use WindowKernel::{
            AllGatherDirect, AllGatherLl, AllGatherLlMulticast, AllGatherMulticast, AllGatherTma,
            AllGatherTmaMulticast, AllReduceDirect, AllReduceLl, AllReduceLlMulticast,
            AllReduceMulticast, AllReduceTma, ReduceScatterDirect, ReduceScatterLl,
            ReduceScatterMulticast, ReduceScatterTma,
        };
        let ranks = u64::from(self.job.ranks);
        let blackwell = self.job.min_cc >= 100;
        let newer = nccl >= NcclVersion::V2_31;
        let switched = if blackwell { 32u64 } else { 16 }.div_ceil(ranks) as u32;
        let width = f64::from(self.job.ranks);
        // What the kernel sends or receives, how often a byte of a block counts on the links, and
        // most blocks.
        let whole = |bytes: u64| bytes as f64;
        let others = (ranks - 1).saturating_mul(bytes);
        let (traffic, fan_out, most_blocks) = match kernel {
            AllReduceLl | AllGatherLl | ReduceScatterLl => (
                (ranks.saturating_mul(bytes) as f64 * LL_TRAFFIC).trunc(),
                1.0,
                MOST_BLOCKS,
            ),
            // A little above 1, so that they are preferred.
            AllReduceLlMulticast | AllGatherLlMulticast => (
                (ranks.saturating_mul(bytes) as f64 * LL_TRAFFIC).trunc(),
                1.1,
                MOST_BLOCKS,
            ),
            AllReduceTma | AllReduceDirect => (
                whole(bytes.saturating_mul(2).saturating_mul(ranks - 1) / ranks),
                1.0,
                MOST_BLOCKS,
            ),
            AllReduceMulticast => (whole(bytes / ranks + bytes), width, switched),
            AllGatherTma | AllGatherDirect | ReduceScatterTma | ReduceScatterDirect => {
                (whole(others), 1.0, MOST_BLOCKS)
            }
            AllGatherTmaMulticast if newer => (whole(others), 0.99 * 0.55 * width, switched),
            AllGatherTmaMulticast | AllGatherMulticast | ReduceScatterMulticast => {
                (whole(others), 0.55 * width, switched)
            }
        };
        let (is_ll, collective) = (kernel.is_ll(), kernel.collective());
        let reduces_all = collective == Collective::AllReduce;
        let in_switch = kernel == AllReduceMulticast;
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
            if kernel == AllGatherTma {
                peak = 700.0;
                latency += 19.0;
            }
            if kernel != AllGatherTmaMulticast {
                peak *= 1.07;
            }
        }
        KernelModel {
            most_blocks,
            time: TimeModel::Smooth {
                traffic,
                latency,
                block: block * GIB_PER_S,
                fan_out,
                peak: peak * GIB_PER_S,
            },
        }
    }
}

/// NCCL's model of a kernel for a message.
struct KernelModel {
    /// Most thread blocks.
    most_blocks: u32,
    /// Its time.
    time: TimeModel,
}

/// The time of a kernel for a message by its thread blocks.
enum TimeModel {
    /// With soft limits.
    Smooth {
        /// Bytes that it sends or receives.
        traffic: f64,
        /// Time of an empty message, µs.
        latency: f64,
        /// Bandwidth of a thread block, bytes per µs.
        block: f64,
        /// How often a byte of a block counts on the links.
        fan_out: f64,
        /// Bandwidth of the links, bytes per µs.
        peak: f64,
    },
    /// The longer of what blocks and what links need.
    Longest {
        /// KiB of one rank.
        kib: f64,
        /// Time of an empty message.
        base: f64,
        /// Time of one block for a KiB.
        block: f64,
        /// Factor of several blocks.
        several: f64,
        /// Time of the links for a KiB.
        link: f64,
    },
}

impl KernelModel {
    /// The time with a number of thread blocks: µs, or in a unit of its own where it is fitted to
    /// choices, which tell ratios only.
    fn time_us(&self, blocks: u32) -> f64 {
        match self.time {
            TimeModel::Smooth {
                traffic,
                latency,
                block,
                fan_out,
                peak,
            } => {
                let offered = f64::from(blocks) * block * fan_out;
                let bandwidth = soft_minimum(offered, peak, block);
                latency + soft_positive(traffic / bandwidth - 1.0)
            }
            TimeModel::Longest {
                kib,
                base,
                block,
                several,
                link,
            } => {
                let used = used_blocks(kib.ceil() as u64, blocks);
                let block = if used > 1 { block * several } else { block };
                base + (block * kib / used as f64).max(link * kib)
            }
        }
    }
}

/// The thread blocks that get a piece of a message of so many cells.
fn used_blocks(cells: u64, blocks: u32) -> u64 {
    let cells = cells.max(1);
    cells.div_ceil(cells.div_ceil(u64::from(blocks.max(1))))
}

/// The model of all-gathers on Blackwell in NCCL 2.32, fitted to 12,000 block counts and 6,800
/// choices of the binary of 2.32.3 for 2 to 16 ranks. It reproduces all block counts of the kernels
/// without LL but one, and 95 to 100 % of the free choices; LLMC is approximate. `bytes` are those
/// of one rank, all calls together.
fn gathered(kernel: WindowKernel, ranks: u32, bytes: u64) -> KernelModel {
    let n = f64::from(ranks);
    let others = n - 1.0;
    let (base, block, several, link) = match kernel {
        WindowKernel::AllGatherTma => (
            629.79 + 4.172 * n,
            1.0048 * n,
            1.0,
            1.0048 * others / 10.4663,
        ),
        WindowKernel::AllGatherMulticast => (515.57 + 4.745 * n, 1.2698, 1.0, 0.09029 * n),
        WindowKernel::AllGatherTmaMulticast => (514.31 + 4.823 * n, 1.0953, 1.1434, 0.09029 * n),
        WindowKernel::AllGatherLl => (
            444.651 + 5.1398 * n,
            25.825 + 4.2166 * n,
            1.025,
            0.16868 * n + 0.0897,
        ),
        WindowKernel::AllGatherLlMulticast => (
            445.616 + 5.8212 * n,
            37.206 - 0.345 * n,
            1.067,
            0.13971 * n + 0.2323,
        ),
        _ => (663.51 + 3.4613 * n, n, 1.0, others / 10.0878),
    };
    KernelModel {
        most_blocks: match kernel.writes_to_all() && !kernel.is_ll() {
            true => 32_u32.div_ceil(ranks),
            false => MOST_BLOCKS,
        },
        time: TimeModel::Longest {
            kib: bytes as f64 / CELL as f64,
            base,
            block,
            several,
            link,
        },
    }
}

/// A smooth min(value, ceiling).
fn soft_minimum(value: f64, ceiling: f64, softness: f64) -> f64 {
    let excess = ((ceiling / softness).exp() - 1.0) * (-value / softness).exp();
    ceiling - softness * excess.ln_1p()
}

/// A smooth max(0, value).
fn soft_positive(value: f64) -> f64 {
    if value >= 100.0 {
        value
    } else {
        value.exp().ln_1p()
    }
}

/// Most calls of a group that one kernel carries out. Source: logs of the binaries.
const fn most_calls(nccl: NcclVersion) -> u32 {
    match nccl {
        NcclVersion::V2_27 => 1,
        NcclVersion::V2_28 => 56,
        NcclVersion::V2_29 | NcclVersion::V2_30 => 55,
        NcclVersion::V2_31 | NcclVersion::V2_32 => 54,
    }
}

/// Whether there are kernels for a collective, type and operation.
fn implements(nccl: NcclVersion, operation: &TunedOperation) -> bool {
    let averages = nccl >= NcclVersion::V2_30;
    let Calls {
        data_type,
        reduction,
        ..
    } = operation.calls;
    match operation.collective {
        Collective::AllGather => true,
        Collective::AllReduce | Collective::ReduceScatter => {
            let sums = match reduction {
                Reduction::Sum => true,
                Reduction::Average => averages,
                _ => false,
            };
            sums && !data_type.is_integer() && data_type != DataType::F64
        }
        _ => false,
    }
}

/// Whether NVSwitches reduce for a kernel. They do not multiply, but the kernel may divide.
const fn reduces_in_switch(calls: Calls, min_cc: i32) -> bool {
    match calls.data_type {
        DataType::F8E4M3 | DataType::F8E5M2 => min_cc >= 100,
        DataType::I8 | DataType::U8 => false,
        _ => true,
    }
}
