//! Advice to NCCL that makes it faster on a machine: settings, rings, choices of algorithm and
//! protocol; with the gain that NCCL's cost model predicts.
//!
//! Plans are compared twice. By the links: NCCL chooses by the bandwidths that it states, and each
//! choice costs what its rings carry, so that a stand-in of 0.1 GB/s, for which NCCL found nothing,
//! costs no more than it does. And as NCCL rates them: by the times that it predicts itself. Links
//! do not limit what one channel carries, NCCL's rating does; it counts as a gain only where a plan
//! has other rings or uses more of them. Nothing is proposed that is slower in either way.
//!
//! In reading order: this file, [`settings`] (which ones are tried), `trial`, `priced`, `gain`,
//! `page`.

mod gain;
mod page;
mod priced;
mod report;
pub mod settings;
mod trial;

use bounds::reach::collective;
use bounds::rings::{NoRings, Outcome, RingSearch, replan, replan_with_chains, search, unused};
use plan::GraphKind;
use plan::certificate::Operation;
use planner::{Error, Job, Planned, Settings};
use program::Collective;
use records::results::shares::all_shares;

use crate::better_rings::line;
use crate::bound::{BoundQuestion, bound};
use crate::names;
use crate::sizes::{Collectives, Sizes, expand};
use crate::{Args, JsonSchema};
pub use gain::{BarSource, CollectiveGains, Gain};
pub use priced::ChosenStep;
use priced::{Compared, Priced, Times, WORTH_IT};
pub use report::{FoundRings, LibraryCheck, Proposal, TuneReport, TunedBound, WrittenFiles};
use serde::Deserialize;
use settings::{TRIED, TriedSetting};
pub use trial::{Extreme, Trial, Verdict};

/// Sizes whose gains are shown if none are named: each is 8 times the last.
const SIZES: Sizes = Sizes::range(4 << 10, 8 << 30);
const FACTOR: u64 = 8;

/// The smallest and the largest message at which plans are compared, bytes.
const SMALLEST: u64 = 1 << 10;
const LARGEST: u64 = 8 << 30;

/// The least increase of the mean logarithm of gains for one more change.
const WORTH_A_CHANGE: f64 = 1e-3;

/// Most settings that are proposed together.
const MOST_SETTINGS: usize = 3;

/// A gain of trees over NCCL's plan below which they are neither sought nor mentioned.
pub const WORTH_TREES: f64 = 1.05;

/// Most ranks of a job for which trees are sought.
const MOST_RANKS_WITH_TREES: u32 = 16;

/// Most GPUs of a host whose rings are searched for each setting.
const MOST_GPUS_OF_SETTINGS: usize = 8;

/// What NCCL states for a channel where its search finds nothing, GB/s.
const STAND_IN: f32 = 0.1;

/// NCCL's variable for a graph file.
const GRAPH_FILE: &str = "NCCL_GRAPH_FILE";

/// What to show of a job that is tuned.
#[derive(Debug, Clone, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct TuneQuestion {
    /// Collectives whose gains are shown: all-reduce, all-gather, reduce-scatter, broadcast,
    /// reduce, or all
    #[serde(default, rename = "collectives")]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "all"
    )]
    #[schemars(with = "Vec<String>")]
    pub collective: Vec<Collectives>,
    /// Message sizes whose gains are shown: 64M, a list 32K,1G or a range 4K..8G, which grows by 8
    #[serde(default)]
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "4K..8G"
    )]
    pub sizes: Vec<Sizes>,
    /// Messages below this size may become slower: for jobs that have none
    #[serde(default = "smallest")]
    #[arg(long, value_name = "SIZE", value_parser = program::size::parse, default_value = "1K")]
    pub from: u64,
}

const fn smallest() -> u64 {
    SMALLEST
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// NCCL makes a collective of transfers.
    #[error(
        "NCCL makes {} of transfers, for which it has no choices; expected one of all-reduce, all-gather, \
         reduce-scatter, broadcast, reduce",
        .0.command_name()
    )]
    Transfers(Collective),
    /// The job cannot be planned as it is.
    #[error(transparent)]
    Plan(#[from] Error),
    /// There are too many sizes.
    #[error("{0}")]
    Sizes(String),
}

/// A plan that may be proposed.
#[derive(Debug, Clone)]
struct Candidate {
    settings: Vec<TriedSetting>,
    rings: Option<String>,
    priced: Priced,
}

