//! The memory, channels, connections and multicast slots of a job's communicators, and the first
//! that runs out.
//!
//! In reading order: [`groups`] (which communicators a job has), this file, `page`.

pub mod groups;
mod page;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use plan::cost::TunedOperation;
use plan::{Algorithm, Error};
use planner::explain::count;
use planner::memory::{
    Bytes, Ledger, MULTICAST_SLOTS, MemorySettings, MemoryUse, Purpose, Stage, of_node,
};
use planner::{EqualHosts, Job, Planned, RankPlacement, Settings, gpu_devices, with_gpus};
use program::Collective;
use serde::{Deserialize, Serialize};

use crate::cost::CostQuestion;
use crate::names;
use crate::values::{self, Flattened};
use crate::{Args, JsonSchema};
pub use groups::GroupShape;
pub use report::{AllocatedPart, Communicator, GpuMemory, MemoryReport, StageNumber};

/// Nodes of a communicator that are looked at: trees have no other kinds of nodes.
pub(crate) const MOST_NODES: u32 = 16;

/// What to count.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Args)]
pub struct MemoryQuestion {
    /// What the job calls on each communicator: its choices connect.
    #[serde(flatten)]
    #[command(flatten)]
    pub calls: CostQuestion,
    /// The job's communicators by ranks and the distance between them, such as 8,16:8 [default: one
    /// of all ranks]
    #[serde(default, deserialize_with = "values::list_by_name")]
    #[arg(
        long,
        value_name = "SIZE:STRIDE",
        value_delimiter = ',',
        requires = "memory"
    )]
    #[schemars(with = "Vec<String>")]
    pub groups: Vec<GroupShape>,
    /// All ranks of a communicator also send to each other
    #[serde(default)]
    #[arg(long, requires = "memory")]
    pub peers: bool,
    /// GPU memory that is left for communicators
    #[serde(default)]
    #[arg(long, value_name = "SIZE", value_parser = program::size::parse, requires = "memory")]
    pub gpu_memory: Option<u64>,
}

impl Flattened for MemoryQuestion {
    const FIELDS: &[&[&str]] = &[CostQuestion::OF_CALLS, &["groups", "peers", "gpu_memory"]];
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The hosts differ.
    #[error("the hosts of the job differ; communicators of some ranks need equal hosts")]
    HostsDiffer,
    /// A file describes several hosts.
    #[error(
        "the file describes several hosts of an NVLink domain; communicators of some ranks need the file of one, with a \
         number of hosts"
    )]
    SeveralHosts,
    /// The job's ranks do not fill communicators of a shape.
    #[error(
        "communicators {shape} do not divide the {ranks} ranks of the job; expected a product of size and stride that does"
    )]
    NotDivided {
        /// The shape.
        shape: GroupShape,
        /// Ranks of the job.
        ranks: u64,
    },
    /// NCCL refuses a communicator.
    #[error("communicators {shape}: {why}")]
    Refused {
        /// The shape.
        shape: GroupShape,
        /// NCCL's reason.
        why: Box<planner::Error>,
    },
    /// A plan has no connections.
    #[error(transparent)]
    Plan(#[from] Error),
    /// There are too many sizes.
    #[error("{0}")]
    Sizes(String),
}

/// Something that is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Limit {
    /// Its name.
    pub name: &'static str,
    /// What the communicators take.
    pub taken: u64,
    /// What there is.
    pub room: u64,
}

impl Limit {
    /// How often the communicators fit; `None` if they take nothing.
    pub const fn times(&self) -> Option<u64> {
        self.room.checked_div(self.taken)
    }

    /// Those of which something is taken and known, that which runs out first before others.
    pub fn ordered(limits: [Self; 2]) -> Vec<Self> {
        let mut limits = limits.to_vec();
        limits.retain(|limit| limit.room > 0 && limit.taken > 0);
        limits.sort_by_key(Self::times);
        limits
    }
}

/// Counts what communicators of a job take. `planned` is the plan of all ranks.
///
/// # Errors
/// The communicators do not fit the job, or NCCL refuses one.
pub fn communicators(
    job: &Job,
    planned: &Planned,
    question: &MemoryQuestion,
) -> Result<MemoryReport, MemoryError> {
    let settings = planned.settings.as_ref();
    let mut counter = Counter {
        job,
        settings,
        memory: MemorySettings::of(settings),
        question,
        gpus: BTreeMap::new(),
        multicast_objects: 0,
    };
    let mut found = Vec::new();
    if question.groups.is_empty() {
        found.push(counter.whole(planned)?);
    }
    for shape in &question.groups {
        found.push(counter.alike(planned, *shape)?);
    }
    let plan = planned.plan();
    let most = counter.gpus.values().map(|bytes| bytes.device).max();
    // That which runs out first is first.
    let limits = Limit::ordered([
        Limit {
            name: "multicast slots",
            taken: counter.multicast_objects.into(),
            room: MULTICAST_SLOTS.into(),
        },
        Limit {
            name: "GPU memory",
            taken: most.unwrap_or(0),
            room: question.gpu_memory.unwrap_or(0),
        },
    ]);
    let gpus = counter.gpus.into_iter().map(|(gpu, bytes)| GpuMemory {
        gpu,
        device_bytes: bytes.device,
        host_bytes: bytes.host,
    });
    Ok(MemoryReport {
        name: names::job(plan),
        hosts: plan.request.hosts,
        ranks: plan.rank_count(),
        profile: plan.profile.clone(),
        connects_late: counter.memory.connects_late,
        virtual_memory: counter.memory.virtual_memory,
        communicators: found,
        gpus: gpus.collect(),
        limits,
    })
}

