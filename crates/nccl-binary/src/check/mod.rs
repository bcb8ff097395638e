//! Asks a library about a job, and compares its decisions with the plan.
//!
//! In reading order: this file, `job` (the job as NCCL gets it), `memory` (what the processes need
//! of this machine), `gpu_memory`, [`page`](mod@page).

mod gpu_memory;
mod job;
mod memory;
pub mod page;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use answers::report::Report;
use anyhow::{Context, Result, anyhow, bail};
use plan::cost::{Calls, Registration};
use plan::{Algorithm, CostTable, Plan};
use planner::memory::MemorySettings;
use planner::settings::CtaPolicy;
use planner::{NcclVersion, Settings};
use program::Protocol;
use records::nccl_log::compare::{Answer, Field, FieldComparison, PlannerOutcome, compare};
use serde::Serialize;

use crate::JsonSchema;
use crate::job::{CONNECTS_LATE, Job, JobHost, NoAnswer};
use crate::log;
use crate::message::{Network, Request};
use job::AskedJob;

/// When NCCL must have answered without --timeout: a start, and more for each rank, s.
const DEADLINE: u64 = 60;
const DEADLINE_PER_RANK: u64 = 2;

/// A plan and its costs as NCCL logs them, or why there is none.
type PlanOrWhyNot = Result<(Plan, CostTable), String>;

/// How a library is asked about a job.
#[derive(Debug)]
pub struct Asked {
    /// The program of a host's process, and its arguments; it serves by [`crate::host::serve`].
    pub program: (PathBuf, Vec<OsString>),
    /// When NCCL must have answered, s; none: by the number of ranks.
    pub timeout: Option<u64>,
    /// The network that NCCL finds.
    pub network: Network,
    /// The absolute path of a tuner plug-in.
    pub tuner: Option<PathBuf>,
    /// Message sizes, bytes.
    pub sizes: Vec<u64>,
    /// The calls that NCCL is asked about.
    pub calls: Calls,
    /// All ranks send to each other.
    pub peers: bool,
    /// The driver's version as CUDA's number.
    pub driver: u32,
    /// NCCL's variables, for NCCL and for the plan.
    pub set: Vec<(String, String)>,
}

/// The decisions of an NCCL library on a machine, compared with the plan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Check {
    /// The machine's name.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u64,
    /// The library.
    pub library: String,
    /// Its version.
    pub nccl: String,
    /// Nothing differs, and nothing is lacking that this version can say.
    pub agrees: bool,
    /// The plan was made for the topology that NCCL joined from the ranks' pieces, because it is
    /// another one than the file's.
    pub planned_on_dump: bool,
    /// The compared fields.
    pub fields: Vec<FieldComparison>,
    /// NCCL's warnings.
    pub warnings: Vec<String>,
    /// Notes on the comparison.
    pub notes: Vec<String>,
    /// What NCCL said.
    #[serde(skip)]
    pub answer: Answer,
}

impl Report for Check {
    const FORMAT: &'static str = "topo-nccl-check";
    const VERSION: u32 = 1;
}

impl Check {
    /// Compares a field in another way.
    pub fn replace(&mut self, compared: FieldComparison) {
        let mut fields = self.fields.iter_mut();
        if let Some(field) = fields.find(|it| it.field == compared.field) {
            *field = compared;
        }
        self.agrees = self.fields.iter().all(|it| it.agrees);
    }
}

/// The version of NCCL as which the plan is made, by the library's number; and whether the library
/// is of another patch release.
///
/// # Errors
/// No version of this minor number is known.
fn version_of(answer: &Answer) -> Result<(NcclVersion, bool)> {
    let name = in_digits(answer.version);
    let version: NcclVersion = match name.parse() {
        Ok(version) => version,
        Err(_) => name[..name.rfind('.').unwrap_or(0)].parse()?,
    };
    Ok((version, version.name() != name))
}

