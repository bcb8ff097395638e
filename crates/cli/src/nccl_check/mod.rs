//! `topo nccl-check`: asks the user's own NCCL what it decides, and compares it with the plan.

pub(crate) mod library;

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use answers::report;
use answers::sizes::Sizes;
use anyhow::{Context, Result, anyhow, bail};
use nccl_binary::check::{Asked, check, page};
use nccl_binary::host;
use nccl_binary::job::RESERVED;
use nccl_binary::message::{DRIVER_VERSION, Network};
use planner::settings::driver_number;

use crate::arguments::compare::TextOrJson;
use crate::arguments::nccl_check::{NcclCheckArguments, Net};
use crate::environment::Environment;
use crate::job::{Remedy, checked, spec_of};
use crate::output::Output;
use crate::settings::with_graph_file;
use crate::sources;

/// The hidden command of a host's process.
pub(crate) const HOST_COMMAND: &str = "nccl-host";

/// Largest message that NCCL is asked about, bytes. Its buffers take no memory, but addresses.
const LARGEST: u64 = 16 << 30;

/// The next size of a range.
const FACTOR: u64 = 2;

pub(crate) fn run(
    arguments: &NcclCheckArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    refuse_reserved(arguments)?;
    let machines = sources::machines(&arguments.hosts, output)?;
    let spec = spec_of(machines, &arguments.hosts, &arguments.ranks, environment)?;
    let job = checked(spec, Remedy::Complete, output)?;
    let library = library::find(&arguments.nccl, arguments.yes, environment)?;
    let check = check(&asked(arguments)?, &library, &job, |settings| {
        with_graph_file(settings, output)
    })?;
    output.differs = !check.agrees;
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&check, environment.look()),
        TextOrJson::Json => report::json(&check)?,
    };
    Ok(())
}

/// Refuses variables that NCCL gets anyway.
fn refuse_reserved(arguments: &NcclCheckArguments) -> Result<()> {
    for (name, value) in &arguments.set {
        if RESERVED.contains(&name.as_str()) {
            bail!(
                "--set {name}={value}: topo nccl-check gives NCCL this variable itself; expected one that decides"
            );
        }
    }
    Ok(())
}

/// This program as a host's process, and its arguments.
///
/// # Errors
/// Its file is not known.
pub(crate) fn host_process() -> Result<(PathBuf, Vec<OsString>)> {
    let program = std::env::current_exe().context("cannot find topo's own file")?;
    Ok((program, vec![OsString::from(HOST_COMMAND)]))
}

fn asked(arguments: &NcclCheckArguments) -> Result<Asked> {
    Ok(Asked {
        program: host_process()?,
        timeout: arguments.timeout,
        network: match arguments.net {
            Net::Ib => Network::Merging,
            Net::Plugin => Network::Plugin,
            Net::Socket => Network::Socket,
        },
        tuner: arguments.tuner.as_deref().map(tuner).transpose()?,
        sizes: sizes(arguments)?,
        calls: arguments.calls.calls(),
        peers: arguments.peers,
        driver: driver_number(&arguments.driver_version).unwrap_or(DRIVER_VERSION),
        set: arguments.set.clone(),
    })
}

/// The message sizes that NCCL is asked about, bytes.
fn sizes(arguments: &NcclCheckArguments) -> Result<Vec<u64>> {
    let all = answers::sizes::expand(&arguments.sizes, FACTOR, Sizes::USUAL)
        .map_err(|error| anyhow!("--sizes: {error}"))?;
    match all.last() {
        Some(last) if *last > LARGEST => {
            bail!("--sizes: {last} bytes are more than NCCL is asked about; expected at most 16G")
        }
        _ => Ok(all),
    }
}

/// The absolute path of a tuner plug-in.
fn tuner(file: &Path) -> Result<PathBuf> {
    let found = file.canonicalize();
    let found = found.with_context(|| format!("--tuner {}", file.display()))?;
    if !found.is_file() {
        bail!("--tuner {}: expected a library", file.display());
    }
    Ok(found)
}

/// The process of one host.
pub(crate) fn serve() -> Result<()> {
    let mut input = BufReader::new(io::stdin());
    let mut output = io::stdout();
    host::serve(&mut input, &mut output).context("the parent of this process is gone")
}
