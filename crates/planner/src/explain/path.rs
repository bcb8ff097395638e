//! The reasons for a path: its hops, and the rule of NCCL that changed it.

use std::sync::Arc;

use topology::{LinkId, LinkType, NodeId, NodeType, Path, PathTable, PathType, System};

use super::names::NodeNames;
use crate::error::Error;
use crate::routing::Routing;
use crate::settings::Settings;

/// One hop of a path.
#[derive(Debug)]
pub struct Hop {
    /// The first device.
    pub from: String,
    /// The second device.
    pub to: String,
    /// The type of the link.
    pub link: LinkType,
    /// Its bandwidth, GB/s.
    pub bw: f32,
    /// The type of the path up to and including this hop.
    pub so_far: PathType,
    /// No other hop is narrower.
    pub narrowest: bool,
}

/// A path with the reason for its type.
#[derive(Debug)]
pub struct ExplainedPath {
    /// The type.
    pub kind: PathType,
    /// The bandwidth, GB/s.
    pub bw: f32,
    /// The hops, without those inside a GPU.
    pub hops: Vec<Hop>,
    /// Why the type is what it is, and what limits the bandwidth.
    pub reason: String,
}

/// The path between two devices, explained.
#[derive(Debug)]
pub struct PathAnswer {
    /// The widest path.
    pub widest: ExplainedPath,
    /// The path after NCCL's rules, if they changed it, and why.
    pub diverted: Option<(ExplainedPath, String)>,
    /// How the devices transfer data, one paragraph each.
    pub verdicts: Vec<String>,
    /// Why NCCL gives up on the machine, so that only the widest path is known.
    pub refused: Option<Error>,
}

/// Explains the path between two devices of a machine.
///
/// # Errors
/// A link has no counterpart.
pub fn path(
    system: &Arc<System>,
    settings: Settings,
    names: &NodeNames<'_>,
    ends: (NodeId, NodeId),
) -> Result<PathAnswer, Error> {
    let (from, to) = ends;
    let plain = PathTable::compute_by(
        system,
        !settings.nvb_disable,
        settings.rules.path_preference(),
    )
    .map_err(|link| Error::one_way(system, link))?;
    let why = Why {
        system,
        plain: &plain,
        names,
    };
    let mut answer = PathAnswer {
        widest: why.route(plain.path(from, to), ends),
        diverted: None,
        verdicts: Vec::new(),
        refused: None,
    };
    let routing = match Routing::compute(Arc::clone(system), Arc::new(settings)) {
        Ok(routing) => routing,
        Err(error) => {
            answer.refused = Some(error);
            return Ok(answer);
        }
    };
    let ruled = routing.table().path(from, to);
    if ruled != plain.path(from, to) {
        answer.diverted = Some((why.route(ruled, ends), why.diversion(&routing, ends)));
    }
    answer.verdicts = match (system.kind(from), system.kind(to)) {
        (NodeType::Gpu, NodeType::Gpu) if from != to => why.p2p(&routing, from, to),
        (NodeType::Gpu, NodeType::Net) => why.gdr(&routing, from, to),
        (NodeType::Net, NodeType::Gpu) => why.gdr(&routing, to, from),
        _ => Vec::new(),
    };
    Ok(answer)
}

pub(super) struct Why<'a> {
    pub(super) system: &'a System,
    /// The widest paths.
    pub(super) plain: &'a PathTable,
    pub(super) names: &'a NodeNames<'a>,
}

