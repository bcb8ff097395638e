//! Expectations as JSON.

use crate::JsonSchema;
use plan::{Algorithm, Setting};
use program::{Collective, Protocol};
use serde::Serialize;

use super::{Expectations, Pairs, SizeExpectation};
use crate::report::Report;

/// Bandwidths that a healthy machine reaches.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExpectReport {
    /// Names of the machines.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// Ranks of the job.
    ranks: u64,
    /// The version as which it is planned, as the name of its cost profile.
    profile: String,
    /// NCCL's settings that were given and can change a decision.
    settings: Vec<Setting>,
    /// The collectives.
    collectives: Vec<CollectiveJson>,
    /// The published runs from which they come.
    sources: Vec<SourceJson>,
    /// The bandwidths between GPUs of the first machine; null of a plan, and of very many GPUs.
    pairs: Option<PairsJson>,
    /// The time that communicators need to start; null if no start of such a job is published.
    start: Option<StartJson>,
}

/// The time that communicators need to start.
#[derive(Debug, Serialize, JsonSchema)]
struct StartJson {
    /// The least and the most of the published starts, seconds.
    seconds: [f64; 2],
    /// The same for further communicators of a process, which load no kernels, seconds.
    further_seconds: [f64; 2],
    /// The starts.
    like: Vec<SourceJson>,
}

/// One collective.
#[derive(Debug, Serialize, JsonSchema)]
struct CollectiveJson {
    /// The collective.
    collective: Collective,
    /// Its sizes.
    sizes: Vec<SizeJson>,
}

/// One size.
#[derive(Debug, Serialize, JsonSchema)]
struct SizeJson {
    /// Size of the whole message, bytes.
    bytes: u64,
    /// The algorithm.
    algorithm: Algorithm,
    /// The protocol.
    protocol: Protocol,
    /// Bus bandwidth that NCCL's model predicts, GB/s.
    predicted_gbps: Option<f64>,
    /// Bus bandwidth of a healthy machine, GB/s; null below the sizes of published runs.
    expected_gbps: Option<f64>,
    /// The least bus bandwidth of a healthy machine, GB/s.
    floor_gbps: Option<f64>,
    /// The published run that is most like the job.
    like: Option<&'static str>,
    /// The run has GPUs of the same generation, joined alike, and the size.
    alike: bool,
}

/// A published run or start.
#[derive(Debug, Serialize, JsonSchema)]
struct SourceJson {
    /// Its machine.
    name: &'static str,
    /// Where it is published.
    source: &'static str,
}

/// Bandwidths between GPUs.
#[derive(Debug, Serialize, JsonSchema)]
struct PairsJson {
    /// Names of the GPUs.
    gpus: Vec<String>,
    /// From each GPU to each one, GB/s in one direction, as NCCL counts on them; null to itself.
    gbps: Vec<Vec<Option<f32>>>,
    /// The types of the paths.
    types: Vec<Vec<Option<&'static str>>>,
}

impl Report for ExpectReport {
    const FORMAT: &'static str = "topo-expect";
    const VERSION: u32 = 1;
}

impl ExpectReport {
    /// The report.
    pub fn of(answer: &Expectations) -> Self {
        let job = &answer.job;
        let collectives = answer.collectives.iter().map(|it| CollectiveJson {
            collective: it.collective,
            sizes: it.sizes.iter().map(SizeJson::of).collect(),
        });
        let sources = answer.sources().into_iter();
        Self {
            name: job.name.clone(),
            hosts: job.plan.request.hosts,
            ranks: job.plan.rank_count(),
            profile: job.plan.profile.clone(),
            settings: job.plan.settings.clone(),
            collectives: collectives.collect(),
            sources: sources
                .map(|(name, source)| SourceJson { name, source })
                .collect(),
            pairs: answer.pairs.as_ref().map(PairsJson::of),
            start: answer.start.as_ref().map(|start| StartJson {
                seconds: start.seconds,
                further_seconds: start.further,
                like: start
                    .like
                    .iter()
                    .map(|it| SourceJson {
                        name: it.name,
                        source: it.source,
                    })
                    .collect(),
            }),
        }
    }
}

impl SizeJson {
    fn of(size: &SizeExpectation) -> Self {
        let expected = size.expected;
        Self {
            bytes: size.bytes,
            algorithm: size.choice.algorithm,
            protocol: size.choice.protocol,
            predicted_gbps: size.choice.bus_bandwidth,
            expected_gbps: expected.map(|it| it.bus_gbps),
            floor_gbps: expected.map(|it| it.floor_gbps()),
            like: expected.map(|it| it.run.name),
            alike: expected.is_some_and(|it| it.is_alike),
        }
    }
}

impl PairsJson {
    fn of(pairs: &Pairs) -> Self {
        fn others<T: Copy>(
            pairs: &Pairs,
            value: impl Fn(&(&'static str, f32)) -> T,
        ) -> Vec<Vec<Option<T>>> {
            let row = |(from, row): (usize, &Vec<(&'static str, f32)>)| {
                let to = row.iter().enumerate();
                to.map(|(to, path)| (to != from).then(|| value(path)))
                    .collect()
            };
            pairs.paths.iter().enumerate().map(row).collect()
        }
        Self {
            gpus: pairs.gpus.clone(),
            gbps: others(pairs, |path| path.1),
            types: others(pairs, |path| path.0),
        }
    }
}
