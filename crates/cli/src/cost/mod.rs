//! `topo cost`: which algorithm and protocol is taken for which size, and how long that takes.

mod memory;

use std::path::Path;

use answers::cost::PricedJob;
use answers::cost::beside::CostsBeside;
use answers::report;
use anyhow::{Context, Result, bail};
use planner::Job;
use planner::cost::CostProfile;
use planner::cost::profile::built_in_toml;

use crate::arguments::JobArguments;
use crate::arguments::compare::{CostArguments, TextOrJson};
use crate::environment::Environment;
use crate::output::Output;
use crate::settings::read_settings;
use crate::sources::{self, Sources};
use crate::{job, measured};

/// Largest cost profile that is read, bytes.
const PROFILE_LIMIT: u64 = 1 << 20;

pub(crate) fn run(
    arguments: &CostArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if arguments.built_in_profile {
        let version = arguments.job.variables.nccl.unwrap_or_default();
        output.text = built_in_toml(version).to_owned();
        return Ok(());
    }
    if arguments.memory {
        return memory::run(arguments, environment, output);
    }
    let (job, notes) = read(&arguments.job, arguments, environment, output)?;
    let answer = job.ask(&arguments.question.calls)?;
    if !arguments.beside.is_empty() {
        let hosts = answer.hosts;
        let mut jobs = vec![answer];
        for machine in &arguments.beside {
            let job = arguments.job.on(machine, hosts);
            let (job, _) = read(&job, arguments, environment, output)?;
            jobs.push(job.ask(&arguments.question.calls)?);
        }
        let answer = CostsBeside { jobs };
        output.text = match arguments.form.format() {
            TextOrJson::Text => answer.page().notices(&notes).text(environment.look()),
            TextOrJson::Json => report::json(&answer)?,
        };
        return Ok(());
    }
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page().notices(&notes).text(environment.look()),
        TextOrJson::Json => report::json(&answer)?,
    };
    Ok(())
}

/// The job, and what is odd about its settings.
fn read(
    asked: &JobArguments,
    arguments: &CostArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<(PricedJob, Vec<String>)> {
    let own = arguments.profile.as_deref().map(profile).transpose()?;
    let machines = match sources::read(asked, output)? {
        Sources::Plan(name, _) if arguments.profile.is_some() => {
            bail!(
                "{name} is a plan, whose costs were computed when it was made; expected topology files with --profile"
            );
        }
        Sources::Plan(name, _) if arguments.cta_policy.is_some() => {
            bail!(
                "{name} is a plan, whose costs were computed when it was made; expected topology files with --cta-policy"
            );
        }
        Sources::Plan(name, plan) => {
            arguments.measured.refuse_beside_plan(&name)?;
            return Ok((PricedJob::of_plan(name, plan)?, Vec::new()));
        }
        Sources::Machines(machines) => machines,
    };
    let mut variables = asked.variables.clone();
    // Every version reads the number.
    let policy = arguments.cta_policy.map(|it| (it as u8).to_string());
    let policy = policy.map(|number| ("NCCL_CTA_POLICY".to_owned(), number));
    variables.set.extend(policy);
    let settings = read_settings(&machines, &variables, environment, output)?;
    let read = machines.clone();
    let job = Job {
        profile: own.clone(),
        ..job::job(machines, asked, environment, output)?
    };
    let planned = job::plan_job(&job, &settings, output)?;
    let notes = answers::head::notes(&settings).collect();
    let assumptions = job::deciding(read, asked, environment, &settings, &planned)?;
    let priced = PricedJob::of(&planned, own.as_ref()).with_assumptions(&assumptions);
    let priced = match measured::shown_links(&arguments.measured, &planned, own.as_ref())? {
        Some(measured) => priced.on_measured(&measured),
        None => priced,
    };
    Ok((priced, notes))
}

/// Reads a cost profile.
pub(crate) fn profile(file: &Path) -> Result<CostProfile> {
    let cannot = || format!("cannot read the cost profile {}", file.display());
    let text = files::read_text(file, PROFILE_LIMIT).with_context(cannot)?;
    Ok(CostProfile::from_toml(&file.display().to_string(), &text)?)
}
