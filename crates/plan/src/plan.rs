//! The plan.

use std::ops::Deref;
use std::sync::Arc;

use crate::assumption::DecidingAssumption;
use crate::content::PlanContent;
use crate::error::Error;
use crate::expand::Expansion;
use crate::forest::PlannedForest;
use crate::measured::PlannedLinks;
use crate::validate::check;

/// A plan whose parts fit together, and what it expands to. It does not change; copies share it.
///
/// Every machine, rank and port that is named exists, ranks are numbered without gaps, paths follow
/// their channels, and all numbers are finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    content: Arc<PlanContent>,
    expansion: Option<Arc<Expansion>>,
}

impl Plan {
    /// The value of `format` in a plan file.
    pub const FORMAT: &'static str = "topo-plan";
    /// The version of the format that is written and read.
    pub const VERSION: u32 = crate::format::VERSION;
    /// The largest file that is read, bytes.
    pub const MAX_BYTES: usize = 256 << 20;

    /// Checks and expands a plan.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn new(content: PlanContent) -> Result<Self, Error> {
        Ok(Self {
            expansion: check(&content, None)?,
            content: Arc::new(content),
        })
    }

    /// Checks a plan that was made together with its expansion, which is made again if it is of
    /// another job.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn with_expansion(content: PlanContent, expansion: Arc<Expansion>) -> Result<Self, Error> {
        Ok(Self {
            expansion: check(&content, Some(expansion))?,
            content: Arc::new(content),
        })
    }

    /// The plan with these forests instead of its own.
    ///
    /// # Errors
    /// A forest does not join all ranks, or a collective has two.
    pub fn with_forests(&self, forests: Vec<PlannedForest>) -> Result<Self, Error> {
        Self::new(PlanContent {
            forests: Some(forests),
            ..(*self.content).clone()
        })
    }

    /// The plan with the measured links on which it was made.
    ///
    /// # Errors
    /// A bandwidth is no number or negative.
    pub fn with_measured(&self, links: PlannedLinks) -> Result<Self, Error> {
        self.with(PlanContent {
            measured: Some(links),
            ..(*self.content).clone()
        })
    }

    /// The plan with the assumptions that decide it.
    ///
    /// # Errors
    /// A bandwidth is no number or negative.
    pub fn with_assumptions(&self, assumptions: Vec<DecidingAssumption>) -> Result<Self, Error> {
        self.with(PlanContent {
            assumptions,
            ..(*self.content).clone()
        })
    }

    /// The plan with other facts beside its decisions.
    fn with(&self, content: PlanContent) -> Result<Self, Error> {
        match &self.expansion {
            Some(expansion) => Self::with_expansion(content, Arc::clone(expansion)),
            None => Self::new(content),
        }
    }

    /// The part of any rank.
    ///
    /// # Errors
    /// The plan holds machines only and not how their hosts are joined.
    pub fn expansion(&self) -> Result<&Expansion, Error> {
        self.expansion.as_deref().ok_or(Error::NotJoined)
    }

    /// How many ranks the job has.
    pub fn rank_count(&self) -> u64 {
        let ranks = self.hosts.iter().map(|run| {
            let machine = self.machines.get(run.machine as usize);
            let gpus = machine.map_or(0, |machine| machine.gpus.len());
            (gpus as u64).saturating_mul(u64::from(run.count))
        });
        ranks.fold(0, u64::saturating_add)
    }
}

impl Deref for Plan {
    type Target = PlanContent;

    fn deref(&self) -> &PlanContent {
        &self.content
    }
}
