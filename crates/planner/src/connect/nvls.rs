//! NVLink SHARP over nodes: how many channels, and chunk sizes.

use plan::{GraphKind, NodeParts, Nvls};
use topology::PathType;

use super::summary::GatheredGraphs;
use crate::rules::Rules;
use crate::settings::ConnectSettings;

/// First compute capability (× 10) with more channels and tuning of its own.
const BLACKWELL_SM: i32 = 100;

/// Nodes from which trees use small chunks.
const SMALL_CHUNK_NODES: u32 = 4;

const KIB: i64 = 1024;

/// Channels for NVLS before heads are known; `None` if a node has no NVLS graph.
pub(super) fn channels(
    facts: &GatheredGraphs,
    nodes: u32,
    hosts: u32,
    settings: &ConnectSettings,
    rules: Rules,
) -> Option<u32> {
    if facts.graph(GraphKind::Nvls).channels == 0 {
        return None;
    }
    let networked = if rules.tunes_nvls_tree {
        nodes > 1
    } else {
        // Nodes are not numbered yet when NCCL decides this.
        nodes > 1 && hosts > 1
    };
    let mut channels = match (facts.sm_first, networked) {
        (sm, true) if rules.is_rubin(sm) => 64,
        (sm, false) if rules.is_rubin(sm) => 48,
        (BLACKWELL_SM.., true) => 32,
        (BLACKWELL_SM.., false) => 24,
        _ => 16,
    };
    if let Some(tuned) = BlackwellTuning::of(facts, nodes, rules) {
        channels = tuned.channels.unwrap_or(channels);
    }
    if let Some(given) = settings.nvls_channels {
        channels = u32::try_from(given).unwrap_or(u32::MAX);
    }
    let (least, most) = settings.ctas();
    Some(channels.min(most).max(least))
}

pub(super) fn nvls(
    facts: &GatheredGraphs,
    parts: &[Vec<NodeParts>],
    nodes: u32,
    channels: u32,
    settings: &ConnectSettings,
    rules: Rules,
) -> Nvls {
    let heads = parts
        .iter()
        .flatten()
        .map(NodeParts::nvls_heads)
        .min()
        .unwrap_or(0) as u32;
    let tuned = BlackwellTuning::of(facts, nodes, rules);
    let chunk_size = settings
        .nvls_chunk_size
        .or(tuned.as_ref().map(|tuned| tuned.chunk))
        .unwrap_or(128 * KIB);
    let default_tree = if nodes >= SMALL_CHUNK_NODES {
        64 * KIB
    } else {
        chunk_size
    };
    let tree_max_chunk_size = settings
        .nvls_tree_max_chunk_size
        .or(tuned.and_then(|tuned| tuned.tree_chunk))
        .unwrap_or(default_tree);
    Nvls {
        channels: if heads == 0 { 0 } else { channels },
        chunk_size,
        tree_max_chunk_size,
        heads,
    }
}

/// Values for jobs of Blackwell GPUs on several nodes.
struct BlackwellTuning {
    channels: Option<u32>,
    chunk: i64,
    tree_chunk: Option<i64>,
}

impl BlackwellTuning {
    fn of(facts: &GatheredGraphs, nodes: u32, rules: Rules) -> Option<Self> {
        let tuned = rules.tunes_nvls_tree && facts.sm_min >= BLACKWELL_SM && nodes > 1;
        tuned.then(|| Self::new(facts, nodes))
    }

    fn new(facts: &GatheredGraphs, nodes: u32) -> Self {
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
