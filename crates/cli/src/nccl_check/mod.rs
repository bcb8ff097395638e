//! `topo nccl-check`: asks the user's own NCCL what it decides, and compares it with the plan.

mod gpu_memory;
mod job;
pub(crate) mod json;
pub(crate) mod library;
mod memory;
mod page;

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::time::Duration;

use answers::report;
use answers::sizes::Sizes;
use anyhow::{Context, Result, anyhow, bail};
use nccl_binary::job::{CONNECTS_LATE, Job, JobHost, NoAnswer, RESERVED};
use nccl_binary::message::{DRIVER_VERSION, Network, Request};
use nccl_binary::{host, log};
use nccl_log::compare::{Answer, Field, FieldComparison, PlannerOutcome, compare};
use plan::cost::{Calls, Registration};
use plan::{Algorithm, CostTable, Plan};
use planner::memory::MemorySettings;
use planner::settings::{CtaPolicy, driver_number};
use planner::{NcclVersion, Settings};
use program::Protocol;

use crate::arguments::compare::TextOrJson;
use crate::arguments::nccl_check::{NcclCheckArguments, Net};
use crate::environment::Environment;
use crate::job::{Remedy, checked, spec_of};
use crate::output::Output;
use crate::settings::with_graph_file;
use crate::sources;
use job::AskedJob;
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

/// A plan and its costs as NCCL logs them, or why there is none.
type PlanOrWhyNot = Result<(Plan, CostTable), String>;

/// How a library is asked about a job.
#[derive(Debug)]
pub(crate) struct Asked {
    /// When NCCL must have answered, s; none: by the number of ranks.
    pub timeout: Option<u64>,
    pub net: Net,
    /// The absolute path of a tuner plug-in.
    pub tuner: Option<PathBuf>,
    /// Message sizes, bytes.
    pub sizes: Vec<u64>,
    pub calls: Calls,
    pub peers: bool,
    /// The driver's version as CUDA's number.
    pub driver: u32,
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
    let machines = sources::machines(&arguments.hosts, output)?;
    let spec = spec_of(machines, &arguments.hosts, &arguments.ranks, environment)?;
    let job = checked(spec, Remedy::Complete, output)?;
    let library = library::find(&arguments.nccl, arguments.yes, environment)?;
    let check = check(&Asked::of(arguments)?, &library, &job, output)?;
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
        if RESERVED.contains(&name.as_str()) {
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
    let name = format!("{major}.{minor}.{patch}");
    let version: NcclVersion = match name.parse() {
        Ok(version) => version,
        Err(_) => format!("{major}.{minor}").parse()?,
    };
    Ok((version, version.name() != name))
}

/// Asks an NCCL library about a job, and compares it with the plan.
pub(crate) fn check(
    asked: &Asked,
    library: &Path,
    job: &planner::Job,
    output: &mut Output,
) -> Result<Check> {
    let job = AskedJob::new(job, asked.net)?;
    let hosts = job.hosts()?;
    memory::check(hosts.iter().map(|host| host.ranks.len() as u64))?;
    let ranks = hosts.iter().map(|host| host.ranks.len() as u64).sum();
    let mut answer = ask(asked, library, hosts, job.nvlink_domain())?;
    let (version, other_patch) = version_of(&answer)?;
    // From the command line only: NCCL gets no others.
    let mut settings = Settings::with_variables(version, asked.set.clone());
    settings.tuning.driver = Some(asked.driver);
    let mut settings = with_graph_file(settings, output)?;
    // NCCL is asked through a tuner plug-in, which switches this policy off.
    let by_policy = settings.tuning.cta_policy == CtaPolicy::Efficiency;
    if by_policy {
        settings.tuning.cta_policy = CtaPolicy::Default;
    }
    let in_memory = memory_settings(asked, &settings);
    answer.is_partial = in_memory.connects_late;
    let no_switched_buffers =
        asked.calls.registration == Registration::Local && version == NcclVersion::V2_27;
    if no_switched_buffers {
        forget_switched_channels(&mut answer);
    }
    let (planned, planned_on_dump) = job.plan(&answer, &settings)?;
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
                let memory = gpu_memory::compare(&answer, plan, &settings, &in_memory, asked.peers);
                compared.push(memory?);
            }
            compared
        }
        Err(why) => compare(&answer, PlannerOutcome::Refused(why)),
    };
    let of_ports =
        asked.net == Net::Ib && version < NcclVersion::V2_30 && job.leaves_to_chance(&settings);
    let mut notes = Vec::new();
    if answer.is_partial {
        notes.push(CONNECTED_LATE.to_owned());
    }
    if by_policy {
        notes.push(NO_POLICY.to_owned());
    }
    if other_patch {
        notes.push(format!("planned as NCCL {version} decides"));
    }
    notes.extend(of_ports.then(|| chance(version)));
    if no_switched_buffers {
        notes.push(NO_SWITCHED_BUFFERS.to_owned());
    }
    if let Some(names) = refused_by_both(&answer, &compared) {
        notes.push(format!(
            "both refuse {names}: the settings leave no algorithm and protocol"
        ));
    }
    if !job.added.is_empty() {
        let added = job.added.join(", ");
        notes.push(format!(
            "the file lacks {added} of a CPU: both sides take an unknown processor"
        ));
    }
    Ok(Check {
        name: job.name(),
        hosts: job.host_count(),
        ranks,
        library: library.display().to_string(),
        answer,
        planned_on_dump,
        compared,
        notes,
    })
}

