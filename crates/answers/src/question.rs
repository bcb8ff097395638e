//! Questions about a planned job, and their answers, as JSON.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use plan::certificate::LinkSet;
use plan::cost::spread::MOST_CALLS;
use plan::cost::{Calls, DataType, Registration, doubling};
use planner::HostPlan;
use planner::explain::NodeNames;
use program::{Collective, Reduction};
use serde::{Deserialize, Deserializer};
use serde_json::json;
use simulator::Fabric;

use crate::bound::{BoundQuestion, bound};
use crate::communicators::{MemoryQuestion, communicators};
use crate::cost::{CostQuestion, PricedJob};
use crate::expect::{self, ExpectReport};
use crate::forests::with_forests;
use crate::names::collective;
use crate::overview::overview;
use crate::path::path;
use crate::rank::RankReport;
use crate::report::Answered;
use crate::request::PlannedJob;
use crate::settings::settings;
use crate::simulate::{self, SimulateQuestion};
use crate::tune::{self, TuneQuestion};
use crate::what_if::{WhatIfQuestion, failures_of};

/// Sizes that are priced and compared if none are named, bytes: 1 KiB to 8 GiB.
pub fn sizes() -> Vec<u64> {
    doubling(1 << 10, 8 << 30).collect()
}

/// A question about a planned job.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// The plan, how it was found, and a picture of a host.
    Overview {
        /// The channels to draw: `ring`, `tree`, `nvls`, or one as `ring:3`.
        #[serde(default)]
        highlight: Option<String>,
        /// The machine whose host is shown, by its place among the distinct ones.
        #[serde(default)]
        machine: usize,
    },
    /// The costs of collectives.
    Cost {
        /// The collectives; none: all that NCCL tunes.
        #[serde(default)]
        collectives: Vec<CollectiveName>,
        /// Sizes of the whole message, bytes; none: 1 KiB to 8 GiB, doubled.
        #[serde(default)]
        sizes: Vec<u64>,
        /// Equal calls in one group; 0: one.
        #[serde(default)]
        calls: u32,
        /// The type of the elements.
        #[serde(default, rename = "type")]
        data_type: NamedValue<DataType>,
        /// How they are reduced.
        #[serde(default, rename = "op")]
        reduction: NamedValue<Reduction>,
        /// How the buffers are registered.
        #[serde(default, rename = "window")]
        registration: NamedValue<Registration>,
        /// Also bandwidth and latency of every algorithm and protocol.
        #[serde(default)]
        table: bool,
    },
    /// What the job's communicators allocate, and what runs out first.
    Memory {
        /// The collectives that are called; none: all that NCCL tunes.
        #[serde(default)]
        collectives: Vec<CollectiveName>,
        /// Sizes of the whole message, bytes; none: 1 KiB to 8 GiB, doubled.
        #[serde(default)]
        sizes: Vec<u64>,
        /// Equal calls in one group; 0: one.
        #[serde(default)]
        calls: u32,
        /// The type of the elements.
        #[serde(default, rename = "type")]
        data_type: NamedValue<DataType>,
        /// How they are reduced.
        #[serde(default, rename = "op")]
        reduction: NamedValue<Reduction>,
        /// How the buffers are registered.
        #[serde(default, rename = "window")]
        registration: NamedValue<Registration>,
        /// All ranks of a communicator also send to each other.
        #[serde(default)]
        peers: bool,
        /// The communicators, as `SIZE` or `SIZE:STRIDE`; none: one of all ranks.
        #[serde(default)]
        groups: Vec<String>,
        /// Bytes that each GPU has for communicators; 0: unknown.
        #[serde(default)]
        gpu_memory: u64,
    },
    /// Upper bounds of all schedules, and their limits.
    Bound {
        /// The links that a schedule may use.
        #[serde(default = "rules")]
        links: LinkSet,
        /// The collective; none: all.
        #[serde(default)]
        collective: Option<CollectiveName>,
        /// Each NIC reaches only those of its rail.
        #[serde(default)]
        rails: bool,
    },
    /// Why two devices are as far apart as they are.
    Path {
        /// A device's name.
        from: String,
        /// Another device's name.
        to: String,
        /// The machine, by its place among the distinct ones.
        #[serde(default)]
        machine: usize,
    },
    /// The plan with trees that come near the bounds.
    Forests,
    /// The part of one rank.
    Rank {
        /// The rank.
        rank: u32,
    },
    /// A collective on a virtual clock.
    Simulate {
        /// The collective.
        collective: CollectiveName,
        /// The size of the whole message, bytes.
        size: u64,
    },
    /// The rest of the job after each single failure of its first host.
    WhatIf {
        /// Sizes of all-reduces, bytes; the last one decides the order.
        #[serde(default = "sizes_after_failures")]
        sizes: Vec<u64>,
    },
    /// What a healthy machine reaches.
    Expect {
        /// The collectives; none: all-reduce.
        #[serde(default)]
        collectives: Vec<CollectiveName>,
        /// Sizes of the whole message, bytes; none: 256 MiB to 8 GiB, doubled.
        #[serde(default)]
        sizes: Vec<u64>,
    },
    /// What NCCL can be told to be faster.
    Tune {
        /// The collectives whose gains are shown; none: all that NCCL tunes.
        #[serde(default)]
        collectives: Vec<CollectiveName>,
        /// Sizes of the whole message, bytes; none: 4 KiB to 8 GiB, each 8 times the last.
        #[serde(default)]
        sizes: Vec<u64>,
        /// Messages below this, bytes, may become slower.
        #[serde(default = "smallest")]
        from: u64,
    },
    /// The effects of the job's settings.
    Settings,
}