impl Why<'_> {
    /// Whether a link only joins a GPU's rank with its device.
    fn is_inside(&self, link: LinkId) -> bool {
        let (from, to) = self.system.ends(link);
        matches!(
            (self.system.kind(from), self.system.kind(to)),
            (NodeType::Gpu, NodeType::Dev) | (NodeType::Dev, NodeType::Gpu)
        )
    }

    /// The type that a link gives to a path, by NCCL's rules.
    fn step(&self, link: LinkId) -> PathType {
        let (from, to) = self.system.ends(link);
        let (from, to) = (self.system.kind(from), self.system.kind(to));
        match self.system.link(link).kind {
            LinkType::Pci if from == NodeType::Cpu || to == NodeType::Cpu => PathType::Phb,
            _ if from == NodeType::Pci && to == NodeType::Pci => PathType::Pxb,
            kind => kind.path_type(),
        }
    }

    fn route(&self, path: Path<'_>, ends: (NodeId, NodeId)) -> ExplainedPath {
        let shown: Vec<LinkId> = path
            .hops
            .iter()
            .copied()
            .filter(|hop| !self.is_inside(*hop))
            .collect();
        let narrowest = shown
            .iter()
            .map(|hop| self.system.link(*hop).bw)
            .fold(f32::INFINITY, f32::min);
        let mut so_far = PathType::Loc;
        let hops: Vec<Hop> = shown
            .iter()
            .map(|hop| {
                so_far = so_far.max(self.step(*hop));
                let (from, to) = self.system.ends(*hop);
                let link = self.system.link(*hop);
                let label = |node| self.names.label(node).to_owned();
                Hop {
                    from: label(from),
                    to: label(to),
                    link: link.kind,
                    bw: link.bw,
                    so_far,
                    narrowest: link.bw == narrowest,
                }
            })
            .collect();
        let reason = self.reason(path, &shown, ends);
        ExplainedPath {
            kind: path.kind,
            bw: path.bw,
            hops,
            reason,
        }
    }

    fn reason(&self, path: Path<'_>, hops: &[LinkId], (from, to): (NodeId, NodeId)) -> String {
        let kind = path.kind;
        let decisive = hops.iter().position(|hop| self.step(*hop) == kind);
        let ends = |at: usize| {
            let (from, to) = self.system.ends(hops[at]);
            (self.names.label(from), self.names.label(to))
        };
        match (kind, decisive) {
            (PathType::Loc, _) if from == to => "It is the device itself.".to_owned(),
            (PathType::Dis, _) => format!("Nothing connects {} and {}.", self.names.label(from), self.names.label(to)),
            (PathType::Nvl, _) if hops.len() == 1 => "It is NVL because the two are joined by NVLink directly.".to_owned(),
            (PathType::Nvl, _) => "It is NVL because every hop is NVLink.".to_owned(),
            (PathType::Nvb, _) => {
                let relay = hops.first().map_or("another GPU", |hop| self.names.label(self.system.target(*hop)));
                format!(
                    "It is NVB because it relays through {relay}: no NVLink joins the two directly, and two NVLinks in a row \
                     are better than PCI. NCCL_NVB_DISABLE=1 would forbid it."
                )
            }
            (PathType::Pix, _) => "It is PIX because it never goes from one PCI switch to another, nor through a CPU.".to_owned(),
            (PathType::Pxb, Some(at)) => {
                let (from, to) = ends(at);
                format!("It is PXB because hop {} goes from one PCI switch to another ({from} to {to}), without a CPU.", at + 1)
            }
            (PathType::Phb, Some(at)) => {
                let (from, to) = ends(at);
                let cpu = if self.system.kind(self.system.target(hops[at])) == NodeType::Cpu { to } else { from };
                format!("It is PHB because hop {} goes through the PCI host bridge of {cpu}.", at + 1)
            }
            (PathType::Sys, Some(at)) => {
                let (from, to) = ends(at);
                format!("It is SYS because hop {} crosses from {from} to {to}.", at + 1)
            }
            (PathType::C2c, _) => "It is C2C because it takes the chip-to-chip link between GPU and CPU.".to_owned(),
            (PathType::P2c, _) => "It is P2C because the GPU reaches its CPU over C2C, and the NIC hangs below that CPU.".to_owned(),
            (kind, _) => format!("It is {kind}: {}.", kind.meaning()),
        }
    }

    /// Says which rule changed the widest path.
    fn diversion(&self, routing: &Routing, (from, to): (NodeId, NodeId)) -> String {
        let names = self.names;
        let kinds = (self.system.kind(from), self.system.kind(to));
        let plain = self.plain.path(from, to);
        let ruled = routing.table().path(from, to);
        let (gpu, net) = if kinds.0 == NodeType::Net {
            (to, from)
        } else {
            (from, to)
        };
        match (kinds, ruled.kind) {
            ((NodeType::Gpu, NodeType::Gpu), PathType::Net) if routing.net_faster(from, to) => {
                "Both GPUs reach a close NIC with more bandwidth than each other, so NCCL goes through the network. \
                 NCCL_NET_DISABLE_INTRA=1 would forbid that."
                    .to_owned()
            }
            ((NodeType::Gpu, NodeType::Gpu), PathType::Net) => {
                "Neither P2P nor shared memory may be used between the two, so NCCL goes through the network.".to_owned()
            }
            ((NodeType::Gpu, NodeType::Gpu), _) => {
                let cpu = routing.local_cpu(to).map_or("the CPU", |cpu| names.label(cpu));
                format!(
                    "{} is worse than what P2P may use ({}), so the data goes through memory at {cpu}, next to {}.",
                    plain.kind,
                    routing.p2p_limit(),
                    names.label(to)
                )
            }
            ((NodeType::Gpu, NodeType::Net), PathType::Pxn) => {
                let relay = routing.intermediate_gpu(gpu, net).map_or("another GPU", |relay| names.label(relay));
                format!(
                    "PXN: {} hands its data to {relay} over NVLink, and {relay} drives {}, which it reaches better ({}). \
                     NCCL_PXN_DISABLE=1 would forbid that.",
                    names.label(gpu),
                    names.label(net),
                    routing.intermediate_gpu(gpu, net).map_or(PathType::Dis, |relay| routing.table().kind(relay, net)),
                )
            }
            (_, PathType::P2c) => "The GPU reaches its CPU over C2C and the NIC hangs below that CPU, so NCCL counts the path as P2C, \
                 on which GPUDirect RDMA is allowed."
                .to_owned(),
            ((NodeType::Gpu, NodeType::Net) | (NodeType::Net, NodeType::Gpu), _) => {
                let cpu = routing.local_cpu(gpu).map_or("the CPU", |cpu| names.label(cpu));
                format!("Without GPUDirect RDMA the data goes through memory at {cpu}.")
            }
            _ => "NCCL's rules changed it.".to_owned(),
        }
    }
}
