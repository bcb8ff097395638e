//! `topo expect --results`: what was measured, beside what is predicted and the bound.

mod input;

use std::path::Path;

use answers::results::fit::Fit;
use answers::results::{
    Against, NamedFit, Notes, ResultsError, ResultsQuestion, ResultsReport, results,
};
use answers::{JobSpec, report};
use anyhow::{Context, Result, anyhow, bail};
use findings::{Check, Maturity};

use crate::arguments::compare::TextOrJson;
use crate::arguments::results::ResultsArguments;
use crate::environment::Environment;
use crate::job::Remedy;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::render::Look;
use crate::{complete, cost};

pub(crate) fn run(
    arguments: &ResultsArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(path) = &arguments.fit {
        output::refuse_overwriting("--fit", path, &arguments.files)?;
    }
    arguments.outputs.refuse_overwriting(&arguments.files)?;
    let profile = arguments
        .profile
        .as_deref()
        .map(cost::profile)
        .transpose()?;
    if arguments.expect && arguments.topology.is_none() && arguments.plan.is_none() {
        bail!("--expect needs the machine; expected --topology or --plan");
    }
    let (read, unread) = input::read(&arguments.files, environment, output)?;
    let judge = |checks: &[Check], output: &mut Output| {
        arguments.outputs.judge("topo expect", checks, output)
    };
    let unknown =
        |why: String| [Check::new("tables", "all files", Maturity::Measured).unknown(why)];
    if read.is_empty() {
        let names = arguments.files.iter().map(|it| it.display().to_string());
        let why = format!("no measurement in {}", names.collect::<Vec<_>>().join(", "));
        if !arguments.expect {
            bail!(why);
        }
        return judge(&unknown(why), output);
    }
    let visible = environment.visible_devices.as_deref();
    let gpus = arguments.gpus.as_ref().map(|it| it.gpus(visible));
    let question = ResultsQuestion {
        against: against(arguments, output)?,
        hosts: arguments.hosts,
        gpus: gpus.transpose().map_err(|why| anyhow!("--{why}"))?,
        variables: arguments.variables.clone(),
        collective: arguments.collective,
        profile,
        fit: arguments.fit.as_ref().map(|it| it.display().to_string()),
        accepts: arguments.expect,
        tolerates: false,
    };
    let _progress = Progress::new(environment, "planning");
    let mut notes = Notes::default();
    let results = results(read, &question, &mut notes);
    Remedy::Option.warn(&notes.of_jobs, output);
    output.warnings.extend(notes.of_plans);
    if let (true, Err(error @ ResultsError::OtherRanks { .. })) = (arguments.expect, &results) {
        return judge(&unknown(format!("{error} (--hosts, --gpus)")), output);
    }
    let mut results = results.map_err(in_words)?;
    if arguments.expect {
        let unread = unread.iter().map(|file| {
            let check = Check::new("tables", file, Maturity::Measured);
            check.unknown(format!(
                "{file}: no table that can be judged, or not all of it"
            ))
        });
        results.checks.extend(unread);
    }
    judge(&results.checks, output)?;
    if let (Some(path), Some(NamedFit { fit, .. })) = (&arguments.fit, &results.fit) {
        write(fit, path)?;
    }
    output.text = match arguments.form.format() {
        TextOrJson::Text => pages(&results, environment.look()),
        TextOrJson::Json => report::json(&results)?,
    };
    Ok(())
}

/// The pages of all tables, one after the other, so that only one is held.
fn pages(results: &ResultsReport, look: Look) -> String {
    let mut text = String::new();
    for page in results.pages() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&page.text(look));
    }
    text
}

fn against(arguments: &ResultsArguments, output: &mut Output) -> Result<Against> {
    Ok(match (&arguments.topology, &arguments.plan) {
        (Some(topology), _) => {
            let machine = crate::input::machine(topology, output)?;
            Against::Machine(Box::new(JobSpec {
                assume: arguments.assume.all(),
                nvlink_domain: arguments.nvlink_domain,
                ..JobSpec::of(machine)
            }))
        }
        (None, Some(file)) => {
            let plan = crate::input::plan(file)?;
            Against::Plan(file.display().to_string(), plan)
        }
        (None, None) => Against::Nothing,
    })
}

/// An error with the options that it is about.
fn in_words(error: ResultsError) -> anyhow::Error {
    match error {
        ResultsError::OtherRanks { .. } => anyhow!("{error} (--hosts, --gpus)"),
        ResultsError::NoCosts(file) => {
            anyhow!("{file} is a plan without a cost table; expected one that topo plan -o wrote")
        }
        ResultsError::Assume(error) => complete::in_words(&error),
        ResultsError::Job(error) => Remedy::Option.in_words(error),
        ResultsError::Fit(error) => anyhow::Error::new(error).context("--fit"),
        error => error.into(),
    }
}

/// Writes a fitted profile, for topo cost --profile.
fn write(fit: &Fit, path: &Path) -> Result<()> {
    let text = fit
        .profile
        .to_toml()
        .context("cannot write the cost profile")?;
    let head = "# A cost profile that topo expect --results --fit wrote: topo cost topology.xml --profile FILE\n\n";
    output::write(path, &format!("{head}{text}"))
}
