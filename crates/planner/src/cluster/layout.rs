//! Where ranks and nodes of a job are, by arithmetic: nothing here grows with the number of equal hosts.

/// How the ranks of one island fall into nodes and hosts.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    /// For each node its ranks, ascending, counted from the island's first.
    members: Vec<Vec<u32>>,
    /// For each rank its node and its position among that node's ranks.
    place_of: Vec<(u32, u32)>,
    /// For each rank its host within the island.
    host_of: Vec<u32>,
    hosts: u32,
}

impl Shape {
    /// `host_of` names each rank's host by any number; hosts are numbered anew in that order.
    pub fn new(members: Vec<Vec<u32>>, mut host_of: Vec<u32>) -> Self {
        let mut names = host_of.clone();
        names.sort_unstable();
        names.dedup();
        for host in &mut host_of {
            *host = names.partition_point(|name| name < host) as u32;
        }
        let mut place_of = vec![(0, 0); host_of.len()];
        for (node, ranks) in members.iter().enumerate() {
            for (position, rank) in ranks.iter().enumerate() {
                place_of[*rank as usize] = (node as u32, position as u32);
            }
        }
        Self {
            members,
            place_of,
            host_of,
            hosts: names.len() as u32,
        }
    }

    fn ranks(&self) -> u32 {
        self.place_of.len() as u32
    }
}

/// Equal islands in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    machine: u32,
    islands: u32,
    first_island: u32,
    first_rank: u32,
    first_node: u32,
    first_host: u32,
}

/// Where the ranks and nodes of a job are.
#[derive(Debug, Clone)]
pub struct Layout {
    shapes: Vec<Shape>,
    runs: Vec<Run>,
    ranks: u32,
    nodes: u32,
    hosts: u32,
}

/// Where a rank is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankPlace {
    /// Its number in the job.
    pub rank: u32,
    /// Its number in its island.
    pub local: u32,
    /// Its position among the ranks of its node (NCCL's `localRank`).
    pub position: u32,
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
    /// Its island, counted over the whole job.
    pub island: u32,
    /// Which of the distinct machines the island is.
    pub machine: u32,
    /// Which of the island's nodes it is.
    pub index: u32,
    /// The first rank of the island.
    pub first_rank: u32,
    /// Which run of equal islands.
    pub(crate) run: u32,
}

impl Layout {
    /// From the machines' shapes and (machine, islands in a row). The caller sees to it that ranks fit 31 bits.
    pub(super) fn new(shapes: Vec<Shape>, runs: &[(usize, u32)]) -> Self {
        let mut layout = Self {
            shapes,
            runs: Vec::with_capacity(runs.len()),
            ranks: 0,
            nodes: 0,
            hosts: 0,
        };
        let mut islands = 0;
        for (machine, count) in runs {
            let shape = &layout.shapes[*machine];
            layout.runs.push(Run {
                machine: *machine as u32,
                islands: *count,
                first_island: islands,
                first_rank: layout.ranks,
                first_node: layout.nodes,
                first_host: layout.hosts,
            });
            islands += count;
            layout.ranks += count * shape.ranks();
            layout.nodes += count * shape.members.len() as u32;
            layout.hosts += count * shape.hosts;
        }
        layout
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
        let at = self.runs.partition_point(|run| run.first_rank <= rank) - 1;
        let run = self.runs[at];
        let shape = &self.shapes[run.machine as usize];
        let offset = rank - run.first_rank;
        let (island, local) = (offset / shape.ranks(), offset % shape.ranks());
        let (index, position) = shape.place_of[local as usize];
        Some(RankPlace {
            rank,
            local,
            position,
            host: run.first_host + island * shape.hosts + shape.host_of[local as usize],
            node: run.node(at, shape, island, index),
        })
    }

