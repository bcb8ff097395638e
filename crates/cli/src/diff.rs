//! `topo diff`: two machines, settings or plans by what a job would notice.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use plan::{Plan, compare};
use topology::edit::Edit;

use crate::arguments::compare::{DiffArguments, EditArguments, TextOrJson};
use crate::arguments::{JobArguments, Variables};
use crate::environment::Environment;
use crate::input::Source;
use crate::job;
use crate::output::{self, Output};
use crate::render::{differences, settings};
use crate::settings::read_settings;
use crate::sizes;

/// One side: its file, settings and edits.
struct Side<'a> {
    file: &'a Path,
    set: &'a [(String, String)],
    without: &'a [Edit],
    degrade: &'a [Edit],
}

/// Prints the differences; the exit status is 1 if there are any.
pub fn run(
    arguments: &DiffArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let first = Side {
        file: &arguments.first,
        set: &arguments.set_a,
        without: &arguments.without_a,
        degrade: &arguments.degrade_a,
    };
    let second = Side {
        file: arguments.second.as_deref().unwrap_or(&arguments.first),
        set: &arguments.set_b,
        without: &arguments.without_b,
        degrade: &arguments.degrade_b,
    };
    let changed = |side: &Side<'_>| {
        !(side.set.is_empty() && side.without.is_empty() && side.degrade.is_empty())
    };
    if arguments.second.is_none() && !changed(&first) && !changed(&second) {
        bail!(
            "only one file is given, and no option tells A from B; expected a second one, or options such as --set-b and --without-b"
        );
    }
    let dash = |side: &Side<'_>| side.file == Path::new("-");
    if dash(&first) && dash(&second) {
        bail!("standard input can be read once only; expected a file for one of the two");
    }
    let sizes = sizes::expand(&arguments.sizes, 2).map_err(|problem| anyhow!(problem))?;
    let (name, plan) = read(arguments, &first, environment, output)?;
    let (other_name, other) = read(arguments, &second, environment, output)?;
    if let Some((without, with)) = match (&plan.costs, &other.costs) {
        (None, Some(_)) => Some((&name, &other_name)),
        (Some(_), None) => Some((&other_name, &name)),
        _ => None,
    } {
        bail!(
            "{without} is a plan without a cost table, but {with} has one; expected both with (topo plan -o writes it)"
        );
    }
    let comparison = compare::compare(&plan, &other, &sizes)?;
    output.differs = !comparison.is_empty();
    output.text = match arguments.form.format() {
        TextOrJson::Text => differences::page(
            [(&name, &plan), (&other_name, &other)],
            &comparison,
            environment.look(),
        ),
        TextOrJson::Json => {
            let value = serde_json::json!({
                "first": name,
                "second": other_name,
                "equal": comparison.is_empty(),
                "facts": comparison.facts,
                "choices": comparison.choices,
            });
            output::json(&value)?
        }
    };
    Ok(())
}

fn read(
    arguments: &DiffArguments,
    side: &Side<'_>,
    environment: &Environment,
    output: &mut Output,
) -> Result<(String, Plan)> {
    let variables = |set| Variables { set };
    match Source::read(side.file, output)? {
        Source::Plan(name, plan) => {
            // The job's options are for the other side when that is a machine.
            job_of(side, variables(side.set.to_vec())).refuse_beside_plan(&name)?;
            Ok((name, *plan))
        }
        Source::Topology(machine) => {
            let set = [&arguments.variables.set[..], side.set].concat();
            let job = JobArguments {
                hosts: arguments.hosts,
                nvlink_domain: arguments.nvlink_domain,
                collnet: arguments.collnet,
                ..job_of(side, variables(set))
            };
            let given = read_settings(&job, environment, output)?;
            output.warnings.extend(settings::warnings(&given));
            let job = job::job(vec![machine], &job, environment, output)?;
            let planned = job::plan_job(&job, &given, output)?;
            Ok((planned.name(), planned.plan()))
        }
    }
}

/// One machine with the edits of a side.
fn job_of(side: &Side<'_>, variables: Variables) -> JobArguments {
    JobArguments {
        edits: EditArguments {
            without: side.without.to_vec(),
            degrade: side.degrade.to_vec(),
        },
        ..JobArguments::of_file(side.file.to_owned(), variables)
    }
}
