//! Topology files, wherever they come from.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use answers::Machine;
use answers::built_in::BuiltIn;
use answers::suggest;
use anyhow::{Context, Result, anyhow, bail};
use findings::Finding;
use plan::Plan;
use planner::Settings;
use probe::Probe;
use probe::record::Recording;
use records::Listings;
use topology::System;
use topology::xml::Limits;

use crate::arguments::machine::{SelectionArguments, SourceArguments};
use crate::environment::Environment;
use crate::hints;
use crate::listings;
use crate::live;
use crate::output::Output;
use crate::render::count;

const IN_FOLDER: &str = "topology.xml";

/// Most names of a folder that are looked at for a hint.
const MOST_NAMES: usize = 1 << 14;

/// Reads a machine with warnings: a topology file, what nvidia-smi and lspci printed, a folder with
/// topology.xml or with such listings, a recording, or standard input (`-`). It is called as its
/// file, or as the folder when the file is called topology.xml.
pub(crate) fn machine(file: &Path, output: &mut Output) -> Result<Machine> {
    read(file, output).map(|(name, it)| named_machine(name, it))
}

fn named_machine(name: String, machine: records::Machine) -> Machine {
    Machine {
        name,
        document: Arc::new(machine.document),
        said: machine.said,
        alternatives: machine.alternatives.into(),
    }
}

/// A machine with its name.
fn read(file: &Path, output: &mut Output) -> Result<(String, records::Machine)> {
    let read = Bytes::read(file, Limits::default().bytes)?;
    if read.is_json() {
        bail!(
            "{} is JSON, as plans are; expected a topology file (XML) or what nvidia-smi or lspci \
             printed",
            read.label
        );
    }
    parse(&[read], output)
}

/// The machine of the inputs, called as the first of them.
fn parse(all: &[Bytes], output: &mut Output) -> Result<(String, records::Machine)> {
    let machine = match all {
        [one] if one.parts.is_empty() => {
            records::machine(&one.label, &one.bytes).map_err(|why| one.refused(why))?
        }
        _ => {
            let labels: Vec<&str> = all.iter().map(|it| it.label.as_str()).collect();
            let texts: Vec<(&str, &[u8])> = all.iter().flat_map(Bytes::texts).collect();
            listings::joined(&labels.join(" + "), &texts, output)?
        }
    };
    let warnings = machine.document.warnings.iter().map(ToString::to_string);
    output.warnings.extend(warnings);
    output.warnings.extend(machine.assumed.iter().cloned());
    let name = all.first().map(|it| it.name.clone());
    Ok((name.unwrap_or_default(), machine))
}

/// Fails on a file of AMD's RCCL.
pub(crate) fn refuse_rccl(machine: &Machine) -> Result<()> {
    match machine.document.is_rccl() {
        false => Ok(()),
        true => bail!(rccl(machine.document.file.to_string())),
    }
}

/// Why a file of AMD's RCCL is not planned, and what reads it.
pub(crate) fn rccl(file: String) -> String {
    format!(
        "{}; `topo show`, `topo show --matrix`, `topo doctor` and `topo diff` read this file",
        planner::Error::Rccl { file }
    )
}

/// The machine as NCCL builds it.
pub(crate) fn system(machine: &Machine, settings: &Settings) -> Result<System> {
    refuse_rccl(machine)?;
    Ok(settings.system(&machine.document)?)
}

/// A topology file or a probed machine.
#[derive(Debug)]
pub(crate) enum FileOrProbe {
    File {
        machine: Machine,
        findings: Vec<Finding>,
        /// What listings do not say of it.
        assumed: Vec<String>,
    },
    Probed(Box<Probe>),
}

