//! The transports of one node: between its GPUs (direct, shared memory or network), and to the
//! network ports of its channels.

use plan::{
    GpuTransport, Graph, GraphKind, InnerPorts, NodeParts, NotDirect, NotShared, P2pPorts, PortUse,
    Rail, RailPort, SearchEnd, Transports,
};
use topology::{NcclId, NodeId, NodeType, PathType};

use crate::error::Error;
use crate::host_plan::HostPlan;
use crate::routing::Routing;
use crate::settings::MAX_CHANNELS;

/// Returns the transports of a node's GPUs with nothing but the ports of fallback channels that
/// stay in the node: the nearest ones of the first and the last GPU (2.29, source).
///
/// # Errors
/// A GPU reaches no port.
pub(super) fn inner(host: &HostPlan) -> Result<Transports, Error> {
    let routing = host.view.routing();
    let fell_back = |kind: GraphKind| {
        let trail = host.trails.iter().find(|trail| trail.kind == kind);
        trail.is_some_and(|trail| trail.end == SearchEnd::Fallback)
    };
    let mut found = Transports::default();
    if host.view.inter || !routing.settings().rules.falls_back_to_near_ports {
        return Ok(found);
    }
    let gpus = || routing.system().nodes(NodeType::Gpu);
    let nearest = |gpu: NodeId| {
        let ports = routing.local_nets(gpu)?;
        Ok::<_, Error>(
            ports
                .first()
                .map(|port| routing.system().node(*port).id.0 as i64),
        )
    };
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        if fell_back(kind)
            && let (Some(first), Some(last)) = (gpus().next(), gpus().next_back())
            && let (Some(enter), Some(leave)) = (nearest(first)?, nearest(last)?)
        {
            found.inner.push(InnerPorts {
                kind,
                nets: [enter, leave],
            });
        }
    }
    Ok(found)
}

/// Returns the transports of a node's GPUs, in ascending order of rank. `base` is the searched
/// channel that each channel of the job repeats, `merged` the number of channels of each graph
/// after the nodes' graphs were merged, `paired` whether all nodes swap paired rings.
///
/// # Errors
/// NVLink relays through a GPU without a rank, or a ring leaves through a port that is not there.
pub(super) fn transports(
    host: &HostPlan,
    parts: &NodeParts,
    base: &[u8],
    merged: impl Fn(GraphKind) -> u32,
    paired: bool,
) -> Result<Transports, Error> {
    let routing = host.view.routing();
    let system = routing.system();
    let mut gpus: Vec<(u32, NodeId)> = system
        .gpus()
        .map(|(node, gpu)| (gpu.rank as u32, node))
        .collect();
    gpus.sort_unstable();
    let mut found = parts.transports().clone();
    for (_, from) in &gpus {
        let mut row = Vec::with_capacity(gpus.len());
        for (_, to) in &gpus {
            let transport = transport(routing, *from, *to)?;
            let known = found.distinct.iter().position(|known| *known == transport);
            let index = known.unwrap_or_else(|| {
                found.distinct.push(transport);
                found.distinct.len() - 1
            });
            row.push(index as u16);
        }
        found.between.push(row);
    }
    found.p2p = gpus
        .iter()
        .filter_map(|(rank, gpu)| p2p_ports(routing, *rank, *gpu))
        .collect();
    let everyone = found
        .distinct
        .iter()
        .any(|transport| matches!(transport, GpuTransport::Network { .. }));
    let members: Vec<u32> = gpus.iter().map(|(rank, _)| *rank).collect();
    check_fallback(host)?;
    if everyone && system.find(NodeType::Net, NcclId(0)).is_none() {
        check_first_port(host, &found, &members)?;
    }
    let mut uses = parts.net_uses(base, merged, everyone, paired, &members);
    for ports in &found.p2p {
        let rails = ports.rails.iter().flat_map(|rail| &rail.ports);
        let nets = ports.own.iter().copied().chain(rails.map(|port| port.net));
        uses.extend(nets.map(|net| (ports.gpu, net)));
    }
    uses.sort_unstable();
    uses.dedup();
    found.ports = uses
        .into_iter()
        .filter_map(|(rank, net)| {
            let at = members.binary_search(&rank).ok()?;
            let port = system.find(NodeType::Net, NcclId(net as u64))?;
            Some(port_use(routing, rank, gpus.get(at)?.1, net, port))
        })
        .collect();
    Ok(found)
}

