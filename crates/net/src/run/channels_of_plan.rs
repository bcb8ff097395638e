//! The channels and the fingerprint of a plan.

use std::path::Path;
use std::sync::Arc;

use crate::Hosts;
pub use plan::Setting;
use plan::{Algorithm, Connection, Plan, PlannedForest};
use program::{Channels, ChannelsError, Collective, Tree};
use sha2::{Digest, Sha256};

use crate::run::ports::PlanPorts;

/// A plan as its ranks run it.
#[derive(Debug, Clone)]
pub struct RunChannels {
    /// Its ranks.
    pub ranks: u32,
    /// By channel: the ranks in ring order. Channels that do not join all ranks are left out.
    pub rings: Vec<Vec<u32>>,
    /// By channel, then by rank: the parent in the tree.
    pub trees: Vec<Vec<Option<u32>>>,
    /// By rank: its host.
    pub hosts: Vec<u32>,
    /// The forests of collectives.
    pub forests: Vec<PlannedForest>,
    /// How the ranks of the first ring reach the next one, in NCCL's words, and how often; most
    /// frequent first.
    pub transports: Vec<(&'static str, usize)>,
    /// The NICs and proxies of connections between hosts.
    pub ports: Arc<PlanPorts>,
    /// By collective: bytes from which the plan takes NVLS.
    pub nvls_from: Vec<(Collective, u64)>,
    /// NCCL's settings with which the plan was made, in the order given.
    pub settings: Vec<Setting>,
    /// The common hash of all ranks, without names ([`fingerprint`]).
    pub fingerprint: String,
}

/// Why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// The file cannot be read.
    #[error("cannot read the plan {file}: {why}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        why: files::ReadError,
    },
    /// It is no plan, or contradicts itself.
    #[error("{name}: {why}")]
    Plan {
        /// The plan's name or file.
        name: String,
        /// Why.
        why: plan::Error,
    },
    /// It has too many ranks.
    #[error("{name} has {ranks} ranks; expected at most {}", Channels::MOST_RANKS)]
    Ranks {
        /// The plan's name or file.
        name: String,
        /// Its ranks.
        ranks: u64,
    },
    /// It is a plan of other machines.
    #[error(
        "the plan is for other machines: it has the ranks {first} and {rank} on one host, but rank {first} is {there} and \
         rank {rank} is {here}; start the ranks in the plan's order, or plan these hosts"
    )]
    OtherHosts {
        /// A rank.
        first: usize,
        /// Another one of its host by the plan.
        rank: usize,
        /// Where the first is.
        there: String,
        /// Where the other is.
        here: String,
    },
    /// A part of it has no JSON.
    #[error("{name}: {why}")]
    Json {
        /// The plan's name or file.
        name: String,
        /// Why.
        why: String,
    },
}

impl RunChannels {
    /// Reads a plan that `topo plan -o` wrote.
    ///
    /// # Errors
    /// The file cannot be read, or holds no plan that can be run.
    pub fn read(file: &Path) -> Result<Self, RunnerError> {
        let name = file.display().to_string();
        let text =
            files::read_text(file, Plan::MAX_BYTES as u64).map_err(|why| RunnerError::Read {
                file: name.clone(),
                why,
            })?;
        Self::from_json(&name, &text)
    }

    /// A plan from its text.
    ///
    /// # Errors
    /// It holds no plan that can be run.
    pub fn from_json(name: &str, text: &str) -> Result<Self, RunnerError> {
        let plan = Plan::from_json(text).map_err(|why| RunnerError::Plan {
            name: name.to_owned(),
            why,
        })?;
        Self::of(name, &plan, None)
    }

