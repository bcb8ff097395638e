//! The reasons why a plan or a graph file is refused.

use topology::PathType;

use crate::digest::Digest;
use crate::format::VERSION;
use crate::graph::GraphKind;

/// A file that is refused, or content that cannot be written, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file is no plan.
    #[error("this is not a plan: found {found}, expected JSON with `\"format\": \"topo-plan\"`")]
    NotAPlan {
        /// The content of the file instead.
        found: String,
    },
    /// The file is too large.
    #[error("the plan is too large: {bytes} bytes, at most {limit} are read")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The end of the plan is missing.
    #[error(
        "the plan is truncated: the file ends at line {line}, column {column}, in the middle of a value; copy it again, or plan again"
    )]
    Truncated {
        /// Line of the end, from 1.
        line: usize,
        /// Column of the end, from 1.
        column: usize,
    },
    /// The file is no valid JSON.
    #[error(
        "the plan is damaged: line {line}, column {column}: {problem}; copy it again, or plan again"
    )]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The fault.
        problem: String,
    },
    /// The plan has a later version of the format.
    #[error(
        "the plan has format version {version}, and this program reads version {}; use the newer program that made it, or plan again",
        VERSION
    )]
    NewerVersion {
        /// Its version.
        version: u64,
    },
    /// The plan has an earlier version of the format.
    #[error(
        "the plan has format version {version}, and this program reads only version {}; plan again",
        VERSION
    )]
    UnknownVersion {
        /// Its version.
        version: u64,
    },
    /// The JSON has unknown fields, or lacks fields.
    #[error(
        "the plan does not follow the format: line {line}, column {column}: {problem}; plan again, or compare with plan.schema.json"
    )]
    Malformed {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The fault.
        problem: String,
    },
    /// The plan was changed after it was written.
    #[error(
        "the plan was changed after it was made: its content has checksum {found}, the file states {stated}; take the original, or plan again"
    )]
    Changed {
        /// The checksum in the file.
        stated: Digest,
        /// The checksum of the content.
        found: Digest,
    },
    /// A text has a control character.
    #[error(
        "the plan has a control character in the text `{text}`; expected names and values on one line: rename it, and plan again"
    )]
    ControlCharacter {
        /// The beginning of the text, with escapes.
        text: String,
    },
    /// A setting is no variable of NCCL.
    #[error(
        "the plan has settings[{index}] with the name {name}; expected NCCL_ and capitals, digits or underscores; plan again"
    )]
    SettingName {
        /// The setting, from 0.
        index: usize,
        /// The beginning of the name.
        name: String,
    },
    /// The plan contradicts itself.
    #[error("the plan contradicts itself at {at}: {problem}; plan again")]
    Inconsistent {
        /// The part, as a path of fields.
        at: String,
        /// The fault.
        problem: String,
    },
    /// The plan does not say how its hosts are joined.
    #[error("the plan does not say how its hosts are joined; plan again")]
    NotJoined,
    /// The job has no such rank.
    #[error("the job has no rank {rank}; expected 0 to {last}", last = i64::from(*ranks) - 1)]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        ranks: u32,
    },
    /// The job has no such channel.
    #[error("the job has no channel {channel}; expected 0 to {last}", last = i64::from(*channels) - 1)]
    NoSuchChannel {
        /// The channel.
        channel: u32,
        /// Channels of the job.
        channels: u32,
    },
    /// Two ranks can only use the network, and one has no port.
    #[error(
        "rank {rank} has no network port for channel {channel} of {use_of}; add the NICs of its host to the topology, and plan again",
        use_of = kind.map_or_else(|| "point-to-point transfers".to_owned(), |kind| format!("the {kind} graph"))
    )]
    NoPort {
        /// The rank.
        rank: u32,
        /// The graph; `None` for point-to-point transfers.
        kind: Option<GraphKind>,
        /// The channel.
        channel: u32,
    },
    /// The plan has no transports.
    #[error("the plan does not say how rank {rank} is connected to its neighbors; plan again")]
    NoConnections {
        /// The rank.
        rank: u32,
    },
    /// A graph has a path type for which NCCL's graph files have no text.
    #[error(
        "NCCL's graph file cannot hold the {kind} graph: {attribute} is {path_type}, for which it has no text (NCCL itself fails to dump such a graph); leave the graph out"
    )]
    NoTextForType {
        /// The graph.
        kind: GraphKind,
        /// The attribute.
        attribute: &'static str,
        /// The type.
        path_type: PathType,
    },
    /// A graph has a rank whose GPU is not known.
    #[error(
        "the {kind} graph names rank {rank}, whose GPU was not given; pass the host and device number of every rank"
    )]
    UnknownRank {
        /// The graph.
        kind: GraphKind,
        /// The rank.
        rank: i32,
    },
    /// A graph file that cannot be read.
    #[error(transparent)]
    GraphFile(#[from] topology::Error),
}

impl Error {
    pub(crate) const fn inconsistent(at: String, problem: String) -> Self {
        Self::Inconsistent { at, problem }
    }
}

/// The beginning of a text, for messages.
pub(crate) fn excerpt(text: &str) -> String {
    const LENGTH: usize = 40;
    let mut shown = String::new();
    for character in text.chars().take(LENGTH) {
        match character {
            '"' | '\'' | '\\' => shown.push(character),
            _ if character.is_whitespace() => shown.push(' '),
            _ => shown.extend(character.escape_debug()),
        }
    }
    if text.chars().nth(LENGTH).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}
