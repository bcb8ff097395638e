//! The calls of a step: files, or Megatron's arguments.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use workload::{Workload, kineto, list};

use crate::arguments::step::StepArguments;
use crate::output::Output;
use crate::text_stream::TextStream;

/// Largest trace that is read, bytes without compression.
const TRACE_BYTES: u64 = 8 << 30;

/// Reads the workload that the arguments name. `ranks` is the number of ranks of the job.
pub(super) fn workload(
    arguments: &StepArguments,
    ranks: u32,
    output: &mut Output,
) -> Result<Workload> {
    if let Some(training) = arguments.training.training(ranks) {
        return training.workload().map_err(|why| anyhow!(why));
    }
    let [file] = &arguments.workload[..] else {
        return traces(&arguments.workload, output);
    };
    let mut stream = TextStream::open(file)?;
    let first = stream.text.fill_buf();
    let first = first.with_context(|| format!("cannot read {}", stream.label))?;
    let begin = String::from_utf8_lossy(&first[..first.len().min(4096)]).into_owned();
    if begin.trim_start().starts_with('{') && !list::json::is_one(&begin) {
        return one_trace(stream, output);
    }
    let name = stream.label.clone();
    let mut bytes = Vec::new();
    let read = stream
        .text
        .by_ref()
        .take(workload::MAX_BYTES + 1)
        .read_to_end(&mut bytes);
    read.with_context(|| format!("cannot read {name}"))?;
    if bytes.len() as u64 > workload::MAX_BYTES {
        bail!(
            "{name} is larger than {} MiB; expected a list of calls or a workload of SimAI",
            workload::MAX_BYTES >> 20
        );
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        anyhow!("{name}:{line}: a byte that is no text (UTF-8); expected a list of calls or a workload of SimAI")
    })?;
    Ok(workload::read(&name, text, ranks)?)
}

fn one_trace(stream: TextStream, output: &mut Output) -> Result<Workload> {
    let name = stream.label.clone();
    let trace = trace(stream, output)?;
    Ok(kineto::workload(&[trace], &[name])?)
}

/// Traces of several ranks.
fn traces(files: &[PathBuf], output: &mut Output) -> Result<Workload> {
    if files
        .iter()
        .filter(|it| it.as_path() == Path::new("-"))
        .count()
        > 1
    {
        bail!("standard input (-) can be read once only");
    }
    let (mut traces, mut names) = (Vec::new(), Vec::new());
    for file in files {
        let stream = TextStream::open(file)?;
        names.push(stream.label.clone());
        traces.push(trace(stream, output)?);
    }
    Ok(kineto::workload(&traces, &names)?)
}

fn trace(mut stream: TextStream, output: &mut Output) -> Result<kineto::Trace> {
    let name = stream.label.clone();
    let trace = kineto::read(&name, stream.text.by_ref().take(TRACE_BYTES))?;
    stream.finish(output);
    Ok(trace)
}
