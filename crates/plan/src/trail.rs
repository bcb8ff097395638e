//! Trails of searches: every attempt, its result, and what was tried next.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::PathType;

use crate::graph::{GraphKind, Pattern};

/// How one search went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trail {
    /// The kind of the search.
    pub kind: GraphKind,
    /// The attempts in order. Empty when nothing had to be searched.
    pub attempts: Vec<Attempt>,
    /// Why there were no attempts, or why the search ended.
    pub end: SearchEnd,
    /// Channels that were made by splitting each one in two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicated: Option<Duplication>,
    /// Steps of the common budget that were left when the first pass ended.
    pub budget_left: i64,
}

/// One attempt: the limits it had and what it found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// 1 looks for a solution, 2 raises the bandwidth of the one found.
    pub pass: u8,
    /// Pattern.
    pub pattern: Pattern,
    /// NICs: 0 the same in and out, 1 any, 2 in alternating pairs.
    pub cross_nic: i32,
    /// All channels must have the same order.
    pub same_channels: bool,
    /// Worst path allowed between GPUs.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_intra: PathType,
    /// Worst path allowed to a port.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_inter: PathType,
    /// Bandwidth asked of each channel inside the host, GB/s.
    pub bw_intra: f32,
    /// Bandwidth asked of each channel to the network, GB/s.
    pub bw_inter: f32,
    /// Fewest channels that count as a solution.
    pub min_channels: u32,
    /// Steps the attempt had.
    pub budget: i32,
    /// Steps it left: 0 when they ran out, -1 when it stopped at the best possible result.
    pub budget_left: i32,
    /// It found something better than what was known.
    pub improved: bool,
    /// The best graph afterwards.
    pub best: Summary,
    /// The next step.
    pub next: Next,
}

/// A summary of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Channels; 0 is no solution.
    pub channels: u32,
    /// Bandwidth of each channel inside the host, GB/s.
    pub bw_intra: f32,
    /// Bandwidth of each channel to the network, GB/s.
    pub bw_inter: f32,
    /// Worst path used between GPUs.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_intra: PathType,
    /// Worst path used to a port.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_inter: PathType,
    /// Pattern.
    pub pattern: Pattern,
    /// NICs: 0 the same in and out, 1 any, 2 in alternating pairs.
    pub cross_nic: i32,
    /// Links used by all channels together.
    pub hops: i32,
}

/// The step after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Channels may differ from each other.
    DifferentChannels,
    /// A plain tree instead of a balanced one.
    SimplerTree,
    /// A worse path between GPUs is allowed.
    WorseIntraType,
    /// A worse path to the port is allowed.
    WorseInterType,
    /// Channels may cross NICs in pairs.
    CrossNic,
    /// Less bandwidth is asked of each channel.
    LessBandwidth,
    /// More bandwidth is asked of each channel.
    MoreBandwidth,
    /// More bandwidth is asked towards the network.
    MoreInterBandwidth,
    /// More bandwidth is asked inside the host.
    MoreIntraBandwidth,
    /// The first pass ended; the second found nothing to raise.
    Stop,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "End")]
pub enum SearchEnd {
    /// As many channels as allowed.
    Perfect,
    /// All bandwidth of the machine is used.
    AllBandwidth,
    /// Lower bandwidths cannot beat what was found.
    NothingBetterBelow,
    /// The common budget ran out.
    OutOfBudget,
    /// Nothing was found; one slow channel through all GPUs is used.
    Fallback,
    /// Nothing was found.
    NotFound,
    /// The graph was given.
    Given,
    /// The machine cannot have such a graph, or the job does not want it.
    NotSearched,
}

/// Channels that were split in two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duplication {
    /// Channels before.
    pub from: u32,
    /// Channels after.
    pub to: u32,
}
