//! `topo bound`: the most that any schedule of a collective reaches, with proofs.

use std::path::Path;

use answers::bound::{BoundError, bound, bound_on, checked, graph};
use answers::report;
use anyhow::{Context, Result, anyhow, bail};
use bounds::reach;
use plan::certificate::{Certificate, check};
use planner::Planned;

use crate::arguments::bound::BoundArguments;
use crate::arguments::compare::TextOrJson;
use crate::environment::Environment;
use crate::output::{self, Output};
use crate::sources;
use crate::{job, measured};

pub(crate) fn run(
    arguments: &BoundArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let inputs = [
        &arguments.job.hosts.files[..],
        arguments.measured.measured.as_slice(),
    ]
    .concat();
    arguments.outputs.refuse_overwriting(&inputs)?;
    if let Some(proof) = &arguments.check {
        return run_check(proof, arguments, environment, output);
    }
    let planned = planned(arguments, environment, output)?;
    let question = &arguments.question;
    let found = match measured::shown_links(&arguments.measured, &planned, None)? {
        Some(measured) => bound_on(&measured, question),
        None => bound(&planned, question),
    };
    let answer = found.map_err(|error| match error {
        BoundError::NoBound(_) => anyhow!("--collective: {error}"),
        error => error.into(),
    })?;
    if let Some(file) = &arguments.certificate {
        output::write(file, &answer.certificate.to_json()?)?;
    }
    arguments
        .outputs
        .judge("topo bound", &answer.checks, output)?;
    // There are bounds, whatever is not known of the links.
    output.unknown = None;
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page().text(environment.look()),
        TextOrJson::Json => report::json(&answer)?,
    };
    Ok(())
}

fn planned(
    arguments: &BoundArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Planned> {
    let machines = sources::read(&arguments.job, output)?.machines(sources::NO_LINKS)?;
    job::plan_machines(machines, &arguments.job, environment, output)
}

/// Checks a certificate; with a topology also that it is about that job.
fn run_check(
    proof: &Path,
    arguments: &BoundArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let name = proof.display();
    if let TextOrJson::Json = arguments.form.format() {
        bail!("--check prints text only; expected no --json or --format json beside it");
    }
    let text = files::read_text(proof, Certificate::MAX_BYTES)
        .with_context(|| format!("cannot read the certificate {name}"))?;
    let certificate = Certificate::from_json(&text).with_context(|| name.to_string())?;
    check(&certificate).with_context(|| name.to_string())?;
    if let Some(asked) = arguments.question.links
        && asked != certificate.links
    {
        bail!(
            "{name}: the proofs hold, but they count the links of --links {}; expected --links {asked}",
            certificate.links
        );
    }
    let mut bounds = certificate.bounds.iter().collect::<Vec<_>>();
    if let Some(asked) = arguments.question.collective {
        bounds.retain(|bound| reach::collective(bound.operation) == asked);
        if bounds.is_empty() {
            bail!(
                "{name}: the proofs hold, but none is about {}, which --collective names",
                asked.command_name()
            );
        }
    }
    let about = match arguments.job.hosts.files.is_empty() {
        true => None,
        false => {
            let planned = planned(arguments, environment, output)?;
            let planned = match measured::shown_links(&arguments.measured, &planned, None)? {
                Some(measured) => measured.planned,
                None => planned,
            };
            if graph(&planned, certificate.links, arguments.question.rails) != certificate.graph {
                bail!(
                    "{name}: the proofs hold, but for other links than those of {}; expected the job that they were made for",
                    planned.name()
                );
            }
            if planned.plan().fingerprint != certificate.fingerprint {
                bail!(
                    "{name}: the proofs hold for these links, but its fingerprint {} is not that of {}, {}; expected the machines and settings that it was made for",
                    certificate.fingerprint,
                    planned.name(),
                    planned.plan().fingerprint
                );
            }
            Some(planned.name())
        }
    };
    output.text = checked(
        &name.to_string(),
        certificate.links,
        &bounds,
        about.as_deref(),
    );
    Ok(())
}
