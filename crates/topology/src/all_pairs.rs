//! The widest paths from every node to every node where a transfer can end.
//!
//! Rules and tie-breaks are NCCL's ([`Preference`]): a better type wins, then more bandwidth, then
//! fewer links, then the path found first. The planner later changes paths by settings (no
//! peer-to-peer, NICs through another GPU) with [`PathTable::set_kind`] and [`PathTable::divert`].

use crate::bandwidth;
use crate::link::{LinkId, LinkType};
use crate::node::{NodeId, NodeType};
use crate::path::PathType;
use crate::system::System;

/// The types of nodes that paths lead to.
const BASE_KINDS: [NodeType; 5] = [
    NodeType::Cpu,
    NodeType::Dev,
    NodeType::Gpu,
    NodeType::Net,
    NodeType::Nvs,
];

/// Which of two paths is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// The one with the better type, then the wider one, then the one with fewer links (NCCL 2.30
    /// and newer).
    #[default]
    Type,
    /// The wider one, unless it has more links (NCCL to 2.29).
    Bandwidth,
}

/// A path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path<'a> {
    /// The path's type.
    pub kind: PathType,
    /// Smallest bandwidth of its links, GB/s; 0 when there is no path.
    pub bw: f32,
    /// The links in order. Empty from a node to itself, and when there is no path.
    pub hops: &'a [LinkId],
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    first_hop: u32,
    hop_count: u32,
    bw: f32,
    kind: PathType,
}

/// Paths from all nodes to all GPUs, devices, network ports, NVSwitches and CPUs.
#[derive(Debug, Clone)]
pub struct PathTable {
    node_count: usize,
    /// For each node its row among the ends, or `u32::MAX`.
    row_of: Vec<u32>,
    entries: Vec<Entry>,
    hops: Vec<LinkId>,
    /// For each node the types of ends that it reaches, as bits by node type.
    reaches: Vec<u16>,
}

/// A link that a path needs in the other direction too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneWayLink {
    /// The link's start.
    pub from: NodeId,
    /// The link's end, from which no link of this type leads back.
    pub to: NodeId,
}

const NO_ROW: u32 = u32::MAX;

impl PathTable {
    /// Computes all paths. `through_gpus` allows NVLink paths through one other GPU (type NVB).
    ///
    /// # Errors
    /// A path would begin with a link that exists in the other direction only.
    pub fn compute(system: &System, through_gpus: bool) -> Result<Self, OneWayLink> {
        Self::compute_by(system, through_gpus, Preference::default())
    }

    /// The same by another preference.
    ///
    /// # Errors
    /// As [`PathTable::compute`].
    pub fn compute_by(
        system: &System,
        through_gpus: bool,
        preference: Preference,
    ) -> Result<Self, OneWayLink> {
        let node_count = system.node_count();
        let mut row_of = vec![NO_ROW; node_count];
        let mut bases = Vec::new();
        for base in BASE_KINDS.iter().flat_map(|kind| system.nodes(*kind)) {
            row_of[base.index()] = bases.len() as u32;
            bases.push(base);
        }
        let mut table = Self {
            node_count,
            row_of,
            entries: Vec::with_capacity(bases.len() * node_count),
            hops: Vec::new(),
            reaches: vec![0; node_count],
        };
        let mut search = WidestPaths::new(system, through_gpus, preference);
        for base in bases {
            search.clear();
            for end in ends(system, base) {
                search.run(end)?;
            }
            search.store(base, &mut table);
        }
        Ok(table)
    }

    fn slot(&self, from: NodeId, to: NodeId) -> Option<usize> {
        match self.row_of[to.index()] {
            NO_ROW => None,
            row => Some(row as usize * self.node_count + from.index()),
        }
    }

