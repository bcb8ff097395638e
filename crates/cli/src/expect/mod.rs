//! `topo expect`: what nccl-tests should measure on a healthy machine, and files that check it.

use answers::cost::PricedJob;
use answers::expect::ExpectReport;
use answers::expect::files::AcceptanceFile;
use answers::report;
use anyhow::Result;

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
    let question = &arguments.question;
    let mut notes = Vec::new();
    let answer = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, plan) => {
            ExpectReport::of(PricedJob::of_plan(name, plan)?, None, question)?
        }
        Sources::Machines(machines) => {
            let (job, settings) = job::given(machines, &arguments.job, environment, output)?;
            let planned = job::plan_job(&job, &settings, output)?;
            notes.extend(answers::head::notes(&settings));
            ExpectReport::of(PricedJob::of(&planned, None), Some(&planned), question)?
        }
    };
    output.text = match arguments.format() {
        ExpectFormat::Text => answer.page().notices(&notes).text(environment.look()),
        ExpectFormat::Json => report::json(&answer)?,
        ExpectFormat::Aicr => AcceptanceFile::Aicr.of(&answer)?,
        ExpectFormat::Nhc => AcceptanceFile::Nhc.of(&answer)?,
        ExpectFormat::Slurm => AcceptanceFile::Slurm.of(&answer)?,
        ExpectFormat::Pytest => AcceptanceFile::Pytest.of(&answer)?,
    };
    Ok(())
}
