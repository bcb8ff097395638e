//! `topo log`: reads what NCCL logged, and compares it with the plan.

pub mod against_plan;
pub mod json;
mod page;
mod rebuilt;

use anyhow::{Context, Result, bail};
use nccl_log::statement::Stage;
use nccl_log::{Collector, Log};

use crate::arguments::compare::TextOrJson;
use crate::arguments::log::LogArguments;
use crate::environment::Environment;
use crate::exit;
use crate::output::Output;
use crate::progress::Progress;
use crate::text_stream::TextStream;
use against_plan::Comparison;
use answers::report;
use json::LogReport;

pub fn run(arguments: &LogArguments, environment: &Environment, output: &mut Output) -> Result<()> {
    let log = read(arguments, environment, output)?;
    if log.counts.recognized + log.counts.ignored + log.counts.warnings == 0 {
        bail!(
            "{}: no line of NCCL in {} lines; expected the output of a job with NCCL_DEBUG=INFO",
            log.files.join(", "),
            log.counts.lines
        );
    }
    let comparison = match &arguments.topology {
        Some(topology) => Some(against_plan::compare(
            &log,
            topology,
            arguments,
            environment,
            output,
        )?),
        None => None,
    };
    let differs = comparison.as_ref().is_some_and(Comparison::differs);
    output.differs = differs || is_odd(&log);
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&log, comparison.as_ref(), environment.look()),
        TextOrJson::Json => report::json(&LogReport::of(&log, comparison.as_ref()))?,
    };
    refuse_broken(&log, output)
}

fn read(arguments: &LogArguments, environment: &Environment, output: &mut Output) -> Result<Log> {
    let mut collector = Collector::default();
    let progress = Progress::new(environment, "reading");
    for file in &arguments.files {
        let mut stream = TextStream::open(file)?;
        let (label, size) = (stream.label.clone(), stream.size());
        let show = |read| progress.set(TextStream::progress(&label, size, read));
        let read = collector.read(&label, &mut stream.text, show);
        read.with_context(|| format!("cannot read {label}"))?;
        stream.finish(output);
    }
    Ok(collector.finish())
}

/// Whether there is something to look at.
pub fn is_odd(log: &Log) -> bool {
    let unready =
        |stage: Option<Stage>| matches!(stage, Some(Stage::Start | Stage::Shape | Stage::Aborted));
    let mut members = log.communicators.iter().flat_map(|it| &it.members);
    !log.warnings.is_empty()
        || !log.odd_hosts.is_empty()
        || log.communicators.iter().any(|it| !it.odd_ranks.is_empty())
        || members.any(|it| unready(it.stage))
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
