//! NCCL's log, compared with the plan for a machine.

use std::collections::{BTreeMap, BTreeSet};

use findings::complete::Assumptions;
use planner::NcclVersion;
use planner::settings::driver_number;
use records::nccl_log::compare::answer::Answer;
use records::nccl_log::compare::{Field, FieldComparison, PlannerOutcome, compare_partly};
use records::nccl_log::log::RankFacts;
use records::nccl_log::{Communicator, Log};
use serde::Serialize;
use topology::xml::Document;

use crate::JsonSchema;
use crate::assume::{self, AssumeError};
use crate::device::bus_ids;
use crate::gpus::Gpus;
use crate::job::{JobError, JobNote, JobSpec};
use crate::job_options::{Layers, Variables};
use crate::nearest_version;

/// The machine and the job with which a log is compared.
#[derive(Debug, Clone)]
pub struct LogQuestion {
    /// The machine and what is assumed of it; hosts and GPUs are the log's.
    pub job: JobSpec,
    /// Hosts of the job; none: as many as the log names.
    pub hosts: Option<u32>,
    /// The version as which to plan (none: the log's, or the nearest that is known), and variables
    /// of NCCL besides those of the log.
    pub variables: Variables,
}

/// Why a log cannot be compared with a machine.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is no communicator.
    #[error("the log names no communicator; expected lines such as `comm … - Init COMPLETE`")]
    NoCommunicator,
    /// The hosts would have different numbers of ranks.
    #[error("{ranks} ranks are not spread evenly over {hosts} hosts; expected equal hosts")]
    Uneven {
        /// Ranks of the communicator.
        ranks: u32,
        /// Hosts of the job.
        hosts: u32,
    },
    /// The machine has too few GPUs.
    #[error(
        "the log has {each} ranks per host, and {file} has {gpus} GPUs; expected the file of that machine"
    )]
    TooFewGpus {
        /// Ranks of a host.
        each: u32,
        /// The machine's file.
        file: String,
        /// Its GPUs.
        gpus: usize,
    },
    /// An assumption does not fit the machine.
    #[error(transparent)]
    Assume(#[from] AssumeError),
    /// The job cannot be planned.
    #[error(transparent)]
    Job(#[from] JobError),
    /// By the plan there would be no such job.
    #[error("{machine}: NCCL would refuse this job ({why}), but the log has it")]
    Refused {
        /// The machine's name.
        machine: String,
        /// Why.
        why: Box<planner::Error>,
        /// Oddities of the machine and the job.
        job_notes: Vec<JobNote>,
    },
}

/// The comparison with a plan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// The position of the communicator.
    pub communicator: usize,
    /// The machine.
    pub machine: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// The version as which the plan is made.
    pub nccl: &'static str,
    /// Nothing differs.
    pub agrees: bool,
    /// Fields: name, values, and the values that differ with the log's and the plan's; those that
    /// the log lacks are left out.
    pub fields: Vec<ComparedField>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Oddities of the machine and the job.
    #[serde(skip)]
    pub job_notes: Vec<JobNote>,
}

/// A field that was compared.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ComparedField {
    /// Its name.
    pub field: &'static str,
    /// Values that were compared.
    pub values: u64,
    /// Differences: the value, the log's and the plan's.
    pub differences: Vec<(String, String, String)>,
}

impl ComparedField {
    fn of(it: FieldComparison) -> Self {
        let differences = it.differences.into_iter();
        Self {
            field: it.field.name(),
            values: it.values,
            differences: differences.map(|it| (it.what, it.nccl, it.plan)).collect(),
        }
    }
}

/// Settings that name files or describe logging; they do not belong to the job's decisions here.
pub(crate) const IGNORED: [&str; 5] = [
    "NCCL_TOPO_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_CONF_FILE",
    "NCCL_TUNER_CONFIG_FILE",
    "NCCL_HOSTID",
];

