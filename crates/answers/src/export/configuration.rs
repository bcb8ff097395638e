//! `nccl.conf`: NCCL's variables.

use std::fmt::Write as _;
use std::path::Path;

use plan::Plan;
use planner::settings::{SettingEffect, effect};
use tuner_plugin::{LIBRARY, LIBRARY_FILE};

use super::{ExportFile, PlannedSet};

/// The file's name.
pub const FILE: &str = "nccl.conf";

/// How the file begins.
const BEGIN: &str = "# NCCL's variables for ";

/// How the line begins that names the other files of an export.
const WITH: &str = "# Written together with ";

/// NCCL's variable for a graph file.
const GRAPH_FILE: &str = "NCCL_GRAPH_FILE";

/// Whether a variable belongs into the file: it decides plans, and the exported graphs do not
/// replace it. A stranger's plan must not name plug-ins or files that NCCL loads.
fn is_written(name: &str) -> bool {
    matches!(
        effect(name),
        Some(SettingEffect::Search | SettingEffect::Joining | SettingEffect::Cost)
    ) && name != GRAPH_FILE
}

/// The plan's variables that the file leaves out, other than the graph file.
pub(super) fn left_out(plan: &Plan) -> impl Iterator<Item = &str> {
    let names = plan.settings.iter().map(|it| it.name.as_str());
    names.filter(|name| !is_written(name) && *name != GRAPH_FILE)
}

/// The names of the files that were written together with this one; `None` if the text is not that
/// of an export.
pub fn written_with(text: &str) -> Option<Vec<&str>> {
    let mut lines = text.strip_prefix(BEGIN)?.lines();
    let names = lines.find_map(|line| line.strip_prefix(WITH)).unwrap_or("");
    Some(names.split_whitespace().collect())
}

/// The text of the file. `graph` is the graph file, if there is only one; `files` are the others of
/// the export.
pub(super) fn text(
    set: &PlannedSet,
    folder: &Path,
    graph: Option<&str>,
    files: &[ExportFile],
) -> String {
    let names: Vec<&str> = files.iter().map(|it| it.name.as_str()).collect();
    let mut text = format!(
        "{BEGIN}{} (decided as {}).\n\
         # NCCL reads this file as NCCL_CONF_FILE, as ~/.nccl.conf or as /etc/nccl.conf.\n\
         {WITH}{}\n",
        set.name,
        set.plan.profile,
        names.join(" ")
    );
    let settings = set.plan.settings.iter();
    for setting in settings.filter(|it| is_written(&it.name)) {
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
            let _ = writeln!(text, "{GRAPH_FILE}={}", folder.join(graph).display());
        }
        None if set.searches => {
            text.push_str("# NCCL finds the rings and trees itself: no graph file is needed.\n");
        }
        None => {
            let example = folder.join(format!("graph-{}.xml", set.file_part()));
            let _ = writeln!(
                text,
                "# A graph file is for communicators of its GPUs only: NCCL refuses others. Choose that of the job.\n\
                 # {GRAPH_FILE}={}",
                example.display()
            );
        }
    }
    text
}
