//! The decisions of every distinct machine of a job, and the places of the machines in the job.
//!
//! A *machine* is what one [`System`] describes: one host, or the hosts of one NVLink domain. Equal
//! machines are planned once and counted, so a job of many equal hosts costs no more than one host.
//! A *node* is a set of ranks that reach each other without the network: normally a machine, or a
//! part of one where the network is faster than what joins its GPUs.
//!
//! Global ranks count machine after machine, and within a machine host after host by device number,
//! unless the job has a [`RankOrder`] of its own.

use std::sync::Arc;

use plan::order::MAX_ORDERED_RANKS;
use plan::{DomainShape, JobLayout, NodePlace, OrderError, RankOrder};
use topology::xml::Document;
use topology::{NodeType, System};

use crate::error::Error;
use crate::explain;
use crate::host_plan::HostPlan;
use crate::job::{EqualHosts, Job, RankPlacement};
use crate::settings::Settings;
use crate::shared_gpus::forbid_nvls;
use crate::view::{View, number_ranks};

/// Most ranks of a job; NCCL numbers them with 32 bits and a sign.
const MAX_RANKS: u64 = i32::MAX as u64;

/// The decisions of one machine's ranks. Ranks count from 0 within the machine.
#[derive(Debug, Clone)]
pub struct MachinePlan {
    /// The machine's name.
    pub name: String,
    /// The machine, in one line, and how it was edited.
    pub summary: String,
    /// Its topology.
    pub document: Arc<Document>,
    /// GPUs of the machine, before any view was trimmed.
    pub gpus: usize,
    /// One plan per node, in the order of their lowest ranks.
    pub nodes: Vec<HostPlan>,
    /// Network ports that a host's plug-in sees: fewest and most over the hosts of the machine.
    pub(crate) ports: (usize, usize),
    shape: DomainShape,
}

impl MachinePlan {
    fn new(
        hosts: &EqualHosts,
        mut system: System,
        collnet: bool,
        settings: &Arc<Settings>,
        ranks: usize,
    ) -> Result<Self, Error> {
        let mut summary = explain::machine(&system);
        if !hosts.edits.is_empty() {
            let edits: Vec<String> = hosts.edits.iter().map(ToString::to_string).collect();
            summary.push_str(&format!("; edited: {}", edits.join(", ")));
        }
        number_ranks(&mut system);
        let mut host_of = vec![0; system.count(NodeType::Gpu)];
        for (node, gpu) in system.gpus() {
            host_of[gpu.rank as usize] = system.node(node).id.system();
        }
        let mut ports = vec![0usize; system.hosts().len().max(1)];
        for (node, _) in system.nets() {
            if let Some(count) = ports.get_mut(system.node(node).id.system() as usize) {
                *count += 1;
            }
        }
        let nodes: Vec<HostPlan> = View::all(system, settings, collnet, ranks)?
            .into_iter()
            .map(HostPlan::search)
            .collect::<Result<_, _>>()?;
        Ok(Self {
            name: hosts.name.clone(),
            summary,
            document: Arc::clone(&hosts.document),
            gpus: host_of.len(),
            shape: DomainShape::new(nodes.iter().map(HostPlan::ranks).collect(), host_of),
            nodes,
            ports: (
                ports.iter().copied().min().unwrap_or(0),
                ports.iter().copied().max().unwrap_or(0),
            ),
        })
    }

    /// Whether the machine is an NVLink domain of several hosts.
    pub fn is_domain(&self) -> bool {
        let first = self.nodes.first();
        first.is_some_and(|node| node.view.system().hosts().len() > 1)
    }
}

/// The decisions of every machine of a job, and the places of the machines in the job.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// Where ranks and nodes are.
    pub layout: JobLayout,
    /// The distinct machines of the job, in order of first appearance.
    pub machines: Vec<MachinePlan>,
    /// Machines in a row: which of `machines`, and how many.
    pub runs: Vec<(usize, u32)>,
    /// Which rank runs on which GPU, where ranks do not count host after host.
    pub order: Option<RankOrder>,
    /// Graphs for a network that reduces were searched.
    pub collnet: bool,
}

