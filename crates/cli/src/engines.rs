//! `topo engines`: which all-reduce inference engines take on one host.

use answers::engines::{EnginesError, engines};
use answers::report;
use anyhow::{Result, anyhow};

use crate::arguments::engines::EnginesArguments;
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::sources;

pub(crate) fn run(
    arguments: &EnginesArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = sources::read(&arguments.job, output)?.machines(sources::NO_LINKS)?;
    let told = machines.iter().any(|it| it.said.peers);
    let (job, settings) = job::given(machines, &arguments.job, environment, output)?;
    let planned = job::plan_job(&job, &settings, output)?;
    let engine = arguments.job.variables.engine.as_ref();
    let answer = engines(&job, &planned, engine, told, &arguments.question);
    let answer = answer.map_err(|why| match why {
        EnginesError::NoEngine => {
            anyhow!("--engine-version and --engine-set are for one engine; expected --engine, too")
        }
        why => why.into(),
    })?;
    output.text = match arguments.json {
        true => report::json(&answer)?,
        false => {
            let notes: Vec<String> = answers::head::notes(&settings).collect();
            answer.page().notices(&notes).text(environment.look())
        }
    };
    Ok(())
}
