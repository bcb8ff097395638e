//! Questions about a planned job, and their answers, as JSON.

use std::sync::Arc;

use plan::certificate::LinkSet;
use plan::cost::doubling;
use planner::HostPlan;
use planner::explain::NodeNames;
use program::Collective;
use serde::{Deserialize, Deserializer};

use crate::bound::{BoundQuestion, BoundReport, bound};
use crate::cost::{CostQuestion, CostReport, PricedJob};
use crate::names::collective;
use crate::overview::overview;
use crate::path::{PathReport, path};
use crate::report;
use crate::request::PlannedJob;

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
    },
    /// What collectives cost.
    Cost {
        /// The collectives; none: all that NCCL tunes.
        #[serde(default)]
        collectives: Vec<CollectiveName>,
        /// Sizes of the whole message, bytes; none: 1 KiB to 8 GiB, doubled.
        #[serde(default)]
        sizes: Vec<u64>,
        /// Also algorithms that NCCL does not have.
        #[serde(default)]
        alpha_beta: bool,
        /// Also bandwidth and latency of every algorithm and protocol.
        #[serde(default)]
        table: bool,
    },
    /// What no schedule exceeds, and what limits it.
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
    },
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

impl PlannedJob {
    /// Answers a question, in JSON.
    ///
    /// # Errors
    /// The question does not fit the job; a sentence.
    pub fn ask(&self, question: &Question) -> Result<String, String> {
        match question {
            Question::Overview { highlight } => {
                overview(self, highlight.as_deref()).map(|it| it.to_string())
            }
            Question::Cost {
                collectives,
                sizes,
                alpha_beta,
                table,
            } => {
                let question = CostQuestion {
                    collectives: match collectives.is_empty() {
                        true => Collective::TUNED.into_iter().rev().collect(),
                        false => collectives.iter().map(|it| it.0).collect(),
                    },
                    sizes: match sizes.is_empty() {
                        true => self::sizes(),
                        false => sizes.clone(),
                    },
                    alpha_beta: *alpha_beta,
                    ..CostQuestion::default()
                };
                let answer = PricedJob::of(&self.planned, None).ask(&question);
                let answer = answer.map_err(|why| why.to_string())?;
                shown(&CostReport::of(&answer, *table))
            }
            Question::Bound {
                links,
                collective,
                rails,
            } => {
                let question = BoundQuestion {
                    links: *links,
                    collective: collective.map(|it| it.0),
                    rails: *rails,
                };
                let answer = bound(&self.planned, &question).map_err(|why| why.to_string())?;
                shown(&BoundReport::of(&answer))
            }
            Question::Path { from, to } => {
                let system = Arc::new(self.host()?.view.system().clone());
                let names = NodeNames::new(&system);
                let settings = self.planned.settings.as_ref().clone();
                let found = path(&self.planned.name(), &system, &names, settings, [from, to]);
                let found = found.map_err(|why| why.to_string())?;
                shown(&PathReport::of(&found, &names))
            }
        }
    }

    /// The first host: one that differs is asked about alone.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self) -> Result<&HostPlan, String> {
        let machine = self.planned.machines().first();
        let host = machine.and_then(|machine| machine.nodes.first());
        host.ok_or_else(|| "the job has no host".to_owned())
    }
}

fn shown<R: report::Report>(answer: &R) -> Result<String, String> {
    report::line(answer).map_err(|why| why.to_string())
}
