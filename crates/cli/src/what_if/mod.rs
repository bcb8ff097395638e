//! `topo diff --each-failure`: every single failure of a machine, and what is left of the job.

mod work;

use std::time::Duration;

use anyhow::{Result, bail};

use crate::arguments::compare::{TextOrJson, WhatIfArguments};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::settings::warn_of_doubtful;
use crate::sources;
use work::Asked;

/// Plans the job once for each failure of its first host.
pub(crate) fn run(
    arguments: &WhatIfArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let given = &arguments.job;
    let machines = sources::machines(&given.hosts, output)?;
    let (job, settings) = job::given(machines, given, environment, output)?;
    warn_of_doubtful(&job, &settings, output);
    if job.hosts.is_empty() {
        bail!("the job has no hosts; expected at least one");
    }
    let asked = Asked {
        question: arguments.question.clone(),
        job,
        settings,
        differences: arguments.form.format() == TextOrJson::Json,
    };
    let limit = arguments.time_limit.map(Duration::from_secs);
    let planned = work::work(asked, limit, environment, output)?;
    let answer = planned.finish();
    output.differs = answer.left_out.is_some();
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page(arguments.time_limit).text(environment.look()),
        TextOrJson::Json => answers::report::json(&answer)?,
    };
    Ok(())
}
