//! Bandwidths that a healthy machine reaches, for its acceptance: of collectives as nccl-tests
//! measures them, and of pairs of GPUs.
//!
//! In reading order: this file, `situation`, [`files`], `page`, [`beside`].

pub mod beside;
pub mod files;
mod page;
pub(crate) mod situation;

use pages::Page;
use plan::{Algorithm, Plan, Setting};
use planner::Planned;
use planner::explain::NodeNames;
use program::{Collective, Protocol};
use records::results::published::{self, Expected, PublishedRun, Situation};
use records::results::starts::ExpectedStart;
use serde::{Deserialize, Serialize};
use topology::NodeId;

use crate::cost::{CostError, CostQuestion, CostReport, PricedJob, SizeCosts};
use crate::report::Report;
use crate::sizes::{Collectives, Sizes, expand};
use crate::{Args, JsonSchema};

/// Sizes that are expected if none are named: those of acceptance tests, 256 MiB to 8 GiB.
const SIZES: Sizes = Sizes::range(256 << 20, 8 << 30);

/// A question about what a healthy machine reaches.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
pub struct ExpectQuestion {
    /// Collectives: all-reduce, all-gather, reduce-scatter, broadcast, reduce, or all
    #[serde(default, rename = "collectives")]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "all-reduce"
    )]
    #[schemars(with = "Vec<String>")]
    pub collective: Vec<Collectives>,
    /// Message sizes: 64M, a list 1G,8G or a range 256M..8G
    #[serde(default)]
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "256M..8G"
    )]
    pub sizes: Vec<Sizes>,
}

/// Most GPUs whose pairs are listed.
const MOST_GPUS: usize = 256;

/// Bandwidths that a healthy machine reaches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExpectReport {
    /// Names of the machines.
    pub name: String,
    /// Hosts of the job.
    pub hosts: u32,
    /// Ranks of the job.
    pub ranks: u64,
    /// The version as which it is planned, as the name of its cost profile.
    pub profile: String,
    /// NCCL's settings that were given and can change a decision.
    pub settings: Vec<Setting>,
    /// The collectives.
    pub collectives: Vec<CollectiveExpectations>,
    /// The published runs from which they come.
    pub sources: Vec<Published>,
    /// What NCCL counts on between GPUs of the first machine, no expectation; null of a plan, and
    /// of very many GPUs.
    pub pairs: Option<Pairs>,
    /// The time that communicators need to start; null if no start of such a job is published.
    pub start: Option<Start>,
    /// The plan.
    #[serde(skip)]
    pub plan: Plan,
}

/// The time that communicators need to start.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Start {
    /// The least and the most of the published starts, seconds.
    pub seconds: [f64; 2],
    /// The same for further communicators of a process, which load no kernels, seconds.
    pub further_seconds: [f64; 2],
    /// The starts.
    pub like: Vec<Published>,
}

/// The expectations of a collective.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CollectiveExpectations {
    /// The collective.
    pub collective: Collective,
    /// What of the job decides which published runs are alike; null if the plan does not say it.
    #[serde(skip)]
    pub job: Option<Situation>,
    /// Its sizes.
    pub sizes: Vec<SizeExpectation>,
}

/// The expectation of one size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SizeExpectation {
    /// Size of the whole message, bytes.
    pub bytes: u64,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The protocol.
    pub protocol: Protocol,
    /// Bus bandwidth that NCCL's model predicts, GB/s. It is no expectation.
    pub predicted_gbps: Option<f64>,
    /// Bus bandwidth of a healthy machine, GB/s; null if it is unknown.
    pub expected_gbps: Option<f64>,
    /// The least and the greatest of the published runs that are alike, GB/s.
    pub spread_gbps: Option<[f64; 2]>,
    /// The least bus bandwidth of a healthy machine, GB/s.
    pub floor_gbps: Option<f64>,
    /// The published runs that are alike.
    pub like: Vec<&'static str>,
    /// Why nothing is expected.
    pub unknown: Option<String>,
}

impl SizeExpectation {
    fn of(size: &SizeCosts, job: &Result<Situation, String>) -> Option<Self> {
        let choice = size.choice.as_ref()?;
        let expected = job.as_ref().map_err(Clone::clone);
        let expected =
            expected.and_then(|job| Expected::of(job, size.bytes).map_err(|it| it.to_string()));
        let known = expected.as_ref().ok();
        let runs = known.iter().flat_map(|it| &it.runs);
        Some(Self {
            bytes: size.bytes,
            algorithm: choice.algorithm,
            protocol: choice.protocol,
            predicted_gbps: choice.bus_bandwidth_gbps,
            expected_gbps: known.map(|it| it.bus_gbps),
            spread_gbps: known.map(|it| it.spread),
            floor_gbps: known.map(|it| it.floor_gbps),
            like: runs.map(|run| run.name.as_str()).collect(),
            unknown: expected.err(),
        })
    }
}

/// A published run or start.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Published {
    /// Its machine.
    pub name: &'static str,
    /// Where it is published.
    pub source: &'static str,
}

