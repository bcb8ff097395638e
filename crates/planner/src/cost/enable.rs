//! The algorithms and protocols that are off: by the user, or because the machine lacks what they
//! need.

use plan::Algorithm;
use plan::cost::{CostTable, Off, WindowKernel};
use program::{Collective, Protocol};
use topology::PathType;

use super::inputs::Inputs;
use super::tables::TableModel;
use crate::rules::Rules;
use crate::settings::Tuning;

/// First compute capability (× 10) whose LL128 may reach a NIC over C2C or through another GPU.
const HOPPER: i32 = 90;

/// The oldest driver, as CUDA's number, with which Rubin's LL128 does so: that of CUDA 13.3.
/// Source: NCCL 2.32.3.
pub const RUBIN_DRIVER: u32 = 13_030;

/// Whether LL128 depends on the driver, if nothing else forbids it.
fn asks_driver(inputs: &Inputs, rules: Rules, algorithm: Algorithm) -> bool {
    rules.is_rubin(inputs.min_cc) && inputs.graph(algorithm).type_inter > PathType::Pxb
}

/// Whether a table depends on a driver whose version is not known.
pub fn assumes_driver(table: &CostTable, inputs: &Inputs, tuning: &Tuning, rules: Rules) -> bool {
    let given = tuning.driver.is_some() || tuning.protocols.is_some();
    let mut entries = table.entries.iter();
    !given
        && entries.any(|it| {
            it.protocol == Protocol::Ll128
                && it.off.is_none()
                && asks_driver(inputs, rules, it.algorithm)
        })
}

impl TableModel<'_> {
    /// Whether PAT is enabled.
    pub(super) fn pat(&self) -> bool {
        match self.tuning.pat {
            _ if self.inputs.min_cc < 60 => false,
            2 if self.rules.gathers_by_heads && self.gathers_by_heads() => true,
            2 => self.inputs.nodes == self.inputs.ranks && self.inputs.net_on_host,
            asked => asked != 0,
        }
    }

    /// Whether each GPU of a node is a head of NVLS, so that PAT can run between nodes of several.
    fn gathers_by_heads(&self) -> bool {
        let inputs = self.inputs;
        let equal = inputs.min_local_ranks == inputs.max_local_ranks;
        let heads = inputs.nvls.map_or(0, |nvls| nvls.heads);
        inputs.nodes > 1 && equal && heads == inputs.max_local_ranks
    }

    /// Why an algorithm with a protocol is off; `None` if it is on.
    pub(super) fn off(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<Off> {
        let inputs = self.inputs;
        if let Some(off) = self.excluded(collective, algorithm, protocol) {
            return Some(off);
        }
        let asked = self.protocols.protocol(collective, protocol);
        match algorithm {
            Algorithm::NvlsTree if inputs.nodes == 1 => return Some(Off::OneNode),
            Algorithm::Nvls if inputs.nodes > 1 && inputs.collnet.is_none() => {
                return Some(Off::NoCollnet);
            }
            Algorithm::CollNetDirect | Algorithm::CollNetChain => match inputs.collnet {
                None => return Some(Off::NoCollnet),
                Some(collnet)
                    if algorithm == Algorithm::CollNetChain
                        && self.rules.checks_chain_heads
                        && !collnet.chain =>
                {
                    return Some(Off::ChainHeads);
                }
                Some(collnet) if self.rules.needs_collnet_heads => {
                    if inputs.max_local_ranks > collnet.heads {
                        return Some(Off::NetworkLacksCollective);
                    }
                }
                Some(_) if algorithm == Algorithm::CollNetDirect && !inputs.has_nvswitch => {
                    return Some(Off::NoNvSwitch);
                }
                Some(_) => {}
            },
            _ => {}
        }
        if protocol != Protocol::Ll128 || asked.is_some() {
            return None;
        }
        if !self.ll128(collective, algorithm) {
            return Some(Off::Ll128Unsafe);
        }
        let old = self.tuning.driver.is_some_and(|it| it < RUBIN_DRIVER);
        (old && asks_driver(inputs, self.rules, algorithm)).then_some(Off::Ll128Driver)
    }

    /// Whether one of the user's lists names something for a collective.
    fn forces(&self, collective: Collective) -> bool {
        self.algorithms.names(collective)
            || self.protocols.names(collective)
            || self.kernels.names(collective)
    }

    /// Whether algorithms and kernels that the user does not mention are excluded.
    fn excludes_unmentioned(&self) -> bool {
        let given = self.algorithms.is_given() || self.kernels.is_given();
        self.rules.forces_collectives && given
    }

    /// The kernels for windows that the user allows; `None` for all.
    pub(super) fn kernels(&self) -> Option<Vec<WindowKernel>> {
        let all = WindowKernel::ALL.into_iter();
        if self.rules.forces_collectives {
            let allowed = all.filter(|it| {
                let unmentioned = !self.excludes_unmentioned();
                !self.forces(it.collective()) || self.kernels.kernel(*it).unwrap_or(unmentioned)
            });
            let allowed: Vec<_> = allowed.collect();
            return (allowed.len() < WindowKernel::ALL.len()).then_some(allowed);
        }
        // One name, which older versions read exactly.
        let name = self.tuning.windows.kernels.as_deref()?;
        (name != "^").then(|| all.filter(|it| it.name() == name).collect())
    }

    /// Which of the user's settings excludes an algorithm with a protocol.
    fn excluded(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        protocol: Protocol,
    ) -> Option<Off> {
        let (algorithms, protocols) = (&self.algorithms, &self.protocols);
        if self.rules.forces_collectives && !self.forces(collective) {
            return None;
        }
        let unmentioned = !self.excludes_unmentioned();
        if !(algorithms.algorithm(collective, algorithm)).unwrap_or(unmentioned) {
            return Some(Off::AlgorithmSetting);
        }
        if protocols.protocol(collective, protocol) == Some(false) {
            return Some(Off::ProtocolSetting);
        }
        None
    }

    /// Whether NCCL trusts links and GPUs to deliver 128 bytes in order.
    fn ll128(&self, collective: Collective, algorithm: Algorithm) -> bool {
        let inputs = self.inputs;
        let graph = inputs.graph(algorithm);
        let hopper = inputs.min_cc >= HOPPER;
        let farthest = if self.tuning.ll128_c2c && hopper {
            PathType::Pxn
        } else {
            PathType::Pxb
        };
        let broken = inputs.cuda_11_8
            && inputs.min_cc == 90
            && collective == Collective::AllReduce
            && algorithm == Algorithm::Ring
            && inputs.ranks == 2;
        graph.type_inter <= farthest
            && graph.type_intra <= PathType::Nvb
            && (inputs.min_cc == inputs.max_cc || hopper && self.rules.mixes_ll128)
            && inputs.min_cc >= 70
            && !broken
    }
}
