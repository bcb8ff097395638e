//! `topo nccl-check`: asks the user's own NCCL what it decides, and compares it with the plan.

mod gpu_memory;
pub(crate) mod json;
pub(crate) mod library;
mod memory;
mod page;

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use answers::Machine;
use anyhow::{Context, Result, anyhow, bail};
use nccl_binary::job::{self, Job, NoAnswer};
use nccl_binary::message::{Network, Request};
use nccl_binary::{host, log, machine};
use nccl_compare::{Answer, Field, FieldComparison, PlannerOutcome, compare};
use plan::cost::{Calls, Registration};
use plan::{CostTable, Plan};
use planner::settings::CtaPolicy;
use planner::{EqualHosts, NcclVersion, Settings};
use topology::System;
use topology::xml::Document;

use crate::arguments::compare::TextOrJson;
use crate::arguments::nccl_check::{NcclCheckArguments, Net};
use crate::environment::Environment;
use crate::input;
use crate::output::Output;
use crate::settings::with_graph_file;
use answers::report;
use json::NcclCheckReport;

/// The hidden command of a host's process.
pub(crate) const HOST_COMMAND: &str = "nccl-host";

/// Largest message that NCCL is asked about, bytes. Its buffers take no memory, but addresses.
const LARGEST: u64 = 16 << 30;

/// The next size of a range.
const FACTOR: u64 = 2;

/// When NCCL must have answered without --timeout: a start, and more for each rank, s.
const DEADLINE: u64 = 60;
const DEADLINE_PER_RANK: u64 = 2;

/// Most GPUs of a job that is asked about; its processes share this machine.
const MOST_RANKS: u64 = 512;

/// A plan and its costs as NCCL logs them, or why there is none.
type PlanOrWhyNot = Result<(Plan, CostTable), String>;

/// The job about which a library is asked.
#[derive(Debug)]
pub(crate) struct Asked {
    pub hosts: u32,
    pub nvlink_domain: bool,
    /// When NCCL must have answered, s; none: by the number of ranks.
    pub timeout: Option<u64>,
    pub net: Net,
    /// The absolute path of a tuner plug-in.
    pub tuner: Option<PathBuf>,
    /// Message sizes, bytes.
    pub sizes: Vec<u64>,
    pub calls: Calls,
    pub peers: bool,
    /// NCCL's variables, for NCCL and for the plan.
    pub set: Vec<(String, String)>,
}

/// The question and the comparison.
#[derive(Debug)]
pub(crate) struct Check {
    pub name: String,
    pub hosts: u32,
    pub ranks: u64,
    pub library: String,
    pub answer: Answer,
    /// The plan was made for the topology that NCCL dumped.
    pub planned_on_dump: bool,
    pub compared: Vec<FieldComparison>,
    /// Notes on the comparison.
    pub notes: Vec<String>,
}

impl Check {
    pub(crate) fn agrees(&self) -> bool {
        self.compared.iter().all(FieldComparison::agrees)
    }

    pub(crate) fn version(&self) -> String {
        let number = self.answer.version;
        format!(
            "{}.{}.{}",
            number / 10_000,
            number / 100 % 100,
            number % 100
        )
    }
}

pub(crate) fn run(
    arguments: &NcclCheckArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    refuse_reserved(arguments)?;
    let machine = input::machine(&arguments.file, output)?;
    input::refuse_rccl(&machine)?;
    let library = library::find(&arguments.nccl, arguments.yes, environment)?;
    let check = check(&Asked::of(arguments)?, &library, machine, output)?;
    output.differs = !check.agrees();
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&check, environment.look()),
        TextOrJson::Json => report::json(&NcclCheckReport::of(&check))?,
    };
    Ok(())
}

/// Refuses variables that NCCL gets anyway.
fn refuse_reserved(arguments: &NcclCheckArguments) -> Result<()> {
    for (name, value) in &arguments.set {
        if job::RESERVED.contains(&name.as_str()) {
            bail!(
                "--set {name}={value}: topo nccl-check gives NCCL this variable itself; expected one that decides"
            );
        }
    }
    Ok(())
}

/// The version of NCCL as which the plan is made, by the library's number; and whether the library
/// is of another patch release.
///
/// # Errors
/// No version of this minor number is known.
fn version_of(answer: &Answer) -> Result<(NcclVersion, bool)> {
    let number = answer.version;
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    let version: NcclVersion = format!("{major}.{minor}").parse()?;
    Ok((
        version,
        version.name() != format!("{major}.{minor}.{patch}"),
    ))
}