impl ClusterPlan {
    /// Plans each distinct machine of a job once, as each of its ranks sees it.
    pub(crate) fn new(
        job: &Job,
        hosts: &[EqualHosts],
        settings: &Arc<Settings>,
    ) -> Result<Self, Error> {
        let unplanned = DistinctMachines::new(hosts, settings)?;
        let gpu_runs = unplanned.gpu_runs();
        let ranks: u64 = gpu_runs
            .iter()
            .map(|(gpus, count)| u64::from(*gpus) * u64::from(*count))
            .sum();
        if gpu_runs.is_empty() {
            return Err(Error::NoHosts);
        }
        if ranks > MAX_RANKS {
            return Err(Error::TooManyRanks { ranks });
        }
        let order = rank_order(&job.ranks, &gpu_runs, ranks as u32)?;
        let first_hosts = unplanned.first_hosts();
        let DistinctMachines {
            machines: systems,
            runs,
        } = unplanned;
        let several = systems.len() > 1;
        let all: Vec<&System> = systems.iter().map(|(_, system)| system).collect();
        let settings = &match forbid_nvls(&all, &runs, order.as_ref(), settings)? {
            true => Arc::new(Settings {
                nvls_enable: 0,
                ..Settings::clone(settings)
            }),
            false => Arc::clone(settings),
        };
        let mut machines = Vec::new();
        for ((hosts, system), host) in systems.into_iter().zip(first_hosts) {
            let planned = MachinePlan::new(hosts, system, job.collnet, settings, ranks as usize);
            machines.push(planned.map_err(|error| match several {
                true => Error::OfHost {
                    host,
                    error: Box::new(error),
                },
                false => error,
            })?);
        }
        let shapes = machines.iter().map(|machine| machine.shape.clone());
        Ok(Self {
            layout: JobLayout::new(shapes.collect(), &runs, order.as_ref())?,
            machines,
            runs,
            order: order.filter(|order| !order.is_plain()),
            collnet: job.collnet && settings.collnet_enable != Some(false),
        })
    }

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

/// The distinct machines of a job before they are planned.
struct DistinctMachines<'a> {
    /// In order of first appearance.
    machines: Vec<(&'a EqualHosts, System)>,
    /// Machines in a row: which of `machines`, and how many.
    runs: Vec<(usize, u32)>,
}

impl<'a> DistinctMachines<'a> {
    fn new(hosts: &'a [EqualHosts], settings: &Settings) -> Result<Self, Error> {
        let mut machines: Vec<(&EqualHosts, System)> = Vec::new();
        let mut runs: Vec<(usize, u32)> = Vec::new();
        for hosts in hosts.iter().filter(|hosts| hosts.count > 0) {
            let known = machines.iter().position(|(known, _)| {
                Arc::ptr_eq(&known.document, &hosts.document)
                    || known.document.root.same_as(&hosts.document.root)
            });
            let at = match known {
                Some(at) => at,
                None => {
                    let system =
                        System::from_document_with(&hosts.document, settings.build_options())?;
                    machines.push((hosts, system));
                    machines.len() - 1
                }
            };
            match runs.last_mut() {
                Some((last, count)) if *last == at => *count = count.saturating_add(hosts.count),
                _ => runs.push((at, hosts.count)),
            }
        }
        Ok(Self { machines, runs })
    }

    /// GPUs of the machines in a row: how many each has, and how many machines.
    fn gpu_runs(&self) -> Vec<(u32, u32)> {
        let gpus = |machine: usize| self.machines[machine].1.count(NodeType::Gpu) as u32;
        self.runs
            .iter()
            .map(|(machine, count)| (gpus(*machine), *count))
            .collect()
    }

    /// For each machine the number of its first host in the job, for messages.
    fn first_hosts(&self) -> Vec<u32> {
        let mut first = vec![None; self.machines.len()];
        let mut host = 0u32;
        for (machine, count) in &self.runs {
            first[*machine].get_or_insert(host);
            let hosts = self.machines[*machine].1.hosts().len().max(1) as u32;
            host = host.saturating_add(hosts.saturating_mul(*count));
        }
        first.into_iter().map(|host| host.unwrap_or(0)).collect()
    }
}

fn rank_order(
    placement: &RankPlacement,
    gpu_runs: &[(u32, u32)],
    ranks: u32,
) -> Result<Option<RankOrder>, Error> {
    Ok(match placement {
        RankPlacement::HostByHost => None,
        RankPlacement::Listed(order) => Some(order.clone()),
        RankPlacement::RoundRobin if ranks > MAX_ORDERED_RANKS => {
            return Err(OrderError::TooManyRanks { ranks }.into());
        }
        RankPlacement::RoundRobin => Some(RankOrder::round_robin(gpu_runs)),
    })
}