/// A candidate with its times compared with those of the job as it is.
#[derive(Debug, Clone)]
struct Judged {
    candidate: Candidate,
    compared: Compared,
}

/// The work on a question.
struct Tuner {
    /// The job with the machine's cost profile, and with NCCL's constants.
    job: Job,
    plain: Job,
    /// The settings without a graph file.
    bare: Settings,
    /// The job as it is.
    now: Priced,
    /// Its times by the links, and as NCCL rates them.
    before: [Times; 2],
    /// Messages below this do not count, bytes.
    from: u64,
}

/// Finds what makes a job faster. Its cost profile says how long choices take; NCCL chooses by its
/// own constants. `settings` are NCCL's as they are, with a graph file if there is one.
///
/// # Errors
/// The job cannot be planned as it is, a collective has no choices, or there are too many sizes.
pub fn tune(
    job: Job,
    settings: &Settings,
    question: &TuneQuestion,
) -> Result<TuneReport, TuneError> {
    let from = question.from;
    let collectives = Collectives::each_once(&question.collective);
    let sizes = expand(&question.sizes, FACTOR, SIZES).map_err(TuneError::Sizes)?;
    let of_transfers = |it: &&Collective| !Collective::TUNED.contains(it);
    if let Some(transfers) = collectives.iter().find(of_transfers) {
        return Err(TuneError::Transfers(*transfers));
    }
    let plain = Job {
        profile: None,
        ..job.clone()
    };
    let now = Priced::of(&job, planner::plan(&plain, settings)?, 1.0)?;
    let tuner = Tuner {
        before: [Times::own(&now), Times::rated(&now)],
        bare: without_graph_file(settings),
        job,
        plain,
        now,
        from,
    };
    let now = &tuner.now;
    let rings = search(&now.planned);
    let as_is = tuner.compare(&Candidate::as_is(now.clone()));
    let mut tried = vec![Trial::of("choices", &as_is)];
    // A graph file that the job has stays, and only choices change.
    let mut best = tuner.better(None, vec![Candidate::as_is(now.clone())]);
    let own = tuner.candidates(&[]);
    tried.push(tuner.judge_rings(&own, &rings));
    best = tuner.better(best, own.unwrap_or_default());
    best = tuner.with_settings(best, &mut tried);
    let counts = best
        .as_ref()
        .is_some_and(|it| tuner.rating_counts(&it.candidate));
    let proposal = best.map(|it| it.candidate.propose(settings.graphs.is_some()));
    let tuned = proposal.as_ref().map(|it| Priced {
        planned: it.planned.clone(),
        carried: it.choices.clone(),
    });
    let gains = collectives.into_iter();
    let gains = gains.map(|it| CollectiveGains::of(it, &sizes, (now, tuned.as_ref()), counts));
    let plan = now.planned.plan();
    Ok(TuneReport {
        name: names::job(plan),
        hosts: plan.request.hosts,
        ranks: plan.rank_count(),
        profile: plan.profile.clone(),
        fitted: tuner.job.profile.is_some(),
        from,
        settings: plan.settings.clone(),
        bounds: bounds_of(&now.planned),
        no_rings: rings.as_ref().err().map(ToString::to_string),
        rings: rings.ok().map(|it| FoundRings::of(&it)),
        proposal,
        shares: all_shares(),
        gains: gains.collect(),
        tried,
        files: None,
        checks: Vec::new(),
        asks_for_files: false,
        now: tuner.now.planned,
    })
}

/// The bounds of a job, with trees where they can be worth it if it is small; empty for one rank.
fn bounds_of(planned: &Planned) -> Vec<TunedBound> {
    let of = |collective, trees: bool| {
        let question = BoundQuestion {
            collective,
            without_trees: !trees,
            ..BoundQuestion::default()
        };
        let found = bound(planned, &question).ok();
        let rows = found.into_iter().flat_map(|it| it.bounds);
        rows.map(|row| TunedBound {
            operation: row.operation,
            bound_gbps: row.bound_gbps,
            nccl_gbps: row.nccl_gbps,
            trees_gbps: row.reached_gbps,
        })
    };
    let mut rows: Vec<TunedBound> = of(None, false).collect();
    if planned.job.layout().ranks() > MOST_RANKS_WITH_TREES {
        return rows;
    }
    for row in &mut rows {
        let can_gain = row
            .nccl_gbps
            .is_some_and(|nccl| row.bound_gbps > nccl * WORTH_TREES);
        if can_gain && has_trees(row.operation) {
            let operation = row.operation;
            let mut found = of(Some(collective(operation)), true);
            if let Some(found) = found.find(|it| it.operation == operation) {
                *row = found;
            }
        }
    }
    rows
}

