//! Kernels for symmetric windows (`ncclCommWindowRegister`): which one NCCL takes, with how many
//! thread blocks, and the time that its model predicts.
//!
//! Ranks read and write each other's windows over NVLink, so the kernels serve one NVLink domain.
//! Source: NCCL's public source of 2.29 to 2.32; the binaries of 2.27, 2.28 and 2.32.

pub(super) mod costs;
mod model;

pub use costs::{CallTime, EngineCopy, EngineCosts, KernelCosts, KernelTime, Sums, WindowCosts};

use program::{Collective, Reduction};
use serde::{Serialize, Serializer};

use crate::JsonSchema;
use crate::cost::kernel::WindowKernel;
use crate::cost::operation::{Calls, DataType, Registration, TunedOperation};
use crate::cost::table::CostTable;

/// A time within this factor of that of all blocks is as good.
const NEARLY: f64 = 1.025;

/// Bytes of all ranks' pieces from which kernels with LL, which count in 32 bits, are out; and from
/// which all are.
const MOST_LL_BYTES: u64 = 2 << 30;
const MOST_BYTES: u64 = 64 << 30;

/// What NCCL takes for a collective on windows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WindowChoice {
    /// The kernel, under NCCL's name; `copy engines` without one.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub kernel: Option<WindowKernel>,
    /// Its thread blocks (CTAs); 0 without a kernel.
    pub blocks: u32,
    /// The time of all calls that NCCL's model predicts, µs; unknown for copy engines but in 2.31.
    pub time_us: Option<f64>,
}

impl WindowChoice {
    /// The kernel's name, or `copy engines`.
    pub fn name(&self) -> &'static str {
        name(self.kernel)
    }
}

fn name(kernel: Option<WindowKernel>) -> &'static str {
    kernel.map_or("copy engines", WindowKernel::name)
}

fn by_name<S: Serializer>(kernel: &Option<WindowKernel>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(name(*kernel))
}

/// A kernel that can be taken.
struct Candidate<'a> {
    costs: &'a KernelCosts,
    blocks: u32,
    time: f32,
    /// What is compared: the time, and a price for the thread blocks.
    price: f32,
}

impl CostTable {
    /// What NCCL takes because all buffers are symmetric windows; `None` if it takes an ordinary
    /// kernel.
    pub fn window_choice(&self, operation: &TunedOperation) -> Option<WindowChoice> {
        let windows = self.windows.as_ref()?;
        let job = &self.job;
        let calls = operation.calls.number.max(1);
        if operation.calls.registration != Registration::Symmetric
            || job.ranks <= 1
            || windows.most_calls.is_none() && calls > 1
            || !windows.implements(operation)
            || self.unfit_type(operation).is_some()
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
            && let Some(engines) = &windows.engines
            && elements > engines.above_elements
        {
            let one = engines.time_us(job.ranks, bytes, operation.calls.in_place);
            return Some(WindowChoice {
                kernel: None,
                blocks: 0,
                time_us: one.map(|one| one * f64::from(calls)),
            });
        }
        let most = windows.most_calls.unwrap_or(1).max(1);
        let of_kernel = calls.min(most);
        let taken = self.window_kernel(windows, operation, bytes, of_kernel)?;
        let blocks = match windows.cell_bytes {
            None => taken.blocks.into(),
            Some(cell) => {
                let all = bytes.next_multiple_of(cell) * u64::from(of_kernel);
                model::used_blocks(all / cell, taken.blocks)
            }
        };
        let time = |taken: &Candidate<'_>| f64::from(taken.time);
        Some(WindowChoice {
            kernel: Some(taken.costs.kernel),
            blocks: blocks as u32,
            time_us: (!taken.costs.time.is_fitted()).then(|| match calls {
                _ if calls <= most => time(&taken),
                _ => {
                    let rest = self.window_kernel(windows, operation, bytes, calls % most);
                    let rest = rest.filter(|_| !calls.is_multiple_of(most));
                    let full = f64::from(calls / most) * time(&taken);
                    full + rest.map_or(0.0, |rest| time(&rest))
                }
            }),
        })
    }

