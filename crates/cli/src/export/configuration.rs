//! `nccl.conf`: NCCL's variables.

use std::fmt::Write as _;
use std::path::Path;

use tuner_plugin::{LIBRARY, LIBRARY_FILE};

use super::sets::PlannedSet;

/// The text of the file. `graph` is the graph file, if there is only one.
pub fn text(set: &PlannedSet, folder: &Path, graph: Option<&str>) -> String {
    let mut text = format!(
        "# NCCL's variables for {} (decided as {}).\n\
         # NCCL reads this file as NCCL_CONF_FILE, as ~/.nccl.conf or as /etc/nccl.conf.\n",
        set.name, set.plan.profile
    );
    for setting in &set.plan.settings {
        let _ = writeln!(text, "{}={}", setting.name, setting.value);
    }
    if !LIBRARY.is_empty() {
        let plugin = folder.join(LIBRARY_FILE);
        let _ = writeln!(text, "NCCL_TUNER_PLUGIN={}", plugin.display());
    }
    match graph {
        Some(graph) => {
            let _ = writeln!(
                text,
                "# For communicators of GPUs {} of each host only: NCCL refuses others. Remove the line if a job\n\
                 # makes communicators of other GPUs.",
                set.gpus
            );
            let _ = writeln!(text, "NCCL_GRAPH_FILE={}", folder.join(graph).display());
        }
        None => {
            let example = folder.join(format!("graph-{}.xml", set.file_part()));
            let _ = writeln!(
                text,
                "# A graph file is for communicators of its GPUs only: NCCL refuses others. Choose that of the job.\n\
                 # NCCL_GRAPH_FILE={}",
                example.display()
            );
        }
    }
    text
}