impl FileOrProbe {
    /// Reads a file or a recording, or probes the machine that the arguments name.
    pub(crate) fn read(
        file: Option<&Path>,
        source: &SourceArguments,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<Self> {
        match file {
            Some(path) if is_recording(path) => live::replay(path, |it| it).map(Self::boxed),
            Some(path) => {
                let (name, machine) = read(path, output)?;
                Ok(Self::File {
                    findings: machine.findings(),
                    assumed: machine.assumed.clone(),
                    machine: named_machine(name, machine),
                })
            }
            None => {
                let selection = SelectionArguments::default();
                live::probe(source, &selection, environment).map(Self::boxed)
            }
        }
    }

    fn boxed(probe: Probe) -> Self {
        Self::Probed(Box::new(probe))
    }
}

/// A plan or a machine.
#[derive(Debug)]
pub(crate) enum Source {
    /// A plan, with what it is called.
    Plan(String, Plan),
    Topology(Machine),
}

/// A file of several.
enum Given {
    Whole(Source),
    /// Listings of a machine, which others may add to.
    Listing(Bytes),
}

impl Given {
    fn source(self, output: &mut Output) -> Result<Source> {
        match self {
            Self::Whole(source) => Ok(source),
            Self::Listing(read) => Source::of(read, output),
        }
    }
}

impl Source {
    /// Reads a plan or a topology file: JSON is the one, XML the other.
    pub(crate) fn read(file: &Path, output: &mut Output) -> Result<Self> {
        Self::of(Bytes::read(file, Plan::MAX_BYTES)?, output)
    }

    /// Reads plans and topology files. Listings that describe no machine by themselves (names,
    /// processors, adapters) are part of the one machine that another file describes.
    pub(crate) fn read_all(files: &[PathBuf], output: &mut Output) -> Result<Vec<Self>> {
        let (mut parts, mut machines) = (Vec::new(), Vec::new());
        let mut left = Plan::MAX_BYTES;
        for file in files {
            let read = Bytes::read(file, left)?;
            let facts = match files.len() > 1 && read.parts.is_empty() && !read.is_json() {
                true => Listings::read(&read.label, &read.bytes).ok().flatten(),
                false => None,
            };
            // Texts are held until all are known, the rest is small when it was read.
            match facts {
                None if read.parts.is_empty() => {
                    machines.push(Given::Whole(Self::of(read, output)?))
                }
                Some(facts) if !facts.has_places() => {
                    left -= read.bytes.len();
                    parts.push(read);
                }
                _ => {
                    left = left.saturating_sub(read.texts().iter().map(|it| it.1.len()).sum());
                    machines.push(Given::Listing(read));
                }
            }
        }
        let Some(part) = parts.first().map(|it| it.label.clone()) else {
            let all = machines.into_iter().map(|it| it.source(output));
            return all.collect();
        };
        match machines.pop() {
            Some(Given::Listing(machine)) if machines.is_empty() => parts.insert(0, machine),
            None => {}
            Some(_) if machines.is_empty() => bail!(
                "{part} describes no machine by itself, and the other file holds all of one; expected \
                 listings beside listings"
            ),
            Some(_) => bail!(
                "{part} describes no machine by itself, and the job has {} others; expected the \
                 listings of each host in a folder or file of its own",
                machines.len() + 1
            ),
        }
        let (name, machine) = parse(&parts, output)?;
        Ok(vec![Self::Topology(named_machine(name, machine))])
    }

