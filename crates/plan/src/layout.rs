//! The places of the ranks, nodes and hosts of a job.
//!
//! Everything is computed: memory does not grow with the number of equal hosts, unless the job has
//! a rank order of its own.
//!
//! A *domain* is one machine of the plan: one host, or the hosts of one NVLink domain. A *node* is
//! a set of ranks that reach each other without the network. It is normally a domain; if the
//! network is faster than the links between its GPUs, a part of one. Nodes are numbered in the
//! order of their lowest ranks.

use crate::content::PlanContent;
use crate::error::Error;
use crate::order::{OrderError, RankOrder};

/// The nodes and hosts of a domain's GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainShape {
    /// For each node its GPUs, ascending, counted from the domain's first.
    members: Vec<Vec<u32>>,
    /// For each GPU its node and its position among that node's GPUs.
    place_of: Vec<(u32, u32)>,
    /// For each GPU its host within the domain.
    host_of: Vec<u32>,
    hosts: u32,
}

impl DomainShape {
    /// Creates the shape from the GPUs of each node, ascending, and the host of each GPU. Hosts may
    /// have any numbers; they are renumbered in that order.
    pub fn new(members: Vec<Vec<u32>>, mut host_of: Vec<u32>) -> Self {
        let mut names = host_of.clone();
        names.sort_unstable();
        names.dedup();
        for host in &mut host_of {
            *host = names.partition_point(|name| name < host) as u32;
        }
        let mut place_of = vec![(0, 0); host_of.len()];
        for (node, gpus) in members.iter().enumerate() {
            for (position, gpu) in gpus.iter().enumerate() {
                if let Some(place) = place_of.get_mut(*gpu as usize) {
                    *place = (node as u32, position as u32);
                }
            }
        }
        Self {
            members,
            place_of,
            host_of,
            hosts: names.len() as u32,
        }
    }

    fn gpus(&self) -> u32 {
        self.place_of.len() as u32
    }
}

/// Equal domains in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    machine: u32,
    domains: u32,
    first_domain: u32,
    first_slot: u32,
    first_node: u32,
    first_host: u32,
}

/// The look-up tables of a rank order.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OrderTables {
    slot_of: Vec<u32>,
    rank_of: Vec<u32>,
    /// For each node its number if nodes are counted domain after domain.
    plain_of: Vec<u32>,
    /// The inverse of `plain_of`.
    node_of: Vec<u32>,
    /// Ranks before each node if ranks are counted node after node.
    before: Vec<u32>,
}

/// Where the ranks and nodes of a job are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLayout {
    shapes: Vec<DomainShape>,
    runs: Vec<Run>,
    ranks: u32,
    nodes: u32,
    hosts: u32,
    ordered: Option<Box<OrderTables>>,
}

/// Where a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPlace {
    /// Its number in the job.
    pub rank: u32,
    /// Its GPU, counted from the domain's first ([`MachineGpu::rank`](crate::MachineGpu::rank)).
    pub local: u32,
    /// The position of that GPU among those of its node, which are in ascending order.
    pub member: u32,
    /// Its host, counted over the whole job.
    pub host: u32,
    /// Its node.
    pub node: NodePlace,
}

/// Where a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePlace {
    /// Its number in the job (NCCL's `node`).
    pub node: u32,
    /// Its domain, counted over the whole job.
    pub domain: u32,
    /// The domain's machine, as an index into the plan's `machines`.
    pub machine: u32,
    /// Its index among the domain's nodes.
    pub index: u32,
    /// The first slot of the domain: the rank of its first GPU if ranks count host after host.
    first_slot: u32,
}

impl JobLayout {
    /// Creates the layout from the machines' shapes and runs of (machine, number of domains).
    ///
    /// The caller ensures that rank numbers fit 31 bits and that no shape is empty.
    ///
    /// # Errors
    /// The rank order does not give each rank a GPU of its own.
    pub fn new(
        shapes: Vec<DomainShape>,
        runs: &[(usize, u32)],
        order: Option<&RankOrder>,
    ) -> Result<Self, OrderError> {
        let mut layout = Self {
            shapes,
            runs: Vec::with_capacity(runs.len()),
            ranks: 0,
            nodes: 0,
            hosts: 0,
            ordered: None,
        };
        let mut domains = 0;
        for (machine, count) in runs {
            let shape = &layout.shapes[*machine];
            layout.runs.push(Run {
                machine: *machine as u32,
                domains: *count,
                first_domain: domains,
                first_slot: layout.ranks,
                first_node: layout.nodes,
                first_host: layout.hosts,
            });
            domains += count;
            layout.ranks += count * shape.gpus();
            layout.nodes += count * shape.members.len() as u32;
            layout.hosts += count * shape.hosts;
        }
        // An empty run would hide the next one, which begins at the same rank.
        layout.runs.retain(|run| run.domains > 0);
        if let Some(order) = order {
            order.check_length(layout.ranks)?;
        }
        if let Some(order) = order.filter(|order| !order.is_plain()) {
            let slots = order.slots(layout.ranks)?;
            layout.ordered = Some(Box::new(OrderTables::new(&layout, slots)));
        }
        Ok(layout)
    }

