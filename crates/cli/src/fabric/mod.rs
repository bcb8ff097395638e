//! `topo fabric`: switches and cables between hosts, and the rank order that suits them.

pub mod json;
mod page;

use answers::JobSpec;
use anyhow::{Context, Result, bail};
use plan::CheckedPlan;
use simulator::fabric::cables::tree_links;
use simulator::fabric::{Cables, Leaf, SwitchTree, host_list};
use simulator::{Fabric, FabricError};

use crate::arguments::Variables;
use crate::arguments::compare::TextOrJson;
use crate::arguments::fabric::FabricArguments;
use crate::arguments::simulate::SimulatedRun;
use crate::environment::Environment;
use crate::output::{self, Output};
use crate::settings::read_settings;
use crate::{input, job, simulate};
use answers::report;
use json::FabricReport;

/// Largest file that is read, bytes.
const FILE_LIMIT: u64 = 64 << 20;

/// Oversubscription that is assumed where nobody says it.
const USUAL_OVERSUBSCRIPTION: f64 = 2.0;

/// What is known of the network.
pub enum Network {
    /// Switches by name, with the switch of each host.
    Tree(SwitchTree, Vec<usize>),
    /// Leaf switches by number.
    Leaves(Leaf),
    /// Cables without a switch.
    Cables(Cables),
}

/// An order of hosts, and what rings and trees cross in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The hosts' numbers in the order of their ranks.
    pub hosts: Vec<usize>,
    /// Switches above their own that all ring links together pass; for cables, links without one.
    pub ring: usize,
    /// The same of the links of both trees.
    pub trees: usize,
    /// The simulated time, µs.
    pub time_us: Option<f64>,
}

/// Everything that a page shows.
pub struct FabricView {
    /// The file.
    pub file: String,
    /// The hosts' names, in the order that was given.
    pub names: Vec<String>,
    /// What is known of the network.
    pub network: Network,
    /// Pairs of hosts that no switch connects.
    pub apart: Option<(String, String)>,
    /// The order that was given.
    pub given: Order,
    /// The best order; `None` if there is no ring of cables.
    pub best: Option<Order>,
    /// What was simulated, in words.
    pub simulated: Option<String>,
}

impl FabricView {
    /// Whether something can be better.
    pub fn differs(&self) -> bool {
        let worse = |best: &Order| best.ring < self.given.ring;
        let unconnected =
            matches!(self.network, Network::Cables(_)) && self.given.ring + self.given.trees > 0;
        self.apart.is_some() || unconnected || self.best.as_ref().is_none_or(worse)
    }
}

pub fn run(
    arguments: &FabricArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let mut view = read(arguments)?;
    if let Some(topology) = &arguments.topology {
        price(&mut view, topology, arguments, environment, output)?;
    }
    if let (Some(path), Some(best)) = (&arguments.hostfile, &view.best) {
        let names = best.hosts.iter().map(|at| format!("{}\n", view.names[*at]));
        output::refuse_overwriting(path, std::slice::from_ref(&arguments.file))?;
        output::write(path, &names.collect::<String>())?;
    }
    output.differs = view.differs();
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&view, environment.look()),
        TextOrJson::Json => report::json(&FabricReport::of(&view))?,
    };
    Ok(())
}

fn read(arguments: &FabricArguments) -> Result<FabricView> {
    let file = arguments.file.display().to_string();
    let text = files::read_text(&arguments.file, FILE_LIMIT)
        .with_context(|| format!("cannot read the fabric file {file}"))?;
    let (network, names, apart) = match SwitchTree::is_one(&text) {
        true => of_tree(SwitchTree::from_topology_conf(&file, &text)?, arguments)?,
        false => of_toml(Fabric::from_toml(&file, &text)?, arguments)?,
    };
    let given: Vec<usize> = (0..names.len()).collect();
    let best = best(&network, &given);
    Ok(FabricView {
        given: measured(&network, given),
        best: best.map(|hosts| measured(&network, hosts)),
        file,
        names,
        network,
        apart,
        simulated: None,
    })
}

type Read = (Network, Vec<String>, Option<(String, String)>);

fn of_tree(tree: SwitchTree, arguments: &FabricArguments) -> Result<Read> {
    let names = match &arguments.nodes {
        Some(list) => host_list::names(list)
            .map_err(anyhow::Error::msg)
            .context("--nodes")?,
        None => tree.hosts(),
    };
    let leaf = |name: &String| {
        let found = tree.leaf_of(name);
        found.with_context(|| format!("no switch has {name}; expected Nodes= with it"))
    };
    let leaves: Vec<usize> = names.iter().map(leaf).collect::<Result<_>>()?;
    let first = leaves.first().copied().unwrap_or(0);
    let other = leaves
        .iter()
        .position(|it| tree.crossed(first, *it).is_none());
    let apart = other.map(|at| (names[0].clone(), names[at].clone()));
    Ok((Network::Tree(tree, leaves), names, apart))
}