    /// Where a node is; `None` for numbers beyond the job.
    pub fn node(&self, node: u32) -> Option<NodePlace> {
        if node >= self.nodes {
            return None;
        }
        let at = self.runs.partition_point(|run| run.first_node <= node) - 1;
        let run = self.runs[at];
        let shape = &self.shapes[run.machine as usize];
        let per_island = shape.members.len() as u32;
        let offset = node - run.first_node;
        Some(run.node(at, shape, offset / per_island, offset % per_island))
    }

    /// The ranks of a node, counted from its island's first.
    ///
    /// # Panics
    /// The place is of another job.
    pub fn members(&self, node: NodePlace) -> &[u32] {
        &self.shapes[node.machine as usize].members[node.index as usize]
    }

    /// Number of ranks before a node when ranks are counted node after node.
    pub fn ranks_before(&self, node: NodePlace) -> u32 {
        let members = &self.shapes[node.machine as usize].members[..node.index as usize];
        node.first_rank + members.iter().map(|ranks| ranks.len() as u32).sum::<u32>()
    }

    /// Sizes of all distinct nodes, in ranks, machine after machine.
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.shapes
            .iter()
            .flat_map(|shape| shape.members.iter().map(|ranks| ranks.len() as u32))
    }

    /// Distinct machines.
    pub(crate) fn machines(&self) -> u32 {
        self.shapes.len() as u32
    }

    /// Sizes of the nodes of one machine's islands, in ranks.
    pub(crate) fn machine_sizes(&self, machine: u32) -> impl Iterator<Item = u32> + '_ {
        self.shapes[machine as usize]
            .members
            .iter()
            .map(|ranks| ranks.len() as u32)
    }

    /// Equal islands in a row: (machine, islands, first node).
    pub(crate) fn runs(&self) -> impl ExactSizeIterator<Item = (u32, u32, u32)> + '_ {
        self.runs
            .iter()
            .map(|run| (run.machine, run.islands, run.first_node))
    }

    /// The machine of a run of equal islands, and its first node.
    pub(crate) fn run(&self, run: u32) -> (u32, u32) {
        let run = self.runs[run as usize];
        (run.machine, run.first_node)
    }
}

impl Run {
    fn node(&self, at: usize, shape: &Shape, island: u32, index: u32) -> NodePlace {
        NodePlace {
            node: self.first_node + island * shape.members.len() as u32 + index,
            island: self.first_island + island,
            machine: self.machine,
            index,
            first_rank: self.first_rank + island * shape.ranks(),
            run: at as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        // Two islands of three ranks in nodes {0, 2} and {1}, then one of two hosts with one rank each in one node.
        let split = Shape::new(vec![vec![0, 2], vec![1]], vec![0; 3]);
        let domain = Shape::new(vec![vec![0, 1]], vec![0, 4]);
        let layout = Layout::new(vec![split, domain], &[(0, 2), (1, 1)]);
        assert_eq!((layout.ranks(), layout.nodes(), layout.hosts()), (8, 5, 4));
        let seen: Vec<_> = (0..8)
            .filter_map(|rank| layout.rank(rank))
            .map(|place| {
                (
                    place.node.node,
                    place.position,
                    place.host,
                    place.node.first_rank,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (0, 0, 0, 0),
                (1, 0, 0, 0),
                (0, 1, 0, 0),
                (2, 0, 1, 3),
                (3, 0, 1, 3),
                (2, 1, 1, 3),
                (4, 0, 2, 6),
                (4, 1, 3, 6)
            ]
        );
        assert_eq!(layout.rank(8), None);
        assert_eq!(layout.node(5), None);
        for node in (0..5).filter_map(|node| layout.node(node)) {
            assert!(layout.members(node).iter().all(|rank| {
                layout
                    .rank(node.first_rank + rank)
                    .is_some_and(|place| place.node == node)
            }));
        }
        let before: Vec<u32> = (0..5)
            .filter_map(|node| layout.node(node))
            .map(|node| layout.ranks_before(node))
            .collect();
        assert_eq!(before, [0, 2, 3, 5, 6]);
    }
}
