//! `topo plan`: what NCCL would do on a machine, or on many.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plan::Plan;

use crate::arguments::PlanArguments;
use crate::device::Names;
use crate::environment::Environment;
use crate::job::Job;
use crate::output::{Format, Output};
use crate::render::{Look, channels, connections, joined, matrix, settings, summary, trail};
use crate::wiring::Wiring;

/// Plans files and says what came of it.
pub fn run(
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let job = Job::plan(&arguments.job, environment, output)?;
    if let Some(path) = &arguments.output {
        write_beside(path, &job.artifact().to_json()?)?;
    }
    if arguments.format != Format::Text {
        output.warnings.extend(settings::warnings(&job.settings));
    }
    match arguments.format {
        Format::Quiet => output.text = summary::quiet(&job),
        Format::Json => output.text = job.artifact().to_json()?,
        Format::NcclGraph => output.text = job.graph_file()?,
        Format::Text => {
            let look = Look {
                width: environment.width,
                colour: environment.colour,
            };
            let artifact = arguments.connections.then(|| job.artifact());
            for machine in 0..job.machines.len() {
                if machine > 0 {
                    output.text.push('\n');
                }
                output
                    .text
                    .push_str(&page(&job, machine, arguments, artifact.as_ref(), look));
            }
        }
    }
    Ok(())
}

/// Writes a file so that it is there whole or not at all. What is no ordinary file (a pipe, /dev/stdout) is written to.
pub fn write_beside(path: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if path == Path::new("-") {
        bail!("cannot write `-`: name a file; --format json prints the plan");
    }
    // A link stays a link: what it leads to is replaced.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return std::fs::write(path, text).with_context(cannot);
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if path.is_dir() {
        bail!("{}: it is a folder; expected a file's name", cannot());
    }
    if !folder.is_dir() {
        bail!("{}: there is no folder {}", cannot(), folder.display());
    }
    let mut file = beside(folder).with_context(cannot)?;
    file.write_all(text.as_bytes()).with_context(cannot)?;
    file.persist(path)
        .map_err(|failed| failed.error)
        .with_context(cannot)?;
    Ok(())
}

/// A new file in a folder, with the rights that any new file has.
fn beside(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn page(
    job: &Job,
    machine: usize,
    arguments: &PlanArguments,
    artifact: Option<&Plan>,
    look: Look,
) -> String {
    let plan = job.node(machine);
    let routing = plan.view.routing();
    let names = Names::new(plan.view.system());
    let mut text = summary::head(job, machine, look);
    let mut section = |title: &str, remark: &str, body: &str| {
        text.push('\n');
        text.push_str(&look.title(title, remark));
        text.push_str(body);
    };
    let wiring = Wiring::new(&job.machines[machine].document);
    section(
        "Wiring",
        "as nvidia-smi topo -m draws it, from the file",
        &matrix::wiring(&wiring, look),
    );
    section(
        "Paths",
        "those NCCL takes, in GB/s",
        &matrix::bandwidths(routing, &names, look),
    );
    let graphs = summary::graphs(plan, look) + &channels::all(plan, look);
    section(
        "Channels",
        "GB/s of each and of all; the worst paths they use",
        &graphs,
    );
    if let Some(artifact) = artifact {
        section(
            "Connections",
            "how the bytes travel, by what is equal",
            &connections::page(artifact, machine, look),
        );
    }
    if machine + 1 == job.machines.len() {
        section(
            "Job",
            "what all ranks together use",
            &joined::facts(&job.joined, look),
        );
    }
    if arguments.explain {
        let attempts = trail::long(&plan.trails, plan.view.inter, look);
        section("Search", "attempt by attempt", &attempts);
    } else {
        let searches = trail::short(&plan.trails, look);
        section("Search", "--explain tells it all", &searches);
    }
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}
