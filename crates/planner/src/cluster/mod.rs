//! A job: which machines its hosts are, and what each of them plans on its own.
//!
//! Equal hosts are named once and counted, so a job of many equal hosts costs no more than one host. An *island* is what
//! one [`System`] describes: one host, or the hosts of one NVLink domain. A *node* is a set of ranks that reach each other
//! without the network: normally an island, or a part of one where the network is faster than what joins its GPUs.
//!
//! Global ranks count island after island, and within an island host after host by device number, unless the job has a
//! [`RankOrder`] of its own.

mod domain;
mod subset;

pub use domain::nvlink_domain;
pub use subset::{gpu_devices, with_gpus};

use plan::{IslandShape, JobLayout, NodePlace, RankOrder};
use topology::{NodeType, System};

use crate::error::Error;
use crate::host::{HostPlan, plan_views};
use crate::request::Request;
use crate::settings::Settings;
use crate::view::number_ranks;

/// Most ranks of a job; NCCL numbers them with 32 bits and a sign.
const MAX_RANKS: u64 = i32::MAX as u64;

/// Names a machine of a [`Cluster`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MachineId(u32);

/// The hosts of a job, in order.
#[derive(Debug, Clone, Default)]
pub struct Cluster {
    machines: Vec<System>,
    /// Machines in a row: which, and how many islands.
    runs: Vec<(MachineId, u32)>,
    order: Option<RankOrder>,
}

impl Cluster {
    /// A job without hosts.
    pub fn new() -> Self {
        Self::default()
    }

    /// A job of equal islands.
    pub fn equal(system: System, islands: u32) -> Self {
        let mut cluster = Self::new();
        let machine = cluster.add_machine(system);
        cluster.place(machine, islands);
        cluster
    }

    /// Makes a machine known: one host, or one NVLink domain of several (made from [`nvlink_domain`]'s document).
    pub fn add_machine(&mut self, system: System) -> MachineId {
        self.machines.push(system);
        MachineId(self.machines.len() as u32 - 1)
    }

    /// Adds islands of one machine at the end of the job.
    pub fn place(&mut self, machine: MachineId, islands: u32) {
        match self.runs.last_mut() {
            Some((last, count)) if *last == machine => *count = count.saturating_add(islands),
            _ if islands > 0 => self.runs.push((machine, islands)),
            _ => {}
        }
    }

    /// Gives ranks to GPUs in another order than host after host.
    pub fn order_ranks(&mut self, order: RankOrder) {
        self.order = Some(order);
    }

    /// GPUs of the machines in a row: how many each has, and how many machines.
    pub fn gpu_runs(&self) -> Vec<(u32, u32)> {
        let gpus = |machine: &MachineId| {
            self.system(*machine)
                .map_or(0, |system| system.count(NodeType::Gpu))
        };
        self.runs
            .iter()
            .map(|(machine, count)| (gpus(machine) as u32, *count))
            .collect()
    }

    /// Ranks in the whole job.
    pub fn ranks(&self) -> u64 {
        let of = |machine: &MachineId| {
            self.system(*machine)
                .map_or(0, |system| system.count(NodeType::Gpu))
        };
        self.runs
            .iter()
            .map(|(machine, count)| of(machine) as u64 * u64::from(*count))
            .sum()
    }

    fn system(&self, machine: MachineId) -> Option<&System> {
        self.machines.get(machine.0 as usize)
    }

