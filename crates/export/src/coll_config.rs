//! Choices for calls that take a configuration (`ncclAllReduceConfig` and its like, NCCL 2.31 and
//! newer): a table in C, and the same as JSON.
//!
//! Source: `ncclCollConfig_t` and `algSelection` in NCCL's public source of 2.31.

use std::fmt::Write as _;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use tuner_plugin::names::{COLLECTIVES, name};
use tuner_plugin::table::{Choice, Table};

/// The header's name.
pub const HEADER_FILE: &str = "nccl_coll_config.h";

/// The JSON's name.
pub const JSON_FILE: &str = "nccl_coll_config.json";

/// Names of algorithms in `algSelection`, by NCCL's number.
const ALGORITHMS: [&str; 7] = [
    "TREE",
    "RING",
    "COLLNET_DIRECT",
    "COLLNET_CHAIN",
    "NVLS",
    "NVLSTREE",
    "PAT",
];

/// Names of protocols in `algSelection`, by NCCL's number.
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "SIMPLE"];

/// NCCL's number of LL.
const LL: u8 = 0;

/// The configurations of all communicators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollConfigs {
    /// The communicators.
    pub communicators: Vec<ConfiguredCommunicator>,
}

/// The configurations of a communicator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfiguredCommunicator {
    /// Nodes, as NCCL counts them.
    pub nodes: u64,
    /// Ranks.
    pub ranks: u64,
    /// The GPU sets of each host for which they are, such as `0-3,6`.
    pub gpus: Vec<String>,
    /// The configurations, ascending by collective and size.
    pub choices: Vec<CollConfig>,
}

/// The configuration of a collective for a range of sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollConfig {
    /// The collective.
    pub collective: String,
    /// Fewest bytes of the whole message.
    pub least: u64,
    /// Most bytes.
    pub most: u64,
    /// `ncclCollConfig_t::algSelection`.
    #[serde(rename = "algSelection")]
    pub selection: String,
    /// `ncclCollConfig_t::minCTAs` and `maxCTAs`; absent: NCCL's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctas: Option<u8>,
}

/// The selection of one algorithm with one protocol. A name selects all names that begin with it,
/// so LL excludes LL128.
fn selection(algorithm: u8, protocol: u8) -> String {
    let algorithm = name(&ALGORITHMS, algorithm);
    match protocol {
        LL => format!("{algorithm}_LL+^{algorithm}_LL128"),
        _ => format!("{algorithm}_{}", name(&PROTOCOLS, protocol)),
    }
}

impl CollConfigs {
    /// The configurations that make calls choose as a table does.
    pub fn of(table: &Table) -> Self {
        let config = |choice: &Choice| CollConfig {
            collective: name(&COLLECTIVES, choice.collective).to_owned(),
            least: choice.least,
            most: choice.most,
            selection: selection(choice.algorithm, choice.protocol),
            ctas: choice.channels.filter(|count| *count > 0),
        };
        let communicators = table.communicators.iter();
        Self {
            communicators: communicators
                .filter(|of| !of.choices.is_empty())
                .map(|of| ConfiguredCommunicator {
                    nodes: of.nodes,
                    ranks: of.ranks,
                    gpus: of.gpus.clone(),
                    choices: of.choices.iter().map(config).collect(),
                })
                .collect(),
        }
    }

    /// The table as a header of C and C++.
    pub fn to_c(&self) -> String {
        let mut text = HEAD.to_owned();
        for (number, of) in self.communicators.iter().enumerate() {
            // A text takes everything that is written.
            let _ = writeln!(text, "static const topoChoice topoChoices{number}[] = {{");
            for choice in &of.choices {
                let _ = writeln!(
                    text,
                    "  {{\"{}\", {}ULL, {}ULL, \"{}\", {}}},",
                    choice.collective,
                    choice.least,
                    choice.most,
                    choice.selection,
                    choice.ctas.unwrap_or(0),
                );
            }
            text.push_str("};\n\n");
        }
        text.push_str("static const topoCommunicator topoCommunicators[] = {\n");
        for (number, of) in self.communicators.iter().enumerate() {
            let _ = writeln!(
                text,
                "  {{{}, {}, \"{}\", topoChoices{number}, {}}},",
                of.nodes,
                of.ranks,
                of.gpus.join(" "),
                of.choices.len(),
            );
        }
        text.push_str("};\n");
        text.push_str(TAIL);
        text
    }
}

/// The types of the header.
const HEAD: &str = "\
/* Choices of topo for the configuration of each call (ncclAllReduceConfig and its like) of NCCL
 * 2.31 and newer. Include nccl.h first. All ranks must be built with the same file. */
#ifndef TOPO_NCCL_COLL_CONFIG_H
#define TOPO_NCCL_COLL_CONFIG_H

#include <stddef.h>
#include <string.h>

typedef struct {
  const char *collective;          /* such as all-reduce */
  unsigned long long least, most;  /* bytes of the whole message */
  const char *algSelection;
  int ctas;                        /* minCTAs and maxCTAs; 0: NCCL's own number */
} topoChoice;

typedef struct {
  int nodes, ranks;
  const char *gpus;                /* sets of GPUs of each host */
  const topoChoice *choices;
  size_t count;
} topoCommunicator;

";

/// The functions of the header.
const TAIL: &str = "
/* The choice of a communicator for a message, or NULL. */
static inline const topoChoice *topoFindChoice(const topoCommunicator *of, const char *collective,
                                               unsigned long long bytes) {
  for (size_t i = 0; i < of->count; i++) {
    const topoChoice *it = &of->choices[i];
    if (it->least <= bytes && bytes <= it->most && strcmp(it->collective, collective) == 0) return it;
  }
  return NULL;
}

#ifdef NCCL_COLLCONFIG_INITIALIZER
/* The configuration of a choice; NCCL's own for NULL, and where the choice cannot be taken. */
static inline ncclCollConfig_t topoCollConfig(const topoChoice *choice) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  if (choice != NULL) {
    config.algSelection = choice->algSelection;
    config.forceAlgSelection = 0;
    if (choice->ctas > 0) config.minCTAs = config.maxCTAs = choice->ctas;
  }
  return config;
}
#endif

#endif
";