/// Bandwidths between GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pairs {
    /// Names of the GPUs.
    pub gpus: Vec<String>,
    /// From each GPU to each one, GB/s in one direction, as NCCL counts on them; null to itself.
    pub gbps: Vec<Vec<Option<f32>>>,
    /// The types of the paths.
    pub types: Vec<Vec<Option<&'static str>>>,
}

impl Report for ExpectReport {
    const FORMAT: &'static str = "topo-expect";
    const VERSION: u32 = 2;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

/// Why there are no expectations.
#[derive(Debug, thiserror::Error)]
pub enum ExpectError {
    /// NCCL makes a collective of transfers.
    #[error(
        "NCCL makes {0} of transfers, for which no healthy run is known; expected one of all-reduce, all-gather, \
         reduce-scatter, broadcast, reduce"
    )]
    Transfers(Collective),
    /// The job has no costs.
    #[error(transparent)]
    Cost(#[from] CostError),
}

impl ExpectReport {
    /// The expectations of a job.
    ///
    /// # Errors
    /// NCCL does not tune a collective.
    pub fn of(
        job: PricedJob,
        planned: Option<&Planned>,
        question: &ExpectQuestion,
    ) -> Result<Self, ExpectError> {
        let collectives = match &question.collective[..] {
            [] => vec![Collective::AllReduce],
            some => Collectives::each_once(some),
        };
        let of_transfers = |it: &&Collective| !Collective::TUNED.contains(it);
        if let Some(transfers) = collectives.iter().find(of_transfers) {
            return Err(ExpectError::Transfers(*transfers));
        }
        let sizes = expand(&question.sizes, 2, SIZES).map_err(CostError::Sizes)?;
        let CostReport {
            job, collectives, ..
        } = job.ask(&CostQuestion::about(&collectives, &sizes))?;
        let collectives = collectives.into_iter().map(|costs| {
            let situation = situation::situation(&job.plan, &job.costs, costs.collective);
            let sizes = costs.sizes.iter();
            CollectiveExpectations {
                collective: costs.collective,
                sizes: sizes
                    .filter_map(|it| SizeExpectation::of(it, &situation))
                    .collect(),
                job: situation.ok(),
            }
        });
        let collectives: Vec<CollectiveExpectations> = collectives.collect();
        let sizes = || collectives.iter().flat_map(|it| &it.sizes);
        let is_used = |run: &&PublishedRun| sizes().any(|it| it.like.contains(&run.name.as_str()));
        let used = published::runs().iter().filter(is_used);
        let mut sources: Vec<Published> = used
            .map(|run| Published {
                name: &run.name,
                source: &run.source,
            })
            .collect();
        sources.dedup_by_key(|it| (it.name, it.source));
        let start = ExpectedStart::of(&job.costs.job, job.plan.request.hosts);
        Ok(Self {
            sources,
            collectives,
            pairs: planned.and_then(Pairs::of),
            start: start.map(|start| Start {
                seconds: start.seconds,
                further_seconds: start.further,
                like: {
                    let like = start.like.iter();
                    like.map(|it| Published {
                        name: it.name,
                        source: it.source,
                    })
                    .collect()
                },
            }),
            name: job.name,
            hosts: job.plan.request.hosts,
            ranks: job.plan.rank_count(),
            profile: job.plan.profile.clone(),
            settings: job.plan.settings.clone(),
            plan: job.plan,
        })
    }
}

impl Pairs {
    fn of(planned: &Planned) -> Option<Self> {
        let host = planned.machines().first()?.nodes.first()?;
        let (system, table) = (host.view.system(), host.view.routing().table());
        let mut gpus: Vec<(i32, NodeId)> =
            system.gpus().map(|(node, gpu)| (gpu.rank, node)).collect();
        if gpus.len() > MOST_GPUS {
            return None;
        }
        gpus.sort_unstable();
        let names = NodeNames::new(system);
        let row = |from: NodeId| {
            let to = gpus.iter().map(|(_, to)| *to);
            let path = |to| (to != from).then(|| (table.bw(from, to), table.kind(from, to).name()));
            to.map(|to| path(to).unzip()).unzip()
        };
        let (gbps, types) = gpus.iter().map(|(_, from)| row(*from)).unzip();
        Some(Self {
            gbps,
            types,
            gpus: gpus
                .iter()
                .map(|(_, node)| names.label(*node).to_owned())
                .collect(),
        })
    }

    /// The kinds of pairs, fastest first: type of the path, GB/s in one direction, number of pairs
    /// in both directions.
    pub fn kinds(&self) -> Vec<(&'static str, f32, usize)> {
        let mut kinds: Vec<(&'static str, f32, usize)> = Vec::new();
        let types = self.types.iter().flatten().flatten();
        for (kind, gbps) in types.zip(self.gbps.iter().flatten().flatten()) {
            let known = kinds.iter_mut().find(|it| it.0 == *kind && it.1 == *gbps);
            match known {
                Some((.., count)) => *count += 1,
                None => kinds.push((kind, *gbps, 1)),
            }
        }
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        kinds
    }
}
