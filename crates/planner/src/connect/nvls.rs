//! NVLink SHARP over nodes: how many channels, chunk sizes, and trees over the heads.

use plan::GraphKind;
use topology::PathType;

use super::Joined;
use super::chains::NodeChains;
use super::summary::Facts;
use super::trees::double_tree;
use crate::settings::ConnectSettings;

/// First compute capability (× 10) with more channels and tuning of its own.
const BLACKWELL_SM: i32 = 100;

/// Nodes from which trees use small chunks.
const SMALL_CHUNK_NODES: u32 = 4;

const KIB: i64 = 1024;

/// NVLink SHARP of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nvls {
    /// Channels, as rank 0 decides; generations of GPUs differ.
    pub channels: u32,
    /// Chunk, bytes.
    pub chunk_size: i64,
    /// Largest chunk of the tree over nodes, bytes.
    pub tree_max_chunk_size: i64,
    /// Heads of each node; 0 switches NVLink SHARP off although the GPUs have it.
    pub heads: u32,
}

/// What a rank does in NVLink SHARP. Pseudo-ranks from [`Nvls::pseudo_rank`] stand for the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvlsPlace {
    /// Which head the rank is.
    pub head: Option<u32>,
    /// The heads above in the two trees over nodes; even channels use the first.
    pub tree_up: [Option<u32>; 2],
    /// The heads below in the two trees, in NCCL's slots after the switch.
    pub tree_down: [[Option<u32>; 2]; 2],
}

impl Nvls {
    pub(super) fn new(
        facts: &Facts,
        chains: &[Vec<NodeChains>],
        nodes: u32,
        settings: &ConnectSettings,
    ) -> Option<Self> {
        if facts.graph(GraphKind::Nvls).channels == 0 {
            return None;
        }
        let heads = chains
            .iter()
            .flatten()
            .map(|node| node.nvls_heads.len())
            .min()
            .unwrap_or(0) as u32;
        let mut channels = match (facts.sm_first >= BLACKWELL_SM, nodes > 1) {
            (true, true) => 32,
            (true, false) => 24,
            (false, _) => 16,
        };
        let (mut chunk_size, mut tree_max_chunk_size) = (None, None);
        if facts.sm_min >= BLACKWELL_SM && nodes > 1 {
            let tuned = Tuned::new(facts, nodes);
            channels = tuned.channels.unwrap_or(channels);
            chunk_size = Some(tuned.chunk);
            tree_max_chunk_size = tuned.tree_chunk;
        }
        if let Some(given) = settings.nvls_channels {
            channels = u32::try_from(given).unwrap_or(u32::MAX);
        }
        let chunk_size = settings.nvls_chunk_size.or(chunk_size).unwrap_or(128 * KIB);
        let default_tree = if nodes >= SMALL_CHUNK_NODES {
            64 * KIB
        } else {
            chunk_size
        };
        let tree_max_chunk_size = settings
            .nvls_tree_max_chunk_size
            .or(tree_max_chunk_size)
            .unwrap_or(default_tree);
        let (least, most) = settings.ctas();
        let channels = if heads == 0 {
            0
        } else {
            channels.min(most).max(least)
        };
        Some(Self {
            channels,
            chunk_size,
            tree_max_chunk_size,
            heads,
        })
    }

    /// The number that stands for the switch behind a head.
    pub const fn pseudo_rank(ranks: u32, head: u32) -> u32 {
        ranks + 1 + head
    }
}

/// Values for jobs of Blackwell GPUs on several nodes.
struct Tuned {
    channels: Option<u32>,
    chunk: i64,
    tree_chunk: Option<i64>,
}

impl Tuned {
    fn new(facts: &Facts, nodes: u32) -> Self {
        let (ranks, bw) = (facts.min_local_ranks, facts.min_net_bw);
        let near = facts.graph(GraphKind::Nvls).type_inter <= PathType::Pxb;
        let (channels, chunk, tree_chunk) = if nodes == 2 && bw >= 48.0 {
            if ranks <= 4 {
                (Some(32), 256, Some(256))
            } else if ranks >= 16 || ranks <= 8 && near && bw < 96.0 {
                (Some(32), 128, Some(64))
            } else {
                (Some(32), 128, Some(128))
            }
        } else if bw >= 96.0 {
            if ranks <= 8 {
                (Some(24), 256, Some(256))
            } else {
                (Some(32), 128, Some(if ranks < 32 { 128 } else { 64 }))
            }
        } else if bw >= 48.0 {
            (Some(24), 128, Some(if near { 64 } else { 128 }))
        } else {
            (None, 128, None)
        };
        Self {
            channels,
            chunk: chunk * KIB,
            tree_chunk: tree_chunk.map(|kib| kib * KIB),
        }
    }
}

impl Joined {
    /// What a rank does in NVLink SHARP; `None` without it, or beyond the last rank.
    pub fn nvls_place(&self, rank: u32) -> Option<NvlsPlace> {
        let nvls = self.nvls.filter(|nvls| nvls.heads > 0)?;
        let place = self.layout().rank(rank)?;
        let heads = &self.chains(place.node).nvls_heads[..nvls.heads as usize];
        let head = heads.iter().position(|head| *head == place.local);
        let mut found = NvlsPlace {
            head: head.map(|head| head as u32),
            tree_up: [None; 2],
            tree_down: [[None; 2]; 2],
        };
        let nodes = self.layout().nodes();
        if let Some(head) = head.filter(|_| nodes > 1) {
            let head_of = |node: u32| {
                let node = self.layout().node(node)?;
                self.chains(node)
                    .nvls_heads
                    .get(head)
                    .map(|local| node.first_rank + local)
            };
            for (tree, links) in double_tree(nodes, place.node.node).into_iter().enumerate() {
                found.tree_up[tree] = links.parent.and_then(head_of);
                let below = links.children.into_iter().flatten().filter_map(head_of);
                for (slot, child) in found.tree_down[tree].iter_mut().zip(below) {
                    *slot = Some(child);
                }
            }
        }
        Some(found)
    }
}