/// Whether a graph falls back to port 0, which is not there (to 2.28).
pub(super) fn lacks_port(host: &HostPlan, kind: GraphKind) -> bool {
    let system = host.view.routing().system();
    let leaves = |graph: &Graph| graph.channels.iter().any(|it| it.nets == Some([0; 2]));
    system.find(NodeType::Net, NcclId(0)).is_none() && host.graph(kind).is_some_and(leaves)
}

/// Checks that no ring falls back to a port that is not there. Trees may: NCCL makes a
/// communicator, and fails only where a call takes a tree.
fn check_fallback(host: &HostPlan) -> Result<(), Error> {
    if !lacks_port(host, GraphKind::Ring) {
        return Ok(());
    }
    let routing = host.view.routing();
    for (gpu, _) in routing.system().gpus() {
        // Without any port this says so.
        routing.local_nets(gpu)?;
    }
    Err(Error::FallbackPort {
        version: routing.settings().rules.version(),
    })
}

/// Checks that no neighbors need the network where their graph names no port: NCCL then takes port
/// 0, which is not there.
fn check_first_port(host: &HostPlan, found: &Transports, members: &[u32]) -> Result<(), Error> {
    let network = |from: i32, to: i32| {
        let at = |rank: i32| members.binary_search(&(rank as u32)).ok();
        let index = found.between.get(at(from)?)?.get(at(to)?)?;
        let transport = found.distinct.get(usize::from(*index))?;
        Some(matches!(transport, GpuTransport::Network { .. }))
    };
    let rings_and_trees = [GraphKind::Ring, GraphKind::Tree];
    for graph in rings_and_trees
        .into_iter()
        .filter_map(|kind| host.graph(kind))
    {
        let named = found.inner(graph.kind).is_some();
        let channels = graph.channels.iter();
        let channels = channels.filter(|it| it.nets.is_none() && !named);
        for ranks in channels.map(|channel| &channel.ranks) {
            let next = ranks.iter().skip(1).chain(ranks.first());
            let last = ranks.len().saturating_sub(1);
            // Only rings are closed.
            let pairs = ranks.iter().zip(next).enumerate();
            let pairs = pairs.filter(|(at, _)| graph.kind == GraphKind::Ring || *at < last);
            for (_, (from, to)) in pairs {
                if network(*from, *to) == Some(true) {
                    return Err(Error::NoFirstPort {
                        from: *from as u32,
                        to: *to as u32,
                        graph: graph.kind,
                    });
                }
            }
        }
    }
    Ok(())
}

/// Chooses the transport between two GPUs of the node, as the sender does.
fn transport(routing: &Routing, from: NodeId, to: NodeId) -> Result<GpuTransport, Error> {
    let p2p = routing.p2p(from, to)?;
    let path = routing.table().path(from, to);
    let is_local = routing.host_of(from) == routing.host_of(to);
    let not_direct =
        if p2p.refused || p2p.ok && p2p.relay.is_none() && is_local && !routing.grants(from, to) {
            NotDirect::Refused
        } else if !p2p.ok {
            if routing.host_of(from) != routing.host_of(to) && path.kind <= p2p.limit {
                NotDirect::OtherHost
            } else {
                NotDirect::Path {
                    path: path.kind,
                    limit: p2p.limit,
                }
            }
        } else if p2p.relay.is_some() && routing.settings().p2p_use_cuda_memcpy {
            NotDirect::Relay
        } else if p2p.relay.is_none() && routing.net_faster(from, to) {
            NotDirect::NetworkFaster
        } else {
            let via = p2p.relay.and_then(|relay| routing.system().gpu(relay));
            return Ok(GpuTransport::Direct {
                via: via.map(|relay| relay.rank as u32),
                // What the driver copies is written.
                read: !routing.settings().p2p_use_cuda_memcpy
                    && routing.settings().connect.p2p_read.unwrap_or(p2p.read),
                path: path.kind,
                bw: path.bw,
            });
        };
    let not_shared = if routing.host_of(from) != routing.host_of(to) {
        NotShared::OtherHost
    } else if routing.settings().shm_disable {
        NotShared::Disabled
    } else if routing.net_faster(from, to) {
        NotShared::NetworkFaster
    } else {
        return Ok(GpuTransport::SharedMemory {
            not_direct,
            path: path.kind,
            bw: path.bw,
        });
    };
    Ok(GpuTransport::Network {
        not_direct,
        not_shared,
    })
}

