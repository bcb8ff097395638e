//! What NCCL logged, compared with the plan for a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use answers::{Gpus, JobSpec};
use anyhow::{Result, bail};
use nccl_binary::answer::Answer;
use nccl_binary::compare::{Compared, Field, Planned, compare_partly};
use nccl_log::log::RankFacts;
use nccl_log::{Communicator, Log};
use planner::{NcclVersion, Settings};
use probe::complete::Assumptions;
use topology::xml::{Document, Element, Tag, c_int};

use crate::arguments::log::LogArguments;
use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;
use crate::{complete, input, job, nearest_version};

/// The comparison of one communicator.
#[derive(Debug)]
pub struct Comparison {
    /// Which communicator of the log.
    pub communicator: usize,
    /// The machine's name.
    pub machine: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// The version as which the plan is made.
    pub version: NcclVersion,
    /// What was compared; fields that the log does not say are left out.
    pub compared: Vec<Compared>,
    /// What a reader must know about the comparison.
    pub notes: Vec<String>,
}

impl Comparison {
    pub fn differs(&self) -> bool {
        self.compared.iter().any(|it| !it.differences.is_empty())
    }
}

/// Settings that name files or describe logging; they do not belong to the job's decisions here.
pub const IGNORED: [&str; 5] = [
    "NCCL_TOPO_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_CONF_FILE",
    "NCCL_TUNER_CONFIG_FILE",
    "NCCL_HOSTID",
];

/// Plans the largest communicator of the log and compares.
pub fn compare(
    log: &Log,
    topology: &Path,
    arguments: &LogArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Comparison> {
    let ranked = log.communicators.iter().enumerate();
    // The first of the largest.
    let largest = ranked
        .rev()
        .max_by_key(|(_, it)| (it.ranks, it.decisions.rings.len()));
    let Some((number, communicator)) = largest.filter(|(_, it)| it.ranks > 0) else {
        bail!("the log names no communicator; expected lines such as `comm … - Init COMPLETE`");
    };
    let mut notes = Vec::new();
    let version = version(log, arguments, &mut notes);
    let hosts = arguments.hosts.unwrap_or(communicator.nodes.max(1));
    let variables = settings(log, arguments, &mut notes);
    let settings = Settings::with_variables(version, variables);
    let machine = input::machine(topology, output)?;
    let name = machine.name.clone();
    let assume = arguments.assume.all();
    let document = complete::assumed(&machine.document, &assume)?;
    let mut gpus = gpus(communicator, hosts, &document, &mut notes)?;
    // NCCL numbers the GPUs of such a file in rank order.
    let all = planner::gpu_devices(&document);
    let is_assumed = assume != Assumptions::default();
    let uses_all = communicator.ranks == all.len() as u32 * hosts;
    if is_assumed && uses_all && gpus != Gpus::of(&all) {
        gpus = Gpus::All;
        notes.push("the file has no GPUs: took them in the file's order".to_owned());
    }
    let _progress = Progress::new(environment, "planning");
    let spec = JobSpec {
        hosts,
        gpus,
        assume,
        nvlink_domain: arguments.nvlink_domain,
        ..JobSpec::of(machine)
    };
    let job = job::checked(spec, &job::Options::of(None), output)?;
    let answer = answer(log, communicator);
    let planned = planner::plan(&job, &settings);
    let compared = match planned {
        Ok(planned) => {
            let (plan, costs) = (planned.plan(), planned.logged_costs());
            compare_partly(&answer, Planned::Plan(&plan, &costs))
        }
        Err(error) => bail!("{name}: NCCL would refuse this job ({error}), but the log has it"),
    };
    let said = compared
        .into_iter()
        .filter(|it| it.values > 0 && it.field != Field::Outcome);
    Ok(Comparison {
        communicator: number,
        machine: name,
        hosts,
        version,
        compared: said.collect(),
        notes,
    })
}

/// The version as which to plan: the log's or the nearest that is known.
fn version(log: &Log, arguments: &LogArguments, notes: &mut Vec<String>) -> NcclVersion {
    if let Some(version) = arguments.variables.nccl {
        return version;
    }
    let said = log.versions.iter().max_by_key(|(_, count)| **count);
    let (version, note) = nearest_version::nearest(said.map(|it| it.0.as_str()));
    notes.extend(note);
    version
}

/// NCCL's variables of the job, and those of the command line.
fn settings(log: &Log, arguments: &LogArguments, notes: &mut Vec<String>) -> Vec<(String, String)> {
    let mut all: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
    for facts in log.hosts.values() {
        for (name, values) in &facts.settings {
            all.entry(name).or_default().extend(values);
        }
    }
    // NCCL tries the network's reduction, and goes without it if it fails.
    let fails = |words: &str| log.warnings.iter().any(|it| it.text.contains(words));
    let no_collnet = fails("Cannot initialize CollNet");
    let mut settings = Vec::new();
    for (name, values) in all {
        if IGNORED.contains(&name.as_str()) || (no_collnet && name == "NCCL_COLLNET_ENABLE") {
            continue;
        }
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(only), None) => settings.push((name.clone(), only.clone())),
            _ => notes.push(format!("{name} differs between ranks and is left out")),
        }
    }
    settings.extend(arguments.variables.set.iter().cloned());
    settings
}

