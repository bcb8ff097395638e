//! Probing a machine: this one, a tree of files, or a recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use probe::nvml::Answers;
use probe::record::{self, Recording};
use probe::{Addresses, Probe, ProbeOptions, Sysfs, base};

use crate::arguments::machine::{SelectionArguments, SourceArguments};
#[cfg(target_os = "linux")]
use crate::driver::ask as ask_driver;
use crate::environment::Environment;
use crate::linux_only::{self, Need};

/// Most bytes of a small text file that are read.
const TEXT_LIMIT: u64 = 1 << 20;

/// Probes the machine that the arguments name, and records it if they say so.
pub(crate) fn probe(
    source: &SourceArguments,
    selection: &SelectionArguments,
    environment: &Environment,
) -> Result<Probe> {
    let asked = |options: ProbeOptions| ProbeOptions {
        gpus: selection.gpus.clone().or(options.gpus),
        all_devices: selection.all_devices || options.all_devices,
        ..options
    };
    if let Some(folder) = &source.from {
        let probe = replay(folder, asked)?;
        known_gpus(selection, &probe)?;
        return Ok(probe);
    }
    let root = source.sysfs_root.as_deref();
    match root {
        None => linux_only::require("reading this machine", Need::Sysfs)?,
        Some(root) => linux_only::require_links(root)?,
    }
    check_root(root)?;
    let place = root.unwrap_or(Path::new("/"));
    let sysfs = match &selection.record {
        Some(_) => Sysfs::recording(place, selection.with_identifiers),
        None => Sysfs::new(place),
    };
    let asks_driver = root.is_none() || source.driver;
    let (answers, addresses) = beyond_files(root, asks_driver);
    let options = asked(options(root, &sysfs, environment)?);
    let probe = Probe::of(&sysfs, answers, addresses.as_ref(), &options);
    known_gpus(selection, &probe)?;
    if let Some(folder) = &selection.record {
        record::save(folder, &sysfs, &probe, addresses.as_ref())?;
    }
    Ok(probe)
}

/// Probes a recorded machine with its options, changed by `asked`.
pub(crate) fn replay(folder: &Path, asked: impl Fn(ProbeOptions) -> ProbeOptions) -> Result<Probe> {
    linux_only::require_links(folder)?;
    let recording = Recording::open(folder)?;
    Ok(Probe::of(
        &recording.sysfs,
        recording.answers,
        recording.addresses.as_ref(),
        &asked(recording.options),
    ))
}

fn check_root(root: Option<&Path>) -> Result<()> {
    match root {
        Some(root) if !root.join("sys").is_dir() => {
            bail!(
                "{} has no folder sys; expected the root of a file system, with sys and proc in it",
                root.display()
            )
        }
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_driver() -> Answers {
    Answers::none("the driver is asked on Linux alone")
}

/// The driver's answers, and the interfaces' addresses, which exist for this machine only.
fn beyond_files(root: Option<&Path>, asks_driver: bool) -> (Answers, Option<Addresses>) {
    let answers = if asks_driver {
        ask_driver()
    } else {
        Answers::none("a tree of files has no driver to ask")
    };
    let addresses = root.is_none().then(Addresses::of_this_machine);
    (answers, addresses)
}

/// The environment's facts about this machine, and the topology file that NCCL starts from.
fn options(root: Option<&Path>, sysfs: &Sysfs, environment: &Environment) -> Result<ProbeOptions> {
    let guests = sysfs.root().join(base::PLACE);
    if root.is_some() {
        let found = sysfs
            .document(base::PLACE, TEXT_LIMIT)
            .or_else(|_| sysfs.document(base::PLACE_BEHIND_LINK, TEXT_LIMIT))
            .with_context(|| format!("cannot read {}", guests.display()))?;
        return Ok(ProbeOptions {
            topology_file: found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            ..ProbeOptions::default()
        });
    }
    let guests = guests.is_file().then_some(guests);
    let variable = |name: &str| {
        let found = environment.nccl.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    // If NCCL does not find the named file, it starts without one and ignores the guest's.
    let file = match variable("NCCL_TOPO_FILE").map(PathBuf::from) {
        Some(named) => named.is_file().then_some(named),
        None => guests,
    };
    Ok(ProbeOptions {
        visible_devices: environment.visible_devices.clone(),
        ib_hca: variable("NCCL_IB_HCA"),
        ib_disable: variable("NCCL_IB_DISABLE")
            .is_some_and(|value| topology::xml::c_int(&value) != 0),
        socket_ifname: variable("NCCL_SOCKET_IFNAME"),
        topology_file: file.map(|path| read_text(&path)).transpose()?,
        ..ProbeOptions::default()
    })
}

/// Refuses GPUs of `--gpus` that are not there.
fn known_gpus(selection: &SelectionArguments, probe: &Probe) -> Result<()> {
    let known: Vec<String> = probe.gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    let mut wanted = selection.gpus.iter().flatten();
    let Some(unknown) = wanted.find(|wanted| !known.contains(&wanted.to_string())) else {
        return Ok(());
    };
    match known.is_empty() {
        true => bail!("--gpus {unknown}: this machine has no GPU that an NVIDIA driver offers"),
        false => bail!(
            "--gpus {unknown}: the driver has no such GPU; it has {}",
            known.join(", ")
        ),
    }
}

/// Reads a small text file that the command line names.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    files::read_text(path, TEXT_LIMIT).with_context(cannot)
}