/// Sizes of all-reduces after failures if none are named, bytes.
fn sizes_after_failures() -> Vec<u64> {
    vec![64 << 10, 1 << 30]
}

const fn smallest() -> u64 {
    tune::SMALLEST
}

const fn rules() -> LinkSet {
    LinkSet::Rules
}

/// A collective by its name: `all-reduce` or `AllReduce`.
#[derive(Debug, Clone, Copy)]
pub struct CollectiveName(pub Collective);

impl<'de> Deserialize<'de> for CollectiveName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        collective(&text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// A value by its name; `None` if it is not given.
#[derive(Debug, Clone, Copy)]
pub struct NamedValue<T>(pub Option<T>);

impl<T> Default for NamedValue<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for NamedValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let value = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(Some(value)))
    }
}

/// The number of calls in a group; 0: one.
fn number_of_calls(calls: u32) -> Result<u32, String> {
    match calls {
        0 => Ok(1),
        1..=MOST_CALLS => Ok(calls),
        more => Err(format!(
            "{more} calls in a group are too many; expected at most {MOST_CALLS}"
        )),
    }
}

/// A reduction that NCCL has; none: the sum.
fn nccl_reduction(reduction: Option<Reduction>) -> Result<Reduction, String> {
    let reduction = reduction.unwrap_or(Calls::ONE.reduction);
    match Reduction::OF_NCCL.contains(&reduction) {
        true => Ok(reduction),
        false => {
            let names = Reduction::OF_NCCL.map(Reduction::name).join(" ");
            Err(format!(
                "NCCL has no operation {reduction}; expected one of {names}"
            ))
        }
    }
}

/// What is called, of what the question names.
fn calls_of(
    number: u32,
    data_type: NamedValue<DataType>,
    reduction: NamedValue<Reduction>,
    registration: NamedValue<Registration>,
) -> Result<Calls, String> {
    Ok(Calls {
        number: number_of_calls(number)?,
        data_type: data_type.0.unwrap_or(Calls::ONE.data_type),
        reduction: nccl_reduction(reduction.0)?,
        registration: registration.0.unwrap_or(Calls::ONE.registration),
    })
}

/// The collectives; all that NCCL tunes if there are none.
fn tuned_if_none(collectives: &[CollectiveName]) -> Vec<Collective> {
    match collectives.is_empty() {
        true => Collective::TUNED.into_iter().rev().collect(),
        false => collectives.iter().map(|it| it.0).collect(),
    }
}

/// The sizes, bytes; the usual ones if there are none.
fn usual_if_none(wanted: &[u64]) -> Vec<u64> {
    match wanted.is_empty() {
        true => sizes(),
        false => wanted.to_vec(),
    }
}

impl PlannedJob {
    /// Answers a question.
    ///
    /// # Errors
    /// The question does not fit the job; a sentence.
    pub fn ask(&self, question: &Question) -> Result<Answered, String> {
        match question {
            Question::Overview { highlight, machine } => {
                overview(self, highlight.as_deref(), *machine)
                    .map(|it| Answered::plain(it.to_string()))
            }
            Question::Cost {
                collectives,
                sizes,
                calls,
                data_type,
                reduction,
                registration,
                table,
            } => {
                let question = CostQuestion {
                    collectives: tuned_if_none(collectives),
                    sizes: usual_if_none(sizes),
                    calls: calls_of(*calls, *data_type, *reduction, *registration)?,
                    table: *table,
                    ..CostQuestion::default()
                };
                let answer = PricedJob::of(&self.planned, None).ask(&question);
                let answer = answer.map_err(|why| why.to_string())?;
                Answered::of(&answer)
            }
            Question::Memory {
                collectives,
                sizes,
                calls,
                data_type,
                reduction,
                registration,
                peers,
                groups,
                gpu_memory,
            } => {
                let groups = groups.iter().map(|text| text.parse());
                self.memory(&MemoryQuestion {
                    calls: CostQuestion {
                        collectives: tuned_if_none(collectives),
                        sizes: usual_if_none(sizes),
                        calls: calls_of(*calls, *data_type, *reduction, *registration)?,
                        ..CostQuestion::default()
                    },
                    peers: *peers,
                    groups: groups.collect::<Result<_, String>>()?,
                    room: *gpu_memory,
                })
            }
            Question::Bound {
                links,
                collective,
                rails,
            } => self.bounded(BoundQuestion {
                links: *links,
                collective: collective.map(|it| it.0),
                rails: *rails,
                ..BoundQuestion::default()
            }),
            Question::Path { from, to, machine } => self.path([from, to], *machine),
            Question::Forests => self.with_forests(),
            Question::Rank { rank } => self.rank(*rank),
            Question::Simulate { collective, size } => {
                let question = SimulateQuestion::of(collective.0, *size);
                let fabric = Fabric::default();
                let job = simulate::planned(&self.planned, None, &question, &fabric);
                Answered::of(&job.map_err(|why| why.to_string())?)
            }
            Question::WhatIf { sizes } => self.after_failures(sizes),
            Question::Expect { collectives, sizes } => self.expectations(collectives, sizes),
            Question::Tune {
                collectives,
                sizes,
                from,
            } => self.tuned(collectives, sizes, *from),
            Question::Settings => {
                let answer = settings(&self.job, &self.planned.settings);
                Answered::of(&answer.map_err(|why| why.to_string())?)
            }
        }
    }