/// Whether trees of ranks carry out an operation.
const fn has_trees(operation: Operation) -> bool {
    !matches!(
        operation,
        Operation::AllReduceInNetwork | Operation::AllToAll
    )
}

/// The settings without the graph file that they name.
fn without_graph_file(settings: &Settings) -> Settings {
    if settings.graphs.is_none() {
        return settings.clone();
    }
    let others = settings.in_force.iter().filter(|it| it.0 != GRAPH_FILE);
    Settings::with_variables(settings.rules.version(), others.cloned())
}

impl Candidate {
    /// The job as it is, with better choices.
    const fn as_is(priced: Priced) -> Self {
        Self {
            settings: Vec::new(),
            rings: None,
            priced,
        }
    }

    fn propose(self, had_graph_file: bool) -> Proposal {
        let Priced { planned, carried } = &self.priced;
        let [own, best] = [Times::own(&self.priced), Times::best(&self.priced)];
        let keeps_file = planned.settings.graph_file.is_some();
        Proposal {
            needs_choices: !own.against(&best, 0).loses_nothing(),
            drops_graph_file: had_graph_file && !keeps_file,
            settings: self.settings,
            rings: self.rings,
            planned: planned.clone(),
            choices: carried.clone(),
        }
    }
}

impl Tuner {
    /// The plans of the job with more settings: with NCCL's own rings, and with better ones or more
    /// of them. None if NCCL decides as it does now.
    fn candidates(&self, settings: &[TriedSetting]) -> Result<Vec<Candidate>, Error> {
        let given = self.bare.in_force.iter().cloned();
        let more = settings
            .iter()
            .map(|it| (it.name.to_owned(), it.value.to_owned()));
        let variables = Settings::with_variables(self.bare.rules.version(), given.chain(more));
        let planned = planner::plan(&self.plain, &variables)?;
        if !settings.is_empty() && self.now.is_like(&planned) {
            return Ok(Vec::new());
        }
        let candidate = |rings, priced| Candidate {
            settings: settings.to_vec(),
            rings,
            priced,
        };
        let mut all = Vec::new();
        let gpus = planned.node(0).view.system().gpus().count();
        // Searches for rings of many GPUs take long.
        if settings.is_empty() || gpus <= MOST_GPUS_OF_SETTINGS {
            let found = search(&planned).ok();
            let more = found.as_ref().and_then(|it| unused(&planned, it));
            let better = found.filter(|it| it.outcome == Outcome::Better);
            let better = better.map(|it| (line(&it, false), it));
            let more = more.map(|it| {
                let rings = it.graph.channels.len();
                let text = format!("all {rings} that NCCL finds, of which it uses fewer");
                (text, it)
            });
            for (text, found) in better.into_iter().chain(more) {
                let optimism = optimism(&planned);
                let replanned = [
                    replan(&self.plain, &planned, &found, None).map(Some),
                    replan_with_chains(&self.plain, &planned, &found),
                ];
                // NCCL may refuse such rings.
                for made in replanned.into_iter().flatten().flatten() {
                    let priced = Priced::of(&self.job, made.planned, optimism)?;
                    all.push(candidate(Some(text.clone()), priced));
                }
            }
        }
        all.insert(0, candidate(None, Priced::of(&self.job, planned, 1.0)?));
        Ok(all)
    }

    /// Compares a candidate with its best choices.
    fn compare(&self, candidate: &Candidate) -> Compared {
        let links = Times::best(&candidate.priced).against(&self.before[0], self.from);
        let rated = Times::rated(&candidate.priced).against(&self.before[1], self.from);
        links.and(&rated, self.rating_counts(candidate))
    }

    /// Whether NCCL's rating counts as a gain: there are other rings or more, and NCCL had found
    /// some bandwidth before.
    fn rating_counts(&self, candidate: &Candidate) -> bool {
        let (before, each) = self.now.rings();
        let (after, _) = candidate.priced.rings();
        each > STAND_IN && (candidate.rings.is_some() || after > before)
    }

