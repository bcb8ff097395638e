//! `topo simulate --network-only`: switches and cables between hosts, and the rank order that suits
//! them.

use std::path::Path;

use answers::fabric::{FabricAnswerError, FabricQuestion, FabricReport, fabric};
use answers::job_options::Variables;
use answers::{JobSpec, report};
use anyhow::{Context, Result, anyhow};

use crate::arguments::compare::TextOrJson;
use crate::arguments::fabric::FabricArguments;
use crate::environment::Environment;
use crate::input;
use crate::job::{self, Remedy};
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::settings::read_settings;

/// Largest file that is read, bytes.
const FILE_LIMIT: u64 = 64 << 20;

pub(crate) fn run(
    arguments: &FabricArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let file = arguments.file.display().to_string();
    let text = files::read_text(&arguments.file, FILE_LIMIT)
        .with_context(|| format!("cannot read the fabric file {file}"))?;
    let view = fabric(&FabricQuestion {
        file,
        text,
        nodes: arguments.nodes.clone(),
        hosts: arguments.hosts,
    });
    let mut view = view.map_err(in_words)?;
    if let Some(topology) = &arguments.topology {
        simulate(&mut view, topology, arguments, environment, output)?;
    }
    if let (Some(path), Some(best)) = (&arguments.hostfile, &view.best) {
        let names = best.hosts.iter().map(|name| format!("{name}\n"));
        output::refuse_overwriting("-o", path, std::slice::from_ref(&arguments.file))?;
        output::write(path, &names.collect::<String>())?;
    }
    output.differs = view.differs();
    output.text = match arguments.form.format() {
        TextOrJson::Text => view.page().text(environment.look()),
        TextOrJson::Json => report::json(&view)?,
    };
    Ok(())
}

/// Simulates a collective in both orders.
fn simulate(
    view: &mut FabricReport,
    topology: &Path,
    arguments: &FabricArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let oversubscription = view.oversubscription(arguments.oversubscription);
    let oversubscription = oversubscription.map_err(in_words)?;
    let settings = read_settings(&[], &Variables::default(), environment, output)?;
    let spec = JobSpec {
        hosts: view.hosts.len() as u32,
        ..JobSpec::of(input::machine(topology, output)?)
    };
    let job = job::checked(spec, Remedy::Complete, output)?;
    let plan = job::plan_job(&job, &settings, output)?.plan().clone();
    let collective = (arguments.collective, arguments.size);
    let _progress = Progress::new(environment, "simulating");
    view.simulate(&plan, collective, oversubscription)?;
    output.warnings.extend_from_slice(&view.notes);
    Ok(())
}

/// An error with the option that it is about.
fn in_words(error: FabricAnswerError) -> anyhow::Error {
    match error {
        FabricAnswerError::HostList(why) => anyhow!(why).context("--nodes"),
        FabricAnswerError::UnknownHosts => {
            anyhow!("the fabric file does not say how many hosts there are; expected --hosts N")
        }
        FabricAnswerError::OtherHosts(hosts) => anyhow!(
            "the file or --nodes has other hosts than the {hosts} of the job; expected as many"
        ),
        FabricAnswerError::Oversubscription(number) => {
            anyhow!("--oversubscription {number}: expected a number from 0.001 to 1000")
        }
        error => error.into(),
    }
}