/// Adds up the communicators.
struct Counter<'a> {
    job: &'a Job,
    settings: &'a Settings,
    memory: MemorySettings,
    question: &'a MemoryQuestion,
    /// By device number of the first host's GPUs.
    gpus: BTreeMap<i32, Bytes>,
    multicast_objects: u32,
}

impl Counter<'_> {
    /// The communicator of all ranks.
    fn whole(&mut self, planned: &Planned) -> Result<Communicator, MemoryError> {
        let devices = match self.job.hosts.first() {
            Some(hosts) => gpu_devices(&hosts.document),
            None => Vec::new(),
        };
        let mut found = self.communicator(planned, None, &devices)?;
        found.number = 1;
        Ok(found)
    }

    /// The communicators of a shape that have ranks on the first host.
    fn alike(&mut self, whole: &Planned, shape: GroupShape) -> Result<Communicator, MemoryError> {
        let [hosts] = &self.job.hosts[..] else {
            return Err(MemoryError::HostsDiffer);
        };
        if hosts.document.recorded_hosts() > 1 {
            return Err(MemoryError::SeveralHosts);
        }
        let devices = gpu_devices(&hosts.document);
        let each = devices.len() as u64;
        let ranks = each * u64::from(hosts.count);
        if !shape.divides(ranks) {
            return Err(MemoryError::NotDivided { shape, ranks });
        }
        // Hosts and GPUs of ranks, in whatever order the job has them.
        let layout = whole.plan().expansion()?.layout();
        let place = |rank: u64| u32::try_from(rank).ok().and_then(|it| layout.rank(it));
        let on_first = |rank: u64| place(rank).is_some_and(|it| it.host == 0);
        let is_near = |rank: u64| self.job.nvlink_domain || on_first(rank);
        // By the GPUs on each of its hosts, and whether the first is the job's: how many there are.
        let mut kinds: BTreeMap<(Vec<Vec<i32>>, bool), u32> = BTreeMap::new();
        for rank in (0..ranks).filter(|rank| is_near(*rank)) {
            let first = shape.members(rank).find(|member| is_near(*member));
            if first != Some(rank) {
                continue;
            }
            let mut on_hosts: BTreeMap<u32, Vec<i32>> = BTreeMap::new();
            for member in shape.members(rank).filter_map(place) {
                let device = devices.get(member.local as usize).copied();
                on_hosts.entry(member.host).or_default().extend(device);
            }
            on_hosts.values_mut().for_each(|it| it.sort_unstable());
            let begins = on_hosts.contains_key(&0);
            let kind = (on_hosts.into_values().collect(), begins);
            *kinds.entry(kind).or_default() += 1;
        }
        let mut most: Option<Communicator> = None;
        let mut number = 0;
        for ((on_hosts, begins), times) in kinds {
            let planned = self.plan(hosts, &on_hosts, shape)?;
            let first = on_hosts.first().filter(|_| begins);
            let first = first.cloned().unwrap_or_default();
            for _ in 0..times {
                let found = self.communicator(&planned, Some(shape), &first)?;
                let known = most.as_ref();
                if known.is_none_or(|known| found.device_bytes > known.device_bytes) {
                    most = Some(found);
                }
            }
            number += times;
        }
        let mut most = most.ok_or(MemoryError::NotDivided { shape, ranks })?;
        most.number = number;
        Ok(most)
    }

    /// Plans a communicator by the GPUs that it has on each host.
    fn plan(
        &self,
        hosts: &EqualHosts,
        on_hosts: &[Vec<i32>],
        shape: GroupShape,
    ) -> Result<Planned, MemoryError> {
        let runs = on_hosts.chunk_by(|a, b| a == b).map(|run| EqualHosts {
            name: hosts.name.clone(),
            document: Arc::new(with_gpus(&hosts.document, &run[0])),
            edits: hosts.edits.clone(),
            count: run.len() as u32,
        });
        let job = Job {
            hosts: runs.collect(),
            ranks: RankPlacement::default(),
            ..self.job.clone()
        };
        planner::plan(&job, self.settings).map_err(|why| MemoryError::Refused {
            shape,
            why: Box::new(why),
        })
    }

    /// Counts a communicator. `devices` are its GPUs on the first host.
    fn communicator(
        &mut self,
        planned: &Planned,
        shape: Option<GroupShape>,
        devices: &[i32],
    ) -> Result<Communicator, MemoryError> {
        let expansion = planned.plan().expansion()?;
        let layout = expansion.layout();
        let calls = &self.question.calls;
        let algorithms = algorithms(planned, calls)?;
        let all_to_all = calls.collectives().contains(&Collective::AllToAll);
        let usage = MemoryUse {
            algorithms: algorithms.clone(),
            peers: self.question.peers || all_to_all,
        };
        let mut most: Option<(u32, Ledger)> = None;
        let mut channels = 0;
        let mut multicast_objects = BTreeMap::new();
        for node in (0..layout.nodes().min(MOST_NODES)).filter_map(|node| layout.node(node)) {
            let rules = self.settings.rules;
            let memory = of_node(expansion, node, &usage, &self.memory, rules)?;
            channels = memory.channels;
            if node.node == 0 {
                self.multicast_objects += memory.multicast_objects.values().sum::<u32>();
                multicast_objects.clone_from(&memory.multicast_objects);
            }
            for (rank, ledger) in memory.ranks {
                let total = ledger.total(|_| true);
                if let Some(place) = layout.rank(rank).filter(|place| place.host == 0)
                    && let Some(device) = devices.get(place.local as usize)
                {
                    *self.gpus.entry(*device).or_default() += total;
                }
                let is_more =
                    |(_, other): &(u32, Ledger)| total.device > other.total(|_| true).device;
                if most.as_ref().is_none_or(is_more) {
                    most = Some((rank, ledger));
                }
            }
        }
        let (rank, most) = most.unwrap_or_default();
        let common = expansion.common();
        let total = most.total(|_| true);
        let parts = most.bytes.iter();
        let parts = parts.map(|((stage, purpose), bytes)| AllocatedPart {
            stage: stage.name(),
            purpose: purpose.name(),
            device_bytes: bytes.device,
            host_bytes: bytes.host,
        });
        let number = |(stage, number): (&Stage, &u32)| StageNumber {
            stage: stage.name(),
            number: *number,
        };
        Ok(Communicator {
            shape: shape.map(|it| it.to_string()),
            ranks: layout.ranks(),
            nodes: layout.nodes(),
            number: 0,
            channels,
            most_blocks: common.channels.count(),
            most_nvls_blocks: common.nvls.map_or(0, |nvls| nvls.channels),
            most_peer_blocks: common.p2p.channels,
            algorithms,
            rank,
            device_bytes: total.device,
            host_bytes: total.host,
            parts: parts.collect(),
            connections: most.connections.iter().map(number).collect(),
            multicast_objects: multicast_objects.iter().map(number).collect(),
            most,
        })
    }
}

