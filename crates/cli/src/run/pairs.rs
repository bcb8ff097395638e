//! `topo run --pairs`: bandwidths of copies between all pairs of GPUs.

use std::time::Duration;

use answers::report;
use anyhow::{Result, bail};
use bench::cuda::pairs::time_pairs;

use super::launched;
use crate::arguments::compare::TextOrJson;
use crate::arguments::run::{BackendName, RunArguments};
use crate::environment::Environment;
use crate::output::Output;

/// Bytes of a copy: long enough that its start does not count.
const BYTES: u64 = 64 << 20;

pub(super) fn run(
    arguments: &RunArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if arguments.backend != BackendName::Cuda {
        bail!("--pairs is for GPUs; expected --backend cuda with it");
    }
    let launched = launched::detect(arguments, environment)?;
    if launched.is_some_and(|it| it.world > 1) {
        bail!(
            "--pairs loads all GPUs of this machine from one process; expected it to be started once, without a launcher"
        );
    }
    let bytes = arguments.end.clamp(1, BYTES);
    let found = time_pairs(bytes, Duration::from_secs(arguments.timeout))?;
    let is_json = arguments.json || matches!(arguments.format, TextOrJson::Json);
    output.text = match is_json {
        true => report::json(&found)?,
        false => found.text(),
    };
    Ok(())
}
