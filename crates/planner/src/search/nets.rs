//! The ports that a channel may use, in the order in which they are tried.

use topology::{NodeId, NodeType, PathType};

use crate::error::Error;
use crate::routing::Routing;
use crate::settings::NetDevsPolicy;

/// Most channels for which ports are chosen.
const MAX_CHANNELS: usize = 64;

/// Most ports of a system.
const MAX_PORTS: usize = 640;

/// Most ports that NCCL considers beside the preferred ones.
const OTHER_PORTS: usize = 64;

/// Chooses ports for GPUs.
#[derive(Debug)]
pub(super) struct PortOrder {
    gpus: Vec<NodeId>,
    ports: Vec<NodeId>,
    /// For each GPU the ports it prefers, channel by channel, without repetition of the first;
    /// `None` if it has none.
    preferred: Vec<Option<Vec<NodeId>>>,
    /// Take the GPUs' ports in turn instead of GPU after GPU.
    scatter: bool,
}

impl PortOrder {
    pub(super) fn new(routing: &Routing) -> Self {
        let system = routing.system();
        let gpus: Vec<NodeId> = system.nodes(NodeType::Gpu).collect();
        Self {
            preferred: gpus
                .iter()
                .map(|gpu| routing.local_nets(*gpu).ok())
                .collect(),
            ports: system.nodes(NodeType::Net).collect(),
            scatter: system.hosts().len() > 1 && routing.settings().mnnvl_scatter_nets,
            gpus,
        }
    }

    /// The ports for one GPU or (`None`) for all, as positions: first those the GPUs prefer, then
    /// any other up to this path type. `None` for the type leaves it at the preferred ones.
    ///
    /// # Errors
    /// A GPU reaches no port.
    pub(super) fn select(
        &self,
        routing: &Routing,
        type_inter: Option<PathType>,
        gpu: Option<u32>,
    ) -> Result<Vec<u32>, Error> {
        let gpus = match gpu {
            Some(gpu) => gpu as usize..gpu as usize + 1,
            None => 0..self.gpus.len(),
        };
        let first_port = self.ports.first().map_or(0, |port| port.0);
        let mut selected: Vec<u32> = Vec::new();
        let mut seen = vec![false; self.ports.len()];
        let mut add = |selected: &mut Vec<u32>, port: NodeId| {
            let at = port.0 - first_port;
            if !std::mem::replace(&mut seen[at as usize], true) {
                selected.push(at);
            }
        };
        let mut lists = Vec::new();
        for gpu in gpus.clone() {
            match &self.preferred[gpu] {
                Some(list) => lists.push(list.as_slice()),
                // This call returns the error.
                None => lists.push({
                    routing.local_nets(self.gpus[gpu])?;
                    &[]
                }),
            }
        }
        if self.scatter {
            for channel in 0..MAX_CHANNELS {
                for list in &lists {
                    if let Some(port) = list.get(channel) {
                        add(&mut selected, *port);
                    }
                }
            }
        } else {
            for list in &lists {
                for port in *list {
                    add(&mut selected, *port);
                }
            }
        }
        let cap = match routing.settings().netdevs_policy {
            NetDevsPolicy::Max(most) => most as usize * gpus.len(),
            _ => MAX_PORTS,
        };
        if selected.len() >= cap {
            return Ok(selected);
        }
        let types = type_inter.map_or(&[][..], |worst| &PathType::ALL[..=worst as usize]);
        for kind in types {
            for gpu in gpus.clone() {
                for port in self.ports.iter().take(OTHER_PORTS) {
                    if routing.table().kind(self.gpus[gpu], *port) == *kind {
                        add(&mut selected, *port);
                        if selected.len() >= cap {
                            return Ok(selected);
                        }
                    }
                }
            }
        }
        Ok(selected)
    }
}
