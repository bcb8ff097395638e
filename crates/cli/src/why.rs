//! Why a path is what it is: hop by hop, and by which of NCCL's rules it was changed.

use std::sync::Arc;

use plan::Gdr;
use planner::Routing;
use topology::{LinkId, LinkType, NodeId, NodeType, Path, PathTable, PathType, System};

use crate::device::Names;
use crate::render::gbps;

/// One hop of a path.
#[derive(Debug)]
pub struct Hop {
    /// Where it begins.
    pub from: String,
    /// Where it leads.
    pub to: String,
    /// What it is made of.
    pub link: LinkType,
    /// Its bandwidth, GB/s.
    pub bw: f32,
    /// The type of the path up to its end.
    pub so_far: PathType,
    /// No other hop is narrower.
    pub narrowest: bool,
}

/// One path with the reason for its type.
#[derive(Debug)]
pub struct Route {
    /// The type.
    pub kind: PathType,
    /// The bandwidth, GB/s.
    pub bw: f32,
    /// The hops; those inside a GPU are left out.
    pub hops: Vec<Hop>,
    /// Why the type is what it is, and what limits the bandwidth.
    pub reason: String,
}

/// What is to be said of two devices.
#[derive(Debug)]
pub struct Answer {
    /// The widest path.
    pub widest: Route,
    /// What NCCL's rules made of it, if anything, and why.
    pub diverted: Option<(Route, String)>,
    /// What that means for transfers, a paragraph each.
    pub verdicts: Vec<String>,
}

/// Explains the path between two nodes. Without a routing (NCCL would give up on the machine) only the widest path.
pub fn explain(
    system: &Arc<System>,
    plain: &PathTable,
    routing: Option<&Routing>,
    names: &Names<'_>,
    ends: (NodeId, NodeId),
) -> Answer {
    let (from, to) = ends;
    let why = Why {
        system,
        plain,
        names,
    };
    let widest = why.route(plain.path(from, to), ends);
    let Some(routing) = routing else {
        return Answer {
            widest,
            diverted: None,
            verdicts: Vec::new(),
        };
    };
    let ruled = routing.table().path(from, to);
    let unchanged = ruled == plain.path(from, to);
    let diverted = (!unchanged).then(|| (why.route(ruled, ends), why.diversion(routing, ends)));
    let verdicts = match (system.kind(from), system.kind(to)) {
        (NodeType::Gpu, NodeType::Gpu) if from != to => why.p2p(routing, from, to),
        (NodeType::Gpu, NodeType::Net) => why.gdr(routing, from, to),
        (NodeType::Net, NodeType::Gpu) => why.gdr(routing, to, from),
        _ => Vec::new(),
    };
    Answer {
        widest,
        diverted,
        verdicts,
    }
}

struct Why<'a> {
    system: &'a System,
    plain: &'a PathTable,
    names: &'a Names<'a>,
}