    /// The layout of a plan.
    ///
    /// # Errors
    /// The plan contradicts itself.
    pub fn of(plan: &PlanContent) -> Result<Self, Error> {
        let shapes = plan.machines.iter().map(|machine| {
            let members = machine.groups.iter().map(|group| group.members()).collect();
            DomainShape::new(members, machine.gpus.iter().map(|gpu| gpu.host).collect())
        });
        let runs: Vec<(usize, u32)> = plan
            .hosts
            .iter()
            .map(|run| (run.machine as usize, run.count))
            .collect();
        Self::new(shapes.collect(), &runs, plan.rank_order.as_ref()).map_err(|error| {
            Error::Inconsistent {
                at: "rank_order".to_owned(),
                problem: error.to_string(),
            }
        })
    }

    /// Ranks in the job.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Nodes in the job.
    pub const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Hosts in the job.
    pub const fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Where a rank is; `None` for numbers beyond the job.
    pub fn rank(&self, rank: u32) -> Option<RankPlace> {
        if rank >= self.ranks {
            return None;
        }
        let slot = match &self.ordered {
            Some(ordered) => ordered.slot_of[rank as usize],
            None => rank,
        };
        let (run, domain, local) = self.slot(slot)?;
        let shape = &self.shapes[run.machine as usize];
        let (index, member) = *shape.place_of.get(local as usize)?;
        Some(RankPlace {
            rank,
            local,
            member,
            host: run.first_host + domain * shape.hosts + shape.host_of[local as usize],
            node: self.place(run, domain, index),
        })
    }

    /// The run of a slot, the domain within the run, and the GPU within the domain.
    fn slot(&self, slot: u32) -> Option<(Run, u32, u32)> {
        let at = self.runs.partition_point(|run| run.first_slot <= slot);
        let run = *self.runs.get(at.checked_sub(1)?)?;
        let gpus = self.shapes[run.machine as usize].gpus();
        let offset = slot - run.first_slot;
        Some((run, offset.checked_div(gpus)?, offset.checked_rem(gpus)?))
    }

    fn place(&self, run: Run, domain: u32, index: u32) -> NodePlace {
        let shape = &self.shapes[run.machine as usize];
        let plain = run.first_node + domain * shape.members.len() as u32 + index;
        NodePlace {
            node: match &self.ordered {
                Some(ordered) => ordered.node_of[plain as usize],
                None => plain,
            },
            domain: run.first_domain + domain,
            machine: run.machine,
            index,
            first_slot: run.first_slot + domain * shape.gpus(),
        }
    }

    /// Where a node is; `None` for numbers beyond the job.
    pub fn node(&self, node: u32) -> Option<NodePlace> {
        if node >= self.nodes {
            return None;
        }
        let plain = match &self.ordered {
            Some(ordered) => ordered.plain_of[node as usize],
            None => node,
        };
        let (run, domain, index) = self.plain_node(plain)?;
        Some(self.place(run, domain, index))
    }

    fn plain_node(&self, plain: u32) -> Option<(Run, u32, u32)> {
        let at = self.runs.partition_point(|run| run.first_node <= plain);
        let run = *self.runs.get(at.checked_sub(1)?)?;
        let per_domain = self.shapes[run.machine as usize].members.len() as u32;
        let offset = plain - run.first_node;
        Some((
            run,
            offset.checked_div(per_domain)?,
            offset.checked_rem(per_domain)?,
        ))
    }

    /// The GPUs of a node, ascending, counted from its domain's first.
    ///
    /// # Panics
    /// The place is of another job.
    pub fn members(&self, node: NodePlace) -> &[u32] {
        &self.shapes[node.machine as usize].members[node.index as usize]
    }

    /// The rank that runs on a GPU of a node's domain.
    ///
    /// # Panics
    /// The place is of another job.
    pub fn rank_at(&self, node: NodePlace, local: u32) -> u32 {
        let slot = node.first_slot + local;
        match &self.ordered {
            Some(ordered) => ordered.rank_of[slot as usize],
            None => slot,
        }
    }