/// Refuses to compare where NCCL failed for a reason that is not a decision about the job.
fn reject_failure(answer: &Answer) -> Result<()> {
    let Some(refusal) = answer.refusal.as_ref().filter(|it| !log::is_decision(it)) else {
        return Ok(());
    };
    let warning = answer.warnings.first();
    let warning = warning.map(|it| format!("; its warning: {it}"));
    bail!(
        "NCCL failed on this machine, which says nothing about the plan: {refusal}{}",
        warning.unwrap_or_default()
    );
}

/// Asks an NCCL library about a job, and compares it with the plan. `read_graphs` reads the graph
/// file that settings name.
///
/// # Errors
/// NCCL cannot be asked, or failed; the job does not fit this machine, or cannot be planned.
pub fn check(
    asked: &Asked,
    library: &Path,
    job: &planner::Job,
    read_graphs: impl FnOnce(Settings) -> Result<Settings>,
) -> Result<Check> {
    let job = AskedJob::new(job, asked.network)?;
    let hosts = job.hosts()?;
    memory::check(hosts.iter().map(|host| host.ranks.len() as u64))?;
    let ranks = hosts.iter().map(|host| host.ranks.len() as u64).sum();
    let mut answer = ask(asked, library, hosts, job.nvlink_domain())?;
    let (version, other_patch) = version_of(&answer)?;
    // From the command line only: NCCL gets no others.
    let mut settings = Settings::with_variables(version, asked.set.clone());
    settings.tuning.driver = Some(asked.driver);
    let mut settings = read_graphs(settings)?;
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
    if planned.is_ok() {
        reject_failure(&answer)?;
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
    let of_ports = asked.network == Network::Merging
        && version < NcclVersion::V2_30
        && job.leaves_to_chance(&settings);
    let mut notes: Vec<String> = [
        (planned_on_dump, ON_DUMP),
        (answer.is_partial, CONNECTED_LATE),
        (by_policy, NO_POLICY),
        (no_switched_buffers, NO_SWITCHED_BUFFERS),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .map(|(_, note)| note.to_owned())
    .collect();
    notes.extend(other_patch.then(|| format!("planned as NCCL {version} decides")));
    notes.extend(of_ports.then(|| chance(version)));
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
        nccl: in_digits(answer.version),
        agrees: compared.iter().all(|it| it.agrees),
        planned_on_dump,
        fields: compared,
        warnings: answer.warnings.clone(),
        notes,
        answer,
    })
}

/// How memory is allocated and when connections are made. Here all are made at the start, unless
/// the user says otherwise.
fn memory_settings(asked: &Asked, settings: &Settings) -> MemorySettings {
    let mut read = MemorySettings::of(settings);
    read.connects_late &= asked.set.iter().any(|(name, _)| name == CONNECTS_LATE);
    read
}

/// A version such as 2.30.7, by NCCL's number.
fn in_digits(number: i32) -> String {
    let (major, minor, patch) = (number / 10_000, number / 100 % 100, number % 100);
    format!("{major}.{minor}.{patch}")
}

/// Why the plan is not that of the file.
const ON_DUMP: &str =
    "planned on the topology that NCCL dumped: its network ports are not those of the file";

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

/// Asks NCCL.
fn ask(asked: &Asked, library: &Path, hosts: Vec<JobHost>, nvlink_domain: bool) -> Result<Answer> {
    let of_library = |why: &dyn std::fmt::Display| anyhow!("{} {why}", library.display());
    crate::examine(library).map_err(|why| of_library(&why))?;
    let library = std::path::absolute(library)
        .with_context(|| format!("cannot find {}", library.display()))?;
    let ranks = hosts
        .iter()
        .map(|host| host.ranks.len() as u64)
        .sum::<u64>();
    let seconds = asked.timeout;
    let seconds = seconds.unwrap_or(DEADLINE + DEADLINE_PER_RANK * ranks);
    let job = Job {
        program: asked.program.0.clone(),
        arguments: asked.program.1.clone(),
        request: Request {
            network: asked.network,
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
