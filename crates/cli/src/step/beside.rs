//! `topo step --beside`: the same step on other clusters, in one table.

use std::path::Path;

use answers::step::beside::SideBySide;
use answers::step::{StepQuestion, StepReport, step};
use answers::{JobSpec, report};
use anyhow::{Result, bail};

use crate::arguments::step::{StepArguments, StepFormat};
use crate::environment::Environment;
use crate::job::{self, Remedy};
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::read_settings;

/// Prices the step on the other clusters, and prints all.
pub(super) fn run(
    arguments: &StepArguments,
    (first, question): (StepReport, &StepQuestion<'_>),
    format: StepFormat,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let prices = &arguments.host_price;
    let clusters = 1 + arguments.beside.len();
    if !prices.is_empty() && prices.len() != clusters {
        bail!(
            "--host-price: {} prices for {clusters} clusters; expected one for --cluster and for each --beside",
            prices.len()
        );
    }
    if let Some(price) = prices.iter().find(|it| !(it.is_finite() && **it >= 0.0)) {
        bail!("--host-price: {price} is no price; expected numbers of 0 or more");
    }
    if !matches!(format, StepFormat::Text | StepFormat::Json) {
        bail!(
            "--beside prints one table; expected --format text or json, or a call of topo step for each cluster"
        );
    }
    let ranks = first.ranks;
    let mut steps = vec![first];
    for file in &arguments.beside {
        let _progress = Progress::new(environment, "pricing");
        steps.push(on(file, ranks, (arguments, question), environment, output)?);
    }
    let prices = prices.iter().copied().map(Some);
    let prices = prices.chain(std::iter::repeat(None));
    let steps: Vec<_> = steps.into_iter().zip(prices).collect();
    let table = SideBySide::of(&steps);
    output.text = match format {
        StepFormat::Json => report::json(&table)?,
        _ => table.page().text(environment.look()),
    };
    Ok(())
}

/// The step on as many hosts of one machine as have all ranks.
fn on(
    file: &Path,
    ranks: u32,
    (arguments, question): (&StepArguments, &StepQuestion<'_>),
    environment: &Environment,
    output: &mut Output,
) -> Result<StepReport> {
    let name = file.display();
    let machine = crate::input::machine(file, output)?;
    let of_one = job::checked(JobSpec::of(machine.clone()), Remedy::Option, output)?;
    let gpus = answers::step::ranks(&of_one)?;
    if gpus == 0 || !ranks.is_multiple_of(gpus) {
        bail!(
            "--beside {name}: {ranks} ranks are no whole number of hosts with {gpus} GPUs; expected a machine whose \
             GPUs divide them"
        );
    }
    let settings = read_settings(
        std::slice::from_ref(&machine),
        &arguments.job.variables,
        environment,
        output,
    )?;
    let spec = JobSpec {
        hosts: ranks / gpus,
        nvlink_domain: arguments.job.hosts.options.nvlink_domain
            || arguments.domain_hosts.is_some(),
        ..JobSpec::of(machine)
    };
    let job = job::checked(spec, Remedy::Option, output)?;
    let question = StepQuestion {
        domain_hosts: arguments.domain_hosts.unwrap_or_else(|| job.host_count()),
        ..question.clone()
    };
    step(&job, &settings, &question).map_err(super::in_words)
}