    /// Plans every machine of the job once, as each of its ranks sees it. `collnet`: the network reduces (SHARP) and its
    /// plug-in is there.
    ///
    /// # Errors
    /// There are no hosts, too many ranks, or NCCL refuses one of the machines.
    pub fn plan(&self, collnet: bool, settings: &Settings) -> Result<ClusterPlan, Error> {
        let ranks = self.ranks();
        if self.runs.is_empty() {
            return Err(Error::NoHosts);
        }
        if ranks > MAX_RANKS {
            return Err(Error::TooManyRanks { ranks });
        }
        // Machines in the order in which the job names them first; others are not planned.
        let mut number = vec![None; self.machines.len()];
        let mut machines = Vec::new();
        let mut runs = Vec::new();
        let several = self
            .runs
            .iter()
            .any(|(machine, _)| *machine != self.runs[0].0);
        let mut host = 0;
        for (machine, count) in &self.runs {
            let Some(system) = self.system(*machine) else {
                return Err(Error::UnknownMachine);
            };
            let slot = &mut number[machine.0 as usize];
            let at = match *slot {
                Some(at) => at,
                None => {
                    let planned = MachinePlan::new(system, collnet, settings, ranks as usize);
                    machines.push(planned.map_err(|error| match several {
                        true => Error::OfHost {
                            host,
                            error: Box::new(error),
                        },
                        false => error,
                    })?);
                    *slot.insert(machines.len() - 1)
                }
            };
            host += system.hosts().len().max(1) as u32 * *count;
            runs.push((at, *count));
        }
        let layout = JobLayout::new(
            machines
                .iter()
                .map(|machine| machine.shape.clone())
                .collect(),
            &runs,
            self.order.as_ref(),
        )?;
        Ok(ClusterPlan {
            layout,
            machines,
            runs,
            order: self.order.clone().filter(|order| !order.is_plain()),
            collnet: collnet && settings.collnet_enable != Some(false),
        })
    }
}

/// What one machine's ranks decide on their own. Ranks count from 0 within the island.
#[derive(Debug, Clone)]
pub struct MachinePlan {
    /// One plan per node of the island, in the order of their lowest ranks.
    pub nodes: Vec<HostPlan>,
    /// Network ports that a host's plug-in sees: fewest and most over the hosts of the island.
    pub(crate) ports: (usize, usize),
    shape: IslandShape,
}

impl MachinePlan {
    fn new(
        system: &System,
        collnet: bool,
        settings: &Settings,
        ranks: usize,
    ) -> Result<Self, Error> {
        let hosts = system.hosts().len();
        let request = Request {
            hosts: 1,
            nvlink_domain: hosts > 1,
            collnet,
            settings: settings.clone(),
        };
        let nodes = plan_views(system.clone(), &request, ranks)?;
        let members: Vec<Vec<u32>> = nodes
            .iter()
            .map(|node| {
                let mut ranks: Vec<u32> = node
                    .view
                    .system()
                    .gpus()
                    .map(|(_, gpu)| gpu.rank as u32)
                    .collect();
                ranks.sort_unstable();
                ranks
            })
            .collect();
        let mut numbered = system.clone();
        number_ranks(&mut numbered, 0);
        let mut host_of = vec![0; numbered.count(NodeType::Gpu)];
        for (node, gpu) in numbered.gpus() {
            host_of[gpu.rank as usize] = numbered.node(node).id.system();
        }
        let mut ports = vec![0usize; hosts.max(1)];
        for (node, _) in system.nets() {
            if let Some(count) = ports.get_mut(system.node(node).id.system() as usize) {
                *count += 1;
            }
        }
        let ports = (
            ports.iter().copied().min().unwrap_or(0),
            ports.iter().copied().max().unwrap_or(0),
        );
        Ok(Self {
            nodes,
            ports,
            shape: IslandShape::new(members, host_of),
        })
    }
}

/// What every machine of a job decides on its own, and where the machines stand in the job.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Where ranks and nodes are.
    pub layout: JobLayout,
    /// The distinct machines of the job, in order of first appearance.
    pub machines: Vec<MachinePlan>,
    /// Machines in a row: which of `machines`, and how many islands.
    pub runs: Vec<(usize, u32)>,
    /// Which rank runs on which GPU, where ranks do not count host after host.
    pub order: Option<RankOrder>,
    /// Graphs for a network that reduces were searched.
    pub collnet: bool,
}

impl ClusterPlan {
    /// The plan of a node of the job.
    ///
    /// # Panics
    /// The place is of another job.
    pub fn node(&self, place: NodePlace) -> &HostPlan {
        &self.machines[place.machine as usize].nodes[place.index as usize]
    }

    /// All distinct plans, machine after machine.
    pub fn distinct(&self) -> impl Iterator<Item = &HostPlan> {
        self.machines.iter().flat_map(|machine| &machine.nodes)
    }
}
