//! A transfer between two devices of a machine, and the setting that changes it.

use plan::Gdr;
use topology::{NodeId, PathType};

use super::path::Why;
use super::words::gbps;
use crate::routing::Routing;

impl Why<'_> {
    /// Says whether two GPUs use P2P, and which setting changes that.
    pub(super) fn p2p(&self, routing: &Routing, from: NodeId, to: NodeId) -> Vec<String> {
        let kind = self.plain.kind(from, to);
        let limit = routing.p2p_limit();
        let source = limit_source(routing, &["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL"]);
        let default = if source.is_none() && limit == PathType::Sys {
            "NCCL's default for at most two GPUs on AMD"
        } else {
            "NCCL's default"
        };
        let source = source.unwrap_or(default);
        let (direct, refused, usable) = match (routing.p2p(from, to), routing.p2p_usable(from, to))
        {
            (Ok(p2p), Ok(usable)) => {
                let is_local = routing.host_of(from) == routing.host_of(to);
                let unasked = p2p.ok && !usable && is_local && !routing.grants(from, to);
                (p2p.ok && !unasked, p2p.refused || unasked, usable)
            }
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
        } else if refused {
            verdicts.push(format!(
                "P2P: refused. {kind} is within the limit, {limit} ({source}), but the driver grants no peer access \
                 (`nvidia-smi topo -p2p r`)."
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

    /// Says whether a NIC uses GPUDirect RDMA with a GPU, and which setting changes that.
    pub(super) fn gdr(&self, routing: &Routing, gpu: NodeId, net: NodeId) -> Vec<String> {
        let names = self.names;
        let (gpu_name, net_name) = (names.label(gpu), names.label(net));
        let partition = |gpu: &topology::Gpu| gpu.mlopart.is_some();
        let limit = routing.gdr_limit(self.system.gpu(gpu).is_some_and(partition));
        let source = limit_source(routing, &["NCCL_NET_GDR_LEVEL"]).unwrap_or("NCCL's default");
        let (sends, receives) = (routing.gdr(gpu, net, true), routing.gdr(gpu, net, false));
        let driver = routing.intermediate_gpu(gpu, net).unwrap_or(gpu);
        // Paths without GPUDirect RDMA lead through the CPU; the limit applies to the path before
        // that.
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
                if gpu.mlopart.is_some()
                    && !routing.settings().rules.limits_partitions
                    && !routing.settings().gdr_partitions =>
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

    /// Says which NICs the GPU chooses.
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

/// Returns the first of the variables that sets the limit.
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

/// Returns the next better level for NCCL_P2P_LEVEL.
fn stricter(kind: PathType) -> PathType {
    let levels = [PathType::Phb, PathType::Pxb, PathType::Pix, PathType::Nvl];
    levels
        .into_iter()
        .find(|level| *level < kind)
        .unwrap_or(PathType::Loc)
}
