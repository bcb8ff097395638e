//! Plans and graphs to test with.

use plan::nccl_graph::GpuAddress;
use plan::{
    Attempt, Duplication, Fingerprint, GpuGroup, Graph, GraphChannel, GraphKind, GraphPaths,
    HostRun, MachineCpu, MachineGpu, MachineNic, NeighborPath, Next, Pattern, Plan, PlanContent,
    PlannedMachine, Producer, RequestSummary, SearchEnd, Setting, Summary, Trail, neighbors,
};
use proptest::prelude::*;
use topology::{CpuArch, CpuModel, CpuVendor, PathType};

/// A job of `hosts` equal machines with two GPUs and one port.
pub(crate) fn plan_of(hosts: u32) -> Plan {
    Plan::new(content_of(hosts)).unwrap()
}

/// The content of that plan.
pub(crate) fn content_of(hosts: u32) -> PlanContent {
    let request = RequestSummary {
        hosts,
        nvlink_domain: false,
        collnet: false,
    };
    let settings = vec![Setting {
        name: "NCCL_CROSS_NIC".to_owned(),
        value: "0".to_owned(),
    }];
    let fingerprint = Fingerprint::new("nccl-2.30")
        .topology(b"<system version=\"1\"/>", hosts)
        .settings(&settings)
        .request(&request)
        .finish();
    let producer = Producer {
        name: "topo".to_owned(),
        version: "0.1.0".to_owned(),
    };
    PlanContent {
        settings,
        hosts: vec![HostRun {
            machine: 0,
            count: hosts,
            first_rank: 0,
        }],
        machines: vec![machine()],
        producer,
        profile: "nccl-2.30".to_owned(),
        fingerprint,
        request,
        rank_order: None,
        common: None,
        costs: None,
        forests: None,
        measured: None,
        assumptions: Vec::new(),
    }
}

fn machine() -> PlannedMachine {
    let gpu = |rank: u32| MachineGpu {
        rank,
        host: 0,
        dev: rank as i32,
        bus_id: format!("0000:{:02x}:00.0", 0x10 * (rank + 1)),
        sm: 80,
        gdr: true,
        numa: Some(0),
        cpu_affinity: Some("ffff".to_owned()),
    };
    let nic = MachineNic {
        id: 0,
        host: 0,
        dev: 0,
        name: Some("mlx5_0".to_owned()),
        bus_id: None,
        speed: 25.0,
        port: 1,
        gdr: true,
    };
    let channels = vec![GraphChannel {
        ranks: vec![0, 1],
        nets: Some([0, 0]),
    }];
    let ring = Graph {
        channels,
        bw_intra: 12.1,
        bw_inter: 0.24,
        type_intra: PathType::Nvl,
        type_inter: PathType::Pix,
        ..Graph::empty(GraphKind::Ring, Pattern::Ring)
    };
    PlannedMachine {
        name: "two-gpus".to_owned(),
        summary: "2 GPUs sm80, 1 NIC".to_owned(),
        hosts: 1,
        cpu: MachineCpu {
            arch: CpuArch::X86,
            vendor: CpuVendor::Amd,
            model: CpuModel::Other,
        },
        gpus: vec![gpu(0), gpu(1)],
        nics: vec![nic],
        groups: vec![GpuGroup {
            ranks: vec![0, 1],
            inter: true,
            max_bw: 25.0,
            total_bw: 48.2,
            paths: vec![paths_of(&ring)],
            trails: vec![trail()],
            graphs: vec![ring],
            transports: None,
        }],
    }
}

/// Paths of one type behind all hops of a graph.
pub(crate) fn paths_of(graph: &Graph) -> GraphPaths {
    let hops = |channel| {
        let hops = neighbors(graph.pattern, channel).into_iter();
        hops.map(|(from, to)| NeighborPath {
            from,
            to,
            path_type: PathType::Pix,
            bw: 12.1,
        })
        .collect()
    };
    GraphPaths {
        kind: graph.kind,
        channels: graph.channels.iter().map(hops).collect(),
    }
}