/// Asks an NCCL library about a machine, and compares it with the plan.
pub(crate) fn check(
    arguments: &Asked,
    library: &Path,
    machine: Machine,
    output: &mut Output,
) -> Result<Check> {
    let Machine { name, document } = machine;
    let system = System::from_document(&document)?;
    if system.hosts().len() > 1 {
        bail!(
            "{} describes several hosts; expected the file of one, with --hosts and --nvlink-domain",
            document.file
        );
    }
    let gpus = planner::gpu_devices(&document).len() as u64;
    let ranks = gpus * u64::from(arguments.hosts);
    if !(1..=MOST_RANKS).contains(&ranks) {
        bail!(
            "the job has {ranks} GPUs; expected 1 to {MOST_RANKS}, whose processes share this machine"
        );
    }
    memory::check(arguments.hosts, gpus)?;
    let (complete, added) = machine::complete(&document);
    let answer = ask(arguments, library, &complete, ranks)?;
    let (version, other_patch) = version_of(&answer)?;
    // From the command line only: NCCL gets no others.
    let settings = Settings::with_variables(version, arguments.set.clone());
    let mut settings = with_graph_file(settings, output)?;
    // NCCL is asked through a tuner plug-in, which switches this policy off.
    let by_policy = settings.tuning.cta_policy == CtaPolicy::Efficiency;
    if by_policy {
        settings.tuning.cta_policy = CtaPolicy::Default;
    }
    let (planned, planned_on_dump) = plan(&name, &complete, &answer, arguments, &settings)?;
    if let (Ok(_), Some(refusal)) = (&planned, &answer.refusal)
        && !log::is_decision(refusal)
    {
        let warning = answer.warnings.first();
        let warning = warning.map(|it| format!("; its warning: {it}"));
        bail!(
            "NCCL failed on this machine, which says nothing about the plan: {refusal}{}",
            warning.unwrap_or_default()
        );
    }
    let compared = match &planned {
        Ok((plan, logged)) => {
            let mut compared = compare(&answer, PlannerOutcome::Plan(plan, logged));
            if answer.refusal.is_none() {
                let memory = gpu_memory::compare(&answer, plan, &settings, arguments.peers);
                compared.push(memory?);
            }
            compared
        }
        Err(why) => compare(&answer, PlannerOutcome::Refused(why)),
    };
    let of_ports = gpus > 1
        && arguments.net == Net::Ib
        && version < NcclVersion::V2_30
        && merges(&complete, &settings);
    let mut notes = Vec::new();
    if by_policy {
        notes.push(NO_POLICY.to_owned());
    }
    if other_patch {
        notes.push(format!("planned as NCCL {version} decides"));
    }
    notes.extend(of_ports.then(|| chance(version)));
    let registers = arguments.calls.registration == Registration::Local;
    if registers && version == NcclVersion::V2_27 {
        notes.push(NO_SWITCHED_BUFFERS.to_owned());
    }
    if let Some(names) = refused_by_both(&answer, &compared) {
        notes.push(format!(
            "both refuse {names}: the settings leave no algorithm and protocol"
        ));
    }
    if !added.is_empty() {
        let added = added.join(", ");
        notes.push(format!(
            "the file lacks {added} of a CPU: both sides take an unknown processor"
        ));
    }
    Ok(Check {
        name,
        hosts: arguments.hosts,
        ranks,
        library: library.display().to_string(),
        answer,
        planned_on_dump,
        compared,
        notes,
    })
}

/// Why a policy is not compared.
const NO_POLICY: &str = "the policy of efficiency has no effect beside a tuner plug-in, such as \
                         that through which NCCL is asked";

/// Why channels of calls with NVLink SHARP can differ on registered buffers.
const NO_SWITCHED_BUFFERS: &str = "NCCL 2.27 registers no buffers with NVSwitches where ranks are threads of one process, \
                                   as they are here; the plan is that of one process per GPU";

/// What NCCL before 2.30 leaves to chance where it merges ports.
fn chance(version: NcclVersion) -> String {
    format!(
        "NCCL {} hides merged ports from one thread of a process only, which is left to chance: here the ranks of a \
         host are threads, and the plan is that of one process per GPU; --net plugin compares without merging",
        version.minor()
    )
}

/// The collectives that NCCL refuses, as the plan does.
fn refused_by_both(answer: &Answer, compared: &[FieldComparison]) -> Option<String> {
    let outcome = compared.iter().find(|it| it.field == Field::Outcome)?;
    let mut names: Vec<&str> = answer
        .failures
        .iter()
        .map(|it| it.collective.name())
        .collect();
    names.dedup();
    let agree = outcome.differences.is_empty() && !names.is_empty();
    agree.then(|| names.join(", "))
}

