//! NCCL's settings for a job, with the graph file that they name.

use std::path::Path;

use answers::Machine;
use answers::job_options::Variables;
use answers::settings::doubtful;
use anyhow::{Context, Result};
use plan::nccl_graph::GraphFile;
use planner::{Job, Settings};

use crate::environment::Environment;
use crate::output::Output;

/// Largest graph file that is read, bytes.
const GRAPH_FILE_LIMIT: u64 = 64 << 20;

/// Reads NCCL's settings for a job of these machines, with the graph file that they name. What the
/// text of a machine says counts least.
pub(crate) fn read_settings(
    machines: &[Machine],
    variables: &Variables,
    environment: &Environment,
    output: &mut Output,
) -> Result<Settings> {
    let settings = environment.settings(machines, variables, &mut output.warnings);
    with_graph_file(settings, output)
}

/// Warns of settings that NCCL refuses or misreads, and of those that decide nothing in the job.
pub(crate) fn warn_of_doubtful(job: &Job, settings: &Settings, output: &mut Output) {
    match doubtful(job, settings) {
        Ok(findings) => output.warnings.extend(
            findings
                .iter()
                .map(|it| format!("{}: {}", it.names.join(" "), it.text)),
        ),
        // The job is refused later.
        Err(_) => output.warnings.extend(answers::head::notes(settings)),
    }
}

/// Reads the graph file that settings name.
pub(crate) fn with_graph_file(mut settings: Settings, output: &mut Output) -> Result<Settings> {
    if let Some(file) = settings.graph_file.clone() {
        settings.graphs = Some(read_graph_file(&file, output)?);
    }
    Ok(settings)
}

fn read_graph_file(file: &str, output: &mut Output) -> Result<GraphFile> {
    let cannot = || format!("cannot read NCCL_GRAPH_FILE={file} (NCCL refuses to start then)");
    let text = files::read_text(Path::new(file), GRAPH_FILE_LIMIT).with_context(cannot)?;
    let graphs = GraphFile::parse(file, &text)?;
    output
        .warnings
        .extend(graphs.warnings().iter().map(ToString::to_string));
    Ok(graphs)
}
