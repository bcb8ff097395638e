//! Kernels for symmetric windows (`ncclCommWindowRegister`): which one NCCL takes, with how many
//! thread blocks, and the time that its model predicts.
//!
//! Ranks read and write each other's windows over NVLink, so the kernels serve one NVLink domain.
//! Source: NCCL's public source of 2.29 to 2.31; the binaries of 2.27, 2.28 and 2.32. The model of
//! all-gathers on Blackwell in 2.32 is not public: `model::gathered` fits the choices of its
//! binary.

mod model;

use program::{Collective, Reduction};

use crate::cost::kernel::WindowKernel;
use crate::cost::operation::{Calls, DataType, Registration, TunedOperation};
use crate::cost::table::{CostTable, WindowCosts};
use crate::version::NcclVersion;

/// Pieces of messages are multiples of this, bytes (`NCCL_SYM_KERNEL_CELL_SIZE`).
const CELL: u64 = 1024;

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

/// How a collective on windows is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowMethod {
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
    /// The method.
    pub method: WindowMethod,
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
        if bytes >= MOST_BYTES {
            return None;
        }
        let elements = i64::try_from(bytes / width).unwrap_or(i64::MAX);
        if operation.collective == Collective::AllGather
            && job.min_cc >= 100
            && windows.nccl >= NcclVersion::V2_29
            && elements > windows.engine_elements
        {
            return Some(WindowChoice {
                method: WindowMethod::CopyEngines,
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
            _ => model::used_blocks(cells, taken.blocks),
        };
        let known = !self.is_fitted(windows, operation.collective);
        Some(WindowChoice {
            method: WindowMethod::Kernel {
                kernel: taken.kernel,
                blocks: blocks as u32,
            },
            time_us: known.then(|| match calls {
                _ if calls <= most => taken.time_us.into(),
                _ => {
                    let rest = self.window_kernel(windows, operation, bytes, calls % most);
                    let rest = rest.filter(|_| !calls.is_multiple_of(most));
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
            true => model::gathered(kernel, self.job.ranks, bytes),
            false => model::smooth(
                windows.nccl,
                kernel,
                (self.job.ranks, self.job.min_cc),
                bytes,
            ),
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
                    most -= if most <= 2 { 1 } else { 2 };
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
        _ => true,
    }
}
