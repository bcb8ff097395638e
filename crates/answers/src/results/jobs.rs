//! The planned job of each table.

use std::collections::{BTreeMap, BTreeSet};

use bounds::optimum::{self, Optimum};
use plan::{CostTable, Plan};
use planner::cost;
use planner::{Job, NcclVersion, Planned};
use program::Collective;
use records::results::Table;
use topology::xml::Document;

use super::likely::PlantedFaults;
use super::read::{LoggedFacts, ReadTable};
use super::{Against, Notes, ResultsError, ResultsQuestion};
use crate::assume;
use crate::device::bus_ids;
use crate::gpus::Gpus;
use crate::job::{JobError, JobSpec};
use crate::job_options::Layers;
use crate::log::IGNORED;
use crate::nearest_version;

/// A job with what is predicted for it.
pub(super) struct PricedJob {
    /// The machine's name.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// With the machine, if the plan is not a file.
    pub planned: Option<Planned>,
    /// The job of that machine.
    pub job: Option<Job>,
    /// Its faults, once a table is below its floor.
    pub faults: Option<PlantedFaults>,
    /// The costs with NCCL's own constants, which choose.
    pub choosing: CostTable,
    /// The costs with the constants that predict.
    pub predicting: CostTable,
    /// By collective its bound.
    pub bounds: BTreeMap<Collective, Option<Optimum>>,
}

impl PricedJob {
    /// Hosts of the job.
    pub(super) fn hosts(&self) -> u32 {
        self.choosing.job.nodes.max(self.plan.request.hosts)
    }
}

/// Everything that tells one job from another.
type Key = (NcclVersion, u32, Gpus, Vec<(String, String)>);

/// The jobs of all tables, each planned once.
#[derive(Default)]
pub(super) struct Jobs {
    keys: BTreeMap<Key, usize>,
    /// The jobs.
    pub all: Vec<PricedJob>,
    /// Their oddities.
    pub notes: Notes,
}

impl Jobs {
    /// The job of a table, if there is a machine or a plan. `notes` are what a reader must know.
    pub(super) fn of(
        &mut self,
        read: &ReadTable,
        question: &ResultsQuestion,
        notes: &mut Vec<String>,
    ) -> Result<Option<usize>, ResultsError> {
        let at = match &question.against {
            Against::Machine(spec) => self.planned(read, spec, question, notes)?,
            Against::Plan(name, plan) => self.saved(name, plan)?,
            Against::Nothing => return Ok(None),
        };
        let job = &mut self.all[at];
        let (table, ranks) = (&read.table, job.choosing.job.ranks);
        if let Some(measured) = table.rank_count().filter(|it| *it != ranks) {
            return Err(ResultsError::OtherRanks {
                file: table.file.clone(),
                line: table.line,
                measured,
                machine: job.name.clone(),
                ranks,
            });
        }
        if let (Some(collective), Some(planned)) = (table.collective, &job.planned) {
            let bound = || optimum::of_collective(planned, collective);
            job.bounds.entry(collective).or_insert_with(bound);
        }
        Ok(Some(at))
    }

    fn saved(&mut self, name: &str, plan: &Plan) -> Result<usize, ResultsError> {
        if self.all.is_empty() {
            let Some(costs) = plan.costs.clone() else {
                return Err(ResultsError::NoCosts(name.to_owned()));
            };
            self.all.push(PricedJob {
                name: name.to_owned(),
                plan: plan.clone(),
                planned: None,
                job: None,
                faults: None,
                choosing: costs.clone(),
                predicting: costs,
                bounds: BTreeMap::new(),
            });
        }
        Ok(0)
    }