/// How memory is allocated and when connections are made. Here all are made at the start, unless
/// the user says otherwise.
fn memory_settings(asked: &Asked, settings: &Settings) -> MemorySettings {
    let mut read = MemorySettings::of(settings);
    read.connects_late &= asked.set.iter().any(|(name, _)| name == CONNECTS_LATE);
    read
}

/// Why not all connections are compared.
const CONNECTED_LATE: &str = "NCCL connects an algorithm when a collective first takes it: only the connections that were \
                              made are compared, and memory at the start";

/// Why a policy is not compared.
const NO_POLICY: &str = "the policy of efficiency has no effect beside a tuner plug-in, such as \
                         that through which NCCL is asked";

/// Why channels of calls with NVLink SHARP are not compared on registered buffers.
const NO_SWITCHED_BUFFERS: &str = "channels of calls with NVLS are not compared: NCCL 2.27 registers no buffers with NVSwitches \
                                   where ranks are threads of one process, as they are here; the plan is that of one process \
                                   per GPU";

/// Forgets the channels of calls with NVLink SHARP.
fn forget_switched_channels(answer: &mut Answer) {
    let choices = &answer.choices;
    let is_switched =
        |it: &(Algorithm, Protocol)| matches!(it.0, Algorithm::Nvls | Algorithm::NvlsTree);
    (answer.spread).retain(|call, _| !choices.get(call).is_some_and(is_switched));
}

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
            timeout: arguments.timeout,
            net: arguments.net,
            tuner: arguments.tuner.as_deref().map(tuner).transpose()?,
            sizes: sizes(arguments)?,
            calls: arguments.calls.calls(),
            peers: arguments.peers,
            driver: driver_number(&arguments.driver_version).unwrap_or(DRIVER_VERSION),
            set: arguments.set.clone(),
        })
    }
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

/// Asks NCCL.
fn ask(asked: &Asked, library: &Path, hosts: Vec<JobHost>, nvlink_domain: bool) -> Result<Answer> {
    let of_library = |why: &dyn std::fmt::Display| anyhow!("{} {why}", library.display());
    nccl_binary::examine(library).map_err(|why| of_library(&why))?;
    let library = std::path::absolute(library)
        .with_context(|| format!("cannot find {}", library.display()))?;
    let ranks = hosts
        .iter()
        .map(|host| host.ranks.len() as u64)
        .sum::<u64>();
    let seconds = asked.timeout;
    let seconds = seconds.unwrap_or(DEADLINE + DEADLINE_PER_RANK * ranks);
    let job = Job {
        program: std::env::current_exe().context("cannot find topo's own file")?,
        arguments: vec![OsString::from(HOST_COMMAND)],
        request: Request {
            network: match asked.net {
                Net::Ib => Network::Merging,
                Net::Plugin => Network::Plugin,
                Net::Socket => Network::Socket,
            },
            tuner: asked.tuner.clone(),
            nvlink_domain,
            sizes: asked.sizes.clone(),
            calls: asked.calls,
            peers: asked.peers,
            driver: asked.driver,
            graphs: true,
            variables: asked.set.clone(),
            ..Request::of(library)
        },
        hosts,
        deadline: Duration::from_secs(seconds),
    };
    let answers = job.run().map_err(|error| match error {
        NoAnswer::Unusable(why) => of_library(&why),
        other => other.into(),
    })?;
    Ok(Answer {
        other_tuner: asked.tuner.is_some(),
        calls: asked.calls,
        ..log::read(&answers)
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

/// The process of one host.
pub(crate) fn serve() -> Result<()> {
    let mut input = BufReader::new(io::stdin());
    let mut output = io::stdout();
    host::serve(&mut input, &mut output).context("the parent of this process is gone")
}
