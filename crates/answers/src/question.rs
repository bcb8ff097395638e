//! Questions about a planned job, and their answers, as JSON.

use std::fmt::Display;
use std::sync::Arc;

use planner::HostPlan;
use planner::explain::NodeNames;
use serde::Deserialize;
use serde_json::json;
use simulator::Fabric;

use crate::JsonSchema;
use crate::bound::{BoundQuestion, bound};
use crate::communicators::{MemoryQuestion, communicators};
use crate::cost::{CostQuestion, PricedJob};
use crate::engines::{EnginesQuestion, engines};
use crate::expect::{ExpectQuestion, ExpectReport};
use crate::forests::with_forests;
use crate::overview::overview;
use crate::path::path;
use crate::rank::RankReport;
use crate::report::Answered;
use crate::request::PlannedJob;
use crate::settings::settings as effects;
use crate::simulate::{self, SimulateQuestion};
use crate::tune::{TuneQuestion, tune};
use crate::values::Exactly;
use crate::what_if::{WhatIfQuestion, WhatIfReport};

/// A question about a planned job.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
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
    Cost(Exactly<CostQuestion>),
    /// What the job's communicators allocate, and what runs out first.
    Memory(Exactly<MemoryQuestion>),
    /// Upper bounds of all schedules, and their limits.
    Bound(BoundQuestion),
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
    Forests {
        /// Trees for each root; none: the fewest that come near the bounds.
        #[serde(default)]
        trees: Option<u64>,
    },
    /// The part of one rank.
    Rank {
        /// The rank.
        rank: u32,
    },
    /// A collective on a virtual clock.
    Simulate(SimulateQuestion),
    /// The rest of the job after each single failure of its first host.
    WhatIf(WhatIfQuestion),
    /// What a healthy machine reaches.
    Expect(ExpectQuestion),
    /// What NCCL can be told to be faster.
    Tune(TuneQuestion),
    /// Which all-reduce inference engines take: that of the job, or all.
    Engines(EnginesQuestion),
    /// The effects of the job's settings.
    Settings,
}

/// A sentence.
pub(crate) fn sentence(why: impl Display) -> String {
    why.to_string()
}

impl PlannedJob {
    /// Answers a question.
    ///
    /// # Errors
    /// The question does not fit the job; a sentence.
    pub fn ask(&self, question: &Question) -> Result<Answered, String> {
        let priced = || PricedJob::of(&self.planned, None).with_assumptions(&self.assumptions);
        let settings = self.planned.settings.as_ref();
        match question {
            Question::Overview { highlight, machine } => {
                overview(self, highlight.as_deref(), *machine)
                    .map(|it| Answered::plain(it.to_string()))
            }
            Question::Cost(Exactly(question)) => {
                Answered::of(&priced().ask(question).map_err(sentence)?)
            }
            Question::Memory(Exactly(question)) => {
                let answer = communicators(&self.job, &self.planned, question);
                Answered::of(&answer.map_err(sentence)?)
            }
            Question::Bound(question) => {
                Answered::of(&bound(&self.planned, question).map_err(sentence)?)
            }
            Question::Path { from, to, machine } => self.path([from, to], *machine),
            Question::Forests { trees } => self.with_forests(*trees),
            Question::Rank { rank } => self.rank(*rank),
            Question::Simulate(question) => {
                let job = simulate::planned(&self.planned, None, question, &Fabric::default());
                Answered::of(&job.map_err(sentence)?)
            }
            Question::WhatIf(question) => Answered::of(&self.after_failures(question)?),
            Question::Expect(question) => {
                let answer = ExpectReport::of(priced(), Some(&self.planned), question);
                Answered::of(&answer.map_err(sentence)?)
            }
            Question::Tune(question) => {
                let answer = tune(self.job.clone(), settings, question);
                Answered::of(&answer.map_err(sentence)?)
            }
            Question::Engines(question) => {
                let engine = self.engine.as_ref();
                let answer = engines(&self.job, &self.planned, engine, self.told, question);
                Answered::of(&answer.map_err(sentence)?)
            }
            Question::Settings => Answered::of(&effects(&self.job, settings).map_err(sentence)?),
        }
    }

    fn path(&self, ends: [&str; 2], machine: usize) -> Result<Answered, String> {
        let system = Arc::new(self.host(machine)?.view.system().clone());
        let names = NodeNames::new(&system);
        let settings = self.planned.settings.as_ref().clone();
        let found = path(&self.planned.name(), &system, &names, settings, ends);
        Answered::of(&found.map_err(sentence)?)
    }

    fn with_forests(&self, trees: Option<u64>) -> Result<Answered, String> {
        let plan = with_forests(&self.planned, trees).map_err(sentence)?;
        let text = plan.to_json().map_err(sentence)?;
        Ok(Answered::plain(json!({ "plan": text }).to_string()))
    }

    fn rank(&self, rank: u32) -> Result<Answered, String> {
        let plan = self.planned.plan();
        let view = plan.expansion().and_then(|it| it.rank_view(rank));
        Answered::of(&RankReport {
            view: view.map_err(sentence)?,
            slow_hosts: plan.slow_hosts(),
        })
    }

    /// The rest of the job after each failure.
    ///
    /// # Errors
    /// The question does not fit the job; a sentence.
    pub(crate) fn after_failures(&self, question: &WhatIfQuestion) -> Result<WhatIfReport, String> {
        let begun = question.begin(self.job.clone(), &self.planned.settings, true);
        let (mut answer, outcomes) = begun.map_err(sentence)?;
        for outcome in outcomes {
            answer.add(outcome.map_err(sentence)?);
        }
        Ok(answer.finish())
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