fn trail() -> Trail {
    let best = Summary {
        channels: 1,
        bw_intra: 12.1,
        bw_inter: 0.24,
        type_intra: PathType::Nvl,
        type_inter: PathType::Pix,
        pattern: Pattern::Ring,
        cross_nic: 0,
        hops: 6,
    };
    let attempt = Attempt {
        pass: 1,
        pattern: Pattern::Ring,
        cross_nic: 0,
        same_channels: true,
        type_intra: PathType::Nvl,
        type_inter: PathType::Pix,
        bw_intra: 12.1,
        bw_inter: 0.24,
        min_channels: 1,
        budget: 256,
        budget_left: -1,
        improved: true,
        best,
        next: Next::Stop,
    };
    Trail {
        kind: GraphKind::Ring,
        attempts: vec![attempt],
        end: SearchEnd::Perfect,
        duplicated: Some(Duplication { from: 1, to: 2 }),
        budget_left: 524_288,
    }
}

/// The GPUs of two hosts of an NVLink domain, ranks in an order of their own.
pub(crate) fn gpus(count: i32) -> Vec<GpuAddress> {
    (0..count)
        .map(|index| GpuAddress {
            rank: count - 1 - index,
            host: (index % 2) as u32,
            dev: index / 2,
        })
        .collect()
}

/// Any finite number.
pub(crate) fn any_finite() -> impl Strategy<Value = f32> {
    any::<u32>()
        .prop_map(f32::from_bits)
        .prop_filter("JSON has finite numbers only", |number| number.is_finite())
}

/// A number of six digits, which graph files can hold.
fn short_number() -> impl Strategy<Value = f32> {
    (0..1_000_000i32, -9..9i32)
        .prop_map(|(digits, exponent)| format!("{digits}e{exponent}").parse().unwrap_or(0.0))
}

fn path_type() -> impl Strategy<Value = PathType> {
    use PathType::{Loc, Nvb, Nvl, P2c, Phb, Pix, Pxb, Pxn, Sys};
    prop::sample::select(vec![Loc, Nvl, Nvb, Pix, Pxb, P2c, Pxn, Phb, Sys])
}

fn channel(kind: GraphKind, gpus: i32) -> impl Strategy<Value = GraphChannel> {
    let ranks = Just((0..gpus).collect::<Vec<i32>>()).prop_shuffle();
    let net = prop_oneof![Just(-1i64), 0..8i64, any::<i64>()];
    (ranks, prop::option::of([net.clone(), net])).prop_map(move |(mut ranks, nets)| {
        ranks.truncate(if kind == GraphKind::Nvls {
            1
        } else {
            ranks.len()
        });
        GraphChannel { ranks, nets }
    })
}

/// Any graph that NCCL's files can hold, for a machine with `gpus` GPUs.
pub(crate) fn graph(kind: GraphKind, gpus: i32) -> impl Strategy<Value = Graph> {
    let pattern =
        prop::sample::select((1..=6).filter_map(Pattern::from_number).collect::<Vec<_>>());
    let channels = prop::collection::vec(channel(kind, gpus), 0..5);
    let numbers = [short_number(), short_number(), short_number()];
    (
        pattern,
        0..3i32,
        any::<bool>(),
        numbers,
        path_type(),
        path_type(),
        channels,
    )
        .prop_map(
            move |(
                pattern,
                cross_nic,
                same_channels,
                [bw_intra, bw_inter, latency_inter],
                type_intra,
                type_inter,
                channels,
            )| {
                Graph {
                    kind,
                    pattern,
                    cross_nic,
                    same_channels,
                    bw_intra,
                    bw_inter,
                    latency_inter,
                    type_intra,
                    type_inter,
                    channels,
                }
            },
        )
}
