//! `topo run --calibrate`: measures every algorithm here and writes a cost profile.

use anyhow::Result;
use bench::calibrate::Calibration;

use super::network;
use crate::arguments::run::{BufferOwner, CalibrateArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Steps;
use program::size;

/// Measures and prints or writes the profile.
pub(crate) fn run(
    arguments: &CalibrateArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let wanted = Calibration {
        name: arguments.name.clone(),
        ranks: arguments.ranks.clone(),
        hosts: arguments.hosts.clone(),
        own_memory: arguments.buffers.contains(&BufferOwner::Own),
        callers_memory: arguments.buffers.contains(&BufferOwner::Caller),
        time_ms: arguments.time,
    };
    let mut progress = Steps::new(environment, wanted.sizes());
    let profile = wanted.measure(network::print_log, &mut |what, bytes| {
        progress.show(&format!("{what}, {}", size::short(bytes)));
    })?;
    output.write(profile.to_toml()?, arguments.output.as_deref())
}
