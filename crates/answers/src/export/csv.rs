//! The file of NVIDIA's example of a tuner plug-in (`NCCL_TUNER_CONFIG_FILE`).
//!
//! Source of the format: `plugins/tuner/example/README.md` of NCCL.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tuner_plugin::names::{PROTOCOLS, name};
use tuner_plugin::table::{Communicator, Table};

/// The example's names of collectives, by NCCL's number.
const COLLECTIVES: [&str; 5] = [
    "broadcast",
    "reduce",
    "allgather",
    "reducescatter",
    "allreduce",
];

/// The example's names of algorithms, by NCCL's number.
const ALGORITHMS: [&str; 7] = [
    "tree",
    "ring",
    "collnet_direct",
    "collnet_chain",
    "nvls",
    "nvls_tree",
    "pat",
];

/// Channels for which NCCL takes its own number. The documented -1 leaves the example at the one
/// channel that it begins with.
const OWN_CHANNELS: u8 = 0;

/// The text of a file, and the GPU sets that it leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Csv {
    /// The text.
    pub text: String,
    /// GPU sets that differ from an earlier one with as many nodes and ranks, which this format
    /// cannot tell apart.
    pub left_out: Vec<String>,
}

/// Writes a table for NVIDIA's example.
pub(super) fn csv(table: &Table) -> Csv {
    let mut text = String::from(
        "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n",
    );
    let mut left_out = Vec::new();
    let mut first: BTreeMap<(u64, u64), &Communicator> = BTreeMap::new();
    for communicator in &table.communicators {
        let size = (communicator.nodes, communicator.ranks);
        let known = first.entry(size).or_insert(communicator);
        if std::ptr::eq(*known, communicator) {
            write_rows(&mut text, communicator);
        } else if known.choices != communicator.choices {
            left_out.extend(communicator.gpus.iter().cloned());
        }
    }
    Csv { text, left_out }
}

fn write_rows(text: &mut String, of: &Communicator) {
    for choice in &of.choices {
        // A text takes everything that is written.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},-1,-1",
            name(&COLLECTIVES, choice.collective),
            choice.least,
            choice.most,
            name(&ALGORITHMS, choice.algorithm),
            name(&PROTOCOLS, choice.protocol),
            choice.channels.unwrap_or(OWN_CHANNELS),
            of.nodes,
            of.ranks,
        );
    }
}
