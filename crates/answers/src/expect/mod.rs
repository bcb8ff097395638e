//! Bandwidths that a healthy machine reaches, for its acceptance: of collectives as nccl-tests
//! measures them, and of pairs of GPUs.
//!
//! In reading order: this file, [`files`], [`json`].

pub mod files;
pub mod json;

use plan::cost::OperationChoice;
use planner::Planned;
use planner::explain::NodeNames;
use program::Collective;
use records::results::published::{Expected, RUNS};
use records::results::starts::ExpectedStart;
use topology::NodeId;

use crate::cost::{CostAnswer, CostError, CostQuestion, PricedJob};
pub use json::ExpectReport;

/// Sizes that are expected if none are named, bytes: those of acceptance tests, 256 MiB to 8 GiB.
pub const SIZES: [u64; 6] = [256 << 20, 512 << 20, 1 << 30, 2 << 30, 4 << 30, 8 << 30];

/// Most GPUs whose pairs are listed.
const MOST_GPUS: usize = 256;

/// The expectations of a job.
#[derive(Debug)]
pub struct Expectations {
    /// The job with its costs.
    pub job: PricedJob,
    /// The collectives.
    pub collectives: Vec<CollectiveExpectations>,
    /// The pairs of GPUs of the first machine; `None` of a plan, and of more than 256 GPUs.
    pub pairs: Option<Pairs>,
    /// The time that communicators need to start; `None` if no start of such a job is published.
    pub start: Option<ExpectedStart>,
}

/// The expectations of a collective.
#[derive(Debug)]
pub struct CollectiveExpectations {
    /// The collective.
    pub collective: Collective,
    /// Its sizes.
    pub sizes: Vec<SizeExpectation>,
}

/// The expectation of one size.
#[derive(Debug)]
pub struct SizeExpectation {
    /// NCCL's choice, with the bus bandwidth that its model predicts.
    pub choice: OperationChoice,
    /// Size of the whole message, bytes.
    pub bytes: u64,
    /// What a healthy machine reaches; `None` below the sizes of published runs.
    pub expected: Option<Expected>,
}

/// The bandwidths between GPUs on which NCCL counts.
#[derive(Debug)]
pub struct Pairs {
    /// Names of the GPUs.
    pub gpus: Vec<String>,
    /// From each GPU to each other one: the type of the path, and GB/s in one direction.
    pub paths: Vec<Vec<(&'static str, f32)>>,
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

impl Expectations {
    /// The expectations of a job.
    ///
    /// # Errors
    /// NCCL does not tune a collective.
    pub fn of(
        job: PricedJob,
        planned: Option<&Planned>,
        question: &CostQuestion,
    ) -> Result<Self, ExpectError> {
        let of_transfers = |it: &&Collective| !Collective::TUNED.contains(it);
        if let Some(transfers) = question.collectives.iter().find(of_transfers) {
            return Err(ExpectError::Transfers(*transfers));
        }
        let CostAnswer { job, sweeps, .. } = job.ask(question)?;
        let collectives = sweeps.into_iter().map(|sweep| CollectiveExpectations {
            collective: sweep.collective,
            sizes: sweep
                .sizes
                .into_iter()
                .filter_map(|size| {
                    let choice = size.choice.ok()?;
                    let predicted = (size.bytes, choice.bus_bandwidth?);
                    Some(SizeExpectation {
                        expected: Expected::of(
                            &job.costs.job,
                            (sweep.collective, choice.algorithm),
                            predicted,
                        ),
                        bytes: size.bytes,
                        choice,
                    })
                })
                .collect(),
        });
        Ok(Self {
            collectives: collectives.collect(),
            pairs: planned.and_then(Pairs::of),
            start: ExpectedStart::of(&job.costs.job, job.plan.request.hosts),
            job,
        })
    }

    /// Sources of the runs from which the expectations come, in the order of [`RUNS`].
    pub fn sources(&self) -> Vec<(&'static str, &'static str)> {
        let sizes = || self.collectives.iter().flat_map(|it| &it.sizes);
        let is_used = |name| {
            let mut all = sizes().filter_map(|it| it.expected);
            all.any(|it| it.run.name == name)
        };
        let used = RUNS.iter().filter(|run| is_used(run.name));
        used.map(|run| (run.name, run.source)).collect()
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
            let to = gpus.iter();
            to.map(|(_, to)| (table.kind(from, *to).name(), table.bw(from, *to)))
                .collect()
        };
        Some(Self {
            paths: gpus.iter().map(|(_, from)| row(*from)).collect(),
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
        for (from, row) in self.paths.iter().enumerate() {
            for (to, (kind, gbps)) in row.iter().enumerate() {
                if from == to {
                    continue;
                }
                let known = kinds.iter_mut().find(|it| it.0 == *kind && it.1 == *gbps);
                match known {
                    Some((.., count)) => *count += 1,
                    None => kinds.push((kind, *gbps, 1)),
                }
            }
        }
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        kinds
    }
}