    fn bounded(&self, question: BoundQuestion) -> Result<Answered, String> {
        let answer = bound(&self.planned, &question).map_err(|why| why.to_string())?;
        Answered::of(&answer)
    }

    fn expectations(
        &self,
        collectives: &[CollectiveName],
        sizes: &[u64],
    ) -> Result<Answered, String> {
        let question = CostQuestion {
            collectives: match collectives {
                [] => vec![Collective::AllReduce],
                some => some.iter().map(|it| it.0).collect(),
            },
            sizes: match sizes {
                [] => expect::SIZES.to_vec(),
                some => some.to_vec(),
            },
            ..CostQuestion::default()
        };
        let job = PricedJob::of(&self.planned, None);
        let answer = ExpectReport::of(job, Some(&self.planned), &question);
        Answered::of(&answer.map_err(|why| why.to_string())?)
    }

    fn tuned(
        &self,
        collectives: &[CollectiveName],
        sizes: &[u64],
        from: u64,
    ) -> Result<Answered, String> {
        let answer = tune::tune(TuneQuestion {
            job: self.job.clone(),
            settings: self.planned.settings.as_ref().clone(),
            collectives: tuned_if_none(collectives),
            sizes: match sizes {
                [] => tune::SIZES.to_vec(),
                some => some.to_vec(),
            },
            from,
        });
        let answer = answer.map_err(|why| why.to_string())?;
        Answered::of(&answer)
    }

    fn memory(&self, question: &MemoryQuestion) -> Result<Answered, String> {
        let answer = communicators(&self.job, &self.planned, question);
        Answered::of(&answer.map_err(|why| why.to_string())?)
    }

    fn path(&self, ends: [&str; 2], machine: usize) -> Result<Answered, String> {
        let system = Arc::new(self.host(machine)?.view.system().clone());
        let names = NodeNames::new(&system);
        let settings = self.planned.settings.as_ref().clone();
        let found = path(&self.planned.name(), &system, &names, settings, ends);
        Answered::of(&found.map_err(|why| why.to_string())?)
    }

    fn with_forests(&self) -> Result<Answered, String> {
        let plan = with_forests(&self.planned, None).map_err(|why| why.to_string())?;
        let text = plan.to_json().map_err(|why| why.to_string())?;
        Ok(Answered::plain(json!({ "plan": text }).to_string()))
    }

    fn rank(&self, rank: u32) -> Result<Answered, String> {
        let plan = self.planned.plan();
        let view = plan.expansion().and_then(|it| it.rank_view(rank));
        Answered::of(&RankReport {
            view: view.map_err(|why| why.to_string())?,
            slow_hosts: plan.slow_hosts(),
        })
    }

    fn after_failures(&self, sizes: &[u64]) -> Result<Answered, String> {
        let question = WhatIfQuestion {
            failures: failures_of(&self.job, &[]),
            job: self.job.clone(),
            settings: self.planned.settings.as_ref().clone(),
            sizes: sizes.to_vec(),
            differences: true,
        };
        let (mut answer, outcomes) = question.begin().map_err(|why| why.to_string())?;
        for outcome in outcomes {
            answer.add(outcome.map_err(|why| why.to_string())?);
        }
        Answered::of(&answer.finish(None))
    }

    /// The first host that is like a machine, by its place among the distinct ones.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, machine: usize) -> Result<&HostPlan, String> {
        let machines = self.planned.machines();
        let host = machines.get(machine).and_then(|it| it.nodes.first());
        host.ok_or_else(|| {
            let count = machines.len();
            format!("there is no machine {machine}; the job has {count}, counted from 0")
        })
    }
}