impl Asked {
    fn of(arguments: &NcclCheckArguments) -> Result<Self> {
        Ok(Self {
            hosts: arguments.hosts,
            nvlink_domain: arguments.nvlink_domain,
            timeout: arguments.timeout,
            net: arguments.net,
            tuner: arguments.tuner.as_deref().map(tuner).transpose()?,
            sizes: sizes(arguments)?,
            calls: arguments.calls.calls(),
            peers: arguments.peers,
            set: arguments.set.clone(),
        })
    }
}

/// The message sizes that NCCL is asked about, bytes.
fn sizes(arguments: &NcclCheckArguments) -> Result<Vec<u64>> {
    let all = crate::sizes::expand(&arguments.sizes, FACTOR)
        .map_err(|error| anyhow!("--sizes: {error}"))?;
    match all.last() {
        Some(last) if *last > LARGEST => {
            bail!("--sizes: {last} bytes are more than NCCL is asked about; expected at most 16G")
        }
        _ => Ok(all),
    }
}

/// Asks NCCL.
fn ask(arguments: &Asked, library: &Path, document: &Document, ranks: u64) -> Result<Answer> {
    let of_library = |why: &dyn std::fmt::Display| anyhow!("{} {why}", library.display());
    nccl_binary::examine(library).map_err(|why| of_library(&why))?;
    let library = std::path::absolute(library)
        .with_context(|| format!("cannot find {}", library.display()))?;
    let seconds = arguments.timeout;
    let seconds = seconds.unwrap_or(DEADLINE + DEADLINE_PER_RANK * ranks);
    let job = Job {
        program: std::env::current_exe().context("cannot find topo's own file")?,
        arguments: vec![OsString::from(HOST_COMMAND)],
        request: Request {
            parent: std::process::id(),
            library,
            topology: topology::xml::write(document),
            host: 0,
            hosts: arguments.hosts,
            network: match arguments.net {
                Net::Ib => Network::Merging,
                Net::Plugin => Network::Plugin,
                Net::Socket => Network::Socket,
            },
            tuner: arguments.tuner.clone(),
            nvlink_domain: arguments.nvlink_domain,
            sizes: arguments.sizes.clone(),
            calls: arguments.calls,
            peers: arguments.peers,
            graphs: true,
            variables: arguments.set.clone(),
        },
        deadline: Duration::from_secs(seconds),
    };
    let hosts = job.run().map_err(|error| match error {
        NoAnswer::Unusable(why) => of_library(&why),
        other => other.into(),
    })?;
    Ok(Answer {
        other_tuner: arguments.tuner.is_some(),
        calls: arguments.calls,
        ..log::read(&hosts)
    })
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

/// Whether NCCL merges ports of a machine.
fn merges(document: &Document, settings: &Settings) -> bool {
    let merged = topology::merge::merge(document, &settings.merge_options());
    merged.is_ok_and(|merged| merged.is_some_and(|merged| !merged.devices.is_empty()))
}

/// Plans the job on the file, or on NCCL's dump where NCCL took its sockets although the file has
/// ports. Returns why there is no plan, and whether it is on the dump.
fn plan(
    name: &str,
    document: &Document,
    answer: &Answer,
    arguments: &Asked,
    settings: &Settings,
) -> Result<(PlanOrWhyNot, bool)> {
    let ports_unused = arguments.net == Net::Socket && machine::has_ports(document);
    let dumped = answer.topology.as_deref().filter(|_| ports_unused);
    let dumped = dumped.map(|text| topology::xml::parse("NCCL's dump", text.as_bytes()));
    let dumped = dumped.transpose()?;
    let on_dump = dumped.is_some();
    let document = dumped.unwrap_or_else(|| document.clone());
    // A dump of an NVLink domain holds all its hosts.
    let recorded = document.recorded_hosts();
    let count = if recorded > 1 { 1 } else { arguments.hosts };
    let job = planner::Job {
        nvlink_domain: arguments.nvlink_domain,
        as_is: on_dump,
        physical_ports: arguments.net != Net::Ib,
        ..planner::Job::of(vec![EqualHosts {
            name: name.to_owned(),
            document: Arc::new(document),
            edits: Vec::new(),
            count,
        }])
    };
    let planned = planner::plan(&job, settings);
    let planned = planned.map(|planned| (planned.plan().clone(), planned.logged_costs()));
    Ok((planned.map_err(|error| error.to_string()), on_dump))
}

/// The process of one host.
pub(crate) fn serve() -> Result<()> {
    let mut input = BufReader::new(io::stdin());
    let mut output = io::stdout();
    host::serve(&mut input, &mut output).context("the parent of this process is gone")
}
