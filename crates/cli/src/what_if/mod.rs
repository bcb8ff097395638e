//! `topo diff --each-failure`: every single failure of a machine, and what is left of the job.

mod work;

use std::time::Duration;

use answers::what_if::{WhatIfQuestion, failures_of};
use anyhow::{Result, anyhow, bail};

use crate::arguments::compare::{FailingDevice, TextOrJson, WhatIfArguments};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::settings::{read_settings, warn_of_doubtful};
use crate::{sizes, sources};

/// Plans the job once for each failure of its first host.
pub(crate) fn run(
    arguments: &WhatIfArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let given = &arguments.job;
    let settings = read_settings(&given.variables, environment, output)?;
    let job = job::job(
        sources::machines(&given.hosts, output)?,
        given,
        environment,
        output,
    )?;
    warn_of_doubtful(&job, &settings, output);
    let sizes = sizes::expand(&arguments.sizes, 2).map_err(|problem| anyhow!(problem))?;
    if job.hosts.is_empty() {
        bail!("the job has no hosts; expected at least one");
    }
    let kinds: Vec<_> = arguments
        .only
        .iter()
        .flat_map(FailingDevice::kinds)
        .copied()
        .collect();
    let again = arguments.bound.then(|| job.clone());
    let asked = WhatIfQuestion {
        failures: failures_of(&job, &kinds),
        job,
        settings,
        sizes,
        differences: arguments.form.format() == TextOrJson::Json,
    };
    let limit = arguments.time_limit.map(Duration::from_secs);
    let planned = work::work(asked, limit, environment, output)?;
    let answer = planned.finish(again.as_ref());
    output.differs = answer.left_out.is_some();
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page(arguments.time_limit).text(environment.look()),
        TextOrJson::Json => answers::report::json(&answer)?,
    };
    Ok(())
}
