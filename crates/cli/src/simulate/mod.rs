//! `topo simulate`: a collective on a virtual clock.

mod experts;

use std::path::Path;

use answers::report;
use answers::simulate::{SimulateError, SimulateQuestion, planned, saved, trace, without_plan};
use anyhow::{Context, Result, anyhow, bail};
use simulator::Fabric;

use crate::arguments::compare::TextOrJson;
use crate::arguments::simulate::SimulateArguments;
use crate::environment::Environment;
use crate::job;
use crate::measured;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::sources::{self, Sources};

/// Largest fabric file that is read, bytes.
const FABRIC_LIMIT: u64 = 16 << 20;

/// Most steps and transfers in a trace, about 30 MB.
const TRACE_SPANS: usize = 200_000;

pub(crate) fn run(
    arguments: &SimulateArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(path) = &arguments.trace {
        output::refuse_overwriting("-o", path, &arguments.job.hosts.files)?;
    }
    let fabric = match &arguments.fabric {
        Some(file) => read_fabric(file)?,
        None => Fabric::default(),
    };
    if let Some(top_k) = arguments.tokens.top_k {
        return experts::run(arguments, top_k, &fabric, environment, output);
    }
    let Some(asked) = &arguments.question else {
        bail!("--collective and --size are missing; expected both");
    };
    let question = SimulateQuestion {
        spans: arguments.trace.as_ref().map_or(0, |_| TRACE_SPANS),
        ..asked.clone()
    };
    let done = match arguments.ranks {
        Some(ranks) => {
            let _progress = Progress::new(environment, "simulating");
            without_plan(ranks, &question, &fabric).map_err(in_words)?
        }
        None => {
            let simulating = || Progress::new(environment, "simulating");
            match sources::read(&arguments.job, output)? {
                Sources::Plan(name, plan) => {
                    arguments.measured.refuse_beside_plan(&name)?;
                    let _progress = simulating();
                    saved(&plan, &question, &fabric)?
                }
                Sources::Machines(machines) => {
                    let made = job::plan_machines(machines, &arguments.job, environment, output)?;
                    let links = measured::links(&arguments.measured, &made)?;
                    output
                        .warnings
                        .extend(links.iter().flat_map(measured::notes));
                    let _progress = simulating();
                    planned(&made, links.as_ref(), &question, &fabric)?
                }
            }
        }
    };
    output.warnings.extend_from_slice(&done.notes);
    if let Some(path) = &arguments.trace {
        output::write(path, &(trace::perfetto(&done)? + "\n"))?;
        let left_out = done.simulated.outcome.spans_left_out;
        if left_out > 0 {
            output.warnings.push(format!(
                "{} holds the first {TRACE_SPANS} steps and transfers; {left_out} more were left out",
                path.display()
            ));
        }
    }
    output.text = match arguments.form.format() {
        TextOrJson::Text => done.page(arguments.links.max(1)).text(environment.look()),
        TextOrJson::Json => report::json(&done)?,
    };
    Ok(())
}

/// An error with the option that it is about.
fn in_words(error: SimulateError) -> anyhow::Error {
    match error {
        SimulateError::NoRate => anyhow!(
            "--ranks without a plan needs the ports' rate: `[network]` with `port-gbps` in the fabric file"
        ),
        error => error.into(),
    }
}

pub(crate) fn read_fabric(file: &Path) -> Result<Fabric> {
    let cannot = || format!("cannot read the fabric file {}", file.display());
    let text = files::read_text(file, FABRIC_LIMIT).with_context(cannot)?;
    let name = file.display().to_string();
    Ok(Fabric::from_text(&name, &text)?)
}