    /// The parts of a plan for its ranks. `collective`: the only one that they run.
    ///
    /// # Errors
    /// The plan holds machines only, or has too many ranks.
    pub fn of(
        name: &str,
        plan: &Plan,
        collective: Option<Collective>,
    ) -> Result<Self, RunnerError> {
        let wrong = |why| RunnerError::Plan {
            name: name.to_owned(),
            why,
        };
        let expansion = plan.expansion().map_err(wrong)?;
        let all = plan.rank_count();
        let fits = u32::try_from(all).ok();
        let Some(ranks) = fits.filter(|ranks| *ranks <= Channels::MOST_RANKS) else {
            let name = name.to_owned();
            return Err(RunnerError::Ranks { name, ranks: all });
        };
        let (mut rings, mut trees, mut channels) = (Vec::new(), Vec::new(), Vec::new());
        for channel in 0..expansion.channels() {
            let ring: Vec<u32> = expansion.ring(channel).collect();
            if ring.len() == ranks as usize {
                let parent = |rank| expansion.tree_place(rank, channel)?.up;
                rings.push(ring);
                trees.push((0..ranks).map(parent).collect());
                channels.push(channel);
            }
        }
        let hosts = (0..ranks).map(|rank| Ok(expansion.place(rank)?.host));
        let hosts: Result<Vec<u32>, plan::Error> = hosts.collect();
        let mut transports: Vec<(&'static str, usize)> = Vec::new();
        if let Some(ring) = rings.first() {
            let next = ring.iter().cycle().skip(1);
            for (from, to) in ring.iter().zip(next).filter(|(from, to)| from != to) {
                let connection = expansion.p2p_connection(*from, *to, 0).map_err(wrong)?;
                let name = match connection {
                    Connection::Direct { .. } => "P2P",
                    Connection::SharedMemory { .. } => "SHM",
                    Connection::Network { .. } => "NET",
                };
                match transports.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, count)) => *count += 1,
                    None => transports.push((name, 1)),
                }
            }
        }
        transports.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let nvls_from = nvls_from(plan, collective);
        let fingerprint = fingerprint(plan, &nvls_from).map_err(|why| RunnerError::Json {
            name: name.to_owned(),
            why: why.to_string(),
        })?;
        Ok(Self {
            ranks,
            rings,
            trees,
            hosts: hosts.map_err(wrong)?,
            forests: expansion.forests().to_vec(),
            transports,
            ports: Arc::new(PlanPorts::new(plan, expansion.clone(), channels)),
            nvls_from,
            settings: plan.settings.clone(),
            fingerprint,
        })
    }

    /// The channels of a communicator; `None` if no ring joins all ranks.
    ///
    /// # Errors
    /// A forest does not join all ranks.
    pub fn channels(&self) -> Result<Option<Channels>, ChannelsError> {
        if self.rings.is_empty() {
            return Ok(None);
        }
        let trees = self.trees.iter().cloned();
        let trees = trees.map(|parents| Tree { parents }).collect();
        let channels = Channels::new(self.ranks, self.rings.clone(), trees)?;
        let channels = self.forests.iter().try_fold(channels, |channels, forest| {
            channels.with_forest(forest.program_forest(self.ranks)?)
        });
        channels.map(Some)
    }
}

/// Refuses a plan that puts ranks on one host which are on several. `planned`: by rank its host.
///
/// # Errors
/// [`RunnerError::OtherHosts`].
pub fn check_hosts(planned: &[u32], hosts: &Hosts) -> Result<(), RunnerError> {
    let infos = hosts.infos();
    for (rank, host) in planned.iter().enumerate().take(infos.len()) {
        let first = planned.iter().position(|it| it == host).unwrap_or(rank);
        if infos[first].host != infos[rank].host {
            return Err(RunnerError::OtherHosts {
                first,
                rank,
                there: infos[first].place(),
                here: infos[rank].place(),
            });
        }
    }
    Ok(())
}

/// The value of one of NCCL's variables in settings: the last one given.
pub fn setting(settings: &[Setting], name: &str) -> Option<String> {
    let found = settings.iter().rfind(|it| it.name == name);
    found.map(|it| it.value.clone())
}

/// By collective, of all or of one: the least power of two of bytes from which a plan takes NVLS
/// for all messages.
pub fn nvls_from(plan: &Plan, only: Option<Collective>) -> Vec<(Collective, u64)> {
    let Some(costs) = &plan.costs else {
        return Vec::new();
    };
    let from = |collective| {
        let sizes = (10..=32).rev().map(|power| 1_u64 << power);
        let by_switch = sizes.take_while(|bytes| {
            let choice = costs.choose(collective, *bytes);
            choice.is_ok_and(|choice| choice.algorithm == Algorithm::Nvls)
        });
        Some((collective, by_switch.last()?))
    };
    let all = Collective::ALL.into_iter();
    all.filter(|it| only.is_none_or(|only| only == *it))
        .filter_map(from)
        .collect()
}

/// Hash of the parts of a plan that all ranks must share; names may differ. `nvls_from`: bytes from
/// which ranks take NVLS.
///
/// # Errors
/// A part has no JSON.
pub fn fingerprint(plan: &Plan, nvls_from: &[(Collective, u64)]) -> serde_json::Result<String> {
    let mut hash = Sha256::new();
    for machine in &plan.machines {
        hash.update(serde_json::to_vec(&machine.groups)?);
        hash.update(serde_json::to_vec(&machine.nics)?);
    }
    hash.update(serde_json::to_vec(&plan.common)?);
    if let Some(forests) = &plan.forests {
        hash.update(serde_json::to_vec(forests)?);
    }
    for (collective, from) in nvls_from {
        hash.update(collective.command_name());
        hash.update(from.to_le_bytes());
    }
    let hash = hash.finalize();
    Ok(hash.iter().map(|byte| format!("{byte:02x}")).collect())
}
