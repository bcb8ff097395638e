//! A communicator's beginning, shape, numbers, times and end.

use serde::Serialize;

use super::{Statement, channel};
use crate::JsonSchema;
use crate::nccl_log::cursor::{after, find, number, word_after};
use crate::nccl_log::decisions::ChannelCounts;

/// A rank of a communicator. What a line does not say is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Member<'a> {
    /// The communicator's address in the rank's process.
    pub address: &'a str,
    /// The rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: Option<u32>,
    /// Nodes of the communicator.
    pub nodes: Option<u32>,
    /// Ranks of this rank's node.
    pub local_ranks: Option<u32>,
    /// The process's number of the GPU.
    pub cuda_device: Option<u32>,
    /// The driver's number of the GPU.
    pub nvml_device: Option<u32>,
    /// The GPU's bus id as NCCL's number, such as 0x1b000.
    pub bus_id: Option<u64>,
    /// The id of the communicator, equal on all ranks.
    pub id: Option<&'a str>,
}

/// A stage in the life of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Its initialisation begins.
    Start,
    /// Its shape is known.
    Shape,
    /// It is ready.
    #[serde(rename = "ready")]
    Complete,
    /// It is being destroyed.
    Destroyed,
    /// It is being aborted.
    Aborted,
}

/// Times of a rank's initialisation, s.
#[derive(Debug, Clone, PartialEq)]
pub struct Timings<'a> {
    /// The rank.
    pub rank: u32,
    /// All of it.
    pub total: f32,
    /// By phase.
    pub phases: Vec<(&'a str, f32)>,
}

/// Reads lines that name a communicator, and its times.
pub(super) fn member(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text.strip_prefix("Init timings - ") {
        return timings(rest);
    }
    let at = match text.starts_with("comm ") {
        true => 0,
        false => find(text, " ", "comm 0x")?,
    };
    let rest = &text[at + 5..];
    let address = rest.split(' ').next()?;
    let stage = stage(text, rest)?;
    let member = Member {
        address,
        rank: after(rest, " rank ")?,
        ranks: after(rest, " nranks ").or_else(|| after(rest, " nRanks ")),
        nodes: after(rest, " nNodes "),
        local_ranks: after(rest, " localRanks "),
        cuda_device: after(rest, " cudaDev "),
        nvml_device: after(rest, " nvmlDev "),
        bus_id: word_after(rest, " busId ").and_then(|it| u64::from_str_radix(it, 16).ok()),
        id: word_after(rest, " commId "),
    };
    Some(Statement::Member(member, stage))
}

fn stage(text: &str, rest: &str) -> Option<Stage> {
    let ends = [
        ("Init START", Stage::Start),
        ("Init COMPLETE", Stage::Complete),
        ("Destroy COMPLETE", Stage::Destroyed),
        ("Abort COMPLETE", Stage::Aborted),
        // 2.3 and older.
        ("- COMPLETE", Stage::Complete),
    ];
    let found = ends.iter().find(|(end, _)| text.contains(end));
    if let Some((_, stage)) = found {
        return Some(*stage);
    }
    let is_shape = rest.contains(" nNodes ") && rest.contains(" nRanks ");
    is_shape.then_some(Stage::Shape)
}

/// `ncclCommInitRank: rank 0 nranks 2 total 0.37 (kernels 0.28, alloc 0.05, …)`.
fn timings(text: &str) -> Option<Statement<'_>> {
    let total = word_after(text, " total ")?.parse().ok()?;
    let (_, phases) = text.split_once('(')?;
    let phases = phases.trim_end().trim_end_matches(')').split(", ");
    let phases = phases.map_while(|phase| {
        let (name, time) = phase.split_once(' ')?;
        Some((name, time.parse().ok()?))
    });
    Some(Statement::Timings(Timings {
        rank: after(text, "rank ")?,
        total,
        phases: phases.collect(),
    }))
}

/// `24 coll channels, 0 collnet channels, 0 nvls channels, 32 p2p channels, 2 p2p channels per
/// peer`; older versions lack some.
pub(super) fn counts(text: &str) -> Option<Statement<'_>> {
    find(text, " ", "coll channels, ")?;
    let of = |name: &str| {
        let mut parts = text.split(", ");
        parts
            .find(|part| part.trim_end().ends_with(name))
            .and_then(number::<u32>)
    };
    let counts = (|| {
        Some(ChannelCounts {
            collectives: of(" coll channels")?,
            nvls: of(" nvls channels").unwrap_or(0),
            p2p: of(" p2p channels")?,
            per_peer: of(" p2p channels per peer")?,
        })
    })();
    // A line that lost its end to another program says nothing.
    Some(counts.map_or(Statement::Ignored, Statement::Channels))
}

/// Lines that begin with `NVLS `.
pub(super) fn nvls(text: &str) -> Option<Statement<'_>> {
    if let Some(rest) = text.strip_prefix("Head ") {
        return Some(channel::nvls_head(rest));
    }
    if let Some(rest) = text.strip_prefix("Trees : ") {
        return Some(channel::nvls_trees(rest));
    }
    if text.starts_with("multicast support is ") {
        let not = text.contains("is not available");
        return Some(Statement::NvlsAvailable(!not));
    }
    if text.starts_with("tuning: ") {
        let names = ["nChannels ", "chunkSize ", "treeMaxChunkSize "];
        let [Some(channels), Some(chunk), Some(tree)] = names.map(|name| after(text, name)) else {
            return None;
        };
        return Some(Statement::Nvls([channels, chunk, tree]));
    }
    None
}
