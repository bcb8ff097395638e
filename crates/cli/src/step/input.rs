//! The calls of a step: files, or Megatron's arguments.

use std::path::{Path, PathBuf};

use answers::step::Measurements;
use anyhow::{Result, anyhow, bail};
use files::TextStream;
use workload::{Files, Workload};

use crate::arguments::step::StepArguments;
use crate::output::Output;

/// Reads the workload that the arguments name. `ranks` is the number of ranks of the job.
pub(super) fn workload(
    arguments: &StepArguments,
    ranks: u32,
    output: &mut Output,
) -> Result<Workload> {
    if let Some(model) = &arguments.model {
        let training = model.training(ranks, arguments.gpu_tflops);
        return training.workload().map_err(|why| anyhow!(why));
    }
    let is_input = |it: &&PathBuf| it.as_path() == Path::new("-");
    if arguments.workload.iter().filter(is_input).count() > 1 {
        bail!("standard input (-) can be read once only");
    }
    let mut files = Files::new(arguments.gpu_tflops);
    for file in &arguments.workload {
        let mut stream = TextStream::open(file)?;
        let name = stream.label.clone();
        files.add(&name, &mut stream.text, ranks)?;
        output.warnings.extend(stream.finish());
    }
    Ok(files.workload(ranks)?)
}

/// Reads measurements of the cluster.
pub(super) fn measurements(all: &[PathBuf], ranks: u32) -> Result<Measurements> {
    let mut measurements = Measurements::default();
    for file in all {
        let mut stream = TextStream::open(file)?;
        let added = measurements.add(&stream.label, &mut stream.text, ranks);
        added.map_err(|why| anyhow!("--measured: {why}"))?;
    }
    Ok(measurements)
}