/// The GPUs of a host in rank order.
fn gpus(
    communicator: &Communicator,
    hosts: u32,
    document: &Document,
    notes: &mut Vec<String>,
) -> Result<Gpus> {
    let all = planner::gpu_devices(document);
    if !communicator.ranks.is_multiple_of(hosts) {
        bail!(
            "{} ranks are not spread evenly over {hosts} hosts; expected equal hosts (--hosts)",
            communicator.ranks
        );
    }
    let each = communicator.ranks / hosts;
    if each as usize > all.len() {
        bail!(
            "the log has {each} ranks per host, and {} has {} GPUs; expected the file of that machine",
            document.file,
            all.len()
        );
    }
    let first: Vec<&RankFacts> = first_host(communicator, each);
    let devices = match first.len() == each as usize {
        true => devices(&first, document, &all),
        false => None,
    };
    let Some(devices) = devices else {
        if (each as usize) < all.len() {
            notes.push(format!(
                "the log does not say which GPUs: took the first {each}"
            ));
        }
        return Ok(Gpus::of(&all[..each as usize]));
    };
    Ok(Gpus::of(&devices))
}

/// The ranks of the first host, if ranks go from host to host.
fn first_host(communicator: &Communicator, each: u32) -> Vec<&RankFacts> {
    let members = communicator.members.iter();
    let first = members.filter(|it| it.rank.is_some_and(|rank| rank < each));
    first.collect()
}

/// Their device numbers: by bus id, by the driver's number, or by the process's.
fn devices(ranks: &[&RankFacts], document: &Document, all: &[i32]) -> Option<Vec<i32>> {
    let mut by_bus = BTreeMap::new();
    bus_ids(&document.root, None, &mut by_bus);
    let distinct = |found: Option<Vec<i32>>| {
        found.filter(|devices| {
            let set: BTreeSet<&i32> = devices.iter().collect();
            set.len() == devices.len() && devices.iter().all(|it| all.contains(it))
        })
    };
    let of_bus = ranks
        .iter()
        .map(|it| by_bus.get(&it.bus_id?).copied())
        .collect();
    let number = |it: Option<u32>| it.and_then(|it| i32::try_from(it).ok());
    let of_driver = ranks.iter().map(|it| number(it.nvml_device)).collect();
    let of_process = ranks.iter().map(|it| number(it.gpu)).collect();
    distinct(of_bus)
        .or_else(|| distinct(of_driver))
        .or_else(|| distinct(of_process))
}

/// Device numbers of GPUs by their bus id as NCCL's number: 0000:1b:00.0 is 0x1b000.
pub fn bus_ids(element: &Element, bus: Option<&str>, found: &mut BTreeMap<u64, i32>) {
    for child in &element.children {
        if child.tag == Tag::Gpu {
            let digits: String = bus
                .unwrap_or("")
                .chars()
                .filter(char::is_ascii_hexdigit)
                .collect();
            if let (Ok(number), Some(dev)) = (u64::from_str_radix(&digits, 16), child.get("dev")) {
                found.insert(number, c_int(dev));
            }
        }
        bus_ids(child, child.get("busid").or(bus), found);
    }
}

/// The log as an answer of NCCL.
fn answer(log: &Log, communicator: &Communicator) -> Answer {
    let decisions = &communicator.decisions;
    Answer {
        warnings: log.warnings.iter().map(|it| it.text.clone()).collect(),
        ranks: Some(communicator.ranks),
        nodes: Some(communicator.nodes),
        channels: decisions.counts,
        nvls: decisions.nvls,
        p2p_chunk: decisions.p2p_chunk,
        rings: decisions.rings.clone(),
        cut_rings: decisions.cut_rings.clone(),
        trees: decisions.trees.clone(),
        trees_cut: decisions.trees_cut,
        nvls_heads: decisions.nvls_heads.clone(),
        nvls_trees: decisions.nvls_trees.clone(),
        connections: decisions.connections.clone(),
        model: decisions.model.clone(),
        choices: decisions.choices.clone(),
        ..Answer::default()
    }
}
