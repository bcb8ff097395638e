//! `topo diagnose --log`: reads what NCCL logged, and compares it with the plan.

use std::path::Path;

use answers::JobSpec;
use answers::log::{Comparison, LogError, LogQuestion, LogReport};
use answers::report;
use anyhow::{Context, Result, anyhow, bail};
use files::TextStream;
use records::nccl_log::{Collector, Log};

use crate::arguments::compare::TextOrJson;
use crate::arguments::log::LogArguments;
use crate::environment::{Environment, helpers};
use crate::exit;
use crate::job::Remedy;
use crate::output::Output;
use crate::progress::Progress;
use crate::{complete, input};

pub(crate) fn run(
    arguments: &LogArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let log = read(arguments, environment, output)?;
    if log.has_nothing() {
        bail!(
            "{}: no line of NCCL in {} lines; expected the output of a job with NCCL_DEBUG=INFO",
            log.files.join(", "),
            log.counts.lines
        );
    }
    let comparison = match &arguments.topology {
        Some(topology) => Some(compared(&log, topology, arguments, environment, output)?),
        None => None,
    };
    let differs = comparison.as_ref().is_some_and(|it| !it.agrees);
    output.differs = differs || answers::log::is_odd(&log);
    let report = LogReport::of(log, comparison);
    output.text = match arguments.form.format() {
        TextOrJson::Text => report.page().text(environment.look()),
        TextOrJson::Json => report::json(&report)?,
    };
    refuse_broken(&report.log, output)
}

fn compared(
    log: &Log,
    topology: &Path,
    arguments: &LogArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Comparison> {
    let machine = input::machine(topology, output)?;
    let question = LogQuestion {
        job: JobSpec {
            assume: arguments.assume.all(),
            nvlink_domain: arguments.nvlink_domain,
            ..JobSpec::of(machine)
        },
        hosts: arguments.hosts,
        variables: arguments.variables.clone(),
    };
    let _progress = Progress::new(environment, "planning");
    let comparison = answers::log::compare(log, question);
    let comparison = comparison.map_err(|error| {
        if let LogError::Refused { job_notes, .. } = &error {
            Remedy::Option.warn(job_notes, output);
        }
        in_words(error)
    })?;
    Remedy::Option.warn(&comparison.job_notes, output);
    Ok(comparison)
}

/// An error with the options that it is about.
fn in_words(error: LogError) -> anyhow::Error {
    match error {
        LogError::Uneven { .. } => anyhow!("{error} (--hosts)"),
        LogError::Assume(error) => complete::in_words(&error),
        LogError::Job(error) => Remedy::Option.in_words(error),
        error => error.into(),
    }
}

fn read(arguments: &LogArguments, environment: &Environment, output: &mut Output) -> Result<Log> {
    let mut collector = Collector::with_helpers(helpers());
    let progress = Progress::new(environment, "reading");
    for file in &arguments.files {
        let mut stream = TextStream::open(file)?;
        let (label, size) = (stream.label.clone(), stream.size());
        let show = |read| progress.set(TextStream::progress(&label, size, read));
        let read = collector.read(&label, &mut stream.text, show);
        read.with_context(|| format!("cannot read {label}"))?;
        output.warnings.extend(stream.finish());
    }
    Ok(collector.finish())
}

/// Fails after the page if a ring, tree or channel could not be read: a comparison without it would
/// say less than it seems to.
fn refuse_broken(log: &Log, output: &mut Output) -> Result<()> {
    let Some(first) = log.broken.first() else {
        return Ok(());
    };
    exit::print_now(output)?;
    bail!(
        "{}: line {}: `{}` is a ring, tree or channel in an unknown form ({} in all); expected the form of NCCL 2.4 \
         to 2.32; report the line, please",
        first.file,
        first.line,
        first.text,
        log.counts.broken
    );
}
