//! The answer as JSON.

use crate::JsonSchema;
use bounds::rings::{Outcome, RingSearch};
use plan::certificate::{Operation, UNITS};
use plan::{Algorithm, Setting};
use program::{Collective, Protocol};
use records::results::published::all_shares;
use serde::Serialize;

use super::{ChosenStep, CollectiveGains, Extreme, Gain, Proposal, Trial, TuneAnswer, Verdict};
use crate::export::ExportReport;
use crate::export::json::{LeftOut, WrittenFile};
use crate::report::Report;

/// What NCCL can be told to be faster on a machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TuneReport {
    /// Names of the machines.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// Ranks of the job.
    ranks: u64,
    /// The version as which it is planned, as the name of its cost profile.
    profile: String,
    /// Times come from a cost profile that was fitted to measurements.
    fitted: bool,
    /// Messages below this, bytes, may become slower.
    from: u64,
    /// NCCL's settings that were given and can change a decision.
    settings: Vec<Setting>,
    /// The most that any schedule reaches; empty for one rank.
    bounds: Vec<BoundJson>,
    /// NCCL's rings and the best that were found; null if none were searched.
    rings: Option<RingsJson>,
    /// Why no rings were searched.
    no_rings: Option<String>,
    /// What NCCL can be told; null if nothing makes the job faster.
    proposal: Option<ProposalJson>,
    /// The least and the greatest share of its prediction that any published healthy run reached,
    /// of 1 MiB and more.
    shares: [f64; 2],
    /// The gain of the proposal for each collective and size.
    gains: Vec<GainsJson>,
    /// Everything that was tried.
    tried: Vec<TrialJson>,
    /// The files that were written.
    files: Option<FilesJson>,
    /// What NCCL libraries decided when they were told so.
    checks: Vec<LibraryCheck>,
}

/// The bound of an operation.
#[derive(Debug, Serialize, JsonSchema)]
struct BoundJson {
    /// The operation.
    operation: Operation,
    /// No schedule exceeds this bus bandwidth, GB/s.
    bound_gbps: f64,
    /// Bus bandwidth of NCCL's plan for long messages, GB/s, as NCCL states it.
    nccl_gbps: Option<f64>,
    /// Bus bandwidth that trees reach, which `topo run` runs and NCCL cannot, GB/s; null where the
    /// bound is at most 5 % more than NCCL's plan, or no trees were sought.
    trees_gbps: Option<f64>,
}

/// Rings of a job.
#[derive(Debug, Serialize, JsonSchema)]
struct RingsJson {
    /// Bandwidth that NCCL states for its rings, GB/s.
    stated_gbps: f64,
    /// Bandwidth that they carry, GB/s.
    carried_gbps: f64,
    /// Bandwidth of the best rings that were found, GB/s.
    best_gbps: f64,
    /// No rings carry more, GB/s.
    bound_gbps: f64,
    /// Other rings than NCCL's are better.
    better: bool,
}

/// What NCCL can be told.
#[derive(Debug, Serialize, JsonSchema)]
struct ProposalJson {
    /// Settings beside those that the job has.
    settings: Vec<ProposedSetting>,
    /// Other rings than NCCL's search finds, in one line; NCCL gets them as a graph file.
    rings: Option<String>,
    /// NCCL needs the choices of algorithm and protocol: it does not choose as well by itself.
    needs_choices: bool,
    /// The graph file that the job has is not used any more.
    drops_graph_file: bool,
}

/// A setting.
#[derive(Debug, Serialize, JsonSchema)]
struct ProposedSetting {
    /// The variable.
    name: &'static str,
    /// Its value.
    value: &'static str,
    /// What must hold on the machine, which no file tells.
    caution: Option<&'static str>,
}

/// The gains of a collective.
#[derive(Debug, Serialize, JsonSchema)]
struct GainsJson {
    /// The collective.
    collective: Collective,
    /// Its sizes.
    sizes: Vec<GainJson>,
}

/// The gain at one size.
#[derive(Debug, Serialize, JsonSchema)]
struct GainJson {
    /// Size of the whole message, bytes.
    bytes: u64,
    /// NCCL's choice now.
    now: StepJson,
    /// The choice of the proposal.
    tuned: StepJson,
    /// How many times as fast by the links; from `from` on never below 0.999.
    gain: f64,
    /// How many times as fast as NCCL rates its channels; null where that does not count: there
    /// are no other rings and no more channels, or NCCL had found no bandwidth.
    rated_gain: Option<f64>,
    /// The least gain with error bars; null if nothing changes, or only one figure is known.
    least_gain: Option<f64>,
    /// The greatest gain, likewise.
    most_gain: Option<f64>,
    /// Where the bars come from: `model` (both gains only), `other-runs` (also the shares of their
    /// predictions that published runs reached, of jobs that are joined or reduce otherwise),
    /// `runs` (of jobs like this).
    bars: &'static str,
}

/// A choice.
#[derive(Debug, Serialize, JsonSchema)]
struct StepJson {
    /// The algorithm.
    algorithm: Algorithm,
    /// The protocol.
    protocol: Protocol,
    /// The predicted time, µs.
    time_us: f64,
}

/// Something that was tried.
#[derive(Debug, Serialize, JsonSchema)]
struct TrialJson {
    /// It: `NAME=VALUE`, `rings`, or `choices` of algorithm and protocol.
    what: String,
    /// What came of it: `helps`, `no-effect`, `slower` (some messages), `refused`, `not-tried`.
    verdict: &'static str,
    /// The message that gains most.
    most: Option<ExtremeJson>,
    /// The message that loses most.
    least: Option<ExtremeJson>,
    /// From this size on, bytes, some messages are faster and none slower.
    helps_from: Option<u64>,
    /// Why it was refused or not tried.
    why: Option<String>,
}