    fn window_kernel<'a>(
        &self,
        windows: &'a WindowCosts,
        operation: &TunedOperation,
        bytes: u64,
        calls: u32,
    ) -> Option<Candidate<'a>> {
        let ranks = u64::from(self.job.ranks);
        let one = bytes.next_multiple_of(windows.cell_bytes.unwrap_or(1));
        let on_bus = match operation.collective {
            Collective::AllReduce => one,
            _ => one.saturating_mul(ranks),
        };
        let reduces = reduces_in_switch(operation.calls, self.job.min_cc);
        let kernels = windows.kernels.iter().filter(|costs| {
            let kernel = costs.kernel;
            kernel.collective() == operation.collective
                && (reduces || !kernel.reads_reduced())
                && !(kernel.is_ll() && (calls > 1 || on_bus >= MOST_LL_BYTES))
                && on_bus < MOST_BYTES
        });
        let mut best: Option<Candidate<'_>> = None;
        for costs in kernels {
            let single = costs
                .single_call(operation.calls)
                .filter(|_| calls == 1 && bytes > 0);
            let each = if single.is_some() || costs.time.is_fitted() {
                bytes
            } else {
                one
            };
            let all = each.saturating_mul(calls.into());
            let in_place = operation.calls.in_place;
            let priced = self.priced_kernel(windows, costs, single, in_place, [all, bytes]);
            let Some(candidate) = priced else {
                continue;
            };
            let better = best.as_ref().is_none_or(|best| match windows.takes_last {
                true => candidate.price <= best.price,
                false => candidate.price < best.price,
            });
            if better {
                best = Some(candidate);
            }
        }
        best
    }

    /// The thread blocks and the time of a kernel for the bytes of all calls, of which the second
    /// number is one call's; `None` if it cannot be used.
    fn priced_kernel<'a>(
        &self,
        windows: &WindowCosts,
        costs: &'a KernelCosts,
        single: Option<&CallTime>,
        in_place: bool,
        [bytes, largest]: [u64; 2],
    ) -> Option<Candidate<'a>> {
        let step = windows.block_step.max(1);
        let [least, most] = self.job.calls.blocks;
        let (mut least, mut most) = match windows.blocks {
            Some(blocks) => (blocks, blocks),
            None => (least, most.min(costs.most_blocks)),
        };
        least = least.min(most);
        if least != most {
            if least != 1 {
                least = least.next_multiple_of(step);
            }
            if most != 1 {
                most = most / step * step;
            }
        }
        let enough = |blocks: u32| {
            let of_blocks = costs.least_block_bytes.saturating_mul(blocks.into());
            largest >= costs.least_bytes.max(of_blocks)
        };
        if enough(least) {
            while most > least && !enough(most) {
                most -= if most <= step { 1 } else { step };
            }
        } else if !windows.forced {
            return None;
        }
        let ranks = self.job.ranks;
        let (time, block_price): (&dyn Fn(u32) -> f64, _) = match single {
            Some(call) => (
                &|blocks| f64::from(call.time(costs.kernel, ranks, bytes, blocks, in_place) as f32),
                call.block_price,
            ),
            None => (
                &|blocks| costs.time(ranks, bytes, blocks),
                costs.block_price,
            ),
        };
        let mut taken = (most, time(most) as f32);
        let mut fewer = least;
        while fewer < most {
            let time_of_fewer = time(fewer);
            if time_of_fewer <= NEARLY * f64::from(taken.1) {
                taken = (fewer, time_of_fewer as f32);
                break;
            }
            fewer = (fewer / step + 1) * step;
        }
        let (blocks, time) = taken;
        Some(Candidate {
            costs,
            blocks,
            time,
            price: time * (1.0 + block_price * blocks as f32),
        })
    }
}

impl WindowCosts {
    /// Whether there are kernels for a collective, type and operation.
    fn implements(&self, operation: &TunedOperation) -> bool {
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
                    Reduction::Average => self.averages,
                    _ => false,
                };
                sums && !data_type.is_integer() && data_type != DataType::F64
            }
            _ => false,
        }
    }
}

/// Whether NVSwitches reduce for a kernel. They do not multiply, but the kernel may divide.
const fn reduces_in_switch(calls: Calls, min_cc: i32) -> bool {
    match calls.data_type {
        DataType::F8E4M3 | DataType::F8E5M2 => min_cc >= 100,
        _ => true,
    }
}