    fn of(read: Bytes, output: &mut Output) -> Result<Self> {
        if read.is_json() {
            let text = std::str::from_utf8(&read.bytes)
                .with_context(|| format!("{} is no plan", read.label))?;
            let plan = Plan::from_json(text).with_context(|| read.label.clone())?;
            return Ok(Self::Plan(read.name, plan));
        }
        let (name, machine) = parse(&[read], output)?;
        Ok(Self::Topology(named_machine(name, machine)))
    }
}

/// Reads a plan from a file, or from standard input (`-`).
pub(crate) fn plan(file: &Path) -> Result<Plan> {
    let read = Bytes::read(file, Plan::MAX_BYTES)?;
    // Bytes that are not text appear as replacement characters in the error.
    let text = String::from_utf8_lossy(&read.bytes);
    Plan::from_json(&text).with_context(|| read.label)
}

/// Whether a folder is a recorded machine. The root of this one also has a folder `sys`.
pub(crate) fn is_recording(folder: &Path) -> bool {
    Recording::is_one(folder) && !is_root(folder)
}

fn is_root(folder: &Path) -> bool {
    std::fs::canonicalize(folder).is_ok_and(|full| full.parent().is_none())
}

/// Refuses a name without a file behind it, so that later errors are about what files hold.
pub(crate) fn refuse_missing(file: &Path) -> Result<()> {
    let has_no_file = file == Path::new("-") || named(file).is_some();
    let is_found = has_no_file || is_recording(file);
    if !is_found && listings_in(file, Limits::default().bytes as u64).is_empty() {
        resolve(file)?;
    }
    Ok(())
}

/// Why a file cannot be read, without its name.
pub(crate) fn why(file: &Path, problem: &anyhow::Error) -> String {
    let text = format!("{problem:#}");
    let rest = text.strip_prefix(&format!("{}:", file.display()));
    rest.map_or(text.as_str(), str::trim_start).to_owned()
}

struct Bytes {
    /// The name of the machine or plan.
    name: String,
    /// The name of the file in messages.
    label: String,
    bytes: Vec<u8>,
    /// The files of a folder, in place of bytes.
    parts: Vec<(String, Vec<u8>)>,
}

impl Bytes {
    /// Reads at most `most` bytes.
    fn read(file: &Path, most: usize) -> Result<Self> {
        let most = most as u64;
        if file == Path::new("-") {
            let name = "standard input".to_owned();
            let bytes = files::standard_input(most).context("cannot read standard input")?;
            return Ok(Self {
                label: name.clone(),
                name,
                bytes,
                parts: Vec::new(),
            });
        }
        if is_recording(file) && !file.join(IN_FOLDER).is_file() {
            return Ok(Self {
                name: folder_name(file),
                label: file.display().to_string(),
                bytes: topology::xml::write(&live::replay(file, |it| it)?.document).into_bytes(),
                parts: Vec::new(),
            });
        }
        if let Some(machine) = named(file) {
            return Ok(Self {
                name: machine.name.to_owned(),
                label: format!("{} (built in)", machine.name),
                bytes: machine.text.as_bytes().to_vec(),
                parts: Vec::new(),
            });
        }
        let path = match resolve(file) {
            Ok(path) => path,
            Err(why) => {
                let parts = listings_in(file, most);
                if parts.is_empty() {
                    return Err(why);
                }
                return Ok(Self {
                    name: folder_name(file),
                    label: file.display().to_string(),
                    bytes: Vec::new(),
                    parts,
                });
            }
        };
        let bytes = files::read(&path, most);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            name: machine_name(&path),
            label: path.display().to_string(),
            bytes,
            parts: Vec::new(),
        })
    }

    /// Why it is no machine, with the command that reads it.
    fn refused(&self, why: topology::Error) -> anyhow::Error {
        let is_xml = self.bytes.trim_ascii_start().starts_with(b"<");
        let command = (!is_xml).then(|| hints::other_command(&self.label, &self.bytes));
        match command.flatten() {
            Some(command) => anyhow!("{why}\n{command}"),
            None => why.into(),
        }
    }

    /// Its texts with their names.
    fn texts(&self) -> Vec<(&str, &[u8])> {
        match self.parts.is_empty() {
            true => vec![(&self.label, &self.bytes)],
            false => self.parts.iter().map(|it| (&*it.0, &*it.1)).collect(),
        }
    }

    fn is_json(&self) -> bool {
        let first = self.bytes.iter().find(|byte| !byte.is_ascii_whitespace());
        first == Some(&b'{')
    }
}