    /// The path between two nodes; type DIS when there is none, or when `to` is no possible end.
    pub fn path(&self, from: NodeId, to: NodeId) -> Path<'_> {
        match self.slot(from, to) {
            None => Path {
                kind: PathType::Dis,
                bw: 0.0,
                hops: &[],
            },
            Some(slot) => {
                let entry = self.entries[slot];
                let first = entry.first_hop as usize;
                Path {
                    kind: entry.kind,
                    bw: entry.bw,
                    hops: &self.hops[first..first + entry.hop_count as usize],
                }
            }
        }
    }

    /// The type of the path between two nodes.
    pub fn kind(&self, from: NodeId, to: NodeId) -> PathType {
        self.slot(from, to)
            .map_or(PathType::Dis, |slot| self.entries[slot].kind)
    }

    /// The bandwidth of the path between two nodes, GB/s.
    pub fn bw(&self, from: NodeId, to: NodeId) -> f32 {
        self.slot(from, to)
            .map_or(0.0, |slot| self.entries[slot].bw)
    }

    /// The number of links of the path between two nodes.
    pub fn hop_count(&self, from: NodeId, to: NodeId) -> usize {
        self.slot(from, to)
            .map_or(0, |slot| self.entries[slot].hop_count as usize)
    }

    /// Whether a node reaches any node of a type. NCCL keeps no table for unreachable types.
    pub fn reaches(&self, from: NodeId, kind: NodeType) -> bool {
        self.reaches[from.index()] & (1 << kind as u16) != 0
    }

    /// Changes only the type of a path.
    pub fn set_kind(&mut self, from: NodeId, to: NodeId, kind: PathType) {
        if let Some(slot) = self.slot(from, to) {
            self.entries[slot].kind = kind;
        }
    }

    /// Replaces the path `from` → `to` by `from` → `via` → `to`, with this type.
    pub fn divert(&mut self, from: NodeId, via: NodeId, to: NodeId, kind: PathType) {
        let Some(slot) = self.slot(from, to) else {
            return;
        };
        let (first, second) = (self.path(from, via), self.path(via, to));
        let bw = first.bw.min(second.bw);
        let hop_count = (first.hops.len() + second.hops.len()) as u32;
        let first_hop = self.hops.len() as u32;
        for (start, count) in [(from, via), (via, to)].map(|(a, b)| self.hop_range(a, b)) {
            self.hops.extend_from_within(start..start + count);
        }
        self.entries[slot] = Entry {
            first_hop,
            hop_count,
            bw,
            kind,
        };
    }

    fn hop_range(&self, from: NodeId, to: NodeId) -> (usize, usize) {
        self.slot(from, to).map_or((0, 0), |slot| {
            let entry = self.entries[slot];
            (entry.first_hop as usize, entry.hop_count as usize)
        })
    }
}

/// The nodes whose paths are entered as those to `base`: itself, but for ports with equal ids. NCCL
/// looks a port up by its id, so paths to any of these are entered as those to the first, and none
/// as those to the others.
fn ends(system: &System, base: NodeId) -> Vec<NodeId> {
    if system.kind(base) != NodeType::Net {
        return vec![base];
    }
    let id = system.node(base).id;
    match system.find(NodeType::Net, id) {
        Some(first) if first != base => Vec::new(),
        _ => {
            let ports = system.nodes(NodeType::Net);
            ports.filter(|port| system.node(*port).id == id).collect()
        }
    }
}

/// A directed link with precomputed properties.
#[derive(Clone, Copy)]
struct Step {
    to: u32,
    /// The first link back of the same type, if there is one.
    back: Option<LinkId>,
    bw: f32,
    /// Type of the step by itself.
    path_type: PathType,
    /// NVLink between two devices: the only way through a device other than the path's own.
    between_devices: bool,
    /// From a device down to one of its ranks.
    to_own_rank: bool,
}

/// A node's best path so far.
#[derive(Clone, Copy)]
struct Best {
    /// The last cell of the chain of links, or `NO_CELL`.
    cell: u32,
    count: u32,
    bw: f32,
    kind: PathType,
}

const NO_CELL: u32 = u32::MAX;

const UNREACHED: Best = Best {
    cell: NO_CELL,
    count: 0,
    bw: 0.0,
    kind: PathType::Dis,
};

/// The level-by-level search, with its buffers.
struct WidestPaths<'a> {
    system: &'a System,
    through_gpus: bool,
    preference: Preference,
    is_device: Vec<bool>,
    first_step: Vec<u32>,
    steps: Vec<Step>,
    best: Vec<Best>,
    /// Chains of links, shared between paths: (link, rest of the path). A path keeps its chain when
    /// the path it extends improves later, because NCCL copies the links.
    cells: Vec<(LinkId, u32)>,
    current: Vec<u32>,
    next: Vec<u32>,
    queued: Vec<bool>,
}

