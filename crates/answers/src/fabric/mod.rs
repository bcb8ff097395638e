//! Switches and cables between hosts, and the rank order that suits them.

mod page;

use plan::Plan;
use program::Collective;
use serde::Serialize;
use simulator::fabric::cables::tree_links;
use simulator::fabric::{Cables, Leaf, SwitchError, SwitchTree, host_list};
use simulator::{Fabric, FabricError};

use crate::JsonSchema;
use crate::report::Report;
use crate::simulate::{self, SimulateError, SimulateQuestion};

/// A file with switches or cables, and the hosts of a job.
#[derive(Debug, Clone, Default)]
pub struct FabricQuestion {
    /// The file's name.
    pub file: String,
    /// Slurm's topology.conf, or a fabric file (TOML).
    pub text: String,
    /// The hosts in rank order, as Slurm lists them; none: all of the file.
    pub nodes: Option<String>,
    /// Hosts of the job, for a fabric file; none: those that its lists name.
    pub hosts: Option<u32>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FabricAnswerError {
    /// The fabric file is wrong, or not simulated.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// The switches' file is wrong.
    #[error(transparent)]
    Switches(#[from] SwitchError),
    /// The list of hosts is wrong.
    #[error("{0}")]
    HostList(String),
    /// A host has no switch.
    #[error("no switch has {0}; expected Nodes= with it")]
    NoSwitch(String),
    /// Nothing says how many hosts there are.
    #[error("the fabric file does not say how many hosts there are; expected their number")]
    UnknownHosts,
    /// The file or the list has other hosts.
    #[error("the file or the list has other hosts than the {0} of the job; expected as many")]
    OtherHosts(u32),
    /// The file has neither switches nor cables.
    #[error("the fabric file has neither [leaf] switches nor [[cable]]s; expected one of them")]
    Nothing,
    /// The oversubscription.
    #[error("an oversubscription of {0}; expected a number from 0.001 to 1000")]
    Oversubscription(f64),
    /// The collective cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

/// Oversubscription that is assumed where nobody says it.
const USUAL_OVERSUBSCRIPTION: f64 = 2.0;

/// The knowledge of a network.
#[derive(Debug)]
enum Network {
    /// Switches by name, with the switch of each host.
    Tree(SwitchTree, Vec<usize>),
    /// Leaf switches by number.
    Leaves(Leaf),
    /// Cables without a switch.
    Cables(Cables),
}

/// Switches and cables between hosts, and the rank order that suits them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FabricReport {
    /// The file.
    pub file: String,
    /// The hosts in the order that was given.
    pub hosts: Vec<String>,
    /// Hosts are connected by cables without a switch.
    pub switchless: bool,
    /// Two hosts that no switch connects.
    pub apart: Option<(String, String)>,
    /// The order that was given.
    pub given: HostOrder,
    /// The best order; null if no ring of cables connects all hosts.
    pub best: Option<HostOrder>,
    /// The simulated job.
    pub simulated: Option<String>,
    /// The knowledge of the network.
    #[serde(skip)]
    network: Network,
    /// Notes on the simulation.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// An order of hosts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostOrder {
    /// The hosts in the order of their ranks.
    pub hosts: Vec<String>,
    /// Switches above their own that all ring links together pass; without switches, ring links
    /// without a cable.
    pub ring: usize,
    /// The same of the links of both trees.
    pub trees: usize,
    /// The simulated time, µs.
    pub time_us: Option<f64>,
    /// The hosts' numbers.
    #[serde(skip)]
    numbers: Vec<usize>,
}

impl Report for FabricReport {
    const FORMAT: &'static str = "topo-fabric";
    const VERSION: u32 = 1;
}

impl FabricReport {
    /// Whether something can be better.
    pub fn differs(&self) -> bool {
        let worse = |best: &HostOrder| best.ring < self.given.ring;
        let unconnected = self.switchless && self.given.ring + self.given.trees > 0;
        self.apart.is_some() || unconnected || self.best.as_ref().is_none_or(worse)
    }
}

/// Reads the file, measures the order of the hosts, and looks for a better one.
///
/// # Errors
/// The file or the list of hosts is wrong, or one does not fit the other.
pub fn fabric(question: &FabricQuestion) -> Result<FabricReport, FabricAnswerError> {
    let (file, text) = (&question.file, &question.text);
    let (network, names, apart) = match SwitchTree::is_one(text) {
        true => of_tree(SwitchTree::read(file, text)?, question)?,
        false => of_toml(Fabric::from_toml(file, text)?, question)?,
    };
    let given: Vec<usize> = (0..names.len()).collect();
    let best = best(&network, &given);
    Ok(FabricReport {
        given: measured(&network, &names, given),
        best: best.map(|hosts| measured(&network, &names, hosts)),
        file: file.clone(),
        hosts: names,
        switchless: matches!(network, Network::Cables(_)),
        network,
        apart,
        simulated: None,
        notes: Vec::new(),
    })
}

type ReadNetwork = (Network, Vec<String>, Option<(String, String)>);

fn of_tree(tree: SwitchTree, question: &FabricQuestion) -> Result<ReadNetwork, FabricAnswerError> {
    let names = match &question.nodes {
        Some(list) => host_list::names(list).map_err(FabricAnswerError::HostList)?,
        None => tree.hosts(),
    };
    let leaf = |name: &String| {
        let found = tree.leaf_of(name);
        found.ok_or_else(|| FabricAnswerError::NoSwitch(name.clone()))
    };
    let leaves: Vec<usize> = names.iter().map(leaf).collect::<Result<_, _>>()?;
    let first = leaves.first().copied().unwrap_or(0);
    let other = leaves
        .iter()
        .position(|it| tree.crossed(first, *it).is_none());
    let apart = other.map(|at| (names[0].clone(), names[at].clone()));
    Ok((Network::Tree(tree, leaves), names, apart))
}

fn of_toml(fabric: Fabric, question: &FabricQuestion) -> Result<ReadNetwork, FabricAnswerError> {
    let listed = fabric.leaf.as_ref().map_or(0, |leaf| leaf.of.len() as u32);
    let cabled = fabric.cables.last_host().map_or(0, |last| last + 1);
    let named = match &question.nodes {
        Some(list) => host_list::names(list).map_err(FabricAnswerError::HostList)?,
        None => Vec::new(),
    };
    let known = [named.len() as u32, listed, cabled]
        .into_iter()
        .find(|it| *it > 0);
    let Some(hosts) = question.hosts.or(known) else {
        return Err(FabricAnswerError::UnknownHosts);
    };
    if [named.len() as u32, listed]
        .iter()
        .any(|it| *it > 0 && *it != hosts)
        || cabled > hosts
    {
        return Err(FabricAnswerError::OtherHosts(hosts));
    }
    let names = match named.is_empty() {
        true => (0..hosts).map(|host| format!("host{host}")).collect(),
        false => named,
    };
    let network = match (fabric.leaf, fabric.cables.is_empty()) {
        (_, false) => Network::Cables(fabric.cables),
        (Some(leaf), true) => Network::Leaves(leaf),
        (None, true) => return Err(FabricAnswerError::Nothing),
    };
    Ok((network, names, None))
}

/// Switches above the hosts' own that a message passes; for cables, 1 without one.
fn crossed(network: &Network, one: usize, other: usize) -> usize {
    match network {
        // Hosts apart are told once, and count as if a switch were above all.
        Network::Tree(tree, leaves) => tree.crossed(leaves[one], leaves[other]).unwrap_or(1),
        Network::Leaves(leaf) => {
            usize::from(leaf.of_host(one as u32) != leaf.of_host(other as u32))
        }
        Network::Cables(cables) => usize::from(!cables.connect(one as u32, other as u32)),
    }
}

/// An order with what its rings and trees cross.
fn measured(network: &Network, names: &[String], hosts: Vec<usize>) -> HostOrder {
    let next = hosts.iter().cycle().skip(1);
    let ring = hosts
        .iter()
        .zip(next)
        .map(|(one, other)| crossed(network, *one, *other));
    let trees = tree_links(hosts.len() as u32)
        .map(|(one, other)| crossed(network, hosts[one as usize], hosts[other as usize]));
    HostOrder {
        hosts: hosts.iter().map(|at| names[*at].clone()).collect(),
        ring: ring.sum(),
        trees: trees.sum(),
        time_us: None,
        numbers: hosts,
    }
}

/// The order in which rings cross least; the given one if none is better.
fn best(network: &Network, given: &[usize]) -> Option<Vec<usize>> {
    match network {
        Network::Tree(tree, leaves) => Some(tree.best_order(leaves)),
        Network::Leaves(leaf) => {
            let mut first: Vec<(usize, usize)> = Vec::new();
            for host in given {
                let of = leaf.of_host(*host as u32) as usize;
                if first.iter().all(|(leaf, _)| *leaf != of) {
                    first.push((of, first.len()));
                }
            }
            let place = |host: &usize| {
                let of = leaf.of_host(*host as u32) as usize;
                first.iter().find(|(leaf, _)| *leaf == of).map(|it| it.1)
            };
            let mut order = given.to_vec();
            order.sort_by_key(|host| (place(host), *host));
            Some(order)
        }
        Network::Cables(cables) => {
            let order = cables.ring(given.len() as u32)?;
            Some(order.into_iter().map(|host| host as usize).collect())
        }
    }
}

impl FabricReport {
    /// The assumption about leaf switches: bandwidth of their ports over that of their uplinks.
    ///
    /// # Errors
    /// Hosts that cables connect are not simulated, or the number is wrong.
    pub fn oversubscription(&self, wanted: Option<f64>) -> Result<f64, FabricAnswerError> {
        let usual = match &self.network {
            Network::Cables(_) => return Err(FabricError::Cables.into()),
            Network::Leaves(leaf) => leaf.oversubscription,
            Network::Tree(..) => USUAL_OVERSUBSCRIPTION,
        };
        let oversubscription = wanted.unwrap_or(usual);
        match (1e-3..=1e3).contains(&oversubscription) {
            true => Ok(oversubscription),
            false => Err(FabricAnswerError::Oversubscription(oversubscription)),
        }
    }

    /// Simulates a collective of a job with as many hosts, in both orders.
    ///
    /// # Errors
    /// It cannot be simulated.
    pub fn simulate(
        &mut self,
        plan: &Plan,
        (collective, size): (Collective, u64),
        oversubscription: f64,
    ) -> Result<(), FabricAnswerError> {
        let (numbers, leaf): (Vec<u32>, Leaf) = match &self.network {
            Network::Cables(_) => return Err(FabricError::Cables.into()),
            Network::Tree(_, leaves) => (SwitchTree::leaf_numbers(leaves), Leaf::default()),
            Network::Leaves(leaf) => {
                let hosts = 0..self.hosts.len() as u32;
                (hosts.map(|host| leaf.of_host(host)).collect(), leaf.clone())
            }
        };
        let question = SimulateQuestion::of(collective, size);
        for order in std::iter::once(&mut self.given).chain(&mut self.best) {
            let fabric = Fabric {
                leaf: Some(Leaf {
                    of: order.numbers.iter().map(|host| numbers[*host]).collect(),
                    oversubscription,
                    ..leaf.clone()
                }),
                ..Fabric::default()
            };
            let done = simulate::saved(plan, &question, &fabric)?;
            order.time_us = Some(done.time_us);
            self.notes = done.notes;
        }
        self.simulated = Some(format!(
            "{collective} of {}, leaf switches {oversubscription}:1 oversubscribed",
            program::size::short(size),
        ));
        Ok(())
    }
}
