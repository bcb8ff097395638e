//! The communicators of a group that NCCL cannot tell apart: the same GPUs on each of its hosts.
//!
//! Each such shape is planned once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use planner::cost::CostProfile;
use planner::{EqualHosts, Job, Planned, RankPlacement, Settings, nvlink_domain, with_gpus};
use serde::Serialize;
use simulator::fabric::Leaf;
use topology::xml::Document;
use workload::Members;

use super::StepError;
use super::places::{Place, Places};
use crate::JsonSchema;

/// Most different shapes of a group's communicators.
const MOST_SHAPES: usize = 1 << 10;

/// What a communicator has of a job, as NCCL sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// Its machines in order, equal ones in a row.
    machines: Vec<MachineRun>,
    /// The slot of each of its ranks, counted machine after machine; none: in order.
    order: Vec<u32>,
}

/// Equal machines in a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MachineRun {
    /// The hosts of one machine; several form an NVLink domain.
    hosts: Vec<HostGpus>,
    /// Machines.
    count: u32,
}

/// The GPUs of a communicator on a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct HostGpus {
    /// Index of the host's entry in the job.
    kind: usize,
    /// Device numbers, ascending.
    devices: Vec<i32>,
}

/// Ranks of a communicator that are named.
const NAMED_RANKS: usize = 16;

/// Communicators that are alike.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Alike {
    /// Communicators.
    pub number: u32,
    /// Ranks of each.
    pub ranks: u32,
    /// Hosts of each.
    pub hosts: u32,
    /// Hosts, or NVLink domains of several, of each.
    pub machines: u32,
    /// Fewest and most ranks on a host.
    pub on_a_host: [u32; 2],
    /// The first ranks of the first one.
    pub first_ranks: Vec<u32>,
    /// The shape.
    #[serde(skip)]
    pub(super) shape: Shape,
    /// Those with ranks on the first host, or in the first NVLink domain.
    #[serde(skip)]
    pub(super) near: u32,
    /// Those that begin on the first host.
    #[serde(skip)]
    pub(super) here: u32,
    /// What all of them send out of each leaf switch.
    #[serde(skip)]
    pub(super) leaves: Vec<Crossing>,
    /// What all of them send out of the first host in an all-to-all, in messages of a rank.
    #[serde(skip)]
    pub(super) exchange: f64,
}

/// What communicators send out of a leaf switch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crossing {
    /// Hops of rings over the hosts.
    pub(super) hops: f64,
    /// Messages of a rank in an all-to-all.
    pub(super) exchange: f64,
}

impl Shape {
    /// Ranks of a communicator.
    fn ranks(&self) -> u32 {
        let of = |run: &MachineRun| {
            let each: usize = run.hosts.iter().map(|host| host.devices.len()).sum();
            each as u32 * run.count
        };
        self.machines.iter().map(of).sum()
    }

    /// Hosts of a communicator.
    fn hosts(&self) -> u32 {
        let of = |run: &MachineRun| run.hosts.len() as u32 * run.count;
        self.machines.iter().map(of).sum()
    }

    /// Machines of a communicator: hosts, or NVLink domains of several.
    fn machines(&self) -> u32 {
        self.machines.iter().map(|run| run.count).sum()
    }

    /// Fewest and most ranks on a host.
    fn on_a_host(&self) -> [u32; 2] {
        let hosts = self.machines.iter().flat_map(|run| &run.hosts);
        let counts = hosts.map(|host| host.devices.len() as u32);
        let (least, most) = (counts.clone().min(), counts.max());
        [least, most].map(|it| it.unwrap_or(0))
    }
}