/// A message whose time changes most.
#[derive(Debug, Serialize, JsonSchema)]
struct ExtremeJson {
    /// How many times as fast.
    gain: f64,
    /// The collective.
    collective: Collective,
    /// Size of the whole message, bytes.
    bytes: u64,
}

/// The files that were written.
#[derive(Debug, Serialize, JsonSchema)]
struct FilesJson {
    /// The folder.
    folder: String,
    /// The files.
    files: Vec<WrittenFile>,
    /// Parts that cannot be exported.
    left_out: Vec<LeftOut>,
}

/// What an NCCL library decided with the proposal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LibraryCheck {
    /// The library's file.
    pub library: String,
    /// Its version; null if it could not be asked.
    pub version: Option<String>,
    /// NCCL accepts the files and decides as planned in everything that this version can say.
    pub agrees: bool,
    /// Values that were compared.
    pub values: u64,
    /// Values that differ.
    pub differing: u64,
    /// Why it could not be asked, or what differs first.
    pub why: Option<String>,
}

impl Report for TuneReport {
    const FORMAT: &'static str = "topo-tune";
    const VERSION: u32 = 1;
}

impl TuneReport {
    /// The report, with the files that were written, and what libraries made of them.
    pub fn of(answer: &TuneAnswer, files: Option<ExportReport>, checks: Vec<LibraryCheck>) -> Self {
        let plan = answer.now.plan();
        let bounds = answer.bound.iter().flat_map(|it| &it.bounds);
        let bounds = bounds.map(|row| BoundJson {
            operation: row.operation,
            bound_gbps: row.bound_gbps,
            nccl_gbps: row.nccl_gbps,
            trees_gbps: row.reached_gbps,
        });
        Self {
            name: answer.name.clone(),
            hosts: plan.request.hosts,
            ranks: plan.rank_count(),
            profile: plan.profile.clone(),
            fitted: answer.fitted,
            from: answer.from,
            settings: plan.settings.clone(),
            bounds: bounds.collect(),
            rings: answer.rings.as_ref().ok().map(RingsJson::of),
            no_rings: answer.rings.as_ref().err().map(ToString::to_string),
            proposal: answer.proposal.as_ref().map(ProposalJson::of),
            shares: all_shares(),
            gains: answer.gains.iter().map(GainsJson::of).collect(),
            tried: answer.tried.iter().map(TrialJson::of).collect(),
            files: files.map(|it| FilesJson {
                folder: it.folder,
                files: it.files,
                left_out: it.left_out,
            }),
            checks,
        }
    }
}

impl RingsJson {
    fn of(found: &RingSearch) -> Self {
        let gbps = |units: u64| units as f64 / f64::from(UNITS);
        Self {
            stated_gbps: gbps(found.stated),
            carried_gbps: gbps(found.carried),
            best_gbps: gbps(found.best),
            bound_gbps: found.bound.per(f64::from(UNITS)),
            better: found.outcome == Outcome::Better,
        }
    }
}

impl ProposalJson {
    fn of(proposal: &Proposal) -> Self {
        let settings = proposal.settings.iter().map(|it| ProposedSetting {
            name: it.name,
            value: it.value,
            caution: it.caution,
        });
        Self {
            settings: settings.collect(),
            rings: proposal.rings.clone(),
            needs_choices: !proposal.chooses_well,
            drops_graph_file: proposal.drops_graph_file,
        }
    }
}

impl GainsJson {
    fn of(gains: &CollectiveGains) -> Self {
        Self {
            collective: gains.collective,
            sizes: gains.sizes.iter().map(GainJson::of).collect(),
        }
    }
}

impl GainJson {
    fn of(gain: &Gain) -> Self {
        Self {
            bytes: gain.bytes,
            now: StepJson::of(gain.before),
            tuned: StepJson::of(gain.after),
            gain: gain.gain(),
            rated_gain: gain.rated,
            least_gain: gain.bars.map(|it| it[0]),
            most_gain: gain.bars.map(|it| it[1]),
            bars: gain.source.name(),
        }
    }
}

impl StepJson {
    const fn of(step: ChosenStep) -> Self {
        Self {
            algorithm: step.algorithm,
            protocol: step.protocol,
            time_us: step.time_us,
        }
    }
}

impl TrialJson {
    fn of(trial: &Trial) -> Self {
        let json = |it: &Extreme| ExtremeJson {
            gain: it.gain,
            collective: it.collective,
            bytes: it.bytes,
        };
        let (mut most, mut least, mut helps_from, mut why) = (None, None, None, None);
        let verdict = match &trial.verdict {
            Verdict::Helps(extreme) => {
                most = Some(json(extreme));
                "helps"
            }
            Verdict::NoEffect => "no-effect",
            Verdict::Slower {
                least: slower,
                most: faster,
                helps_from: from,
            } => {
                (most, least) = (faster.as_ref().map(json), Some(json(slower)));
                helps_from = *from;
                "slower"
            }
            Verdict::Refused(text) => {
                why = Some(text.clone());
                "refused"
            }
            Verdict::NotTried(text) => {
                why = Some(text.clone());
                "not-tried"
            }
        };
        Self {
            what: trial.what.clone(),
            verdict,
            most,
            least,
            helps_from,
            why,
        }
    }
}
