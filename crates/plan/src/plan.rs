//! The plan: what was planned, for which machines, by whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::Common;
use crate::cost::CostTable;
use crate::error::Error;
use crate::expand::{Expansion, RankView};
use crate::fingerprint::Digest;
use crate::json;
use crate::layout::HostRun;
use crate::machine::Machine;
use crate::order::RankOrder;
use crate::validate;

/// What the planner decided for a communicator.
///
/// What holds for many ranks is stored once: [`Plan::expand`] gives any one rank's part of it.
///
/// A section that not every plan has is a further field of type `Option` that is neither written nor hashed while it is
/// `None`, so that plans without it keep their bytes:
/// `#[serde(default, skip_serializing_if = "Option::is_none")]`. A change that old readers would misread raises
/// [`Plan::VERSION`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What made the plan.
    pub producer: Producer,
    /// Whose decisions the plan follows, such as `nccl-2.30`.
    pub profile: String,
    /// What the plan was made for: machines, settings and request ([`Fingerprint`](crate::Fingerprint)).
    pub fingerprint: Digest,
    /// The job that was asked for.
    pub request: RequestSummary,
    /// NCCL's settings that were given, in the order given.
    pub settings: Vec<Setting>,
    /// The machines of the job, in rank order unless there is another.
    pub hosts: Vec<HostRun>,
    /// Which rank runs on which GPU, where ranks do not simply count host after host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_order: Option<RankOrder>,
    /// What all ranks have in common once the hosts are joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<Common>,
    /// What collectives cost, and so which algorithm and protocol is chosen for a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostTable>,
    /// The different machines, with the channels that were found for each.
    pub machines: Vec<Machine>,
}

/// What made a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Producer {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The job that was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestSummary {
    /// Hosts in the job.
    pub hosts: u32,
    /// All hosts form one NVLink domain.
    pub nvlink_domain: bool,
    /// There is a network that reduces (SHARP).
    pub collnet: bool,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The variable, such as `NCCL_CROSS_NIC`.
    pub name: String,
    /// Its value, as given.
    pub value: String,
}

impl Plan {
    /// The value of `format` by which a plan file is known.
    pub const FORMAT: &'static str = "topo-plan";
    /// The version of the format that is written and read.
    pub const VERSION: u32 = 1;
    /// The largest file that is read, in bytes.
    pub const MAX_BYTES: usize = 256 << 20;

    /// A plan without machines.
    pub fn new(
        producer: Producer,
        profile: &str,
        fingerprint: Digest,
        request: RequestSummary,
    ) -> Self {
        Self {
            producer,
            profile: profile.to_owned(),
            fingerprint,
            request,
            settings: Vec::new(),
            hosts: Vec::new(),
            rank_order: None,
            common: None,
            costs: None,
            machines: Vec::new(),
        }
    }

    /// Writes the plan as JSON. Equal plans give equal bytes.
    ///
    /// # Errors
    /// The plan contradicts itself ([`Plan::validate`]).
    pub fn to_json(&self) -> Result<String, Error> {
        self.validate()?;
        json::write(self)
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The text is no plan, or a truncated, changed or contradictory one, or of a version that this crate does not know;
    /// the error says which.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        let plan = json::read(text)?;
        plan.validate()?;
        Ok(plan)
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

    /// Who talks to whom, and how: what any one rank does.
    ///
    /// # Errors
    /// The plan contradicts itself, or holds machines only and not how their hosts are joined.
    pub fn expand(&self) -> Result<Expansion, Error> {
        self.validate()?;
        Expansion::of(self)
    }

    /// All that one rank does. Whoever asks for several ranks keeps the [`Expansion`].
    ///
    /// # Errors
    /// As [`Plan::expand`]; or the job has no such rank.
    pub fn rank_view(&self, rank: u32) -> Result<RankView, Error> {
        self.expand()?.rank_view(rank)
    }

    /// SHA-256 of the plan's content. Equal plans have equal digests, so ranks can compare them.
    ///
    /// # Errors
    /// The plan cannot be written.
    pub fn digest(&self) -> Result<Digest, Error> {
        Ok(Digest::of(json::content(self)?.as_bytes()))
    }

    /// Checks that all parts of the plan fit together: every machine, rank and port that is named exists, ranks are
    /// numbered without gaps, paths follow their channels, and all numbers are finite.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn validate(&self) -> Result<(), Error> {
        validate::plan(self)
    }
}