/// The shapes of a group's communicators, in order of first appearance.
pub(super) fn shapes(
    name: &str,
    members: &Members,
    places: &Places,
    domain_hosts: u32,
    leaf: Option<&Leaf>,
) -> Result<Vec<Alike>, StepError> {
    let all = members
        .communicators(places.ranks())
        .map_err(|why| StepError::Members {
            group: name.to_owned(),
            why,
        })?;
    let mut found: Vec<Alike> = Vec::new();
    let mut known: HashMap<Shape, usize> = HashMap::new();
    for ranks in all {
        let its: Vec<Place> = ranks.iter().filter_map(|it| places.place(*it)).collect();
        let near = its.iter().any(|place| place.host < domain_hosts.max(1));
        let shape = shape(&its, domain_hosts);
        let at = match known.get(&shape) {
            Some(at) => *at,
            None => {
                if found.len() >= MOST_SHAPES {
                    return Err(StepError::TooManyShapes {
                        group: name.to_owned(),
                        most: MOST_SHAPES,
                    });
                }
                known.insert(shape.clone(), found.len());
                found.push(Alike {
                    number: 0,
                    ranks: shape.ranks(),
                    hosts: shape.hosts(),
                    machines: shape.machines(),
                    on_a_host: shape.on_a_host(),
                    first_ranks: ranks.into_iter().take(NAMED_RANKS).collect(),
                    shape,
                    near: 0,
                    here: 0,
                    leaves: leaf.map_or(Vec::new(), |leaf| {
                        vec![Crossing::default(); leaf.count(places.hosts()) as usize]
                    }),
                    exchange: 0.0,
                });
                found.len() - 1
            }
        };
        found[at].number += 1;
        found[at].near += u32::from(near);
        found[at].here += u32::from(its.first().is_some_and(|place| place.host == 0));
        if let Some(leaf) = leaf {
            found[at].exchange += exchange(&its, |place| place.host == 0);
            cross(&mut found[at].leaves, &its, leaf);
        }
    }
    Ok(found)
}

/// What ranks at some places send to the others in an all-to-all, in messages of a rank.
fn exchange(places: &[Place], is_here: impl Fn(&Place) -> bool) -> f64 {
    let here = places.iter().filter(|it| is_here(it)).count() as f64;
    let all = places.len().max(1) as f64;
    here * (all - here) / all
}

/// Adds what a communicator sends out of each leaf switch.
fn cross(leaves: &mut [Crossing], places: &[Place], leaf: &Leaf) {
    let mut hosts: Vec<u32> = Vec::new();
    let mut known: HashSet<u32> = HashSet::new();
    let mut ranks: HashMap<u32, f64> = HashMap::new();
    for place in places {
        if known.insert(place.host) {
            hosts.push(place.host);
        }
        *ranks.entry(leaf.of_host(place.host)).or_default() += 1.0;
    }
    for (at, host) in hosts.iter().enumerate() {
        let next = hosts[(at + 1) % hosts.len()];
        let [from, to] = [*host, next].map(|it| leaf.of_host(it));
        if let Some(crossing) = leaves.get_mut(from as usize).filter(|_| from != to) {
            crossing.hops += 1.0;
        }
    }
    let all = places.len() as f64;
    for (at, here) in ranks {
        if let Some(crossing) = leaves.get_mut(at as usize) {
            crossing.exchange += here * (all - here) / all;
        }
    }
}

/// The shape of a communicator whose ranks are at these places. Hosts `0..domain_hosts` form an
/// NVLink domain, so do the next ones, and so on.
pub(super) fn shape(places: &[Place], domain_hosts: u32) -> Shape {
    // Hosts in order of first appearance, domain after domain.
    let mut domains: Vec<Vec<(Place, Vec<i32>)>> = Vec::new();
    let mut domain_at: HashMap<u32, usize> = HashMap::new();
    let mut host_at: HashMap<u32, usize> = HashMap::new();
    let domain_of = |host: u32| host / domain_hosts.max(1);
    for place in places {
        let domain = *domain_at.entry(domain_of(place.host)).or_insert_with(|| {
            domains.push(Vec::new());
            domains.len() - 1
        });
        let hosts = &mut domains[domain];
        let host = *host_at.entry(place.host).or_insert_with(|| {
            hosts.push((*place, Vec::new()));
            hosts.len() - 1
        });
        hosts[host].1.push(place.device);
    }
    let mut first_slot: HashMap<u32, u32> = HashMap::new();
    let mut next = 0;
    for (place, devices) in domains.iter_mut().flatten() {
        devices.sort_unstable();
        first_slot.insert(place.host, next);
        next += devices.len() as u32;
    }
    let slot = |place: &Place| {
        let domain = domain_at.get(&domain_of(place.host))?;
        let (_, devices) = domains[*domain].get(*host_at.get(&place.host)?)?;
        let inside = devices.binary_search(&place.device).ok()?;
        Some(first_slot.get(&place.host)? + inside as u32)
    };
    let mut order: Vec<u32> = places.iter().filter_map(slot).collect();
    if order
        .iter()
        .enumerate()
        .all(|(at, slot)| *slot == at as u32)
    {
        order.clear();
    }
    let mut machines: Vec<MachineRun> = Vec::new();
    for domain in domains {
        let hosts: Vec<HostGpus> = domain
            .into_iter()
            .map(|(place, devices)| HostGpus {
                kind: place.kind,
                devices,
            })
            .collect();
        match machines.last_mut() {
            Some(last) if last.hosts == hosts => last.count += 1,
            _ => machines.push(MachineRun { hosts, count: 1 }),
        }
    }
    Shape { machines, order }
}

