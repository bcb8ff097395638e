//! Lines of NCCL's profiler plug-in Inspector: a JSON object for each collective that ended.

use program::Collective;
use serde::Deserialize;

use crate::evidence::bounded::Short;
use crate::results::program_name;

/// The word that every line that [`read`] reads has.
pub const WORD: &str = "\"coll_perf\"";

/// The word with which the version of Inspector's format begins.
pub const VERSION: &str = "\"inspector_output_format_version\"";

/// Longest line that is read, bytes: one with the events of all channels.
const MOST_BYTES: usize = 64 << 10;

/// Collectives in which each rank waits for all others.
pub const ALL_WAIT: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
];

/// A collective that ended on a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The communicator's id, equal on all its ranks.
    pub communicator: String,
    /// The rank in the communicator.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Its hosts.
    pub nodes: Option<u32>,
    /// The rank's host.
    pub host: String,
    /// The collective; none if it is another function.
    pub collective: Option<Collective>,
    /// The number of the collective in its communicator, from the first one.
    pub sequence: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// How long it ran, µs.
    pub time: u64,
    /// The bandwidth that Inspector takes from size and time, GB/s.
    pub algorithm_gbps: Option<f64>,
    /// When it was written, µs since 1970; 0 if that is unknown.
    pub when: u64,
    /// The GPU's clock gave the time. The processor's clock includes how long the launch took.
    pub is_gpu_time: bool,
}

#[derive(Deserialize)]
struct Row {
    header: Header,
    #[serde(default)]
    metadata: Metadata,
    coll_perf: Performance,
}

#[derive(Deserialize)]
struct Header {
    id: Short,
    rank: u32,
    n_ranks: u32,
    nnodes: Option<u32>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default)]
    hostname: Short,
    #[serde(default)]
    dump_timestamp_us: u64,
}

#[derive(Deserialize)]
struct Performance {
    coll: Short,
    coll_sn: u64,
    #[serde(default)]
    coll_msg_size_bytes: u64,
    coll_exec_time_us: u64,
    coll_timing_source: Option<Short>,
    coll_algobw_gbs: Option<f64>,
}

/// Reads a line; `None` if it is none of Inspector's, or has a rank that its communicator has not.
pub fn read(line: &str) -> Option<Ended> {
    if line.len() > MOST_BYTES {
        return None;
    }
    let row: Row = serde_json::from_str(line.trim()).ok()?;
    let source = row.coll_perf.coll_timing_source;
    (row.header.rank < row.header.n_ranks).then_some(Ended {
        communicator: row.header.id.0,
        rank: row.header.rank,
        ranks: row.header.n_ranks,
        nodes: row.header.nnodes,
        host: row.metadata.hostname.0,
        collective: program_name::of_word(&row.coll_perf.coll.0),
        sequence: row.coll_perf.coll_sn,
        bytes: row.coll_perf.coll_msg_size_bytes,
        time: row.coll_perf.coll_exec_time_us,
        algorithm_gbps: row.coll_perf.coll_algobw_gbs.filter(|it| it.is_finite()),
        when: row.metadata.dump_timestamp_us,
        is_gpu_time: source.is_none_or(|it| it.0 == "kernel_gpu"),
    })
}
