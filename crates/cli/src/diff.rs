//! `topo diff`: two machines, settings or plans by what a job would notice.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use plan::{Plan, compare};
use topology::edit::Edit;

use crate::arguments::compare::{DiffArguments, EditArguments, TextOrJson};
use crate::arguments::machine::AssumeArguments;
use crate::arguments::{JobArguments, Variables};
use crate::cost::refuse_job_options;
use crate::environment::Environment;
use crate::input::Source;
use crate::job;
use crate::output::Output;
use crate::rank_order;
use crate::render::{Look, differences, settings};
use crate::settings::read_settings;
use crate::sizes;

/// Which side, with what only it has.
struct Side<'a> {
    file: &'a Path,
    set: &'a [(String, String)],
    without: &'a [Edit],
    degrade: &'a [Edit],
}

/// Compares, prints what differs, and says by the status whether anything does.
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
            "there is one file only and nothing to set it apart; expected a second one, or options such as --set-b and --without-b"
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
    let look = Look {
        width: environment.width,
        colour: environment.colour,
    };
    output.text = match arguments.format {
        TextOrJson::Text => {
            differences::page([(&name, &plan), (&other_name, &other)], &comparison, look)
        }
        TextOrJson::Json => {
            let value = serde_json::json!({
                "first": name,
                "second": other_name,
                "equal": comparison.is_empty(),
                "facts": comparison.facts,
                "choices": comparison.choices,
            });
            serde_json::to_string_pretty(&value)? + "\n"
        }
    };
    Ok(())
}

/// The plan of one side, with its costs.
fn read(
    arguments: &DiffArguments,
    side: &Side<'_>,
    environment: &Environment,
    output: &mut Output,
) -> Result<(String, Plan)> {
    let set = [&arguments.variables.set[..], side.set].concat();
    let job = JobArguments {
        files: vec![side.file.to_owned()],
        hosts: arguments.hosts,
        nvlink_domain: arguments.nvlink_domain,
        collnet: arguments.collnet,
        assume: AssumeArguments::default(),
        gpus: None,
        rank_order: rank_order::HOST.to_owned(),
        edits: EditArguments {
            without: side.without.to_vec(),
            degrade: side.degrade.to_vec(),
        },
        variables: Variables { set },
    };
    match Source::read(side.file, output)? {
        Source::Plan(name, plan) => {
            // The job's options are for the other side when that is a machine.
            refuse_job_options(
                &JobArguments {
                    hosts: 1,
                    nvlink_domain: false,
                    collnet: false,
                    variables: Variables {
                        set: side.set.to_vec(),
                    },
                    ..job
                },
                &name,
            )?;
            Ok((name, *plan))
        }
        Source::Topology(machine) => {
            let given = read_settings(&job, environment, output)?;
            output.warnings.extend(settings::warnings(&given));
            let job = job::job(vec![machine], &job, output)?;
            let planned = job::plan_job(&job, &given, output)?;
            Ok((planned.name(), planned.plan()))
        }
    }
}