/// Plans shapes, each once.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    job: &'a Job,
    settings: &'a Settings,
    /// Hosts with some of their GPUs.
    hosts: HashMap<HostGpus, Arc<Document>>,
    /// Where each shape is in `planned`.
    known: HashMap<Shape, usize>,
    /// The plans.
    pub(super) planned: Vec<Planned>,
    /// The constants whose times count, and the same plans with them; none: NCCL's.
    profile: Option<CostProfile>,
    timed: Vec<Planned>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(job: &'a Job, settings: &'a Settings, profile: Option<CostProfile>) -> Self {
        Self {
            job,
            settings,
            hosts: HashMap::new(),
            known: HashMap::new(),
            planned: Vec::new(),
            profile,
            timed: Vec::new(),
        }
    }

    /// A plan, and the one whose times count.
    pub(super) fn get(&self, at: usize) -> (&Planned, &Planned) {
        let planned = &self.planned[at];
        (planned, self.timed.get(at).unwrap_or(planned))
    }

    /// The index of a shape's plan.
    pub(super) fn plan(&mut self, group: &str, shape: &Shape) -> Result<usize, StepError> {
        if let Some(known) = self.known.get(shape) {
            return Ok(*known);
        }
        let job = self.sub_job(shape);
        let plan = |job: &Job| {
            planner::plan(job, self.settings).map_err(|why| StepError::Refused {
                group: group.to_owned(),
                why: Box::new(why),
            })
        };
        let planned = plan(&job)?;
        if let Some(profile) = &self.profile {
            let timed = plan(&Job {
                profile: Some(profile.clone()),
                ..job
            })?;
            self.timed.push(timed);
        }
        self.planned.push(planned);
        let at = self.planned.len() - 1;
        self.known.insert(shape.clone(), at);
        Ok(at)
    }

    /// The job of a communicator alone.
    fn sub_job(&mut self, shape: &Shape) -> Job {
        let is_domain = |run: &MachineRun| run.hosts.len() > 1;
        let hosts = match &shape.machines[..] {
            // The planner joins the hosts of a single domain.
            [run] if run.count == 1 => self.equal_hosts(&run.hosts),
            runs => runs
                .iter()
                .flat_map(|run| match is_domain(run) {
                    true => self.domain(run),
                    false => {
                        let mut hosts = self.equal_hosts(&run.hosts);
                        hosts.iter_mut().for_each(|it| it.count = run.count);
                        hosts
                    }
                })
                .collect(),
        };
        Job {
            nvlink_domain: matches!(&shape.machines[..], [run] if run.count == 1 && is_domain(run)),
            hosts,
            ranks: match shape.order.is_empty() {
                true => RankPlacement::default(),
                false => RankPlacement::Listed(plan::RankOrder::new(shape.order.iter().copied())),
            },
            ..self.job.clone()
        }
    }

    /// Hosts in order, equal ones together.
    fn equal_hosts(&mut self, hosts: &[HostGpus]) -> Vec<EqualHosts> {
        let runs = hosts.chunk_by(|a, b| a == b);
        let runs = runs.filter_map(|run| run.first().map(|host| (host, run.len() as u32)));
        runs.map(|(host, count)| EqualHosts {
            name: self.job.hosts[host.kind].name.clone(),
            document: self.document(host),
            edits: self.job.hosts[host.kind].edits.clone(),
            count,
        })
        .collect()
    }

    /// Equal NVLink domains, which the network joins.
    fn domain(&mut self, run: &MachineRun) -> Vec<EqualHosts> {
        let documents: Vec<Arc<Document>> = run.hosts.iter().map(|it| self.document(it)).collect();
        let joined = nvlink_domain(documents.iter().map(|it| &**it));
        let first = run.hosts.first().map(|host| &self.job.hosts[host.kind]);
        let domains = first.zip(joined).map(|(first, joined)| EqualHosts {
            name: first.name.clone(),
            document: Arc::new(joined),
            edits: first.edits.clone(),
            count: run.count,
        });
        domains.into_iter().collect()
    }

    /// A host with some of its GPUs.
    fn document(&mut self, host: &HostGpus) -> Arc<Document> {
        if let Some(known) = self.hosts.get(host) {
            return Arc::clone(known);
        }
        let whole = &self.job.hosts[host.kind].document;
        let document = match planner::gpu_devices(whole) == host.devices {
            true => Arc::clone(whole),
            false => Arc::new(with_gpus(whole, &host.devices)),
        };
        self.hosts.insert(host.clone(), Arc::clone(&document));
        document
    }
}