impl<'a> WidestPaths<'a> {
    fn new(system: &'a System, through_gpus: bool, preference: Preference) -> Self {
        let node_count = system.node_count();
        let is_device: Vec<bool> = (0..node_count)
            .map(|node| system.range(NodeType::Dev).contains(&node))
            .collect();
        let kind_of: Vec<NodeType> = (0..node_count)
            .map(|node| system.kind(NodeId(node as u32)))
            .collect();
        let mut steps = Vec::with_capacity(system.link_count());
        let mut first_step = Vec::with_capacity(node_count + 1);
        for index in 0..node_count {
            first_step.push(steps.len() as u32);
            let from = NodeId(index as u32);
            for id in system.links(from) {
                let link = system.link(id);
                let to = system.target(id);
                let (u, v) = (kind_of[index], kind_of[to.index()]);
                let path_type =
                    if link.kind == LinkType::Pci && (u == NodeType::Cpu || v == NodeType::Cpu) {
                        PathType::Phb
                    } else if u == NodeType::Pci && v == NodeType::Pci {
                        PathType::Pxb
                    } else {
                        link.kind.path_type()
                    };
                steps.push(Step {
                    to: to.0,
                    back: system.link_between(to, from, link.kind),
                    bw: link.bw,
                    path_type,
                    between_devices: link.kind == LinkType::Nvl
                        && u == NodeType::Dev
                        && v == NodeType::Dev,
                    to_own_rank: link.kind == LinkType::Loc && v == NodeType::Gpu,
                });
            }
        }
        first_step.push(steps.len() as u32);
        Self {
            system,
            through_gpus,
            preference,
            is_device,
            first_step,
            steps,
            best: vec![UNREACHED; node_count],
            cells: Vec::new(),
            current: Vec::new(),
            next: Vec::new(),
            queued: vec![false; node_count],
        }
    }

    /// Forgets all paths.
    fn clear(&mut self) {
        self.best.fill(UNREACHED);
        self.cells.clear();
    }

    /// Finds the paths to `base`, where they are better than those found so far.
    fn run(&mut self, base: NodeId) -> Result<(), OneWayLink> {
        self.best[base.index()] = Best {
            bw: bandwidth::LOCAL,
            kind: PathType::Loc,
            ..UNREACHED
        };
        let is_rank = self.system.kind(base) == NodeType::Gpu;
        let own = if is_rank {
            self.system
                .device_of(base)
                .map_or(base.0, |device| device.0)
        } else {
            base.0
        };
        // Most links from the base to a device that relays.
        let relay_reach = if is_rank { 2 } else { 1 };
        self.current.clear();
        self.current.push(base.0);
        while !self.current.is_empty() {
            self.next.clear();
            for at in 0..self.current.len() {
                self.spread(self.current[at], own, relay_reach)?;
            }
            self.queued.fill(false);
            std::mem::swap(&mut self.current, &mut self.next);
        }
        Ok(())
    }

    /// Offers the path of node `u` to its neighbors.
    fn spread(&mut self, u: u32, own: u32, relay_reach: u32) -> Result<(), OneWayLink> {
        let other_device = self.is_device[u as usize] && u != own;
        for at in self.first_step[u as usize]..self.first_step[u as usize + 1] {
            let step = self.steps[at as usize];
            // Read anew each time: an update may have changed `u` itself through a loop.
            let here = self.best[u as usize];
            if other_device
                && !step.to_own_rank
                && !(self.through_gpus && step.between_devices && here.count <= relay_reach)
            {
                continue;
            }
            let mut kind = step.path_type;
            if self.is_device[u as usize]
                && here.kind == PathType::Nvl
                && kind == PathType::Nvl
                && here.count == relay_reach
            {
                kind = PathType::Nvb;
            }
            let kind = kind.max(here.kind);
            let bw = here.bw.min(step.bw);
            let there = self.best[step.to as usize];
            let better = match self.preference {
                Preference::Type => {
                    kind < there.kind
                        || kind == there.kind
                            && (there.bw < bw || there.bw == bw && there.count > here.count + 1)
                }
                Preference::Bandwidth => {
                    there.bw < bw && (there.bw == 0.0 || there.count > here.count)
                }
            };
            if better {
                let cell = self.cells.len() as u32;
                // If no link leads back, NCCL keeps the first link of the path that it replaces.
                let replaced = self.cells.get(there.cell as usize).map(|(link, _)| *link);
                let first = step.back.or(replaced).ok_or(OneWayLink {
                    from: NodeId(u),
                    to: NodeId(step.to),
                })?;
                self.cells.push((first, here.cell));
                self.best[step.to as usize] = Best {
                    cell,
                    count: here.count + 1,
                    bw,
                    kind,
                };
                if !self.queued[step.to as usize] {
                    self.queued[step.to as usize] = true;
                    self.next.push(step.to);
                }
            }
        }
        Ok(())
    }

    /// Copies the paths to `base` into the table.
    fn store(&self, base: NodeId, table: &mut PathTable) {
        let bit = 1u16 << self.system.kind(base) as u16;
        for (node, best) in self.best.iter().enumerate() {
            let first_hop = table.hops.len() as u32;
            let mut cell = best.cell;
            while cell != NO_CELL {
                let (link, rest) = self.cells[cell as usize];
                table.hops.push(link);
                cell = rest;
            }
            if best.kind < PathType::Dis {
                table.reaches[node] |= bit;
            }
            let hop_count = table.hops.len() as u32 - first_hop;
            table.entries.push(Entry {
                first_hop,
                hop_count,
                bw: best.bw,
                kind: best.kind,
            });
        }
    }
}
