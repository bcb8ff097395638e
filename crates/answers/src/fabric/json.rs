//! The JSON of `topo simulate --network-only`.

use crate::JsonSchema;
use serde::Serialize;

use super::{FabricView, Network, Order};
use crate::report::Report;

/// Switches and cables between hosts, and the rank order that suits them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FabricReport {
    file: String,
    /// The hosts in the order that was given.
    hosts: Vec<String>,
    /// Hosts are connected by cables without a switch.
    switchless: bool,
    /// Two hosts that no switch connects.
    apart: Option<(String, String)>,
    /// The order that was given.
    given: OrderJson,
    /// The best order; null if no ring of cables connects all hosts.
    best: Option<OrderJson>,
    /// The simulated job.
    simulated: Option<String>,
}

/// An order of hosts.
#[derive(Debug, Serialize, JsonSchema)]
struct OrderJson {
    hosts: Vec<String>,
    /// Switches above their own that all ring links together pass; without switches, ring links
    /// without a cable.
    ring: usize,
    /// The same of the links of both trees.
    trees: usize,
    /// The simulated time, µs.
    time_us: Option<f64>,
}

impl Report for FabricReport {
    const FORMAT: &'static str = "topo-fabric";
    const VERSION: u32 = 1;
}

impl FabricReport {
    /// The report of a view.
    pub fn of(view: &FabricView) -> Self {
        let order = |it: &Order| OrderJson {
            hosts: it.hosts.iter().map(|at| view.names[*at].clone()).collect(),
            ring: it.ring,
            trees: it.trees,
            time_us: it.time_us,
        };
        Self {
            file: view.file.clone(),
            hosts: view.names.clone(),
            switchless: matches!(view.network, Network::Cables(_)),
            apart: view.apart.clone(),
            given: order(&view.given),
            best: view.best.as_ref().map(order),
            simulated: view.simulated.clone(),
        }
    }
}
