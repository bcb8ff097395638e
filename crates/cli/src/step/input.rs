//! The calls of a step: files, or Megatron's arguments.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use workload::{Workload, chakra, kineto, list};

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
        return traces(&arguments.workload, ranks, output);
    };
    let mut stream = TextStream::open(file)?;
    if let Some(form) = Form::of(&mut stream)? {
        let name = stream.label.clone();
        let mut traces = Traces::default();
        traces.add(form, stream, output)?;
        return traces.workload(&[name], ranks);
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

/// Traces of several ranks.
fn traces(files: &[PathBuf], ranks: u32, output: &mut Output) -> Result<Workload> {
    let inputs = files.iter().filter(|it| it.as_path() == Path::new("-"));
    if inputs.count() > 1 {
        bail!("standard input (-) can be read once only");
    }
    let (mut traces, mut names) = (Traces::default(), Vec::new());
    for file in files {
        let mut stream = TextStream::open(file)?;
        names.push(stream.label.clone());
        let form = Form::of(&mut stream)?.unwrap_or(Form::Kineto);
        traces.add(form, stream, output)?;
    }
    traces.workload(&names, ranks)
}

/// The forms of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Of PyTorch's profiler.
    Kineto,
    /// An execution trace as JSON.
    ChakraJson,
    /// An execution trace as protobuf.
    ChakraProtobuf,
}

impl Form {
    /// The form of a stream that is a trace.
    fn of(stream: &mut TextStream) -> Result<Option<Self>> {
        let first = stream.text.fill_buf();
        let first = first.with_context(|| format!("cannot read {}", stream.label))?;
        let first = &first[..first.len().min(4096)];
        if chakra::is_binary(first) {
            return Ok(Some(Self::ChakraProtobuf));
        }
        let begin = String::from_utf8_lossy(first);
        Ok(match begin.trim_start().starts_with('{') {
            true if list::json::is_one(&begin) => None,
            true if chakra::is_one(&begin) => Some(Self::ChakraJson),
            true => Some(Self::Kineto),
            false => None,
        })
    }
}

/// Traces of one job, all of one kind.
#[derive(Debug, Default)]
struct Traces {
    kineto: Vec<kineto::Trace>,
    chakra: Vec<chakra::Trace>,
}

impl Traces {
    fn add(&mut self, form: Form, mut stream: TextStream, output: &mut Output) -> Result<()> {
        let name = stream.label.clone();
        let input = stream.text.by_ref().take(TRACE_BYTES);
        match form {
            Form::Kineto => self.kineto.push(kineto::read(&name, input)?),
            Form::ChakraJson => self.chakra.push(chakra::read_json(&name, input)?),
            Form::ChakraProtobuf => self.chakra.push(chakra::read_protobuf(&name, input)?),
        }
        if !self.kineto.is_empty() && !self.chakra.is_empty() {
            bail!(
                "{name}: execution traces and traces of PyTorch's profiler are given together; expected \
                 one kind"
            );
        }
        stream.finish(output);
        Ok(())
    }

    fn workload(&self, names: &[String], ranks: u32) -> Result<Workload> {
        Ok(match self.chakra.is_empty() {
            true => kineto::workload(&self.kineto, names)?,
            false => chakra::workload(&self.chakra, names, ranks)?,
        })
    }
}
