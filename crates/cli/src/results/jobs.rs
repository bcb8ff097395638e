//! The planned job of each table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use answers::{Gpus, JobSpec};
use anyhow::{Result, bail};
use nccl_results::Table;
use nccl_results::compare::{Bound, Prediction};
use plan::{CostTable, Plan};
use planner::cost::{self, CostProfile};
use planner::{NcclVersion, Planned, Settings};
use program::Collective;
use topology::xml::Document;

use super::input::{Logged, ReadTable};
use crate::arguments::results::ResultsArguments;
use crate::environment::Environment;
use crate::log::against_plan::{IGNORED, bus_ids};
use crate::output::Output;
use crate::progress::Progress;
use crate::{complete, input, job, nearest_version};
use bounds::optimum::{self, Optimum};

/// A job with what is predicted for it.
pub struct PricedJob {
    /// The machine's name.
    pub name: String,
    /// The plan.
    pub plan: Plan,
    /// With the machine, if the plan is not a file.
    pub planned: Option<Planned>,
    /// The costs with NCCL's own constants, which choose.
    pub choosing: CostTable,
    /// The costs with the constants that predict.
    pub predicting: CostTable,
    /// By collective its bound.
    pub bounds: BTreeMap<Collective, Option<Optimum>>,
}

impl PricedJob {
    /// What is predicted for tables of a collective.
    pub fn prediction(&self, collective: Option<Collective>) -> Prediction<'_> {
        let bound = collective.and_then(|it| self.bounds.get(&it)?.as_ref());
        Prediction {
            choosing: &self.choosing,
            predicting: &self.predicting,
            bound: bound.map(|it| Bound {
                gbps: it.bound,
                nccl_gbps: it.nccl,
                limit: it.limit.summary(),
            }),
        }
    }
}

/// Everything that tells one job from another.
type Key = (NcclVersion, u32, Gpus, Vec<(String, String)>);

/// The jobs of all tables, each planned once.
#[derive(Default)]
pub struct Jobs {
    keys: BTreeMap<Key, usize>,
    /// The jobs.
    pub all: Vec<PricedJob>,
}

impl Jobs {
    /// The job of a table, if a topology or a plan is given; and what a reader must know about it.
    pub fn of(
        &mut self,
        read: &ReadTable,
        arguments: &ResultsArguments,
        profile: Option<&CostProfile>,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<Option<(usize, Vec<String>)>> {
        let mut notes = Vec::new();
        let at = match (&arguments.topology, &arguments.plan) {
            (Some(topology), _) => self.planned(
                read,
                topology,
                arguments,
                profile,
                &mut notes,
                environment,
                output,
            )?,
            (None, Some(file)) => self.saved(file)?,
            (None, None) => return Ok(None),
        };
        let job = &mut self.all[at];
        let (table, ranks) = (&read.table, u64::from(job.choosing.job.ranks));
        if let Some(measured) = table.rank_count()
            && u64::from(measured) != ranks
        {
            bail!(
                "{}: line {}: the table is of {measured} ranks, and the job of {} has {ranks}; expected the job that was \
                 measured (--hosts, --gpus)",
                table.file,
                table.line,
                job.name
            );
        }
        if let (Some(collective), Some(planned)) = (table.collective, &job.planned) {
            let plan = &job.plan;
            let bound = || optimum::of_collective(planned, plan, collective);
            job.bounds.entry(collective).or_insert_with(bound);
        }
        Ok(Some((at, notes)))
    }

    fn saved(&mut self, file: &Path) -> Result<usize> {
        if self.all.is_empty() {
            let plan = input::plan(file)?.into_plan();
            let Some(costs) = plan.costs.clone() else {
                bail!(
                    "{} is a plan without a cost table; expected one that topo plan -o wrote",
                    file.display()
                );
            };
            self.all.push(PricedJob {
                name: file.display().to_string(),
                plan,
                planned: None,
                choosing: costs.clone(),
                predicting: costs,
                bounds: BTreeMap::new(),
            });
        }
        Ok(0)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is another source of the job"
    )]
    fn planned(
        &mut self,
        read: &ReadTable,
        topology: &Path,
        arguments: &ResultsArguments,
        profile: Option<&CostProfile>,
        notes: &mut Vec<String>,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<usize> {
        let (table, logged) = (&read.table, &read.logged);
        let version = version(table, logged, arguments, notes);
        let hosts = arguments.hosts.or(table.host_count()).unwrap_or(1);
        let variables = settings(table, logged, arguments, notes);
        let mut quiet = Output::default();
        let machine = input::machine(topology, &mut quiet)?;
        if self.all.is_empty() {
            output.warnings.append(&mut quiet.warnings);
        }
        let assume = arguments.assume.all();
        let gpus = match &arguments.gpus {
            Some(list) => job::gpus(list, environment)?,
            None => {
                let document = complete::assumed(&machine.document, &assume)?;
                gpus(table, hosts, &document, notes)
            }
        };
        let key = (version, hosts, gpus.clone(), variables.clone());
        if let Some(at) = self.keys.get(&key) {
            return Ok(*at);
        }
        let name = machine.name.clone();
        let settings = Settings::with_variables(version, variables);
        let _progress = Progress::new(environment, "planning");
        let spec = JobSpec {
            hosts,
            gpus,
            assume,
            nvlink_domain: arguments.nvlink_domain,
            ..JobSpec::of(machine)
        };
        let job = job::checked(spec, &job::Options::of(arguments.gpus.as_deref()), output)?;
        let planned = job::plan_job(&job, &settings, output)?;
        let predicting = match profile {
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
            plan: planned.plan(),
            choosing: planned.costs.clone(),
            planned: Some(planned),
            predicting,
            bounds: BTreeMap::new(),
        });
        Ok(self.all.len() - 1)
    }
}

fn version(
    table: &Table,
    logged: &Logged,
    arguments: &ResultsArguments,
    notes: &mut Vec<String>,
) -> NcclVersion {
    if let Some(version) = arguments.variables.nccl {
        return version;
    }
    let said = table.nccl.as_deref().or(logged.version.as_deref());
    let (version, note) = nearest_version::nearest(said);
    notes.extend(note);
    version
}

/// NCCL's variables of the job: logged, of the command, and those of the command line.
fn settings(
    table: &Table,
    logged: &Logged,
    arguments: &ResultsArguments,
    notes: &mut Vec<String>,
) -> Vec<(String, String)> {
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
    let mut settings: Vec<(String, String)> = settings.into_iter().collect();
    settings.extend(arguments.variables.set.iter().cloned());
    settings
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
