//! `topo tune`: what NCCL can be told to be faster on a machine, and by how much.

#[cfg(target_os = "linux")]
pub(crate) mod check;

use answers::report;
use answers::tune::{TuneReport, WrittenFiles, tune};
use anyhow::{Error, Result};
use pages::draw::plans;
use plan::cost::Calls;
use planner::{Job, Settings};

use crate::arguments::tune::{TuneArguments, TuneFormat};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::warn_of_doubtful;
use crate::sources::{self};
use crate::{cost, export, job, linux};

pub(crate) fn run(
    arguments: &TuneArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let (job, settings) = job_to_tune(arguments, environment, output)?;
    let mut answer = {
        let _progress = Progress::new(environment, "trying settings and rings");
        tune(job.clone(), &settings, &arguments.question)?
    };
    answer.asks_for_files = arguments.dir.is_some();
    if let (Some(dir), None) = (&arguments.dir, &answer.proposal) {
        export::clear(dir, output)?;
    }
    if let (Some(dir), Some(proposal)) = (&arguments.dir, &answer.proposal) {
        let done = export::write(&[proposal.set()], dir, false, Calls::ONE, output)?;
        for library in &arguments.nccl_library {
            let check = linux::tune_check(library, &job, proposal, &done, environment)?;
            answer.checks.push(check);
        }
        answer.files = Some(WrittenFiles::of(&done));
    }
    output.differs = answer.checks.iter().any(|it| !it.agrees);
    output.text = match arguments.format() {
        TuneFormat::Text => answer.page().text(environment.look()),
        TuneFormat::Html => html(&answer, &answer.page().text(plans::LOOK))?,
        TuneFormat::Json => report::json(&answer)?,
    };
    Ok(())
}

fn job_to_tune(
    arguments: &TuneArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<(Job, Settings)> {
    let machines = sources::read(&arguments.job, output)?.machines(sources::NO_LINKS)?;
    let (job, settings) = job::given(machines, &arguments.job, environment, output)?;
    let profile = arguments
        .profile
        .as_deref()
        .map(cost::profile)
        .transpose()?;
    let job = Job { profile, ..job };
    warn_of_doubtful(&job, &settings, output);
    Ok((job, settings))
}

/// The page with pictures of the machine under the proposal.
fn html(answer: &TuneReport, text: &str) -> Result<String> {
    let proposed = answer.proposal.as_ref().map(|it| &it.planned);
    plans::page(proposed.unwrap_or(&answer.now), text).map_err(Error::msg)
}