    fn planned(
        &mut self,
        read: &ReadTable,
        spec: &JobSpec,
        question: &ResultsQuestion,
        notes: &mut Vec<String>,
    ) -> Result<usize, ResultsError> {
        let (table, logged) = (&read.table, &read.logged);
        let version = version(table, logged, question, notes);
        let hosts = question.hosts.or(table.host_count()).unwrap_or(spec.hosts);
        let variables = settings(table, logged, notes);
        let Some(machine) = spec.machines.first() else {
            return Err(JobError::NoMachine.into());
        };
        let gpus = match &question.gpus {
            Some(gpus) => gpus.clone(),
            // Those that are left.
            None if !spec.edits.is_empty() => Gpus::All,
            None => {
                let (document, _) = assume::completed(&machine.document, &spec.assume)?;
                let gpus_of_host = planner::gpu_devices(&document).len() as u32;
                let all = hosts.saturating_mul(gpus_of_host);
                let measured = table.rank_count().filter(|it| *it < all);
                if let (true, Some(measured)) = (question.accepts, measured) {
                    // A machine must not be accepted by a part of it that nobody named.
                    return Err(ResultsError::OtherRanks {
                        file: table.file.clone(),
                        line: table.line,
                        measured,
                        machine: machine.name.clone(),
                        ranks: all,
                    });
                }
                gpus(table, hosts, &document, notes)
            }
        };
        let key = (version, hosts, gpus.clone(), variables.clone());
        if let Some(at) = self.keys.get(&key) {
            return Ok(*at);
        }
        let name = machine.name.clone();
        let layers = question.variables.over(&[]);
        self.notes.of_plans.extend(layers.notes.iter().cloned());
        let settings = Layers {
            nccl: version,
            ..layers
        }
        .settings(variables);
        let spec = JobSpec {
            hosts,
            gpus,
            ..spec.clone()
        };
        let made = spec.job()?;
        let planned = planner::plan(&made.job, &settings)?;
        self.notes.of_jobs.extend(made.notes);
        self.notes
            .of_plans
            .extend(planned.notes.iter().map(ToString::to_string));
        let predicting = match &question.profile {
            None => planned.costs.clone(),
            Some(profile) => cost::table(
                &planned.job.cost_inputs(),
                &settings.tuning,
                profile,
                settings.rules,
            )?,
        };
        self.keys.insert(key, self.all.len());
        self.all.push(PricedJob {
            name,
            plan: planned.plan().clone(),
            choosing: planned.costs.clone(),
            planned: Some(planned),
            job: Some(made.job),
            faults: None,
            predicting,
            bounds: BTreeMap::new(),
        });
        Ok(self.all.len() - 1)
    }
}

fn version(
    table: &Table,
    logged: &LoggedFacts,
    question: &ResultsQuestion,
    notes: &mut Vec<String>,
) -> NcclVersion {
    if let Some(version) = question.variables.nccl {
        return version;
    }
    let said = table.nccl.as_deref().or(logged.version.as_deref());
    let (version, note) = nearest_version::nearest(said);
    notes.extend(note);
    version
}

/// NCCL's variables of the job: logged, and of the command that was measured.
fn settings(table: &Table, logged: &LoggedFacts, notes: &mut Vec<String>) -> Vec<(String, String)> {
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    for (name, values) in &logged.settings {
        let values: &BTreeSet<String> = values;
        match values.first() {
            Some(only) if values.len() == 1 => {
                settings.insert(name.clone(), only.clone());
            }
            _ => notes.push(format!(
                "{name} has several values in the log and is left out"
            )),
        }
    }
    settings.extend(table.settings.iter().cloned());
    settings.retain(|name, _| !IGNORED.contains(&name.as_str()));
    settings.into_iter().collect()
}

/// The GPUs of a host in rank order.
fn gpus(table: &Table, hosts: u32, document: &Document, notes: &mut Vec<String>) -> Gpus {
    let all = planner::gpu_devices(document);
    let Some(ranks) = table.rank_count() else {
        return Gpus::All;
    };
    let each = (ranks / hosts.max(1)) as usize;
    let first = table.devices.first();
    let of_host = table
        .devices
        .iter()
        .filter(|it| Some(&it.host) == first.map(|it| &it.host));
    let mut by_bus = BTreeMap::new();
    bus_ids(&document.root, None, &mut by_bus);
    let found: Option<Vec<i32>> = of_host
        .map(|it| by_bus.get(&bus(&it.bus)?).copied())
        .collect();
    let is_set = |devices: &Vec<i32>| {
        let set: BTreeSet<&i32> = devices.iter().collect();
        devices.len() == each && set.len() == each
    };
    let devices = match found.filter(is_set) {
        Some(devices) => devices,
        None if each < all.len() => {
            notes.push(format!(
                "the file does not say which GPUs: took the first {each}"
            ));
            all.iter().copied().take(each).collect()
        }
        None => return Gpus::All,
    };
    match each {
        0 => Gpus::All,
        _ => Gpus::of(&devices),
    }
}

/// A bus id as NCCL's number: `0000:1b:00` is 0x1b000.
fn bus(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    // Domain, bus and device; the function is 0. Old tables have only the bus.
    match digits.len() {
        8.. => u64::from_str_radix(&format!("{digits}0"), 16).ok(),
        _ => None,
    }
}