    /// The best of these candidates, or what is known if none is better.
    fn better(&self, known: Option<Judged>, candidates: Vec<Candidate>) -> Option<Judged> {
        let mut best = known;
        for candidate in candidates {
            let compared = self.compare(&candidate);
            let enough = best.as_ref();
            let enough = enough.map_or(0.0, |it| it.compared.mean + WORTH_A_CHANGE);
            if compared.loses_nothing() && compared.most.0 >= WORTH_IT && compared.mean > enough {
                best = Some(Judged {
                    candidate,
                    compared,
                });
            }
        }
        best
    }

    /// What better rings do, with the best choices.
    fn judge_rings(
        &self,
        candidates: &Result<Vec<Candidate>, Error>,
        found: &Result<RingSearch, NoRings>,
    ) -> Trial {
        let what = "rings";
        match (candidates, found) {
            (Err(why), _) => Trial::without(what, Verdict::Refused, why),
            (Ok(_), Err(why)) => Trial::without(what, Verdict::NotTried, why),
            (Ok(all), Ok(_)) => {
                let others = all.iter().filter(|it| it.rings.is_some());
                let compared = others.map(|it| self.compare(it));
                let best = compared.max_by(|a, b| {
                    let by_loss = a.loses_nothing().cmp(&b.loses_nothing());
                    by_loss.then(a.mean.total_cmp(&b.mean))
                });
                best.map_or_else(|| Trial::no_effect(what), |it| Trial::of(what, &it))
            }
        }
    }

    /// What a setting does alone, by NCCL's own choices.
    fn judge_setting(
        &self,
        setting: &TriedSetting,
        candidates: &Result<Vec<Candidate>, Error>,
    ) -> Trial {
        let what = &setting.to_string();
        match candidates.as_ref().map(|all| all.first()) {
            Err(why) => Trial::without(what, Verdict::Refused, why),
            Ok(None) => Trial::no_effect(what),
            Ok(Some(own)) => {
                let links = Times::own(&own.priced).against(&self.before[0], self.from);
                let rated = Times::rated(&own.priced).against(&self.before[1], self.from);
                Trial::of(what, &links.and(&rated, self.rating_counts(own)))
            }
        }
    }

    /// The best with up to three settings, each of which is tried alone, too.
    fn with_settings(&self, mut best: Option<Judged>, tried: &mut Vec<Trial>) -> Option<Judged> {
        let settings_to_try = self.settings_to_try(tried);
        for round in 0..MOST_SETTINGS {
            let so_far = best.as_ref().map(|it| it.candidate.settings.clone());
            let so_far = so_far.unwrap_or_default();
            for setting in &settings_to_try {
                if so_far.iter().any(|it| it.name == setting.name) {
                    continue;
                }
                let candidates = self.candidates(&[&so_far[..], &[*setting]].concat());
                if round == 0 {
                    tried.push(self.judge_setting(setting, &candidates));
                }
                best = self.better(best, candidates.unwrap_or_default());
            }
            let found = best.as_ref().map_or(0, |it| it.candidate.settings.len());
            if found <= so_far.len() {
                break;
            }
        }
        best
    }

    /// The settings that are tried for this job; the others are noted.
    fn settings_to_try(&self, tried: &mut Vec<Trial>) -> Vec<TriedSetting> {
        let version = self.bare.rules.version();
        let networked = self.now.planned.job.layout().nodes() > 1;
        let mut left = Vec::new();
        for setting in TRIED {
            let why = match setting {
                it if it.is_given_in(&self.bare) => "the job has a value for it",
                it if !it.is_known_to(version) => "this version does not know it",
                it if it.network && !networked => "the job does not use the network",
                _ => {
                    left.push(setting);
                    continue;
                }
            };
            let what = &setting.to_string();
            tried.push(Trial::without(what, Verdict::NotTried, &why));
        }
        left
    }
}

/// How many times as much bandwidth NCCL states inside a host as its rings have over the network.
fn optimism(planned: &Planned) -> f32 {
    let ring = planned.job.common().graph(GraphKind::Ring);
    let ratio = ring.map_or(1.0, |it| it.bw_intra / it.bw_inter.min(it.bw_intra));
    if ratio.is_finite() {
        ratio.max(1.0)
    } else {
        1.0
    }
}