/// The machine that the program holds by this name, if there is no such file.
fn named(file: &Path) -> Option<&'static BuiltIn> {
    let found = answers::built_in::find(file.to_str()?)?;
    (!file.exists()).then_some(found)
}

fn resolve(file: &Path) -> Result<PathBuf> {
    match std::fs::metadata(file) {
        Ok(_) if is_root(file) => bail!(
            "{} is the root of the file system; expected a topology file, a folder that holds \
             {IN_FOLDER}, or a recording (`topo probe` writes the topology of this machine)",
            file.display()
        ),
        Ok(found) if found.is_dir() => {
            let inside = file.join(IN_FOLDER);
            if !inside.is_file() {
                bail!(
                    "{} is a folder without a {IN_FOLDER}{}{}",
                    file.display(),
                    question_for(&inside),
                    machines_in(file)
                );
            }
            Ok(inside)
        }
        Ok(_) => Ok(file.to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(anyhow!(
                "{}: no such file{}",
                file.display(),
                question_for(file)
            ))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// The files of a folder, if one of them is a listing of a machine; of all together at most `most`
/// bytes.
fn listings_in(folder: &Path, most: u64) -> Vec<(String, Vec<u8>)> {
    match folder.is_dir() && !is_root(folder) {
        true => listings::of_files(names_in(folder).iter().map(|it| folder.join(it)), most),
        false => Vec::new(),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.take(MOST_NAMES).map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|it| it.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Names folders inside that hold a machine, or else topology files.
fn machines_in(folder: &Path) -> String {
    let paths = names_in(folder).into_iter().map(|name| folder.join(name));
    let paths: Vec<PathBuf> = paths.collect();
    let is_xml = |path: &&PathBuf| path.extension().is_some_and(|it| it == "xml");
    let files = paths.iter().filter(is_xml).count();
    let in_folders = paths.iter().filter(|path| path.join(IN_FOLDER).is_file());
    let machines: Vec<&PathBuf> = in_folders.collect();
    match machines.as_slice() {
        [] if files > 0 => format!(
            "; it holds {}: name them, such as {}",
            count(files, "XML file"),
            folder.join("*.xml").display()
        ),
        [] => String::new(),
        [only] => format!("; {} has one", only.display()),
        [first, .., last] => format!(
            "; {} of the folders in it have one, from {} to {}",
            machines.len(),
            first.display(),
            last.display()
        ),
    }
}

/// Asks for the nearest name in the deepest folder of the path that exists.
fn question_for(file: &Path) -> String {
    let mut missing = file;
    let folder = loop {
        match missing.parent() {
            Some(folder) if folder.as_os_str().is_empty() || folder.is_dir() => break folder,
            Some(folder) => missing = folder,
            None => return String::new(),
        }
    };
    let wanted = missing.file_name().unwrap_or_default().to_string_lossy();
    let listed = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let names = names_in(listed);
    let near = suggest::nearest(&wanted, names.iter().map(String::as_str), 1);
    let mut paths: Vec<String> = near
        .iter()
        .map(|name| folder.join(name).display().to_string())
        .collect();
    if paths.is_empty() && folder.as_os_str().is_empty() {
        let built_in = answers::built_in::MACHINES.iter().map(|it| it.name);
        let near = suggest::nearest(&wanted, built_in, 1);
        paths = near.into_iter().map(str::to_owned).collect();
    }
    suggest::question(&paths.iter().map(String::as_str).collect::<Vec<_>>())
}

fn machine_name(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    match path.parent() {
        Some(folder) if path.file_name().is_some_and(|name| name == IN_FOLDER) => {
            Some(folder_name(folder))
                .filter(|name| !name.is_empty())
                .unwrap_or(stem)
        }
        _ => stem,
    }
}

/// A folder's name; empty if it has none.
fn folder_name(folder: &Path) -> String {
    let here = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let full = std::fs::canonicalize(here).unwrap_or_else(|_| folder.to_owned());
    full.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
