//! NCCL's graph files (`NCCL_GRAPH_DUMP_FILE`, `NCCL_GRAPH_FILE`).
//!
//! [`write()`] writes the text that NCCL dumps, to the byte; [`write_as`] that of an older version;
//! [`write_by_device`] and [`write_for_hosts`] what ranks of several nodes can read. [`GraphFile`]
//! reads such text like NCCL, with warnings where NCCL would silently read something
//! else, and errors where it would refuse.
//!
//! GPUs are named by host and device number, so both directions need to know which rank is which
//! GPU ([`GpuAddress`]).
//!
//! ```
//! use plan::nccl_graph::{self, GpuAddress, GraphFile};
//! use plan::{Graph, GraphChannel, GraphKind, Pattern};
//!
//! let gpus = [GpuAddress { rank: 0, host: 0, dev: 0 }, GpuAddress { rank: 1, host: 0, dev: 1 }];
//! let channels = vec![GraphChannel { ranks: vec![0, 1], nets: None }];
//! let ring = Graph { channels, bw_intra: 20.0, ..Graph::empty(GraphKind::Ring, Pattern::Ring) };
//!
//! let text = nccl_graph::write(&[ring.clone()], &gpus)?;
//! let found = GraphFile::parse("graph.xml", &text)?.graph(GraphKind::Ring, &gpus, true)?;
//! assert_eq!(found.graph, Some(ring));
//! # Ok::<(), plan::Error>(())
//! ```

mod number;
mod read;
mod write;
mod xml;

use topology::{NcclId, PathType, Warning};

use crate::error::Error;
use crate::graph::{Graph, GraphKind, Pattern};
use crate::layout::JobLayout;
use crate::machine::PlannedMachine;
use crate::plan::Plan;
use crate::version::NcclVersion;

pub use number::c_general;
pub use write::{write, write_as, write_by_device, write_for_hosts};

/// The GPU of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GpuAddress {
    /// Rank, as in the graphs.
    pub rank: i32,
    /// Number of the host within the system; 0 unless several hosts form one NVLink domain.
    pub host: u32,
    /// NVML device number.
    pub dev: i32,
}

impl GpuAddress {
    /// The name of the GPU in graph files.
    pub const fn id(&self) -> NcclId {
        NcclId::new(self.host, self.dev as u64)
    }
}

impl Plan {
    /// The graphs of the first rank's node, as a file for `NCCL_GRAPH_FILE`: NCCL's dump, if each
    /// rank of the job can read that. A dump from 2.30 on has the ranks of one node, which NCCL
    /// believes more than device numbers, so in a job of several nodes GPUs have no rank.
    ///
    /// # Errors
    /// NCCL's file has no word for a type of path that a graph uses.
    pub fn graph_file(&self) -> Result<String, Error> {
        let layout = JobLayout::of(self)?;
        if layout.nodes() == 1 {
            return self.graph_dump();
        }
        let (graphs, gpus) = self.first_graphs(&layout);
        write_by_device(graphs, &gpus)
    }

    /// The graphs of the first rank's node, as that rank of NCCL dumps them
    /// (`NCCL_GRAPH_DUMP_FILE`), which other nodes cannot read. Where ranks have an order of their
    /// own, GPUs are named by device number only, as before NCCL 2.30.
    ///
    /// # Errors
    /// NCCL's file has no word for a type of path that a graph uses.
    pub fn graph_dump(&self) -> Result<String, Error> {
        let layout = JobLayout::of(self)?;
        let (graphs, gpus) = self.first_graphs(&layout);
        if self.rank_order.is_some() {
            return write_by_device(graphs, &gpus);
        }
        let version = NcclVersion::of_profile(&self.profile).unwrap_or_default();
        write_as(version, graphs, &gpus)
    }

    /// The graphs of the first rank's node, and the GPUs of its machine.
    fn first_graphs(&self, layout: &JobLayout) -> (&[Graph], Vec<GpuAddress>) {
        let node = layout.rank(0).map(|first| first.node);
        let machine = node.and_then(|node| self.machines.get(node.machine as usize));
        let groups = machine.map_or(&[][..], |machine| &machine.groups);
        let group = node.and_then(|node| groups.get(node.index as usize));
        let gpus = machine.map(PlannedMachine::gpu_addresses);
        (
            group.map_or(&[], |group| &group.graphs),
            gpus.unwrap_or_default(),
        )
    }
}

impl PlannedMachine {
    /// The GPUs, as graph files name them.
    pub fn gpu_addresses(&self) -> Vec<GpuAddress> {
        let gpus = self.gpus.iter();
        gpus.map(|gpu| GpuAddress {
            rank: gpu.rank as i32,
            host: gpu.host,
            dev: gpu.dev,
        })
        .collect()
    }
}

/// A well-formed graph file. The meaning of its graphs depends on the machine:
/// [`GraphFile::graph`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphFile {
    document: xml::GraphDocument,
}

/// The graph of one search in a graph file.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundGraph {
    /// The graph; `None` if the file has no valid one of this kind. For a graph without channels
    /// NCCL searches, with the file's path types.
    pub graph: Option<Graph>,
    /// Warnings about the graph.
    pub warnings: Vec<Warning>,
}

/// The most channels a graph can have in NCCL.
pub const MAX_CHANNELS: usize = 64;

/// The path types that graph files have text for, in the order in which NCCL matches them.
const TYPES: [PathType; 9] = [
    PathType::Loc,
    PathType::Nvl,
    PathType::Nvb,
    PathType::Pix,
    PathType::Pxb,
    PathType::P2c,
    PathType::Pxn,
    PathType::Phb,
    PathType::Sys,
];

/// The type, or the next worse one that graph files have text for.
pub fn type_with_text(path_type: PathType) -> PathType {
    let mut with_text = TYPES.into_iter().filter(|it| *it >= path_type);
    with_text.next().unwrap_or(path_type)
}

/// All kinds in the order of a file, with the pattern of a graph that was not searched.
const IN_FILE_ORDER: [(GraphKind, Pattern); 5] = [
    (GraphKind::Ring, Pattern::Ring),
    (GraphKind::Tree, Pattern::BalancedTree),
    (GraphKind::CollnetDirect, Pattern::CollnetDirect),
    (GraphKind::CollnetChain, Pattern::Tree),
    (GraphKind::Nvls, Pattern::Nvls),
];
