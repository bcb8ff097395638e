//! `topo run --calibrate`: measures the choices that may be the fastest here, and keeps a cost
//! profile for this machine.

use std::time::Instant;

use anyhow::{Context, Result};
use backend_cpu::kept;
use bench::calibrate::Calibration;
use bench::page::calibrated;

use super::{job, network};
use crate::arguments::run::{BufferOwner, CalibrateArguments};
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Steps;
use program::size;

/// Measures, and keeps or writes the profile.
pub(crate) fn run(
    arguments: &CalibrateArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let mut sizes = arguments.sizes.clone();
    sizes.retain(|it| *it > 0);
    sizes.sort_unstable();
    sizes.dedup();
    let wanted = Calibration {
        name: arguments.name.clone(),
        ranks: arguments.ranks.clone(),
        hosts: arguments.hosts.clone(),
        own_memory: arguments.buffers.contains(&BufferOwner::Own),
        callers_memory: arguments.buffers.contains(&BufferOwner::Caller),
        time_s: arguments.seconds,
        sizes,
    };
    let before = job::profile(None, environment, output)?;
    let began = Instant::now();
    let mut progress = Steps::new(environment, wanted.count());
    let profile = wanted.measure(network::print_log, &mut |what, bytes| {
        progress.show(&format!("{what}, {}", size::short(bytes)));
    })?;
    drop(progress);
    let took = began.elapsed().as_secs_f64();
    if let Some(file) = &arguments.output {
        crate::output::write(file, &profile.to_toml()?)?;
    }
    let look = environment.look();
    output.text = calibrated::page(&profile, &before, look);
    let place = match &arguments.output {
        Some(file) => format!(
            "written to {}; topo run --cost-profile uses it",
            file.display()
        ),
        None => {
            let cache = environment.cache.as_deref();
            let cache =
                cache.context("neither XDG_CACHE_HOME nor HOME names a folder: give -o FILE")?;
            let path = kept::keep(cache, &profile)?;
            format!(
                "kept in {}: what this user runs on this machine uses it, unless TOPO_COST_PROFILE is {} or a file",
                path.display(),
                kept::BUILT_IN
            )
        }
    };
    let measured = format!("{took:.1} s; {place}");
    output.text.push_str(&look.field("measured", &measured));
    Ok(())
}
