//! `topo expect`: what nccl-tests should measure on a healthy machine, and files that check it.

#[cfg(target_os = "linux")]
pub(crate) mod acceptance;

use answers::cost::PricedJob;
use answers::expect::beside::ExpectationsBeside;
use answers::expect::files::AcceptanceFile;
use answers::expect::{ExpectQuestion, ExpectReport};
use answers::report;
use anyhow::{Result, bail};

use crate::arguments::JobArguments;
use crate::arguments::expect::{ExpectArguments, ExpectFormat};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::sources::{self, Sources};

pub(crate) fn run(
    arguments: &ExpectArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let (answer, notes) = of(&arguments.job, &arguments.question, environment, output)?;
    if !arguments.beside.is_empty() {
        let hosts = answer.hosts;
        let mut jobs = vec![answer];
        for machine in &arguments.beside {
            let job = arguments.job.on(machine, hosts);
            jobs.push(of(&job, &arguments.question, environment, output)?.0);
        }
        let answer = ExpectationsBeside { jobs };
        output.text = match arguments.format() {
            ExpectFormat::Text => answer.page().notices(&notes).text(environment.look()),
            ExpectFormat::Json => report::json(&answer)?,
            _ => bail!(
                "--beside prints one table; expected --format text or json, or a call of topo expect for each machine"
            ),
        };
        return Ok(());
    }
    output.text = match arguments.format() {
        ExpectFormat::Text => answer.page().notices(&notes).text(environment.look()),
        ExpectFormat::Json => report::json(&answer)?,
        ExpectFormat::Aicr => AcceptanceFile::Aicr.of(&answer)?,
        ExpectFormat::Nhc => AcceptanceFile::Nhc.of(&answer)?,
        ExpectFormat::Slurm => AcceptanceFile::Slurm.of(&answer)?,
        ExpectFormat::SlurmHealth => AcceptanceFile::SlurmHealth.of(&answer)?,
        ExpectFormat::KubernetesJob => AcceptanceFile::KubernetesJob.of(&answer)?,
        ExpectFormat::KubernetesDaemonset => AcceptanceFile::KubernetesDaemonset.of(&answer)?,
        ExpectFormat::Pytest => AcceptanceFile::Pytest.of(&answer)?,
    };
    Ok(())
}

/// What a job reaches, and what is odd about its settings.
fn of(
    asked: &JobArguments,
    question: &ExpectQuestion,
    environment: &Environment,
    output: &mut Output,
) -> Result<(ExpectReport, Vec<String>)> {
    Ok(match sources::read(asked, output)? {
        Sources::Plan(name, plan) => {
            let priced = PricedJob::of_plan(name, plan)?;
            (ExpectReport::of(priced, None, question)?, Vec::new())
        }
        Sources::Machines(machines) => {
            let (job, settings) = job::given(machines, asked, environment, output)?;
            let planned = job::plan_job(&job, &settings, output)?;
            let priced = PricedJob::of(&planned, None);
            let notes = answers::head::notes(&settings).collect();
            (ExpectReport::of(priced, Some(&planned), question)?, notes)
        }
    })
}
