//! The file of the tuner in NCCLX, Meta's NCCL (`NCCLX_TUNER_CONFIG_FILE`).
//!
//! Source of the format: `comms/ncclx/meta/tuner/README.md` of meta-pytorch/torchcomms. The first
//! rule that matches is taken; sizes are those of a rank, so a boundary between two of them moves
//! to the larger one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tuner_plugin::names::{PROTOCOLS, name};
use tuner_plugin::table::{Communicator, Table};

use crate::csv::{ALGORITHMS, COLLECTIVES, Csv};

/// The file's name.
pub const FILE: &str = "ncclx_tuner.csv";

/// Writes a table for NCCLX.
pub fn csv(table: &Table) -> Csv {
    let mut text =
        String::from("# collective,bytesPerRank,algorithm,protocol,channels,nNodes,nLocalRanks\n");
    let mut left_out = Vec::new();
    let mut first: BTreeMap<(u64, u64), &Communicator> = BTreeMap::new();
    for communicator in &table.communicators {
        let size = (communicator.nodes, communicator.ranks);
        let known = first.entry(size).or_insert(communicator);
        if !std::ptr::eq(*known, communicator) {
            if known.choices != communicator.choices {
                left_out.extend(communicator.gpus.iter().cloned());
            }
        } else if size.0 == 0 || !size.1.is_multiple_of(size.0) {
            left_out.extend(communicator.gpus.iter().cloned());
        } else {
            write_rows(&mut text, communicator);
        }
    }
    Csv { text, left_out }
}

fn write_rows(text: &mut String, of: &Communicator) {
    let ranks = of.ranks.max(1);
    for choice in &of.choices {
        let (least, most) = (choice.least.div_ceil(ranks), choice.most / ranks);
        if least > most {
            continue;
        }
        let most = match choice.most {
            u64::MAX => ")".to_owned(),
            _ => format!("{most}]"),
        };
        let channels = choice.channels.filter(|count| *count > 0);
        // A text takes everything that is written.
        let _ = writeln!(
            text,
            "{},[{least},{most},{},{},{},{},{}",
            name(&COLLECTIVES, choice.collective),
            name(&ALGORITHMS, choice.algorithm),
            name(&PROTOCOLS, choice.protocol),
            channels.map_or(-1, i16::from),
            of.nodes,
            ranks / of.nodes,
        );
    }
}