/// Plans the largest communicator of the log and compares.
///
/// # Errors
/// The log has none, or it does not fit the machine.
pub fn compare(log: &Log, question: LogQuestion) -> Result<Comparison, LogError> {
    let ranked = log.communicators.iter().enumerate();
    // The first of the largest.
    let largest = ranked
        .rev()
        .max_by_key(|(_, it)| (it.ranks, it.decisions.rings.len()));
    let Some((number, communicator)) = largest.filter(|(_, it)| it.ranks > 0) else {
        return Err(LogError::NoCommunicator);
    };
    let mut notes = Vec::new();
    let version = version(log, question.variables.nccl, &mut notes);
    let hosts = question.hosts.unwrap_or(communicator.nodes.max(1));
    let layers = question.variables.over(&[]);
    notes.extend(layers.notes.iter().cloned());
    let logged = settings(log, &mut notes);
    let mut settings = Layers {
        nccl: version,
        ..layers
    }
    .settings(logged);
    let drivers = log.hosts.values().filter_map(|it| it.values.get("driver"));
    let drivers = drivers.flatten().filter_map(|it| driver_number(it));
    settings.tuning.driver = drivers.min().or(settings.tuning.driver);
    let spec = question.job;
    let Some(machine) = spec.machines.first() else {
        return Err(JobError::NoMachine.into());
    };
    let name = machine.name.clone();
    let (document, _) = assume::completed(&machine.document, &spec.assume)?;
    let mut gpus = gpus(communicator, hosts, &document, &mut notes)?;
    // NCCL numbers the GPUs of such a file in rank order.
    let all = planner::gpu_devices(&document);
    let is_assumed = spec.assume != Assumptions::default();
    let uses_all = communicator.ranks == all.len() as u32 * hosts;
    if is_assumed && uses_all && gpus != Gpus::of(&all) {
        gpus = Gpus::All;
        notes.push("the file has no GPUs: took them in the file's order".to_owned());
    }
    let spec = JobSpec {
        hosts,
        gpus,
        ..spec
    };
    let made = spec.job()?;
    let planned = match planner::plan(&made.job, &settings) {
        Ok(planned) => planned,
        Err(why) => {
            return Err(LogError::Refused {
                machine: name,
                why: Box::new(why),
                job_notes: made.notes,
            });
        }
    };
    let costs = planned.logged_costs();
    let compared = compare_partly(
        &answer(log, communicator),
        PlannerOutcome::Plan(planned.plan(), &costs),
    );
    let said = compared
        .into_iter()
        .filter(|it| it.values > 0 && it.field != Field::Outcome);
    let fields: Vec<ComparedField> = said.map(ComparedField::of).collect();
    Ok(Comparison {
        communicator: number,
        machine: name,
        hosts,
        nccl: version.name(),
        agrees: fields.iter().all(|it| it.differences.is_empty()),
        fields,
        notes,
        job_notes: made.notes,
    })
}

/// The version as which to plan: the log's or the nearest that is known.
pub(crate) fn version(
    log: &Log,
    wanted: Option<NcclVersion>,
    notes: &mut Vec<String>,
) -> NcclVersion {
    if let Some(version) = wanted {
        return version;
    }
    let said = log.versions.iter().max_by_key(|(_, count)| **count);
    let (version, note) = nearest_version::nearest(said.map(|it| it.0.as_str()));
    notes.extend(note);
    version
}

/// NCCL's variables of the job, and those that are set besides.
pub(crate) fn settings(log: &Log, notes: &mut Vec<String>) -> Vec<(String, String)> {
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
    settings
}

/// The GPUs of a host in rank order.
fn gpus(
    communicator: &Communicator,
    hosts: u32,
    document: &Document,
    notes: &mut Vec<String>,
) -> Result<Gpus, LogError> {
    let all = planner::gpu_devices(document);
    let ranks = communicator.ranks;
    if !ranks.is_multiple_of(hosts) {
        return Err(LogError::Uneven { ranks, hosts });
    }
    let each = ranks / hosts;
    // NCCL's own dump of ranks that share GPUs has an element for each rank.
    let of_file = topology::join::gpus_by_host(document);
    if each as usize > all.len() && of_file.first() == Some(&(each as usize)) {
        return Ok(Gpus::All);
    }
    if each as usize > all.len() {
        let (file, gpus) = (document.file.to_string(), all.len());
        return Err(LogError::TooFewGpus { each, file, gpus });
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
