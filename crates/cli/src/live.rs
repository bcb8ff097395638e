//! Machines that are read, not files: this one, a tree of files, a recording.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use probe::nvml::{self, Answers, Library};
use probe::record::{self, Recording};
use probe::{Addresses, Probe, ProbeOptions, Sysfs, base};

use crate::arguments::machine::{ProbeArguments, SourceArguments};
use crate::environment::Environment;
use crate::input::Machine;
use crate::output::Output;

/// Most bytes of a small text file that are read.
const TEXT_LIMIT: u64 = 1 << 20;

/// What a command was given to look at.
#[derive(Debug)]
pub enum Subject {
    /// A topology file.
    File(Machine),
    /// A machine.
    Probed(Box<Probe>),
}

impl Subject {
    /// A file, a recording, or the machine that the arguments mean.
    pub fn read(
        file: Option<&Path>,
        source: &SourceArguments,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<Self> {
        match file {
            Some(path) if Recording::is_one(path) => replay(path, None).map(Self::boxed),
            Some(path) => Machine::read(path, output).map(Self::File),
            None => probe_source(source, environment).map(Self::boxed),
        }
    }

    fn boxed(probe: Probe) -> Self {
        Self::Probed(Box::new(probe))
    }
}

/// Probes what the arguments of `topo probe` mean, and records it where that is asked for.
pub fn probe(arguments: &ProbeArguments, environment: &Environment) -> Result<Probe> {
    let asked = |options: Options| ProbeOptions {
        gpus: arguments.gpus.clone().or(options.gpus),
        all_devices: arguments.all_devices || options.all_devices,
        ..options
    };
    if let Some(folder) = &arguments.source.from {
        let probe = replay(folder, Some(&asked))?;
        known_gpus(arguments, &probe)?;
        return Ok(probe);
    }
    let root = arguments.source.sysfs_root.as_deref();
    check_root(root)?;
    let place = root.unwrap_or(Path::new("/"));
    let sysfs = match &arguments.record {
        Some(_) => Sysfs::recording(place, arguments.with_identifiers),
        None => Sysfs::new(place),
    };
    let (answers, addresses) = surroundings(root);
    let probe = Probe::of(
        &sysfs,
        answers,
        addresses.as_ref(),
        &asked(options(root, &sysfs, environment)?),
    );
    known_gpus(arguments, &probe)?;
    if let Some(folder) = &arguments.record {
        record::save(folder, &sysfs, &probe, addresses.as_ref())?;
    }
    Ok(probe)
}

fn probe_source(source: &SourceArguments, environment: &Environment) -> Result<Probe> {
    if let Some(folder) = &source.from {
        return replay(folder, None);
    }
    let root = source.sysfs_root.as_deref();
    check_root(root)?;
    let (answers, addresses) = surroundings(root);
    let sysfs = Sysfs::new(root.unwrap_or(Path::new("/")));
    Ok(Probe::of(
        &sysfs,
        answers,
        addresses.as_ref(),
        &options(root, &sysfs, environment)?,
    ))
}

/// The topology of a recorded machine, for commands that take files.
pub fn recorded(folder: &Path) -> Result<String> {
    Ok(topology::xml::write(&replay(folder, None)?.document))
}

fn replay(folder: &Path, asked: Option<&dyn Fn(Options) -> ProbeOptions>) -> Result<Probe> {
    let recording = Recording::open(folder)?;
    let options = match asked {
        Some(asked) => asked(recording.options),
        None => recording.options,
    };
    Ok(Probe::of(
        &recording.sysfs,
        recording.answers,
        recording.addresses.as_ref(),
        &options,
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

/// What no file tells: the driver's answers and the interfaces' addresses. They belong to this machine only.
fn surroundings(root: Option<&Path>) -> (Answers, Option<Addresses>) {
    if root.is_some() {
        return (Answers::none("a tree of files has no driver to ask"), None);
    }
    let answers = match Library::load() {
        Ok(library) => nvml::ask(&library),
        Err(reason) => Answers::none(reason),
    };
    (answers, Some(Addresses::of_this_machine()))
}

/// What the environment says of this machine, and the topology file that NCCL would begin with there.
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
    // NCCL goes on without a file that it does not find, and then does not look for the other.
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

/// GPUs that were named must be there.
fn known_gpus(arguments: &ProbeArguments, probe: &Probe) -> Result<()> {
    for wanted in arguments.gpus.iter().flatten() {
        let known: Vec<String> = probe.gpus.iter().map(|gpu| gpu.index.to_string()).collect();
        if !probe.gpus.iter().any(|gpu| gpu.index == *wanted) {
            let there = if known.is_empty() {
                "none".to_owned()
            } else {
                known.join(", ")
            };
            bail!("--gpus {wanted}: the driver knows no such GPU; it has {there}");
        }
    }
    Ok(())
}

/// Reads a small text file that the command line names.
pub fn read_text(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    files::read_text(path, TEXT_LIMIT).with_context(cannot)
}