fn port_use(routing: &Routing, rank: u32, gpu: NodeId, net: i64, port: NodeId) -> PortUse {
    let driver = routing.intermediate_gpu(gpu, port).unwrap_or(gpu);
    let path = routing.table().path(gpu, port);
    PortUse {
        gpu: rank,
        net,
        proxy: proxy(routing, gpu, driver),
        path_type: path.kind,
        bw: path.bw,
        send: routing.gdr(gpu, port, true),
        receive: routing.gdr(gpu, port, false),
    }
}

/// The rank of the GPU that drives a port, where it is another one.
fn proxy(routing: &Routing, gpu: NodeId, driver: NodeId) -> Option<u32> {
    let driver = Some(driver).filter(|driver| *driver != gpu)?;
    routing.system().gpu(driver).map(|gpu| gpu.rank as u32)
}

/// The ports of a GPU for point-to-point transfers: its own, and (PXN) those on the peers' rails,
/// driven by the ranks beside them. `None` for a GPU without ports.
fn p2p_ports(routing: &Routing, rank: u32, gpu: NodeId) -> Option<P2pPorts> {
    let own = routing.local_nets(gpu).ok()?;
    let id = |port: &NodeId| routing.system().node(*port).id.0 as i64;
    let mut rails = Vec::new();
    let mut seen = Vec::new();
    for (twin, data) in routing.system().gpus() {
        // Of ranks that share a GPU the first one counts.
        if routing.host_of(twin) != routing.host_of(gpu) || seen.contains(&data.dev) {
            continue;
        }
        let dev = data.dev;
        seen.push(dev);
        let Ok(theirs) = routing.local_nets(twin) else {
            continue;
        };
        // Both lists begin anew after their length.
        let length = lcm(own.len(), theirs.len()).min(MAX_CHANNELS as usize);
        let ports: Vec<RailPort> = (0..length)
            .map(|channel| {
                let (own, rail) = (own[channel % own.len()], theirs[channel % theirs.len()]);
                let (net, driver) = rail_port(routing, gpu, own, rail);
                RailPort {
                    net: id(&net),
                    proxy: proxy(routing, gpu, driver),
                }
            })
            .collect();
        let plain = ports.iter().enumerate().all(|(channel, port)| {
            port.proxy.is_none() && port.net == id(&own[channel % own.len()])
        });
        if !plain {
            rails.push(Rail { dev, ports });
        }
    }
    Some(P2pPorts {
        gpu: rank,
        own: own.iter().map(id).collect(),
        rails,
    })
}

/// The port for a peer on this rail, and the GPU that drives it. `rail`: the port of the peer's
/// counterpart in this node.
fn rail_port(routing: &Routing, gpu: NodeId, own: NodeId, rail: NodeId) -> (NodeId, NodeId) {
    let settings = routing.settings();
    let level = if settings.pxn_disable {
        0
    } else {
        settings.p2p_pxn_level
    };
    // Without crossing NICs the peer's rail is taken even where nobody beside it can drive it.
    let unrelayed = if settings.cross_nic == 0 { rail } else { own };
    match level {
        1 if routing.table().kind(gpu, rail) <= PathType::Pxn => {
            (rail, routing.intermediate_gpu(gpu, rail).unwrap_or(gpu))
        }
        2 => {
            let driver = routing.local_gpu(rail).filter(|driver| {
                routing.table().kind(*driver, gpu) <= PathType::Nvl
                    && routing.table().kind(*driver, rail) <= routing.pxn_limit()
                    && routing.gdr(*driver, rail, false).is_direct()
            });
            driver.map_or((unrelayed, gpu), |driver| (rail, driver))
        }
        _ => (unrelayed, gpu),
    }
}

const fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