    /// The ranks of a node, ascending.
    pub fn ranks_of(&self, node: NodePlace) -> Vec<u32> {
        let members = self.members(node).iter();
        let mut ranks: Vec<u32> = members.map(|local| self.rank_at(node, *local)).collect();
        if self.ordered.is_some() {
            ranks.sort_unstable();
        }
        ranks
    }

    /// The rank at a position among those of a node, in rank order; `None` beyond the last.
    pub fn rank_by_position(&self, node: NodePlace, position: u32) -> Option<u32> {
        match self.ordered {
            Some(_) => self.ranks_of(node).get(position as usize).copied(),
            None => {
                let local = self.members(node).get(position as usize)?;
                Some(self.rank_at(node, *local))
            }
        }
    }

    /// Position of a rank among those of its node, in rank order (NCCL's `localRank`).
    pub fn position(&self, place: RankPlace) -> u32 {
        if self.ordered.is_none() {
            return place.member;
        }
        let members = self.members(place.node).iter();
        members
            .filter(|local| self.rank_at(place.node, **local) < place.rank)
            .count() as u32
    }

    /// Number of ranks before a node if ranks are counted node after node.
    pub fn ranks_before(&self, node: NodePlace) -> u32 {
        if let Some(ordered) = &self.ordered {
            return ordered.before[node.node as usize];
        }
        let members = &self.shapes[node.machine as usize].members[..node.index as usize];
        node.first_slot + members.iter().map(|gpus| gpus.len() as u32).sum::<u32>()
    }

    /// The node and the position of the n-th rank if ranks are counted node after node; `None`
    /// beyond the last.
    pub fn counted(&self, rank: u32) -> Option<(NodePlace, u32)> {
        if rank >= self.ranks {
            return None;
        }
        if let Some(ordered) = &self.ordered {
            let node = ordered.before.partition_point(|before| *before <= rank) - 1;
            return Some((self.node(node as u32)?, rank - ordered.before[node]));
        }
        let (run, domain, mut rest) = self.slot(rank)?;
        for (index, members) in self.shapes[run.machine as usize].members.iter().enumerate() {
            match rest.checked_sub(members.len() as u32) {
                Some(more) => rest = more,
                None => return Some((self.place(run, domain, index as u32), rest)),
            }
        }
        None
    }

    /// Sizes of all distinct nodes, in ranks, machine after machine.
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        let members = self.shapes.iter().flat_map(|shape| &shape.members);
        members.map(|gpus| gpus.len() as u32)
    }

    /// Nodes, ascending, that represent all: for each pair of nodes in a row, these contain the
    /// first node of an equal pair. Their number does not grow with the number of equal domains,
    /// unless the job has a rank order of its own.
    pub fn representatives(&self) -> impl Iterator<Item = u32> + '_ {
        let ordered = self.ordered.iter().flat_map(|_| 0..self.nodes);
        let runs = self.runs.iter().filter(|_| self.ordered.is_none());
        let plain = runs.flat_map(|run| {
            let per_domain = self.shapes[run.machine as usize].members.len() as u32;
            // After the run's last node comes another machine.
            let last = run.first_node + (run.domains * per_domain).saturating_sub(1);
            let first_domain = run.first_node..run.first_node + per_domain;
            first_domain.chain((run.domains > 1).then_some(last))
        });
        ordered.chain(plain)
    }

    /// Runs of equal domains: (machine, number of the first node if nodes are counted domain after
    /// domain).
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.runs.iter().map(|run| (run.machine, run.first_node))
    }
}

impl OrderTables {
    fn new(layout: &JobLayout, slot_of: Vec<u32>) -> Self {
        let mut rank_of = vec![0; slot_of.len()];
        let mut plain_of = Vec::with_capacity(layout.nodes as usize);
        let mut node_of = vec![u32::MAX; layout.nodes as usize];
        let mut before = Vec::with_capacity(layout.nodes as usize);
        let mut sum = 0;
        for (rank, slot) in slot_of.iter().enumerate() {
            rank_of[*slot as usize] = rank as u32;
            let Some((run, domain, local)) = layout.slot(*slot) else {
                continue;
            };
            let shape = &layout.shapes[run.machine as usize];
            let index = shape.place_of[local as usize].0;
            let plain = run.first_node + domain * shape.members.len() as u32 + index;
            let number = &mut node_of[plain as usize];
            if *number == u32::MAX {
                *number = plain_of.len() as u32;
                plain_of.push(plain);
                before.push(sum);
                sum += shape.members[index as usize].len() as u32;
            }
        }
        Self {
            slot_of,
            rank_of,
            plain_of,
            node_of,
            before,
        }
    }
}

#[cfg(test)]
mod tests;
