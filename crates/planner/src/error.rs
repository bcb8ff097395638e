//! The reasons why a machine cannot be planned.

use topology::xml::NCCL_ELEMENTS;
use topology::{OneWayLink, System};

/// A machine or job that NCCL refuses too, or that no plan can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The topology file cannot be read as a machine.
    #[error(transparent)]
    Topology(#[from] topology::Error),
    /// The file is AMD's.
    #[error(
        "{file} is a topology of AMD's RCCL (version 2): NCCL refuses it, and RCCL decides otherwise, also by tables of \
         known machines"
    )]
    Rccl {
        /// The file.
        file: String,
    },
    /// The graph file cannot be used.
    #[error("NCCL_GRAPH_FILE cannot be used")]
    GraphFile(#[from] plan::Error),
    /// A file, a setting or a profile has values that no plan can hold.
    #[error("topo can write no plan of this job: {0}")]
    Plan(plan::Error),
    /// A plan that was just made contradicts itself.
    #[error(
        "topo can write no plan of this job ({at}: {problem}): unless the file or a setting has a number that cannot be, \
         this is a fault of topo; report it with the topology file, the settings and the version of NCCL"
    )]
    Contradiction {
        /// Where in the plan.
        at: String,
        /// What is wrong there.
        problem: String,
    },
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
    /// A host has more elements than NCCL has room for.
    #[error(
        "{file}: the job's ranks describe a host by {elements} elements, and NCCL has room for {NCCL_ELEMENTS} (\"too many \
         XML nodes\"): let the job use fewer GPUs or NICs (NCCL_IB_HCA), of which each is three elements, or list NVLinks \
         to a switch once, not to each GPU"
    )]
    TooManyElements {
        /// The file.
        file: String,
        /// How many.
        elements: usize,
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
    /// The driver grants no peer access between GPUs that NVLink joins.
    #[error(
        "NVLink joins {from} and {to}, but the driver grants them no peer access; NCCL fails on this, unless \
         NCCL_IGNORE_DISABLED_P2P=1 lets it go through host memory"
    )]
    NoPeerAccess {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
    },
    /// Ranks share a GPU: they run on parts of it.
    #[error("ranks run on parts of GPU {gpu} (`mlopart`): {why}")]
    SharedGpu {
        /// Its number.
        gpu: i32,
        /// Why NCCL refuses it, and what to do.
        why: &'static str,
    },
    /// A GPU reaches no CPU.
    #[error("{gpu} reaches no CPU; expected every GPU below a <cpu>")]
    NoLocalCpu {
        /// The GPU.
        gpu: String,
    },
    /// The job leaves the host, but there is no network port to leave through.
    #[error(
        "{gpu} reaches no network port, but the job needs the network ({why}); add the <net> entries of \
         the NICs, or let all ranks reach each other without it (one host, with P2P or shared memory)"
    )]
    NoNet {
        /// The GPU.
        gpu: String,
        /// Why the network is needed.
        why: String,
    },
    /// A job needs somewhere to run.
    #[error("the job has no hosts; expected at least one")]
    NoHosts,
    /// An edit names a host that the job does not have.
    #[error("{edit}: the job has no host {host}; expected 0 to {last}")]
    NoSuchHost {
        /// The edit.
        edit: String,
        /// The host.
        host: u32,
        /// The last host of the job.
        last: u32,
    },
    /// A topology cannot be edited in this way.
    #[error(transparent)]
    Edit(#[from] topology::edit::EditError),
    /// More hosts in one NVLink domain than NCCL has room for.
    #[error(
        "{hosts} hosts in one NVLink domain; NCCL's limit is 640 GPUs (without a \
         domain the network joins the hosts)"
    )]
    DomainTooLarge {
        /// How many.
        hosts: u64,
    },
    /// NCCL refuses `NCCL_ALGO` or `NCCL_PROTO`.
    #[error(transparent)]
    Restricted(#[from] crate::cost::RestrictError),
    /// Ranks are numbered with 31 bits.
    #[error("the job has {ranks} ranks; NCCL can number 2147483647")]
    TooManyRanks {
        /// How many.
        ranks: u64,
    },
    /// The settings leave none of a file's NICs to a job of several hosts.
    #[error(
        "{file}: NCCL_IB_HCA or NCCL_SOCKET_IFNAME names none of its NICs ({names}), but the job has several hosts; \
         NCCL would look for other network devices, which the file does not describe"
    )]
    NoNics {
        /// The file.
        file: String,
        /// The names of its NICs.
        names: String,
    },
    /// GPUs of a node need the network, but their graph names no port, and port 0 is not there.
    #[error(
        "rank {from} sends to rank {to} of its node over the network, but the {graph} graph names no port, for which NCCL \
         takes port 0, and there is none: NCCL fails on this; set NCCL_NET_DISABLE_INTRA=1, or NCCL_IB_MERGE_NICS=0 if \
         the port was merged with others"
    )]
    NoFirstPort {
        /// The sender, in its machine.
        from: u32,
        /// The receiver.
        to: u32,
        /// The graph.
        graph: plan::GraphKind,
    },
    /// The search for rings found nothing, and the fallback channel's port is not there.
    #[error(
        "the search finds no ring that leaves the host, for which NCCL {version} takes port 0, and there is none: NCCL \
         fails at the first call with a ring; plan NCCL 2.29 or newer, which takes the nearest ports, or set \
         NCCL_IB_MERGE_NICS=0 if the port was merged with others"
    )]
    FallbackPort {
        /// The version.
        version: plan::NcclVersion,
    },
    /// Network ports cannot be merged as the settings ask.
    #[error(transparent)]
    Merge(#[from] topology::merge::MergeError),
    /// One host of a job of different ones.
    #[error("host {host}: {error}")]
    OfHost {
        /// The first host that is such a machine, counted over the job.
        host: u32,
        /// The fault.
        error: Box<Error>,
    },
    /// The rank order does not fit the job.
    #[error(transparent)]
    RankOrder(#[from] plan::OrderError),
    /// Hosts have different numbers of network ports, and that is not wanted.
    #[error(
        "hosts have between {least} and {most} network ports; NCCL_IGNORE_NET_MISMATCH=0 asks for equal numbers: \
         make them equal (NCCL_IB_HCA, NCCL_SOCKET_IFNAME), or unset the variable"
    )]
    NetMismatch {
        /// Fewest ports of a host.
        least: usize,
        /// Most ports of a host.
        most: usize,
    },
    /// Hosts have different numbers of ports that reduce.
    #[error(
        "hosts have between {least} and {most} ports of the network that reduces (CollNet); NCCL fails on this: make them \
         equal, or set NCCL_IGNORE_COLLNET_MISMATCH=1, or NCCL_COLLNET_ENABLE=0"
    )]
    CollnetMismatch {
        /// Fewest ports of a host.
        least: usize,
        /// Most ports of a host.
        most: usize,
    },
    /// A channel of a graph does not hold every GPU of its node once.
    #[error(
        "channel {channel} of the {graph} graph of node {node} does not hold each of its {gpus} GPUs once; NCCL fails on \
         this: correct the graph file (NCCL_GRAPH_FILE)"
    )]
    BrokenChannel {
        /// Which graph.
        graph: plan::GraphKind,
        /// Channel number.
        channel: usize,
        /// Node number in the job.
        node: u32,
        /// GPUs of the node.
        gpus: usize,
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
        Self::OneWayLink {
            from: name(system, link.from),
            to: name(system, link.to),
        }
    }
}