impl Why<'_> {
    /// A hop between a GPU's rank and its device says nothing.
    fn is_inside(&self, link: LinkId) -> bool {
        let (from, to) = self.system.ends(link);
        matches!(
            (self.system.kind(from), self.system.kind(to)),
            (NodeType::Gpu, NodeType::Dev) | (NodeType::Dev, NodeType::Gpu)
        )
    }

    /// What a link makes of a path, by NCCL's rules.
    fn step(&self, link: LinkId) -> PathType {
        let (from, to) = self.system.ends(link);
        let (from, to) = (self.system.kind(from), self.system.kind(to));
        match self.system.link(link).kind {
            LinkType::Pci if from == NodeType::Cpu || to == NodeType::Cpu => PathType::Phb,
            _ if from == NodeType::Pci && to == NodeType::Pci => PathType::Pxb,
            kind => kind.path_type(),
        }
    }

    fn route(&self, path: Path<'_>, ends: (NodeId, NodeId)) -> Route {
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
        Route {
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

    /// Which rule changed the widest path.
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

    /// Whether two GPUs write into each other's memory, and which setting changes that.
    fn p2p(&self, routing: &Routing, from: NodeId, to: NodeId) -> Vec<String> {
        let kind = self.plain.kind(from, to);
        let limit = routing.p2p_limit();
        let source = limit_source(routing, &["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"]);
        let default = if source.is_none() && limit == PathType::Sys {
            "NCCL's default for at most two GPUs on AMD"
        } else {
            "NCCL's default"
        };
        let source = source.unwrap_or(default);
        let (direct, usable) = match (routing.p2p(from, to), routing.p2p_usable(from, to)) {
            (Ok(p2p), Ok(usable)) => (p2p.ok, usable),
            (Err(error), _) | (_, Err(error)) => return vec![format!("NCCL fails here: {error}.")],
        };
        let mut verdicts = Vec::new();
        if direct {
            let level = stricter(kind);
            let also = if level > PathType::Loc {
                format!(", as would NCCL_P2P_LEVEL={level}")
            } else {
                String::new()
            };
            verdicts.push(format!(
                "P2P: allowed. {kind} is within the limit, {limit} ({source}). NCCL_P2P_DISABLE=1 would forbid it{also}."
            ));
        } else if kind <= limit {
            verdicts.push(format!(
                "P2P: not used, although {kind} is within the limit, {limit} ({source})."
            ));
        } else if kind >= PathType::Net {
            verdicts
                .push("P2P: impossible, nothing connects the two inside the machine.".to_owned());
        } else {
            let cure = match source {
                "NCCL_P2P_DISABLE" => {
                    "Without NCCL_P2P_DISABLE NCCL would decide by NCCL_P2P_LEVEL.".to_owned()
                }
                _ => format!("NCCL_P2P_LEVEL={kind} would allow it."),
            };
            verdicts.push(format!(
                "P2P: forbidden. {kind} is worse than the limit, {limit} ({source}). {cure}"
            ));
        }
        let transport = if usable {
            "by P2P: one GPU writes into the other's memory"
        } else if routing.shm_usable(from, to) {
            "through shared memory of the host"
        } else {
            "over the network, although both are in one machine"
        };
        verdicts.push(format!("Transfers go {transport}."));
        verdicts
    }

    /// Whether a NIC reaches a GPU's memory, and which setting changes that.
    fn gdr(&self, routing: &Routing, gpu: NodeId, net: NodeId) -> Vec<String> {
        let names = self.names;
        let (gpu_name, net_name) = (names.label(gpu), names.label(net));
        let limit = routing.gdr_limit();
        let source = limit_source(routing, &["NCCL_NET_GDR_LEVEL"]).unwrap_or("NCCL's default");
        let (sends, receives) = (routing.gdr(gpu, net, true), routing.gdr(gpu, net, false));
        let driver = routing.intermediate_gpu(gpu, net).unwrap_or(gpu);
        // Paths without GPUDirect RDMA were led through the CPU; what matters is the path before.
        let distance = if driver == gpu {
            self.plain
                .kind(gpu, net)
                .min(routing.table().kind(gpu, net))
        } else {
            routing.table().kind(driver, net)
        };
        let at = if driver == gpu {
            String::new()
        } else {
            format!(" from {} on", names.label(driver))
        };
        let within = format!("{distance}{at} is within the limit, {limit} ({source})");
        let cannot = |text: &str| vec![format!("GPUDirect RDMA: impossible, {text}.")];
        let data = (self.system.gpu(gpu), self.system.net(net));
        let mut verdicts = match (sends.is_direct(), receives.is_direct(), data) {
            (true, true, _) => vec![format!(
                "GPUDirect RDMA: allowed. {within}. NCCL_NET_GDR_LEVEL=LOC would forbid it."
            )],
            (_, _, (_, Some(net))) if !net.gdr => {
                cannot(&format!("{net_name} cannot (gdr=\"0\" in the file)"))
            }
            (_, _, (Some(gpu), _)) if !gpu.gdr => {
                cannot(&format!("{gpu_name} cannot (gdr=\"0\" in the file)"))
            }
            (_, _, (Some(gpu), _))
                if gpu.mlopart.is_some() && !routing.settings().gdr_partitions =>
            {
                cannot(&format!(
                    "{gpu_name} is a partition of a GPU; NCCL_NET_GDR_MLOPART=1 would allow it"
                ))
            }
            (false, true, _) => {
                let why = match routing.settings().gdr_read {
                    Some(false) => "NCCL_NET_GDR_READ=0 forbids it for sending",
                    _ => {
                        "a GPU of this generation without NVLink does not send with it; NCCL_NET_GDR_READ=1 would allow it"
                    }
                };
                vec![format!(
                    "GPUDirect RDMA: only for receiving. {within}; {why}."
                )]
            }
            _ if distance > limit => vec![format!(
                "GPUDirect RDMA: forbidden. {distance}{at} is worse than the limit, {limit} ({source}). \
                 NCCL_NET_GDR_LEVEL={distance} would allow it."
            )],
            _ => vec!["GPUDirect RDMA: not used.".to_owned()],
        };
        if sends == Gdr::Pci || receives == Gdr::Pci {
            verdicts.push(format!(
                "{gpu_name} has a C2C link to its CPU, but this NIC reaches its memory over PCI."
            ));
        }
        verdicts.extend(self.chosen(routing, gpu, net));
        verdicts
    }

    /// Whether the GPU would choose this NIC.
    fn chosen(&self, routing: &Routing, gpu: NodeId, net: NodeId) -> Option<String> {
        let nets = routing.local_nets(gpu).ok()?;
        let list: Vec<&str> = nets.iter().map(|net| self.names.label(*net)).collect();
        let (gpu_name, net_name, list) = (
            self.names.label(gpu),
            self.names.label(net),
            list.join(", "),
        );
        Some(if !nets.contains(&net) {
            let best = nets.first().map(|first| routing.table().path(gpu, *first));
            let best = best.map_or_else(String::new, |path| {
                format!(" ({} at {} GB/s)", path.kind, gbps(path.bw))
            });
            format!("By itself {gpu_name} would use {list}{best}, not {net_name}.")
        } else if nets.len() == 1 {
            format!("{gpu_name} uses {net_name} for its channels.")
        } else {
            format!("{gpu_name} spreads its channels over {list}.")
        })
    }
}

/// Which variable set a limit; the first that is in force.
fn limit_source<'a>(routing: &Routing, variables: &[&'a str]) -> Option<&'a str> {
    let settings = routing.settings();
    let in_force = |name: &str| {
        settings
            .in_force
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let decides = |name: &str| match name {
        "NCCL_P2P_DISABLE" => in_force(name) == Some("1"),
        "NCCL_P2P_LEVEL" => in_force(name).is_some() && settings.p2p_level.is_some(),
        _ => in_force(name).is_some() && settings.gdr_level.is_some(),
    };
    variables.iter().copied().find(|name| decides(name))
}

/// The next better level that people use for NCCL_P2P_LEVEL.
fn stricter(kind: PathType) -> PathType {
    let levels = [PathType::Phb, PathType::Pxb, PathType::Pix, PathType::Nvl];
    levels
        .into_iter()
        .find(|level| *level < kind)
        .unwrap_or(PathType::Loc)
}