fn of_toml(fabric: Fabric, arguments: &FabricArguments) -> Result<Read> {
    let listed = fabric.leaf.as_ref().map_or(0, |leaf| leaf.of.len() as u32);
    let cabled = fabric.cables.last_host().map_or(0, |last| last + 1);
    let named = match &arguments.nodes {
        Some(list) => host_list::names(list)
            .map_err(anyhow::Error::msg)
            .context("--nodes")?,
        None => Vec::new(),
    };
    let known = [named.len() as u32, listed, cabled]
        .into_iter()
        .find(|it| *it > 0);
    let Some(hosts) = arguments.hosts.or(known) else {
        bail!("the fabric file does not say how many hosts there are; expected --hosts N");
    };
    if [named.len() as u32, listed]
        .iter()
        .any(|it| *it > 0 && *it != hosts)
        || cabled > hosts
    {
        bail!("the file or --nodes has other hosts than the {hosts} of the job; expected as many");
    }
    let names = match named.is_empty() {
        true => (0..hosts).map(|host| format!("host{host}")).collect(),
        false => named,
    };
    let network = match (fabric.leaf, fabric.cables.is_empty()) {
        (_, false) => Network::Cables(fabric.cables),
        (Some(leaf), true) => Network::Leaves(leaf),
        (None, true) => {
            bail!(
                "the fabric file has neither [leaf] switches nor [[cable]]s; expected one of them"
            )
        }
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
fn measured(network: &Network, hosts: Vec<usize>) -> Order {
    let next = hosts.iter().cycle().skip(1);
    let ring = hosts
        .iter()
        .zip(next)
        .map(|(one, other)| crossed(network, *one, *other));
    let trees = tree_links(hosts.len() as u32)
        .map(|(one, other)| crossed(network, hosts[one as usize], hosts[other as usize]));
    Order {
        ring: ring.sum(),
        trees: trees.sum(),
        time_us: None,
        hosts,
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

/// Simulates a collective in both orders.
fn price(
    view: &mut FabricView,
    topology: &std::path::Path,
    arguments: &FabricArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let leaf = match &view.network {
        Network::Cables(_) => bail!(FabricError::Cables),
        Network::Leaves(leaf) => leaf.clone(),
        Network::Tree(..) => Leaf {
            oversubscription: USUAL_OVERSUBSCRIPTION,
            ..Leaf::default()
        },
    };
    let oversubscription = arguments.oversubscription.unwrap_or(leaf.oversubscription);
    if !(1e-3..=1e3).contains(&oversubscription) {
        bail!("--oversubscription {oversubscription}: expected a number from 0.001 to 1000");
    }
    let variables = Variables::default();
    let settings = read_settings(&variables, environment, output)?;
    let spec = JobSpec {
        hosts: view.names.len() as u32,
        ..JobSpec::of(input::machine(topology, output)?)
    };
    let job = job::checked(spec, &job::Options::default(), output)?;
    let plan = CheckedPlan::new(job::plan_job(&job, &settings, output)?.plan())?;
    let numbers: Vec<u32> = match &view.network {
        Network::Tree(_, leaves) => SwitchTree::leaf_numbers(leaves),
        _ => (0..view.names.len() as u32)
            .map(|host| leaf.of_host(host))
            .collect(),
    };
    let run = SimulatedRun {
        collective: arguments.collective,
        size: arguments.size,
        algorithm: None,
        protocol: None,
        transfer: None,
        channels: None,
        element: program::ElementType::F32,
        root: 0,
        every_rank: false,
        trace: None,
    };
    let mut timed = |order: &mut Order, plan: &CheckedPlan| -> Result<()> {
        let fabric = Fabric {
            leaf: Some(Leaf {
                of: order.hosts.iter().map(|host| numbers[*host]).collect(),
                oversubscription,
                ..leaf.clone()
            }),
            ..Fabric::default()
        };
        let done = simulate::planned(plan, &run, &fabric, environment, output)?;
        order.time_us = Some(done.time_us());
        Ok(())
    };
    timed(&mut view.given, &plan)?;
    if let Some(best) = &mut view.best {
        timed(best, &plan)?;
    }
    view.simulated = Some(format!(
        "{} of {}, leaf switches {oversubscription}:1 oversubscribed",
        arguments.collective,
        crate::sizes::short(arguments.size),
    ));
    Ok(())
}
