//! `topo tune`: what NCCL can be told to be faster on a machine, and by how much.

#[cfg(target_os = "linux")]
pub(crate) mod check;
mod page;
mod tried;

use answers::report;
use answers::tune::json::LibraryCheck;
use answers::tune::{TuneAnswer, TuneQuestion, TuneReport, tune};
use anyhow::{Result, anyhow, bail};
use plan::cost::Calls;
use planner::Job;

use crate::arguments::tune::{TuneArguments, TuneFormat};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::{read_settings, warn_of_doubtful};
use crate::sources::{self, Sources};
use crate::{cost, export, job, linux, pictures, sizes};

/// The next size of a range.
const FACTOR: u64 = 8;

pub(crate) fn run(
    arguments: &TuneArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let question = question(arguments, environment, output)?;
    let job = question.job.clone();
    let answer = {
        let _progress = Progress::new(environment, "trying settings and rings");
        tune(question)?
    };
    let mut written = None;
    let mut checks = Vec::new();
    if let (Some(dir), None) = (&arguments.dir, &answer.proposal) {
        export::clear(dir, output)?;
    }
    if let (Some(dir), Some(proposal)) = (&arguments.dir, &answer.proposal) {
        let done = export::write(&[proposal.set()], dir, false, Calls::ONE, output)?;
        for library in &arguments.nccl_library {
            checks.push(linux::tune_check(
                library,
                &job,
                proposal,
                &done,
                environment,
            )?);
        }
        written = Some(done);
    }
    output.differs = checks.iter().any(|it: &LibraryCheck| !it.agrees);
    let shown = page::Shown {
        answer: &answer,
        written: written.as_ref(),
        checks: &checks,
        asks_for_files: arguments.dir.is_some(),
    };
    output.text = match arguments.format() {
        TuneFormat::Text => page::page(&shown, environment.look()),
        TuneFormat::Html => html(&answer, &page::page(&shown, pictures::LOOK))?,
        TuneFormat::Json => report::json(&TuneReport::of(&answer, written, checks))?,
    };
    Ok(())
}

fn question(
    arguments: &TuneArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<TuneQuestion> {
    let sizes = sizes::expand(&arguments.sizes, FACTOR).map_err(|problem| anyhow!(problem))?;
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, _) => {
            bail!(
                "{name} is a plan, which does not hold every link of its machines; expected topology files"
            )
        }
        Sources::Machines(machines) => machines,
    };
    let settings = read_settings(&arguments.job.variables, environment, output)?;
    let profile = arguments
        .profile
        .as_deref()
        .map(cost::profile)
        .transpose()?;
    let job = Job {
        profile,
        ..job::job(machines, &arguments.job, environment, output)?
    };
    warn_of_doubtful(&job, &settings, output);
    Ok(TuneQuestion {
        job,
        settings,
        collectives: sizes::each_once(&arguments.collective),
        sizes,
        from: arguments.from,
    })
}

/// The page with pictures of the machine under the proposal.
fn html(answer: &TuneAnswer, text: &str) -> Result<String> {
    let proposed = answer.proposal.as_ref().map(|it| &it.planned);
    pictures::page(proposed.unwrap_or(&answer.now), text)
}
