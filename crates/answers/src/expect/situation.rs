//! Features of a planned job that decide its bandwidth, to find published runs that are alike.

use plan::cost::{CostTable, TunedOperation};
use plan::{GpuGroup, GpuTransport, GraphKind, Plan, PlannedMachine};
use program::Collective;
use records::results::published::{InnerPath, NetworkKind, NetworkOfNode, ReducedBy, Situation};
use topology::PathType;

/// The size of a long message, for which NCCL's choice says whether switches reduce, bytes.
const LONG: u64 = 8 << 30;

/// The setting with which copy engines move what goes through the host's memory.
const COPY_ENGINES: &str = "NCCL_SHM_USE_CUDA_MEMCPY";

/// Latencies of a port from which on it is one of libfabric, µs: 35 and 75 of EFA.
const LIBFABRIC_US: f32 = 20.0;

/// Beginnings of names of libfabric's ports, and of ports of InfiniBand and RoCE.
const LIBFABRIC: [&str; 4] = ["efa", "rdmap", "cxi", "hsn"];
const VERBS: [&str; 5] = ["mlx", "ib", "roce", "rdma", "bnxt_re"];

/// The job of a plan, for a collective. `costs` are those with which NCCL chooses.
///
/// # Errors
/// The plan does not say it; a sentence.
pub(crate) fn situation(
    plan: &Plan,
    costs: &CostTable,
    collective: Collective,
) -> Result<Situation, String> {
    let [machine] = &plan.machines[..] else {
        let machines = plan.machines.len();
        return Err(format!("the job has {machines} kinds of machines"));
    };
    let group = machine.groups.first();
    let group = group.ok_or("the plan has no groups of GPUs")?;
    let operation = TunedOperation::new(collective, LONG);
    let choice = costs.choose_for(&operation).ok();
    let nodes = costs.job.nodes;
    let network = match nodes > 1 {
        true => Some(network(plan, machine, group).ok_or("the plan names no ports")?),
        false => None,
    };
    // The plug-in for EFA has a tuner of its own, which takes NVLSTree for long all-reduces.
    let tuned = network.is_some_and(|it| it.kind == NetworkKind::Libfabric)
        && costs.job.nvls.is_some()
        && collective == Collective::AllReduce
        && !costs.job.restricted;
    let in_switches = tuned || choice.is_some_and(|it| it.algorithm.reduces_in_switches());
    let reduced_by = match in_switches {
        false => ReducedBy::Gpus,
        true if costs.job.collnet.is_some() => ReducedBy::Network,
        true => ReducedBy::Nvswitches,
    };
    Ok(Situation {
        sm: costs.job.min_cc,
        ranks: costs.job.ranks,
        nodes,
        joined: joined(plan, machine, group)?,
        link: if group.ranks.len() > 1 {
            group.total_bw
        } else {
            0.0
        },
        network,
        collective,
        reduced_by,
    })
}

/// The worst hop of the rings of a group.
fn joined(plan: &Plan, machine: &PlannedMachine, group: &GpuGroup) -> Result<InnerPath, String> {
    if machine.groups.len() > 1 {
        return Ok(InnerPath::Network);
    }
    let members = group.members();
    if members.len() == 1 {
        return Ok(InnerPath::Alone);
    }
    let transports = group.transports.as_ref();
    let transports = transports.ok_or("the plan does not say how GPUs reach each other")?;
    let rings = group.graph(GraphKind::Ring);
    let rings = rings.ok_or("NCCL finds no rings on this machine")?;
    let between = |from: i32, to: i32| {
        let place = |rank: i32| members.iter().position(|it| *it == rank as u32);
        let row = transports.between.get(place(from)?)?;
        transports.distinct.get(usize::from(*row.get(place(to)?)?))
    };
    let copies = plan
        .settings
        .iter()
        .rev()
        .find(|it| it.name == COPY_ENGINES);
    let copies = copies.is_some_and(|it| it.value.trim() == "1");
    let hop = |transport: &GpuTransport| match transport {
        GpuTransport::Network { .. } => InnerPath::Network,
        GpuTransport::SharedMemory { .. } if copies => InnerPath::HostMemoryCopied,
        GpuTransport::SharedMemory { .. } => InnerPath::HostMemory,
        GpuTransport::Direct { path, .. } => match path {
            path if *path <= PathType::C2c => InnerPath::Nvlink,
            PathType::Sys => InnerPath::PeerAccessSockets,
            _ => InnerPath::PeerAccess,
        },
    };
    let closed = |ranks: &[i32]| {
        let next = ranks.iter().skip(1).chain(ranks.first()).copied();
        let pairs: Vec<(i32, i32)> = ranks.iter().copied().zip(next).collect();
        pairs
    };
    let hops = rings.channels.iter().flat_map(|it| closed(&it.ranks));
    let hops = hops.filter_map(|(from, to)| between(from, to).map(hop));
    hops.max()
        .ok_or_else(|| "NCCL finds no rings on this machine".to_owned())
}

/// The ports of a node that rings use.
fn network(plan: &Plan, machine: &PlannedMachine, group: &GpuGroup) -> Option<NetworkOfNode> {
    let rings = group.graph(GraphKind::Ring)?;
    let nets = rings.channels.iter().filter_map(|it| it.nets);
    let mut nets: Vec<i64> = nets.flatten().filter(|net| *net >= 0).collect();
    nets.sort_unstable();
    nets.dedup();
    let used: Vec<_> = machine
        .nics
        .iter()
        .filter(|nic| nets.contains(&nic.id))
        .collect();
    let named = |starts: &[&str]| {
        let mut names = used.iter().filter_map(|nic| nic.name.as_deref());
        names.any(|name| starts.iter().any(|start| name.starts_with(start)))
    };
    let ring = plan.common.as_ref()?.graph(GraphKind::Ring)?;
    let ports = &group.transports.as_ref()?.ports;
    let is_direct = ports
        .iter()
        .filter(|port| nets.contains(&port.net))
        .any(|it| it.send.is_direct() && it.receive.is_direct());
    // A port carries no more than the widest path to it: half of the ports of a DGX Spark.
    let carries = |nic: &plan::MachineNic| {
        let paths = ports.iter().filter(|port| port.net == nic.id);
        nic.speed.min(paths.map(|port| port.bw).fold(0.0, f32::max))
    };
    let kind = if named(&LIBFABRIC) || ring.latency_inter >= LIBFABRIC_US {
        NetworkKind::Libfabric
    } else if is_direct {
        NetworkKind::Rdma
    } else if named(&VERBS) || used.iter().any(|nic| nic.port > 0) {
        NetworkKind::RdmaHost
    } else {
        NetworkKind::Sockets
    };
    let gbps: f32 = used.iter().map(|nic| carries(nic)).sum();
    (gbps > 0.0).then_some(NetworkOfNode { kind, gbps })
}
