//! Bandwidths that a healthy machine reaches, for its acceptance: of collectives as nccl-tests
//! measures them, and of pairs of GPUs.
//!
//! In reading order: this file, [`files`], `page`.

pub mod files;
mod page;

use pages::Page;
use plan::{Algorithm, Plan, Setting};
use planner::Planned;
use planner::explain::NodeNames;
use program::{Collective, Protocol};
use records::results::published::{Expected, RUNS};
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
#[derive(Debug, Clone, Default, Deserialize, Args)]
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
    /// The bandwidths between GPUs of the first machine; null of a plan, and of very many GPUs.
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
    /// Bus bandwidth that NCCL's model predicts, GB/s.
    pub predicted_gbps: Option<f64>,
    /// Bus bandwidth of a healthy machine, GB/s; null below the sizes of published runs.
    pub expected_gbps: Option<f64>,
    /// The least bus bandwidth of a healthy machine, GB/s.
    pub floor_gbps: Option<f64>,
    /// The published run that is most like the job.
    pub like: Option<&'static str>,
    /// The run has GPUs of the same generation, joined alike, and the size.
    pub alike: bool,
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
    const VERSION: u32 = 1;

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
        let size = |collective, size: SizeCosts| {
            let choice = size.choice?;
            let predicted = (size.bytes, choice.bus_bandwidth_gbps?);
            let pair = (collective, choice.algorithm);
            let expected = Expected::of(&job.costs.job, pair, predicted);
            Some(SizeExpectation {
                bytes: size.bytes,
                algorithm: choice.algorithm,
                protocol: choice.protocol,
                predicted_gbps: choice.bus_bandwidth_gbps,
                expected_gbps: expected.map(|it| it.bus_gbps),
                floor_gbps: expected.map(|it| it.floor_gbps()),
                like: expected.map(|it| it.run.name),
                alike: expected.is_some_and(|it| it.is_alike),
            })
        };
        let collectives = collectives.into_iter().map(|costs| CollectiveExpectations {
            collective: costs.collective,
            sizes: {
                let sizes = costs.sizes.into_iter();
                sizes.filter_map(|it| size(costs.collective, it)).collect()
            },
        });
        let collectives: Vec<_> = collectives.collect();
        let sizes = || collectives.iter().flat_map(|it| &it.sizes);
        let is_used = |name: &str| sizes().any(|it| it.like == Some(name));
        let used = RUNS.iter().filter(|run| is_used(run.name));
        let sources = used.map(|run| Published {
            name: run.name,
            source: run.source,
        });
        let start = ExpectedStart::of(&job.costs.job, job.plan.request.hosts);
        Ok(Self {
            sources: sources.collect(),
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
