//! `topo plan --check-settings`: what NCCL's settings do to a job.

use std::path::Path;

use answers::report;
use answers::settings::settings;
use anyhow::{Context, Result, bail};

use crate::arguments::PlanArguments;
use crate::environment::Environment;
use crate::job;
use crate::output::{Output, PlanFormat};
use crate::settings::{read_settings, with_graph_file};
use crate::sources;

/// Largest file with settings that is read, bytes.
const FILE_LIMIT: u64 = 1 << 20;

pub(super) fn run(
    arguments: &PlanArguments,
    file: Option<&Path>,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = sources::read(&arguments.job, output)?
        .machines(", whose settings were read; expected topology files with --check-settings")?;
    let given = match file {
        Some(file) => {
            let layers = arguments.job.variables.over(&[]);
            with_graph_file(layers.settings(of_file(file)?), output)?
        }
        None => read_settings(&machines, &arguments.job.variables, environment, output)?,
    };
    let job = job::job(machines, &arguments.job, environment, output)?;
    let answer = settings(&job, &given)?;
    output.differs = !answer.fine;
    let format = match arguments.json {
        true => PlanFormat::Json,
        false => arguments.format,
    };
    output.text = match format {
        PlanFormat::Json => report::json(&answer)?,
        PlanFormat::Text => answer.page().text(environment.look()),
        _ => bail!("--check-settings prints text or JSON; expected --format text or json"),
    };
    Ok(())
}

/// NCCL's variables of a file: lines `NAME=VALUE`, as in nccl.conf and as `env` prints them, or as
/// the system keeps a process's environment.
fn of_file(file: &Path) -> Result<Vec<(String, String)>> {
    let text = files::read_text(file, FILE_LIMIT)
        .with_context(|| format!("cannot read settings from {}", file.display()))?;
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.split(['\n', '\0']) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        // A shell takes quotes off; NCCL and `env` do not know them.
        let (line, quoted) = match line.strip_prefix("export ") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let Some((name, value)) = line.split_once('=') else {
            continue;
        };
        let bare = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
        let bare = bare('"').or_else(|| bare('\'')).filter(|_| quoted);
        // As in NCCL, the first of equal names counts.
        if name.starts_with("NCCL_") && found.iter().all(|(known, _)| known != name) {
            found.push((name.to_owned(), bare.unwrap_or(value).to_owned()));
        }
    }
    if found.is_empty() {
        bail!(
            "{} has no setting of NCCL; expected lines such as NCCL_CROSS_NIC=0",
            file.display()
        );
    }
    Ok(found)
}
