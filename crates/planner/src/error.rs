//! Why a machine cannot be planned.

use topology::{System, OneWayLink};

/// A machine or job that NCCL refuses too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The topology file cannot be read as a machine.
    #[error(transparent)]
    Topology(#[from] topology::Error),
    /// The graph file cannot be used.
    #[error("NCCL_GRAPH_FILE: {0}")]
    GraphFile(#[from] plan::Error),
    /// A link that exists in one direction only.
    #[error(
        "{from} has a link to {to}, but {to} has none of that type back; expected NVLinks and switch links to be listed at both ends"
    )]
    OneWayLink {
        /// Where it begins.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// There is nothing to plan for.
    #[error("the machine has no GPU with a rank; expected at least one <gpu dev sm rank gdr>")]
    NoGpu,
    /// NVLink relays through a GPU that the job does not hold, or that trimming removed.
    #[error(
        "{from} reaches {to} through {relay}, but no rank runs there (the network is faster between it and the others); \
         NCCL fails on this; set NCCL_NVB_DISABLE=1 or NCCL_NET_DISABLE_INTRA=1"
    )]
    LostRelay {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// The device in between.
        relay: String,
    },
    /// A GPU reaches no CPU.
    #[error("{gpu} reaches no CPU; expected every GPU below a <cpu>")]
    NoLocalCpu {
        /// The GPU.
        gpu: String,
    },
    /// The job leaves the host, but there is no network port to leave through.
    #[error(
        "{gpu} reaches no network port, but the job needs the network ({why}); add the <net> entries of the NICs, or plan for one host"
    )]
    NoNet {
        /// The GPU.
        gpu: String,
        /// Why the network is needed.
        why: String,
    },
}

/// How a node is called in messages.
pub(crate) fn name(system: &System, node: topology::NodeId) -> String {
    let kind = system.kind(node);
    match (system.gpu(node), system.net(node)) {
        (Some(gpu), _) => format!("GPU{} ({})", gpu.dev, gpu.bus_id),
        (_, Some(net)) => format!("NET{}", net.dev),
        _ => match system.dev(node) {
            Some(dev) => format!("GPU{} ({})", dev.dev, dev.bus_id),
            None => format!("{kind} {:#x}", system.node(node).id.0),
        },
    }
}

impl Error {
    pub(crate) fn one_way(system: &System, link: OneWayLink) -> Self {
        Self::OneWayLink { from: name(system, link.from), to: name(system, link.to) }
    }
}
