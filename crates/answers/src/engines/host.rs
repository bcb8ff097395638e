//! The facts about the GPUs of a job that decide which all-reduce an engine takes.

use plan::{GpuTransport, NotDirect, Plan};
use planner::{HostPlan, Planned};
use serde::{Deserialize, Serialize};
use topology::{Gpu, NodeId, NodeType, PathTable, PathType, System};

use crate::JsonSchema;

/// Compute capability × 10 of the first GPUs whose NVSwitches have multicast: Hopper.
const FIRST_MULTICAST: i32 = 90;

/// Compute capabilities × 10 of chips that are sold as GeForce: the driver grants those no peer
/// access over PCIe unless it is patched.
const CONSUMER: [i32; 4] = [75, 86, 89, 120];

/// What peer access over PCIe does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "arguments", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// It works
    Granted,
    /// The driver grants none (such as --without P2P)
    #[cfg_attr(feature = "arguments", value(skip))]
    None,
    /// The driver grants it, but writes are lost (translated IOMMU, ACS)
    WritesLost,
    /// The driver grants it, but CUDA IPC cannot open the memory
    IpcFails,
}

impl Peer {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::None => "none",
            Self::WritesLost => "writes-lost",
            Self::IpcFails => "ipc-fails",
        }
    }
}

/// The GPUs of a job on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Their number.
    pub ranks: u32,
    /// Least compute capability × 10.
    pub sm: i32,
    /// NVLink joins every pair, directly or through NVSwitches.
    pub nvlink: bool,
    /// NVSwitches that multicast join them.
    pub multicast: bool,
    /// Peer access.
    pub peer: Peer,
    /// NCCL uses P2P between two of them.
    pub nccl_p2p: bool,
}

impl Host {
    /// The GPUs of a plan, whose transports say what joins them. Multicast is that of NCCL's NVLS.
    pub fn of_plan(plan: &Plan) -> Option<Self> {
        let machine = plan.machines.first()?;
        let transports = machine.groups.first()?.transports.as_ref()?;
        let between = transports
            .between
            .iter()
            .enumerate()
            .flat_map(|(one, row)| {
                let others = row
                    .iter()
                    .enumerate()
                    .filter(move |(other, _)| *other != one);
                others.filter_map(|(_, at)| transports.distinct.get(usize::from(*at)))
            });
        let all: Vec<&GpuTransport> = between.collect();
        let refused = |it: &&&GpuTransport| {
            let (GpuTransport::SharedMemory { not_direct, .. }
            | GpuTransport::Network { not_direct, .. }) = it
            else {
                return false;
            };
            *not_direct == NotDirect::Refused
        };
        let by_nvlink = |it: &&GpuTransport| matches!(it, GpuTransport::Direct { path, .. } if *path <= PathType::Nvl);
        let nvlink = machine.groups.len() == 1 && all.iter().all(by_nvlink);
        let costs = plan.costs.as_ref();
        Some(Self {
            ranks: u32::try_from(plan.rank_count()).ok()?,
            sm: machine.gpus.iter().map(|it| it.sm).min()?,
            nvlink,
            multicast: nvlink && costs.is_some_and(|it| it.job.nvls.is_some()),
            peer: match all.iter().any(|it| refused(&it)) {
                true => Peer::None,
                false => Peer::Granted,
            },
            nccl_p2p: all
                .iter()
                .any(|it| matches!(it, GpuTransport::Direct { .. })),
        })
    }

    /// The GPUs of a planned job. NCCL's settings, which hide links from plans, do not change them.
    pub fn of(planned: &Planned) -> Option<Self> {
        let mut host = Self::of_plan(planned.plan())?;
        let nodes = &planned.machines().first()?.nodes;
        let all: Vec<Pair> = nodes
            .iter()
            .flat_map(|it| pairs(it.view.system()))
            .collect();
        host.nvlink = nodes.len() == 1 && all.iter().all(|it| it.nvlink);
        host.peer = match all.iter().any(|it| it.refused) {
            true => Peer::None,
            false => Peer::Granted,
        };
        let switches = |it: &HostPlan| it.view.system().count(NodeType::Nvs);
        let has_switch = nodes.iter().any(|it| switches(it) > 0);
        host.multicast =
            host.nvlink && has_switch && host.sm >= FIRST_MULTICAST && host.peer == Peer::Granted;
        Some(host)
    }

    /// Its compute capability, such as `9.0`.
    pub fn architecture(&self) -> String {
        format!("{}.{}", self.sm / 10, self.sm % 10)
    }

    /// Two of its GPUs.
    #[must_use]
    pub const fn pair(&self, nvlink: bool, peer: Peer) -> Self {
        Self {
            ranks: 2,
            nvlink,
            multicast: self.multicast && nvlink,
            peer,
            ..*self
        }
    }

    /// Whether the driver's answer on peer access decides and is not known: chips that are also
    /// GeForce, none of which adapters may reach.
    pub fn is_doubtful(&self, planned: &Planned) -> bool {
        let nodes = planned.machines().iter().flat_map(|it| &it.nodes);
        let mut gpus = nodes.flat_map(|it| it.view.system().gpus().map(|(_, gpu)| gpu));
        let is_consumer = gpus.all(|it| CONSUMER.contains(&it.sm) && !it.gdr);
        !self.nvlink && self.peer == Peer::Granted && is_consumer
    }
}

/// Two GPUs of a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// Their device numbers.
    pub devices: [i32; 2],
    /// NVLink joins them, directly or through NVSwitches.
    pub nvlink: bool,
    /// The widest path, before all rules.
    pub path: PathType,
    /// The driver refuses peer access in a direction.
    pub refused: bool,
}

/// All pairs of GPUs; none if NCCL refuses the machine, too.
pub(super) fn pairs(system: &System) -> Vec<Pair> {
    let Ok(paths) = PathTable::compute(system, false) else {
        return Vec::new();
    };
    let gpus: Vec<(NodeId, &Gpu)> = system.gpus().collect();
    let pair = |(one, own): (NodeId, &Gpu), (other, its): (NodeId, &Gpu)| Pair {
        devices: [own.dev, its.dev],
        nvlink: paths.kind(one, other) <= PathType::Nvl,
        path: paths.kind(one, other),
        refused: own.no_p2p.contains(&its.dev) || its.no_p2p.contains(&own.dev),
    };
    let each = gpus.iter().enumerate();
    each.flat_map(|(at, one)| gpus[at + 1..].iter().map(move |other| pair(*one, *other)))
        .collect()
}