/// The algorithms that calls take.
fn algorithms(planned: &Planned, calls: &CostQuestion) -> Result<Vec<Algorithm>, MemoryError> {
    let sizes = calls.sizes().map_err(MemoryError::Sizes)?;
    let mut found = Vec::new();
    for collective in calls.collectives() {
        for bytes in &sizes {
            let operation = TunedOperation {
                collective,
                bytes: *bytes,
                calls: calls.calls.calls(),
            };
            if let Ok(choice) = planned.costs.choose_for(&operation)
                && !found.contains(&choice.algorithm)
            {
                found.push(choice.algorithm);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

impl Communicator {
    /// How many there are, in words.
    pub fn title(&self) -> String {
        let size = format!(
            "{} on {}",
            count(self.ranks as usize, "rank"),
            count(self.nodes as usize, "node")
        );
        match &self.shape {
            None => size,
            Some(shape) => format!("{shape}: {size}, {} on the first host", self.number),
        }
    }

    /// Bytes by purpose, and by stage.
    pub fn table(&self) -> BTreeMap<Purpose, BTreeMap<Stage, Bytes>> {
        let mut table: BTreeMap<Purpose, BTreeMap<Stage, Bytes>> = BTreeMap::new();
        for ((stage, purpose), bytes) in &self.most.bytes {
            *table
                .entry(*purpose)
                .or_default()
                .entry(*stage)
                .or_default() += *bytes;
        }
        table
    }

    /// The stages of which something is allocated.
    pub fn stages(&self) -> impl Iterator<Item = Stage> + '_ {
        let used = |stage: &Stage| self.most.bytes.keys().any(|(of, _)| of == stage);
        Stage::ALL.into_iter().filter(used)
    }
}
